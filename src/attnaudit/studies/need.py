"""Which tasks need attention?"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import polars as pl
from jaxtyping import Float

from attnaudit.core.papers import WIEGREFFE2019
from attnaudit.core.settings import setting
from attnaudit.corpora.corpus import Corpus, ParallelCorpus
from attnaudit.experiments.prediction import Prediction
from attnaudit.experiments.rows import is_correct
from attnaudit.experiments.surrogate import Surrogate
from attnaudit.plans.spec import RunSpec, TranslationSpec
from attnaudit.plans.training import Training, TrainingId
from attnaudit.plans.transformer import TransformerTraining
from attnaudit.results import SIGNED, Measure, summary_row
from attnaudit.stats.crossed import equivalence_p, f1_terms
from attnaudit.studies.over_seeds import SummaryRows, by_seed, crossed_row
from attnaudit.studies.study import (
    NEARLY,
    PLACE,
    PLATEAU,
    Hypothesis,
    Study,
    labelled,
    trace_rows,
    with_seeds,
    without_scores,
)
from attnaudit.studies.uniform import TransformerUniform, evenly

MARGIN = 0.03  # of macro F1, or of accuracy; stated before
WORDS = "average"  # the variant whose states are single words, as in the study encoder
AXES = ("model", "seed", "instance")
_TWO_WAYS = ("bilstm", "bigru")  # encoders whose states are twice as wide as model.hidden


@dataclass(frozen=True)
class Need(Study):
    """Train a model with learned attention, and models without part of it.

    With the same seeds, ``uniform`` has a weight of 1/T at every position, ``hard`` a weight of 1
    at one position, and ``words`` learned attention to single words, whose order is unknown.

    The table has a row per model, seed and instance with the ``label``, the ``predicted`` class,
    whether it is ``correct``, and the ``length`` of the text; rows of the base have
    ``deciding_share``, the smallest share of a text's words that carry half of the absolute weight
    of `Surrogate`.

    The summary has ``f1_macro`` of each model, and ``loss``, the base's score minus the
    model's; the loss of ``words`` is what word order adds. ``equivalence_p`` is the p-value of the
    test that shows a loss or gain below 0.03. ``length`` and ``deciding_share`` describe the task.
    """

    name = "need"
    question = "Does the task need attention?"
    paper = WIEGREFFE2019
    measures = (
        Measure(
            "loss",
            "score lost by the model",
            "Score of the base model minus that of a model without part of its attention, paired "
            "by seed and text.",
            range=SIGNED,
        ),
        Measure(
            "equivalence_p",
            "p-value of equivalence",
            f"Of two one-sided t tests against a loss or gain of {MARGIN}; up to 0.05, the model "
            "is as good as the base model.",
        ),
        Prediction.measures[2],
        Measure("length", "words of a text", "Mean number of positions of a text.", range=None),
        Measure(
            "deciding_share",
            "share of words that decide",
            "Smallest share of a text's words with half of the absolute weight of the surrogate.",
        ),
    )
    hypotheses = (
        Hypothesis(
            f"Attention is not needed: uniform attention changes the score by less than {MARGIN}.",
            "loss_uniform",
            -MARGIN,
            MARGIN,
            "equivalence_p_uniform",
        ),
        Hypothesis("Attention is needed: uniform attention is worse.", "loss_uniform", low=0.0),
        Hypothesis(
            f"One position is enough: hard attention changes the score by less than {MARGIN}.",
            "loss_hard",
            -MARGIN,
            MARGIN,
            "equivalence_p_hard",
        ),
    )
    exclusions = (
        "No training and no text is left out of the scores.",
        "The share of deciding words is measured on texts that have copies and a surrogate.",
        "If the base models are not shown to beat the majority, nothing is concluded.",
        "Seen before: with one seed each, uniform attention cost 0.001 F1 on SST, 0.010 on AG "
        "News, 0.023 on IMDB; two seeds of this study on SST.",
    )
    quick: ClassVar = NEARLY
    full: ClassVar = PLATEAU
    published: ClassVar = "uniform"
    seeds: int = setting("Number of trainings (seeds) of each model.", 10, least=1)

    def trainings(self, base: RunSpec, corpus: Corpus) -> Iterator[Training]:
        """Train all models with every seed; words only if the base's states read more."""
        self.check_model(base.model, words=True)
        for spec in with_seeds(base, self.seeds):
            yield Training.of("base", spec)
            yield evenly(spec)
            lean, model = without_scores(spec), spec.model
            # Only the base's copies are looked at; the other two models are other studies' too.
            no_copies = replace(spec.replacement, texts=0)
            hard = replace(lean, model=replace(model, attention="hard"), replacement=no_copies)
            yield Training.of("base", hard, "hard")
            if model.encoder not in (WORDS, "none"):
                hidden = model.hidden * (1 + (model.encoder in _TWO_WAYS))
                words = replace(model, encoder=WORDS, activation="tanh", hidden=hidden)
                yield Training.of("base", replace(lean, model=words), WORDS)

    def variants(self) -> list[str]:
        """Return the models in their order."""
        return ["", "hard", WORDS]

    def rows(self, training: TrainingId, traces: Any) -> pl.DataFrame:
        """Collect the predictions of one model, and the deciding words of the base."""
        trace = traces[training]
        columns = {
            "label": trace.array("label"),
            "predicted": trace.predicted,
            "correct": is_correct(trace),
            "length": trace.alpha.lengths,
        }
        uniform = "uniform" if training.role == "uniform" else ""
        name = "words" if training.variant == WORDS else training.variant
        model = "_".join(filter(None, (uniform, name))) or "base"
        if model == "base" and not trace.has("gold") and Surrogate().refuses(trace) is None:
            columns["deciding_share"] = deciding_share(Surrogate()(trace)["weights"])
        rows = trace_rows(trace, **columns)
        place = [name for name in PLACE if name in rows.columns]
        # Every head of a model has a row with the same prediction.
        return labelled(rows.unique(place, maintain_order=True), model=model, seed=training.seed)

    def terms(self, table: pl.DataFrame) -> Float[np.ndarray, "M S n"]:
        """Return terms whose mean is the score of each model."""
        label, predicted = by_seed(table, ("label", "predicted"), AXES).astype(np.int64)
        return f1_terms(label[0, 0], predicted)

    def summary_rows(self, table: pl.DataFrame) -> SummaryRows:
        """Score all models, compare them with the base, and describe the task."""
        models = sorted(table["model"].unique(), key=lambda one: (one != "base", one))
        ordered = table.with_columns(pl.col("model").cast(pl.Enum(models)))
        terms, score = self.terms(ordered), self.measures[2].name
        for model, one in zip(models, terms, strict=True):
            yield crossed_row(self, f"{score}_{model}", one, 1.0)
            if model != "base":
                loss = crossed_row(self, f"loss_{model}", terms[0] - one, 1.0)
                yield loss
                p = equivalence_p(terms[0] - one, MARGIN)
                yield summary_row(self.name, f"equivalence_p_{model}", p, n=loss["n"])
        of_base = table.filter(model="base")
        for name in ("length", "deciding_share"):
            if name in table.columns and of_base[name].count():
                yield crossed_row(self, name, by_seed(of_base, [name])[0])


@dataclass(frozen=True)
class PairNeed(Need):
    """Train a translator with learned and with uniform attention; its score is of gold tokens.

    A pair counts by the share of its gold tokens that are predicted.
    """

    measures = tuple(
        replace(one, name="accuracy", label="accuracy of gold tokens")
        if one.name == "f1_macro"
        else one
        for one in Need.measures[:4]
    )
    hypotheses = Need.hypotheses[:2]
    quick: ClassVar = {"seeds": 3, "training.epochs": 20}
    full: ClassVar = {"training.epochs": 60}
    published: ClassVar = ""

    def trainings(self, base: TranslationSpec, corpus: ParallelCorpus) -> Iterator[Training]:
        """Train both translators with every seed."""
        self.check_model(base.model, one_head=False)
        for spec in with_seeds(base, self.seeds):
            yield Training.of("base", spec, also=("translate",))
            yield evenly(spec)

    def terms(self, table: pl.DataFrame) -> Float[np.ndarray, "M S n"]:
        """Return the share of each pair's gold tokens that are predicted."""
        return by_seed(table, ("correct",), AXES)[0]


@dataclass(frozen=True)
class TransformerNeed(Need, TransformerUniform):
    """Train a transformer as it is, and with uniform attention in some layers."""

    hypotheses = Need.hypotheses[:2]
    quick: ClassVar = {"seeds": 3}
    full: ClassVar = {}

    def trainings(self, base: TransformerTraining, corpus: Corpus) -> Iterator[Training]:
        """Train the model as it is, and with each choice of uniform layers."""
        return TransformerUniform.trainings(self, base, corpus)


def deciding_share(weights: pl.Series) -> Float[np.ndarray, " n"]:
    """Return the smallest share of a text's words with half of the absolute weight; else NaN."""
    shares = np.full(len(weights), np.nan)
    for row, values in enumerate(weights.to_list()):
        if values is not None and any(values):
            sums = np.cumsum(np.sort(np.abs(values))[::-1])
            shares[row] = (1 + np.searchsorted(sums, 0.5 * sums[-1])) / len(values)
    return shares
