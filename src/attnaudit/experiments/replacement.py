"""Does the output follow the words that a heatmap marks, when words are replaced?

Source: the linear datamodeling score of Ilyas et al. 2022 and Cohen-Wang et al. 2024.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl
import polars.selectors as cs
from jaxtyping import Bool, Float
from scipy.special import expit

from attnaudit.core.papers import COHENWANG2024, ILYAS2022
from attnaudit.core.ragged import Ragged
from attnaudit.core.shapes import PerClass, PerRow, PerToken, RowMask
from attnaudit.experiments.confidence import CONFIDENCE
from attnaudit.experiments.rows import (
    against_heatmap,
    differences,
    heatmap_name,
    judged_scores,
    make_table,
    no_single_decision,
    of_one_head,
    summarise_measures,
    taken_names,
    words_of,
)
from attnaudit.results import SIGNED, Measure, by_group, summarise_means
from attnaudit.trace import SHOWN, IdentityTail, LinearTail, Trace
from attnaudit.trace.schema import flat, lengths_of

REFERENCES = ("loo", "gradient")  # the first that a trace has is what a heatmap is compared with
SHARE = "replacement_share"
# Share of the reference from which heatmaps may be shown: in the fit half, the middle between the
# highest share of a model with unfaithful attention, 0.46, and the lowest of a faithful one, 0.71.
LIMIT = 0.6
LEAST = 1e-45  # smallest float32, in place of a probability of 0, which has no logarithm
CLOSE = 2.0**-53  # smallest distance of a single float64 output from 0 or 1, for the same reason
DIGITS = 5  # of changes; smaller differences are float32 noise


Lost = Bool[np.ndarray, "M T"]
PerCopy = Float[np.ndarray, " M"]


class Copies(NamedTuple):
    """Copies of one text, each with some words replaced.

    Attributes:
        lost: The positions whose words are replaced.
        fall: Fall of the log-odds of the predicted class.
        change: Change of the output at matched confidence.
    """

    lost: Lost
    fall: PerCopy
    change: PerCopy


@dataclass(frozen=True)
class Replacement:
    """Rank correlation of a copy's lost score with the change of its output.

    In a copy of a text, words of other texts replace random words. The copy's loss of a score is
    the sum over the replaced words. ``replacement_<score>`` is Spearman's correlation, over the
    copies of a text, of the loss with the change of the output, given the number of words replaced
    (a partial correlation). So it is 0 for a score that marks no word, such as uniform attention,
    and 1 if the output changes exactly by the marked words. Scores are ``attention``,
    ``gradient``, ``loo`` and each ``importance_<name>``. ``replacement_share`` is the mean
    correlation of the heatmap that is judged, ``shown`` if the trace has it, else ``attention``,
    divided by that of a reference, leave-one-out or, in traces without it, the gradient.

    The change is that of the predicted class's probability against the next class, with logits
    scaled so that this probability is `CONFIDENCE` in the text itself. So the model's confidence
    plays no part.

    Rows of one position, and rows whose output no copy changes, are null. ``copies`` is the number
    of copies of a row. It is null for a row without copies; means exclude such rows.
    """

    name = "replacement"
    of_scores = True
    needs = ("replaced", "replaced_prediction")
    papers = (ILYAS2022, COHENWANG2024)
    measures = (
        Measure(
            SHARE,
            "change with words replaced, the heatmap's share of the reference",
            "The mean correlation with the change of the output of the heatmap that is judged, "
            "attention or another, divided by that of leave-one-out, or of the gradient if "
            "leave-one-out is unknown: 1 is as good.",
            "higher",
            range=None,
        ),
        Measure(
            "replacement_{score}_minus_replacement_{score}",
            "change with words replaced, {score} minus {score}, paired",
            "One score's correlation with the change of the output minus that of another score, "
            "over the same texts.",
            "higher",
        ),
        Measure(
            "replacement_{score}",
            "change with words replaced, rank correlation, {score}",
            "Spearman's correlation of the score that copies lose with the change of the "
            "output, given the number of words replaced, −1 to 1.",
            "higher",
            range=SIGNED,
        ),
    )
    seed = 0

    def refuses(self, trace: Trace) -> str | None:
        """Explain why the experiment does not apply to a trace; None if it does."""
        if not trace.table["replaced"].null_count() < len(trace):
            return "no text of the trace has copies with words replaced"
        names = ("attention", "gradient", "loo", "share")
        return no_single_decision(trace) or taken_names(trace, names, "the scores of every trace")

    def __call__(self, trace: Trace) -> pl.DataFrame:
        """Compute the table, one row per row of the trace."""
        scores = judged_scores(trace)
        columns = {f"replacement_{name}": np.full(len(trace), np.nan) for name in scores}
        words = Ragged.from_lengths(np.ones(trace.lengths.sum()), trace.lengths)
        if trace.has("special"):
            words = words.with_values(words_of(trace)[0].values.astype(np.float64))
        copies = trace.table["replaced"].list.len()
        is_given = copies.is_not_null().to_numpy()
        text, known = b"", dict[bytes, float]()
        for row, (lost, _, change) in copies_of(trace, is_given & (words.sum() > 1)):
            # The heads of a text share its copies and all scores but attention.
            own = lost.tobytes() + change.tobytes()
            if own != text:
                text, known = own, {}
            for name, score in scores.items():
                values = score[row] * words[row]
                key = values.tobytes()
                if key not in known:
                    known[key] = partial_spearman(lost, values, change)
                columns[f"replacement_{name}"][row] = known[key]
        return make_table(trace, {"copies": copies, **columns})

    def summarise(self, table: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame:
        """Average the correlations, and divide the heatmap's by the reference's."""
        # A text without copies was not tested, so it does not count as undefined.
        tested = table.lazy().filter(pl.col("copies") > 0)
        means, names = summarise_measures(self, tested), tested.collect_schema().names()
        reference = next((name for name in REFERENCES if f"replacement_{name}" in names), None)
        if reference is not None:
            means = pl.concat([means, self._share(tested, means, reference)])
        is_shown = heatmap_name(names, self.name) == SHOWN
        of_head = pl.col("measure").str.contains("attention")
        return of_one_head(means, of_head) if is_shown else means

    def _share(self, table: pl.LazyFrame, means: pl.DataFrame, reference: str) -> pl.DataFrame:
        """Divide the heatmap's mean correlation by the reference's.

        The interval is that of the mean difference from `LIMIT` times the reference, on the scale
        of the share. So it excludes `LIMIT` exactly if the difference is shown not to be 0, even if
        the share is the same in every text, such as 0 for uniform attention.
        """
        heatmap = heatmap_name(table.collect_schema().names(), self.name)
        ours, other = (pl.col(f"replacement_{name}") for name in (heatmap, reference))
        groups = by_group(table, lambda rows: rows.select((ours - LIMIT * other).alias(SHARE)))
        divisor = means.filter(measure=f"replacement_{reference}").select("group", "value")
        found = summarise_means(self.name, groups, self.seed).join(
            divisor, "group", "left", suffix="_of_reference", maintain_order="left"
        )
        size = pl.col("value_of_reference")
        share = pl.col("value", "low", "high") / pl.when(size > 0.0).then(size) + LIMIT
        return found.with_columns(share, std=pl.lit(None, pl.Float64)).drop("value_of_reference")

    @staticmethod
    def of_rows(table: pl.LazyFrame) -> pl.LazyFrame:
        """Select the correlations of each row, with the heatmap's lead over every other score."""
        measures = table.select(cs.starts_with("replacement_"))
        names = measures.collect_schema().names()
        return measures.with_columns(differences(*against_heatmap(names, ["replacement"])))


def copies_of(trace: Trace, rows: RowMask) -> Iterator[tuple[int, Copies]]:
    """Yield the number and the copies of each marked row of a trace."""
    predicted, own, lengths = trace.predicted, trace.prediction, trace.lengths
    # A column of float32 rounds a certain prediction to 1, which says nothing of its log-odds.
    if isinstance(trace.tail, IdentityTail | LinearTail) and trace.has("readout"):
        own = trace.readout(trace.alpha)
    for row in np.flatnonzero(rows).tolist():
        lists = trace.table["replaced"][row]
        runs = trace.table["replaced_prediction"][row].to_numpy()
        lost = np.zeros((len(lists), lengths[row]), bool)
        lost[np.repeat(np.arange(len(lists)), lengths_of(lists)), flat(lists).to_numpy()] = True
        output, few = int(predicted[row]), runs.shape[1] < own.shape[1]
        lead = log_odds(own[row : row + 1], output)
        # Few of many outputs are the predicted one, the most probable other one, and the rest.
        leads = log_odds(runs[:, :2], 0) if few else log_odds(runs, output)
        # On the decision boundary no scale gives the text this confidence, and nothing is known.
        scale = np.log(CONFIDENCE / (1.0 - CONFIDENCE)) / lead if lead > 0.0 else 0.0
        change = np.abs(expit(leads * scale) - CONFIDENCE)
        yield row, Copies(lost, np.round(lead - leads, DIGITS), np.round(change, DIGITS))


def log_odds(prediction: PerClass, predicted: int) -> PerRow:
    """Return the log-odds of a class against the most probable other class."""
    if prediction.shape[1] == 1:
        positive = np.clip(prediction[:, 0], CLOSE, 1.0 - CLOSE)
        ours, other = (positive, 1.0 - positive) if predicted else (1.0 - positive, positive)
    else:
        ours, other = prediction[:, predicted], np.delete(prediction, predicted, 1).max(axis=1)
    return np.log(np.maximum(ours, LEAST)) - np.log(np.maximum(other, LEAST))


def partial_spearman(
    lost: Lost,
    score: PerToken,
    change: PerCopy,
) -> float:
    """Return the partial rank correlation of lost scores and changes, given the lost words.

    Args:
        lost: Positions that each copy loses.
        score: The score of each position.
        change: Change of each copy.

    Returns:
        The partial rank correlation: NaN if the number of words explains all of the change, 0 if
        it explains all of the loss.
    """
    number = _ranks(lost.sum(axis=1))
    # Relative to the largest: leave-one-out of a certain prediction may be 1e-15 at every word.
    score = score / max(np.abs(score).max(initial=0.0), LEAST)
    loss, changed = (_without(_ranks(values), number) for values in (lost @ score, change))
    # Sums of ranks are large, and their rounding error is far below 1.
    if changed @ changed <= 1e-3:
        return np.nan
    if loss @ loss <= 1e-3:
        return 0.0
    return float(loss @ changed / np.sqrt((loss @ loss) * (changed @ changed)))


def _without(ranks: PerCopy, number: PerCopy) -> np.ndarray:
    """Return the residuals of ranks after a linear fit on the ranks of the number of words."""
    own, line = ranks - ranks.mean(), number - number.mean()
    return own - line * (own @ line) / max(line @ line, 1.0)


def _ranks(values: np.ndarray) -> PerCopy:
    """Rank numbers from 1; equal ones share their mean rank."""
    # Sums of the same words in another order differ by rounding.
    _, place, counts = np.unique(np.round(values, 12), return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - 0.5 * (counts - 1.0))[place]
