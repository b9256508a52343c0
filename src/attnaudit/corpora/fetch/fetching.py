"""Fetching a named corpus: its files come whole into its folder, with a note of where they are from, or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from attnaudit.core.errors import InputError, RunError, did_you_mean
from attnaudit.core.files import sha256
from attnaudit.core.progress import Progress, silent
from attnaudit.corpora.fetch.archives import archive_kind, unpack
from attnaudit.corpora.fetch.downloads import DOWNLOADS, Download
from attnaudit.corpora.fetch.provenance import SOURCE, is_as_signed, is_signed, sign
from attnaudit.corpora.fetch.transfer import PATIENCE, Patience, Resuming
from attnaudit.corpora.named.registered import Registered
from attnaudit.corpora.named.registry import REGISTRY, corpus_folder, data_folder
from attnaudit.corpora.planted.texts import KINDS

LARGEST = 2 << 30  # bytes of a download whose size is not known
_ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz")


@dataclass(frozen=True)
class Fetched:
    """What became of a fetch: the folder of the corpus, whether it was ``already`` there, and what the user should know."""

    name: str
    folder: Path
    already: bool
    notes: tuple[str, ...] = ()


def downloads_of(entry: Registered) -> tuple[Download, ...]:
    """The files of a corpus at their upstream addresses; none where a program cannot fetch it."""
    return DOWNLOADS.get(entry.name, ())


@dataclass(frozen=True)
class _Fetch:
    """A corpus, its files, and ``target``, the folder that gets them; ``parts`` holds what has come, ``staging`` what is being made."""

    entry: Registered
    downloads: tuple[Download, ...]
    target: Path
    progress: Progress
    patience: Patience
    check: Callable[[Path], None] | None

    @property
    def parts(self) -> Path:
        return self.target.with_name(f".{self.target.name}.part")

    @property
    def staging(self) -> Path:
        return self.target.with_name(f".{self.target.name}.new")

    def failed(self, where: str, got: str, expected: str, do: str) -> InputError:
        page = f" ({self.entry.homepage})" if self.entry.homepage else ""
        by_hand = f"or get it by hand{page} and unpack it into {self.target}"
        return InputError(f"fetch {self.entry.name}", where, got, expected, f"{do}; {by_hand}")


def fetch_corpus(
    name: str,
    data_dir: str | Path | None = None,
    address: str | None = None,
    progress: Progress = silent,
    check: Callable[[Path], None] | None = None,
    patience: Patience = PATIENCE,
) -> Fetched:
    """Bring the files of a registered corpus into its folder in ``data_dir``, with a SOURCE.json beside them.

    ``address`` takes the place of the upstream one. A corpus that is there already, fetched or not, is left alone. ``check(place)`` is
    called before the files get their place, with a data directory that holds them; what it raises refuses them. Two processes that
    fetch one corpus wait for each other. Raises InputError.
    """
    entry = _entry(name)
    place = data_folder(data_dir)[0].expanduser().absolute()
    target = place / _target_name(entry)
    fetch = _Fetch(entry, _from(entry, downloads_of(entry), address), target, progress, patience, check)
    try:
        if there := _already(entry, target):
            return there
        if not fetch.downloads:
            raise _not_fetchable(entry, target)
        place.mkdir(parents=True, exist_ok=True)
        with _alone(target.with_name(f".{target.name}.lock"), progress):
            return _already(entry, target) or _fetched(fetch)
    except InputError:
        raise
    except OSError as error:
        do = "free some space there, or choose another --data-dir; a part that has come is kept"
        raise RunError(f"fetch {name}", str(place), error.strerror or str(error), "a place that can be written", do) from error


def _fetched(fetch: _Fetch) -> Fetched:
    shutil.rmtree(fetch.staging, ignore_errors=True)  # of a process that was killed
    files = [_download(fetch, download) for download in fetch.downloads]
    try:
        folder = fetch.staging / fetch.target.name
        folder.mkdir(parents=True)
        notes = [_settle(download, file, folder) for download, file in zip(fetch.downloads, files, strict=True)]
        sign(folder, fetch.entry, fetch.downloads, files)
        if fetch.check is not None:
            fetch.check(fetch.staging)
        with contextlib.suppress(FileNotFoundError):
            fetch.target.rmdir()  # an empty one
        folder.rename(fetch.target)
    except InputError as error:
        shutil.rmtree(fetch.parts)  # what came is not what was wanted: the next time it is asked for anew
        where = ", ".join(download.url for download in fetch.downloads)
        raise fetch.failed(where, f"what came cannot be used ({error})", f"the files of {fetch.entry.title}", "nothing was kept") from error
    finally:
        shutil.rmtree(fetch.staging, ignore_errors=True)
    shutil.rmtree(fetch.parts)
    return Fetched(fetch.entry.name, _folder(fetch.entry, fetch.target.parent) or fetch.target, False, tuple(filter(None, notes)))


def _download(fetch: _Fetch, download: Download) -> Path:
    """The file of a download, by its checksum where that is known; one that came in an earlier try is not asked for again."""
    import pooch

    pooch.get_logger().setLevel("WARNING")  # it tells every step
    known = download.sha256 and f"sha256:{download.sha256}"
    most = LARGEST if download.size is None else 2 * download.size + (1 << 20)
    name = f"{hashlib.sha256(download.url.encode()).hexdigest()[:8]}-{_file_name(download)}"
    part = fetch.parts / f"{name}.part"
    resuming: Any = Resuming(part, most, known is not None, fetch.progress, fetch.patience)  # pooch's type for it has other names
    fetch.parts.mkdir(parents=True, exist_ok=True)
    try:
        return Path(pooch.retrieve(download.url, known, fname=name, path=fetch.parts, downloader=resuming))
    except InputError as error:
        raise fetch.failed(error.where, error.got, error.expected, error.do) from error
    except ValueError as error:  # how pooch tells that the checksum is another one
        do = "try again, or name a mirror with --from; nothing of it was kept"
        raise fetch.failed(download.url, "a file with another checksum", f"sha256 {download.sha256}", do) from error
    finally:
        if not any(fetch.parts.iterdir()):
            fetch.parts.rmdir()


def _settle(download: Download, file: Path, folder: Path) -> str:
    """Unpack an archive into the folder, or put a plain file there; a note where nothing vouches for its bytes."""
    name = _file_name(download)
    if archive_kind(file):
        unpack(file, folder / download.path)
    elif name.endswith(_ARCHIVES):
        with file.open("rb") as raw:
            begins = raw.read(30)
        raise InputError("unpack", download.url, f"no archive (it begins with {begins!r})", "a zip, tar or tar.gz")
    else:
        place = folder / (download.path or name)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, place)
    if download.sha256:
        return ""
    return f"no checksum of {download.url} is known; what came has sha256 {sha256(file)}, kept in {SOURCE}"


def _already(entry: Registered, target: Path) -> Fetched | None:
    """The corpus where it lies; None where it does not. Raises InputError for a folder that holds other files."""
    here = _folder(entry, target.parent)
    ours = next((above for above in _below(target.parent, here or target) if is_signed(above)), None)
    if ours is not None:
        if not is_as_signed(ours):
            got = "files that are not as they came"
            raise InputError(f"fetch {entry.name}", str(ours), got, "those that were fetched", "move the folder away, then fetch again")
        if here is None:
            got = "files that are as they came, but not those of this corpus"
            raise InputError(f"fetch {entry.name}", str(ours), got, f"the files of {entry.title}", "move the folder away, then fetch again")
        return Fetched(entry.name, here, True)
    if here is not None and any(here.iterdir()):
        return Fetched(entry.name, here, True, ("these files were put there by hand; they are left as they are",))
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        got = "other files than those of this corpus"
        raise InputError(f"fetch {entry.name}", str(target), got, "an empty place", "move them away, then fetch again")
    return None


def _below(place: Path, folder: Path) -> Iterator[Path]:
    """A folder and those that it lies in, up to a place."""
    return (above for above in (folder, *folder.parents) if above != place and above.is_relative_to(place))


def _target_name(entry: Registered) -> str:
    """The folder that a fetch makes: of those where the corpus is looked for the first where all that share its files look."""
    sharing = [other for other in REGISTRY.values() if downloads_of(other) == downloads_of(entry)]
    folders = _folders(entry)
    shared = [folder for folder in folders if all(folder in _folders(other) for other in sharing)]
    return (shared or folders)[0].split("/")[0]


def _folders(entry: Registered) -> tuple[str, ...]:
    return entry.folders or (entry.name,)


def _folder(entry: Registered, place: Path) -> Path | None:
    try:
        return corpus_folder(entry, place)
    except InputError:
        return None


@contextlib.contextmanager
def _alone(lock: Path, progress: Progress) -> Iterator[None]:
    from filelock import FileLock, Timeout

    alone = FileLock(lock)
    try:
        alone.acquire(timeout=0)
    except Timeout:
        progress("wait for another process that fetches it", 0, 0)
        alone.acquire()
    try:
        yield
    finally:
        alone.release()


def _entry(name: str) -> Registered:
    if name in REGISTRY:
        return REGISTRY[name]
    if name.removeprefix("planted-") in KINDS:
        raise InputError("fetch", name, "a planted corpus", "a corpus that has files", f"it is made on the spot: attnaudit run {name}")
    raise InputError("fetch", name, "an unknown corpus", f"one of {', '.join(REGISTRY)}", did_you_mean(name, REGISTRY))


def _from(entry: Registered, downloads: tuple[Download, ...], address: str | None) -> tuple[Download, ...]:
    if address is None:
        return downloads
    if len(downloads) != 1:
        got = f"a corpus of {len(downloads)} downloads"
        raise InputError(f"fetch {entry.name}", "--from", got, "one of a single download", "get the files by hand")
    if not _is_of_the_web(address):
        raise InputError(f"fetch {entry.name}", "--from", f"'{address}'", "an address that begins with http:// or https://")
    return (replace(downloads[0], url=address),)


def _is_of_the_web(address: str) -> bool:
    try:
        parts = urlsplit(address)
    except ValueError:  # brackets without an end
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname)


def _file_name(download: Download) -> str:
    name = unquote(urlsplit(download.url).path).rsplit("/", 1)[-1]
    return "download" if name in ("", ".", "..") else name


def _not_fetchable(entry: Registered, target: Path) -> InputError:
    how = entry.how_to_get or f"see {entry.homepage or entry.citation}"
    return InputError(f"fetch {entry.name}", entry.title, "no address that a program may fetch it from", f"your own copy in {target}", how)
