"""The heads of a transformer: a map for every measure, the card of each head, and all numbers.

The page shows the card of one head at a time, with heatmaps of a few texts.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import polars as pl

from attnaudit.core import count
from attnaudit.experiments import measure_label
from attnaudit.report.card import head_cards
from attnaudit.report.meanings import measure_meaning
from attnaudit.report.page import Section
from attnaudit.report.sections.heatmaps import heatmap, of_heads, read_instances
from attnaudit.report.sections.instances import LISTED_TOKENS, read_rows
from attnaudit.report.sections.numbers import summary_cell
from attnaudit.report.words import anchor, figure, name_head
from attnaudit.results import OF_HEAD, TEXT, Head, Heads, RunRecord
from attnaudit.results.summary import head_of
from attnaudit.trace import Trace

STRENGTH = "max_delta_y"  # the measure by which heads are ordered, strongest first
# Measures with a map, those first that say how much a head matters.
MAPPED = (
    *(STRENGTH, "flips", "max_delta_y_words", "median_delta_y", "emax_jsd", "tau_gradient"),
    *("tau_loo", "area_attention", "null_share", "max_alpha"),
)
MOST_CELLS = 3000  # of all maps: a larger model has those of its first measures
MOST_CARDS = 150  # heads with a card; of a larger model those that can change the output most
MOST_TEXTS = 192  # heatmaps of all heads together
TEXTS = 3  # heatmaps of a head, where there are not too many heads


def heads_section(
    record: RunRecord, trace: Trace | str | Path | None, rows: pl.DataFrame
) -> Section | None:
    """Make maps of the heads, the cards of heads, and a table with a row for each.

    Args:
        record: The run.
        trace: Its trace; without it there are no heatmaps.
        rows: The experiments' tables, joined.

    Returns:
        The section; None if the summary has no heads.

    Raises:
        TraceError: If the trace cannot be read.
    """
    of_heads = pl.col("group").str.starts_with(OF_HEAD), pl.col("value").is_not_null()
    summary = record.summary.filter(*of_heads)
    if not summary.height:
        return None
    audited = Heads.of(summary)
    unit = TEXT if audited is None else audited.unit
    known: dict[str, dict[Head, dict[str, Any]]] = {}
    for row in summary.iter_rows(named=True):
        if row["measure"] in MAPPED:
            known.setdefault(row["measure"], {})[head_of(row["group"])] = row
    heads = sorted({head_of(group) for group in summary["group"]})
    mapped = sorted(known, key=MAPPED.index)[: max(MOST_CELLS // len(heads), 1)]
    cells = {
        name: {head: summary_cell(row) for head, row in known[name].items()} for name in mapped
    }
    strength = {head: row["value"] for head, row in known.get(STRENGTH, {}).items()}
    cards = head_cards(record.summary, record.about)
    carded = sorted(cards, key=lambda head: (-strength.get(head, 0.0), head))[:MOST_CARDS]
    texts = {} if trace is None else _texts(record, trace, rows, carded)
    notes = []
    if len(carded) < len(cards):
        some = f"{count(len(carded), 'head')} that can change the output most, of {len(cards)}"
        notes.append(f"Cards of the {some}.")
    if texts:
        some = "" if len(texts) == len(carded) else f" of the {len(texts)} strongest heads"
        notes.append(f"Heatmaps{some}: texts drawn with the run's seed, the same for every head.")
    content = {
        "maps": [_map(name, known[name], heads, unit) for name in mapped],
        "rows": [
            (anchor(head), *head, [cells[name].get(head) for name in mapped]) for head in heads
        ],
        "layers": len({layer for layer, _ in heads}),
        "shown": anchor(carded[0]) if carded else "",
        "cards": [
            (anchor(head), name_head(head).capitalize(), cards[head].rows)
            for head in sorted(carded)
        ],
        "note": " ".join(notes),
        "meaning_of": lambda name, of: measure_meaning(name, of, unit),
    }
    scripts = ("heatmap.js", "sections/heads.js") if carded else ()
    data = {"head-texts-data": texts} if carded else {}
    return Section("heads", content, "Heads", scripts, data, ("heads.css",))


def _map(
    measure: str, rows: Mapping[Head, Mapping[str, Any]], heads: Sequence[Head], unit: str
) -> dict[str, Any]:
    """Shade a measure over layers and heads, from its lowest to its highest value."""
    values = {head: row["value"] for head, row in rows.items()}
    low, high = min(values.values()), max(values.values())
    places = 2 if high - low > 0.1 else 3
    cells = {
        head: (anchor(head), figure(value, places), round((value - low) / ((high - low) or 1.0), 3))
        for head, value in values.items()
    }
    layers, width = sorted({layer for layer, _ in heads}, reverse=True), max(h for _, h in heads)
    experiment = next(iter(rows.values()))["experiment"]
    return {
        "label": measure_label(measure, experiment),
        "meaning": measure_meaning(measure, experiment, unit),
        "ends": (figure(low, 3), figure(high, 3)),
        "rows": [(layer, [cells.get((layer, h)) for h in range(width + 1)]) for layer in layers],
    }


def _texts(
    record: RunRecord, trace: Trace | str | Path, rows: pl.DataFrame, heads: Sequence[Head]
) -> dict[str, list[dict[str, Any]]]:
    """Draw the texts of each head: random ones, the same for all heads that have rows of them."""
    if not heads or not {"layer", "head"} <= set(rows.columns):
        return {}
    each = min(max(MOST_TEXTS // len(heads), 1), TEXTS)
    rng = np.random.default_rng([record.about.seed or 0, crc32(b"heads")])
    order = rng.permutation(rows["instance"].unique().sort().to_numpy())
    ranks = {text: rank for rank, text in enumerate(order.tolist())}
    # By head, the first row of each text in the order of the texts.
    rows_of: dict[Head, dict[int, int]] = {head: {} for head in heads[: MOST_TEXTS // each]}
    for row, (text, *head) in enumerate(rows.select("instance", "layer", "head").iter_rows()):
        rows_of.get((head[0], head[1]), {}).setdefault(ranks[text], row)
    chosen = {row: head for head, own in rows_of.items() for _, row in sorted(own.items())[:each]}
    picks, texts = sorted(chosen), dict[str, list[dict[str, Any]]]()
    instances = read_instances(*read_rows(trace, record, np.array(picks)))
    for row, one in zip(picks, instances, strict=True):
        facts = {"text": one.number, "predicted": one.predicted, "label": one.label}
        facts |= {"correct": one.correct, **of_heads(heatmap(one, LISTED_TOKENS)).as_json()}
        texts.setdefault(anchor(chosen[row]), []).append(facts)
    return texts
