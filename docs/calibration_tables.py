"""Write the tables of constructions and of shipped scores into docs/calibration.md: `python docs/calibration_tables.py`."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from attnaudit.calibration import CONSTRUCTIONS
from attnaudit.calibration.degree import DATA, Degree, evaluated, shipped
from attnaudit.report.words import figure, interval

PAGE = Path(__file__).with_name("calibration.md")
SCORES = Path(__file__).parents[1] / "src" / "attnaudit" / DATA
PARTS = ("constructions", "scores")


def table() -> str:
    """A row for each construction."""
    rows = [
        f"| `{name}`: {one.title} | {one.truth if one.truth != 'none' else 'nothing to explain'} | {one.half or '–'} | "
        f"{', '.join(one.encoders)} | {one.reason} |"
        for name, one in CONSTRUCTIONS.items()
    ]
    return "\n".join(
        [
            "| construction | truth | half | encoders | why the truth is known |",
            "|---|---|---|---|---|",
            *rows,
        ]
    )


def scores() -> str:
    """The degree on the half held out, and a row for each directed measure, the best first; of the sweep that is shipped."""
    degree = shipped()
    if degree is None:
        return "No sweep is shipped yet: `python docs/calibration_record.py DIR` ships one."
    known = pl.read_csv(SCORES.with_name("scores.csv")).filter(
        pl.col("auc").is_not_null(), pl.col("direction") != "neither"
    )
    rows = [f"| {' | '.join(cells_of(row))} |" for row in known.iter_rows(named=True)]
    head = [
        "| experiment | measure | better | AUC | constructions | on one corpus | over random weights | over random labels |",
        "|---|---|---|---|---|---|---|---|",
    ]
    return "\n".join([*summary(degree), "", *head, *rows])


def cells_of(row: dict[str, Any]) -> list[str]:
    """The cells of a measure's row."""
    others = [figure(row[name]) for name in ("auc_within", "over_untrained", "over_random_labels")]
    auc, of = (
        f"{figure(row['auc'])} {interval(row)}".rstrip(),
        f"{row['faithful']} × {row['unfaithful']}",
    )
    return [row["experiment"], f"`{row['measure']}`", row["direction"], auc, of, *others]


def summary(degree: Degree) -> list[str]:
    """The command, the measures of the degree, and what it does on the half held out."""
    held, apart = degree.held or {}, evaluated(without(degree, shared()), "held")
    names = ", ".join(f"`{experiment}/{measure}`" for experiment, measure, _ in degree.measures)
    return [
        f"By `{degree.made_by}`. The degree is of {names}. On the half held out: AUC {figure(held['auc'])} {interval(held)}, "
        f"{figure(held['least'])} to {figure(held['most'])} without one construction, {figure(apart['auc'])} {interval(apart)} without "
        f"{' and '.join(f'`{name}`' for name in shared())}; Brier score "
        f"{figure(held['brier'])} (0.25: 0.5 for every model); {figure(held['judged'])} of the models are judged, "
        f"{figure(held['right'])} {interval({'low': held['right_low'], 'high': held['right_high']})} of these right, as a mean over "
        "constructions."
    ]


def shared() -> list[str]:
    """Constructions of the half held whose models the half fit learns from."""
    teachers = {one.teacher for one in CONSTRUCTIONS.values() if one.half == "fit" and one.teacher}
    return [
        name
        for name, one in CONSTRUCTIONS.items()
        if one.half == "held" and {name, one.base} & teachers
    ]


def without(degree: Degree, names: Collection[str]) -> Degree:
    """The degree, without the models of these constructions."""
    return replace(
        degree, models=tuple(model for model in degree.models if model["construction"] not in names)
    )


def with_table(page: str) -> str:
    """The page with the tables between their marks."""
    for part, made in zip(PARTS, (table(), scores()), strict=True):
        begin, end = f"<!-- {part} -->", f"<!-- end of {part} -->"
        before, _, rest = page.partition(begin)
        page = f"{before}{begin}\n\n{made}\n\n{end}{rest.partition(end)[2]}"
    return page


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
