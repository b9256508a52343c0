"""Unpacking archives: nothing is written outside their folder, nothing grows without bound."""

import bz2
import contextlib
import errno
import gzip
import lzma
import shutil
import struct
import tarfile
import zipfile
import zlib
from functools import partial
from pathlib import Path

from attnaudit.core import InputError
from attnaudit.corpora.formats.lines import most_inflated

_MEMBER = 512  # bytes that even an empty member takes
_DEEPEST = 100  # folders within each other; Python unpacks and removes them by recursion
_DAMAGE = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    NotImplementedError,
    # Python's readers let these through if a header is nonsense.
    ValueError,
    LookupError,
    OverflowError,
    struct.error,
    RuntimeError,  # an encrypted zip
)
# Errors of the system that are an archive's fault: a place before its beginning, names that are too
# long or that are both a file and a folder.
_OWN_FAULTS = (None, errno.EINVAL, errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.EEXIST)


def archive_kind(path: Path) -> str:
    """Return ``zip`` or ``tar`` by what a file holds; empty for a file of another kind."""
    with contextlib.suppress(*_DAMAGE):
        if zipfile.is_zipfile(path):
            return "zip"
        return "tar" if tarfile.is_tarfile(path) else ""
    return ""


def unpack(archive: Path, into: Path) -> None:
    """Unpack a zip or tar, packed or not, with tarfile's ``data`` filter.

    Raises:
        InputError: For a damaged archive, one with a name, link or device that leads out of the
            folder, and one that is deeper than `_DEEPEST` or holds more than `most_inflated`
            allows. ``into`` is then removed.
    """
    most = most_inflated(archive.stat().st_size)

    def require_bounded(members):
        total, do = 0, "do not trust this archive; nothing of it was kept"
        # One by one: a hostile archive may have endless members.
        for name, size in members:
            total += size + _MEMBER
            if total > most:
                raise InputError("unpack", str(archive), "more bytes", f"at most {most}", do)
            if name.count("/") > _DEEPEST:
                got = f"{name.count('/')} folders deep"
                raise InputError("unpack", str(archive), got, f"at most {_DEEPEST}", do)

    try:
        if archive_kind(archive) == "zip":
            with zipfile.ZipFile(archive) as packed:
                require_bounded((info.filename, info.file_size) for info in packed.infolist())
                packed.extractall(into)
        else:
            # Python reads a header whole, whatever size it states.
            for opened in (gzip.open, bz2.open, lzma.open):
                with (
                    contextlib.suppress(OSError, EOFError, lzma.LZMAError),
                    opened(archive, "rb") as file,
                ):
                    require_bounded(
                        ("", len(block)) for block in iter(partial(file.read, 1 << 20), b"")
                    )
            with tarfile.open(archive) as packed:
                require_bounded((member.name, member.size) for member in packed)
                packed.extractall(into, filter="data")
        if into.is_file():
            raise ValueError("a member without a name")
    except (*_DAMAGE, OSError) as error:
        if into.is_file():
            into.unlink()
        shutil.rmtree(into, ignore_errors=True)
        if isinstance(error, OSError) and error.errno not in _OWN_FAULTS:
            raise
        got, do = f"a damaged or unsafe archive ({error})", "copy or download it again"
        raise InputError("unpack", str(archive), got, "a whole zip or tar", do) from error
