"""Records of finished studies, from which the tables of the pages are made: the command, the commit of its code, and the summary.

A record outlives the folder of its study, so that a table keeps the rows of studies that are not run again.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from attnaudit.core.files import read_json, write_json

ROOT = Path(__file__).parents[1]
PLACE = ROOT / "docs" / "records"


def save(record: Path, command: str, summary: list[dict[str, Any]]) -> None:
    """Write the ``record`` of a study that ``command`` has just run; one with the same command and summary keeps its commit."""
    if record.exists() and (load(record)["command"], load(record)["summary"]) == (command, summary):
        return
    record.parent.mkdir(parents=True, exist_ok=True)
    write_json(record, {"command": command, "commit": commit(), "summary": summary})


def load(record: Path) -> dict[str, Any]:
    """``{"command", "commit", "summary"}``, the summary a list of rows."""
    return read_json(record)


def commit() -> str:
    """The commit of the source code; ``…-changed`` where files of it are changed."""
    found, changed = (
        subprocess.run(["git", "-C", str(ROOT), *command], capture_output=True, check=True, text=True).stdout.strip()
        for command in (["rev-parse", "--short=9", "HEAD"], ["status", "--porcelain", "--", "src"])
    )
    return f"{found}-changed" if changed else found
