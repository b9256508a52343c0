"""Settings of the copying study (Snell et al. 2021, §5), and the summary of its curves.

The study draws its own sequences and trains all seeds together, so it has neither a corpus nor a
trace. Plans and reports read the settings, so nothing here imports torch.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import polars as pl

from attnaudit.core import InputError
from attnaudit.core.papers import SNELL2021, Paper
from attnaudit.core.settings import Settings, setting
from attnaudit.corpora.planted.sequences import LENGTH, SYMBOLS, Sequences
from attnaudit.plans.spec import SCHEMA
from attnaudit.results import SUMMARY_SCHEMA, summary_row
from attnaudit.stats.inference import median_interval, wilson_interval

NAME = "copying"
# Token accuracy above which copying is learned, as in `multihead.py` of the released code.
SUCCESS = 0.95
# Accuracy above which attention or relevance is right more often than not.
PASSED = 0.5
OUTCOMES = ("succeeded", "failed")
ACCURACIES = ("token", "attention", "relevance")
MEDIANS = (
    "agreement",
    "attended",
    "relevance_least",
    "attention_symbol",
    "relevance_symbol",
    "entropy",
    "relevance_step",
    "relevance_entropy",
    "attention_step",
    "lead",
)
OutputLayer = Literal["tanh", "tied"]
PresetName = Literal["snell2021", "tied"]


class Preset(NamedTuple):
    """A model of the study.

    Attributes:
        output: The output layer.
        shared: True if both sides have the same symbols and end with an extra one
            (`Sequences.shared`).
        words: Name of the model in a sentence.
    """

    output: OutputLayer
    shared: bool
    words: str


class Stage(NamedTuple):
    """A number of training steps on ``sequences``; ``uniform`` holds attention at 1/T."""

    sequences: Sequences
    steps: int
    uniform: bool


PRESETS: Mapping[PresetName, Preset] = {
    "snell2021": Preset("tanh", True, "the released model"),
    "tied": Preset("tied", False, "the tied model"),
}


@dataclass(frozen=True)
class Copying(Settings):
    """The copying task: write a sequence of symbols again.

    A token accuracy above 0.95 is success.

    Raises:
        InputError: A value is out of range, or the settings do not fit together.
    """

    name: ClassVar[str] = NAME
    paper: ClassVar[Paper] = SNELL2021
    question: ClassVar[str] = "Does a model learn to copy, and how?"
    quick: ClassVar[Mapping[str, Any]] = {"seeds": 4}  # which two cores finish in minutes
    kind: str = setting(
        "How sequences are drawn: permutations, distinct symbols or independent ones (iid).",
        "permutations",
    )
    preset: PresetName = setting(
        "Output layer and symbols of both sides: snell2021, as released with the paper, or tied.",
        "snell2021",
    )
    length: int = setting("Number of symbols of a sequence.", LENGTH, least=1)
    symbols: int | None = setting(
        "Number of different symbols; none: as many as in the paper.", None
    )
    encoder: Literal["lstm", "bilstm"] = setting(
        "lstm reads forwards; with bilstm (both directions) the states before a symbol hold that "
        "symbol too, and attention may go there.",
        "lstm",
    )
    hidden: int = setting(
        "Width of the states on both sides; with bilstm, half of it per direction.", 256, least=1
    )
    embedding: int = setting("Dimension of the symbols' vectors.", 256, least=1)
    embedding_scale: float = setting(
        "Initial standard deviation of the symbols' vectors.", 1.0, above=0
    )
    heads: int = setting("Number of attention heads, which share the states.", 1, least=1)
    batch: int = setting("Sequences of a batch.", 128, least=1)
    steps: int = setting("Number of optimizer steps of a training.", 200, least=1)
    learning_rate: float = setting("Learning rate of Adam.", 1e-3, above=0)
    seeds: int = setting("Number of trainings.", 20, least=1)
    every: int = setting("Number of steps between measurements.", 10, least=1)
    probe: int = setting("Number of sequences (a fixed batch) of a measurement.", 32, least=1)
    test: int = setting("Number of sequences measured at the end.", 512, least=1)
    pretraining: int = setting("Number of earlier steps with uniform attention.", 0, least=0)
    pretraining_kind: Literal["permutations", "distinct", "iid"] = setting(
        "Kind of the sequences of pretraining; from permutations, uniform attention learns "
        "nothing, since every source has the same symbols.",
        "iid",
    )
    seed: int = setting("First seed.", 0, least=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        both = self.encoder == "bilstm"
        if self.hidden % self.heads or (both and self.hidden % 2):
            raise InputError(
                "study",
                "setting copying.hidden",
                f"{self.hidden} with copying.encoder = {self.encoder}, "
                f"copying.heads = {self.heads}",
                f"{'an even' if both else 'a'} number that the heads divide",
            )
        # `Sequences` checks its own arguments.
        _ = self.stages

    @property
    def folder(self) -> str:
        """Default folder of the study."""
        return f"runs/studies/{NAME}-{self.kind}"

    def to_json(self) -> dict[str, Any]:
        """Return what ``spec.json`` holds."""
        own = {"name": NAME, **json.loads(json.dumps(asdict(self)))}
        return {"schema": SCHEMA, "kind": "study", "study": own}

    @property
    def sequences(self) -> Sequences:
        """Sequences to train on.

        Raises:
            InputError: Kind, length and symbols do not fit together.
        """
        usual = self.length if self.kind == "permutations" else SYMBOLS.get(self.kind, self.length)
        symbols = usual if self.symbols is None else self.symbols
        return Sequences(self.kind, self.length, symbols, PRESETS[self.preset].shared)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """Stages in the order in which they are trained: pretraining, if any, then training."""
        last = Stage(self.sequences, self.steps, False)
        if not self.pretraining:
            return (last,)
        sequences = replace(self.sequences, kind=self.pretraining_kind)
        return Stage(sequences, self.pretraining, True), last


def outcomes(final: pl.DataFrame) -> pl.DataFrame:
    """Add the column ``outcome`` to the final measurements."""
    won = pl.when(pl.col("token") > SUCCESS).then(pl.lit("succeeded"))
    return final.with_columns(won.otherwise(pl.lit("failed")).alias("outcome"))


def passing(curves: pl.DataFrame) -> pl.DataFrame:
    """Find when relevance and attention of each seed were first right more often than not.

    Args:
        curves: One row per seed and measured step; only the last stage counts.

    Returns:
        One row per seed. ``relevance_step`` and ``attention_step`` are the first such steps, null
        if there are none. ``relevance_entropy`` is the entropy of attention in nats at the former.
        ``lead`` is the number of steps by which relevance was earlier.
    """
    # Earlier stages hold attention uniform, so there is nothing of it to measure.
    free = curves.filter(pl.col("stage") == pl.col("stage").max()).sort("step", maintain_order=True)
    first = [
        pl.col(value).filter(pl.col(name) > PASSED).first().alias(f"{name}_{value}")
        for name, value in (
            ("relevance", "step"),
            ("attention", "step"),
            ("relevance", "entropy"),
        )
    ]
    steps = free.group_by("seed", maintain_order=True).agg(*first)
    return steps.with_columns((pl.col("attention_step") - pl.col("relevance_step")).alias("lead"))


def summarise(curves: pl.DataFrame, final: pl.DataFrame) -> pl.DataFrame:
    """Summarise the seeds: shares with Wilson intervals, medians over all seeds and by outcome.

    Args:
        curves: One row per seed and measured step.
        final: One row per seed, measured on test sequences.

    Returns:
        Summary rows. ``stopped``, ``stopped_least`` and ``stopped_most`` are the median and the
        range of the token accuracy of seeds that fail. ``attending`` is the share of seeds whose
        attention is right more often than not at the end; seeds may copy without it. In
        ``upside_down`` seeds the right position has the lowest relevance, not the highest, more
        often than not.
    """
    seeds = outcomes(final).join(passing(curves), on="seed", maintain_order="left")
    # Which came first is only defined for seeds in which both came.
    won = seeds.filter(pl.col("outcome") == "succeeded").drop_nulls("lead")
    rows = [_share(outcome, seeds["outcome"] == outcome) for outcome in OUTCOMES]
    rows += [
        _share("attending", seeds["attention"] > PASSED),
        _share("upside_down", (seeds["relevance_least"] > PASSED) & (seeds["relevance"] <= PASSED)),
        _share("relevance_first", won["lead"] > 0),
        _share("attention_first", won["lead"] < 0),
    ]
    stopped = seeds.filter(pl.col("outcome") == "failed")["token"]
    rows.append(_median("stopped", stopped, "all"))
    for measure, share in (("stopped_least", 0), ("stopped_most", 1)):
        rows.append(summary_row(NAME, measure, stopped.quantile(share), n=len(stopped)))
    heads = len(final["heads"][0])
    by_outcome = seeds.partition_by("outcome", as_dict=True)
    groups = {name: by_outcome[name,] for name in OUTCOMES if (name,) in by_outcome}
    for group, part in {"all": seeds, **groups}.items():
        rows += [_median(f"{name}_accuracy", part[name], group) for name in ACCURACIES]
        rows += [_median(name, part[name], group) for name in MEDIANS]
        if heads > 1:
            of_heads = part["heads"].list
            rows += [_median(f"head_{k}_accuracy", of_heads.get(k), group) for k in range(heads)]
            rows.append(_median("best_head_accuracy", of_heads.max(), group))
    return pl.DataFrame(rows, schema=SUMMARY_SCHEMA)


def _share(measure: str, chosen: pl.Series) -> dict[str, Any]:
    n, successes = len(chosen), int(chosen.sum())
    share = (successes / n, *wilson_interval(successes, n)) if n else (None, None, None)
    return summary_row(NAME, measure, *share, n=n)


def _median(measure: str, values: pl.Series, group: str) -> dict[str, Any]:
    known = values.drop_nulls().to_numpy().astype(np.float64)
    low, high = median_interval(known)
    median = float(np.median(known)) if len(known) else None
    undefined = len(values) - len(known)
    return summary_row(
        NAME, measure, median, low, high, n=len(known), undefined=undefined, group=group
    )
