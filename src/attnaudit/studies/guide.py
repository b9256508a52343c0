"""Do these weights carry information to another model? A bag of words led by weights from elsewhere (Wiegreffe & Pinter 2019)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import polars as pl

from attnaudit.core.errors import InputError
from attnaudit.core.papers import WIEGREFFE2019, Paper
from attnaudit.core.settings import setting
from attnaudit.plans.training import (
    Layout,
    Training,
    TrainingId,
    check_least,
    learned_attention,
    one_attention,
    seeded,
    usual,
    without_scores,
)
from attnaudit.results.measures import Measure
from attnaudit.studies.adversary import ModelAdversary
from attnaudit.studies.over_seeds import (
    check_names,
    compare_models,
    compared,
    predictions,
)
from attnaudit.trace import Trace

if TYPE_CHECKING:
    from attnaudit.corpora import Corpus
    from attnaudit.plans.spec import RunSpec

USUAL = ("uniform", "learned", "base", "gradient", "adversary")
WEIGHTS = (*USUAL, "rationale")
HIDDEN = 128


@dataclass(frozen=True)
class Guide:
    """An MLP that sees one token at a time (embedding, 128 tanh units, weighted sum, output), trained under given ``weights``.

    ``uniform`` is 1/T, ``learned`` its own attention, trained with it, ``base`` the attention of the model under study, ``gradient`` that
    model's importance by gradient, ``adversary`` the attention of one trained against it with λ = ``strength`` (``patience`` and ``epochs``
    as in `ModelAdversary`), ``rationale`` the tokens known to matter, where the corpus tells them (then by default too); each of
    ``traces`` is the ``alpha`` of a trace of all splits.

    The table has a row per model, seed and instance with the ``probabilities``; the summary has accuracy, F1 and ROC-AUC of each, and
    ``difference_<figure>_<weights>``: less that of ``uniform``, paired, with an interval over seeds and instances.
    """

    name: ClassVar[str] = "guide"
    question: ClassVar[str] = "Does attention transfer?"
    paper: ClassVar[Paper] = WIEGREFFE2019
    measures: ClassVar[tuple[Measure, ...]] = compared("that with uniform weights")
    layout: ClassVar[Layout] = "models"
    quick: ClassVar[Mapping[str, Any]] = {"seeds": 1, "epochs": 30, "patience": 5}
    weights: tuple[str, ...] | None = setting(
        "Any of uniform, learned, base, gradient, adversary, rationale; none: all that the corpus allows.",
        None,
    )
    traces: tuple[str, ...] = setting(
        "Your own traces of all splits; the attention of each is a further choice of weights.", ()
    )
    strength: float = setting("λ of the adversary that gives weights.", 1e-3)
    patience: int = setting(
        "Stop that adversary after this many epochs without a better dev loss.", 10
    )
    epochs: int = setting(
        "Largest number of epochs of that adversary; default: training.epochs, if given.", 200
    )
    seeds: int = setting("Number of trainings (seeds) with each choice of weights.", 3)
    seed: int = setting("Seed of the intervals; default: --seed.", 0)

    def __post_init__(self) -> None:
        check_names(self, "weights", WEIGHTS)
        if not self.strength >= 0:
            raise InputError("study", "setting guide.strength (λ)", str(self.strength), "0 or more")
        check_least(self, seeds=1, patience=1, epochs=1)

    def plan(self, base: RunSpec, corpus: Corpus) -> Sequence[Training]:
        from attnaudit.corpora.prepare.derived import taught_by

        learned_attention(self.name, base)
        one_attention(self.name, base)
        for path in self.traces:
            taught_by(
                corpus, Trace.read(path), "alpha", path
            )  # what does not fit is refused before anything is trained
        first = usual(base, base.seed)
        against = ModelAdversary(patience=self.patience, epochs=self.epochs).against(
            first, base, self.strength, base.seed + 1
        )
        teachers = {"base": first, "gradient": first, "rationale": first, "adversary": against}
        known = all(
            split.rationale is not None and all(split.rationale) for split in corpus.splits.values()
        )
        if "rationale" in (self.weights or ()) and not known:
            got, do = f"rationale, which not every text of {corpus.name} has", "leave out rationale"
            raise InputError(
                "study",
                "setting guide.weights",
                got,
                "a corpus with a rationale for every text",
                do,
            )
        chosen = self.weights or (*USUAL, *(["rationale"] if known else []))
        guides: dict[str, Training | str | None] = {
            name: teachers.get(name) for name in ("uniform", *chosen)
        }
        guides |= {f"trace{k}": path for k, path in enumerate(self.traces, 1)}
        guided = [
            _guided(base, name, guide, base.seed + k)
            for name, guide in guides.items()
            for k in range(self.seeds)
        ]
        used = [*([first] if guides.get("adversary") else []), *guides.values()]
        return [
            *{guide.id: guide for guide in used if isinstance(guide, Training)}.values(),
            *guided,
        ]

    def __call__(self, traces: Mapping[TrainingId, Trace]) -> pl.DataFrame:
        weights = list(
            dict.fromkeys(
                (
                    "uniform",
                    *(self.weights or WEIGHTS),
                    *(f"trace{k}" for k in range(1, len(self.traces) + 1)),
                )
            )
        )
        guided = [training for training in traces if training.role == "guide"]
        ordered = sorted(
            guided, key=lambda training: (weights.index(training.variant), training.seed)
        )
        return pl.concat(
            [predictions(training.variant, training.seed, traces[training]) for training in ordered]
        )

    def summarise(self, table: pl.DataFrame) -> pl.DataFrame:
        return compare_models(self.name, table, against="uniform", seed=self.seed)


def _guided(base: RunSpec, weights: str, guide: Training | str | None, seed: int) -> Training:
    spec = without_scores(seeded(base, seed))
    attention = (
        "imposed" if guide is not None else "additive" if weights == "learned" else "uniform"
    )
    model = replace(
        spec.model, encoder="average", activation="tanh", hidden=HIDDEN, attention=attention
    )
    column = weights if weights in ("gradient", "rationale") else "alpha"
    return Training(TrainingId("guide", seed, weights), replace(spec, model=model), guide, column)
