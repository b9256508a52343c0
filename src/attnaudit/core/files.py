"""Files that are either whole or not there, and digests of their content."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from attnaudit.core.errors import InputError, RunError

_MAKE_AGAIN = "run the command that makes it again"
SAVE_MODEL = "save it with model.save_pretrained(DIR)"
DIGEST = "sha256"  # field of a JSON object with the digest of its other fields


def user_cache() -> Path:
    """Return the folder for files that can be made or fetched again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "attnaudit"


def check_model_folder(folder: Path) -> None:
    """Raise InputError if ``folder``, to read a transformer from, is no folder."""
    if not folder.is_dir():
        got = "a file" if folder.exists() else "no such folder"
        raise InputError("read model", str(folder), got, "the folder of a saved model", SAVE_MODEL)


@contextlib.contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """Write a file whole or not at all.

    Yields:
        A temporary path next to ``path``. On leaving, it is synced and renamed to ``path``, or
        removed after an error.

    Raises:
        RunError: If the disk is full or the place cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        os.close(handle)
    except OSError as error:
        raise unwritable(path, error) from error
    temporary = Path(name)
    try:
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    except Exception as error:
        if _reason_of_system(error):
            raise unwritable(path, error) from error
        raise
    finally:
        temporary.unlink(missing_ok=True)


def unwritable(path: Path, error: Exception) -> RunError:
    """Make the error of a place that cannot be written."""
    do = "free some space or choose another --out"
    reason = _reason_of_system(error)
    return RunError("write", str(path), reason, "a place that can be written", do)


def _reason_of_system(error: Exception) -> str:
    """Explain why the system refused; empty for an error of another kind."""
    if isinstance(error, OSError):
        return error.strerror or str(error)
    # safetensors and polars hide the number in a text of their own.
    number = re.search(r"\(os error (\d+)\)", str(error))
    return os.strerror(int(number[1])) if number else ""


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text, whole or not at all. Raises RunError."""
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_bytes(path: Path, content: bytes) -> None:
    """Write ``content``, whole or not at all. Raises RunError."""
    with atomic(path) as temporary:
        temporary.write_bytes(content)


def write_json(path: Path, value: Any) -> None:
    """Write JSON with sorted keys, whole or not at all. Raises RunError, and ValueError for NaN."""
    text = json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False)
    write_text(path, text + "\n")


def may_never_end(path: Path) -> bool:
    """Tell whether ``path`` is a pipe or a device, which a reader might wait for."""
    return path.exists() and not (path.is_file() or path.is_dir())


def read_json(path: Path) -> Any:
    """Read JSON. Raises RunError if the file is missing or damaged, or might never end."""
    try:
        if may_never_end(path):
            raise OSError("no regular file")
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        reason, expected = " ".join(str(error).split()), "a JSON file written by attnaudit"
        raise RunError("read", str(path), reason, expected, _MAKE_AGAIN) from error


def write_with_digest(path: Path, value: Mapping[str, Any]) -> None:
    """Write an object as JSON with its digest, by which `read_with_digest` finds damage."""
    plain = json.loads(json.dumps(value))
    write_json(path, {**plain, DIGEST: content_key(plain)})


def read_with_digest(path: Path) -> Any:
    """Read an object that `write_with_digest` wrote, or JSON that has no digest.

    Raises:
        RunError: If the file is missing or damaged.
    """
    value = read_json(path)
    digest = value.pop(DIGEST, None) if isinstance(value, dict) else None
    is_intact = digest is None
    with contextlib.suppress(ValueError):  # for NaN and halves of surrogate pairs
        is_intact = is_intact or digest == content_key(value)
    if not is_intact:
        got, expected = "damaged: its content differs from its digest", "JSON that attnaudit wrote"
        raise RunError("read", str(path), got, expected, _MAKE_AGAIN)
    return value


def content_key(*parts: Any) -> str:
    """Return the sha256 of the canonical JSON of ``parts``."""
    canonical = json.dumps(
        parts, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    return hashlib.sha256(canonical.encode()).hexdigest()


def sha256(path: Path) -> str:
    """Return the hex digest of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
