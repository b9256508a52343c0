"""Can attention be trained to hide what it uses? (Pruthi et al. 2020)"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import polars as pl
import polars.selectors as cs

from attnaudit.core.errors import InputError, did_you_mean
from attnaudit.core.papers import PRUTHI2020, Paper
from attnaudit.core.ragged import Ragged
from attnaudit.experiments.adversary import divergence
from attnaudit.plans.training import Training, check_least, seeded, strength_text, without_scores
from attnaudit.results import SUMMARY_SCHEMA
from attnaudit.stats.kendall import kendall_tau
from attnaudit.studies.over_seeds import mean_rows
from attnaudit.trace import Trace

if TYPE_CHECKING:
    from attnaudit.corpora import Corpus
    from attnaudit.plans.spec import RunSpec

_TRANSFORMER = {"encoder": "transformer", "embedding": 128, "hidden": 128, "heads": 4}
MODELS: dict[str, dict[str, Any]] = {
    "embedding": {"encoder": "none", "attention": "dot", "embedding": 128, "heads": 1},
    "bilstm": {"encoder": "bilstm", "attention": "dot", "embedding": 128, "hidden": 64, "heads": 1},
    "transformer": _TRANSFORMER, "transformer_max": _TRANSFORMER,
}  # fmt: skip
NAMED = 8  # instances that a note lists
MEASURES = ("accuracy", "mass", "mass_max", "tau_loo", "tau_gradient", "jsd", "covered")


@dataclass(frozen=True)
class Deceive:
    """Each of ``models`` trained with ``loss − λ · mean log(1 − Σ_{t∈I} alpha_t)``, for each λ of ``strengths`` and ``seeds`` seeds.

    As in the paper the weights are a softmax of the products with one learned vector, no parameter decays, and there are ``epochs`` epochs;
    of these the one of least loss on dev is kept.

    The impermissible tokens I are the ``words``, or those of the corpus's rationale where there are none. One more training of each has
    them removed from the texts: what can be known without them.

    The table has a row per model, λ (null: removed), seed and instance: whether the prediction is right (``accuracy``), the ``mass`` of
    attention on I, ``tau_loo`` and ``tau_gradient`` of attention to importance of the same model, ``jsd`` of attention to that of λ = 0
    (or of the least λ) with the same seed, ``covered`` where I is the whole text and the penalty infinite: it is left out there, and
    the text out of ``mass``. The summary has their means, over seeds and instances; ``tau_loo`` before and after tells whether an audit
    notices. Of a model of several heads all are means over heads, and ``mass_max`` is that of the head which attends to I most;
    ``transformer`` is trained with a penalty on the mean of its heads, ``transformer_max`` on that one.
    """

    name: ClassVar[str] = "deceive"
    paper: ClassVar[Paper] = PRUTHI2020
    models: tuple[str, ...] = tuple(MODELS)
    strengths: tuple[float, ...] = (0.0, 0.1, 1.0)
    seeds: int = 5
    epochs: int = 15
    words: tuple[str, ...] | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for model in self.models:
            if model not in MODELS:
                hint = did_you_mean(model, MODELS)
                raise InputError("study", "setting deceive.models", repr(model), f"some of {', '.join(MODELS)}", hint)
        if not self.models:
            raise InputError("study", "setting deceive.models", "none", "one model or more")
        check_strengths(self.strengths)
        check_least(self, seeds=1, epochs=1)

    def plan(self, base: RunSpec, corpus: Corpus) -> Sequence[Training]:
        from attnaudit.corpora.prepare.removal import marks

        if corpus.task != "classification":
            raise InputError("study", f"{self.name} on {corpus.name}", corpus.task, "a corpus of texts alone, without questions")
        marked = {name: marks(split, self.words or "rationale", name) for name, split in corpus.splits.items()}
        for name, rows in marked.items():
            if not any(map(any, rows)):
                told = f"words {', '.join(self.words)}" if self.words else "the rationale"
                do = "give deceive.words as they stand in the texts that were read (lower case, for most)"
                raise InputError("study", f"impermissible tokens, {told}", f"none in {name}", "some in every split", do)
        note = _told_of_covered(corpus, marked)
        return [
            training
            for seed, model in product(range(base.seed, base.seed + self.seeds), self.models)
            for training in (
                *(self._deceiving(base, model, strength, seed, note) for strength in sorted(self.strengths)),
                self._removed(base, model, seed),
            )
        ]

    def _deceiving(self, base: RunSpec, model: str, strength: float, seed: int, note: str) -> Training:
        from attnaudit.training.objectives import Deceive as Objective

        objective = Objective(strength, self.words, "max" if model.endswith("_max") else "mean")
        spec = replace(self._small(seeded(base, seed), model), objective=objective)
        return Training(f"deceive-{model}-{strength_text(strength)}-s{seed}", spec, note=note)

    def _removed(self, base: RunSpec, model: str, seed: int) -> Training:
        spec = without_scores(self._small(seeded(base, seed), model))
        return Training(f"removed-{model}-s{seed}", replace(spec, corpus=replace(spec.corpus, removed=self.words or "rationale")))

    def _small(self, spec: RunSpec, model: str) -> RunSpec:
        """The study's own model, whose word vectors start at random, and its training."""
        training = replace(spec.training, epochs=self.epochs, weight_decay=0.0, select="loss")
        return replace(spec, vectors="random", model=replace(spec.model, **MODELS[model]), training=training)

    def __call__(self, traces: Mapping[str, Trace]) -> pl.DataFrame:
        parts = []
        for name, trace in traces.items():
            kind, model, strength, seed = named_training(name)
            honest = traces.get(f"deceive-{model}-{strength_text(min(self.strengths))}-s{seed}") if kind == "deceive" else None
            parts.append(self._rows(trace, model, strength, seed, honest))
        return pl.concat(parts)

    def _rows(self, trace: Trace, model: str, strength: float | None, seed: int, honest: Trace | None) -> pl.DataFrame:
        """``honest`` is the model of the least λ; None where the words are removed, and nothing but accuracy is known."""
        unknown = np.full(len(trace), np.nan)
        mass, covered = self._mass(trace) if honest else (unknown, np.zeros(len(trace), bool))
        mass = np.where(covered, np.nan, mass)
        taus = {name: kendall_tau(trace.alpha, trace.ragged(name))[0] if honest else unknown for name in ("loo", "gradient")}
        rows = pl.DataFrame({
            "instance": trace.instance, "accuracy": (trace.predicted == trace.array("label")).astype(np.float64), "mass": mass,
            "tau_loo": taus["loo"], "tau_gradient": taus["gradient"],
            "jsd": divergence(honest.alpha, trace.alpha) if honest else unknown, "covered": covered,
        }).with_columns(cs.float().fill_nan(None))  # fmt: skip
        most = pl.col("mass").max() if trace.has("head") else pl.lit(None, dtype=pl.Float64)
        heads = rows.group_by("instance", maintain_order=True).agg(most.alias("mass_max"), cs.float().mean(), pl.col("covered").first())
        names = pl.lit(model).alias("model"), pl.lit(strength, dtype=pl.Float64).alias("strength"), pl.lit(seed).alias("seed")
        return heads.select(*names, "instance", *MEASURES)

    def _mass(self, trace: Trace) -> tuple[np.ndarray, np.ndarray]:
        """Attention on the impermissible tokens of every row, and where there are no others."""
        if self.words is None:
            rows = trace.table.column("rationale").to_pylist()
        else:
            rows = [[token in self.words for token in trace.tokens(row)] for row in range(len(trace))]
        impermissible = Ragged.from_rows(rows, bool)
        return trace.alpha.with_values(trace.alpha.values * impermissible.values).sum(), impermissible.reduce(np.logical_and)

    def summarise(self, table: pl.DataFrame) -> pl.DataFrame:
        rows: list[Mapping[str, Any]] = []
        for (model, strength), part in table.group_by("model", "strength", maintain_order=True):
            label = f"{model}_removed" if strength is None else f"{model}_{strength_text(float(strength))}"
            known = [name for name in MEASURES if part[name].is_not_null().any()]
            rows += mean_rows(self.name, label, part, known if strength is not None else MEASURES[:1], self.seed)
        return pl.DataFrame(rows, schema=SUMMARY_SCHEMA)


def check_strengths(strengths: Sequence[float]) -> None:
    """Raise InputError where there is no λ, one below 0, or one twice."""
    if not strengths or not min(strengths) >= 0 or len(set(strengths)) < len(strengths):
        raise InputError("study", "setting deceive.strengths (λ)", str(list(strengths)), "one or more, each a λ of 0 or more, none twice")


def _told_of_covered(corpus: Corpus, marked: Mapping[str, Sequence[Sequence[bool]]]) -> str:
    """How many texts of each split, and which, have no token but marked ones; nothing where there are none."""
    told = []
    for name, rows in marked.items():
        covered = [int(corpus.splits[name].instance[row]) for row, places in enumerate(rows) if places and all(places)]
        more = f" and {len(covered) - NAMED} more" if len(covered) > NAMED else ""
        told += [f"{len(covered)} of {name} ({', '.join(map(str, covered[:NAMED]))}{more})"] if covered else []
    return f"Instances with no other token, whose penalty is infinite, count by their label alone: {', '.join(told)}." if told else ""


def named_training(name: str) -> tuple[str, str, float | None, int]:
    """What a training's name says: kind, model, λ, seed."""
    start, _, seed = name.rpartition("-s")
    kind, model, *strength = start.split("-", 2)
    return kind, model, float(strength[0]) if strength else None, int(seed)
