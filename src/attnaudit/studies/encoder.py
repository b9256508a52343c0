"""Does attention mean less after an encoder that mixes words? (Serrano & Smith 2019, §6)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, ClassVar, Literal

import numpy as np
import polars as pl
from jaxtyping import Float

from attnaudit.core import InputError
from attnaudit.core.papers import SERRANO2019
from attnaudit.core.settings import setting
from attnaudit.corpora.corpus import Corpus
from attnaudit.experiments.erasure.curves import area
from attnaudit.experiments.erasure.experiment import Erasure
from attnaudit.experiments.prediction import Prediction
from attnaudit.experiments.replacement import Replacement
from attnaudit.experiments.rows import is_correct
from attnaudit.plans.spec import RunSpec
from attnaudit.plans.training import Training, TrainingId
from attnaudit.results import SIGNED, Measure
from attnaudit.stats.bootstrap import ratio
from attnaudit.stats.crossed import f1_terms, mediation, slope_terms
from attnaudit.studies.over_seeds import SummaryRows, by_seed, crossed_row, mean_known
from attnaudit.studies.study import (
    NEARLY,
    PLATEAU,
    Hypothesis,
    Study,
    labelled,
    trace_rows,
    with_seeds,
    without_scores,
)

Model = Literal[
    "none", "average", "cnn3", "cnn7", "cnn15", "mixed25", "mixed50", "mixed75", "bilstm",
    "transformer",
]  # fmt: skip
BASE, REFERENCE, FEWEST = "bilstm", "none", 4
# Settings of each model, and the share of context in what its states read: for a kernel of k
# words all but one, for mixed the share of the BiLSTM. Average is mixed with a share of 0.
MODELS: Mapping[str, tuple[float, Mapping[str, Any]]] = {
    "none": (0.0, {"encoder": "none"}),
    "average": (0.0, {"encoder": "average", "activation": "tanh"}),
    **{f"cnn{k}": (1 - 1 / k, {"encoder": "cnn", "kernels": (k,)}) for k in (3, 7, 15)},
    **{f"mixed{p}": (p / 100, {"encoder": "mixed", "mixing": p / 100}) for p in (25, 50, 75)},
    "bilstm": (1.0, {"encoder": "bilstm"}),
    "transformer": (1.0, {"encoder": "transformer"}),
}
ONE_WAY = ("average", "cnn", "transformer")  # as wide as both directions of a BiLSTM
OUTCOMES = {
    "replacement": "rank correlation of attention with the effect of replacing words",
    "gain": "gain of attention over random removal, as a share of the largest possible",
}
PARTS = {
    "difference": "difference from no encoder",
    "total": "slope on the share of context",
    "indirect": "slope through the own word's share",
    "direct": "slope at the same share of the own word",
    "half": "slope through the own word's share, minus half of the total",
}
AREAS = ("attention", "random", "minimum")


@dataclass(frozen=True)
class Encoder(Study):
    """Train models whose encoders mix words to different degrees, and compare their attention.

    Encoders are none, a layer for each word, convolutions of three widths, mixtures of such a layer
    with a BiLSTM, the BiLSTM of the base, and a layer of self-attention. Their states are equally
    wide, except with none.

    The table has a row per model, seed and instance with the ``label``, the ``predicted`` class,
    whether it is ``correct``, the ``replacement`` correlation of attention, the ``area_<ranking>``
    of erasure for attention, random order and the smallest set, and ``own_token``, the share of a
    drawn state that its own word accounts for.

    The summary has ``f1_macro``, ``own_token``, ``replacement`` and ``gain`` of each model. The
    gain is the area of attention minus that of random order, divided by that of the smallest set
    minus that of random order. Neither outcome depends on the scale of the logits.
    ``difference_<outcome>`` is a model's outcome minus that of none. Over the models of a seed,
    ``total_<outcome>`` is the slope of the outcome on the share of context: the ``indirect`` slope,
    through the own word's share, and the ``direct`` one add up to it. ``half_<outcome>`` is
    the indirect slope minus half of the total.
    """

    name = "encoder"
    question = "Does attention mean less after an encoder that mixes words?"
    paper = SERRANO2019
    measures = (
        *(
            Measure(
                name,
                label,
                f"{label.capitalize()}, on texts that all models of a seed classify correctly.",
                range=SIGNED,
            )
            for name, label in OUTCOMES.items()
        ),
        Measure(
            "own_token",
            "share of a state that its own word accounts for",
            "Norm of the derivative of a state by its own word, divided by the sum of the norms "
            "for all words, 0 to 1.",
        ),
        Prediction.measures[2],
        *(
            Measure(f"{part}_{name}", f"{name}, {label}", f"{label.capitalize()}.", range=None)
            for name in OUTCOMES
            for part, label in PARTS.items()
        ),
    )
    hypotheses = (
        Hypothesis(
            "The more context a state reads, the less the output follows attended words.",
            "total_replacement",
            high=0.0,
        ),
        Hypothesis(
            "The more context a state reads, the smaller the gain of erasure by attention.",
            "total_gain",
            high=0.0,
        ),
        *(
            Hypothesis(
                f"More than half of that fall of {name} goes through the share of the own word.",
                f"half_{name}",
                high=0.0,
            )
            for name in OUTCOMES
        ),
    )
    exclusions = (
        "A text counts in a seed if it has two words or more and all models of that seed classify "
        "it correctly.",
        "Replacement is measured on the drawn texts with a copy that changes the output, in every "
        "model.",
        "If the base models are not shown to beat the majority, nothing is concluded.",
        "Seen before: with one seed, erasure gains without encoder, with CNN and biGRU (Yelp "
        ".75/.68/.49, IMDB .77/.40/.21, 20News .56/.52/.34, AG News .59/.47/.34, Amazon "
        ".97/.86/.93).",
    )
    quick: ClassVar = {
        "models": ("none", "average", "cnn7", "mixed50", "bilstm", "transformer"),
        **NEARLY,
    }
    full: ClassVar = PLATEAU
    overruled: ClassVar = {
        "encoder": f"{BASE}: encoder.models are trained",
        **dict.fromkeys(("model.kernels", "model.mixing", "model.activation"), "encoder.models"),
    }
    decided: ClassVar = {"encoder": BASE}
    models: tuple[Model, ...] = setting(
        "Models to compare: none and at least three others.", tuple(MODELS)
    )
    seeds: int = setting("Number of trainings (seeds) of each model.", 10, least=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if REFERENCE not in self.models or len(set(self.models)) < max(FEWEST, len(self.models)):
            raise InputError(
                "study",
                "setting encoder.models",
                ", ".join(self.models),
                f"{REFERENCE} and at least three others, each once",
            )

    def variants(self) -> list[str]:
        """Return the models in their order; that of the base has no variant."""
        return ["" if name == BASE else name for name in MODELS]

    def trainings(self, base: RunSpec, corpus: Corpus) -> Iterator[Training]:
        """Train every model with every seed."""
        self.check_texts(corpus)
        self.check_model(base.model, words=True)
        for spec, name in product(with_seeds(base, self.seeds), self.models):
            if name != BASE:
                own = dict(MODELS[name][1])
                if own["encoder"] in ONE_WAY:
                    own["hidden"] = 2 * base.model.hidden
                spec = replace(without_scores(spec), model=replace(spec.model, **own))
            variant = "" if name == BASE else name
            yield Training.of("base", spec, variant, also=("attribute",))

    def rows(self, training: TrainingId, traces: Any) -> pl.DataFrame:
        """Measure the attention of one model."""
        trace, own = traces[training], pl.DataFrame(traces.own_token(training))
        erased = Erasure(seed=self.seed)(trace).select(map(area, AREAS))
        rows = trace_rows(
            trace,
            label=trace.array("label"),
            predicted=trace.predicted,
            correct=is_correct(trace),
            replacement=Replacement()(trace)["replacement_attention"],
            **erased.to_dict(),
        ).join(own, on="instance", how="left", maintain_order="left")
        return labelled(rows, model=training.variant or BASE, seed=training.seed)

    def summary_rows(self, table: pl.DataFrame) -> SummaryRows:
        """Compare models on the texts that all of them classify right, and split the slope."""
        models = table["model"].unique(maintain_order=True).to_list()
        columns = ["replacement", *(f"area_{one}" for one in AREAS), "own_token", "correct"]
        axes = table.with_columns(pl.col("model").cast(pl.Enum(models)))
        values = by_seed(axes, [*columns, "label", "predicted"], ("model", "seed", "instance"))
        replacement, attention, chance, most, own, right, label, predicted = values
        right = (right == 1.0).all(axis=0)
        outcomes = {
            "replacement": known_to_all(replacement, right),
            "gain": ratio_terms(
                known_to_all(attention - chance, right), known_to_all(most - chance, right)
            ),
        }
        f1 = f1_terms(label[0, 0].astype(np.int64), predicted.astype(np.int64))
        for name, terms in {**outcomes, "own_token": own, "f1_macro": f1}.items():
            for model, one in zip(models, terms, strict=True):
                yield crossed_row(self, f"{name}_{model}", one)
        context = np.array([MODELS[model][0] for model in models])
        shape = own.shape[1], len(models)
        for name, terms in outcomes.items():
            for model, one in zip(models, terms, strict=True):
                if model != REFERENCE:
                    difference = one - terms[models.index(REFERENCE)]
                    yield crossed_row(self, f"difference_{name}_{model}", difference)
            total = crossed_row(self, f"total_{name}", slope_terms(context, terms))
            yield total
            means = (mean_known(one).T for one in (own, terms))
            parts = mediation(np.broadcast_to(context, shape), *means)
            for part, of_seeds in (
                ("indirect", parts.indirect),
                ("direct", parts.direct),
                ("half", parts.indirect - 0.5 * parts.total),
            ):
                # A mean over seeds, each of them a fit over all texts.
                row = crossed_row(self, f"{part}_{name}", of_seeds[:, None])
                yield row | {"n": total["n"]}


def known_to_all(
    values: Float[np.ndarray, "M S n"], right: np.ndarray
) -> Float[np.ndarray, "M S n"]:
    """Keep the texts that are ``right`` in a seed, and have a value in each of its models."""
    return np.where(right & np.isfinite(values).all(axis=0), values, np.nan)


def ratio_terms(
    part: Float[np.ndarray, "*m n"], whole: Float[np.ndarray, "*m n"]
) -> Float[np.ndarray, "*m n"]:
    """Return terms whose mean is the ratio of two means, linear in each text (delta method)."""
    size = mean_known(whole)[..., None]
    value = ratio(mean_known(part)[..., None], size)
    return value + ratio(part - value * whole, size)
