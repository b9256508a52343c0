"""The page of a calibration: right and wrong verdicts, AUC of all measures, and the check."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import polars as pl

from attnaudit.calibration import CONSTRUCTIONS
from attnaudit.calibration.verdicts import CODES, confusion
from attnaudit.experiments import measure_label
from attnaudit.report.page import write_page
from attnaudit.report.sections.numbers import Number, SummaryCell, numbers_section
from attnaudit.report.words import figure, interval
from attnaudit.results import Row, read_table

HEADING = "Planted truth: how often is the verdict right?"
LEAD = (
    "Models whose truth the check did not confirm are excluded. Verdicts count models. For an AUC "
    "every construction counts alike, and intervals are over constructions, where each side has 3 "
    "or more. Measures without a direction are scored as if higher values spoke for attention."
)
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
_DIRECTIONS = {"higher": "higher is better", "lower": "lower is better"}


def write_calibration(folder: Path, page: Path | None = None) -> Path:
    """Write the page of a calibration and return it.

    Args:
        folder: Folder of its tables.
        page: Where to write it instead of ``report.html``.

    Raises:
        RunError: A file of the folder is damaged.
    """
    scores, checks, verdicts = (
        read_table(folder / f"{name}.parquet").collect()
        for name in ("scores", "checks", "verdicts")
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
    for (half,), rows in scores.group_by("half", maintain_order=True):
        title = f"AUC of measures, constructions of the half {half}"
        numbers += _numbers(title, {"auc": "AUC"}, map(_scored, rows.iter_rows(named=True)))
    means = checks.group_by("construction", maintain_order=True).agg(
        pl.col(list(_CHECKS)).cast(pl.Float64).mean()
    )
    constructed = (
        (name, f"{CONSTRUCTIONS[name].title} ({CONSTRUCTIONS[name].truth})", row)
        for row in means.iter_rows(named=True)
        for name in (row["construction"],)
    )
    numbers += _numbers("the check of every construction", _CHECKS, constructed)
    page = page or folder / "report.html"
    return write_page(page, [numbers_section(numbers, LEAD)], HEADING, subtitle)


def _numbers(
    table: str, columns: Mapping[str, str], rows: Iterable[tuple[str, str, Row]]
) -> Iterator[Number]:
    """Yield the numbers of rows of name, label and values by column."""
    for name, label, row in rows:
        for column, title in columns.items():
            cell = None
            if row.get(column) is not None:
                cell = SummaryCell(figure(row[column]), interval(row) if column == "auc" else "")
            yield Number(table, (name, label), title, cell)


def _scored(row: Row) -> tuple[str, str, Row]:
    """Name a measure, and say which direction is better and how many constructions have it."""
    sign = _DIRECTIONS.get(row["direction"], "no direction")
    counts = f"{row['faithful']} × {row['unfaithful']} constructions"
    label = f"{measure_label(row['measure'], row['experiment'])} ({sign}; {counts})"
    return f"{row['experiment']}/{row['measure']}", label, row
