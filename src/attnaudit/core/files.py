"""Files that are either whole or not there, and digests of what they hold."""

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

SAVE_MODEL = "save it with model.save_pretrained(DIR)"
DIGEST = "sha256"  # the field of a JSON object that holds the digest of its other fields


def user_cache() -> Path:
    """Where this user's programs keep what they can make, or fetch, again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "attnaudit"


def check_model_folder(folder: Path) -> None:
    """Raise InputError where ``folder``, from which a transformer is to be read, is no folder."""
    if not folder.is_dir():
        got = "a file" if folder.exists() else "no such folder"
        raise InputError("read model", str(folder), got, "the folder of a saved model", SAVE_MODEL)


@contextlib.contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """A temporary path next to ``path``; on leaving, it is synced and renamed to ``path``, or removed after an error.

    Raises RunError when the disk is full or the place cannot be written.
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
        if _told_by_system(error):
            raise unwritable(path, error) from error
        raise
    finally:
        temporary.unlink(missing_ok=True)


def unwritable(path: Path, error: Exception) -> RunError:
    reason = _told_by_system(error)
    return RunError(
        "write",
        str(path),
        reason,
        "a place that can be written",
        "free some space or choose another --out",
    )


def _told_by_system(error: Exception) -> str:
    """Why the system refused, or nothing for an error of another kind. safetensors and polars hide its number in a text of their own."""
    if isinstance(error, OSError):
        return error.strerror or str(error)
    number = re.search(r"\(os error (\d+)\)", str(error))
    return os.strerror(int(number[1])) if number else ""


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text, whole or not at all."""
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_bytes(path: Path, content: bytes) -> None:
    """Write ``content``, whole or not at all. Raises RunError."""
    with atomic(path) as temporary:
        temporary.write_bytes(content)


def write_json(path: Path, value: Any) -> None:
    """Write JSON with sorted keys, whole or not at all; NaN is refused."""
    write_text(
        path,
        json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n",
    )


def may_never_end(path: Path) -> bool:
    """Whether it is a pipe or a device, which a reader might wait for."""
    return path.exists() and not (path.is_file() or path.is_dir())


def read_json(path: Path) -> Any:
    """Read JSON; raises RunError when the file is missing or damaged, and for a pipe or a device, which might never end."""
    try:
        if may_never_end(path):
            raise OSError("no regular file")
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise RunError(
            "read",
            str(path),
            reason,
            "a JSON file written by attnaudit",
            "run the command that makes it again",
        ) from error


def write_with_digest(path: Path, value: Mapping[str, Any]) -> None:
    """Write an object as JSON with the sha256 of its content in a field ``sha256``, by which `read_with_digest` finds damage."""
    plain = json.loads(json.dumps(value))
    write_json(path, {**plain, DIGEST: content_key(plain)})


def read_with_digest(path: Path) -> Any:
    """What `write_with_digest` wrote, without the digest; JSON without one, of an earlier version, as it is.

    Raises RunError when the file is missing or damaged.
    """
    value = read_json(path)
    digest = value.pop(DIGEST, None) if isinstance(value, dict) else None
    intact = digest is None
    with contextlib.suppress(ValueError):  # of what JSON cannot hold: NaN, half a surrogate pair
        intact = intact or digest == content_key(value)
    if not intact:
        got, do = (
            "damaged: its content differs from its digest",
            "run the command that makes it again",
        )
        raise RunError("read", str(path), got, "the JSON that attnaudit wrote", do)
    return value


def content_key(*parts: Any) -> str:
    """sha256 of the canonical JSON of what a step's outputs follow from, or of what a file holds."""
    canonical = json.dumps(
        parts, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    return hashlib.sha256(canonical.encode()).hexdigest()


def sha256(path: Path) -> str:
    """Hex digest of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
