"""Is attention needed? Trained with attention frozen at 1/T (Wiegreffe & Pinter 2019)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, NoReturn

from attnaudit.core.errors import InputError
from attnaudit.core.papers import WIEGREFFE2019
from attnaudit.core.settings import setting
from attnaudit.plans.training import Training, TrainingId
from attnaudit.studies.over_seeds import ScoredModels, score_measures
from attnaudit.studies.study import with_seeds, without_scores

if TYPE_CHECKING:
    from attnaudit.corpora import Corpus
    from attnaudit.plans.spec import RunSpec
    from attnaudit.plans.transformer import TransformerTraining

ALL, LAST = "all", "last"


@dataclass(frozen=True)
class Uniform(ScoredModels):
    """Compare the model with one that cannot choose where to look, trained with the same seeds.

    If the uniform model does as well, the corpus cannot decide anything about attention.
    """

    name = "uniform"
    question = "Is attention needed?"
    paper = WIEGREFFE2019
    measures = score_measures("the base model's")
    quick: ClassVar = {"seeds": 3}
    seeds: int = setting("Number of trainings (seeds) of each model.", 5, least=1)

    def trainings(self, base: RunSpec, corpus: Corpus) -> Iterator[Training]:
        """Train both models with every seed."""
        self.check_model(base.model, one_head=False)
        for spec in with_seeds(base, self.seeds):
            yield Training(TrainingId("base", spec.seed), spec)
            yield evenly(spec)


@dataclass(frozen=True)
class TransformerUniform(Uniform):
    """Compare a transformer with one whose heads attend uniformly in some layers.

    A model with one uniform layer is called ``uniform_layer<number>``.
    """

    layers: tuple[str, ...] = setting(
        "Layers with uniform attention, one model for each: all, last, or a number from 0.",
        (ALL, LAST),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        wrong = [one for one in self.layers if one not in (ALL, LAST) and not one.isdecimal()]
        if wrong or not self.layers:
            self._refuse(repr(wrong[0]) if wrong else "none", "numbers of layers from 0")

    def trainings(self, base: TransformerTraining, corpus: Corpus) -> Iterator[Training]:
        """Train the model as it is, and with each choice of uniform layers."""
        self.check_classifier(base)
        variants = dict(self._variant(layer, base.model.layers) for layer in self.layers)
        for spec in map(without_scores, with_seeds(base, self.seeds)):
            yield Training(TrainingId("base", spec.seed), spec)
            for name, layers in variants.items():
                yield Training(
                    TrainingId("uniform", spec.seed, name), replace(spec, uniform=layers)
                )

    def _variant(self, layer: str, layers: int) -> tuple[str, tuple[int, ...]]:
        """Return the name of a model and its uniform layers."""
        if layer == ALL:
            return "", tuple(range(layers))
        chosen = layers - 1 if layer == LAST else int(layer)
        if chosen >= layers:
            self._refuse(layer, f"layers from 0 to {layers - 1}")
        return f"layer{chosen}", (chosen,)

    def _refuse(self, got: str, numbers: str) -> NoReturn:
        expected = f"{ALL}, {LAST}, or {numbers}, joined by commas"
        raise InputError("study", "setting uniform.layers", got, expected)


def evenly(spec: RunSpec) -> Training:
    """Return the training of the same model with uniform attention."""
    model = replace(spec.model, attention="uniform")
    return Training(TrainingId("uniform", spec.seed), replace(without_scores(spec), model=model))
