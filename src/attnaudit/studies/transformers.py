"""The studies `uniform` and `deceive` of small transformers that are trained here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import polars as pl

from attnaudit.core.errors import InputError
from attnaudit.core.papers import Paper
from attnaudit.core.ragged import Ragged
from attnaudit.core.settings import setting
from attnaudit.plans.training import (
    Layout,
    Training,
    TrainingId,
    check_least,
    seeded,
    without_scores,
)
from attnaudit.results.measures import Measure
from attnaudit.studies.deceive import (
    MEASURES,
    Deceive,
    check_strengths,
    means_of_models,
    measured,
    named,
    on_shared_texts,
    over_heads,
    unmeasured,
)
from attnaudit.studies.over_seeds import compare_models, predictions
from attnaudit.studies.uncovering import UNCOVERING, uncovering
from attnaudit.studies.uniform import Uniform
from attnaudit.trace import Trace

if TYPE_CHECKING:
    from attnaudit.corpora import Corpus
    from attnaudit.plans.transformer import TransformerTraining

ALL, LAST = "all", "last"
AUDITED = (*MEASURES, *(measure.name for measure in UNCOVERING))


@dataclass(frozen=True)
class TransformerUniform:
    """A transformer as it is against the same with uniform attention in all heads of some ``layers``, trained alike with ``seeds`` seeds.

    ``layers`` are ``all``, ``last`` or numbers from 0, a model each. Table and summary are those of `Uniform`; a model of one layer is
    called ``uniform_layer<number>``.
    """

    name: ClassVar[str] = Uniform.name
    question: ClassVar[str] = Uniform.question
    paper: ClassVar[Paper] = Uniform.paper
    measures: ClassVar[tuple[Measure, ...]] = Uniform.measures
    layout: ClassVar[Layout] = Uniform.layout
    quick: ClassVar[Mapping[str, Any]] = {"seeds": 3}
    seeds: int = setting("Number of trainings (seeds) of each model.", 5)
    layers: tuple[str, ...] = setting(
        "Layers with uniform attention, one model for each: all, last, or a number from 0.",
        (ALL, LAST),
    )
    seed: int = setting("Seed of the intervals; default: --seed.", 0)

    def __post_init__(self) -> None:
        check_least(self, seeds=1)
        wrong = [
            layer for layer in self.layers if layer not in (ALL, LAST) and not layer.isdecimal()
        ]
        if wrong or not self.layers:
            got = repr(wrong[0]) if wrong else "none"
            raise InputError(
                "study",
                "setting uniform.layers",
                got,
                f"{ALL}, {LAST}, or numbers of layers from 0, joined by commas",
            )

    def plan(self, base: TransformerTraining, corpus: Corpus) -> Sequence[Training]:
        """Raises InputError for a model of next tokens, and for a layer that there is not."""
        check_classifier(self.name, base)
        variants = {layer: self._variant(layer, base.model.layers) for layer in self.layers}
        return [
            training
            for seed in range(base.seed, base.seed + self.seeds)
            for training in self._of_seed(base, seed, variants)
        ]

    @staticmethod
    def _variant(layer: str, number: int) -> tuple[str, tuple[int, ...]]:
        """What a model is called, and its uniform layers."""
        if layer == ALL:
            return "", tuple(range(number))
        chosen = number - 1 if layer == LAST else int(layer)
        if chosen >= number:
            raise InputError(
                "study",
                "setting uniform.layers",
                layer,
                f"{ALL}, {LAST}, or layers from 0 to {number - 1}",
            )
        return f"layer{chosen}", (chosen,)

    def _of_seed(
        self, base: TransformerTraining, seed: int, variants: Mapping[str, tuple[str, tuple[int, ...]]]
    ) -> Iterator[Training]:  # fmt: skip
        spec = without_scores(seeded(base, seed))
        yield Training(TrainingId("base", seed), spec)
        for variant, layers in dict.fromkeys(variants.values()):
            yield Training(TrainingId("uniform", seed, variant), replace(spec, uniform=layers))

    def __call__(self, traces: Mapping[TrainingId, Trace]) -> pl.DataFrame:
        ordered = sorted(
            traces, key=lambda training: (training.seed, training.role, training.variant)
        )
        models = {
            training: "_".join(filter(None, (training.role, training.variant)))
            for training in ordered
        }
        rows = [
            predictions(models[training], training.seed, traces[training]) for training in ordered
        ]
        return pl.concat(rows).unique(
            ["model", "seed", "instance"], maintain_order=True
        )  # a row for each head says the same

    def summarise(self, table: pl.DataFrame) -> pl.DataFrame:
        return compare_models(self.name, table, against="base", seed=self.seed)


@dataclass(frozen=True)
class TransformerDeceive:
    """A transformer trained to hide what it attends to: ``loss − λ · mean log(1 − Σ_{t∈I} alpha_t)``, and whether an audit uncovers it.

    It is trained for each λ of ``strengths`` with ``seeds`` seeds; alpha is the attention of [CLS] in the last layer, the mean of its
    heads or, with ``heads`` "max", that of the head with most on I. The epoch of least loss on dev is kept. The impermissible tokens I are
    the pieces of the ``words``, in lower case, by default those of the corpus's rationale. One more training has them removed from the
    texts: the accuracy that is possible without them.

    Table and summary have what `Deceive` has, over the tokens that are not special, and for every text whether the audit of that model
    names an impermissible token (`attnaudit.studies.uncovering`): ``found_attention``, ``found_gradient`` and ``found_loo`` by the largest
    value, ``found_change`` by `MaximalChange`, ``found_erasure`` by the smallest set of `Erasure`, ``found_random`` by chance.
    ``max_delta_y`` is the largest change found, ``flips`` and ``flips_all`` say whether any attention of a head, or of all, flips the
    decision. With several heads all are means over heads.
    """

    name: ClassVar[str] = Deceive.name
    question: ClassVar[str] = Deceive.question
    paper: ClassVar[Paper] = Deceive.paper
    measures: ClassVar[tuple[Measure, ...]] = Deceive.measures
    layout: ClassVar[Layout] = Deceive.layout
    quick: ClassVar[Mapping[str, Any]] = {
        "strengths": (0.0, 1.0),
        "seeds": 1,
        "collect.sample": 200,
    }
    overruled: ClassVar[Mapping[str, str]] = {"training.select": "no other than loss, as published"}
    decided: ClassVar[Mapping[str, Any]] = {"training.select": "loss"}
    strengths: tuple[float, ...] = setting(
        "Weights λ of the penalty; one training for each.", (0.0, 0.1, 1.0)
    )
    seeds: int = setting("Number of trainings (seeds) for each λ.", 3)
    heads: Literal["mean", "max"] = setting(
        "Which attention is penalised: mean (of the heads), or max (the head with most attention on impermissible tokens).",
        "mean",
    )
    words: tuple[str, ...] | None = setting(
        "Impermissible words, in lower case; none: the rationale.", None
    )
    seed: int = setting("Seed of the intervals; default: --seed.", 0)

    def __post_init__(self) -> None:
        check_strengths(self.strengths)
        check_least(self, seeds=1)

    def plan(self, base: TransformerTraining, corpus: Corpus) -> Sequence[Training]:
        """Raises InputError for a model of next tokens, pairs of texts, and a corpus without rationales where no words are given."""
        from attnaudit.corpora.prepare.derived import marks

        check_classifier(self.name, base)
        if corpus.task != "classification":
            raise InputError(
                "study",
                f"{self.name} on {corpus.name}",
                corpus.task,
                "a corpus of texts alone, without questions",
            )
        for name, split in corpus.splits.items():
            if self.words is None and not any(map(any, marks(split, "rationale", name))):
                do = "give deceive.words, in lower case"
                raise InputError(
                    "study",
                    "impermissible tokens, the rationale",
                    f"none in {name}",
                    "some in every split",
                    do,
                )
        return [
            training
            for seed in range(base.seed, base.seed + self.seeds)
            for training in self._of_seed(seeded(base, seed))
        ]

    def _of_seed(self, spec: TransformerTraining) -> Iterator[Training]:
        from attnaudit.training.settings import Deceive as Objective

        spec = replace(spec, training=replace(spec.training, select="loss"))
        for strength in sorted(self.strengths):
            objective = Objective(strength, self.words, self.heads)
            yield Training(
                TrainingId("deceive", spec.seed, spec.config, strength),
                replace(spec, objective=objective),
            )
        removed = replace(
            without_scores(spec), corpus=replace(spec.corpus, removed=self.words or "rationale")
        )
        yield Training(TrainingId("removed", spec.seed, spec.config), removed)

    def __call__(self, traces: Mapping[TrainingId, Trace]) -> pl.DataFrame:
        trainings = sorted(
            traces, key=lambda one: (one.seed, one.strength is None, one.strength or 0.0)
        )
        return on_shared_texts(
            pl.concat([named(self._rows(training, traces), training) for training in trainings])
        )

    def _rows(self, training: TrainingId, traces: Mapping[TrainingId, Trace]) -> pl.DataFrame:
        trace = traces[training]
        if training.strength is None:
            unknown = {measure.name: pl.lit(None, dtype=pl.Float64) for measure in UNCOVERING}
            return over_heads(unmeasured(trace).with_columns(**unknown), True, AUDITED)
        impermissible = trace.table["rationale"].to_list()
        rows = measured(
            trace, traces[replace(training, strength=min(self.strengths))], impermissible
        )
        lengths = trace.alpha.lengths.tolist()
        marked = Ragged.from_rows(
            [row or [False] * length for row, length in zip(impermissible, lengths, strict=True)],
            bool,
        )
        return over_heads(
            pl.concat([rows, uncovering(trace, marked)], how="horizontal"), True, AUDITED
        )

    def summarise(self, table: pl.DataFrame) -> pl.DataFrame:
        return means_of_models(self.name, table, AUDITED, self.seed)


def check_classifier(study: str, base: TransformerTraining) -> None:
    """Raise InputError for a transformer that predicts next tokens."""
    if base.architecture.causal:
        raise InputError(
            "study",
            f"{study} of {base.config}",
            "a model of next tokens",
            "a classifier, as small-bert",
        )
