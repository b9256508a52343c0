"""Runs, alone and over seeds, compared with the published numbers: do they differ more from them than the authors' two runs do?"""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from scipy.special import stdtrit

from attnaudit.core.errors import InputError, did_you_mean
from attnaudit.published.reference import (
    ALL,
    BINNED,
    MAX_ALPHA_BINS,
    PAPER,
    RERUN,
    PublishedCell,
    largest_difference,
    match_classes,
    published_cell,
)
from attnaudit.results.about import About
from attnaudit.results.record import RunRecord, read_record
from attnaudit.stats.inference import median_interval

SOURCES = ("jain2019",)
COMPARISON_SCHEMA = {
    "run": pl.String, "corpus": pl.String, "encoder": pl.String, "attention": pl.String, "measure": pl.String, "statistic": pl.String,
    "group": pl.String, "max_alpha": pl.String, "paper": pl.Float64, "rerun": pl.Float64, "ours": pl.Float64, "low": pl.Float64,
    "high": pl.Float64, "n": pl.Int64, "spread": pl.Float64, "within": pl.Boolean, "corpus_spread": pl.Float64, "agreement": pl.String,
    "note": pl.String,
}  # fmt: skip
WITHIN_CELL = "within their spread"
WITHIN_CORPUS = "within their spread on this corpus"
WITHIN_OURS = "theirs is within our interval"
FARTHER = "farther than their spread"
PUBLISHED_ONCE = "published once"
ABOVE_SEARCH = "above what their search found"
NOT_MEASURED = "not measured in this run"
DEGREES = {
    WITHIN_CELL: "cell", WITHIN_CORPUS: "corpus", WITHIN_OURS: "ours", ABOVE_SEARCH: "above", FARTHER: "farther", NOT_MEASURED: "unknown",
}  # fmt: skip  # short names of the agreements that are counted, in the order of tables
SEARCHED = (
    "theirs is what a search found, ours the exact maximum (of more than two classes: the best found); "
    "on one model ours cannot be lower, on another it may"
)
_ORDER = ("accuracy", "f1", "roc_auc", "tau_gradient", "significant_gradient", "tau_loo", "significant_loo", "tau_gradient_loo",
          "significant_gradient_loo", "tau_gradient_loo_minus_tau_gradient", "tau_gradient_loo_minus_tau_loo", "emax_jsd",
          "median_delta_y")  # fmt: skip

FEWEST_SEEDS = 3  # of an interval over seeds that may agree with a published value
CELL = ("corpus", "encoder", "attention")
NUMBER = (*CELL, "measure", "statistic", "group", "max_alpha")
SEEDS_SCHEMA = {
    **dict.fromkeys(NUMBER, pl.String), "paper": pl.Float64, "rerun": pl.Float64, "ours": pl.Float64, "sd": pl.Float64,
    "low": pl.Float64, "high": pl.Float64, "seeds": pl.Int64, "n": pl.Float64, "spread": pl.Float64, "within": pl.Boolean,
    "corpus_spread": pl.Float64, "agreement": pl.String, "note": pl.String,
}  # fmt: skip

# By the first letters of a measure's name: least and largest value of its means, shares and medians. What is not named here is a share,
# a probability, a score, or a distance of two predictions (TVD), and lies in [0, 1]. A difference of two τ comes before τ itself.
RANGES = {
    "tau_gradient_loo_minus_": (-2.0, 2.0),
    "tau_": (-1.0, 1.0),
    "emax_jsd": (0.0, math.log(2)),
    "jsd": (0.0, math.log(2)),
    "bleu": (0.0, 100.0),
}
WIDEST_TELLING = 0.5  # part of a measure's range


def compare(runs: Iterable[RunRecord | str | Path], to: str = "jain2019") -> pl.DataFrame:
    """Every published number of each run's corpus, encoder and attention, next to the run's own.

    ``paper`` is the paper's Table of April 2019 (selected on test), ``rerun`` the authors' later clean run, ``ours`` with its 95 %
    interval ``low``, ``high``. ``spread`` is |paper − rerun|. ``within``: ours lies no farther than ``spread`` outside the two
    published values; null where only one was published, or where this run has no such number. ``corpus_spread`` is the most that
    their two runs differ in this kind of number over all their models on this corpus, and ``agreement`` says in words which of the
    two spreads ours keeps to; a number that was published once has no spread and is not judged. Source: Jain & Wallace 2019.

    Raises InputError for an unknown source, corpus, encoder or attention, or a run with another number of classes.
    """
    if to not in SOURCES:
        raise InputError(
            "compare", "--to", repr(to), f"one of {', '.join(SOURCES)}", did_you_mean(to, SOURCES)
        )
    rows = [
        row
        for run in runs
        for row in _compare_one(run if isinstance(run, RunRecord) else read_record(run))
    ]
    return pl.DataFrame(rows, schema=COMPARISON_SCHEMA)


def _compare_one(record: RunRecord) -> list[dict[str, Any]]:
    about = record.about
    cell = published_cell(about.corpus, about.encoder, about.attention)
    _check_classes(record, cell)
    classes, by_order = match_classes(cell.classes, about.class_names)
    exact = about.setting("adversary", "method", "exact") == "exact"
    instances, rows = record.columns(BINNED), []
    for (measure, statistic, index, bin_), published in _groups(cell):
        group = ALL if index == ALL else classes.get(index)
        if group is None:
            continue  # a single class that their log file happens to name, such as babi2's answer 9
        ours = _ours(record.summary, instances, measure, statistic, group, bin_)
        searched = exact and measure == "emax_jsd" and statistic != "std"
        rows.append({
            "run": record.name, "corpus": cell.corpus, "encoder": about.encoder, "attention": about.attention,
            "measure": measure, "statistic": statistic, "group": group if group == ALL else f"predicted:{group}",
            "max_alpha": None if bin_ is None else MAX_ALPHA_BINS[bin_], **ours,
            **judge(published, ours, spread_on_corpus(cell.corpus, measure, statistic, bin_), searched, possible(measure, statistic)),
            "note": "; ".join(filter(None, [by_order if group != ALL else "", SEARCHED if searched else ""])),
        })  # fmt: skip
    return rows


def _groups(
    cell: PublishedCell,
) -> Iterable[tuple[tuple[str, str, str, int | None], dict[str, float]]]:
    """The two published values of every number of a cell, in the order of `_ORDER`."""
    rank = pl.col("measure").replace_strict({measure: k for k, measure in enumerate(_ORDER)})
    ranked = cell.numbers.sort(rank, "statistic", pl.col("class") != ALL, "class", "bin")
    for key, frame in ranked.group_by("measure", "statistic", "class", "bin", maintain_order=True):
        measure, statistic, index, bin_ = key
        assert isinstance(bin_, int | None)
        columns = frame["revision"].replace_strict({PAPER: "paper", RERUN: "rerun"})
        yield (
            (str(measure), str(statistic), str(index), bin_),
            dict(zip(columns, frame["value"], strict=True)),
        )


def _check_classes(record: RunRecord, cell: PublishedCell) -> None:
    indexes = cell.numbers.filter(pl.col("measure") == "emax_jsd")["class"].unique().to_list()
    theirs, ours = len(indexes), len(record.about.class_names)
    if ALL not in indexes and ours and ours != theirs:
        where = f"corpus {record.about.corpus!r} of {record.name}"
        raise InputError(
            "compare",
            where,
            f"{ours} classes",
            f"{theirs}, as in the paper",
            "another task cannot be compared",
        )


def judge(
    published: dict[str, float],
    ours: dict[str, Any],
    corpus_spread: float | None,
    searched: bool,
    bounds: tuple[float, float],
) -> dict[str, Any]:
    """How ``ours`` (value, low, high) stands to what was ``published`` (``paper``, ``rerun``, or one of them).

    ``bounds`` are what the number can be: an interval that spans more than half of them agrees with everything and counts for nothing.
    """
    paper, rerun, value = published.get("paper"), published.get("rerun"), ours["ours"]
    lowest, highest = min(published.values()), max(published.values())
    spread = None if paper is None or rerun is None else abs(paper - rerun)
    off = None if value is None else max(lowest - value, value - highest, 0.0)
    within = None if off is None or spread is None else off <= spread
    agreement = _agreement(off, within, corpus_spread)
    if searched and value is not None and value > highest and within is False:
        agreement = ABOVE_SEARCH
    if (
        agreement == FARTHER
        and is_telling(ours["low"], ours["high"], bounds)
        and ours["low"] <= highest
        and ours["high"] >= lowest
    ):
        agreement = WITHIN_OURS
    return {
        "paper": paper, "rerun": rerun, "spread": spread, "within": within, "corpus_spread": corpus_spread, "agreement": agreement,
    }  # fmt: skip


def agreement_counts(frame: pl.DataFrame) -> dict[str, int]:
    """How many rows of a comparison have each agreement."""
    return dict(frame["agreement"].value_counts().iter_rows())


def possible(measure: str, statistic: str = "mean") -> tuple[float, float]:
    """Least and largest value that a number can have; a standard deviation is at most half of its measure's range."""
    low, high = next(
        (bounds for start, bounds in RANGES.items() if measure.startswith(start)), (0.0, 1.0)
    )
    return (0.0, (high - low) / 2) if statistic == "std" else (low, high)


def is_telling(low: float | None, high: float | None, bounds: tuple[float, float]) -> bool:
    """Whether an interval is narrow enough, half of the range at most, for a value within it to count as agreement."""
    return (
        low is not None
        and high is not None
        and high - low <= WIDEST_TELLING * (bounds[1] - bounds[0])
    )


def between_theirs(frame: pl.DataFrame) -> int:
    """How many rows of a comparison lie between the authors' two values, or on one of them; `judge` counts these and more as ``within``."""
    theirs = pl.col("paper", "rerun")
    twice = frame.filter(pl.col("spread").is_not_null())
    return twice.filter(
        pl.col("ours") >= pl.min_horizontal(theirs), pl.col("ours") <= pl.max_horizontal(theirs)
    ).height


def _agreement(off: float | None, within: bool | None, corpus_spread: float | None) -> str:
    if off is None:
        return NOT_MEASURED
    if within is None:
        return PUBLISHED_ONCE
    if within:
        return WITHIN_CELL
    return WITHIN_CORPUS if corpus_spread is not None and off <= corpus_spread else FARTHER


def spread_on_corpus(corpus: str, measure: str, statistic: str, bin_: int | None) -> float | None:
    """`largest_difference`; τ gradient–LOO was published once only, so that all mean τ share the largest one."""
    measures = ["tau_gradient", "tau_loo"] if measure.startswith("tau_") else [measure]
    found = [largest_difference(corpus, name, statistic, bin_) for name in measures]
    return max((value for value in found if value is not None), default=None)


def _ours(
    summary: pl.DataFrame,
    instances: pl.DataFrame,
    measure: str,
    statistic: str,
    group: str,
    bin_: int | None,
) -> dict[str, Any]:
    if bin_ is not None:
        return _median(instances, measure, group, bin_)
    expected = group if group == ALL else f"predicted:{group}"
    found = summary.filter(pl.col("measure") == measure, pl.col("group") == expected).to_dicts()
    row = found[0] if found else {}
    if statistic == "std":
        return {"ours": row.get("std"), "low": None, "high": None, "n": row.get("n")}
    return {
        "ours": row.get("value"),
        "low": row.get("low"),
        "high": row.get("high"),
        "n": row.get("n"),
    }


def _median(instances: pl.DataFrame, measure: str, group: str, bin_: int) -> dict[str, Any]:
    if not {measure, "max_alpha"} <= set(instances.columns):
        return {"ours": None, "low": None, "high": None, "n": None}
    edge = 0.25 * bin_
    top = pl.lit(True) if bin_ == len(MAX_ALPHA_BINS) - 1 else pl.col("max_alpha") < edge + 0.25
    kept = instances.filter(
        pl.col("max_alpha") >= edge, top, (pl.col("predicted") == group) | pl.lit(group == ALL)
    )
    values = kept[measure].drop_nulls().drop_nans()
    low, high = median_interval(values.to_numpy())
    middle = values.median()
    return {
        "ours": middle if isinstance(middle, float) else None,
        "low": low,
        "high": high,
        "n": len(values),
    }


def over_seeds(runs: Iterable[RunRecord | str | Path], to: str = "jain2019") -> pl.DataFrame:
    """A row for every published number of every corpus, encoder and attention among the runs.

    ``ours`` is the mean over seeds, ``sd`` their standard deviation, ``low`` and ``high`` the 95 % t interval of the mean; of a single
    seed ``low`` and ``high`` are its own interval over instances and ``sd`` is null. ``n`` is the mean number of instances. The other
    columns are those of `compare`, with agreement judged on the mean. An interval never goes beyond what the number can be; one over two
    seeds says too little to agree with anything. The runs of a cell are to differ in their seed alone. Raises InputError as `compare`
    does.
    """
    compared = compare(runs, to)
    groups = compared.group_by(*NUMBER, maintain_order=True)
    return pl.DataFrame(
        [_together(dict(zip(NUMBER, key, strict=True)), rows) for key, rows in groups],
        schema=SEEDS_SCHEMA,
    )


def _together(key: dict[str, Any], rows: pl.DataFrame) -> dict[str, Any]:
    first = rows.row(0, named=True)
    known = rows.filter(pl.col("ours").is_not_null())
    values = known["ours"].to_numpy()
    bounds = possible(key["measure"], key["statistic"])
    ours = {
        "ours": float(values.mean()) if len(values) else None,
        "n": known["n"].mean(),
    } | interval_over_seeds(values, known, bounds)
    published = {
        revision: first[revision] for revision in ("paper", "rerun") if first[revision] is not None
    }
    telling = ours | ({"low": None, "high": None} if 1 < len(values) < FEWEST_SEEDS else {})
    judged = judge(published, telling, first["corpus_spread"], SEARCHED in first["note"], bounds)
    return {**key, **ours, "seeds": len(values), **judged, "note": first["note"]}


def interval_over_seeds(
    values: np.ndarray, known: pl.DataFrame, bounds: tuple[float, float]
) -> dict[str, Any]:
    """``sd``, ``low`` and ``high`` of one value per seed: the t interval of the mean, or of a single seed its own interval in ``known``.

    The t interval knows nothing of what a measure can be: it is cut to ``bounds``.
    """
    if len(values) < 2:
        own = known.row(0, named=True) if len(values) else {"low": None, "high": None}
        return {"sd": None, "low": own["low"], "high": own["high"]}
    sd = float(values.std(ddof=1))
    half = float(stdtrit(len(values) - 1, 0.975)) * sd / math.sqrt(len(values))
    mean = float(values.mean())
    return {"sd": sd, "low": max(mean - half, bounds[0]), "high": min(mean + half, bounds[1])}


def with_references(summary: pl.DataFrame, about: About) -> pl.DataFrame:
    """The summary of a run with ``reference`` and ``source`` in every row that Jain & Wallace 2019 published.

    The number is that of the authors' re-run where there is one, which was selected on dev, as ours is; the paper's tables of April 2019
    were selected on test.
    """
    try:
        compared = compare([RunRecord("", summary, about)])
    except InputError:
        return summary  # no number was published for this corpus or model
    is_mean = pl.col("statistic").is_in(["mean", "share"]) & pl.col("max_alpha").is_null()
    published = {
        (row["measure"], row["group"]): _reference(row)
        for row in compared.filter(is_mean).iter_rows(named=True)
    }
    rows = [
        row | published.get((row["measure"], row["group"]), {})
        for row in summary.iter_rows(named=True)
    ]
    return pl.DataFrame(rows, schema=summary.schema)


def _reference(row: dict[str, Any]) -> dict[str, Any]:
    revision = "rerun" if row["rerun"] is not None else "paper"
    return {"reference": row[revision], "source": f"jain2019 {revision}"}
