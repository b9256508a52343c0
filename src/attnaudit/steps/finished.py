"""Finished work: its spec, its manifest, and whether its files are what it wrote."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attnaudit.core import RunError, printable, read_with_digest, sha256
from attnaudit.plans.spec import differences
from attnaudit.steps.folder import MANIFEST, SPEC, is_free, read_manifest
from attnaudit.trace import tail_file, trace_files

_SHOWN = 4  # differing settings that an error names
READ = ("results/", "summary.json", SPEC)  # files that pages are made of


def refuse_other(
    operation: str, out: Path, is_own: bool, own: str, do: str = "choose another --out"
) -> None:
    """Check that a folder is free or holds work of one kind.

    Args:
        operation: Name of the operation in errors.
        out: The folder.
        is_own: Whether it holds such work, finished or not.
        own: Name of such work in errors, such as "an earlier audit".
        do: Advice to the user.

    Raises:
        RunError: If the folder holds something else.
    """
    if not is_free(out) and not (is_own and out.is_dir()):
        got = "a folder that holds something else" if out.is_dir() else "a file"
        raise RunError(operation, str(out), got, f"a new or empty folder, or {own}", do)


def check_place(out: Path, spec: Mapping[str, Any], do: str = "") -> None:
    """Check that ``out`` is free, or holds work of this ``spec``, finished or not.

    Args:
        out: The folder.
        spec: What its ``spec.json`` is to say. Before the corpus is read it has no
            ``fingerprint`` and no ``allotted`` texts, and those of the run there are not compared.
        do: Advice to the user; by default to choose another ``--out``.

    Raises:
        RunError: If the folder holds something else.
    """
    refuse_other("run", out, (out / SPEC).exists(), "a run", do or "choose another --out")
    if is_free(out):
        return
    found = read_spec(out)
    for name in {"fingerprint", "allotted"} - spec.keys():
        found.pop(name, None)
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


def whole_manifest(folder: Path) -> dict[str, Any] | None:
    """Read the manifest of finished work if all that a page shows is as it was written."""
    try:
        manifest = read_manifest(folder)
        return manifest if _spoilt(folder, manifest["files"], READ) is None else None
    except (RunError, OSError):
        return None


def _spoilt(folder: Path, files: Mapping[str, str], hashed: tuple[str, ...]) -> Path | None:
    """Return the first file of a page or a trace that is missing, or hashed and changed."""
    for name, known in files.items():
        path = folder / name
        if name.startswith((*READ, "trace/")) and not (
            path.is_file() and (not name.startswith(hashed) or sha256(path) == known)
        ):
            return path
    return None


def require_finished(folder: Path) -> None:
    """Check that ``folder`` holds finished work. Raises RunError."""
    require_text(folder)
    expected, do = "a run directory", "make one with attnaudit run"
    got = "no such folder" if not folder.is_dir() else f"no {SPEC} there"
    if (folder / SPEC).exists():
        got, expected = "an unfinished run", "one with a manifest"
        do = "finish it by the command that started it"
    if not (folder / MANIFEST).exists():
        raise RunError("read run", str(folder), got, expected, do)


def require_text(folder: Path) -> None:
    """Check that the name of a folder is UTF-8, so that a page can link to it. Raises RunError."""
    try:
        str(folder.resolve()).encode()
    except UnicodeEncodeError as error:
        where, got = printable(str(folder)), "a name that is no UTF-8"
        raise RunError("read run", where, got, "a name of text", "rename the folder") from error


def require_as_written(folder: Path) -> None:
    """Check that the files of finished work are what it wrote, and its trace what it audited.

    Raises:
        RunError: For the first file that is not.
    """
    require_finished(folder)
    spoilt = _spoilt(folder, read_manifest(folder)["files"], (*READ, "trace/"))
    if spoilt is not None:
        got = "another file than the manifest lists" if spoilt.is_file() else "no such file"
        do = "repeat the command that made it"
        raise RunError("read run", str(spoilt), got, "what a finished run wrote", do)
    spec = read_spec(folder)
    if "shards" in spec and trace_digests(trace_shown(folder, spec)) != spec["shards"]:
        got, expected = "a trace that was changed since", f"the one that {folder} audited"
        raise RunError("read run", str(trace_shown(folder, spec)), got, expected, "audit it again")


def trace_shown(folder: Path, spec: Mapping[str, Any]) -> Path:
    """Return the trace that a run holds, or that an audit names."""
    return folder / spec["trace"] if spec.get("kind") == "audit" else folder / "trace"


def trace_digests(trace: Path) -> list[str]:
    """Return the sha256 of every shard of a trace, and of its tail. Raises TraceError."""
    shards = trace_files(trace)
    tail = tail_file(shards[0].parent)
    return [sha256(file) for file in (*shards, *([tail] if tail else []))]
