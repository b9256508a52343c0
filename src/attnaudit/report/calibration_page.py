"""The page of a calibration: measures by constructions, their scores, and the dials."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from attnaudit.calibration import CONSTRUCTIONS
from attnaudit.calibration.verdicts import CODES, confusion
from attnaudit.experiments import measure_label
from attnaudit.report.charts.marks import cell_chart
from attnaudit.report.charts.svg import Drawing, Figure, drawn
from attnaudit.report.page import figures_section, write_page
from attnaudit.report.sections.numbers import Number, SummaryCell, numbers_section
from attnaudit.report.words import figure, interval
from attnaudit.results import read_table

HEADING = "Planted truth: which measures tell faithful attention from unfaithful?"
LEAD = (
    "Every construction counts alike; intervals resample constructions, where each side has 3 or "
    "more (for dials: Student's t over 3 seeds or more). Models whose truth the check did not "
    "confirm are excluded. Measures without a direction are scored as if higher values spoke for "
    "attention."
)
_SCORES = {
    "auc": "AUC",
    "least": "least without one construction",
    "most": "most",
    "auc_within": "on one corpus",
    "over_untrained": "over random weights",
    "over_random_labels": "over random labels",
}
_CHECKS = {
    "accuracy": "accuracy",
    "masked_least": "probability of a class, its words masked: least",
    "masked_most": "most",
    "changed_by_decisive": "flips, deciding words replaced",
    "changed_by_others": "flips, all others replaced",
    "mass": "attention on deciding words",
    "confirmed": "confirmed",
}
_VERDICTS = {code: code for code in CODES} | {
    "right": "share right",
    "wrong": "share wrong",
    "agree": "random halves of the texts agree",
}
_DIALS = "dials: Kendall's τ, positive where a measure falls as attention gets less faithful"
_DIRECTIONS = {"higher": "higher is better", "lower": "lower is better"}
# Columns with an interval, and the ends of it.
_ENDS = {"auc": ("low", "high"), "tau": ("low", "high")}


def write_calibration(folder: Path, page: Path | None = None) -> Path:
    """Write the page of a calibration and return it.

    Args:
        folder: Folder of its tables.
        page: Where to write it instead of ``report.html``.

    Raises:
        RunError: A file of the folder is damaged.
    """
    scores, dials, matrix, checks, verdicts = (
        read_table(folder / f"{name}.parquet").collect()
        for name in ("scores", "dials", "matrix", "checks", "verdicts")
    )
    confirmed = checks.filter(pl.col("truth").is_in(["faithful", "unfaithful"]))
    subtitle = (
        f"{checks.height} models of {checks['construction'].n_unique()} constructions; the check "
        f"confirmed the truth of {int(confirmed['confirmed'].sum())} of {confirmed.height} that are"
        " faithful or unfaithful by construction"
    )
    answers = confusion(verdicts).iter_rows(named=True)
    told = ((f"{row['half']}, {row['truth']}", "", row) for row in answers)
    numbers = list(_numbers("verdicts of confirmed models", _VERDICTS, told))
    numbers += list(_numbers("faithful over unfaithful", _SCORES, map(_scored, scores.to_dicts())))
    for dial in dials["dial"].unique(maintain_order=True):
        title = CONSTRUCTIONS[dial].title
        title += " (no change of truth)" if CONSTRUCTIONS[dial].nuisance else ""
        scored = map(_scored, dials.filter(dial=dial).to_dicts())
        numbers += _numbers(_DIALS, {"tau": title}, scored)
    means = checks.group_by("construction", maintain_order=True).agg(
        pl.col(list(_CHECKS)).cast(pl.Float64).mean()
    )
    constructed = (
        (name, f"{CONSTRUCTIONS[name].title} ({CONSTRUCTIONS[name].truth})", row)
        for row in means.iter_rows(named=True)
        for name in (row["construction"],)
    )
    numbers += _numbers("the check of every construction", _CHECKS, constructed)
    return write_page(
        page or folder / "report.html",
        [figures_section(list(_figures(scores, matrix))), numbers_section(numbers, LEAD)],
        HEADING,
        subtitle,
    )


def _numbers(
    table: str, columns: Mapping[str, str], rows: Iterable[tuple[str, str, Mapping[str, Any]]]
) -> Iterator[Number]:
    """Yield the numbers of rows of name, label and values by column."""
    for name, label, row in rows:
        for column, title in columns.items():
            cell = None
            if row.get(column) is not None:
                low, high = (row.get(end) for end in _ENDS.get(column, ("", "")))
                cell = SummaryCell(figure(row[column]), interval({"low": low, "high": high}))
            yield Number(table, (name, label), title, cell)


def _scored(row: Mapping[str, Any]) -> tuple[str, str, Mapping[str, Any]]:
    """Name a measure, and say which direction is better and how many constructions have it."""
    sign = _DIRECTIONS.get(row["direction"], "no direction")
    label = f"{measure_label(row['measure'], row['experiment'])} ({sign}"
    if "faithful" in row:
        label += f"; {row['faithful']} × {row['unfaithful']} constructions"
    return f"{row['experiment']}/{row['measure']}", f"{label})", row


def _figures(scores: pl.DataFrame, matrix: pl.DataFrame) -> Iterable[Figure]:
    """Draw the rank of every construction by every measure."""
    name = pl.concat_str("experiment", pl.lit(": "), "measure")
    known = scores.filter(pl.col("auc").is_not_null()).select(name).to_series().to_list()
    if known:  # constructions of one truth have ranks, and no AUC to order measures by
        order: Sequence[str] = list(CONSTRUCTIONS)
        ranks = matrix.with_columns(measure=name).filter(pl.col("measure").is_in(known))
        ranks = ranks.sort(pl.col("construction").cast(pl.Enum(order)), maintain_order=True)
        label = "Rank of every construction by every measure"
        caption = (
            "Measures, the best first, by constructions: the mean rank of a construction's models "
            "among all faithful and unfaithful ones, blue where the measure speaks for attention. "
            "A perfect measure is blue on the left and orange next to it."
        )
        panel = drawn("", matrix_chart(ranks, known), "matrix", label)
        yield Figure("matrix", "Every measure on every construction", caption, (panel,))


TRUTHS = ("faithful", "unfaithful", "between", "none")


def matrix_chart(rows: pl.DataFrame, measures: list[str]) -> Drawing:
    """Draw a cell for each of ``rows`` {measure, construction, truth, rank}, by truth."""
    truth, measure = pl.col("truth").cast(pl.Enum(TRUTHS)), pl.col("measure")
    ordered = rows.sort(truth, measure.cast(pl.Enum(measures)), maintain_order=True)
    label = pl.format("{} ({})", "construction", "truth")
    return cell_chart(ordered.select(x=label, y="measure", value="rank"), (0, 0.5, 1))
