"""Finished work: its spec, its manifest, and whether its files are what it wrote."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attnaudit.core.errors import RunError
from attnaudit.core.files import read_json, read_with_digest, sha256
from attnaudit.core.printable import printable
from attnaudit.plans.spec import differences
from attnaudit.steps.folder import MANIFEST, SPEC, digests, is_free, record_of
from attnaudit.trace import tail_file, trace_files

_SHOWN = 4  # differing settings that an error names


def check_place(out: Path, spec: Mapping[str, Any], do: str = "") -> None:
    """Check that ``out`` is free, or holds work of this ``spec``, finished or not.

    Args:
        out: The folder.
        spec: What its ``spec.json`` is to say. Before the corpus is read it has no
            ``fingerprint``, and that of the run there is not compared.
        do: Advice to the user; by default to choose another ``--out``.

    Raises:
        RunError: If the folder holds something else.
    """
    if is_free(out):
        return
    elsewhere = do or "choose another --out"
    if not out.is_dir():
        raise RunError("run", str(out), "a file", "a folder to write into", elsewhere)
    if not (out / SPEC).exists():
        got = "a folder that is not empty and holds no run"
        raise RunError("run", str(out), got, "a new or empty folder", elsewhere)
    found = read_spec(out)
    if "fingerprint" not in spec:
        found.pop("fingerprint", None)
    if differing := differences(spec, found):
        got = f"it holds another run: {some_of(differing)}"
        do = do or "resume that run by giving its options, or keep it and choose another --out"
        raise RunError("run", str(out), got, "the same settings", do)


def some_of(lines: list[str]) -> str:
    """Join the first few of ``lines``, and say how many more there are."""
    more = len(lines) - _SHOWN
    return ", ".join(lines[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def read_spec(folder: Path) -> dict[str, Any]:
    """Read the ``spec.json`` of a run, an audit or a study. Raises RunError."""
    path = folder / SPEC
    try:
        spec, reason = read_with_digest(path), "other JSON"
    except RunError as error:
        spec, reason = None, error.got
    if not isinstance(spec, dict):
        do = f"remove {folder} to rebuild what it held, or choose another"
        raise RunError("read run", str(path), reason, "the spec of a run", do)
    return spec


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read the manifest of finished work, all its records whole. Raises RunError."""
    path = folder / MANIFEST
    manifest = read_json(path)
    steps = manifest.get("steps") if isinstance(manifest, dict) else None
    if not isinstance(steps, dict) or None in map(record_of, steps.values()):
        expected, do = "a manifest written by attnaudit", "run the command that makes it again"
        raise RunError("read run", str(path), "no whole steps", expected, do)
    return manifest


def whole_manifest(folder: Path) -> dict[str, Any] | None:
    """Read the manifest of finished work if all that a page shows is as it was written."""
    try:
        manifest = read_manifest(folder)
        files: dict[str, str] = manifest["files"]
        shown = {name: known for name, known in files.items() if _is_shown(name)}
        others = [name for name in files if name.startswith("trace/")]
        is_whole = (
            manifest["steps"]
            and digests(folder, list(shown)) == shown
            and all((folder / name).is_file() for name in others)
        )
    except (RunError, OSError, KeyError, TypeError, AttributeError):
        return None
    return manifest if is_whole else None


def _is_shown(name: str) -> bool:
    return name.startswith("results/") or name in ("summary.json", SPEC)


def require_finished(folder: Path) -> None:
    """Check that ``folder`` holds a finished run or audit, with the spec that it was made by.

    Raises:
        RunError: If it does not.
    """
    require_text(folder)
    expected, do = "a run directory", "make one with attnaudit run"
    if not folder.is_dir():
        raise RunError("read run", str(folder), "no such folder", expected, do)
    if not (folder / SPEC).exists():
        raise RunError("read run", str(folder), "no spec.json there", expected, do)
    do = "finish it by the command that started it"
    if not (folder / MANIFEST).exists():
        raise RunError("read run", str(folder), "an unfinished run", "one with a manifest", do)
    manifest, path = read_json(folder / MANIFEST), folder / MANIFEST
    if not isinstance(manifest, dict):
        got = "JSON that is no manifest"
        raise RunError("read run", str(path), got, "the manifest of a finished run", do)
    known = manifest.get("files")
    if isinstance(known, dict) and known.get(SPEC, "") not in ("", sha256(folder / SPEC)):
        got = "another file than the manifest lists"
        do = f"remove {folder} to rebuild what it held, or choose another"
        raise RunError("read run", str(folder / SPEC), got, "the spec of a run", do)


def require_text(folder: Path) -> None:
    """Check that the name of a folder is UTF-8, so that a page can link to it. Raises RunError."""
    try:
        str(folder.resolve()).encode()
    except UnicodeEncodeError as error:
        where, do = printable(str(folder)), "rename the folder"
        raise RunError(
            "read run", where, "a name that is no UTF-8", "a name of text", do
        ) from error


def require_as_written(folder: Path) -> None:
    """Check that the files of finished work are what it wrote, and its trace what it audited.

    Raises:
        RunError: For the first file that is not.
    """
    require_finished(folder)
    spec, files = read_spec(folder), read_json(folder / MANIFEST).get("files")
    for name, known in (files if isinstance(files, dict) else {}).items():
        path = folder / name
        if not (_is_shown(name) or name.startswith("trace/")):
            continue
        if not path.is_file() or sha256(path) != known:
            got = "another file than the manifest lists" if path.is_file() else "no such file"
            do = "run the command that made it again"
            raise RunError("read run", str(path), got, "what a finished run wrote", do)
    if "shards" in spec and trace_digests(trace_shown(folder, spec)) != spec["shards"]:
        got, expected = "a trace that was changed since", f"the one that {folder} audited"
        where = str(trace_shown(folder, spec))
        raise RunError("read run", where, got, expected, "audit it again")


def trace_shown(folder: Path, spec: Mapping[str, Any]) -> Path:
    """Return the trace that a run holds, or that an audit names."""
    return folder / spec["trace"] if spec.get("kind") == "audit" else folder / "trace"


def trace_digests(trace: Path) -> list[str]:
    """Return the sha256 of every shard of a trace, and of its tail. Raises TraceError."""
    shards = trace_files(trace)
    tail = tail_file(shards[0].parent)
    return [sha256(file) for file in (*shards, *([tail] if tail else []))]
