"""Unpacking archives: nothing is written outside their folder, nothing grows without bound."""

import contextlib
import errno
import struct
import tarfile
import zipfile
import zlib
from itertools import accumulate
from pathlib import Path

from attnaudit.core import InputError
from attnaudit.corpora.formats.lines import most_inflated

_MEMBER = 512  # bytes that even an empty member takes
_DAMAGE = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    NotImplementedError,
    # Python's readers let these through if a header is nonsense.
    ValueError,
    IndexError,
    OverflowError,
    struct.error,
    RuntimeError,  # an encrypted zip
)


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
            folder, and one that holds more than `most_inflated` allows.
    """
    most = most_inflated(archive.stat().st_size)

    def require_bounded(sizes):
        # Added up one by one: a hostile archive may have endless members.
        if any(total > most for total in accumulate(size + _MEMBER for size in sizes)):
            do = "do not trust this archive; nothing of it was kept"
            raise InputError("unpack", str(archive), "more bytes", f"at most {most}", do)

    try:
        if archive_kind(archive) == "zip":
            with zipfile.ZipFile(archive) as packed:
                require_bounded(info.file_size for info in packed.infolist())
                packed.extractall(into)
        else:
            with tarfile.open(archive) as packed:
                require_bounded(member.size for member in packed)
                packed.extractall(into, filter="data")
    except (*_DAMAGE, OSError) as error:
        # An error of the system is the disk's fault, but for a place before the file's beginning.
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise
        got, do = f"a damaged or unsafe archive ({error})", "copy or download it again"
        raise InputError("unpack", str(archive), got, "a whole zip or tar", do) from error
