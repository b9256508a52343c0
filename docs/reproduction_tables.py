"""Write the tables of a sweep into docs/reproduction.md, below its written part: ``python docs/reproduction_tables.py runs/jain2019``."""

from __future__ import annotations

import sys
from pathlib import Path

from attnaudit.core.files import write_text

PAGE = Path(__file__).parent / "reproduction.md"
MARK = "<!-- tables: docs/reproduction_tables.py -->"


def main(sweep: str) -> None:
    written, _, _ = PAGE.read_text(encoding="utf-8").partition(MARK)
    _, _, tables = (Path(sweep) / "reproduction.md").read_text(encoding="utf-8").partition("\n")  # without its title
    write_text(PAGE, f"{written}{MARK}\n\n{tables.strip()}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
