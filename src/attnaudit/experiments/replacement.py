"""Does the output follow the words that attention marks, when words are replaced?

Source: the linear datamodeling score of Ilyas et al. 2022 and Cohen-Wang et al. 2024.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl
import polars.selectors as cs
from jaxtyping import Bool, Float

from attnaudit.core.papers import COHENWANG2024, ILYAS2022
from attnaudit.experiments.rows import (
    against_attention,
    differences,
    importance_scores,
    make_table,
    summarise_measures,
    taken_names,
    words_of,
)
from attnaudit.results.measures import SIGNED, Measure
from attnaudit.stats.measures import tvd
from attnaudit.trace import Trace
from attnaudit.trace.schema import flat, lengths_of

_KINDS = (
    ("replacement", "fall of the log-odds"),
    ("replacement_tvd", "change of the output"),
)
LEAST = 1e-45  # smallest float32, for a probability of 0, which has no logarithm
CLOSE = 2.0**-53  # and for the distance of a single float64 output from 0 or 1


DIGITS = 5  # of changes; smaller differences are float32 noise


class Copies(NamedTuple):
    """Copies of one text, each with some words replaced.

    Attributes:
        lost: The positions whose words are replaced.
        change: Fall of the predicted class's log-odds, then TVD, ``(2, M)``.
    """

    lost: Bool[np.ndarray, "M T"]
    change: Float[np.ndarray, "2 M"]


@dataclass(frozen=True)
class Replacement:
    """Rank correlation of a copy's lost score with the change of its output.

    In a copy of a text, words of other texts replace random words. The copy's loss of a score is
    the sum over the replaced words. ``replacement_<score>`` is Spearman's correlation, over the
    copies of a text, of the loss with the fall of the predicted class's log-odds, given the number
    of words replaced (a partial correlation). So it is 0 for a score that marks no word, such as
    uniform attention, and 1 if the output falls exactly by the marked words.
    ``replacement_tvd_<score>`` is the same with the TVD. Scores are ``attention``, ``gradient``,
    ``loo`` and each ``importance_<name>``.

    Rows of one position, and rows whose output no copy changes, are null. ``copies`` is the number
    of copies of a row. It is null for a row without copies; means exclude such rows.
    """

    name = "replacement"
    needs = ("replaced", "replaced_prediction")
    papers = (ILYAS2022, COHENWANG2024)
    measures = (
        *(
            Measure(
                f"{kind}_attention_minus_{kind}_{{score}}",
                f"{label} with words replaced, attention minus {{score}}, paired",
                "How much better the words that attention marks say what happens than those of "
                "another score, over the same instances.",
                "higher",
            )
            for kind, label in _KINDS[::-1]
        ),
        *(
            Measure(
                f"{kind}_{{score}}",
                f"{label} with words replaced, rank correlation, {{score}}",
                "Spearman's correlation of the score that copies of a text lose with the "
                f"{label}, given the number of words replaced, −1 to 1.",
                "higher",
                range=SIGNED,
            )
            for kind, label in _KINDS[::-1]
        ),
    )
    seed = 0

    def refuses(self, trace: Trace) -> str | None:
        """Explain why the experiment does not apply to a trace; None if it does."""
        if not trace.table["replaced"].null_count() < len(trace):
            return "no text of the trace has copies with words replaced"
        names = ("attention", "gradient", "loo", "tvd_attention")
        return taken_names(trace, names, "the scores of every trace")

    def __call__(self, trace: Trace) -> pl.DataFrame:
        """Compute the table, one row per row of the trace."""
        scores = {"attention": trace.alpha, **importance_scores(trace)}
        columns = {
            f"{kind}_{name}": np.full(len(trace), np.nan) for kind, _ in _KINDS for name in scores
        }
        words = trace.alpha.with_values(np.ones(len(trace.alpha.values)))
        if trace.has("special"):
            words = words_of(trace)[0].with_values(words_of(trace)[0].values.astype(np.float64))
        copies = trace.table["replaced"].list.len()
        is_given = copies.is_not_null().to_numpy()
        for row in np.flatnonzero(is_given & (words.sum() > 1)).tolist():
            lost, change = copies_of_row(trace, row)
            for name, score in scores.items():
                found = partial_spearman(lost, score[row] * words[row], change)
                for (kind, _), value in zip(_KINDS, found, strict=True):
                    columns[f"{kind}_{name}"][row] = value
        return make_table(trace, {"copies": copies, **columns})

    def summarise(self, table: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame:
        """Summarise rows with copies; others were not tested, so they are not undefined."""
        return summarise_measures(self, table.lazy().filter(pl.col("copies") > 0))

    @staticmethod
    def of_rows(table: pl.LazyFrame) -> pl.LazyFrame:
        """Select the correlations of each row, with attention's lead over every other score."""
        measures = table.select(cs.starts_with("replacement_"))
        names = measures.collect_schema().names()
        pairs = against_attention([name for name in names if "_tvd_" not in name], ["replacement"])
        pairs += against_attention(names, ["replacement_tvd"])
        return measures.with_columns(differences(*pairs))


def copies_of_row(trace: Trace, row: int) -> Copies:
    """Return the copies of one row of a trace."""
    lists, predicted = trace.table["replaced"][row], int(trace.predicted[row])
    runs = trace.table["replaced_prediction"][row].to_numpy()
    lost = np.zeros((len(lists), trace.alpha.lengths[row]), bool)
    lost[np.repeat(np.arange(len(lists)), lengths_of(lists)), flat(lists).to_numpy()] = True
    own = trace.prediction[row : row + 1]
    change = [
        log_odds(own, predicted) - log_odds(runs, predicted),
        tvd(runs, np.repeat(own, len(runs), axis=0)),
    ]
    return Copies(lost, np.round(change, DIGITS))


def log_odds(prediction: Float[np.ndarray, "n C"], predicted: int) -> Float[np.ndarray, " n"]:
    """Return the log-odds of a class against all others together."""
    if prediction.shape[1] == 1:
        positive = np.clip(prediction[:, 0], CLOSE, 1.0 - CLOSE)
        ours, others = (positive, 1.0 - positive) if predicted else (1.0 - positive, positive)
    else:
        ours, others = prediction[:, predicted], np.delete(prediction, predicted, 1).sum(axis=1)
    return np.log(np.maximum(ours, LEAST)) - np.log(np.maximum(others, LEAST))


def partial_spearman(
    lost: Bool[np.ndarray, "M T"],
    score: Float[np.ndarray, " T"],
    change: Float[np.ndarray, "k M"],
) -> Float[np.ndarray, " k"]:
    """Correlate copies' losses of a score with changes, given the number of words they lose.

    Args:
        lost: Positions that each copy loses.
        score: The score of each position.
        change: Changes of each copy.

    Returns:
        The partial rank correlation of each change: NaN if the number of words explains all of
        the change, 0 if it explains all of the loss.
    """
    number, loss = _ranks(lost.sum(axis=1)), _ranks(lost @ score)
    rest = _without(loss, number)
    found = []
    for one in change:
        changed = _without(_ranks(one), number)
        size = np.sqrt((rest @ rest) * (changed @ changed))
        # Sums of ranks are large, and their rounding error is far below 1.
        defined, constant = changed @ changed > 1e-3, rest @ rest <= 1e-3
        found.append(0.0 if defined and constant else rest @ changed / size if defined else np.nan)
    return np.array(found)


def _without(ranks: Float[np.ndarray, " M"], number: Float[np.ndarray, " M"]) -> np.ndarray:
    """Return the residuals of ranks after a linear fit on the ranks of the number of words."""
    own, line = ranks - ranks.mean(), number - number.mean()
    return own - line * (own @ line) / max(line @ line, 1.0)


def _ranks(values: np.ndarray) -> Float[np.ndarray, " M"]:
    """Rank numbers from 1; equal ones share their mean rank."""
    # Sums of the same words in another order differ by rounding.
    _, place, counts = np.unique(np.round(values, 12), return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - 0.5 * (counts - 1.0))[place]
