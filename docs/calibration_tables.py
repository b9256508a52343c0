"""Write the tables of constructions and of verdicts into their pages: `python docs/calibration_tables.py`."""

from __future__ import annotations

from pathlib import Path

from attnaudit.calibration import CONSTRUCTIONS
from attnaudit.calibration.verdicts import CODES
from attnaudit.experiments.verdict import held_out

DOCS = Path(__file__).parent
PAGES = [DOCS / "verdict.md", DOCS / "research" / "calibration.md"]


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


def verdicts() -> str:
    """A row for each truth, with the number of held-out models by answer."""
    rows = [
        f"| {truth} | {' | '.join(str(counts.get(code, 0)) for code in CODES)} |"
        for truth, counts in held_out().items()
    ]
    return "\n".join([f"| truth | {' | '.join(CODES)} |", f"|---|{'---|' * len(CODES)}", *rows])


def with_table(page: str) -> str:
    """The page with its tables between their marks."""
    for part, make in PARTS.items():
        begin, end = f"<!-- {part} -->", f"<!-- end of {part} -->"
        if begin in page:
            before, _, rest = page.partition(begin)
            page = f"{before}{begin}\n\n{make()}\n\n{end}{rest.partition(end)[2]}"
    return page


PARTS = {"constructions": table, "verdicts": verdicts}

if __name__ == "__main__":
    for page in PAGES:
        page.write_text(with_table(page.read_text(encoding="utf-8")), encoding="utf-8")
