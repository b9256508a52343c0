"""Lines of a plain or gzipped text file, where every unreadable file is an InputError."""

from __future__ import annotations

import contextlib
import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from attnaudit.core.errors import InputError

GZIP_MAGIC = b"\x1f\x8b"
BYTE_ORDER_MARK = "\ufeff"


@contextlib.contextmanager
def opened(path: Path, operation: str = "read corpus") -> Iterator[BinaryIO | gzip.GzipFile]:
    """The bytes of a file, unpacked when they are gzip, whatever the file is called. Raises InputError while it is read."""
    try:
        with path.open("rb") as raw:
            packed = raw.read(2) == GZIP_MAGIC
            raw.seek(0)
            if packed:
                with gzip.open(raw) as file:
                    yield file
            elif path.suffix == ".gz" and path.stat().st_size:
                raise InputError(operation, str(path), "no gzip file", "gzip, as the name says", "rename it or compress it again")
            else:
                yield raw
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        reason = "the gzip file is cut off" if isinstance(error, EOFError) else f"damaged gzip ({error})"
        raise InputError(operation, str(path), reason, "a whole file", "copy or download it again") from error
    except OSError as error:
        raise InputError(operation, str(path), error.strerror or str(error), "a file that can be read") from error


def numbered_lines(path: Path, operation: str = "read corpus", encoding: str = "utf-8") -> Iterator[tuple[int, str]]:
    """Lines with their ends, numbered from 1; a byte order mark is taken off, bytes that are not of ``encoding`` become surrogates.

    Raises InputError for a file that is missing, empty, damaged or cut off. `invalid_utf8` finds where a text is not UTF-8.
    """
    number = 0
    with opened(path, operation) as file:
        for number, line in enumerate(file, start=1):
            text = line.decode(encoding, errors="surrogateescape")
            yield number, text.removeprefix(BYTE_ORDER_MARK) if number == 1 else text
    if number == 0:
        raise InputError(operation, str(path), "an empty file", "a file with rows")


def filled_lines(path: Path, encoding: str = "utf-8") -> Iterator[tuple[int, int, str]]:
    """Row, from 0, number, from 1, and text of every line that is not empty. Raises InputError as `numbered_lines` does."""
    filled = ((number, line) for number, line in numbered_lines(path, encoding=encoding) if line.strip())
    return ((row, number, line) for row, (number, line) in enumerate(filled))


def whole_text(path: Path, encoding: str = "utf-8") -> str:
    """All of a small file; bytes that are not of ``encoding`` become surrogates. Raises InputError."""
    with opened(path) as file:
        return file.read().decode(encoding, errors="surrogateescape").removeprefix(BYTE_ORDER_MARK)


def require_utf8(path: Path) -> Path:
    """The path, where it can be written into a run and its reports. Raises InputError."""
    if wrong := invalid_utf8(str(path)):
        raise InputError("read corpus", printable(str(path)), f"a path with {wrong}", "a name in UTF-8", "rename it")
    return path


def printable(text: str) -> str:
    """A text that can be written as UTF-8: what is not, a byte of a cell or of a file name, is shown as an escape."""
    return text.encode("utf-8", errors="backslashreplace").decode("utf-8")


def invalid_utf8(text: str) -> str:
    """What is wrong with a text that was decoded with surrogates, or nothing."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        code = ord(text[error.start])
        shown = f"byte 0x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else f"half a character U+{code:04X}"
        return f"invalid UTF-8 ({shown} at character {error.start})"
    return ""
