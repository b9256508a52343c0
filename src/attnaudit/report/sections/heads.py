"""The heads of a transformer: a map of layers and heads for every measure, and all numbers of each head."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from attnaudit.experiments import measure_label
from attnaudit.report.meanings import measure_meaning
from attnaudit.report.page import Section
from attnaudit.report.sections.head_cards import HeadView
from attnaudit.report.sections.numbers import SummaryCell, summary_cell
from attnaudit.report.words import anchor, figure
from attnaudit.results import OF_HEAD
from attnaudit.results.record import RunRecord
from attnaudit.results.summary import TEXT, Head, Heads, head_of

MAPPED = (
    "max_delta_y", "flips", "max_delta_y_words", "median_delta_y", "emax_jsd", "tau_gradient", "tau_loo", "area_attention", "null_share",
    "max_alpha",
)  # fmt: skip  # the measures with a map, those first that say how much a head matters
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
    """Maps of the heads, ``view`` of one of them, and a table with a row for each; None where the summary has no heads."""
    heads = record.summary.filter(
        pl.col("group").str.starts_with(OF_HEAD), pl.col("value").is_not_null()
    )
    if not heads.height:
        return None
    audited = Heads.of(heads)
    unit = TEXT if audited is None else audited.unit
    found = {(row["measure"], head_of(row["group"])): row for row in heads.iter_rows(named=True)}
    names = sorted({head for _, head in found})
    measures = [
        (row["experiment"], row["measure"])
        for row in heads.unique(["experiment", "measure"], maintain_order=True).to_dicts()
    ]
    mapped = sorted(
        (one for one in measures if one[1] in MAPPED), key=lambda one: MAPPED.index(one[1])
    )
    mapped = mapped[: max(MOST_CELLS // len(names), 1)]
    maps = [_map(experiment, measure, found, names, unit) for experiment, measure in mapped]
    columns = [
        (measure_label(measure, experiment), measure_meaning(measure, experiment, unit))
        for experiment, measure in mapped
    ]
    rows = [
        (
            anchor(head),
            *head,
            [
                None if (row := found.get((measure, head))) is None else summary_cell(row)
                for _, measure in mapped
            ],
        )
        for head in names
    ]
    content = {
        "maps": maps, "columns": columns, "rows": rows, "layers": len({layer for layer, _ in names}), "view": view, "special": True,
        "meaning_of": lambda name, of: measure_meaning(name, of, unit),
    }  # fmt: skip
    data = {} if view is None else {"head-data": view.data}
    return Section(
        "heads",
        content,
        (("Heads", "#heads"),),
        ("heatmap.js", "sections/heads.js") if view else (),
        data,
        ("heads.css",),
    )


def _map(
    experiment: str,
    measure: str,
    found: Mapping[tuple[str, Head], dict[str, Any]],
    names: Sequence[Head],
    unit: str,
) -> Map:
    values = [row["value"] for (name, _), row in found.items() if name == measure]
    low, high = min(values), max(values)
    places = 2 if high - low > 0.1 else 3
    layers, heads = sorted({layer for layer, _ in names}), range(max(head for _, head in names) + 1)

    def cell(head: Head) -> Cell | None:
        row = found.get((measure, head))
        if row is None:
            return None
        shade = (row["value"] - low) / (high - low) if high > low else 0.0
        number: SummaryCell = summary_cell(row)
        return Cell(
            anchor(head),
            figure(row["value"], places),
            round(shade, 3),
            f"layer {head[0]}, head {head[1]}: {number.value} {number.interval}",
        )

    rows = tuple(
        (layer, tuple(cell((layer, head)) for head in heads)) for layer in reversed(layers)
    )
    meaning = measure_meaning(measure, experiment, unit)
    return Map(measure_label(measure, experiment), meaning, figure(low, 3), figure(high, 3), rows)
