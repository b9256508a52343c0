"""Our numbers compared with the published ones of a paper."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from attnaudit.core import InputError, did_you_mean, require_known
from attnaudit.papers.published import (
    ALL,
    GROUP,
    MAX_ALPHA_BINS,
    match_groups,
    published,
    published_corpus,
)
from attnaudit.results import RunRecord, read_record, summary_row
from attnaudit.stats.inference import median_interval

# Every agreement with its mark, the best first. Of one published value only those of our interval
# and of the distance are possible.
AGREEMENTS = {
    "between": ("●", "between the two published values, or on one of them"),
    "spread": ("◕", "no farther outside the two than these are apart"),
    "corpus": ("◒", "within the most that the authors' two runs differ on the corpus"),
    "inside": ("◉", "a published value lies in our 95 % interval"),
    "near": ("◐", "off by at most a twentieth of the measure's range"),
    "above": ("△", "above what their search found"),
    "farther": ("○", "farther off"),
    "unknown": ("–", "not measured"),
}
NEAR = 0.05  # of the range of the measure
WIDEST = 0.5  # of that range: a wider interval agrees with everything and counts for nothing
RULE = (
    "An interval wider than half of the measure's range agrees with nothing. In brackets the "
    "published values: ° quoted from our notes, not checked against the paper; ≈ read off a plot "
    "or slide. A reason names what differs; it was not tested by an experiment unless it says so."
)
SEARCHED = (
    "theirs is what a search found, ours the exact maximum (of more than two classes: the best "
    "found); on one model ours cannot be lower, on another it may"
)
# Ranges of means, shares and medians by the first letters of a measure's name. Others are shares,
# probabilities, scores, or distances of two predictions, and lie in [0, 1].
RANGES = {
    "tau_gradient_loo_minus_": (-2.0, 2.0),
    "tau_": (-1.0, 1.0),
    "emax_jsd": (0.0, math.log(2)),
    "jsd": (0.0, math.log(2)),
    "bleu": (0.0, 100.0),
}
BINNED = {"median_delta_y": "permutation", "emax_jsd": "adversary"}  # experiments by measure
SCHEMA = {
    **dict.fromkeys(("corpus", "study", "model"), pl.String),
    **dict.fromkeys(("measure", "statistic", "group", "max_alpha"), pl.String),
    **dict.fromkeys(("paper", "rerun", "ours", "low", "high"), pl.Float64),
    "n": pl.Int64,
    **dict.fromkeys(("spread", "corpus_spread"), pl.Float64),
    **dict.fromkeys(("agreement", "note", "where"), pl.String),
    "read_off": pl.Boolean,
}


def tally(agreements: Iterable[str]) -> str:
    """Count agreements: ``● 2, ○ 1``."""
    counts = Counter(agreements)
    shown = (f"{mark} {counts[name]}" for name, (mark, _) in AGREEMENTS.items() if counts[name])
    return ", ".join(shown)


def legend_of(agreements: Iterable[str]) -> str:
    """Say what the marks of agreements mean."""
    used = {*agreements}
    said = (f"{mark} {words}" for name, (mark, words) in AGREEMENTS.items() if name in used)
    return "; ".join(said) + "."


def possible(measure: str, statistic: str = "mean") -> tuple[float, float]:
    """Return the least and the largest value that a number can have."""
    name = measure.rpartition("/")[2]
    ranges = (bounds for start, bounds in RANGES.items() if name.startswith(start))
    low, high = next(ranges, (0.0, 1.0))
    # A standard deviation is at most half of its measure's range.
    return (0.0, (high - low) / 2) if statistic == "std" else (low, high)


def judge(theirs: Mapping[str, Any], ours: Mapping[str, Any], *, searched: bool = False) -> str:
    """Judge a number of ours by `AGREEMENTS`.

    Args:
        theirs: Row of `published`.
        ours: ``value``, ``low`` and ``high``; None if not measured.
        searched: Whether theirs was found by a search, and ours is the exact maximum.
    """
    values = [theirs[name] for name in ("paper", "rerun") if theirs.get(name) is not None]
    value, low, high = (ours.get(name) for name in ("value", "low", "high"))
    if value is None:
        return "unknown"
    least, most = min(values), max(values)
    off = max(least - value, value - most, 0.0)
    bounds = possible(theirs["measure"], theirs["statistic"])
    width = bounds[1] - bounds[0]
    if len(values) > 1:
        if off <= most - least:
            return "spread" if off else "between"
        if searched and value > most:
            return "above"
        if theirs["corpus_spread"] is not None and off <= theirs["corpus_spread"]:
            return "corpus"
    if low is not None and high - low <= WIDEST * width and low <= most and high >= least:
        return "inside"
    # The last digits of a difference do not decide.
    return "near" if len(values) == 1 and off <= NEAR * width * (1 + 1e-9) else "farther"


def compare(
    paper: str,
    cell: Mapping[str, str],
    rows: Iterable[Mapping[str, Any]],
    class_names: Sequence[str] = (),
) -> pl.DataFrame:
    """Compare our numbers with the published ones of a cell.

    Args:
        paper: Key of the paper.
        cell: Published ``corpus``, ``study`` and ``model``.
        rows: Summary rows of the cell, with those of `medians_by_weight`; none if it was not run.
        class_names: Our classes.

    Returns:
        `SCHEMA`; ``agreement`` is a key of `AGREEMENTS`.
    """
    numbers = published(paper).filter(**cell)
    groups, by_order = match_groups(numbers["group"].unique(maintain_order=True), class_names)
    own: dict[tuple[str, str], Mapping[str, Any]] = {}
    for row in rows:
        for measure in (row["measure"], f"{row['experiment']}/{row['measure']}"):
            own.setdefault((measure, row["group"]), row)
    compared = []
    for theirs in numbers.iter_rows(named=True):
        group = groups.get(theirs["group"], theirs["group"])
        searched = theirs["measure"] == "emax_jsd" and theirs["statistic"] != "std"
        found = own.get((theirs["measure"], _of_bin(group, theirs["max_alpha"])), {})
        if theirs["statistic"] == "std":
            found = {"value": found.get("std"), "n": found.get("n")}
        notes = (by_order if group != ALL else "", SEARCHED if searched else "")
        ours = {name: found.get(name) for name in ("low", "high", "n")}
        compared.append(
            {
                **theirs,
                **ours,
                "group": group,
                "ours": found.get("value"),
                "agreement": judge(theirs, found, searched=searched),
                "note": "; ".join(filter(None, notes)),
            }
        )
    return pl.DataFrame(compared, schema=SCHEMA)


def is_other_task(paper: str, corpus: str, class_names: Sequence[str]) -> bool:
    """Say whether a corpus has another number of classes than the paper's numbers are of."""
    groups = published(paper).filter(pl.col("group") != ALL, corpus=corpus)["group"].n_unique()
    return bool(groups and class_names) and groups != len(class_names)


def compare_runs(runs: Iterable[RunRecord | str | Path], to: str = "jain2019") -> pl.DataFrame:
    """Compare runs with the published numbers of their corpus, encoder and attention.

    Raises:
        InputError: For an unknown paper, corpus or model, or a run with another number of classes.
    """
    require_known("compare", "--to", to, ["jain2019"])
    frames = []
    for run in runs:
        record = run if isinstance(run, RunRecord) else read_record(run)
        about = record.about
        cell = _cell_of(record, to)
        rows = [*record.summary.to_dicts(), *medians_by_weight(record.columns(COLUMNS))]
        frame = compare(to, cell, rows, about.class_names)
        frames.append(frame.select(pl.lit(record.name).alias("run"), pl.all()))
    return pl.concat(frames) if frames else pl.DataFrame(schema={"run": pl.String, **SCHEMA})


def _cell_of(record: RunRecord, paper: str) -> dict[str, str]:
    about, numbers = record.about, published(paper)
    where, name = f"corpus {about.corpus!r}", published_corpus(paper, about.corpus)
    known = numbers["corpus"].unique().sort().to_list()
    if name is None:
        near = did_you_mean(about.corpus.lower(), known) or (
            "only these corpora have published numbers; to compare runs with each other, give two "
            "or more"
        )
        got = "not in the paper's tables"
        raise InputError("compare", where, got, f"one of {', '.join(known)}", near)
    of_corpus = numbers.filter(corpus=name)
    model, models = f"{about.encoder} {about.attention}", of_corpus["model"].unique().sort()
    if model not in models:
        got, near = f"{model!r}, not in the paper's tables", did_you_mean(model, models)
        raise InputError("compare", where, got, f"one of {', '.join(models)}", near)
    if is_other_task(paper, name, about.class_names):
        got, do = f"{len(about.class_names)} classes", "another task cannot be compared"
        expected = f"{of_corpus['group'].n_unique() - 1}, as in the paper"
        raise InputError("compare", f"{where} of {record.name}", got, expected, do)
    return {"corpus": name, "study": "", "model": model}


COLUMNS = (*BINNED, "max_alpha")


def medians_by_weight(table: pl.DataFrame) -> list[dict[str, Any]]:
    """Summarise instances by bins of their largest weight, of all and of every predicted class.

    Args:
        table: Columns of the results, as far as there are; ``predicted`` and `COLUMNS`.
    """
    if "max_alpha" not in table.columns:
        return []
    rows, bins = [], len(MAX_ALPHA_BINS)
    number = (bins * pl.col("max_alpha")).floor().clip(0, bins - 1)  # the last bin is closed
    for name in (None, *table["predicted"].unique(maintain_order=True)):
        chosen = table if name is None else table.filter(predicted=name)
        group = ALL if name is None else f"{GROUP}{name}"
        for k, bin_ in enumerate(MAX_ALPHA_BINS):
            part = chosen.filter(number == k)
            for measure in (name for name in BINNED if name in table.columns):
                values = part[measure].drop_nulls().drop_nans()
                ends = median_interval(values.to_numpy())
                middle: Any = values.median()
                where = {"group": _of_bin(group, bin_), "n": len(values)}
                rows.append(summary_row(BINNED[measure], measure, middle, *ends, **where))
    return rows


def _of_bin(group: Any, max_alpha: str | None) -> str:
    return group if max_alpha is None else f"{group} max_alpha:{max_alpha}"


def with_references(
    summary: pl.DataFrame, papers: Iterable[str], cell: Mapping[str, str], class_names: Any = ()
) -> pl.DataFrame:
    """Put published values beside the rows of a summary, as ``reference`` and ``source``.

    Of two values the re-run's is taken, which was selected on dev as ours is.

    Args:
        summary: The summary.
        papers: Papers that may have numbers, the preferred one last.
        cell: Published corpus, study and model.
        class_names: Our classes.
    """
    known: dict[tuple[str, str], dict[str, Any]] = {}
    for paper in papers:
        name = published_corpus(paper, cell["corpus"]) or ""
        if is_other_task(paper, name, class_names):
            continue
        table = compare(paper, {**cell, "corpus": name}, (), class_names)
        twice = table["rerun"].count() > 0
        for row in table.filter(pl.col("statistic").is_in(["mean", "share"])).to_dicts():
            revision = "paper" if row["rerun"] is None else "rerun"
            source = f"{paper} {revision}" if twice else paper
            found = {"reference": row[revision], "source": source}
            known[row["measure"], row["group"]] = found
    rows = [row | known.get((row["measure"], row["group"]), {}) for row in summary.to_dicts()]
    return pl.DataFrame(rows, schema=summary.schema)
