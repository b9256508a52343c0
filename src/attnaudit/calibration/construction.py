"""A construction: a way to make attention faithful or not, with the reason why we know."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from attnaudit.core.registry import Registry
from attnaudit.corpora.spec import PlantedRule
from attnaudit.plans.spec import RunSpec
from attnaudit.plans.training import Training, TrainingId
from attnaudit.plans.transformer import FineTuning, TransformerTraining
from attnaudit.trace import Trace

if TYPE_CHECKING:
    from attnaudit.training.settings import Objective

Truth = Literal["faithful", "unfaithful", "between", "none"]
Half = Literal["fit", "held"]
Transformation = Callable[[Trace, int], Trace]
AnySpec = RunSpec | TransformerTraining | FineTuning
# Settings of all trainings. A full sweep trains about 2,000 models, so they are small. The loss
# selects the epoch: by ROC-AUC the first epoch with right labels would be kept, whatever its
# attention.
SMALL: dict[str, Any] = {
    "model.embedding": 16,
    "model.hidden": 16,
    "training.epochs": 10,
    "training.learning_rate": 0.01,
    "training.weight_decay": 0.0,
    "training.select": "loss",
    "training.class_weight": False,
    "training.batch_size": 32,
}
# Share of texts that are repeated without deciding words. Without such texts, half of the first
# models used the words for only one class.
NEUTRAL = 0.2
# Settings of the trainings of transformers. A word that is dropped cannot be attended.
TRANSFORMER: dict[str, dict[str, Any]] = {
    TransformerTraining.kind: {
        "model.word_dropout": 0.0,
        "model.dropout": 0.0,
        "training.epochs": 6,
        "training.select": "loss",
    },
    FineTuning.kind: {
        "replacement.texts": 40,  # most of the time, and enough for a verdict
        "training.steps": 150,
        "training.learning_rate": 1e-4,
        "training.select": "loss",
    },
}
# Strength of the objective of transformers from scratch. With that of classifiers, attention left
# the deciding word before its class was learned, which it then never was.
GENTLE = 0.1
OF_ENCODER: dict[str, dict[str, Any]] = {
    "cnn": {"model.kernels": (3, 5), "model.hidden": 16},
    "transformer": {"model.heads": 1},
}


@dataclass(frozen=True)
class Construction:
    """A construction: a family of models with the same truth.

    Attributes:
        name: Name of the construction.
        title: Short description.
        truth: ``none`` if there is nothing to be faithful to (sanity checks), ``between`` if
            nothing in the training says where attention goes.
        reason: A sentence that says why the truth is known.
        encoders: Encoders of the models.
        attention: Attention of the models.
        rule: Rule that plants deciding words in the texts (`corpus.planted`).
        vectors: Initial word vectors of the models.
        planted: Further settings of the corpus (`corpus.planted_words` and others).
        settings: Settings of the training that differ from `SMALL`.
        objective: Objective of the training; None for the loss on labels.
        teacher: Construction whose models provide the attention for the training.
        base: Construction whose models are used instead of a training; the ``transform`` of their
            traces is audited.
        transform: Maps trace and seed to a trace.
        half: ``fit`` if the score of the verdict was chosen on it, ``held`` if it was only tested.
        transformers: Whether it is made of transformers too, as what acts on any attention by an
            objective can be; of those with the same texts and nearly the same objective one is.
    """

    name: str
    title: str
    truth: Truth
    reason: str
    encoders: tuple[str, ...] = ("bilstm",)
    attention: str = "additive"
    rule: PlantedRule = "decisive"
    vectors: str = "random"
    planted: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    objective: Objective | None = None
    teacher: str = ""
    base: str = ""
    transform: Transformation | None = None
    half: Half = "fit"
    transformers: bool = False


CONSTRUCTIONS: Registry[Construction] = Registry("construction", "constructions")


@dataclass(frozen=True, eq=False)
class Cell:
    """One model to audit.

    Attributes:
        construction: The construction.
        corpus: Name of the corpus.
        encoder: Name of the encoder.
        seed: Seed of corpus and training.
        training: Training of the model.
    """

    construction: Construction
    corpus: str
    encoder: str
    seed: int
    training: Training

    @property
    def name(self) -> str:
        """Name of the cell's folder."""
        return "-".join((self.construction.name, self.corpus, self.encoder, f"s{self.seed}"))

    def audited(self, trace: Trace) -> Trace:
        """Return the trace as a user would have it: without the deciding words."""
        transform = self.construction.transform
        shown = trace if transform is None else transform(trace, self.seed)
        # Plausibility compares attention with the rationale and would be given the answer.
        return replace(shown, table=shown.table.drop("rationale", strict=False))


def training_of(
    construction: Construction, base: AnySpec, corpus: str, encoder: str, seed: int
) -> Training:
    """Return the training of a cell, including the training of its teacher.

    Args:
        construction: The construction.
        base: An ordinary spec for the corpus.
        corpus: Name of the corpus.
        encoder: Name of the encoder, or of the transformer.
        seed: Seed of corpus and training.

    Returns:
        The training. A construction with a base has the training of its base.
    """
    if construction.base:
        return training_of(CONSTRUCTIONS[construction.base], base, corpus, encoder, seed)
    teacher = None
    if construction.teacher:
        teacher = training_of(CONSTRUCTIONS[construction.teacher], base, corpus, encoder, seed)
    planted = {"planted": construction.rule, "planted_neutral": NEUTRAL, **construction.planted}
    spec: Any = base
    objective = construction.objective
    if isinstance(base, RunSpec):
        spec = RunSpec.of(
            base.corpus.source,
            encoder=encoder,
            attention=construction.attention,
            vectors=construction.vectors,
            settings={**SMALL, **OF_ENCODER.get(encoder, {}), **construction.settings},
        )
    elif objective is not None and isinstance(base, TransformerTraining):
        objective = replace(objective, strength=GENTLE)
    spec = replace(
        spec,
        corpus=replace(base.corpus, **planted, seed=seed),
        objective=objective,
        seed=seed,
    )
    return Training(TrainingId(construction.name, seed, f"{corpus}-{encoder}"), spec, teacher)
