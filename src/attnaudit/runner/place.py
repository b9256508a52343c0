"""The folder that a run may write into: new, empty, or a run of this very spec."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from attnaudit.core.errors import RunError
from attnaudit.core.files import read_json, unwritable
from attnaudit.plans.spec import differences
from attnaudit.runner.ledger import UNFINISHED, Ledger, is_free, remove_empty

SHOWN = 4  # differing settings that an error line names


def check_place(out: Path, spec: Mapping[str, Any], do: str = "") -> None:
    """Raise RunError unless ``out`` is free or holds work of this ``spec``, finished or not.

    ``do`` is what is said to be done otherwise, where it is not to choose another ``--out``. Before the corpus is read ``spec`` has no
    ``fingerprint``; that of a run there is then not compared.
    """
    if is_free(out):
        return
    if not out.is_dir():
        raise RunError("run", str(out), "a file", "a folder to write into", "choose another --out")
    if not (out / "spec.json").exists():
        got = "a folder that is not empty and holds no run"
        raise RunError("run", str(out), got, "a new or empty folder", do or "choose another --out")
    found = read_spec(out)
    compared = found if "fingerprint" in spec else {key: value for key, value in found.items() if key != "fingerprint"}
    differing = differences(spec, compared)
    if differing:
        raise RunError(
            "run", str(out), f"it holds a run of another spec: {some_of(differing)}", "the same spec",
            do or "resume that run by giving its options, or keep it and choose another --out",
        )  # fmt: skip


@contextlib.contextmanager
def alone(out: Path) -> Iterator[Ledger]:
    """The folder's ledger, held against other processes while steps are done; no folder stays where none was. Raises RunError."""
    from filelock import FileLock, Timeout

    try:
        (out / UNFINISHED).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(out, error) from error
    path = out / UNFINISHED / "lock"
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        got, do = "another process is at work there", "wait for it, or choose another --out"
        raise RunError("run", str(out), got, "a run of one process at a time", do) from error
    try:
        yield Ledger(out)
    finally:
        path.unlink(missing_ok=True)
        lock.release()
        remove_empty(out / UNFINISHED, out)


def read_spec(folder: Path) -> dict[str, Any]:
    """What ``spec.json`` of a run, of an audit or of a study holds. Raises RunError."""
    path = folder / "spec.json"
    try:
        spec, reason = read_json(path), "other JSON"
    except RunError as error:
        spec, reason = None, error.got
    if not isinstance(spec, dict):
        raise RunError("read run", str(path), reason, "the spec of a run", f"remove {folder} to make anew what it held, or choose another")
    return spec


def some_of(lines: list[str]) -> str:
    """The first few of ``lines`` in one, and how many more there are."""
    more = len(lines) - SHOWN
    return ", ".join(lines[:SHOWN]) + (f" and {more} more" if more > 0 else "")
