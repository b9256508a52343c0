"""The corpora that have a name, and where their files are looked for."""

from __future__ import annotations

import os
from pathlib import Path

from attnaudit.corpora.registered import Registered
from attnaudit.corpora.sst import SST
from attnaudit.errors import InputError

REGISTRY: dict[str, Registered] = {entry.name: entry for entry in (SST,)}


def data_folder(data_dir: str | Path | None) -> tuple[Path, str]:
    """Where named corpora are looked for, and how that place was chosen: ``data_dir``, else $ATTNAUDIT_DATA, else the user's cache."""
    if data_dir is not None:
        return Path(data_dir), "--data-dir"
    if given := os.environ.get("ATTNAUDIT_DATA"):
        return Path(given), "$ATTNAUDIT_DATA"
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "attnaudit" / "corpora", "the user's cache"


def corpus_folder(entry: Registered, data_dir: str | Path | None) -> Path:
    """The folder of a named corpus. Raises InputError when there is none."""
    place, chosen_by = data_folder(data_dir)
    folder = place / entry.name
    if not folder.is_dir():
        came = f"no such folder ({chosen_by})"
        raise InputError(f"read corpus {entry.name}", str(folder), came, f"the files of {entry.title}", "give their place with --data-dir")
    return folder
