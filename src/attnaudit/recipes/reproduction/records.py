"""Records of finished cells: small files that tables are written from, with the command, the commit of the code and the numbers.

A record outlives the folder of its run or study, and recording some cells leaves the records of others as they are.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from attnaudit.core.errors import InputError
from attnaudit.core.files import read_json, write_json
from attnaudit.papers import Cell, Declaration

FOLDER = "records"
SOURCE = Path(__file__).parents[1]
_NEEDED = {"experiment", "measure", "group", "value", "low", "high", "n"}


def save(
    record: Path, command: str, summary: Sequence[Mapping[str, Any]], former: str = "", **more: Any
) -> None:
    """Write the ``record`` of what ``command`` has made, with ``more`` that tables need; one with the same numbers keeps its commit.

    ``former`` are the commits of those numbers that were recorded before and are kept.
    """
    made = {"command": command, "summary": list(summary), **more}
    if record.exists() and _numbers(load(record)) == _numbers(made):
        return
    record.parent.mkdir(parents=True, exist_ok=True)
    commits = dict.fromkeys(filter(None, (*former.split(", "), commit())))
    write_json(record, {**made, "commit": ", ".join(commits)})


def _numbers(record: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if name not in ("commit", "seeds")}


def load(record: Path) -> dict[str, Any]:
    """``{"command", "commit", "summary", …}``, the summary a list of rows. Raises InputError for what is none, RunError for no JSON."""
    found = read_json(record)
    if not (isinstance(found, dict) and {"command", "commit", "summary"} <= found.keys()):
        raise InputError(
            "read record",
            str(record),
            "no command, commit and summary",
            "a record",
            "remove it, and record its cell again",
        )
    if not (
        isinstance(found["summary"], list)
        and all(isinstance(row, dict) for row in found["summary"])
    ):
        raise InputError(
            "read record",
            str(record),
            "a summary that is no list of rows",
            "a record",
            "remove it, and record its cell again",
        )
    return found


def records_of(paper: Declaration, folder: Path) -> dict[str, dict[str, Any]]:
    """The records of a paper's cells by their keys. Raises InputError for one whose rows are none of a summary."""
    places = {cell.key: place_of(folder, cell) for cell in paper.every_cell}
    found = {key: load(place) for key, place in places.items() if place.exists()}
    for key, record in found.items():
        if any(not row.keys() >= _NEEDED for row in record["summary"]):
            got, expected = (
                "a row that lacks one of them",
                f"rows with {', '.join(sorted(_NEEDED))}",
            )
            raise InputError(
                "read record",
                f"{places[key]}: summary",
                got,
                expected,
                "remove it, and record its cell again",
            )
    return found


def place_of(folder: Path, cell: Cell) -> Path:
    """Where the record of a cell is."""
    return folder / f"{cell.key}.json"


def beside(page: Path) -> Path | None:
    """The folder ``records`` next to a page, or next to a folder above it; None where there is none."""
    return next(
        (parent / FOLDER for parent in page.resolve().parents if (parent / FOLDER).is_dir()), None
    )


@cache
def commit() -> str:
    """The commit of the source code, ``…-changed`` where files of it are changed; of an installed package its version."""
    try:
        _git(
            "ls-files", "--error-unmatch", "__init__.py"
        )  # a repository around an installed package has not this source
        found, changed = (
            _git(*command)
            for command in (
                ("rev-parse", "--short=9", "HEAD"),
                ("status", "--porcelain", "--", "."),
            )
        )
    except (OSError, subprocess.CalledProcessError):
        return f"version {version('attnaudit')}"
    return f"{found}-changed" if changed else found


def _git(*command: str) -> str:
    return subprocess.run(
        ["git", "-C", str(SOURCE), *command], capture_output=True, check=True, text=True
    ).stdout.strip()
