"""Do these weights carry information to another model? (Wiegreffe & Pinter 2019, §6)."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, get_args

import polars as pl

from attnaudit.core import InputError
from attnaudit.core.papers import WIEGREFFE2019
from attnaudit.core.settings import setting
from attnaudit.corpora.corpus import Corpus
from attnaudit.corpora.prepare.derived import SHUFFLED
from attnaudit.plans.spec import RunSpec
from attnaudit.plans.training import Training, seeded, usual
from attnaudit.studies.adversary import ModelAdversary
from attnaudit.studies.over_seeds import ScoredModels, predictions, score_measures
from attnaudit.studies.study import Traces, stack, with_seeds, without_scores

Weights = Literal["uniform", "learned", "base", "gradient", "adversary", "rationale"]
HIDDEN = 128


@dataclass(frozen=True)
class Guide(ScoredModels):
    """Train a model that sees one token at a time under given attention weights.

    The model is embedding, 128 tanh units, weighted sum, and linear output. Weights are ``uniform``
    1/T; ``learned``, trained with it; ``base``, the attention of the model under study;
    ``gradient``, that model's importance; ``adversary``, the attention of a `ModelAdversary`;
    and ``rationale``, the tokens known to matter, if the corpus has them.
    """

    name = "guide"
    question = "Does attention transfer?"
    paper = WIEGREFFE2019
    measures = score_measures("that with uniform weights")
    against = "uniform"
    quick: ClassVar = {"seeds": 1, "epochs": 30, "patience": 5}
    weights: tuple[Weights, ...] = setting(
        "Weights that are given; none: all that the corpus allows.", ()
    )
    strength: float = setting("λ of the adversary that gives weights.", 1e-3, least=0)
    patience: int = setting(
        "Stop that adversary after this many epochs without a better dev loss.", 10, least=1
    )
    epochs: int = setting(
        "Largest number of epochs of that adversary; default: training.epochs, if given.",
        200,
        least=1,
    )
    seeds: int = setting("Number of trainings (seeds) with each choice of weights.", 3, least=1)

    def variants(self) -> list[str]:
        """Return all weights in their order."""
        return list(dict.fromkeys(("uniform", *(self.weights or get_args(Weights)))))

    def trainings(self, base: RunSpec, corpus: Corpus) -> Iterator[Training]:
        """Train the model under each choice of weights."""
        self.check_model(base.model)
        known = all(split.rationale and all(split.rationale) for split in corpus.splits.values())
        if "rationale" in self.weights and not known:
            raise InputError(
                "study",
                "setting guide.weights",
                f"rationale, which not every text of {corpus.name} has",
                "a corpus with a rationale for every text",
                "leave out rationale",
            )
        first = usual(base, base.seed)
        adversary = ModelAdversary(patience=self.patience, epochs=self.epochs)
        against = adversary.against(first, seeded(base, base.seed + 1), self.strength)
        teachers = {"base": first, "gradient": first, "rationale": first, "adversary": against}
        for weights in self.variants():
            if known or weights != "rationale":
                for spec in with_seeds(base, self.seeds):
                    yield guided(spec, weights, teachers.get(weights))

    def __call__(self, traces: Traces) -> pl.DataFrame:
        """Collect the predictions of the guided models."""
        guided = self.ordered(one for one in traces if one.role == "guide")
        return stack(predictions(one.variant, one.seed, traces[one]) for one in guided)


def guided(spec: RunSpec, weights: str, teacher: Training | None) -> Training:
    """Return the training of a token-wise model with given weights.

    Args:
        spec: Spec of the model under study, with the seed.
        weights: Name of the weights; ``<name>_shuffled`` are shuffled within each text.
        teacher: Training that gives them.
    """
    attention = "additive" if weights == "learned" else "uniform" if teacher is None else "imposed"
    model = replace(
        spec.model, encoder="average", activation="tanh", hidden=HIDDEN, attention=attention
    )
    column = weights if weights in ("gradient", "rationale") else "alpha"
    column = SHUFFLED if weights.endswith(SHUFFLED) else column
    own = replace(without_scores(spec), model=model)
    return Training.of("guide", own, weights, teacher=teacher, column=column)
