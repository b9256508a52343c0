"""The card of each head, as of the model, with heatmaps of a few of its texts.

The page shows those of one head at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import polars as pl

from attnaudit.core.numbers import count
from attnaudit.report.card import head_cards
from attnaudit.report.cards.card import CardRow
from attnaudit.report.sections.heatmaps import heatmap, read_instances
from attnaudit.report.sections.instances import LISTED_TOKENS, rows_shown
from attnaudit.report.words import anchor, name_head
from attnaudit.results.record import RunRecord
from attnaudit.results.summary import Head
from attnaudit.trace import Trace

MOST_CARDS = 400  # heads with a card; of a larger model those that can change the output most
MOST_TEXTS = 192  # heatmaps of all heads together
TEXTS = 3  # heatmaps of a head, where there are not too many heads
STRENGTH = "max_delta_y"  # the measure by which heads are ordered, strongest first
CHANGED, DRAWN, FREE = "largest change of the output", "drawn at random", "highest ε-max JSD"
_REASONS = {
    CHANGED: "the one whose output its weights can change most",
    DRAWN: "one drawn with the run's seed, the same for every head",
    FREE: "the one with the highest ε-max JSD",
}


@dataclass(frozen=True)
class HeadView:
    """One head on a page.

    Attributes:
        title: Name of the head.
        shown: Address of the head.
        rows: Rows of its card, and whether one is hidden since this head has none.
        heads: Address and name of every head, for a choice.
        note: Says which texts there are.
        data: The same of every head, for the page's script.
    """

    title: str
    shown: str
    rows: tuple[tuple[CardRow, bool], ...]
    heads: tuple[tuple[str, str], ...]
    note: str
    data: Mapping[str, Any]


def head_view(
    record: RunRecord, trace: Trace | str | Path | None, rows: pl.DataFrame
) -> HeadView | None:
    """Make cards and heatmaps of the heads of a run; None without heads.

    Args:
        record: The run.
        trace: Its trace; without it there are no heatmaps.
        rows: The experiments' tables, joined.

    Raises:
        TraceError: If the trace cannot be read.
    """
    made = head_cards(record.summary, record.about)
    if not made:
        return None
    strength = dict(record.summary.filter(measure=STRENGTH).select("group", "value").iter_rows())
    order = sorted(
        made, key=lambda head: (-(strength.get(f"head:{head[0]}.{head[1]}") or 0.0), head)
    )
    order = order[:MOST_CARDS]
    cards = {
        head: {(row.experiment, row.question): row for row in made[head].rows} for head in order
    }
    # The longest card first, so that rows stand in the order of the cards.
    every: dict[tuple[str, str], CardRow] = {}
    for card in sorted(cards.values(), key=len, reverse=True):
        every |= {name: row for name, row in card.items() if name not in every}
    texts = {} if trace is None else _texts(record, trace, rows, order)
    first = cards[order[0]]
    data = {
        anchor(head): {
            "title": _title(head),
            "rows": [_numbers(cards[head].get(name)) for name in every],
            "texts": texts.get(head, []),
        }
        for head in order
    }
    return HeadView(
        title=_title(order[0]),
        shown=anchor(order[0]),
        rows=tuple((first.get(name, row), name not in first) for name, row in every.items()),
        heads=tuple((anchor(head), _title(head)) for head in sorted(order)),
        note=_note(len(order), len(made), texts),
        data=data,
    )


def _title(head: Head) -> str:
    return name_head(head).capitalize()


def _numbers(row: CardRow | None) -> list[Any] | None:
    """Return what differs from head to head in a row of the card.

    The last are the parts of the gauge, as the template draws them: class, left end and perhaps
    width, in percent.
    """
    if row is None:
        return None
    low, high = row.scale

    def place(value: float, start: float = low) -> float:
        return round(100 * (value - start) / (high - low), 2)

    gauge: list[tuple[Any, ...]] = [("dot", place(row.value))]
    if low < 0:
        gauge.insert(0, ("zero", place(0.0)))
    if row.mark is not None:
        gauge.insert(0, ("mark", place(row.mark)))
    if row.low is not None and row.high is not None:
        gauge.insert(0, ("range", place(row.low), place(row.high, row.low)))
    return [row.figure, row.interval, row.yardstick, row.sentence, gauge]


def _note(cards: int, heads: int, texts: Mapping[Head, Sequence[Mapping[str, Any]]]) -> str:
    """Say which heads have a card, and which of their texts are shown."""
    parts = []
    if cards < heads:
        some = f"{count(cards, 'head')} that can change the output most, of {heads}"
        parts.append(f"Cards of the {some}.")
    if texts:
        shown = {text["why"] for each in texts.values() for text in each}
        reasons = [reason for why, reason in _REASONS.items() if why in shown]
        some = "" if len(texts) == cards else f" of the {len(texts)} strongest heads"
        each = f"up to {count(len(reasons), 'text')} of each head"
        parts.append(f"Heatmaps{some}, {each}: {'; '.join(reasons)}.")
    return " ".join(parts)


def _texts(
    record: RunRecord, trace: Trace | str | Path, rows: pl.DataFrame, heads: Sequence[Head]
) -> dict[Head, list[dict[str, Any]]]:
    """Draw the texts of each head, with the reason why they are shown."""
    if not {"layer", "head"} <= set(rows.columns):
        return {}
    each = min(max(MOST_TEXTS // len(heads), 1), TEXTS)
    numbered = rows.with_row_index("row").partition_by("layer", "head", as_dict=True)
    rng = np.random.default_rng([record.about.seed or 0, crc32(b"heads")])
    shared = rng.choice(np.unique(rows["instance"].to_numpy()))
    chosen = {
        head: dict(list(_chosen(numbered[head], int(shared)))[:each])
        for head in heads[: MOST_TEXTS // each]
        if head in numbered
    }
    picks = np.unique([row for texts in chosen.values() for row in texts]).astype(np.int64)
    places = picks if record.sample is None else record.sample[picks]
    instances = read_instances(rows_shown(trace, places), record.rows(places))
    pictures = {}
    for row, one in zip(picks.tolist(), instances, strict=True):
        of_text = {"text": one.number, "predicted": one.predicted, "label": one.label}
        picture = heatmap(one, LISTED_TOKENS).as_json()
        pictures[row] = of_text | {"correct": one.correct} | picture
    return {
        head: [{"why": why, **pictures[row]} for row, why in texts.items()]
        for head, texts in chosen.items()
    }


def _chosen(rows: pl.DataFrame, shared: int) -> Iterator[tuple[int, str]]:
    """Yield rows of one head, each once, with the reason why it is shown."""
    seen: set[int] = set()
    for why, column in ((CHANGED, STRENGTH), (DRAWN, ""), (FREE, "emax_jsd")):
        if column and column not in rows.columns:
            continue
        found = rows.filter(instance=shared)
        if column:
            known = rows.drop_nulls(column).drop_nans(column)
            found = known.sort(column, descending=True, maintain_order=True)
        if found.height and found["row"][0] not in seen:
            seen.add(found["row"][0])
            yield int(found["row"][0]), why
