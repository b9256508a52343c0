"""How much attention could, and how much must, each token have for nearly the same output?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl
from jaxtyping import Bool

from attnaudit.core.papers import JAIN2019, WIEGREFFE2019
from attnaudit.core.ragged import Ragged
from attnaudit.core.settings import setting
from attnaudit.experiments.adversary.exact import one_logit_decides, slab_within
from attnaudit.experiments.adversary.experiment import Adversary
from attnaudit.experiments.ranges.logits import row_logits
from attnaudit.experiments.ranges.line import ranges_in_slab
from attnaudit.experiments.ranges.outputs import most_halfspaces
from attnaudit.experiments.ranges.programs import Bounds, bounds_of_row
from attnaudit.experiments.rows import (
    keys,
    list_column,
    no_single_decision,
    require,
    row_streams,
)
from attnaudit.experiments.through_tail import through_network
from attnaudit.results import summarise_means
from attnaudit.results.groups import by_group
from attnaudit.results.measures import Measure
from attnaudit.trace import Trace

LARGEST = 500_000  # T² · half-spaces of the rows whose programs are solved, about half a second
NEGLIGIBLE = 1e-9  # a necessary weight up to it is rounding


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
