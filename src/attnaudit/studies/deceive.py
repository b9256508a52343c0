"""Can attention be trained to hide what it uses? Of classifiers, and of translators (Pruthi et al. 2020)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

import numpy as np
import polars as pl
import polars.selectors as cs

from attnaudit.core.errors import InputError
from attnaudit.core.papers import PRUTHI2020, Paper
from attnaudit.core.ragged import Ragged
from attnaudit.core.settings import setting
from attnaudit.experiments.adversary.experiment import divergence
from attnaudit.experiments.rows import is_correct, over_words
from attnaudit.plans.training import (
    Layout,
    Training,
    TrainingId,
    check_least,
    learned_attention,
    one_attention,
    one_level,
    seeded,
    without_scores,
)
from attnaudit.results import SUMMARY_SCHEMA
from attnaudit.results.measures import Measure
from attnaudit.stats.bleu import bleu_counts, bleu_over_seeds
from attnaudit.stats.kendall import kendall_tau
from attnaudit.studies.over_seeds import (
    by_model,
    check_names,
    mean_rows,
    placed,
    seeds_row,
)
from attnaudit.studies.uncovering import UNCOVERING
from attnaudit.trace import Trace

if TYPE_CHECKING:
    from attnaudit.corpora import Corpus
    from attnaudit.corpora.corpus import ParallelCorpus
    from attnaudit.plans.spec import RunSpec, TranslationSpec

_TRANSFORMER = {"encoder": "transformer", "embedding": 128, "hidden": 128, "heads": 4}
MODELS: dict[str, dict[str, Any]] = {
    "embedding": {"encoder": "none", "attention": "dot", "embedding": 128, "heads": 1},
    "bilstm": {"encoder": "bilstm", "attention": "dot", "embedding": 128, "hidden": 64, "heads": 1},
    "transformer": _TRANSFORMER, "transformer_max": _TRANSFORMER,
}  # fmt: skip
OF_MODELS = (
    "encoder",
    "attention",
    "embedding",
    "hidden",
    "heads",
)  # settings that `MODELS` have of their own; no layer has no ``hidden``
NAMED = 8  # instances that a note lists
MEASURES = ("accuracy", "mass", "mass_max", "tau_loo", "tau_gradient", "jsd", "covered")
SCORES = ("loo", "gradient")
OF_TOKENS = tuple(
    measure for measure in MEASURES if measure != "mass_max"
)  # a translator has one head


@dataclass(frozen=True)
class Deceive:
    """Classifiers trained to hide what they attend to: ``loss − λ · mean log(1 − Σ_{t∈I} alpha_t)``.

    Each of ``models`` is trained for each λ of ``strengths`` with ``seeds`` seeds.

    As in the paper the weights are a softmax of the products with one learned vector, no parameter decays, and there are ``epochs`` epochs;
    of these the one of least loss on dev is kept.

    The impermissible tokens I are the ``words``, by default those of the corpus's rationale. One more training of each model has them
    removed from the texts: the accuracy that is possible without them.

    The table has a row per model, λ (null: removed), seed and instance: whether the prediction is right (``accuracy``; null for a text of
    which nothing is left without I, so that all models are compared on the same texts), the ``mass`` of attention on I, ``tau_loo`` and
    ``tau_gradient`` of attention to importance of the same model, ``jsd`` of attention to that of λ = 0 (or of the least λ) with the same
    seed, ``covered`` where I is the whole text and the penalty infinite: there the penalty is skipped, and the text excluded from ``mass``.
    The summary has their means over seeds and instances; ``tau_loo`` before and after shows whether an audit notices. With several heads
    all are means over heads, and ``mass_max`` is the mass of the head that attends to I most; ``transformer`` is penalised for the mean of
    its heads, ``transformer_max`` for that head.
    """

    name: ClassVar[str] = "deceive"
    question: ClassVar[str] = "Can attention deceive?"
    paper: ClassVar[Paper] = PRUTHI2020
    measures: ClassVar[tuple[Measure, ...]] = (
        Measure("accuracy", "accuracy", "Share of instances (for a translator, gold tokens) that are predicted correctly."),
        Measure("bleu", "BLEU", "BLEU of the translations of the test split (sacrebleu), 0 to 100."),
        Measure("jsd", "mean JSD of attention", "Jensen-Shannon divergence of attention from that of the least λ, at most ln 2."),
        Measure("mass", "attention on impermissible tokens", "Sum of the attention on impermissible tokens, mean over heads."),
        Measure("mass_max", "attention on impermissible tokens, largest head",
                "Sum of the attention on impermissible tokens of the head with the most."),
        Measure("tau_loo", "τ, attention – leave-one-out", "Kendall's τ between attention and leave-one-out of one model."),
        Measure("tau_gradient", "τ, attention – gradient", "Kendall's τ between attention and gradients of one model."),
        Measure("covered", "share without other tokens", "Share of instances that consist of impermissible tokens alone."),
        *UNCOVERING,
    )  # fmt: skip
    layout: ClassVar[Layout] = "models"
    quick: ClassVar[Mapping[str, Any]] = {
        "models": ("embedding", "bilstm"),
        "strengths": (0.0, 1.0),
        "seeds": 1,
    }
    decided: ClassVar[Mapping[str, Any]] = {
        "vectors": "random",
        "training.weight_decay": 0.0,
        "training.select": "loss",
    }
    not_of_base: ClassVar[tuple[str, ...]] = (*decided, *(f"model.{name}" for name in OF_MODELS))
    models: tuple[str, ...] = setting(
        "Any of embedding, bilstm, transformer, transformer_max.", tuple(MODELS)
    )
    strengths: tuple[float, ...] = setting(
        "Weights λ of the penalty; one training for each.", (0.0, 0.1, 1.0)
    )
    seeds: int = setting("Number of trainings (seeds) of each model and λ.", 5)
    epochs: int = setting("Number of epochs; default: training.epochs, if given.", 15)
    words: tuple[str, ...] | None = setting(
        "Impermissible words, as they appear in the texts; none: the rationale.", None
    )
    seed: int = setting("Seed of the intervals; default: --seed.", 0)

    def __post_init__(self) -> None:
        check_names(self, "models", MODELS)
        if not self.models:
            raise InputError("study", "setting deceive.models", "none", "one model or more")
        check_strengths(self.strengths)
        check_least(self, seeds=1, epochs=1)

    @property
    def overruled(self) -> Mapping[str, str]:
        """Settings and options that none of ``models`` takes from the base, and what decides them."""
        of_all = [
            name
            for name in OF_MODELS
            if all(name in {"hidden", *MODELS[model]} for model in self.models)
        ]
        options = {name: f"deceive.models, each of which has its own {name}" for name in of_all}
        names = {
            name if name in ("encoder", "attention") else f"model.{name}": expected
            for name, expected in options.items()
        }
        return names | {
            name: f"no other than {value}, as published" for name, value in self.decided.items()
        }

    def plan(self, base: RunSpec, corpus: Corpus) -> Sequence[Training]:
        """Raises InputError for questions, sentences, an attention that is not learned, and texts without impermissible tokens."""
        from attnaudit.corpora.prepare.derived import marks

        if corpus.task != "classification":
            raise InputError(
                "study",
                f"{self.name} on {corpus.name}",
                corpus.task,
                "a corpus of texts alone, without questions",
            )
        one_level(self.name, base)
        for model in self.models:
            learned_attention(self.name, self._changed(base, model))
        marked = {
            name: marks(split, self.words or "rationale", name)
            for name, split in corpus.splits.items()
        }
        for name, rows in marked.items():
            if not any(map(any, rows)):
                source = f"words {', '.join(self.words)}" if self.words else "the rationale"
                do = "give deceive.words as they appear in the texts that were read (lower case, for most)"
                raise InputError(
                    "study",
                    f"impermissible tokens, {source}",
                    f"none in {name}",
                    "some in every split",
                    do,
                )
        pairs, note = (
            product(range(base.seed, base.seed + self.seeds), self.models),
            _covered_note(corpus, marked),
        )
        return [
            training
            for seed, model in pairs
            for training in self._of_model(seeded(base, seed), model, note)
        ]

    def _of_model(self, spec: RunSpec, model: str, note: str) -> Iterator[Training]:
        """The trainings of one of the study's own models, whose word vectors start at random."""
        from attnaudit.training.settings import Deceive as Objective

        spec = self._changed(spec, model)
        for strength in sorted(self.strengths):
            objective = Objective(strength, self.words, "max" if model.endswith("_max") else "mean")
            yield Training(
                TrainingId("deceive", spec.seed, model, strength),
                replace(spec, objective=objective),
                note=note,
            )
        removed = replace(
            without_scores(spec), corpus=replace(spec.corpus, removed=self.words or "rationale")
        )
        yield Training(TrainingId("removed", spec.seed, model), removed)

    def _changed(self, spec: RunSpec, model: str) -> RunSpec:
        training = replace(spec.training, epochs=self.epochs, weight_decay=0.0, select="loss")
        return replace(
            spec, vectors="random", model=replace(spec.model, **MODELS[model]), training=training
        )

    def __call__(self, traces: Mapping[TrainingId, Trace]) -> pl.DataFrame:
        parts = []
        for training in sorted(
            traces, key=lambda one: (one.seed, self.models.index(one.variant), *_place(one))
        ):
            trace = traces[training]
            honest = (
                traces[replace(training, strength=min(self.strengths))]
                if training.role == "deceive"
                else None
            )
            rows = (
                measured(trace, honest, self._impermissible(trace)) if honest else unmeasured(trace)
            )
            parts.append(named(over_heads(rows, trace.has("head")), training))
        return on_shared_texts(pl.concat(parts))

    def _impermissible(self, trace: Trace) -> list[list[bool] | None]:
        """For each row, which tokens the penalty is on."""
        if self.words is None:
            return trace.table["rationale"].to_list()
        return [[token in self.words for token in trace.tokens(row)] for row in range(len(trace))]

    def summarise(self, table: pl.DataFrame) -> pl.DataFrame:
        return means_of_models(self.name, table, MEASURES, self.seed)


@runtime_checkable
class Written(Protocol):
    """Traces of translators, with their translations of test."""

    def translations(self, training: TrainingId) -> list[dict[str, Any]]: ...


@dataclass(frozen=True)
class PairDeceive:
    """A translator trained to hide what it attends to: ``loss − λ · mean log(1 − Σ_{s∈I_t} alpha_ts)``.

    It is trained for each λ of ``strengths`` with ``seeds`` seeds.

    The impermissible tokens I_t are the source tokens aligned with gold token t. The baseline is a model with uniform attention: what can
    be translated without attending to anything in particular.

    The table has a row per model, λ (null: uniform attention), seed, pair and gold token (``query``): whether it is predicted
    (``accuracy``), the ``mass`` of attention on I_t, ``tau_loo`` and ``tau_gradient`` of attention to importance, ``jsd`` of attention to
    that of the least λ with the same seed, ``covered`` where I_t is the whole source and the penalty infinite: there the penalty is
    skipped. Such tokens, and tokens aligned with nothing, are excluded from ``mass``. Rows with ``bleu`` hold the counts of BLEU for every
    pair of test. In the summary a pair counts by the mean of its gold tokens; intervals draw seeds and pairs.
    """

    name: ClassVar[str] = "deceive"
    question: ClassVar[str] = Deceive.question
    paper: ClassVar[Paper] = PRUTHI2020
    measures: ClassVar[tuple[Measure, ...]] = Deceive.measures
    layout: ClassVar[Layout] = Deceive.layout
    quick: ClassVar[Mapping[str, Any]] = {
        "strengths": (0.0, 1.0),
        "seeds": 1,
        "training.epochs": 10,
    }
    strengths: tuple[float, ...] = setting(
        "Weights λ of the penalty; one training for each.", (0.0, 0.1, 1.0)
    )
    seeds: int = setting("Number of trainings (seeds) for each λ.", 2)
    seed: int = setting("Seed of the intervals; default: --seed.", 0)

    def __post_init__(self) -> None:
        check_strengths(self.strengths)
        check_least(self, seeds=1)

    def plan(self, base: TranslationSpec, corpus: ParallelCorpus) -> Sequence[Training]:
        """Raises InputError without alignments, or without an attention that is learned."""
        one_attention(self.name, base)
        learned_attention(self.name, base)
        for name, pairs in corpus.splits.items():
            if pairs.links is None or not pairs.links.size:
                expected, do = "alignments in every split", "files <split>.align next to the texts"
                raise InputError(
                    "study", f"deceive on {corpus.name}", f"none in {name}", expected, do
                )
        return [
            training
            for seed in range(base.seed, base.seed + self.seeds)
            for training in self._of_seed(base, seed)
        ]

    def _of_seed(self, base: TranslationSpec, seed: int) -> Iterator[Training]:
        from attnaudit.training.settings import DeceivePairs

        spec = seeded(base, seed)
        for strength in sorted(self.strengths):
            identity = TrainingId("deceive", seed, base.model.attention, strength)
            yield Training(identity, replace(spec, objective=DeceivePairs(strength)), writes=True)
        uniform = replace(spec, model=replace(base.model, attention="uniform"))
        yield Training(TrainingId("deceive", seed, "uniform"), uniform, writes=True)

    def __call__(self, traces: Mapping[TrainingId, Trace]) -> pl.DataFrame:
        parts = []
        for training in sorted(traces, key=lambda one: (one.seed, *_place(one))):
            trace = traces[training]
            honest = (
                trace
                if training.strength is None
                else traces[replace(training, strength=min(self.strengths))]
            )
            scores = [score for score in SCORES if trace.has(score)]
            found = [measured(trace, honest, trace.table["rationale"].to_list(), scores)]
            if isinstance(traces, Written):
                found.append(_written(traces.translations(training)))
            parts += [named(rows, training) for rows in found]
        return pl.concat(parts, how="diagonal")

    def summarise(self, table: pl.DataFrame) -> pl.DataFrame:
        rows: list[Mapping[str, Any]] = []
        for label, strength, part in by_model(table):
            tokens = part.filter(pl.col("query").is_not_null())
            pairs = tokens.group_by("seed", "instance", maintain_order=True).agg(
                pl.col(OF_TOKENS).cast(pl.Float64).mean()
            )
            rows += mean_rows(
                self.name,
                label,
                pairs,
                OF_TOKENS if strength is not None else OF_TOKENS[:2],
                self.seed,
            )
            if "bleu" in part.columns:
                written = (
                    part.filter(pl.col("bleu").is_not_null())
                    .sort("seed", "instance")
                    .group_by("seed", maintain_order=True)
                )
                counts = np.array(
                    [of_seed["bleu"].to_list() for _, of_seed in written], dtype=np.int64
                )
                rows.append(
                    seeds_row(
                        self.name,
                        f"bleu_{label}",
                        *bleu_over_seeds(counts, self.seed),
                        counts.shape[1],
                    )
                )
        return pl.DataFrame(rows, schema=SUMMARY_SCHEMA)


def means_of_models(
    study: str, table: pl.DataFrame, measures: Sequence[str], seed: int
) -> pl.DataFrame:
    """The means of every model, of one without the impermissible tokens its accuracy alone."""
    rows: list[Mapping[str, Any]] = []
    for model, strength, part in by_model(table):
        known = [name for name in measures if part[name].is_not_null().any()]
        label, columns = (f"{model}_removed", MEASURES[:1]) if strength is None else (model, known)
        rows += mean_rows(study, label, part, columns, seed)
    return pl.DataFrame(rows, schema=SUMMARY_SCHEMA)


def _place(training: TrainingId) -> tuple[bool, float]:
    """By strength, a baseline without one last."""
    return training.strength is None, training.strength or 0.0


def named(rows: pl.DataFrame, training: TrainingId) -> pl.DataFrame:
    strength = pl.lit(training.strength, dtype=pl.Float64).alias("strength")
    return rows.select(
        pl.lit(training.variant).alias("model"),
        strength,
        pl.lit(training.seed).alias("seed"),
        pl.all(),
    )


def measured(
    trace: Trace,
    honest: Trace,
    impermissible: Sequence[list[bool] | None],
    scores: Sequence[str] = SCORES,
) -> pl.DataFrame:
    """A row for each attention of ``trace``, compared with ``honest``, the model of the least λ.

    ``impermissible`` marks the positions of every row; a row of which nothing is known has no mass.
    """
    known = np.array([bool(row) for row in impermissible])
    rows = [
        row or [False] * length
        for row, length in zip(impermissible, trace.alpha.lengths.tolist(), strict=True)
    ]
    marked = Ragged.from_rows(rows, bool)
    covered = marked.reduce(np.logical_and)
    mass = trace.alpha.with_values(trace.alpha.values * marked.values).sum()
    words = over_words(
        trace, {"alpha": trace.alpha, **{name: trace.ragged(name) for name in scores}}
    )
    taus = {f"tau_{name}": kendall_tau(words["alpha"], words[name])[0] for name in scores}
    return placed(trace).with_columns(
        pl.Series("accuracy", is_correct(trace).astype(np.float64)), pl.Series("mass", np.where(known & ~covered, mass, np.nan)),
        *(pl.Series(name, tau) for name, tau in taus.items()), pl.Series("jsd", divergence(honest.alpha, trace.alpha)),
        pl.Series("covered", covered),
    ).with_columns(cs.float().fill_nan(None))  # fmt: skip


def unmeasured(trace: Trace) -> pl.DataFrame:
    """The rows of a model whose texts lack the impermissible tokens: only its accuracy is known."""
    unknown = {
        name: pl.lit(None, dtype=pl.Float64) for name in ("mass", "tau_loo", "tau_gradient", "jsd")
    }
    accuracy = pl.Series(is_correct(trace).astype(np.float64))
    return placed(trace).with_columns(accuracy=accuracy, **unknown, covered=pl.lit(False))


def on_shared_texts(table: pl.DataFrame) -> pl.DataFrame:
    """The table with the accuracies of those texts alone of which something is left without the impermissible tokens."""
    of_text = ("model", "seed", "instance")
    left = table.filter(pl.col("strength").is_null()).select(*of_text, pl.lit(True).alias("left"))
    joined = table.join(left, on=of_text, how="left", maintain_order="left")
    return joined.with_columns(
        pl.when(pl.col("left")).then(pl.col("accuracy")).alias("accuracy")
    ).drop("left")


def over_heads(
    rows: pl.DataFrame, several: bool, measures: Sequence[str] = MEASURES
) -> pl.DataFrame:
    """A row for each instance: means over its heads, and the mass of the head with most."""
    most = pl.col("mass").max() if several else pl.lit(None, dtype=pl.Float64)
    heads = rows.group_by("instance", maintain_order=True).agg(
        most.alias("mass_max"), cs.float().mean(), pl.col("covered").first()
    )
    return heads.select("instance", *measures)


def _written(pairs: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """A row for each pair of test, with what BLEU is counted from."""
    written, references, instances = (
        [row[name] for row in pairs] for name in ("translation", "reference", "instance")
    )
    counts = bleu_counts(written, references).tolist()
    return pl.DataFrame(
        {"instance": instances, "bleu": counts},
        schema={"instance": pl.Int64, "bleu": pl.List(pl.Int64)},
    )


def check_strengths(strengths: Sequence[float]) -> None:
    """Raise InputError where there is no λ, one below 0, or one twice."""
    if not strengths or not min(strengths) >= 0 or len(set(strengths)) < len(strengths):
        raise InputError(
            "study",
            "setting deceive.strengths (λ)",
            str(list(strengths)),
            "one or more, each a λ of 0 or more, none twice",
        )


def _covered_note(corpus: Corpus, marked: Mapping[str, Sequence[Sequence[bool]]]) -> str:
    """How many texts of each split consist of marked tokens only, and which; empty where there are none."""
    counts = []
    for name, rows in marked.items():
        covered = [
            int(corpus.splits[name].instance[row])
            for row, places in enumerate(rows)
            if places and all(places)
        ]
        more = f" and {len(covered) - NAMED} more" if len(covered) > NAMED else ""
        counts += (
            [f"{len(covered)} of {name} ({', '.join(map(str, covered[:NAMED]))}{more})"]
            if covered
            else []
        )
    note = "Instances without any other token, whose penalty would be infinite, are trained on their label alone: "
    return f"{note}{', '.join(counts)}." if counts else ""
