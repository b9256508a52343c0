"""Write the tables of constructions and of shipped scores into docs/calibration.md: `python docs/calibration_tables.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from attnaudit.calibration import CONSTRUCTIONS
from attnaudit.calibration.degree import DATA, Degree, shipped
from attnaudit.results.words import figure, interval

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
    return "\n".join(["| construction | truth | half | encoders | why the truth is known |", "|---|---|---|---|---|", *rows])


def scores() -> str:
    """The degree on the half held out, and a row for each directed measure, the best first; of the sweep that is shipped."""
    degree = shipped()
    if degree is None:
        return "No sweep is shipped yet: `python docs/calibration_record.py DIR` ships one."
    known = pl.read_csv(SCORES.with_name("scores.csv")).filter(pl.col("auc").is_not_null(), pl.col("direction") != "neither")
    rows = [f"| {' | '.join(cells_of(row))} |" for row in known.iter_rows(named=True)]
    head = [
        "| experiment | measure | better | AUC | on one corpus | over random weights | over random labels |",
        "|---|---|---|---|---|---|---|",
    ]
    return "\n".join([*summary(degree), "", *head, *rows])


def cells_of(row: dict[str, Any]) -> list[str]:
    """The cells of a measure's row."""
    others = [figure(row[name]) for name in ("auc_within", "over_untrained", "over_random_labels")]
    return [row["experiment"], f"`{row['measure']}`", row["direction"], f"{figure(row['auc'])} {interval(row)}".rstrip(), *others]


def summary(degree: Degree) -> list[str]:
    """The command, the measures of the degree, and what it does on the half held out."""
    held = degree.held or {}
    names = ", ".join(f"`{experiment}/{measure}`" for experiment, measure, _ in degree.measures)
    return [
        f"By `{degree.made_by}`. The degree is of {names}. On the half held out: AUC {figure(held['auc'])} [{figure(held['low'])}, "
        f"{figure(held['high'])}], {figure(held['least'])} to {figure(held['most'])} without one construction; Brier score "
        f"{figure(held['brier'])} (0.25: 0.5 for every model); {figure(held['judged'])} of the models are judged, "
        f"{figure(held['right'])} [{figure(held['right_low'])}, {figure(held['right_high'])}] of these right, as a mean over constructions."
    ]


def with_table(page: str) -> str:
    """The page with the tables between their marks."""
    for part, made in zip(PARTS, (table(), scores()), strict=True):
        begin, end = f"<!-- {part} -->", f"<!-- end of {part} -->"
        before, _, rest = page.partition(begin)
        page = f"{before}{begin}\n\n{made}\n\n{end}{rest.partition(end)[2]}"
    return page


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
