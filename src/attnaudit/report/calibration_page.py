"""The page of a calibration: measures by constructions, their scores, the dials, the degree, and the check of every construction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from attnaudit.calibration import CONSTRUCTIONS
from attnaudit.core.files import read_json
from attnaudit.experiments import measure_label
from attnaudit.report.charts.calibration import matrix_chart, reliability_chart
from attnaudit.report.charts.svg import Figure, drawn
from attnaudit.report.page import figures_section, write_page
from attnaudit.report.sections.numbers import SummaryCell, SummaryTable, numbers_section
from attnaudit.report.words import figure
from attnaudit.results import read_table

HEADING = "Planted truth: which measures tell faithful attention from unfaithful?"
LEAD = (
    "Every construction counts alike; intervals resample constructions, where each side has 3 or more (for dials: Student's t over 3 seeds "
    "or more). Models whose truth the check did not confirm are excluded. Measures without a direction are scored as if higher values "
    "spoke for attention."
)


def write_calibration(folder: Path, page: Path | None = None) -> Path:
    """Write the page of the tables in ``folder``, by default its ``report.html``, and return its path. Raises RunError."""
    scores, dials, matrix, checks = (
        read_table(folder / f"{name}.parquet").collect()
        for name in ("scores", "dials", "matrix", "checks")
    )
    degree: Mapping[str, Any] | None = read_json(folder / "degree.json")
    confirmed = checks.filter(pl.col("truth").is_in(["faithful", "unfaithful"]))
    subtitle = (
        f"{checks.height} models of {checks['construction'].n_unique()} constructions; the check confirmed the truth of "
        f"{int(confirmed['confirmed'].sum())} of {confirmed.height} that are faithful or unfaithful by construction"
    )
    figures = [*_matrix_figure(scores, matrix), *_degree_figure(degree)]
    tables = [
        scores_table(scores),
        *_dials_table(dials),
        *_degree_table(degree),
        checks_table(checks),
    ]
    return write_page(
        page or folder / "report.html",
        [figures_section(figures), numbers_section(tables, LEAD)],
        HEADING,
        subtitle,
    )


def scores_table(scores: pl.DataFrame) -> SummaryTable:
    """A row for each measure, the best first."""
    rows = []
    for row in scores.iter_rows(named=True):
        spread = f"{row['faithful']} × {row['unfaithful']} constructions"
        own = (
            None
            if row["auc"] is None
            else SummaryCell(figure(row["auc"]), _interval(row["low"], row["high"]), spread)
        )
        without = (
            None
            if row["auc"] is None
            else SummaryCell(f"{figure(row['least'])} to {figure(row['most'])}", "", "")
        )
        others = tuple(
            _cell(row[name]) for name in ("auc_within", "over_untrained", "over_random_labels")
        )
        rows.append((_name(row), _label(row), (own, without, *others)))
    columns = (
        "AUC",
        "without one construction",
        "on one corpus",
        "over random weights",
        "over random labels",
    )
    return SummaryTable("faithful over unfaithful", columns, tuple(rows))


def checks_table(checks: pl.DataFrame) -> SummaryTable:
    """A row for each construction: means over its models."""
    columns = {
        "accuracy": "accuracy", "accuracy_masked": "deciding words masked", "changed_by_decisive": "flips, deciding words replaced",
        "changed_by_others": "flips, all others replaced", "mass": "attention on deciding words", "confirmed": "confirmed",
    }  # fmt: skip
    rows = []
    for (name,), part in checks.group_by("construction", maintain_order=True):
        means = part.select(pl.col(list(columns)).cast(pl.Float64).mean()).row(0)
        title = CONSTRUCTIONS[str(name)].title
        rows.append(
            (
                str(name),
                f"{title} ({CONSTRUCTIONS[str(name)].truth})",
                tuple(_cell(mean) for mean in means),
            )
        )
    return SummaryTable("the check of every construction", tuple(columns.values()), tuple(rows))


def _dials_table(dials: pl.DataFrame) -> Iterable[SummaryTable]:
    if dials.is_empty():
        return
    names = dials["dial"].unique(maintain_order=True).to_list()
    cells = {(row["dial"], _name(row)): row for row in dials.iter_rows(named=True)}
    rows = []
    for row in dials.unique(["experiment", "measure"], maintain_order=True).iter_rows(named=True):
        found = [cells.get((name, _name(row))) for name in names]
        rows.append(
            (
                _name(row),
                _label(row),
                tuple(one and _cell(one["tau"], one["low"], one["high"]) for one in found),
            )
        )
    titles = tuple(
        CONSTRUCTIONS[name].title
        + (" (no change of truth)" if CONSTRUCTIONS[name].nuisance else "")
        for name in names
    )
    yield SummaryTable(
        "dials: Kendall's τ, positive where a measure falls as attention gets less faithful",
        titles,
        tuple(rows),
    )


def _degree_table(degree: Mapping[str, Any] | None) -> Iterable[SummaryTable]:
    if not degree or not degree.get("held"):
        return
    held = degree["held"]
    detail = f"{figure(held['least'])} to {figure(held['most'])} without one construction"
    numbers = {
        "AUC": SummaryCell(figure(held["auc"]), _interval(held["low"], held["high"]), detail), "Brier score": _cell(held["brier"]),
        "share that is judged": _cell(held["judged"]),
        "share of the judged that is right": _cell(held["right"], held.get("right_low"), held.get("right_high")),
    }  # fmt: skip
    measured = [
        (f"{experiment}/{measure}", measure_label(measure, experiment), (_cell(weight),))
        for (experiment, measure, _), weight in zip(
            degree["measures"], degree["coefficients"], strict=True
        )
    ]
    yield SummaryTable(
        "the degree on held-out constructions",
        tuple(numbers),
        (("held", "other half", tuple(numbers.values())),),
    )
    yield SummaryTable(
        "the degree's measures", ("coefficient a standard deviation",), tuple(measured)
    )


def _matrix_figure(scores: pl.DataFrame, matrix: pl.DataFrame) -> Iterable[Figure]:
    known = scores.filter(pl.col("auc").is_not_null())
    if known.is_empty():  # constructions of one truth have ranks, and no AUC to order measures by
        return
    labels = {
        _name(row): f"{row['experiment']}: {row['measure']}" for row in known.iter_rows(named=True)
    }
    order = {name: k for k, name in enumerate(CONSTRUCTIONS)}
    rows = matrix.with_columns(
        pl.concat_str("experiment", pl.lit(": "), "measure").alias("measure")
    )
    rows = rows.with_columns(
        pl.col("construction").replace_strict(order, return_dtype=pl.Int64).alias("place")
    ).sort("place")
    rows = rows.filter(pl.col("measure").is_in(list(labels.values())))
    caption = (
        "Measures, the best first, by constructions: the mean rank of a construction's models among all faithful and unfaithful ones, blue "
        "where the measure speaks for attention. A perfect measure is blue on the left and orange next to it."
    )
    panel = drawn(
        "",
        matrix_chart(rows, list(labels.values())),
        "matrix",
        "Rank of every construction by every measure",
    )
    yield Figure("matrix", "Every measure on every construction", caption, (panel,))


def _degree_figure(degree: Mapping[str, Any] | None) -> Iterable[Figure]:
    if degree and degree.get("held") and degree["held"]["reliability"]:
        chart = reliability_chart(pl.DataFrame(degree["held"]["reliability"]))
        panel = drawn("", chart, "reliability", "Share of faithful models by degree")
        caption = (
            "Held-out constructions. On the diagonal, a degree of 0.8 is right four times in five."
        )
        yield Figure("reliability", "How often is the degree right?", caption, (panel,))


def _name(row: Mapping[str, Any]) -> str:
    return f"{row['experiment']}/{row['measure']}"


def _label(row: Mapping[str, Any]) -> str:
    sign = {"higher": "higher is better", "lower": "lower is better"}.get(
        row["direction"], "no direction"
    )
    return f"{measure_label(row['measure'], row['experiment'])} ({sign})"


def _cell(
    value: float | None, low: float | None = None, high: float | None = None
) -> SummaryCell | None:
    return None if value is None else SummaryCell(figure(value), _interval(low, high), "")


def _interval(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"[{figure(low)}, {figure(high)}]"
