"""Several runs in one place: a copy of every page, and an index that links them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from attnaudit.core.files import write_text
from attnaudit.runner.store import require_finished


def site_into(runs: Sequence[str | Path], out: str | Path) -> Path:
    """Copy the pages of finished ``runs`` into the folder ``out``, index them and return the index. Raises RunError."""
    from attnaudit.report.site_page import write_site
    from attnaudit.results.record import read_record

    out, folders = Path(out), [Path(run) for run in runs]
    for folder in folders:
        require_finished(folder)
    pages = {f"{name}.html": folder for folder, name in zip(folders, _names(folders), strict=True)}
    records = {page: read_record(folder) for page, folder in pages.items()}
    for page, folder in pages.items():
        write_text(out / page, (folder / "report.html").read_text(encoding="utf-8"))
    return write_site(out, records)


def _names(folders: Sequence[Path]) -> list[str]:
    """The folders' own names, numbered where two are the same, or where one would be the index."""
    taken: set[str] = {"index"}
    names = []
    for folder in folders:
        base = folder.resolve().name
        names.append(next(name for k in range(1, len(folders) + 2) if (name := base if k == 1 else f"{base}-{k}") not in taken))
        taken.add(names[-1])
    return names
