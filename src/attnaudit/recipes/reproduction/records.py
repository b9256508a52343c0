"""Records of finished cells: small files that tables are written from.

A record has the command, the commit of the code and the numbers. It outlives the folder of its run
or study, and recording some cells leaves the records of others as they are.
"""

import subprocess
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from attnaudit.core import InputError, read_json, write_json
from attnaudit.papers import Cell, Declaration
from attnaudit.papers.comparison import possible
from attnaudit.papers.published import ALL
from attnaudit.stats.inference import mean_interval

FOLDER = "records"
SOURCE = Path(__file__).parents[2]
SHARES = (64, 16, 4)  # divisors of the last step: the steps shown between the first and the last
FEWEST_SEEDS = 3  # of an interval over seeds
_NEEDED = {"experiment", "measure", "group", "value", "low", "high", "n"}
Row = Mapping[str, Any]


def save(record: Path, command: str, summary: Sequence[Row], **more: Any) -> None:
    """Write the record of what a command has made; one with the same numbers keeps its commit.

    Args:
        record: File of the record.
        command: The command.
        summary: Summary rows.
        **more: What tables need besides.
    """
    made = {"command": command, "summary": list(summary), **more}
    if record.exists() and _numbers(load(record)) == _numbers(made):
        return
    record.parent.mkdir(parents=True, exist_ok=True)
    write_json(record, {**made, "commit": commit()})


def _numbers(record: Row) -> dict[str, Any]:
    return {name: value for name, value in record.items() if name not in ("commit", "seeds")}


def load(record: Path) -> dict[str, Any]:
    """Read a record. Raises InputError for what is none, RunError for no JSON."""
    found = read_json(record)
    with suppress(AttributeError, KeyError, TypeError):
        rows = found["summary"]
        if {"command", "commit"} <= found.keys() and all(row.keys() >= _NEEDED for row in rows):
            return found
    got = f"no command or commit, or a row that lacks one of {', '.join(sorted(_NEEDED))}"
    do = "remove it, and record its cell again"
    raise InputError("read record", str(record), got, "a record", do)


def records_of(paper: Declaration, folder: Path) -> dict[str, dict[str, Any]]:
    """Read the records of a paper's cells, by their keys. Raises InputError."""
    places = {cell.key: place_of(folder, cell) for cell in paper.every_cell}
    return {key: load(place) for key, place in places.items() if place.exists()}


def place_of(folder: Path, cell: Cell) -> Path:
    """Return where the record of a cell is."""
    return folder / f"{cell.key}.json"


def over_seeds(summaries: Sequence[Sequence[Row]]) -> list[dict[str, Any]]:
    """Average the summaries of runs that differ in their seed; that of a single run is its own.

    The interval is the t interval of the mean, and never goes beyond what a measure can be; over
    two seeds it would say too little, and there is none. ``std`` is the mean of the runs', and
    ``sd`` that of the values over seeds.
    """
    if len(summaries) == 1:
        return [dict(row) for row in summaries[0]]
    found: dict[tuple[str, ...], list[Row]] = {}
    for row in (row for summary in summaries for row in summary):
        found.setdefault((row["experiment"], row["measure"], row["group"]), []).append(row)
    return [_mean(rows) for rows in found.values()]


def _mean(rows: Sequence[Row]) -> dict[str, Any]:
    def known(name):
        return [row[name] for row in rows if row.get(name) is not None]

    counts = ("n", "undefined", "texts")
    means = {
        name: float(np.mean(known(name))) if known(name) else None for name in ("std", "value")
    }
    whole = {name: round(np.mean(known(name))) for name in counts if len(known(name)) == len(rows)}
    merged, values = {**rows[0], **whole, **means}, np.array(known("value"))
    if len(values) < 2:
        own = [row for row in rows if row["value"] is not None]
        return merged | {name: row[name] for row in own for name in ("low", "high")}
    ends: Any = mean_interval(values) if len(values) >= FEWEST_SEEDS else (None, None)
    low, high = ends
    least, most = possible(rows[0]["measure"])
    numbers = [number for name in ("value", "low", "high") for number in known(name)]
    # Nothing says where a count, for example, ends.
    if low is not None and all(least <= number <= most for number in numbers):
        low, high = max(low, least), min(high, most)
    return merged | {"sd": float(values.std(ddof=1)), "low": low, "high": high}


def kept(paper: Declaration, cell: Cell, rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Choose what tables have: all instances, and the groups that a table of the paper shows."""
    tables = (table for table in paper.tables if table.study == cell.study)
    groups = tuple(f"{table.by}:" for table in tables if table.by not in ("", "model"))
    known = [
        dict(row)
        for row in rows
        if row["group"].partition(" ")[0] == ALL or row["group"].startswith(groups)
    ]
    steps = {_step(row) for row in known} - {None}
    shown = {None, *steps_shown(steps)}
    return [row for row in known if _step(row) in shown]


def _step(row: Row) -> int | None:
    kind, _, step = row["group"].partition(":")
    return int(step) if kind == "step" else None


def steps_shown(steps: Iterable[Any]) -> list[int]:
    """Choose the first two, the last, and a few early ones: most happens early."""
    steps = sorted(steps)
    expected = (*steps[:2], *(steps[-1] / share for share in SHARES), steps[-1]) if steps else ()
    return sorted({min(steps, key=lambda step, near=near: abs(step - near)) for near in expected})


@cache
def commit() -> str:
    """Return the commit of the source code, or the version of an installed package.

    A commit ends in ``-changed`` where files of the source are changed.
    """
    try:
        # A repository around an installed package has not this source.
        _git("ls-files", "--error-unmatch", "__init__.py")
        found = _git("rev-parse", "--short=9", "HEAD")
        changed = _git("status", "--porcelain", "--", ".")
    except (OSError, subprocess.CalledProcessError):
        return f"version {version('attnaudit')}"
    return f"{found}-changed" if changed else found


def _git(*command: str) -> str:
    arguments = ["git", "-C", str(SOURCE), *command]
    return subprocess.run(arguments, capture_output=True, check=True, text=True).stdout.strip()
