"""Records of finished studies, from which the tables of the pages are made: the command, the commit of its code, and the summary.

A record outlives the folder of its study, so that a table keeps the rows of studies that are not run again. A row that a page had before
there were records stays until its study has one, with a dash for its commit.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from attnaudit.core.files import read_json, write_json

ROOT = Path(__file__).parents[1]
PLACE = ROOT / "docs" / "records"


def save(record: Path, command: str, summary: list[dict[str, Any]], **more: Any) -> None:
    """Write the ``record`` of a study that ``command`` has just run, with ``more`` that tables need; one with the same keeps its commit."""
    made = {"command": command, "summary": summary, **more}
    if record.exists() and {name: value for name, value in load(record).items() if name != "commit"} == made:
        return
    record.parent.mkdir(parents=True, exist_ok=True)
    write_json(record, {**made, "commit": commit()})


def load(record: Path) -> dict[str, Any]:
    """``{"command", "commit", "summary", …}``, the summary a list of rows."""
    return read_json(record)


def commit() -> str:
    """The commit of the source code; ``…-changed`` where files of it are changed."""
    found, changed = (
        subprocess.run(["git", "-C", str(ROOT), *command], capture_output=True, check=True, text=True).stdout.strip()
        for command in (["rev-parse", "--short=9", "HEAD"], ["status", "--porcelain", "--", "src"])
    )
    return f"{found}-changed" if changed else found


def with_former(page: Path, columns: Sequence[str], made: Mapping[str, list[list[str]]], names: Iterable[str]) -> list[list[str]]:
    """The rows of all ``names`` in their order: those ``made``, else those of ``page`` under these ``columns`` that begin with the name.

    A name of several cells is written as in the table, ``imdb | HAN | bigru``.
    """
    former = _rows(page.read_text(encoding="utf-8"), list(columns))
    return [row for name in names for row in made.get(name) or [row for row in former if _begins(row, name)]]


def _begins(row: Sequence[str], name: str) -> bool:
    return " | ".join(row[: name.count(" | ") + 1]) == name


def _rows(text: str, columns: list[str]) -> list[list[str]]:
    """The rows of all tables with these columns, or all but the last, the commit."""
    found: list[list[str]] = []
    inside = False
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        inside = bool(cells) and (inside or cells in (columns, columns[:-1]))
        if inside and cells[0] not in ("---", columns[0]):
            found.append([*cells, *["–"] * (len(columns) - len(cells))])
    return found
