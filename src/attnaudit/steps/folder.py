"""A folder that work is done in: which steps are done, and the manifest that closes it.

A step is done if its record has the key of what it follows from, and its files are whole. Records
are kept in ``.unfinished/`` until the manifest takes them over, so a killed run resumes.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from attnaudit.core import (
    AttnauditError,
    InputError,
    RunError,
    content_key,
    read_json,
    read_with_digest,
    sha256,
    write_json,
    write_with_digest,
)
from attnaudit.steps import claim
from attnaudit.steps.versions import versions

MANIFEST, SPEC = "manifest.json", "spec.json"
UNFINISHED, RECORDS = ".unfinished", "steps.json"
PIECES = "pieces"  # of an unfinished run: what calls of a pool, or experiments that take long, left
# Files that `files.atomic` and a claim leave behind when a process is killed.
_LEFTOVER = re.compile(r"\..+\.(json|parquet|html|safetensors|onnx)\.\w{8}")


@dataclass(frozen=True)
class Record:
    """A finished step.

    Attributes:
        key: Digest of what the step was made from.
        files: sha256 of every file it wrote, by its path within the folder.
        seconds: Time that it took.
        peak_memory_bytes: Largest resident size of the process until its end.
        notes: What the manifest and later steps need to know of it.
    """

    key: str
    files: dict[str, str]
    seconds: float
    peak_memory_bytes: int
    notes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Step:
    """Something that is made once from what it follows from.

    Attributes:
        name: Name of its record.
        inputs: Function of the folder that returns what the outputs follow from, as JSON.
        outputs: Files and folders that it makes.
        work: Function of the folder and of an empty one, into which it writes the outputs; it
            returns notes, if it has any.
    """

    name: str
    inputs: Callable[[Folder], Sequence[Any]]
    outputs: tuple[str, ...]
    work: Callable[[Folder, Path], Mapping[str, Any] | None]

    def key(self, folder: Folder) -> str:
        """Return the digest of what the outputs follow from."""
        return content_key(self.name, *self.inputs(folder))

    def check_place(self, out: Path) -> None:
        """Check that in ``out`` no output's name is a link, or a file for a folder.

        Raises:
            RunError: It would be removed, or the output could not take its place.
        """
        for path in map(out.joinpath, self.outputs):
            kind, other = ("file", "folder") if path.suffix else ("folder", "file")
            if path.is_symlink() or (path.exists() and path.is_dir() != (kind == "folder")):
                got = "a link" if path.is_symlink() else f"a {other}"
                do = "move it away, or choose another --out"
                raise RunError("run", str(path), got, f"a {kind} of this run, or none", do)


class Folder:
    """A folder with the records of its finished steps; to write into it, hold it (`held`).

    Records that cannot be read are none: their steps are done again.

    Args:
        out: The folder.
        check: Function that raises BusyError if the folder is no longer held.
    """

    def __init__(self, out: Path, check: Callable[[], None] = lambda: None) -> None:
        self.out = out
        self.check = check
        self.records = _records(out)
        self.key = ""  # of the step under way

    @property
    def scratch(self) -> Path:
        """Place of what an unfinished run needs to resume."""
        return self.out / UNFINISHED

    @property
    def pieces(self) -> Path:
        """Place of the pieces of the step under way, by its key and the version of this package."""
        return self.scratch / PIECES / content_key(self.key, versions()["attnaudit"])[:16]

    def is_done(self, step: Step) -> bool:
        """Return True if the step has a record with its key, and its files are whole."""
        known = self.records.get(step.name)
        with contextlib.suppress(OSError):
            return (
                known is not None
                and known.key == step.key(self)
                and digests(self.out, step.outputs) == known.files
            )
        return False

    def do(self, step: Step) -> Record:
        """Do a step unless it is done.

        Its outputs replace what the folder has under their names only when all are made: a step
        that fails changes nothing.

        Raises:
            InputError: If the step refuses its input.
            BusyError: If another process took the folder over.
            RunError: If the folder cannot be written.
        """
        if self.is_done(step):
            return self.records[step.name]
        step.check_place(self.out)
        started, staging, self.key = time.perf_counter(), self.scratch / step.name, step.key(self)
        _remove(staging)
        staging.mkdir(parents=True)
        try:
            notes = dict(step.work(self, staging) or {})
            files = digests(staging, step.outputs)
        except BaseException as error:
            _remove(staging)
            if isinstance(error, InputError) and not isinstance(error, RunError):
                # Of an input that is refused; other calls of a pool may still be writing there.
                shutil.rmtree(self.scratch / PIECES, ignore_errors=True)
            raise
        self.check()
        self.records.pop(step.name, None)
        self._save()
        (self.out / MANIFEST).unlink(missing_ok=True)
        for output in step.outputs:
            _remove(self.out / output)
            (staging / output).replace(self.out / output)
        _remove(staging)
        seconds = round(time.perf_counter() - started, 3)
        self.records[step.name] = record = Record(self.key, files, seconds, peak_memory(), notes)
        self._save()
        return record

    def _plain(self) -> dict[str, Any]:
        """Return the records as JSON."""
        return {name: asdict(record) for name, record in self.records.items()}

    def _save(self) -> None:
        """Write the records, which a manifest takes over at the end."""
        write_with_digest(self.scratch / RECORDS, self._plain())

    def close(self, facts: Mapping[str, Any]) -> None:
        """Write the manifest, last of all files, unless it is there; drop the unfinished state.

        Args:
            facts: Further fields of the manifest. Versions among them come before those of what
                is installed. The kind is that of ``spec.json``.
        """
        if not (self.out / MANIFEST).exists():
            records = self.records.values()
            files = {name: digest for record in records for name, digest in record.files.items()}
            manifest = {
                "kind": read_with_digest(self.out / SPEC)["kind"],
                **facts,
                "schema": 1,
                "files": {SPEC: sha256(self.out / SPEC)} | files,
                "timings": {name: record.seconds for name, record in self.records.items()},
                "peak_memory_bytes": max(record.peak_memory_bytes for record in records),
                "steps": self._plain(),
                "versions": versions() | facts.get("versions", {}),
            }
            write_json(self.out / MANIFEST, manifest)
        _remove(self.scratch)


@contextlib.contextmanager
def held(out: Path, spec: Mapping[str, Any] | None = None) -> Iterator[Folder]:
    """Hold the folder ``out``, which from then on is that of ``spec``.

    A new folder in which the first step refuses its input stays free.

    Args:
        out: The folder.
        spec: What its ``spec.json`` says; None if a step writes it, or it is there.

    Raises:
        BusyError: If another process is at work in the folder.
    """
    with claim.claimed(out) as check:
        sweep(out)
        folder, path = Folder(out, check), out / SPEC
        is_new = spec is not None and not path.exists()
        if spec is not None and is_new:
            write_with_digest(path, spec)
        try:
            yield folder
        except AttnauditError:
            if is_new and not folder.records:
                path.unlink(missing_ok=True)
            raise
        finally:
            with contextlib.suppress(OSError):
                folder.scratch.rmdir()  # if nothing is left to resume from


def digests(out: Path, outputs: Sequence[str]) -> dict[str, str]:
    """Return the sha256 of every file of ``outputs``, by its path within ``out``."""
    found = (
        sorted(path.rglob("*")) if path.is_dir() else [path] for path in map(out.joinpath, outputs)
    )
    files = (file for part in found for file in part if not file.is_dir())
    return {file.relative_to(out).as_posix(): sha256(file) for file in files}


def peak_memory() -> int:
    """Return the largest resident size of this process so far, in bytes; 0 if it is not known."""
    with contextlib.suppress(ImportError):
        import resource

        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return 0


def sweep(out: Path) -> None:
    """Remove half-written temporary files that a killed process left."""
    for folder, below, names in os.walk(out):
        # Files that another process holds are not leftovers.
        below[:] = [name for name in below if not (Path(folder) / name / claim.NAME).exists()]
        for name in filter(_LEFTOVER.fullmatch, names):
            (Path(folder) / name).unlink(missing_ok=True)


def is_free(out: Path) -> bool:
    """Return True if nothing but leftovers of a killed process is there."""
    if not out.exists():
        return True
    return out.is_dir() and all(
        (path.name in (UNFINISHED, claim.NAME) or _LEFTOVER.fullmatch(path.name))
        and not path.is_symlink()
        for path in out.iterdir()
    )


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _records(out: Path) -> dict[str, Record]:
    """Return those of the manifest, or of an unfinished run; none if the file is damaged."""
    with contextlib.suppress(RunError):
        if (out / MANIFEST).exists():
            return records_of(read_manifest(out)["steps"])
        return records_of(read_with_digest(out / UNFINISHED / RECORDS))
    return {}


def records_of(plain: Any) -> dict[str, Record]:
    """Make records from their JSON, or none if any of them is damaged."""
    with contextlib.suppress(AttributeError, TypeError):
        records = {name: Record(**value) for name, value in plain.items()}
        parts = (part for one in records.values() for part in (one.files, one.notes))
        if all(isinstance(part, dict) for part in parts):
            return records
    return {}


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read the manifest of finished work, all its records whole. Raises RunError."""
    path = folder / MANIFEST
    manifest = read_json(path)
    is_whole = isinstance(manifest, dict) and isinstance(manifest.get("files"), dict)
    if not (is_whole and records_of(manifest.get("steps"))):
        expected, do = "the manifest of a finished run", "run the command that makes it again"
        raise RunError("read run", str(path), "no whole steps", expected, do)
    return manifest
