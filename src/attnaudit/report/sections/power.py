"""How many instances an interval of a given width needs, from the intervals of the measures on the card."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import NamedTuple

from attnaudit.core.numbers import thousands
from attnaudit.report.card import VerdictCard
from attnaudit.report.cards.card import CardRow
from attnaudit.report.meanings import measure_meaning
from attnaudit.report.page import Section
from attnaudit.report.words import figure
from attnaudit.results.summary import SummaryRows

WIDTHS = (0.05, 0.02, 0.01)  # half the width of the interval
FEWEST = 30  # below it widths do not shrink as 1/√n, and no number is given


class Needed(NamedTuple):
    """A measure of a question and what it means, half the width of its interval, how many were drawn for it, and how many each of `WIDTHS`
    needs, as text.
    """

    question: str
    measure: str
    meaning: str
    half: str
    drawn: str
    needed: tuple[str, ...]


def power_section(card: VerdictCard, documents: int, found: SummaryRows) -> Section | None:
    """A row for each measure of the card that has an interval; ``documents`` are what the intervals draw, of which a measure of ``found``
    may know fewer. None without any.
    """
    known = [
        (one, min(documents, found.instances(one.experiment, one.name) or documents))
        for one in (*card.rows, *card.further)
    ]
    rows = [
        row for row in (_needed(one, number, card.unit) for one, number in known) if row is not None
    ]
    widths = tuple(f"± {width}" for width in WIDTHS)
    return (
        Section("power", {"rows": rows, "widths": widths, "drawn": card.drawn})
        if rows and documents > 1
        else None
    )


def documents_needed(documents: int, half: float, widths: Sequence[float] = WIDTHS) -> list[int]:
    """How many documents intervals of ± each of ``widths`` need, where ``documents`` gave ± ``half``: widths shrink as 1/√n."""
    return [ceil(documents * (half / width) ** 2 - 1e-9) for width in widths]


def _needed(row: CardRow, documents: int, unit: str) -> Needed | None:
    if row.low is None or row.high is None or row.high <= row.low:
        return None
    half = 0.5 * (row.high - row.low)
    counts = documents_needed(documents, half)
    return Needed(
        row.question,
        row.measure,
        measure_meaning(row.name, row.experiment, unit),
        f"± {figure(half, 3)}",
        thousands(documents),
        tuple(thousands(count) if count >= FEWEST else f"< {FEWEST}" for count in counts),
    )
