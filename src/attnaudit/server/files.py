"""Files of a run that a request may read: regular, inside it, and as its manifest lists them."""

import hashlib
import json
import os
import stat
from pathlib import Path

from attnaudit.core import RunError, sha256
from attnaudit.steps import MANIFEST

PAGE = "report.html"


class ChangedError(RunError):
    """A run has changed since it was written."""


def read_page(folder: Path) -> str:
    """Read the page of a run. Raises ChangedError, and FileNotFoundError without a page."""
    known, page = _listed(folder).get(PAGE), _read(folder / PAGE)
    if hashlib.sha256(page).hexdigest() != known:
        raise _changed(folder / PAGE, "another file than the manifest lists")
    return page.decode(errors="replace")


def require_own(folder: Path, *names: str) -> None:
    """Check every file of a run, and the digests of those whose names begin with ``names``.

    Raises:
        ChangedError: A file is changed, missing, a pipe or a device, or leads out of the run.
    """
    own = folder.resolve()
    for place, folders, files in os.walk(own):
        for path in (Path(place, name) for name in (*folders, *files)):
            if not path.exists():
                continue
            _require_regular(path, path.stat().st_mode)
            if not path.resolve().is_relative_to(own):
                raise _changed(path, "a link that leads out of the run")
    for name, known in _listed(folder).items():
        path = folder / name
        if name.startswith(names) and not (path.is_file() and sha256(path) == known):
            raise _changed(path, "another file than the manifest lists")


def _listed(folder: Path) -> dict[str, str]:
    try:
        return {**json.loads(_read(folder / MANIFEST))["files"]}
    except (FileNotFoundError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise _changed(folder / MANIFEST, "no manifest of a finished run") from error


def _read(path: Path) -> bytes:
    """Read a file that is not a link; opening a pipe does not wait for a writer."""
    try:
        with open(path, "rb", opener=_open) as file:
            _require_regular(path, os.fstat(file.fileno()).st_mode)
            return file.read()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _changed(path, f"no regular file ({error.strerror})") from error


def _open(path: str, flags: int) -> int:
    own = (getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK"))  # not on Windows
    return os.open(path, flags | sum(own))


def _require_regular(path: Path, mode: int) -> None:
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise _changed(path, "no regular file")


def _changed(path: Path, got: str) -> ChangedError:
    do = "repeat the command that made it"
    return ChangedError("serve", str(path), got, "what a finished run wrote", do)
