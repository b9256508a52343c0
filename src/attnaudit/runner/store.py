"""A run's folder: who may write into it, which steps are done (their content and files are the same), the manifest that closes it."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from attnaudit.core.errors import InputError, RunError
from attnaudit.core.files import (
    read_json,
    read_with_digest,
    sha256,
    unwritable,
    write_json,
    write_with_digest,
)
from attnaudit.core.printable import printable
from attnaudit.plans.spec import differences
from attnaudit.runner.claim import NAME as CLAIM

MANIFEST = "manifest.json"
PIECES = "pieces"  # of an unfinished run: what calls of an engine, or the experiments of an audit that takes long, have left
LOCK = "lock"
UNFINISHED = ".unfinished"  # the state of a run that has no manifest yet: a record per finished step, the training checkpoint
PACKAGES = (
    "attnaudit",
    "gensim",
    "numba",
    "numpy",
    "polars",
    "pyarrow",
    "safetensors",
    "scipy",
    "spacy",
    "torch",
)
OF_TRANSFORMERS = ("transformers", "tokenizers", "onnxruntime")
_LEFTOVER = re.compile(
    r"\..+\.(json|parquet|html|safetensors|onnx)\.\w{8}"
)  # what `files.atomic` leaves behind in a killed process
_SHOWN = 4  # differing settings that an error line names


@dataclass(frozen=True)
class Record:
    """A finished step: the key of what it was made from, the sha256 of every file it wrote, and what it cost."""

    key: str
    files: dict[str, str]
    seconds: float
    peak_memory_bytes: int
    notes: dict[str, Any] = field(default_factory=dict)


class BusyError(RunError):
    """Another process is at work in the folder."""


class Store:
    """The records of a run directory's steps, kept in ``.unfinished/`` until the manifest takes them over.

    `alone` makes one, so that what is read, and swept away, belongs to no other process. A record that cannot be read is none: its step is
    run again.
    """

    def __init__(self, out: Path) -> None:
        self.out = out
        self.records = _records(out)
        sweep(out)

    @property
    def scratch(self) -> Path:
        return self.out / UNFINISHED

    def step(
        self,
        name: str,
        key: str,
        outputs: Sequence[str],
        work: Callable[[Path], Mapping[str, Any] | None],
    ) -> Record:
        """The record of step ``name``: the known one if it has this key and its files are whole, else that of doing the step now.

        ``work`` writes the ``outputs``, files and folders, into the empty folder that it is given, and returns notes for the manifest, if
        it has any. Only then do they replace what the run has under these names: a step that fails changes nothing.
        """
        known = self.records.get(name)
        with contextlib.suppress(OSError):
            if known is not None and known.key == key and digests(self.out, outputs) == known.files:
                return known
        started, staging = time.perf_counter(), self.scratch / name
        _remove(staging)
        staging.mkdir(parents=True)
        try:
            notes = dict(work(staging) or {})
            files = digests(staging, outputs)
        except BaseException as error:
            _remove(staging)
            if isinstance(error, InputError) and not isinstance(error, RunError):
                _remove(self.scratch / PIECES)  # of an input that is refused
            remove_empty(self.scratch, self.out)
            raise
        self._reopen(name)
        for output in outputs:
            if (self.out / output).is_dir():
                shutil.rmtree(self.out / output)
            (staging / output).replace(self.out / output)
        _remove(staging)
        record = Record(key, files, round(time.perf_counter() - started, 3), peak_memory(), notes)
        self.records[name] = record
        write_with_digest(self.scratch / f"{name}.json", asdict(record))
        return record

    def close(self, facts: Mapping[str, Any]) -> None:
        """Write the manifest, last of all files, unless it is there: ``facts``, files, costs, versions. Then drop the unfinished state.

        Versions among the facts, of packages that this kind of run uses or that computed what is shown again, come before those of what is
        installed.
        """
        if not (self.out / MANIFEST).exists():
            made = self._manifest()
            write_json(
                self.out / MANIFEST,
                {**facts, **made, "versions": {**made["versions"], **facts.get("versions", {})}},
            )
        for path in [
            path for path in self.scratch.iterdir() if path.name != LOCK
        ]:  # which is held until `alone` ends
            with contextlib.suppress(OSError):
                _remove(path)

    def _manifest(self) -> dict[str, Any]:
        files = {
            name: digest
            for record in self.records.values()
            for name, digest in record.files.items()
        }
        return {
            "schema": 1, "files": {"spec.json": sha256(self.out / "spec.json")} | files, "versions": versions(),
            "timings": {name: record.seconds for name, record in self.records.items()},
            "peak_memory_bytes": max(record.peak_memory_bytes for record in self.records.values()),
            "steps": {name: asdict(record) for name, record in self.records.items()},
        }  # fmt: skip

    def _reopen(self, name: str) -> None:
        """From here on the run is unfinished: the other records move to ``.unfinished/`` and the manifest goes."""
        self.records.pop(name, None)
        (self.scratch / f"{name}.json").unlink(missing_ok=True)
        if (self.out / MANIFEST).exists():
            for other, record in self.records.items():
                write_with_digest(self.scratch / f"{other}.json", asdict(record))
            (self.out / MANIFEST).unlink()


def digests(out: Path, outputs: Sequence[str]) -> dict[str, str]:
    """sha256 of every file of ``outputs``, files and folders of ``out``, by its path within ``out``."""
    found = (
        sorted(path.rglob("*")) if path.is_dir() else [path] for path in map(out.joinpath, outputs)
    )
    files = (file for part in found for file in part if not file.is_dir())
    return {file.relative_to(out).as_posix(): sha256(file) for file in files}


def peak_memory() -> int:
    """Largest resident size of this process so far, in bytes; 0 where the system does not tell."""
    with contextlib.suppress(ImportError):
        import resource

        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return 0


def sweep(out: Path) -> None:
    """Remove half-written temporary files that a killed process left; its workers may be removing folders meanwhile."""
    for folder, _, names in os.walk(out):
        for name in filter(_LEFTOVER.fullmatch, names):
            (Path(folder) / name).unlink(missing_ok=True)


def is_free(out: Path) -> bool:
    """Whether nothing but leftovers of a killed process, or the claim of a driver, is there."""
    ours = (
        path.name in (UNFINISHED, CLAIM) or _LEFTOVER.fullmatch(path.name)
        for path in (out.iterdir() if out.is_dir() else ())
    )
    return not out.exists() or (out.is_dir() and all(ours))


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


def read_manifest(out: Path) -> dict[str, Any]:
    """The manifest of a finished run, all its records whole. Raises RunError."""
    path = out / MANIFEST
    manifest = read_json(path)
    steps = manifest.get("steps") if isinstance(manifest, dict) else None
    if not isinstance(steps, dict) or None in map(_record, steps.values()):
        raise RunError(
            "read run",
            str(path),
            "no whole steps",
            "a manifest written by attnaudit",
            "run the command that makes it again",
        )
    return manifest


def _records(out: Path) -> dict[str, Record]:
    """Those of the manifest, or of an unfinished run."""
    if (out / MANIFEST).exists():
        manifest = _read(out / MANIFEST)
        steps = manifest.get("steps") if isinstance(manifest, dict) else None
    else:
        steps = {path.stem: _read(path) for path in sorted((out / UNFINISHED).glob("*.json"))}
    found = (
        {name: _record(value) for name, value in steps.items()} if isinstance(steps, dict) else {}
    )
    return {name: record for name, record in found.items() if record is not None}


def _read(path: Path) -> Any:
    """What a file of JSON holds; None where it is damaged."""
    with contextlib.suppress(RunError):
        return read_with_digest(path)
    return None


def _record(value: Any) -> Record | None:
    try:
        record = Record(**value)
    except TypeError:
        return None
    return record if isinstance(record.files, dict) and isinstance(record.notes, dict) else None


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
    compared = (
        found
        if "fingerprint" in spec
        else {key: value for key, value in found.items() if key != "fingerprint"}
    )
    differing = differences(spec, compared)
    if differing:
        raise RunError(
            "run", str(out), f"it holds another run: {some_of(differing)}", "the same settings",
            do or "resume that run by giving its options, or keep it and choose another --out",
        )  # fmt: skip


@contextlib.contextmanager
def alone(out: Path) -> Iterator[Store]:
    """The folder's store, locked against other processes while steps run; no folder stays where none was. Raises RunError."""
    from filelock import FileLock, Timeout

    try:
        (out / UNFINISHED).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(out, error) from error
    path = out / UNFINISHED / LOCK
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        got, do = "another process is at work there", "wait for it, or choose another --out"
        raise BusyError("run", str(out), got, "a run of one process at a time", do) from error
    try:
        yield Store(out)
    finally:
        path.unlink(missing_ok=True)
        lock.release()
        remove_empty(out / UNFINISHED, out)


def read_spec(folder: Path) -> dict[str, Any]:
    """What ``spec.json`` of a run, of an audit or of a study holds. Raises RunError."""
    path = folder / "spec.json"
    try:
        spec, reason = read_with_digest(path), "other JSON"
    except RunError as error:
        spec, reason = None, error.got
    if not isinstance(spec, dict):
        raise RunError(
            "read run",
            str(path),
            reason,
            "the spec of a run",
            f"remove {folder} to rebuild what it held, or choose another",
        )
    return spec


def some_of(lines: list[str]) -> str:
    """The first few of ``lines`` in one, and how many more there are."""
    more = len(lines) - _SHOWN
    return ", ".join(lines[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def require_text(folder: Path) -> None:
    """Raise RunError where the name of ``folder`` is no UTF-8: no table below it could be opened, and no page link to it."""
    try:
        str(folder.resolve()).encode()
    except UnicodeEncodeError as error:
        raise RunError(
            "read run",
            printable(str(folder)),
            "a name that is no UTF-8",
            "a name of text",
            "rename the folder",
        ) from error


def require_finished(folder: Path) -> None:
    """Raise RunError unless ``folder`` is a run or an audit that reached its manifest, and its ``spec.json`` is the one listed there."""
    require_text(folder)
    if not folder.is_dir():
        raise RunError(
            "read run",
            str(folder),
            "no such folder",
            "a run directory",
            "make one with attnaudit run",
        )
    if not (folder / "spec.json").exists():
        raise RunError(
            "read run",
            str(folder),
            "no spec.json there",
            "a run directory",
            "make one with attnaudit run",
        )
    if not (folder / MANIFEST).exists():
        raise RunError(
            "read run",
            str(folder),
            "an unfinished run",
            "one with a manifest",
            "finish it by the command that started it",
        )
    manifest = _read(folder / MANIFEST)
    if not isinstance(manifest, dict):
        got, do = "JSON that is no manifest", "finish the run by the command that started it"
        raise RunError(
            "read run", str(folder / MANIFEST), got, "the manifest of a finished run", do
        )
    known = manifest.get("files")
    if isinstance(known, dict) and known.get("spec.json", "") not in (
        "",
        sha256(folder / "spec.json"),
    ):
        got, do = (
            "another file than the manifest lists",
            f"remove {folder} to rebuild what it held, or choose another",
        )
        raise RunError("read run", str(folder / "spec.json"), got, "the spec of a run", do)


def require_as_written(folder: Path) -> None:
    """Raise RunError unless the summary, tables and trace of a finished run are what it wrote, or the trace of an audit what it audited."""
    require_finished(folder)
    spec, files = read_spec(folder), _read(folder / MANIFEST).get("files")
    for name, known in (files if isinstance(files, dict) else {}).items():
        path = folder / name
        if (name == "summary.json" or name.startswith(("results/", "trace/"))) and (
            not path.is_file() or sha256(path) != known
        ):
            got = "another file than the manifest lists" if path.is_file() else "no such file"
            raise RunError(
                "read run",
                str(path),
                got,
                "what a finished run wrote",
                "run the command that made it again",
            )
    if "shards" in spec and trace_digests(trace_shown(folder, spec)) != spec["shards"]:
        got, expected = "a trace that was changed since", f"the one that {folder} audited"
        raise RunError("read run", str(trace_shown(folder, spec)), got, expected, "audit it again")


def trace_shown(folder: Path, spec: Mapping[str, Any]) -> Path:
    """The trace that a run holds, or that an audit names."""
    return folder / spec["trace"] if spec.get("kind") == "audit" else folder / "trace"


def trace_digests(trace: Path) -> list[str]:
    """sha256 of every shard of a trace, and of its tail. Raises TraceError."""
    from attnaudit.trace import tail_file, trace_files

    shards = trace_files(trace)
    tail = tail_file(shards[0].parent)
    return [sha256(file) for file in (*shards, *([tail] if tail else []))]


def versions(*more: str) -> dict[str, str]:
    """Python and every package that computes, and those of ``more``; one that is not installed is skipped."""
    return {"python": platform.python_version()} | {
        name: found for name in (*PACKAGES, *more) if (found := _installed(name))
    }


@cache  # each reads a file of metadata, and every step of every run asks
def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
