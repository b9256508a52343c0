"""Can a translator's attention be trained to hide what it uses? (Pruthi et al. 2020, §5)"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

import numpy as np
import polars as pl
import polars.selectors as cs

from attnaudit.core.errors import InputError
from attnaudit.core.papers import PRUTHI2020, Paper
from attnaudit.core.ragged import Ragged
from attnaudit.experiments.adversary import divergence
from attnaudit.experiments.rows import is_correct
from attnaudit.plans.training import Training, check_least, one_attention, seeded, strength_text
from attnaudit.results import SUMMARY_SCHEMA
from attnaudit.stats.bleu import bleu_counts, bleu_over_seeds
from attnaudit.stats.kendall import kendall_tau
from attnaudit.studies.deceive import check_strengths, named_training
from attnaudit.studies.over_seeds import mean_rows, summary_row
from attnaudit.trace import Trace

if TYPE_CHECKING:
    from attnaudit.corpora.parallel import ParallelCorpus
    from attnaudit.plans.translation import TranslationSpec

MEASURES = ("accuracy", "mass", "tau_loo", "tau_gradient", "jsd", "covered")


@runtime_checkable
class Written(Protocol):
    """Where translations of the trainings lie beside their traces."""

    def translations(self, name: str) -> list[dict[str, Any]]: ...


@dataclass(frozen=True)
class PairDeceive:
    """The translator trained with ``loss − λ · mean log(1 − Σ_{s∈I_t} alpha_ts)``, for each λ of ``strengths`` and ``seeds`` seeds.

    The impermissible tokens I_t are the source tokens aligned with gold token t: what a reader would look for. A model with even attention
    is trained beside them: what can be written without looking anywhere.

    The table has a row per model, λ (null: even attention), seed, pair and gold token (``query``): whether it is told right
    (``accuracy``), the ``mass`` of attention on I_t, ``tau_loo`` and ``tau_gradient`` of attention to importance, ``jsd`` of attention to
    that of the least λ with the same seed, ``covered`` where I_t is the whole source and the penalty infinite. There it is left out, and
    the token out of ``mass``, as are tokens aligned with nothing. Rows with ``bleu``, what BLEU is counted from, are of all pairs of test.
    In the summary a pair counts by the mean of its gold tokens; intervals draw seeds and pairs.
    """

    name: ClassVar[str] = "deceive"
    paper: ClassVar[Paper] = PRUTHI2020
    strengths: tuple[float, ...] = (0.0, 0.1, 1.0)
    seeds: int = 2
    seed: int = 0

    def __post_init__(self) -> None:
        check_strengths(self.strengths)
        check_least(self, seeds=1)

    def plan(self, base: TranslationSpec, corpus: ParallelCorpus) -> Sequence[Training]:
        """Raises InputError without alignments, or without an attention that is learned."""
        one_attention(self.name, base)
        if base.model.attention in ("uniform", "none"):
            raise InputError("study", "deceive of a model", f"{base.model.attention} attention", "an attention that is learned")
        for name, pairs in corpus.splits.items():
            if pairs.links is None or not pairs.links.size:
                expected, do = "alignments in every split", "files <split>.align beside the texts"
                raise InputError("study", f"deceive on {corpus.name}", f"none in {name}", expected, do)
        return [
            training
            for seed in range(base.seed, base.seed + self.seeds)
            for training in (*(self._deceiving(base, strength, seed) for strength in sorted(self.strengths)), self._even(base, seed))
        ]

    def _deceiving(self, base: TranslationSpec, strength: float, seed: int) -> Training:
        from attnaudit.training.pairs import DeceivePairs

        spec = replace(seeded(base, seed), objective=DeceivePairs(strength))
        return Training(f"deceive-{base.model.attention}-{strength_text(strength)}-s{seed}", spec, writes=True)

    def _even(self, base: TranslationSpec, seed: int) -> Training:
        spec = replace(seeded(base, seed), model=replace(base.model, attention="uniform"))
        return Training(f"deceive-uniform-s{seed}", spec, writes=True)

    def __call__(self, traces: Mapping[str, Trace]) -> pl.DataFrame:
        parts = []
        for name, trace in traces.items():
            _, model, strength, seed = named_training(name)
            honest = trace if strength is None else traces[f"deceive-{model}-{strength_text(min(self.strengths))}-s{seed}"]
            columns = pl.lit(model).alias("model"), pl.lit(strength, dtype=pl.Float64).alias("strength"), pl.lit(seed).alias("seed")
            found = [_rows(trace, honest)]
            if isinstance(traces, Written):
                found.append(_written(traces.translations(name)))
            parts += [rows.select(*columns, pl.all()) for rows in found]
        return pl.concat(parts, how="diagonal")

    def summarise(self, table: pl.DataFrame) -> pl.DataFrame:
        rows: list[Mapping[str, Any]] = []
        for (model, strength), part in table.group_by("model", "strength", maintain_order=True):
            label = str(model) if strength is None else f"{model}_{strength_text(float(strength))}"
            tokens = part.filter(pl.col("query").is_not_null())
            pairs = tokens.group_by("seed", "instance", maintain_order=True).agg(pl.col(MEASURES).cast(pl.Float64).mean())
            rows += mean_rows(self.name, label, pairs, MEASURES if strength is not None else MEASURES[:2], self.seed)
            if "bleu" in part.columns:
                rows.append(self._bleu(label, part.filter(pl.col("bleu").is_not_null())))
        return pl.DataFrame(rows, schema=SUMMARY_SCHEMA)

    def _bleu(self, label: str, written: pl.DataFrame) -> Mapping[str, Any]:
        seeds = [part for _, part in written.sort("seed", "instance").group_by("seed", maintain_order=True)]
        counts = np.array([part["bleu"].to_list() for part in seeds], dtype=np.int64)
        return summary_row(self.name, f"bleu_{label}", *bleu_over_seeds(counts, seed=self.seed), counts.shape[1])


def _rows(trace: Trace, honest: Trace) -> pl.DataFrame:
    """A row for each gold token."""
    marked = [row or [] for row in trace.table.column("rationale").to_pylist()]
    known = np.array([bool(row) for row in marked])
    lengths = trace.alpha.lengths
    impermissible = Ragged.from_rows([row or [False] * length for row, length in zip(marked, lengths.tolist(), strict=True)], bool)
    covered = impermissible.reduce(np.logical_and)
    mass = trace.alpha.with_values(trace.alpha.values * impermissible.values).sum()
    scores = [name for name in ("loo", "gradient") if trace.has(name)]
    taus = {f"tau_{name}": kendall_tau(trace.alpha, trace.ragged(name))[0] for name in scores}
    return pl.DataFrame({
        "instance": trace.instance, "query": trace.array("query").astype(np.int64),
        "accuracy": is_correct(trace).astype(np.float64), "mass": np.where(known & ~covered, mass, np.nan),
        **taus, "jsd": divergence(honest.alpha, trace.alpha), "covered": covered,
    }).with_columns(cs.float().fill_nan(None))  # fmt: skip


def _written(pairs: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """A row for each pair of test, with what BLEU is counted from."""
    counts = bleu_counts([row["translation"] for row in pairs], [row["reference"] for row in pairs])
    instances = pl.Series("instance", [row["instance"] for row in pairs], dtype=pl.Int64)
    return pl.DataFrame([instances, pl.Series("bleu", counts.tolist(), dtype=pl.List(pl.Int64))])
