"""The card of each head, as of the model, with heatmaps of a few of its texts: the page shows those of one head at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import polars as pl

from attnaudit.core.numbers import count
from attnaudit.report.card import head_cards
from attnaudit.report.cards.card import CardRow
from attnaudit.report.sections.heatmaps import Instance, heatmap, read_instances
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
    CHANGED: "the one whose output its weights can change most", DRAWN: "one drawn with the run's seed, the same for every head",
    FREE: "the one with the highest ε-max JSD",
}  # fmt: skip


class ShownRow(NamedTuple):
    """A row of a card with figures of the head that the page shows first; ``hidden`` where this one has none."""

    row: CardRow
    hidden: bool


@dataclass(frozen=True)
class HeadView:
    """What a page shows of one head: its ``title`` and card ``rows``. ``data`` has the same of every head, for the page's script.

    ``heads`` are (address, name) for a choice, ``shown`` the address of the first; ``note`` says which texts there are.
    """

    title: str
    shown: str
    rows: tuple[ShownRow, ...]
    heads: tuple[tuple[str, str], ...]
    note: str
    data: Mapping[str, Any]


def head_view(
    record: RunRecord, trace: Trace | str | Path | None, rows: pl.DataFrame
) -> HeadView | None:
    """Cards and heatmaps of the heads of a run; None without heads. ``rows`` are the joined tables. Raises TraceError."""
    cards = head_cards(record.summary, record.about)
    if not cards:
        return None
    order = _strongest_first(record.summary, list(cards))[:MOST_CARDS]
    every = {
        (row.experiment, row.question): row for head in reversed(order) for row in cards[head].rows
    }
    of_head = {
        head: {(row.experiment, row.question): row for row in cards[head].rows} for head in order
    }
    names = sorted(every, key=lambda name: _place(name, of_head))
    pictures, chosen = ({}, {}) if trace is None else _pictures(record, trace, rows, order)
    first = order[0]
    shown = tuple(
        ShownRow(of_head[first].get(name, every[name]), name not in of_head[first])
        for name in names
    )
    data = {
        anchor(head): {
            "title": _title(head), "rows": [_numbers(of_head[head].get(name)) for name in names],
            "texts": [{"why": why, **pictures[row]} for row, why in chosen.get(head, ())],
        }
        for head in order
    }  # fmt: skip
    choice = tuple((anchor(head), _title(head)) for head in sorted(order))
    return HeadView(
        _title(first), anchor(first), shown, choice, _note(len(order), len(cards), chosen), data
    )


def _title(head: Head) -> str:
    return name_head(head).capitalize()


def _place(name: tuple[str, str], of_head: Mapping[Head, Mapping[tuple[str, str], CardRow]]) -> int:
    """The place of a row in the cards: that of the card where it stands lowest."""
    return max(list(rows).index(name) for rows in of_head.values() if name in rows)


def _strongest_first(summary: pl.DataFrame, heads: Sequence[Head]) -> list[Head]:
    """Heads by how much they can change the output; those of which this is not known last, in order."""
    known = dict(summary.filter(measure=STRENGTH).select("group", "value").iter_rows())
    return sorted(heads, key=lambda head: (-(known.get(f"head:{head[0]}.{head[1]}") or 0.0), head))


def _numbers(row: CardRow | None) -> list[Any] | None:
    """What differs from head to head in a row of the card."""
    if row is None:
        return None
    return [row.figure, row.interval, row.yardstick, row.sentence, _gauge(row)]


def _gauge(row: CardRow) -> list[list[Any]]:
    """The parts of the gauge, as the template draws them: class, left end and perhaps width, in percent."""
    low, high = row.scale
    width = 100 / (high - low)
    interval = (
        []
        if row.low is None or row.high is None
        else [["range", (row.low - low) * width, (row.high - row.low) * width]]
    )
    mark = [] if row.mark is None else [["mark", (row.mark - low) * width]]
    zero = [["zero", -low * width]] if low < 0 else []
    return [
        [name, *(round(end, 2) for end in ends)]
        for name, *ends in (*interval, *mark, *zero, ["dot", (row.value - low) * width])
    ]


def _note(cards: int, heads: int, chosen: Mapping[Head, Sequence[tuple[int, str]]]) -> str:
    """Which heads have a card, and which of their texts are shown."""
    left_out = (
        ""
        if cards == heads
        else f"Cards of the {count(cards, 'head')} that can change the output most, of {heads}. "
    )
    if not chosen:
        return left_out
    reasons = [
        said
        for why, said in _REASONS.items()
        if any(why == other for texts in chosen.values() for _, other in texts)
    ]
    some = "" if len(chosen) == cards else f" of the {len(chosen)} strongest heads"
    return f"{left_out}Heatmaps{some}, up to {count(len(reasons), 'text')} of each head: {'; '.join(reasons)}."


def _pictures(
    record: RunRecord, trace: Trace | str | Path, rows: pl.DataFrame, heads: Sequence[Head]
) -> tuple[dict[int, dict[str, Any]], dict[Head, list[tuple[int, str]]]]:
    """Heatmaps by trace row, and the rows of each head with the reason why they are shown."""
    if not {"layer", "head"} <= set(rows.columns):
        return {}, {}
    each = min(max(MOST_TEXTS // len(heads), 1), TEXTS)
    numbered = rows.with_row_index("row").partition_by("layer", "head", as_dict=True)
    shared = np.random.default_rng([record.about.seed or 0, crc32(b"heads")]).choice(
        np.unique(rows["instance"].to_numpy())
    )
    chosen = {
        head: list(_chosen(numbered[head], int(shared), each))
        for head in heads[: MOST_TEXTS // each]
        if head in numbered
    }
    picks = np.unique([row for texts in chosen.values() for row, _ in texts]).astype(np.int64)
    places = picks if record.sample is None else record.sample[picks]
    instances = read_instances(rows_shown(trace, places), record.rows(places))
    return {row: _picture(one) for row, one in zip(picks.tolist(), instances, strict=True)}, chosen


def _chosen(rows: pl.DataFrame, shared: int, most: int) -> Iterator[tuple[int, str]]:
    """Up to ``most`` rows of one head, each once, with the reason."""
    candidates = (
        (_highest(rows, STRENGTH), CHANGED),
        (_first(rows.filter(instance=shared)), DRAWN),
        (_highest(rows, "emax_jsd"), FREE),
    )
    seen: set[int] = set()
    for row, why in candidates:
        if row is not None and row not in seen and len(seen) < most:
            seen.add(row)
            yield row, why


def _highest(rows: pl.DataFrame, column: str) -> int | None:
    """The row of the highest value of a column; None where there is none."""
    if column not in rows.columns:
        return None
    return _first(
        rows.drop_nulls(column).drop_nans(column).sort(column, descending=True, maintain_order=True)
    )


def _first(rows: pl.DataFrame) -> int | None:
    return int(rows["row"][0]) if rows.height else None


def _picture(instance: Instance) -> dict[str, Any]:
    """What the page's script draws a text from."""
    picture = heatmap(instance, LISTED_TOKENS).as_json()
    return {
        "text": instance.number,
        "predicted": instance.predicted,
        "label": instance.label,
        "correct": instance.correct,
        **picture,
    }
