"""Which steps of a run are done: a step's outputs count when they follow from the same content and are whole."""

from __future__ import annotations

import contextlib
import re
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from attnaudit.core.errors import RunError
from attnaudit.core.files import read_json, sha256, write_json

MANIFEST = "manifest.json"
UNFINISHED = ".unfinished"  # the state of a run that has no manifest yet: a record per finished step, the training checkpoint
_LEFTOVER = re.compile(r"\..+\.(json|parquet|html|safetensors)\.\w{8}")  # what `files.atomic` leaves behind in a killed process

Made = TypeVar("Made")


@dataclass(frozen=True)
class Record:
    """A finished step: the key of what it was made from, the sha256 of every file it wrote, and what it cost."""

    key: str
    files: dict[str, str]
    seconds: float
    peak_memory_bytes: int
    notes: dict[str, Any] = field(default_factory=dict)


class Ledger:
    """The records of a run directory's steps, kept in ``.unfinished/`` until the manifest takes them over.

    It is `attnaudit.runner.place.alone` that makes one: what is read, and swept away, is then no other process's. A record that cannot be
    read is none, and its step is done anew.
    """

    def __init__(self, out: Path) -> None:
        self.out = out
        self.records = _manifest_records(out) if (out / MANIFEST).exists() else _unfinished_records(out)
        sweep(out)

    @property
    def scratch(self) -> Path:
        return self.out / UNFINISHED

    def step(self, name: str, key: str, outputs: Sequence[str], make: Callable[[], Made], keep: Callable[[Made], dict[str, Any]]) -> Record:
        """The record of step ``name``: the one at hand if it has this key and its files are whole, else that of doing it now.

        ``make`` computes and touches no output, so that a failure in it leaves what is there; the folder ``name`` of `scratch`, empty
        before and gone after a failure, is its own. ``keep`` writes the ``outputs``, files and folders that are the step's own and were
        removed just before, and returns notes for the manifest.
        """
        known = self.records.get(name)
        if known is not None and known.key == key and _whole(self.out, known, outputs):
            return known
        started = time.perf_counter()
        _remove(self.scratch / name)
        try:
            made = make()
        except BaseException:
            _remove(self.scratch / name)
            remove_empty(self.scratch, self.out)
            raise
        self._reopen(name)
        for output in outputs:
            _remove(self.out / output)
        notes = keep(made)
        seconds = round(time.perf_counter() - started, 3)
        record = Record(key, digests(self.out, outputs), seconds, peak_memory(), notes)
        self.records[name] = record
        write_json(self.scratch / f"{name}.json", asdict(record))
        return record

    def close(self, manifest: dict[str, Any]) -> None:
        """Write the manifest, last of all files, unless it is there; then drop the unfinished state."""
        if not (self.out / MANIFEST).exists():
            write_json(self.out / MANIFEST, manifest | {"steps": {name: asdict(record) for name, record in self.records.items()}})
        shutil.rmtree(self.scratch, ignore_errors=True)

    def _reopen(self, name: str) -> None:
        """From here on the run is unfinished: the other records move to ``.unfinished/`` and the manifest goes."""
        self.records.pop(name, None)
        (self.scratch / f"{name}.json").unlink(missing_ok=True)
        if (self.out / MANIFEST).exists():
            for other, record in self.records.items():
                write_json(self.scratch / f"{other}.json", asdict(record))
            (self.out / MANIFEST).unlink()


def digests(out: Path, outputs: Sequence[str]) -> dict[str, str]:
    """sha256 of every file of ``outputs``, files and folders of ``out``, by its path within ``out``."""
    files = [file for output in outputs for file in _files(out / output)]
    return {file.relative_to(out).as_posix(): sha256(file) for file in files}


def peak_memory() -> int:
    """Largest resident size of this process so far, in bytes; 0 where the system does not tell."""
    with contextlib.suppress(ImportError):
        import resource

        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return 0


def sweep(out: Path) -> None:
    """Remove half-written temporary files that a killed process left."""
    for path in [path for path in out.rglob(".*") if _LEFTOVER.fullmatch(path.name)]:
        path.unlink(missing_ok=True)


def is_free(out: Path) -> bool:
    """Whether nothing but leftovers of a killed process is there."""
    ours = (path.name == UNFINISHED or _LEFTOVER.fullmatch(path.name) for path in (out.iterdir() if out.is_dir() else ()))
    return not out.exists() or (out.is_dir() and all(ours))


def _files(path: Path) -> list[Path]:
    return sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]


def remove_empty(*folders: Path) -> None:
    """Remove the folders that hold nothing, one after another."""
    for folder in folders:
        with contextlib.suppress(OSError):
            folder.rmdir()


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _whole(out: Path, record: Record, outputs: Sequence[str]) -> bool:
    try:
        return digests(out, outputs) == record.files
    except OSError:
        return False


def read_manifest(out: Path) -> dict[str, Any]:
    """The manifest of a finished run, all its records whole. Raises RunError."""
    path = out / MANIFEST
    manifest = read_json(path)
    steps = manifest.get("steps") if isinstance(manifest, dict) else None
    if not isinstance(steps, dict) or None in map(_record, steps.values()):
        raise RunError("read run", str(path), "no whole steps", "a manifest written by attnaudit", "run the command that makes it again")
    return manifest


def _manifest_records(out: Path) -> dict[str, Record]:
    manifest = _read(out / MANIFEST)
    steps = manifest.get("steps") if isinstance(manifest, dict) else None
    return _records(steps if isinstance(steps, dict) else {})


def _unfinished_records(out: Path) -> dict[str, Record]:
    return _records({path.stem: _read(path) for path in sorted((out / UNFINISHED).glob("*.json"))})


def _records(values: dict[str, Any]) -> dict[str, Record]:
    return {name: record for name, value in values.items() if (record := _record(value)) is not None}


def _read(path: Path) -> Any:
    with contextlib.suppress(RunError):
        return read_json(path)
    return None


def _record(value: Any) -> Record | None:
    try:
        record = Record(**value)
    except TypeError:
        return None
    return record if isinstance(record.files, dict) and isinstance(record.notes, dict) else None
