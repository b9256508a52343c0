"""How much attention could, and how much must, each token have for nearly the same output?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import polars as pl

from attnaudit.core.numbers import thousands
from attnaudit.report.cards.card import Card
from attnaudit.report.cards.wording import of_kept_words
from attnaudit.results.about import About
from attnaudit.results.card import CardRow, Claim, SummaryRows, card_row
from attnaudit.results.charts import FigureSpec, Histogram, Marker, Scale, Violins
from attnaudit.results.words import figure, percent

QUESTION = "How much attention could, and must, each token have with nearly the same output?"

SEEN_GAP = 5e-3  # a bound closer than this to what was found has the same two decimals


HALF = 0.5


def _markers(rows: pl.DataFrame) -> tuple[Marker, ...]:
    found, upper = (
        rows[name].fill_nan(None).mean() for name in ("mean_possible", "mean_possible_upper")
    )
    if not (isinstance(found, float) and isinstance(upper, float)) or upper - found < SEEN_GAP:
        return ()
    return (Marker(upper, "mean upper bound", after=upper < HALF),)


_CAPTION = (
    "How much of the attention a token could have with the output within ε, mean over the tokens of an instance. At 1 the output says "
    "nothing about the weights; the farther left, the more it determines them."
)


def _claim(value: float, rows: SummaryRows) -> Claim | None:
    """Freedom is claimed by what was found, need by the bound: programs that find nothing show nothing."""
    kept = rows.get("ranges", "top_necessary_lower")
    decided = None if kept is None else (kept["low"], kept["high"])
    if kept is not None and kept["value"] >= HALF:
        return Claim(
            True,
            "to keep nearly the same output, most of the attention must stay on the most attended token",
            decided=decided,
        )
    if value < HALF:
        return None
    return Claim(
        False,
        "the average token could have most of the attention with nearly the same output",
        decided=decided,
    )


def _sentence(row: dict[str, Any], loose: bool, rows: SummaryRows, about: About) -> str:
    epsilon = about.setting("ranges", "epsilon")
    within = f"within ε = {epsilon:g}" if isinstance(epsilon, int | float) else "within ε"
    some, most = (rows.value("ranges", f"any_necessary{end}") or 0.0 for end in ("", "_upper"))
    least, kept = (rows.value("ranges", f"top_necessary{end}") or 0.0 for end in ("_lower", ""))
    drawn = (
        f" Computed for {thousands(row['n'])} of {thousands(row['n'] + row['undefined'])} instances."
        if row["undefined"]
        else ""
    )
    return (
        f"With the output {within} of the original, the average token could have {'at least ' if loose else ''}{figure(row['value'])} "
        f"of the attention. In {_between(some, most, percent)} of the instances some token must have a weight above 0; the most attended "
        f"token must keep a weight of {_between(least, kept, figure)} on average."
        f"{drawn}{rows.apart('ranges', 'mean_possible', 'Mean possible weight')}{of_kept_words(rows)}"
    )


def _between(low: float, high: float, text: Callable[[float], str]) -> str:
    """A number, or the ends between which it is, where these look different."""
    return text(low) if text(low) == text(high) else f"{text(low)} to {text(high)}"


def card_rows(rows: SummaryRows, about: About) -> Iterator[CardRow]:
    row, upper = (
        rows.get("ranges", "mean_possible"),
        rows.value("ranges", "mean_possible_upper"),
    )
    if row is None or upper is None:
        return
    loose = upper - row["value"] > SEEN_GAP
    yield card_row(
        QUESTION,
        f"mean possible weight{', found' if loose else ''}",
        row,
        f"{f'at most {figure(upper)} (upper bound); ' if loose else ''}1: any token could have all attention",
        _sentence(row, loose, rows, about),
        mark=upper if loose else None,
        claim=_claim(row["value"], rows),
    )


CARD = Card(
    question=QUESTION,
    rows=card_rows,
    figures=(
        FigureSpec(
            "ranges",
            QUESTION,
            (
                Histogram("mean_possible", Scale("mean possible weight"), markers=_markers),
                Violins("mean_possible", Scale("mean possible weight"), "By the largest weight"),
            ),
            _CAPTION,
            reads=("mean_possible_upper",),
        ),
    ),
)
