"""Atomic files and digests of their content."""

import contextlib
import errno
import hashlib
import json
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from attnaudit.core.errors import RunError

_MAKE_AGAIN = "run the command that makes it again"
DIGEST = "sha256"  # field of a JSON object that holds the digest of its other fields


def expanded(path: str | Path) -> Path:
    """Return a path whose first part, if it is ``~``, is the user's home."""
    place = Path(path)
    # Path.expanduser would look for a user called "backup.csv" in "~backup.csv".
    return Path.home().joinpath(*place.parts[1:]) if place.parts[:1] == ("~",) else place


def user_cache() -> Path:
    """Return the folder for files that can be made or fetched again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "attnaudit"


@contextlib.contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """Write a file whole or not at all.

    Yields:
        A temporary path. On leaving the context, the file there is synced and renamed to ``path``;
        after an error it is removed.

    Raises:
        RunError: If the disk is full or the place cannot be written.
    """
    try:
        # In the same folder, because a rename is atomic only within one file system.
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        os.close(handle)
    except OSError as error:
        raise unwritable(path, error) from error
    temporary = Path(name)
    try:
        yield temporary
        # Synced before the rename: a power failure could otherwise leave the name without content.
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.chmod(0o644)  # mkstemp makes files that only their owner can read
        temporary.replace(path)
    except Exception as error:
        if _reason_of_system(error):
            raise unwritable(path, error) from error
        raise
    finally:
        temporary.unlink(missing_ok=True)


def unwritable(path: Path, error: Exception) -> RunError:
    """Make the error for a place that cannot be written. Raises MemoryError if that is to blame."""
    do = "free some space or choose another --out"
    reason = _reason_of_system(error)
    if reason == os.strerror(errno.ENOMEM):
        raise MemoryError(f"{path}: {reason}") from error
    return RunError("write", str(path), reason, "a place that can be written", do)


def _reason_of_system(error: Exception) -> str:
    """Return the operating system's reason; empty for an error of another kind."""
    if isinstance(error, OSError):
        return error.strerror or str(error)
    # safetensors and polars raise errors of their own, with the system's number in the text.
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
    """Return True for a pipe or a device, where a reader might wait forever."""
    return path.exists() and not (path.is_file() or path.is_dir())


def read_json(path: Path) -> Any:
    """Read JSON. Raises RunError if the file is missing, damaged, a pipe or a device."""
    try:
        if may_never_end(path):
            raise OSError("no regular file")
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        reason, expected = " ".join(str(error).split()), "a JSON file written by attnaudit"
        raise RunError("read", str(path), reason, expected, _MAKE_AGAIN) from error


def write_with_digest(path: Path, value: Mapping[str, Any]) -> None:
    """Write an object as JSON with a digest that lets `read_with_digest` detect damage."""
    # The digest is of the object as it will be read: JSON turns integer keys into texts, and
    # those sort differently.
    plain = json.loads(json.dumps(value))
    write_json(path, {**plain, DIGEST: content_key(plain)})


def read_with_digest(path: Path) -> Any:
    """Read an object written by `write_with_digest`, or JSON without a digest.

    Raises:
        RunError: If the file is missing or damaged.
    """
    value = read_json(path)
    digest = value.pop(DIGEST, None) if isinstance(value, dict) else None
    is_intact = digest is None
    with contextlib.suppress(ValueError):  # NaN and lone surrogates have no canonical JSON
        is_intact = is_intact or digest == content_key(value)
    if not is_intact:
        got = "damaged: its content differs from its digest"
        raise RunError("read", str(path), got, "JSON that attnaudit wrote", _MAKE_AGAIN)
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
