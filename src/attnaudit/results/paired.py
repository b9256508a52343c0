"""Comparison of two runs on their shared texts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from jaxtyping import Float

from attnaudit.core import InputError
from attnaudit.core.ragged import Ragged
from attnaudit.results.groups import numbers_of, text_number
from attnaudit.results.summary import ROW, TEXT
from attnaudit.stats.measures import jsd_terms
from attnaudit.stats.paired import paired_means
from attnaudit.trace import ROW_KEYS

SAME = ("tokens", "question")
MOST = 10  # instances shown
FEW = 0.5  # a note warns if fewer rows than this share of the smaller run are shared
SAME_TEXTS = (
    "run both with the same corpus settings: seed (the split of a file of your own), max_tokens, "
    "tokenizer, lowercase and digits"
)
B = "_b"  # suffix of the second run's columns in the table of texts
HIGHER, LOWER, NOT_SHOWN = "b is higher", "b is lower", "no difference shown"
TOO_FEW, WITHHELD = "too few texts", "withheld"
# Differences of this experiment are concluded even if a model has not learned enough for
# conclusions about its attention.
QUALITY = "prediction"


@dataclass(frozen=True)
class MeasuredRun:
    """The trace rows of a run with their measures.

    Attributes:
        name: Name of the run.
        rows: The `ROW_KEYS` of its trace, ``tokens``, ``question``, ``predicted``, measures, and
            ``alpha``, the heatmap that is judged if there is no attention.
        measures: Experiment and measure of each measured column of ``rows``.
        settings: Settings of its experiments.
        notice: Reason to conclude nothing from its attention; empty if there is none.
        verdict: Code of its verdict.
    """

    name: str
    rows: pl.DataFrame
    measures: Mapping[str, tuple[str, str]]
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    notice: str = ""
    verdict: str = ""


@dataclass(frozen=True)
class PairedRuns:
    """The comparison of run ``a`` with run ``b``.

    Attributes:
        a: Name of the first run.
        b: Name of the second run.
        differences: A row per measure.
        instances: A row per shared trace row with the values of both runs. Columns of ``b`` end in
            ``_b``. ``jsd`` is the divergence of the two attentions in nats, with the largest first.
        changed: Number of rows with the same keys but different texts; they are not shared.
        notes: Remarks on the limits of the comparison.
        verdicts: Codes of the verdicts of both runs.
    """

    a: str
    b: str
    differences: pl.DataFrame
    instances: pl.DataFrame
    changed: int
    notes: tuple[str, ...] = ()
    verdicts: tuple[str, str] = ("", "")

    @property
    def unit(self) -> str:
        """Noun for a pair: a row if a text has several of them, else a text."""
        return ROW if self.texts < self.instances.height else TEXT

    @property
    def texts(self) -> int:
        """Number of texts of the shared rows."""
        columns = self.instances.columns
        return self.instances.select(
            name for name in ("split", "instance") if name in columns
        ).n_unique()

    def to_json(self) -> dict[str, Any]:
        """Return the differences and the texts that differ most."""
        named = (*ROW_KEYS, "jsd", "predicted", "predicted" + B)
        shown = self.instances.select(name for name in named if name in self.instances.columns)
        facts = {"a": self.a, "b": self.b, "changed": self.changed, "notes": self.notes}
        facts |= {"verdicts": self.verdicts}
        rows = {"differences": self.differences, "most_different": shown.head(MOST)}
        return facts | {name: table.to_dicts() for name, table in rows.items()}


def pair(a: MeasuredRun, b: MeasuredRun) -> PairedRuns:
    """Compare two runs on the rows with the same keys and the same text in both.

    A difference is the mean of b − a over the pairs in which the measure is defined on both sides.
    Its interval is from a bootstrap over instances with all their rows.

    Args:
        a: First run.
        b: Second run.

    Raises:
        InputError: If no row or no measure is shared, or if several rows have the same keys.
    """
    keys = [key for key in ROW_KEYS if key in a.rows.columns and key in b.rows.columns]
    for run in (a, b):
        _require_distinct(run, keys)
    # Nulls match, because the split, layer, head and query of a row may be null. The rows are
    # sorted, so that intervals do not depend on the order of either run.
    joined = a.rows.join(b.rows, on=keys, suffix=B, nulls_equal=True).sort(keys)
    shared = joined.filter(
        pl.all_horizontal(pl.col(name).eq_missing(pl.col(name + B)) for name in SAME)
    )
    changed, both = joined.height - shared.height, f"{a.name} and {b.name}"
    if shared.is_empty():
        got = (
            f"no text in common: of {a.rows.height} and {b.rows.height} rows, {changed} have "
            "the same id, and those another text"
        )
        raise InputError("compare", both, got, "runs on the same texts", SAME_TEXTS)
    if not a.measures.keys() & b.measures.keys():
        expected = "results of the same experiments"
        raise InputError("compare", both, "no measure in common", expected, "audit both again")
    instances = shared.with_columns(pl.Series("jsd", _divergence(shared)))
    return PairedRuns(
        a.name,
        b.name,
        _differences(a, b, shared),
        instances.sort("jsd", descending=True, maintain_order=True),
        changed,
        tuple(_notes(a, b, shared.height)),
        (a.verdict, b.verdict),
    )


def _require_distinct(run: MeasuredRun, keys: Sequence[str]) -> None:
    several = run.rows.filter(pl.struct(keys).is_duplicated())
    if several.height:
        got = f"several rows of instance {several['instance'][0]}, alike in {', '.join(keys)}"
        expected = "rows named alike in both runs, by instance, layer, head and query"
        raise InputError("compare", run.name, got, expected)


def _differences(a: MeasuredRun, b: MeasuredRun, shared: pl.DataFrame) -> pl.DataFrame:
    """Compare the measures that both runs have, one row per measure."""
    names = [name for name in a.measures if name in b.measures]
    text = shared.select(text_number(shared.columns)).to_series().to_numpy()
    first, second = (numbers_of(shared.select(name + end for name in names)) for end in ("", B))
    means = paired_means(first, second, text)
    experiment = [a.measures[name][0] for name in names]
    outcomes = [np.isnan(means.low), means.low > 0, means.high < 0]
    conclusion = np.select(outcomes, [TOO_FEW, HIGHER, LOWER], NOT_SHOWN)
    if a.notice or b.notice:
        conclusion = np.where(np.array(experiment) == QUALITY, conclusion, WITHHELD)
    columns = {
        "run_a": a.name,
        "run_b": b.name,
        "experiment": experiment,
        "measure": [a.measures[name][1] for name in names],
        "a": means.first,
        "b": means.second,
        "difference": means.second - means.first,
        "low": means.low,
        "high": means.high,
        "n": means.n,
        "undefined": shared.height - means.n,
        "conclusion": conclusion.tolist(),
        "shared": shared.height,
        "only_a": a.rows.height - shared.height,
        "only_b": b.rows.height - shared.height,
    }
    counts = pl.col("shared", "only_a", "only_b").cast(pl.Int64)
    return pl.DataFrame(columns, nan_to_null=True).with_columns(counts)


def _divergence(shared: pl.DataFrame) -> Float[np.ndarray, " n"]:
    """Compute the JSD of the two attentions of every row, in nats."""
    # Stored as float32, so the weights are rescaled to sum to 1 in float64.
    lengths = shared["alpha"].list.len().to_numpy()
    one, other = (
        Ragged.from_lengths(shared[name].explode().to_numpy().astype(np.float64), lengths)
        for name in ("alpha", "alpha" + B)
    )
    weights = (alpha.values / alpha.spread(alpha.sum()) for alpha in (one, other))
    # Rounding may leave a divergence below 0.
    return np.maximum(one.with_values(jsd_terms(*weights)).sum(), 0.0)


def _notes(a: MeasuredRun, b: MeasuredRun, shared: int) -> Iterator[str]:
    if shared < FEW * min(a.rows.height, b.rows.height):
        yield f"few rows in common: {shared} of {a.rows.height} and {b.rows.height}; {SAME_TEXTS}"
    for run in (a, b):
        if run.notice:
            yield f"{run.name}: {run.notice}"
    for run, other in ((a, b), (b, a)):
        lacking = (own for name, (own, _) in run.measures.items() if name not in other.measures)
        missing = ", ".join(dict.fromkeys(lacking))
        if missing:
            yield f"measures of {missing} that {other.name} lacks are not compared"
    for name in (name for name in a.settings if name in b.settings):
        one, two = a.settings[name], b.settings[name]
        differing = ", ".join(
            f"{key} {one.get(key)} and {two.get(key)}"
            for key in one
            # Another seed changes the draws, not the measure.
            if key != "seed" and one.get(key) != two.get(key)
        )
        if differing:
            yield (
                f"{name} was run with different settings ({differing}): its measures are not of "
                "one kind"
            )
