"""Unpacking downloads: nothing is written outside their folder, nothing grows without bound."""

from __future__ import annotations

import errno
import gzip
import lzma
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from attnaudit.core.errors import InputError
from attnaudit.corpora.formats.lines import GZIP_MAGIC

_CHUNK = 1 << 20
_LONGEST_READ = (
    1 << 24
)  # bytes that a tar may ask for at once; its headers are read whole into memory
_DAMAGED = (
    zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, gzip.BadGzipFile, NotImplementedError,
    ValueError, IndexError, OverflowError, struct.error,  # what Python's readers let through where a header is nonsense
)  # fmt: skip


@dataclass(frozen=True)
class Limits:
    """The most that an archive may hold: ``members``, and bytes, ``total`` in all and ``ratio`` for each packed one beyond ``free``."""

    members: int = 500_000
    total: int = 16 << 30
    ratio: int = 200
    free: int = 64 << 20

    def bytes(self, packed: int) -> int:
        return min(self.total, max(self.free, self.ratio * packed))


LIMITS = Limits()


@dataclass(frozen=True)
class _Member:
    name: str
    folder: bool
    size: int
    read: Callable[[int], bytes] | None
    problem: str = ""


def archive_kind(path: Path) -> str:
    """``zip`` or ``tar`` by what a file holds, whatever it is called; nothing for a file of another kind."""
    try:
        with path.open("rb") as raw:
            magic = raw.read(2)
            raw.seek(0)
            if magic == b"PK":
                return "zip" if zipfile.is_zipfile(raw) else ""
            packed = magic == GZIP_MAGIC
            block = (gzip.GzipFile(fileobj=raw) if packed else raw).read(tarfile.BLOCKSIZE)
        tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except (tarfile.HeaderError, *_DAMAGED):
        return ""
    return "tar"


def unpack(archive: Path, into: Path, limits: Limits = LIMITS) -> None:
    """Unpack a zip, tar or tar.gz into a folder; what macOS adds is skipped.

    Raises InputError for a damaged archive and for one with a name that leaves the folder, a link, a device, a name twice, or more
    than ``limits`` allow, and OSError for a full disk; what was written before is then still there, so ``into`` should be a folder
    that goes.
    """
    most = limits.bytes(archive.stat().st_size)
    written = 0
    try:
        with ExitStack() as files:
            members = (
                _zip_members(archive, files)
                if archive_kind(archive) == "zip"
                else _tar_members(archive, files, most)
            )
            for number, member in enumerate(members, start=1):
                if number > limits.members:
                    raise _hostile(
                        archive,
                        f"member {number}",
                        "more members than that",
                        f"at most {limits.members}",
                    )
                written += _take(archive, member, into, most - written)
    except _DAMAGED as error:
        raise _damaged(archive, error) from error
    except OSError as error:
        if (
            error.errno != errno.EINVAL
        ):  # where a zip says that a member lies before its file; the others are the disk's
            raise
        raise _damaged(archive, error) from error


def _zip_members(path: Path, files: ExitStack) -> Iterator[_Member]:
    archive = files.enter_context(zipfile.ZipFile(path))
    for info in archive.infolist():
        kind = stat.S_IFMT(info.external_attr >> 16)
        problem = "" if kind in (0, stat.S_IFREG, stat.S_IFDIR) else "a link or a device"
        if info.flag_bits & 1:
            problem = "an encrypted member"
        if problem or info.is_dir():
            yield _Member(info.filename, info.is_dir(), 0, None, problem)
        else:
            with archive.open(info) as stream:
                yield _Member(info.filename, False, info.file_size, stream.read)


def _tar_members(path: Path, files: ExitStack, most: int) -> Iterator[_Member]:
    raw = files.enter_context(path.open("rb"))
    packed = raw.read(2) == GZIP_MAGIC
    raw.seek(0)
    stream = files.enter_context(gzip.GzipFile(fileobj=raw)) if packed else raw
    metered: Any = _Metered(path, stream, most)
    with tarfile.open(fileobj=metered, mode="r:") as archive:
        for info in archive:
            plain = info.isreg() and not info.issparse()
            problem = "" if plain or info.isdir() else "a link or a device"
            stream = archive.extractfile(info) if plain else None
            yield _Member(info.name, info.isdir(), info.size, stream and stream.read, problem)


class _Metered:
    """The bytes of a tar, however they are packed, up to a limit: headers and padding count too."""

    def __init__(self, path: Path, stream: BufferedIOBase, most: int) -> None:
        self._path, self._stream, self._most = path, stream, most

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= _LONGEST_READ:
            raise _hostile(
                self._path,
                f"byte {self.tell()}",
                f"a header of {size} bytes",
                f"at most {_LONGEST_READ}",
            )
        self._check(self.tell() + size - tarfile.BLOCKSIZE)
        return self._stream.read(size)

    def seek(self, offset: int) -> int:
        if offset < 0:
            raise tarfile.ReadError(f"a member at byte {offset}")
        self._check(offset - tarfile.BLOCKSIZE)
        return self._stream.seek(offset)

    def tell(self) -> int:
        return self._stream.tell()

    def _check(self, offset: int) -> None:
        limit = 2 * self._most + _LONGEST_READ  # headers and padding of small files may double them
        if offset > limit:
            raise _hostile(
                self._path,
                f"byte {offset}",
                "an archive that inflates beyond that",
                f"at most {limit} bytes",
            )


def _take(archive: Path, member: _Member, into: Path, limit: int) -> int:
    """Write one member; how many bytes it had."""
    where = f"member {member.name[:80]!r}"
    if member.problem:
        raise _hostile(archive, where, member.problem, "files and folders only")
    inside = _path_inside(archive, member.name)
    if not inside.parts or _of_macos(inside):
        return 0
    place = into / inside
    if member.size > limit:
        raise _hostile(
            archive, where, f"{member.size} bytes", f"at most {limit} more bytes of this archive"
        )
    try:
        (place if member.folder else place.parent).mkdir(parents=True, exist_ok=True)
        return 0 if member.read is None else _write(archive, where, member.read, place, limit)
    except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
        raise _hostile(archive, where, "a name that was there before", "every name once") from error
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        raise _hostile(
            archive, where, f"a name of {len(member.name)} characters", "names that a disk can hold"
        ) from error


def _write(archive: Path, where: str, read: Callable[[int], bytes], place: Path, limit: int) -> int:
    written = 0
    with place.open("xb") as file:
        while chunk := read(_CHUNK):
            written += len(chunk)
            if written > limit:
                raise _hostile(
                    archive,
                    where,
                    "more bytes than its header says",
                    f"at most {limit} more bytes of this archive",
                )
            file.write(chunk)
    return written


def _path_inside(archive: Path, name: str) -> PurePosixPath:
    path = PurePosixPath(name.replace("\\", "/"))
    if "\0" in name or path.is_absolute() or ".." in path.parts or PureWindowsPath(name).drive:
        raise _hostile(
            archive, f"member {name!r}", "a name that leaves the folder", "names within it"
        )
    return path


def _of_macos(path: PurePosixPath) -> bool:
    return (
        path.parts[0] == "__MACOSX"
        or path.name.startswith("._")
        or path.name in (".DS_Store", "Icon\r")
    )


def _damaged(archive: Path, error: Exception) -> InputError:
    return InputError(
        "unpack",
        str(archive),
        f"a damaged archive ({error})",
        "a whole zip, tar or tar.gz",
        "fetch it again",
    )


def _hostile(archive: Path, where: str, got: str, expected: str) -> InputError:
    return InputError(
        "unpack",
        f"{archive}: {where}",
        got,
        expected,
        "do not trust this archive; nothing of it was kept",
    )
