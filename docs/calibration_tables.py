"""Write the table of constructions into docs/calibration.md: `python docs/calibration_tables.py`."""

from __future__ import annotations

from pathlib import Path

from attnaudit.calibration import CONSTRUCTIONS

PAGE = Path(__file__).with_name("calibration.md")
BEGIN, END = "<!-- constructions -->", "<!-- end -->"


def table() -> str:
    """A row for each construction."""
    rows = [
        f"| `{name}`: {one.title} | {one.truth if one.truth != 'none' else 'nothing to explain'} | {one.half or '–'} | "
        f"{', '.join(one.encoders)} | {one.reason} |"
        for name, one in CONSTRUCTIONS.items()
    ]
    return "\n".join(["| construction | truth | half | encoders | why the truth is known |", "|---|---|---|---|---|", *rows])


def with_table(page: str) -> str:
    """The page with the table between its marks."""
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{table()}\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
