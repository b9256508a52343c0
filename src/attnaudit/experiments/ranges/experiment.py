"""How much attention could, and how much must, each token have for nearly the same output?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from jaxtyping import Bool

from attnaudit.core.numbers import thousands
from attnaudit.core.papers import JAIN2019, WIEGREFFE2019
from attnaudit.core.ragged import Ragged
from attnaudit.core.settings import setting
from attnaudit.experiments.adversary.exact import one_logit_decides, slab_within
from attnaudit.experiments.adversary.experiment import Adversary
from attnaudit.experiments.ranges.logits import row_logits
from attnaudit.experiments.ranges.one_logit import ranges_in_slab
from attnaudit.experiments.ranges.outputs import most_halfspaces
from attnaudit.experiments.ranges.programs import Bounds, bounds_of_row
from attnaudit.experiments.rows import (
    keys,
    list_column,
    no_single_decision,
    of_kept_words,
    require,
    row_streams,
)
from attnaudit.experiments.through_tail import through_network
from attnaudit.results import summarise_means
from attnaudit.results.about import About
from attnaudit.results.card import CardRow, Claim, SummaryRows, card_row
from attnaudit.results.charts import FigureSpec, Histogram, Marker, Scale, Violins
from attnaudit.results.groups import by_group
from attnaudit.results.measures import Measure
from attnaudit.results.words import figure, percent
from attnaudit.trace import Trace

LARGEST = 500_000  # T² · half-spaces of the rows whose programs are solved, about half a second
NEGLIGIBLE = 1e-9  # a necessary weight up to it is rounding
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


@dataclass(frozen=True)
class Ranges:
    """The largest and the least weight that each token has in any attention whose output is within TVD ``epsilon`` of the model's.

    The table has a list of a weight for each token: ``possible`` (the largest) and ``necessary`` (the least), which some attention within
    ``epsilon`` has, and ``possible_upper`` and ``necessary_lower``, beyond which no such attention goes. Where one logit decides the two
    are the same and exact; for several outputs, or behind a tanh tail, weights are searched for, and linear programs give the bounds, for a
    ``share`` of the rows.

    ``mean_possible`` is the mean over the tokens, ``any_necessary`` whether some token must have any weight, ``top_necessary`` the
    necessary weight of the most attended token, of equal ones the largest; with bounds ``mean_possible_upper``, ``any_necessary_upper``
    (whether no attention was found without it) and ``top_necessary_lower``. All are null in rows of one token, in those that were not
    drawn, and in those whose programs would take too long.
    """

    name = "ranges"
    needs = ()
    question = "How much attention could, and must, each token have with nearly the same output?"
    papers = (JAIN2019, WIEGREFFE2019)
    measures = (
        Measure(
            "mean_possible",
            "mean possible weight",
            "Largest weight of a token in any attention found whose output stays within ε, mean over tokens, 0 to 1.",
            "lower",
        ),
        Measure(
            "mean_possible_upper",
            "mean possible weight, upper bound",
            "Weight that a token exceeds in no attention whose output stays within ε, mean over tokens, 0 to 1.",
        ),
        Measure(
            "any_necessary",
            "share with a token that must be attended",
            "Share of instances where some token has a weight above 0 in every attention whose output stays within ε.",
            "higher",
        ),
        Measure(
            "any_necessary_upper",
            "share with a token that must be attended, upper bound",
            "Share of instances where some token has a weight above 0 in every attention found whose output stays within ε.",
        ),
        Measure(
            "top_necessary",
            "necessary weight of the most attended token",
            "Least weight of the most attended token in any attention found whose output stays within ε, 0 to 1.",
            "higher",
        ),
        Measure(
            "top_necessary_lower",
            "necessary weight of the most attended token, lower bound",
            "Weight that the most attended token has at least in every attention whose output stays within ε, 0 to 1.",
        ),
    )
    figures = (
        FigureSpec(
            "ranges",
            question,
            (
                Histogram("mean_possible", Scale("mean possible weight"), markers=_markers),
                Violins("mean_possible", Scale("mean possible weight"), "By the largest weight"),
            ),
            _CAPTION,
            reads=("mean_possible_upper",),
        ),
    )
    seed: int = 0
    epsilon: float = setting(
        "Largest change of the output, in TVD, that counts as nearly the same; default: as for the adversary.",
        0.01,
    )
    share: float = setting(
        "With several outputs, or behind a tanh tail: share of the rows to solve, drawn with the seed.",
        0.1,
    )

    def __post_init__(self) -> None:
        require(self, "epsilon", 0 <= self.epsilon <= 1, "a distance from 0 to 1")
        require(self, "share", 0 < self.share <= 1, "a share above 0, up to 1")

    def refuses(self, trace: Trace) -> str | None:
        return through_network(trace) or no_single_decision(trace)

    def __call__(self, trace: Trace) -> pl.DataFrame:
        alpha, readout = trace.alpha, trace.readout
        if one_logit_decides(readout):
            computed, several = np.ones(len(alpha), bool), alpha.lengths > 1
            exact = ranges_in_slab(alpha, slab_within(readout, alpha, self.epsilon))
            bounds = Bounds(exact.possible, exact.necessary, exact.possible, exact.necessary)
        else:
            computed = self._drawn(trace) & self._solvable(trace)
            several = computed & (alpha.lengths > 1)
            bounds = _by_programs(trace, computed, self.epsilon)
        return keys(trace).with_columns(
            *_lists(alpha, bounds, computed), *_of_rows(alpha, bounds, several)
        )

    def _drawn(self, trace: Trace) -> Bool[np.ndarray, " n"]:
        uniform = (row_streams(trace, self.seed, self.name) >> np.uint64(11)) * 2.0**-53
        return uniform < self.share

    def _solvable(self, trace: Trace) -> Bool[np.ndarray, " n"]:
        classes = trace.prediction.shape[1]
        allowed = (
            np.full(len(trace), max(classes, 2))
            if trace.candidates is None
            else trace.candidates.sum(axis=1)
        )
        return (
            trace.alpha.lengths**2
            * np.array([most_halfspaces(count) for count in allowed.tolist()])
            <= LARGEST
        )

    def summarise(self, table: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame:
        names = [measure.name for measure in self.measures]
        return summarise_means(
            self.name, by_group(table, lambda rows: rows.select(names)), self.seed
        )

    @staticmethod
    def card_rows(rows: SummaryRows, about: About) -> Iterator[CardRow]:
        row, upper = (
            rows.get("ranges", "mean_possible"),
            rows.value("ranges", "mean_possible_upper"),
        )
        if row is None or upper is None:
            return
        loose = upper - row["value"] > SEEN_GAP
        yield card_row(
            Ranges.question,
            f"mean possible weight{', found' if loose else ''}",
            row,
            f"{f'at most {figure(upper)} (upper bound); ' if loose else ''}1: any token could have all attention",
            _sentence(row, loose, rows, about),
            mark=upper if loose else None,
            claim=_claim(row["value"], rows),
        )


def _by_programs(trace: Trace, computed: Bool[np.ndarray, " n"], epsilon: float) -> Bounds:
    """The bounds of all rows, flat; NaN where they are not computed. What the adversary finds is possible."""
    flat, rows = (
        np.full((len(Bounds._fields), len(trace.alpha.values)), np.nan),
        np.flatnonzero(computed),
    )
    some = trace.take(rows)
    furthest = Adversary(epsilon=epsilon).bounded(some, epsilon).attention
    for number, row in enumerate(rows.tolist()):
        logits = row_logits(some.readout, some.alpha[number], number)
        flat[:, trace.alpha.offsets[row] : trace.alpha.offsets[row + 1]] = bounds_of_row(
            logits, epsilon, furthest[number]
        )
    return Bounds(*flat)


def _lists(alpha: Ragged, bounds: Bounds, computed: Bool[np.ndarray, " n"]) -> Iterator[pl.Series]:
    """A list for each row of what the bounds say of its tokens, null where they are not computed."""
    for name, values in bounds._asdict().items():
        yield _null_but(computed, list_column(name, alpha.with_values(values)))


def _of_rows(alpha: Ragged, bounds: Bounds, several: Bool[np.ndarray, " n"]) -> Iterator[pl.Series]:
    """The measures of each row, null but for those marked."""
    top = alpha.values == alpha.spread(alpha.max())
    columns = {
        "mean_possible": alpha.with_values(bounds.possible).sum() / alpha.lengths,
        "mean_possible_upper": alpha.with_values(bounds.possible_upper).sum() / alpha.lengths,
        "any_necessary": alpha.with_values(bounds.necessary_lower).max() > NEGLIGIBLE,
        "any_necessary_upper": alpha.with_values(bounds.necessary).max() > NEGLIGIBLE,
        "top_necessary": alpha.with_values(np.where(top, bounds.necessary, 0.0)).max(),
        "top_necessary_lower": alpha.with_values(np.where(top, bounds.necessary_lower, 0.0)).max(),
    }
    for name, values in columns.items():
        yield _null_but(several, pl.Series(name, values))


def _null_but(known: Bool[np.ndarray, " n"], values: pl.Series) -> pl.Series:
    return (
        values
        if known.all()
        else pl.select(pl.when(pl.Series(known)).then(values).alias(values.name)).to_series()
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
