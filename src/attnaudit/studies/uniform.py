"""Is attention needed? Trained with attention frozen at 1/T (Wiegreffe & Pinter 2019)."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from attnaudit.core import InputError
from attnaudit.core.papers import WIEGREFFE2019
from attnaudit.core.settings import setting
from attnaudit.corpora.corpus import Corpus
from attnaudit.plans.spec import RunSpec
from attnaudit.plans.training import Training
from attnaudit.plans.transformer import TransformerTraining
from attnaudit.studies.over_seeds import ScoredModels, score_measures
from attnaudit.studies.study import with_seeds, without_scores

ALL = "all"


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
            yield Training.of("base", spec)
            yield evenly(spec)


@dataclass(frozen=True)
class TransformerUniform(Uniform):
    """Compare a transformer with one whose heads attend uniformly in some layers.

    A model with one uniform layer is called ``uniform_layer<number>``.
    """

    layers: tuple[str, ...] = setting(
        "Layers with uniform attention, one model for each: all, last, or a number from 0.",
        (ALL, "last"),
    )

    def trainings(self, base: TransformerTraining, corpus: Corpus) -> Iterator[Training]:
        """Train the model as it is, and with each choice of uniform layers."""
        self.check_classifier(base)
        variants = {}
        for name in self.layers:
            layers = self._numbers(name, base.model.layers)
            variants["" if name == ALL else f"layer{layers[0]}"] = layers
        for spec in map(without_scores, with_seeds(base, self.seeds)):
            yield Training.of("base", spec)
            for name, layers in variants.items():
                yield Training.of("uniform", replace(spec, uniform=layers), name)

    def _numbers(self, name: str, layers: int) -> tuple[int, ...]:
        """Return the numbers of ``all``, ``last`` or one of the layers. Raises InputError."""
        every = tuple(range(layers))
        known = {ALL: every, "last": every[-1:], **{str(number): (number,) for number in every}}
        if name.strip() not in known:
            expected = f"{ALL}, last, or layers from 0 to {layers - 1} joined by commas"
            raise InputError("read settings", f"setting {self.name}.layers", repr(name), expected)
        return known[name.strip()]


def evenly(spec: RunSpec) -> Training:
    """Return the training of the same model with uniform attention."""
    model = replace(spec.model, attention="uniform")
    return Training.of("uniform", replace(without_scores(spec), model=model))
