"""Measures of a summary: labels, meanings, and the direction that speaks for attention."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import cycle
from typing import Literal

import numpy as np
from jaxtyping import Float

SIGNED = (-1.0, 1.0)
SCORE = "{score}"
SCORES = {
    "alpha": "attention",
    "attention": "attention",
    "gradient": "gradient",
    "loo": "leave-one-out",
    "gradient_attention": "gradient × attention",
    "minimum": "smallest set",
    "random": "random order",
    "chance": "random order",
    "alti": "ALTI",
    "attnlrp": "AttnLRP",
    "full_gradient": "gradient through attention too",
    "gradient_input": "gradient × input",
    "integrated_gradients": "integrated gradients",
    "loo_mask": "leave-one-out by a mask",
    "mean_all": "mean of all heads",
    "mean_last": "mean of the last layer's heads",
    "rollout": "attention rollout",
    "shown": "heatmap shown",
    "value_zeroing": "value zeroing",
}


@dataclass(frozen=True)
class Measure:
    """A measure of a summary, or a family such as ``tau_{score}``.

    Attributes:
        name: Name in summaries.
        label: Name on pages; each ``{score}`` is replaced by the name of a score.
        meaning: One sentence with the definition and the unit.
        direction: Values that speak for attention as an explanation of the prediction. It is
            ``neither`` for measures of the model, or of the validity of other measures.
        range: Least and largest value of a row; intervals rely on it. None if unknown. A
            difference ``<a>_minus_<b>`` is between -1 and 1.
    """

    name: str
    label: str
    meaning: str = ""
    direction: Literal["higher", "lower", "neither"] = "neither"
    range: tuple[float, float] | None = (0.0, 1.0)

    def label_for(self, name: str) -> str | None:
        """Return the label of the measure ``name``; None if it is another measure."""
        found = re.fullmatch(re.escape(self.name).replace(re.escape(SCORE), "(.+)"), name)
        if found is None:
            return None
        # A pair of scores, as in `tau_{score}_and_{score}`, fills the label's places in turn.
        names = cycle([SCORES.get(name, name) for name in found.groups()] or [SCORE])
        return re.sub(re.escape(SCORE), lambda _: next(names), self.label)


def measure_of(measures: Iterable[Measure], name: str) -> Measure:
    """Describe a measure by the first entry that it matches, else by only its name."""
    for measure in measures:
        if (label := measure.label_for(name)) is not None:
            return replace(measure, name=name, label=label)
    return Measure(name, name, range=None)


def ranges_of(measures: Sequence[Measure], names: Iterable[str]) -> Float[np.ndarray, "m 2"]:
    """Return the range of each measure; NaN if unknown."""
    found = (SIGNED if "_minus_" in name else measure_of(measures, name).range for name in names)
    return np.array([one or (np.nan, np.nan) for one in found]).reshape(-1, 2)


OF_TRANSLATIONS = (
    Measure(
        "bleu",
        "BLEU of the translations",
        "BLEU of the translations of the test split (sacrebleu), 0 to 100.",
    ),
    Measure(
        "bleu_copy",
        "BLEU of the copied source",
        "BLEU of the sources taken as translations: what needs no learning.",
    ),
    Measure(
        "bleu_other",
        "BLEU against references of other pairs",
        "BLEU of the translations, each against the reference of another pair: what can be written "
        "without the source.",
    ),
    Measure(
        "loss",
        "cross-entropy of the gold token, nats",
        "Mean cross-entropy of the gold tokens, given those before them, in nats.",
    ),
    Measure(
        "token_accuracy",
        "share whose gold token is the most probable, given those before it",
        "Share of gold tokens that the translator ranks first, given the gold tokens before them.",
    ),
    Measure(
        "unknown",
        "share of target tokens that the vocabulary lacks",
        "Share of target tokens that are not in the vocabulary.",
    ),
)
"""Measures of the ``translation`` rows of a summary, which belong to no experiment."""

CHANCE = 0.5  # ROC-AUC of scores that are independent of the label
BASE = "base_"  # prefix of the measures of the models that a study examines
OF_BASE = (
    Measure(
        "base_accuracy",
        "accuracy of the base models",
        "Mean accuracy of the ordinary models that the study is about.",
    ),
    Measure(
        "base_majority",
        "accuracy of always predicting the most frequent label",
        "Share of the most frequent label of test.",
    ),
    Measure(
        "base_roc_auc",
        "ROC-AUC of the base models",
        "Mean area under the ROC curve of the ordinary models that the study is about.",
    ),
    Measure(
        "base_bleu",
        "BLEU of the base models",
        "Mean BLEU of the ordinary translators that the study is about, 0 to 100.",
    ),
    Measure(
        "base_bleu_copy",
        "BLEU of the copied source",
        "BLEU of the sources taken as translations, 0 to 100.",
    ),
    Measure(
        "base_bleu_other",
        "BLEU against references of other pairs",
        "BLEU of the translations, each against the reference of another pair, 0 to 100.",
    ),
)
"""Scores and baselines of the models that a study examines."""
