"""Text files, plain or gzipped, as numbered lines; every unreadable file is an InputError."""

import contextlib
import gzip
import io
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from attnaudit.core import InputError
from attnaudit.core.files import may_never_end

LONGEST_LINE = 16 << 20  # characters: ten times the longest novel
# A packed file may hold this many bytes, and beyond them so many for each of its own: text shrinks
# to a tenth.
FREE, RATIO = 64 << 20, 200
GZIP_MAGIC = b"\x1f\x8b"


def bad_file(where: object, got: str, expected: str, do: str = "") -> InputError:
    """Make the error for something wrong in a file or folder of a corpus."""
    return InputError("read corpus", str(where), got, expected, do)


def first_names(names: Iterable[str], most: int = 8) -> str:
    """List the first names, for an error."""
    names = list(names)
    return ", ".join(names[:most]) + (", …" if names[most:] else "") or "none"


def most_inflated(packed: int) -> int:
    """Return the most bytes that a file of ``packed`` bytes may hold."""
    return max(FREE, RATIO * packed)


@contextlib.contextmanager
def opened(path: Path) -> Iterator[io.BufferedReader]:
    """Open a file for reading bytes, unpacked if they are gzip, whatever the file's name.

    Raises:
        InputError: For a file that is missing, damaged or cut off, a pipe or a device.
    """
    if may_never_end(path):
        got = "a pipe or a device, which cannot be read twice"
        raise bad_file(path, got, "a file", "write its output into a file")
    try:
        with path.open("rb") as raw:
            unpacked: Any = gzip.GzipFile(fileobj=raw)  # reads nothing yet
            yield io.BufferedReader(unpacked) if raw.peek(2)[:2] == GZIP_MAGIC else raw
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        do = "copy or download it again"
        raise bad_file(path, f"damaged gzip ({error})", "a whole file", do) from error
    except OSError as error:
        raise bad_file(path, error.strerror or str(error), "a file that can be read") from error


def whole_bytes(path: Path) -> bytes:
    """Read a file whole. Raises InputError, also if it unpacks to more than `most_inflated`."""
    with opened(path) as file:
        most = most_inflated(path.stat().st_size)
        content = file.read(most + 1)
    if len(content) > most:
        raise too_large(path, most)
    return content


def too_large(where: object, most: int) -> InputError:
    """Make the error for a file that holds too much for its size."""
    got, do = f"more than {most} bytes once unpacked", "do not trust it; if you do, unpack it"
    return bad_file(where, got, f"at most {RATIO} times its size", do)


def whole_text(path: Path, encoding: str = "utf-8") -> str:
    """Read a small text file; bytes that are not of ``encoding`` become surrogates.

    Raises:
        InputError: As for `whole_bytes`, and for a text in UTF-16 that is cut.
    """
    try:
        return whole_bytes(path).decode(encoding, "surrogateescape").removeprefix("\ufeff")
    except UnicodeError as error:
        raise bad_file(path, str(error), f"a text in {encoding}", "set corpus.encoding") from error


def numbered_lines(path: Path, encoding: str = "utf-8") -> Iterator[tuple[int, str]]:
    """Read lines with their ends, numbered from 1.

    A byte order mark is removed. Bytes that are not of ``encoding`` become surrogates, which
    `invalid_characters` finds.

    Raises:
        InputError: For a file that is missing, empty, damaged, no text or too large once unpacked,
            and for an endless line.
    """
    number, total, expected = 0, 0, f"a text in {encoding}"
    with opened(path) as file:
        most = most_inflated(path.stat().st_size)
        # UTF-16, archives and parquet have such bytes, texts have none.
        if b"\0" in file.peek(512)[:512] and "\n".encode(encoding) == b"\n":
            do = "set corpus.encoding, or unpack it"
            raise bad_file(path, "NUL bytes, as in UTF-16 or an archive", expected, do)
        # Decoded before it is cut into lines, since a line end in UTF-16 is not one byte.
        text = io.TextIOWrapper(file, encoding, "surrogateescape", newline="\n")
        try:
            while line := text.readline(LONGEST_LINE + 1):
                number, total = number + 1, total + len(line)
                where = f"{path}: line {number}"
                if total > most:
                    raise too_large(where, most)
                if len(line) > LONGEST_LINE:
                    got = f"more than {LONGEST_LINE} characters"
                    raise bad_file(where, got, "shorter lines", "is it a text?")
                yield number, line.removeprefix("\ufeff") if number == 1 else line
        except UnicodeError as error:
            do = "set corpus.encoding"
            raise bad_file(f"{path}: line {number + 1}", str(error), expected, do) from error
    if number == 0:
        raise bad_file(path, "an empty file", "a file with rows")


def filled_lines(path: Path, encoding: str = "utf-8") -> Iterator[tuple[int, int, str]]:
    """Read the row from 0, number from 1 and text of each line that is not empty."""
    lines = numbered_lines(path, encoding)
    filled = ((number, line) for number, line in lines if line.strip())
    return ((row, number, line) for row, (number, line) in enumerate(filled))


def invalid_characters(text: str) -> str:
    """Describe the first byte of a text that was not of its encoding; empty if there is none."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        code = ord(text[error.start])
        byte = f"byte 0x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else f"U+{code:04X}"
        return f"invalid characters ({byte} at character {error.start})"
    return ""


def require_utf8(path: Path) -> Path:
    """Return a path that can be written into a run and its reports. Raises InputError."""
    if wrong := invalid_characters(str(path)):
        raise bad_file(path, f"a path with {wrong}", "a name in UTF-8", "rename it")
    return path
