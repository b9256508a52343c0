"""Two runs compared on the instances that both have: paired differences of their measures, and the instances that differ most."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from jaxtyping import Float, Int64

from attnaudit.core.errors import InputError
from attnaudit.core.ragged import Ragged
from attnaudit.results.summary import INSTANCE, ROW
from attnaudit.stats.measures import jsd_terms
from attnaudit.stats.paired import PairedMeans, paired_means
from attnaudit.trace import ROW_KEYS

TEXT = ("tokens", "question")
MOST = 10  # instances that are shown
FEW = 0.5  # below this share of the smaller run the shared rows are noted as few
SAME_SPLIT = "to split a file of your own in the same way for every seed, run both with the same --set corpus.seed=NUMBER"
SAME_READING = (
    "texts are read in different ways (case, digits, tokenizer): read both alike, files of your own with the same --tokenizer, --lowercase "
    "and --digits"
)
SAME_LENGTH = "texts are cut at other lengths: run both with the same --max-tokens"
_MASKED = "qqq"  # a word with a digit, as such words may be read
B = "_b"  # ends the columns of the second run in the table of instances
HIGHER, LOWER, NOT_SHOWN, TOO_FEW, WITHHELD = (
    "b is higher",
    "b is lower",
    "no difference shown",
    "too few instances",
    "withheld",
)
QUALITY = (
    "prediction"  # the experiment whose differences are concluded from whatever the models learned
)
DIFFERENCES_SCHEMA = {
    "run_a": pl.String,
    "run_b": pl.String,
    "experiment": pl.String,
    "measure": pl.String,
    "a": pl.Float64,
    "b": pl.Float64,
    "difference": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "n": pl.Int64,
    "undefined": pl.Int64,
    "conclusion": pl.String,
    "shared": pl.Int64,
    "only_a": pl.Int64,
    "only_b": pl.Int64,
}


@dataclass(frozen=True)
class MeasuredRun:
    """A run by its trace rows: ``rows`` has the `ROW_KEYS` of its trace, ``tokens``, ``question``, ``alpha``, ``predicted``, and measures.

    ``measures`` maps a column of ``rows`` to its experiment and measure. ``settings`` are those of its experiments; ``notice`` says why
    nothing is concluded from its attention, and is empty where it may be.
    """

    name: str
    rows: pl.DataFrame
    measures: Mapping[str, tuple[str, str]]
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    notice: str = ""


@dataclass(frozen=True)
class PairedRuns:
    """The comparison of run ``a`` with run ``b``.

    ``differences`` has a row per measure (`DIFFERENCES_SCHEMA`); ``instances`` a row per shared trace row, with the values of both runs,
    those of ``b`` under names that end in ``_b``, and ``jsd``, the divergence of the two attentions in nats, the largest first.
    ``changed`` rows have the same key in both and another text, and are not shared.
    """

    a: str
    b: str
    differences: pl.DataFrame
    instances: pl.DataFrame
    changed: int
    notes: tuple[str, ...] = ()

    @property
    def unit(self) -> str:
        """What is compared: instances, or rows, where a text has several, of heads or queries."""
        return ROW if self.texts < self.instances.height else INSTANCE

    @property
    def texts(self) -> int:
        """The texts that the shared rows are of."""
        return self.instances.select(
            name for name in ("split", "instance") if name in self.instances.columns
        ).n_unique()

    def to_json(self) -> dict[str, Any]:
        """The differences, and of the instances, which may be many, the first few."""
        named = [
            name
            for name in (*ROW_KEYS, "jsd", "predicted", "predicted" + B)
            if name in self.instances.columns
        ]
        most = self.instances.select(named).head(MOST).to_dicts()
        facts = {"a": self.a, "b": self.b, "changed": self.changed, "notes": self.notes}
        return {**facts, "differences": self.differences.to_dicts(), "most_different": most}


def pair(a: MeasuredRun, b: MeasuredRun) -> PairedRuns:
    """Compare ``b`` with ``a`` on the rows that have the same keys and the same text in both.

    A difference is the mean of b − a over the pairs where the measure is defined in both, with a bootstrap interval that draws instances
    with all their rows. Raises InputError where no row is shared, or where the keys do not name a row.
    """
    keys = [key for key in ROW_KEYS if key in a.rows.columns and key in b.rows.columns]
    for run in (a, b):
        _require_distinct(run, keys)
    joined = a.rows.join(b.rows, on=keys, suffix=B, nulls_equal=True).sort(keys)
    shared = joined.filter(
        pl.all_horizontal(pl.col(name).eq_missing(pl.col(name + B)) for name in TEXT)
    )
    changed = joined.height - shared.height
    if shared.is_empty():
        got = f"no instance in common: of {a.rows.height} and {b.rows.height} rows, {changed} have the same id, and those another text"
        raise InputError(
            "compare", f"{a.name} and {b.name}", got, "runs on the same texts", _advice(joined)
        )
    counts = {
        "shared": shared.height,
        "only_a": a.rows.height - shared.height,
        "only_b": b.rows.height - shared.height,
    }
    names = [name for name in a.measures if name in b.measures]
    if not names:
        raise InputError(
            "compare",
            f"{a.name} and {b.name}",
            "no measure in common",
            "results of the same experiments",
            "audit both again",
        )
    found = paired_means(
        _values(shared, names), _values(shared, [name + B for name in names]), _texts(shared)
    )
    judged = not (a.notice or b.notice)
    rows = [
        {
            "run_a": a.name,
            "run_b": b.name,
            **_difference(*a.measures[name], found, k, shared.height, judged),
            **counts,
        }
        for k, name in enumerate(names)
    ]
    instances = shared.with_columns(pl.Series("jsd", _divergence(shared))).sort(
        "jsd", descending=True, maintain_order=True
    )
    notes = tuple(_notes(a, b, shared.height, _advice(joined)))
    return PairedRuns(
        a.name, b.name, pl.DataFrame(rows, schema=DIFFERENCES_SCHEMA), instances, changed, notes
    )


def _require_distinct(run: MeasuredRun, keys: Sequence[str]) -> None:
    several = run.rows.filter(pl.struct(keys).is_duplicated())
    if several.height:
        got = f"several rows of instance {several['instance'][0]}, alike in {', '.join(keys)}"
        raise InputError(
            "compare",
            run.name,
            got,
            "rows named alike in both runs, by instance, layer, head and query",
        )


def _texts(shared: pl.DataFrame) -> Int64[np.ndarray, " n"]:
    """Which text each row is of, rows in the order of their keys; splits number their instances separately."""
    return (
        shared.select(
            pl.struct(name for name in ("split", "instance") if name in shared.columns).rle_id()
        )
        .to_series()
        .to_numpy()
        .astype(np.int64)
    )


def _values(table: pl.DataFrame, names: Sequence[str]) -> Float[np.ndarray, "n m"]:
    return (
        table.select(pl.col(name).cast(pl.Float64).fill_null(float("nan")) for name in names)
        .to_numpy()
        .reshape(table.height, -1)
    )


def _difference(
    experiment: str, measure: str, found: PairedMeans, k: int, shared: int, judged: bool
) -> dict[str, Any]:
    a, b, low, high = (None if np.isnan(part[k]) else float(part[k]) for part in found[:4])
    difference = None if a is None or b is None else b - a
    conclusion = WITHHELD if not judged and experiment != QUALITY else _conclusion(low, high)
    n = int(found.n[k])
    return {
        "experiment": experiment,
        "measure": measure,
        "a": a,
        "b": b,
        "difference": difference,
        "low": low,
        "high": high,
        "n": n,
        "undefined": shared - n,
        "conclusion": conclusion,
    }


def _conclusion(low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return TOO_FEW
    return HIGHER if low > 0 else LOWER if high < 0 else NOT_SHOWN


def _divergence(shared: pl.DataFrame) -> Float[np.ndarray, " n"]:
    """JSD of the two attentions of every row, in nats."""
    lengths = shared["alpha"].list.len().to_numpy()
    one, other = (
        Ragged.from_lengths(shared[name].explode().to_numpy().astype(np.float64), lengths)
        for name in ("alpha", "alpha" + B)
    )
    weights = (alpha.values / alpha.spread(alpha.sum()) for alpha in (one, other))
    return np.maximum(one.with_values(jsd_terms(*weights)).sum(), 0.0)


def _advice(joined: pl.DataFrame) -> str:
    """What makes more rows shared, of those with the same keys: where most texts that differ begin alike, they are cut at other lengths;
    where they are alike but for case, digits and spaces they are read otherwise. As far as the shorter goes: tokens of two tokenizers, cut
    at one number of them, end at other words.
    """
    one, other = (pl.col("tokens" + suffix) for suffix in ("", B))
    shorter = pl.min_horizontal(one.list.len(), other.list.len())
    written = [tokens.list.join(" ").str.to_lowercase() for tokens in (one, other)]
    joined_up = [text.str.replace_all(r"\s", "") for text in written]  # no tokenizer changes this
    masked = [
        text.str.replace_all(r"\S*\d\S*", _MASKED).str.replace_all(r"[^\p{L}]", "")
        for text in written
    ]
    is_masked = written[0].str.contains(_MASKED) | written[1].str.contains(_MASKED)
    changed = joined.filter(one.ne_missing(other)).select(
        cut=one.list.head(shorter) == other.list.head(shorter),
        read=_begin_alike(*joined_up) | (_begin_alike(*masked) & is_masked),
    )
    advice = {SAME_LENGTH: changed["cut"].sum(), SAME_READING: changed["read"].sum()}
    return next(
        (text for text, number in advice.items() if 2 * number > changed.height), SAME_SPLIT
    )


def _begin_alike(one: pl.Expr, other: pl.Expr) -> pl.Expr:
    return one.str.starts_with(other) | other.str.starts_with(one)


def _notes(a: MeasuredRun, b: MeasuredRun, shared: int, advice: str) -> Iterator[str]:
    if shared < FEW * min(a.rows.height, b.rows.height):
        yield f"few rows in common: {shared} of {a.rows.height} and {b.rows.height}; {advice}"
    for run in (a, b):
        if run.notice:
            yield f"{run.name}: {run.notice}"
    for run, other in ((a, b), (b, a)):
        missing = dict.fromkeys(
            experiment
            for name, (experiment, _) in run.measures.items()
            if name not in other.measures
        )
        if missing:
            yield f"measures of {', '.join(missing)} that {other.name} lacks are not compared"
    for name in (name for name in a.settings if name in b.settings):
        one, two = a.settings[name], b.settings[name]
        differing = [
            f"{key} {one.get(key)} and {two.get(key)}"
            for key in one
            if key != "seed" and one.get(key) != two.get(key)
        ]
        if differing:
            yield f"{name} was run with different settings ({', '.join(differing)}): its measures are not of one kind"
