"""Write the tables of constructions and of shipped scores into docs/calibration.md: `python docs/calibration_tables.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from attnaudit.calibration import CONSTRUCTIONS
from attnaudit.calibration.separation import SCORES
from attnaudit.report.words import figure, interval

PAGE = Path(__file__).with_name("calibration.md")
PACKAGE = Path(__file__).parents[1] / "src" / "attnaudit"
PARTS = ("constructions", "scores")


def table() -> str:
    """A row for each construction."""
    rows = [
        f"| `{name}`: {one.title} | {one.truth if one.truth != 'none' else 'nothing to explain'} | {one.half if one.truth in ('faithful', 'unfaithful') else '–'} | "
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
    """A row for each directed measure, the best first; of the sweep that is shipped."""
    known = pl.read_csv(PACKAGE / SCORES).filter(
        pl.col("auc").is_not_null(), pl.col("direction") != "neither"
    )
    rows = [f"| {' | '.join(cells_of(row))} |" for row in known.iter_rows(named=True)]
    head = [
        "| experiment | measure | better | AUC | constructions | on one corpus | over random weights | over random labels |",
        "|---|---|---|---|---|---|---|---|",
    ]
    return "\n".join([*head, *rows])


def cells_of(row: dict[str, Any]) -> list[str]:
    """The cells of a measure's row."""
    others = [figure(row[name]) for name in ("auc_within", "over_untrained", "over_random_labels")]
    auc, of = (
        f"{figure(row['auc'])} {interval(row)}".rstrip(),
        f"{row['faithful']} × {row['unfaithful']}",
    )
    return [row["experiment"], f"`{row['measure']}`", row["direction"], auc, of, *others]


def with_table(page: str) -> str:
    """The page with the tables between their marks."""
    for part, made in zip(PARTS, (table(), scores()), strict=True):
        begin, end = f"<!-- {part} -->", f"<!-- end of {part} -->"
        before, _, rest = page.partition(begin)
        page = f"{before}{begin}\n\n{made}\n\n{end}{rest.partition(end)[2]}"
    return page


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
