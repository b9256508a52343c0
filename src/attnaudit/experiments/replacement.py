"""Does the output follow the words that a heatmap marks, when words are replaced?

Source: the linear datamodeling score of Ilyas et al. 2022 and Cohen-Wang et al. 2024.
"""

from dataclasses import dataclass

import numpy as np
import polars as pl
import polars.selectors as cs

from attnaudit.core.papers import COHENWANG2024, ILYAS2022
from attnaudit.experiments.copies import copies_of, partial_spearman
from attnaudit.experiments.rows import (
    against_heatmap,
    differences,
    heatmap_name,
    judged_scores,
    make_table,
    no_copies,
    no_single_decision,
    of_one_head,
    summarise_measures,
    words_of,
)
from attnaudit.results import SIGNED, Measure, by_group, summarise_means
from attnaudit.trace import SHOWN, Trace

REFERENCES = ("loo", "gradient")  # the first that a trace has is what a heatmap is compared with
SHARE = "replacement_share"
# Share of the reference from which heatmaps may be shown: in the fit half, the middle between the
# highest share of a model with unfaithful attention, 0.46, and the lowest of a faithful one, 0.71.
LIMIT = 0.6


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
    reserved = ("attention", "gradient", "loo", "share")
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
        return no_copies(trace) or no_single_decision(trace)

    def __call__(self, trace: Trace) -> pl.DataFrame:
        """Compute the table, one row per row of the trace."""
        words = words_of(trace)
        words = words.with_values(words.values.astype(np.float64))
        number = trace.table["replaced"].list.len()
        copies = copies_of(trace, number.is_not_null().to_numpy() & (words.sum() > 1))
        columns = {}
        for name, score in judged_scores(trace).items():
            found = np.full(len(trace), np.nan)
            of_words = score.with_values(score.values * words.values)
            found[copies.rows] = partial_spearman(copies, of_words)
            columns[f"replacement_{name}"] = found
        return make_table(trace, {"copies": number, **columns})

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
