"""The heads of a transformer: a map for every measure, and all numbers of each head."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from attnaudit.experiments import measure_label
from attnaudit.report.meanings import measure_meaning
from attnaudit.report.page import Section
from attnaudit.report.sections.head_cards import HeadView
from attnaudit.report.sections.numbers import summary_cell
from attnaudit.report.words import anchor, figure
from attnaudit.results import OF_HEAD
from attnaudit.results.record import RunRecord
from attnaudit.results.summary import TEXT, Head, Heads, head_of

# Measures with a map, those first that say how much a head matters.
MAPPED = (
    *("max_delta_y", "flips", "max_delta_y_words", "median_delta_y", "emax_jsd", "tau_gradient"),
    *("tau_loo", "area_attention", "null_share", "max_alpha"),
)
MOST_CELLS = 3000  # of all maps: a larger model has those of its first measures


@dataclass(frozen=True)
class Cell:
    """A head on a map: its value as text, its shade from 0 to 1, and the number of it in full."""

    head: str
    text: str
    shade: float
    detail: str


@dataclass(frozen=True)
class Map:
    """A measure over layers and heads: ``rows`` are (layer, a cell or None for each head)."""

    label: str
    meaning: str
    low: str
    high: str
    rows: tuple[tuple[int, tuple[Cell | None, ...]], ...]


def heads_section(record: RunRecord, view: HeadView | None) -> Section | None:
    """Make maps of the heads, ``view`` of one of them, and a table with a row for each.

    Returns:
        The section; None if the summary has no heads.
    """
    of_heads = pl.col("group").str.starts_with(OF_HEAD), pl.col("value").is_not_null()
    summary = record.summary.filter(*of_heads)
    if not summary.height:
        return None
    audited = Heads.of(summary)
    unit = TEXT if audited is None else audited.unit
    known: dict[str, dict[Head, dict[str, Any]]] = {}
    for row in summary.iter_rows(named=True):
        head = head_of(row["group"])
        if row["measure"] in MAPPED:
            known.setdefault(row["measure"], {})[head] = row
    heads = sorted({head_of(group) for group in summary["group"]})
    mapped = sorted(known, key=MAPPED.index)[: max(MOST_CELLS // len(heads), 1)]
    maps = [_map(name, known[name], heads, unit) for name in mapped]
    rows = [
        (anchor(head), *head, [_number(known[name].get(head)) for name in mapped]) for head in heads
    ]
    content = {
        "maps": maps,
        "columns": [(one.label, one.meaning) for one in maps],
        "rows": rows,
        "layers": len({layer for layer, _ in heads}),
        "view": view,
        "special": True,
        "meaning_of": lambda name, of: measure_meaning(name, of, unit),
    }
    scripts = ("heatmap.js", "sections/heads.js") if view else ()
    data = {} if view is None else {"head-data": view.data}
    return Section("heads", content, (("Heads", "#heads"),), scripts, data, ("heads.css",))


def _number(row: Mapping[str, Any] | None) -> Any:
    return None if row is None else summary_cell(row)


def _map(measure: str, rows: Mapping[Head, Mapping[str, Any]], names: list[Head], unit: str) -> Map:
    values = [row["value"] for row in rows.values()]
    low, high = min(values), max(values)
    places = 2 if high - low > 0.1 else 3

    def cell(head: Head) -> Cell | None:
        if head not in rows:
            return None
        value, number = rows[head]["value"], summary_cell(rows[head])
        shade = round((value - low) / ((high - low) or 1.0), 3)
        detail = f"layer {head[0]}, head {head[1]}: {number.value} {number.interval}"
        return Cell(anchor(head), figure(value, places), shade, detail)

    layers, width = sorted({layer for layer, _ in names}, reverse=True), max(h for _, h in names)
    lines = tuple((layer, tuple(cell((layer, h)) for h in range(width + 1))) for layer in layers)
    experiment = next(iter(rows.values()))["experiment"]
    label, meaning = measure_label(measure, experiment), measure_meaning(measure, experiment, unit)
    return Map(label, meaning, figure(low, 3), figure(high, 3), lines)
