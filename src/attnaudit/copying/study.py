"""Does a model learn to copy, and what does it learn first, the words or where to look? (Snell et al. 2021, §5)

A study of its own kind: it makes its sequences up, and trains all its seeds at once, so that it has no plan of trainings and no traces.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
import polars as pl

from attnaudit.copying.presets import PRESETS, Name
from attnaudit.core.errors import InputError
from attnaudit.core.papers import SNELL2021, Paper
from attnaudit.corpora.planted.sequences import LENGTH, SYMBOLS, Sequences
from attnaudit.results import SUMMARY_SCHEMA, summary_row
from attnaudit.stats.inference import median_interval, wilson_interval

SUCCESS = 0.95  # a token accuracy above this says that copying is learned (`multihead.py` of the released code)
PASSED = 0.5  # an accuracy above this says that a thing is being learned
NAME = "copying"
OUTCOMES = ("succeeded", "failed")
ACCURACIES = ("token", "attention", "relevance")
_OTHERS = (
    "agreement",
    "attended",
    "relevance_least",
    "attention_symbol",
    "relevance_symbol",
    "entropy",
)
_POSITIVE = (
    "length",
    "hidden",
    "embedding",
    "heads",
    "batch",
    "steps",
    "seeds",
    "every",
    "probe",
    "test",
)
_LEAST = {**dict.fromkeys(_POSITIVE, 1), "pretraining": 0, "seed": 0}


@dataclass(frozen=True)
class Copying:
    """The copying task: write a sequence of symbols again. The settings:

    ``kind`` is how the sequences are drawn: permutations, distinct symbols or independent ones (iid). ``length`` is the number of symbols
    of a sequence. ``symbols`` is the number of different symbols; none: as many as in the paper. ``preset`` is the output layer and the
    symbols of both sides: snell2021, as released with the paper, or tied. ``encoder`` is the encoder: lstm reads forwards; with bilstm
    (both directions) the states before a symbol hold that symbol too, and attention may go there. ``hidden`` is the width of the states on
    both sides; with bilstm, half of it per direction. ``embedding_scale`` is the initial standard deviation of the symbols' vectors.
    ``heads`` is the number of attention heads, which share the states. ``seeds`` is the number of trainings. ``steps`` is the number of
    optimizer steps of a training. ``every`` is the number of steps between measurements. ``probe`` is the number of sequences (a fixed
    batch) of each measurement. ``test`` is the number of sequences measured at the end. ``pretraining`` is the number of earlier steps with
    uniform attention. ``pretraining_kind`` is the kind of the sequences of pretraining; from permutations, uniform attention learns
    nothing, since every source has the same symbols. ``precision`` is the precision of products: bfloat16 rounds their factors to 16 bits
    where the processor can, which is several times faster, with results that depend on the processor.

    A token accuracy above 0.95 is success.
    """

    name: ClassVar[str] = NAME
    paper: ClassVar[Paper] = SNELL2021
    kind: str = "permutations"
    preset: Name = "snell2021"
    length: int = LENGTH
    symbols: int | None = None
    encoder: Literal["lstm", "bilstm"] = "lstm"
    hidden: int = 256
    embedding: int = 256
    embedding_scale: float = 1.0
    heads: int = 1
    batch: int = 128
    steps: int = 200
    learning_rate: float = 1e-3
    seeds: int = 20
    every: int = 10
    probe: int = 32
    test: int = 512
    pretraining: int = 0
    pretraining_kind: Literal["permutations", "distinct", "iid"] = "iid"
    precision: Literal["float32", "bfloat16"] = "float32"
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            if getattr(self, name) < least:
                raise InputError(
                    "study", f"setting copying.{name}", str(getattr(self, name)), f"{least} or more"
                )
        for name in ("learning_rate", "embedding_scale"):
            if not getattr(self, name) > 0:
                raise InputError(
                    "study", f"setting copying.{name}", str(getattr(self, name)), "more than 0"
                )

    def checked(self) -> Copying:
        """Itself, once its settings go together. Raises InputError."""
        both = self.encoder == "bilstm"
        if self.hidden % self.heads or (both and self.hidden % 2):
            got = (
                f"{self.hidden} with copying.encoder = {self.encoder}, copying.heads = {self.heads}"
            )
            raise InputError(
                "study",
                "setting copying.hidden",
                got,
                f"{'an even' if both else 'a'} number that the heads divide",
            )
        _ = self.sequences, self.before
        return self

    @property
    def sequences(self) -> Sequences:
        """Raises InputError."""
        usual = self.length if self.kind == "permutations" else SYMBOLS.get(self.kind, self.length)
        return Sequences(
            self.kind,
            self.length,
            usual if self.symbols is None else self.symbols,
            PRESETS[self.preset].shared,
        )

    @property
    def before(self) -> Sequences | None:
        """The sequences of pretraining, with uniform attention, or None."""
        return replace(self.sequences, kind=self.pretraining_kind) if self.pretraining else None


def outcomes(final: pl.DataFrame) -> pl.DataFrame:
    """``final`` with the ``outcome`` of every seed."""
    outcome = (
        pl.when(pl.col("token") > SUCCESS).then(pl.lit("succeeded")).otherwise(pl.lit("failed"))
    )
    return final.with_columns(outcome.alias("outcome"))


def passing(curves: pl.DataFrame) -> pl.DataFrame:
    """A row per seed {seed, relevance_step, attention_step, relevance_entropy, lead}, of the curves with attention free.

    The steps are the first measured ones at which each accuracy was above a half; null where it never was. ``relevance_entropy`` is the
    entropy of attention (nats) at the step of relevance, ``lead`` by how many steps relevance was earlier.
    """
    free = curves.filter(pl.col("stage") == pl.col("stage").max()).sort("step", maintain_order=True)
    first = [
        pl.col("step").filter(pl.col(name) > PASSED).first().alias(f"{name}_step")
        for name in ("relevance", "attention")
    ]
    entropy = (
        pl.col("entropy").filter(pl.col("relevance") > PASSED).first().alias("relevance_entropy")
    )
    steps = free.group_by("seed", maintain_order=True).agg(*first, entropy)
    return steps.with_columns((pl.col("attention_step") - pl.col("relevance_step")).alias("lead"))


def summarise(curves: pl.DataFrame, final: pl.DataFrame) -> pl.DataFrame:
    """Shares of the outcomes, and of seeds that come to attend, with Wilson intervals; medians over seeds, of all and by outcome.

    ``stopped``, ``stopped_least`` and ``stopped_most``: median and range of the token accuracy of seeds that do not succeed.
    ``attending`` is the share whose attention is at the correct position in most cases at the end: token accuracy is possible without it.
    ``upside_down`` is the share in which the correct position has the lowest relevance of all in most cases, and not the highest.
    """
    seeds = outcomes(final).join(passing(curves), on="seed", maintain_order="left")
    rows = [_share(outcome, seeds["outcome"] == outcome) for outcome in OUTCOMES]
    rows.append(_share("attending", seeds["attention"] > PASSED))
    rows.append(
        _share("upside_down", (seeds["relevance_least"] > PASSED) & (seeds["relevance"] <= PASSED))
    )
    won = seeds.filter(pl.col("outcome") == "succeeded").drop_nulls("lead")
    rows.append(_share("relevance_first", won["lead"] > 0))
    rows.append(_share("attention_first", won["lead"] < 0))
    stopped = seeds.filter(pl.col("outcome") == "failed")["token"]
    rows.append(_median("stopped", stopped, "all"))
    for measure, share in (("stopped_least", 0), ("stopped_most", 1)):
        rows.append(summary_row(NAME, measure, stopped.quantile(share), n=len(stopped)))
    heads = len(final["heads"][0]) if len(final["heads"][0]) > 1 else 0
    for group, part in [
        ("all", seeds),
        *((name, seeds.filter(outcome=name)) for name in OUTCOMES if name in seeds["outcome"]),
    ]:
        rows += [_median(f"{name}_accuracy", part[name], group) for name in ACCURACIES]
        rows += [
            _median(name, part[name], group)
            for name in (*_OTHERS, "relevance_step", "relevance_entropy", "attention_step", "lead")
        ]
        rows += [
            _median(f"head_{k}_accuracy", part["heads"].list.get(k), group) for k in range(heads)
        ]
        if heads:
            rows.append(_median("best_head_accuracy", part["heads"].list.max(), group))
    return pl.DataFrame(rows, schema=SUMMARY_SCHEMA)


def _share(measure: str, chosen: pl.Series) -> dict[str, Any]:
    n, successes = len(chosen), int(chosen.sum())
    return summary_row(
        NAME,
        measure,
        *((successes / n, *wilson_interval(successes, n)) if n else (None, None, None)),
        n=n,
    )


def _median(measure: str, values: pl.Series, group: str) -> dict[str, Any]:
    known = values.drop_nulls().to_numpy().astype(np.float64)
    low, high = median_interval(known)
    median, undefined = float(np.median(known)) if len(known) else None, len(values) - len(known)
    return summary_row(
        NAME, measure, median, low, high, n=len(known), undefined=undefined, group=group
    )
