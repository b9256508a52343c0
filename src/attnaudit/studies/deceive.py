"""Can attention be trained to hide what it uses? (Pruthi et al. 2020)."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any, ClassVar, Literal

import numpy as np
import polars as pl
import polars.selectors as cs

from attnaudit.core import InputError
from attnaudit.core.papers import PRUTHI2020
from attnaudit.core.ragged import Ragged
from attnaudit.core.settings import setting
from attnaudit.corpora.corpus import Corpus, ParallelCorpus
from attnaudit.corpora.prepare.derived import marks
from attnaudit.experiments.adversary.experiment import divergence
from attnaudit.experiments.rows import is_correct, over_words
from attnaudit.plans.spec import RunSpec, TranslationSpec
from attnaudit.plans.training import Training, TrainingId
from attnaudit.plans.transformer import TransformerTraining
from attnaudit.results import Measure
from attnaudit.stats.bleu import bleu_counts, bleu_over_seeds
from attnaudit.stats.kendall import kendall_tau
from attnaudit.studies.over_seeds import SummaryRows, by_model, means, seeds_row
from attnaudit.studies.study import (
    Study,
    Traces,
    labelled,
    stack,
    trace_rows,
    with_seeds,
    without_scores,
)
from attnaudit.studies.uncovering import UNCOVERING, uncovering
from attnaudit.trace import Trace
from attnaudit.trace.schema import ragged_column
from attnaudit.training.settings import Deceive as Objective
from attnaudit.training.settings import DeceivePairs

_TRANSFORMER = {"encoder": "transformer", "embedding": 128, "hidden": 128, "heads": 4}
Model = Literal["embedding", "bilstm", "transformer", "transformer_max"]
MODELS: dict[Model, dict[str, Any]] = {
    "embedding": {"encoder": "none", "attention": "dot", "embedding": 128, "heads": 1},
    "bilstm": {"encoder": "bilstm", "attention": "dot", "embedding": 128, "hidden": 64, "heads": 1},
    "transformer": _TRANSFORMER,
    "transformer_max": _TRANSFORMER,
}
AVERAGED = ("accuracy", "mass", "mass_max", "tau_loo", "tau_gradient", "jsd", "covered")
# Settings that `MODELS` have of their own; a model without an encoder has no ``hidden``.
OF_MODELS = ("encoder", "attention", "embedding", "hidden", "heads")
MEASURES = (
    Measure(
        "accuracy",
        "accuracy",
        "Share of texts (for a translator, gold tokens) that are predicted correctly.",
    ),
    Measure("bleu", "BLEU", "BLEU of the translations of the test split (sacrebleu), 0 to 100."),
    Measure(
        "jsd",
        "mean JSD of attention",
        "Jensen-Shannon divergence of attention from that of the least λ, at most ln 2.",
    ),
    Measure(
        "mass",
        "attention on impermissible tokens",
        "Sum of the attention on impermissible tokens, mean over heads.",
    ),
    Measure(
        "mass_max",
        "attention on impermissible tokens, largest head",
        "Sum of the attention on impermissible tokens of the head with the most.",
    ),
    Measure(
        "tau_loo",
        "τ, attention – leave-one-out",
        "Kendall's τ between attention and leave-one-out of one model.",
    ),
    Measure(
        "tau_gradient",
        "τ, attention – gradient",
        "Kendall's τ between attention and gradients of one model.",
    ),
    Measure(
        "covered",
        "share without other tokens",
        "Share of texts that consist only of impermissible tokens.",
    ),
    *UNCOVERING,
)


@dataclass(frozen=True)
class Deception(Study):
    """Common part of the studies of deception.

    Models are trained with ``loss − λ · mean log(1 − Σ_{t∈I} alpha_t)`` for each λ. The
    impermissible tokens I are those of the rationale, unless words are given. A baseline is trained
    on texts without these tokens.

    The table has a row per model, λ (null: the baseline), seed and instance, with means over heads:

    - ``accuracy``: whether the prediction is right; null for a text with no tokens but I, so that
      all models are compared on the same texts.
    - ``mass``: attention on I; ``mass_max``: that of the head with most.
    - ``tau_loo``, ``tau_gradient``: τ of attention with importance of the same model.
    - ``jsd``: divergence from the attention of the least λ with the same seed.
    - ``covered``: whether I is the whole text. The penalty is infinite there, so it is skipped, and
      ``mass`` is null.

    The summary has their means, ``<measure>_<model>_<λ>``.
    """

    name = "deceive"
    question = "Can attention deceive?"
    paper = PRUTHI2020
    measures = MEASURES
    averaged: ClassVar[tuple[str, ...]] = AVERAGED
    suffix: ClassVar[str] = "_removed"  # of the name of a baseline
    strengths: tuple[float, ...] = setting(
        "Weights λ of the penalty; one training for each.", (0.0, 0.1, 1.0)
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_strengths(self.strengths)

    def penalised(
        self, spec: Any, model: str, objective: Callable[[float], Any], **further: Any
    ) -> Iterator[Training]:
        """Yield the training of a model with each λ.

        Args:
            spec: Spec of the model, with its seed.
            model: Its name.
            objective: Objective for a λ.
            **further: Further fields of the trainings.
        """
        for strength in sorted(self.strengths):
            own = replace(spec, objective=objective(strength))
            yield Training.of("deceive", own, model, strength, **further)

    def impermissible(self, trace: Trace) -> pl.Series:
        """Mark the impermissible tokens of every row; null if nothing is known of it."""
        return trace.table["rationale"]

    def measured(self, training: TrainingId, traces: Traces) -> pl.DataFrame:
        """Measure each row of a trace, against the model of the least λ."""
        trace = traces[training]
        honest = trace
        if training.strength is not None:
            honest = traces[replace(training, strength=min(self.strengths))]
        rows = self.impermissible(trace)
        marked, known = _marked(trace, rows), rows.is_not_null().to_numpy()
        covered = marked.reduce(np.logical_and)
        mass = trace.alpha.with_values(trace.alpha.values * marked.values).sum()
        scores = {name: trace.ragged(name) for name in ("loo", "gradient") if trace.has(name)}
        words = over_words(trace, {"alpha": trace.alpha, **scores})
        return trace_rows(
            trace,
            accuracy=is_correct(trace).astype(np.float64),
            mass=np.where(known & ~covered, mass, np.nan),
            **{f"tau_{name}": kendall_tau(words["alpha"], words[name])[0] for name in scores},
            jsd=divergence(honest.alpha, trace.alpha),
            covered=covered,
        )

    def rows(self, training: TrainingId, traces: Traces) -> pl.DataFrame:
        """Measure one model, with means over heads."""
        trace, most = traces[training], pl.lit(None, pl.Float64)
        if training.role == "removed":
            right = is_correct(trace).astype(np.float64)
            rows = trace_rows(trace, accuracy=right, covered=np.zeros(len(trace), bool))
        else:
            rows = self.measured(training, traces)
            most = pl.col("mass").max() if trace.has("head") else most
        heads = rows.group_by("instance", maintain_order=True).agg(
            cs.float().mean(), pl.col("covered").first(), mass_max=most
        )
        columns = [name for name in self.averaged if name in heads.columns]
        return _labelled(training, heads.select("instance", *columns))

    def __call__(self, traces: Traces) -> pl.DataFrame:
        """Measure every model, with accuracies on the same texts."""
        # The baseline lacks the texts that have only impermissible tokens.
        left = pl.col("strength").is_null().any().over("model", "seed", "instance")
        return super().__call__(traces).with_columns(accuracy=pl.when(left).then("accuracy"))

    def summary_rows(self, table: pl.DataFrame) -> SummaryRows:
        """Average over seeds and instances."""
        for label, part in by_model(table):
            yield from self.model_rows(label, part)

    def model_rows(self, label: str, part: pl.DataFrame) -> SummaryRows:
        """Average the rows of one model; of a baseline only accuracy and mass."""
        columns = self.averaged
        if part["strength"][0] is None:
            columns, label = columns[:2], f"{label}{self.suffix}"
        known = [name for name in columns if name in part and part[name].count()]
        yield from means(self, part, {f"{name}_{label}": name for name in known})


@dataclass(frozen=True)
class Deceive(Deception):
    """Train classifiers of the paper to hide what they attend to.

    As in the paper, weights are a softmax of products with one learned vector, no parameter decays,
    and the number of epochs is fixed; the one of least loss on dev is kept. ``transformer`` is
    penalised for the mean of its heads, ``transformer_max`` for the head with most attention on I.
    """

    quick: ClassVar = {"models": ("embedding", "bilstm"), "strengths": (0.0, 1.0), "seeds": 1}
    decided: ClassVar = {
        "vectors": "random",
        "training.weight_decay": 0.0,
        "training.select": "loss",
    }
    not_of_base = (*decided, *(f"model.{name}" for name in OF_MODELS))
    models: tuple[Model, ...] = setting("Models; none: all.", tuple(MODELS))
    seeds: int = setting("Number of trainings (seeds) of each model and λ.", 5, least=1)
    epochs: int = setting("Number of epochs; default: training.epochs, if given.", 15, least=1)
    words: tuple[str, ...] | None = setting(
        "Impermissible words, as they appear in the texts; none: the rationale.", None
    )

    def variants(self) -> tuple[Model, ...]:
        """Return the models in their order."""
        return self.models or tuple(MODELS)

    @property
    def overruled(self) -> Mapping[str, str]:
        """Settings and options that no model of the study takes from the base."""
        reasons = {}
        for name in OF_MODELS:
            if all(name in {"hidden", *MODELS[model]} for model in self.variants()):
                key = name if name in ("encoder", "attention") else f"model.{name}"
                reasons[key] = f"deceive.models, each of which has its own {name}"
        decided = self.decided.items()
        return reasons | {name: f"no other than {value}, as published" for name, value in decided}

    def trainings(self, base: RunSpec, corpus: Corpus) -> Iterator[Training]:
        """Train each model with each λ, and without the impermissible tokens."""
        self.check_texts(corpus)
        note = _covered_note(corpus, self.words)
        for spec, model in product(with_seeds(base, self.seeds), self.variants()):
            training = replace(spec.training, epochs=self.epochs, weight_decay=0.0, select="loss")
            settings = replace(spec.model, **MODELS[model])
            spec = replace(spec, vectors="random", model=settings, training=training)
            heads = "max" if model.endswith("_max") else "mean"
            self.check_model(spec.model, one_head=False, words=True)
            objective = partial(Objective, words=self.words, heads=heads)
            yield from self.penalised(spec, model, objective, note=note)
            yield _removed(spec, model, self.words)

    def impermissible(self, trace: Trace) -> pl.Series:
        """Mark the words of every row."""
        if self.words is None:
            return super().impermissible(trace)
        return trace.table["tokens"].list.eval(pl.element().is_in(self.words))


@dataclass(frozen=True)
class TransformerDeceive(Deception):
    """Train a transformer to hide what it attends to, and see whether an audit uncovers it.

    ``alpha`` is the attention of [CLS] in the last layer. The epoch of least loss on dev is kept.
    Impermissible tokens are the pieces of the words. The table also has, for every text, whether
    the audit of that model names an impermissible token (`uncovering`).
    """

    averaged = (*AVERAGED, *(measure.name for measure in UNCOVERING))
    quick: ClassVar = {"strengths": (0.0, 1.0), "seeds": 1, "collect.sample": 200}
    overruled: ClassVar = {"training.select": "no other than loss, as published"}
    decided: ClassVar = {"training.select": "loss"}
    seeds: int = setting("Number of trainings (seeds) for each λ.", 3, least=1)
    heads: Literal["mean", "max"] = setting(
        "Which attention is penalised: mean (of the heads), or max (the head with most attention "
        "on impermissible tokens).",
        "mean",
    )
    words: tuple[str, ...] | None = setting(
        "Impermissible words, in lower case; none: the rationale.", None
    )

    def trainings(self, base: TransformerTraining, corpus: Corpus) -> Iterator[Training]:
        """Train the model with each λ, and without the impermissible tokens."""
        self.check_classifier(base)
        self.check_texts(corpus)
        if self.words is None:
            _covered_note(corpus, None)  # refuses a split without a rationale
        base = replace(base, training=replace(base.training, select="loss"))
        objective = partial(Objective, words=self.words, heads=self.heads)
        for spec in with_seeds(base, self.seeds):
            yield from self.penalised(spec, base.config, objective)
            yield _removed(spec, base.config, self.words)

    def measured(self, training: TrainingId, traces: Traces) -> pl.DataFrame:
        """Measure each row of a trace, and what an audit of it names."""
        trace = traces[training]
        found = uncovering(trace, _marked(trace, self.impermissible(trace)))
        return pl.concat([super().measured(training, traces), found], how="horizontal")


@dataclass(frozen=True)
class PairDeceive(Deception):
    """Train a translator to hide what it attends to.

    The impermissible tokens of a gold token are the source tokens aligned with it. The baseline has
    uniform attention: it shows what can be translated without attending to anything in particular.

    The table has a row per gold token (``query``); rows with ``bleu`` hold the counts of BLEU for
    every pair of the test split. In the summary a pair counts by the mean of its gold tokens.
    """

    suffix = ""
    quick: ClassVar = {"strengths": (0.0, 1.0), "seeds": 1, "training.epochs": 10}
    seeds: int = setting("Number of trainings (seeds) for each λ.", 2, least=1)

    def trainings(self, base: TranslationSpec, corpus: ParallelCorpus) -> Iterator[Training]:
        """Train the translator with each λ, and with uniform attention."""
        self.check_model(base.model)
        for name, pairs in corpus.splits.items():
            if pairs.links is None or not pairs.links.size:
                raise InputError(
                    "study",
                    f"deceive on {corpus.name}",
                    f"none in {name}",
                    "alignments in every split",
                    "files <split>.align next to the texts",
                )
        uniform = replace(base.model, attention="uniform")
        for spec in with_seeds(base, self.seeds):
            yield from self.penalised(spec, base.model.attention, DeceivePairs, also=("translate",))
            even = replace(spec, model=uniform)
            yield Training.of("deceive", even, "uniform", also=("translate",))

    def rows(self, training: TrainingId, traces: Any) -> pl.DataFrame:
        """Measure one translator, with rows of gold tokens and of translations."""
        pairs = traces.translations(training)
        texts = ([pair[name] for pair in pairs] for name in ("translation", "reference"))
        counts = pl.Series("bleu", bleu_counts(*texts).tolist(), pl.List(pl.Int64))
        instances = pl.Series("instance", [pair["instance"] for pair in pairs], pl.Int64)
        tokens = self.measured(training, traces)
        return _labelled(training, stack([tokens, pl.DataFrame([instances, counts])]))

    __call__ = Study.__call__  # all models translate the same pairs

    def model_rows(self, label: str, part: pl.DataFrame) -> SummaryRows:
        """Average over pairs, and score the translations."""
        yield from super().model_rows(label, part.filter(pl.col("query").is_not_null()))
        written = part.filter(pl.col("bleu").is_not_null()).sort("seed", "instance")
        counts = np.array([one["bleu"].to_list() for one in written.partition_by("seed")])
        bleu, drawn = bleu_over_seeds(counts, self.seed)
        yield seeds_row(self, f"bleu_{label}", bleu, drawn, counts.shape[1])


def _marked(trace: Trace, rows: pl.Series) -> Ragged:
    """Return marks of every position; none in a null row."""
    marked = np.zeros(len(trace.alpha.values), bool)
    marked[trace.alpha.spread(rows.is_not_null().to_numpy())] = ragged_column(rows).values
    return trace.alpha.with_values(marked)


def _labelled(one: TrainingId, rows: pl.DataFrame) -> pl.DataFrame:
    return labelled(rows, model=one.variant, strength=one.strength, seed=one.seed)


def _removed(spec: Any, model: str, words: tuple[str, ...] | None) -> Training:
    """Return the training of a model on texts without the impermissible tokens."""
    spec = replace(without_scores(spec), corpus=replace(spec.corpus, removed=words or "rationale"))
    return Training.of("removed", spec, model)


def _covered_note(corpus: Corpus, words: tuple[str, ...] | None) -> str:
    """Count the texts of each split that have only impermissible tokens; empty without any.

    Raises:
        InputError: A split has no impermissible token.
    """
    counts = []
    for name, split in corpus.splits.items():
        rows = marks(split, words or "rationale", name)
        if not any(map(any, rows)):
            source = f"words {', '.join(words)}" if words else "the rationale"
            where, got = f"impermissible tokens, {source}", f"none in {name}"
            do = "give deceive.words as they appear in the texts (lower case, for most)"
            raise InputError("study", where, got, "some in every split", do)
        if covered := sum(bool(row) and all(row) for row in rows):
            counts.append(f"{covered} of {name}")
    if not counts:
        return ""
    alone = "Texts without any other token, whose penalty would be infinite"
    return f"{alone}, are trained only on their label: {', '.join(counts)}."
