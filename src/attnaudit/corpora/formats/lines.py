"""Lines of a plain or gzipped text file, where every unreadable file is an InputError."""

from __future__ import annotations

import codecs
import contextlib
import gzip
import io
import os
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, AnyStr, BinaryIO

from attnaudit.core.errors import InputError
from attnaudit.core.files import may_never_end
from attnaudit.core.printable import printable

GZIP_MAGIC = b"\x1f\x8b"
BYTE_ORDER_MARK = "\ufeff"
LONGEST_LINE = 16 << 20  # bytes; ten times the longest novel
EMPTY = 100_000  # empty lines in a row
FREE, RATIO = (
    64 << 20,
    200,
)  # bytes that any packed file may hold, and bytes for each packed one beyond; text shrinks to a tenth
_HEAD = 512  # bytes that tell what a file is
_SAMPLE = 1 << 20  # bytes that tell its encoding
_WESTERN = ("cp1252", "latin-1")  # the second reads any bytes, the first nearly any
_SEEN = 24  # characters of a word that a message shows
_MARKS = (  # UTF-32's first, since one begins as UTF-16's does
    (b"\xff\xfe\x00\x00", "utf-32"), (b"\x00\x00\xfe\xff", "utf-32"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"),
)  # fmt: skip
_BINARY = (
    (b"PAR1", "a parquet file", "give its name the ending .parquet"),
    (b"PK\x03\x04", "a zip archive, as of Excel", "unpack it, or save it as csv"),
)


class _TooMuch(Exception):
    """More bytes than a packed file, or a line, may hold; the arguments are what was found, what was expected, and what to do."""


class _Inflating(io.RawIOBase):
    """The bytes of a gzip file, up to what its size allows."""

    def __init__(self, raw: BinaryIO) -> None:
        self._file, self.total = gzip.GzipFile(fileobj=raw), 0
        self.packed = os.fstat(raw.fileno()).st_size
        self.most = most_inflated(self.packed)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        got = self._file.readinto(buffer)
        self.total += got
        if self.total > self.most:
            do = "do not trust it; where you do, unpack it yourself"
            raise _TooMuch(
                f"more than {self.most} bytes, packed in {self.packed}",
                f"at most {RATIO} times its size",
                do,
            )
        return got


def most_inflated(packed: int) -> int:
    """The most bytes that a packed file of a corpus may hold."""
    return max(FREE, RATIO * packed)


@contextlib.contextmanager
def opened(path: Path, operation: str = "read corpus") -> Iterator[io.BufferedReader]:
    """The bytes of a file, unpacked when they are gzip, whatever the file is called.

    Raises InputError for a pipe or a device, and while it is read, also for more bytes than a gzip file of its size may hold
    (`most_inflated`).
    """
    if may_never_end(path):
        got, do = (
            "a pipe or a device, which cannot be read twice",
            "write what it gives into a file",
        )
        raise InputError(operation, str(path), got, "a file", do)
    try:
        with path.open("rb") as raw:
            packed = raw.read(2) == GZIP_MAGIC
            raw.seek(0)
            if packed:
                inflating: Any = _Inflating(raw)  # the type of a reader would name it
                with io.BufferedReader(inflating, 1 << 18) as file:
                    yield file
            elif path.suffix == ".gz" and path.stat().st_size:
                raise InputError(
                    operation,
                    str(path),
                    "no gzip file",
                    "gzip, as the name says",
                    "rename it or compress it again",
                )
            else:
                yield raw
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        reason = (
            "the gzip file is cut off" if isinstance(error, EOFError) else f"damaged gzip ({error})"
        )
        raise InputError(
            operation, str(path), reason, "a whole file", "copy or download it again"
        ) from error
    except _TooMuch as error:
        raise InputError(operation, str(path), *error.args) from error
    except OSError as error:
        raise InputError(
            operation, str(path), error.strerror or str(error), "a file that can be read"
        ) from error


def numbered_lines(
    path: Path, operation: str = "read corpus", encoding: str = "utf-8"
) -> Iterator[tuple[int, str]]:
    """Lines with their ends, numbered from 1; a byte order mark is taken off, bytes that are not of ``encoding`` become surrogates.

    Raises InputError for a file that is missing, empty, damaged or cut off, in UTF-16 or no text, or inflated, for a line of more than
    `LONGEST_LINE` bytes, and for more than `EMPTY` empty lines in a row. `invalid_utf8` finds where a text is not UTF-8.
    """
    number = 0
    with opened(path, operation) as file:
        if found := _other_kind(file.peek(_HEAD)[:_HEAD], encoding):
            raise InputError(operation, str(path), *found)
        try:
            for number, line in enumerate(_decoded(file, encoding), start=1):
                yield number, line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line
        except _TooMuch as error:
            raise InputError(operation, f"{path}: line {number + 1}", *error.args) from error
        except UnicodeError as error:
            do = f"read it with --encoding {_reading(_head_of(path))}"
            raise InputError(
                operation,
                f"{path}: line {number + 1}",
                f"no {encoding} ({error})",
                f"a text in {encoding}",
                do,
            ) from error
    if number == 0:
        raise InputError(operation, str(path), "an empty file", "a file with rows")


def _head_of(path: Path) -> bytes:
    with opened(path) as file:
        return file.read(_SAMPLE)


def _decoded(file: io.BufferedReader, encoding: str) -> Iterator[str]:
    """Lines as text; where an end of line is not one byte, as in UTF-16, the file is decoded before it is cut into lines."""
    if "\n".encode(encoding) == b"\n":
        for line in _bounded(file.readline, b""):
            yield line.decode(encoding, errors="surrogateescape")
    else:
        with io.TextIOWrapper(file, encoding, errors="surrogateescape", newline="\n") as text:
            yield from _bounded(text.readline, "")


def _bounded(readline: Callable[[int], AnyStr], end: AnyStr) -> Iterator[AnyStr]:
    empty = 0
    while (line := readline(LONGEST_LINE + 1)) != end:
        if len(line) > LONGEST_LINE:
            raise _TooMuch(
                f"more than {LONGEST_LINE} bytes",
                "shorter lines",
                "is it a text, with an end to each line?",
            )
        empty = 0 if line.strip() else empty + 1
        if empty > EMPTY:
            raise _TooMuch(
                f"the last of more than {EMPTY} empty lines",
                "a file with rows",
                "delete the empty lines",
            )
        yield line


def _other_kind(head: bytes, encoding: str) -> tuple[str, str, str] | None:
    """What a file is that cannot be text in ``encoding``, what was expected, and what to do."""
    if "\n".encode(encoding) == b"\n":
        zeros = bytes(4)  # every second byte of ASCII characters in UTF-16
        found = _marked(head) or ("utf-16" if zeros in (head[1:8:2], head[:8:2]) else "")
        if found:
            return (
                f"a file in {found.upper()}",
                "UTF-8",
                f"save it as UTF-8, or read it with --encoding {found}",
            )
    if head[257:262] == b"ustar":
        return "a tar archive", "a file of texts", "unpack it"
    return next(
        ((got, "a file of texts", do) for magic, got, do in _BINARY if head.startswith(magic)), None
    )


def filled_lines(path: Path, encoding: str = "utf-8") -> Iterator[tuple[int, int, str]]:
    """Row, from 0, number, from 1, and text of every line that is not empty. Raises InputError as `numbered_lines` does."""
    filled = (
        (number, line) for number, line in numbered_lines(path, encoding=encoding) if line.strip()
    )
    return ((row, number, line) for row, (number, line) in enumerate(filled))


def whole_text(path: Path, encoding: str = "utf-8") -> str:
    """All of a small file; bytes that are not of ``encoding`` become surrogates. Raises InputError."""
    with opened(path) as file:
        return file.read().decode(encoding, errors="surrogateescape").removeprefix(BYTE_ORDER_MARK)


def require_utf8(path: Path) -> Path:
    """The path, where it can be written into a run and its reports. Raises InputError."""
    if wrong := invalid_utf8(str(path)):
        raise InputError(
            "read corpus", str(path), f"a path with {wrong}", "a name in UTF-8", "rename it"
        )
    return path


def named_encoding(encoding: str) -> str:
    """An encoding as messages name it."""
    return "UTF-8" if encoding == "utf-8" else encoding


def suggested_encoding(text: str, encoding: str = "utf-8") -> str:
    """The option that reads a text which was decoded as ``encoding`` with surrogates, and where other encodings would read it too, a word
    to see whether it is the right one; nothing for a text without surrogates."""
    words = (
        word.strip('"')
        for word in text.split()
        if any("\udc80" <= char <= "\udcff" for char in word)
    )
    with contextlib.suppress(UnicodeError, StopIteration):  # not every encoding writes what it read
        word = next(words)
        guessed = _reading(text.encode(encoding, errors="surrogateescape"))
        if guessed not in _WESTERN:
            return f"--encoding {guessed}"
        seen = printable(word.encode(encoding, errors="surrogateescape").decode(guessed)[:_SEEN])
        return f"--encoding {guessed} if '{seen}' is right, else with the one in which it was saved"
    return ""


def _marked(raw: bytes) -> str:
    """The encoding that a mark at the beginning of a file names; nothing without one."""
    return next((encoding for mark, encoding in _MARKS if raw.startswith(mark)), "")


def _reading(raw: bytes) -> str:
    """The first usual encoding that reads a text, or the first `_SAMPLE` bytes of one, which may end within a character."""
    if found := _marked(raw):
        return found
    for encoding in ("utf-8", _WESTERN[0]):
        with contextlib.suppress(UnicodeError):
            codecs.getincrementaldecoder(encoding)().decode(raw, final=len(raw) < _SAMPLE)
            return encoding
    return _WESTERN[1]


def invalid_utf8(text: str, encoding: str = "utf-8") -> str:
    """What is wrong with a text that was decoded with surrogates from bytes in ``encoding``, or nothing."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        code = ord(text[error.start])
        if 0xDC80 <= code <= 0xDCFF:
            return f"invalid {named_encoding(encoding)} (byte 0x{code - 0xDC00:02x} at character {error.start})"
        return f"invalid UTF-8 (half a character U+{code:04X} at character {error.start})"
    return ""
