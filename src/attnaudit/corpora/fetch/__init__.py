"""Fetching a registered corpus: all its files are put into its folder, with a record of their source, or none is."""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from attnaudit.core.errors import InputError, RunError
from attnaudit.core.extras import require
from attnaudit.core.files import read_json, sha256
from attnaudit.core.progress import Progress, silent
from attnaudit.corpora.entry import CorpusEntry, Download
from attnaudit.corpora.fetch.archives import archive_kind, unpack
from attnaudit.corpora.fetch.transfer import PATIENCE, Patience, Resuming
from attnaudit.corpora.formats.lines import invalid_utf8
from attnaudit.corpora.registry import CORPORA, corpus_folder, data_folder

SOURCE = "SOURCE.json"  # where the files of a folder are from, and the digest of what was unpacked
LARGEST = 2 << 30  # bytes of a download whose size is not known
_ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz")


@dataclass(frozen=True)
class Fetched:
    """What became of a fetch: the folder of the corpus, whether it was ``already`` there, and what the user should know."""

    name: str
    folder: Path
    already: bool
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Fetch:
    """A corpus, its files, and ``target``, the folder that gets them; ``parts`` has the downloads, ``staging`` what is built of them."""

    entry: CorpusEntry
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
        manually = f"or get it manually{page} and unpack it into {self.target}"
        return InputError(f"fetch {self.entry.name}", where, got, expected, f"{do}; {manually}")


def fetch_corpus(
    name: str, data_dir: str | Path | None = None, address: str | None = None, progress: Progress = silent,
    check: Callable[[Path], None] | None = None, patience: Patience = PATIENCE,
) -> Fetched:  # fmt: skip
    """Put the files of a registered corpus into its folder in ``data_dir``, with a SOURCE.json.

    ``address`` takes the place of the upstream one. A corpus that is there already, fetched or not, is left alone. ``check(place)`` is
    called before the files get their place, with a data directory that holds them; what it raises refuses them. Two processes that
    fetch one corpus wait for each other. Raises InputError.
    """
    require("train", "corpora fetch")
    entry = _entry(name)
    place = data_folder(data_dir)[0].expanduser().absolute()
    target = place / _target_name(entry)
    fetch = _Fetch(entry, _from(entry, entry.downloads, address), target, progress, patience, check)
    try:
        if there := _already(entry, target):
            return there
        if not fetch.downloads:
            how = entry.how_to_get or f"see {entry.homepage or entry.citation}"
            raise InputError(
                f"fetch {name}",
                entry.title,
                "no address that a program may fetch it from",
                f"your own copy in {target}",
                how,
            )
        place.mkdir(parents=True, exist_ok=True)
        with _alone(target.with_name(f".{target.name}.lock"), progress):
            return _already(entry, target) or _fetched(fetch)
    except InputError:
        raise
    except OSError as error:
        do = "free some space there, or choose another --data-dir; what was downloaded is kept"
        raise RunError(
            f"fetch {name}",
            str(place),
            error.strerror or str(error),
            "a place that can be written",
            do,
        ) from error


def _fetched(fetch: _Fetch) -> Fetched:
    shutil.rmtree(fetch.staging, ignore_errors=True)  # of a process that was killed
    files = [_download(fetch, download) for download in fetch.downloads]
    try:
        folder = fetch.staging / fetch.target.name
        folder.mkdir(parents=True)
        notes = [
            _settle(download, file, folder)
            for download, file in zip(fetch.downloads, files, strict=True)
        ]
        _sign(folder, fetch.entry, fetch.downloads, files)
        if fetch.check is not None:
            fetch.check(fetch.staging)
        with contextlib.suppress(FileNotFoundError):
            fetch.target.rmdir()  # an empty one
        folder.rename(fetch.target)
    except InputError as error:
        shutil.rmtree(fetch.parts)  # these files are unusable: the next fetch downloads them again
        where = ", ".join(download.url for download in fetch.downloads)
        raise fetch.failed(
            where,
            f"the download cannot be used ({error})",
            f"the files of {fetch.entry.title}",
            "nothing was kept",
        ) from error
    finally:
        shutil.rmtree(fetch.staging, ignore_errors=True)
    shutil.rmtree(fetch.parts)
    return Fetched(
        fetch.entry.name,
        _folder(fetch.entry, fetch.target.parent) or fetch.target,
        False,
        tuple(filter(None, notes)),
    )


def _download(fetch: _Fetch, download: Download) -> Path:
    """The file of a download, by its checksum where that is known; one from an earlier try is not requested again."""
    import pooch

    pooch.get_logger().setLevel("WARNING")  # it logs every step
    known = download.sha256 and f"sha256:{download.sha256}"
    most = LARGEST if download.size is None else 2 * download.size + (1 << 20)
    name = f"{hashlib.sha256(download.url.encode()).hexdigest()[:8]}-{_file_name(download)}"
    part = fetch.parts / f"{name}.part"
    resuming: Any = Resuming(
        part, most, known is not None, fetch.progress, fetch.patience
    )  # pooch's type for it has other names
    fetch.parts.mkdir(parents=True, exist_ok=True)
    try:
        return Path(
            pooch.retrieve(download.url, known, fname=name, path=fetch.parts, downloader=resuming)
        )
    except InputError as error:
        raise fetch.failed(error.where, error.got, error.expected, error.do) from error
    except ValueError as error:  # how pooch reports another checksum
        do = "try again, or name a mirror with --from; nothing of it was kept"
        raise fetch.failed(
            download.url, "a file with another checksum", f"sha256 {download.sha256}", do
        ) from error
    finally:
        if not any(fetch.parts.iterdir()):
            fetch.parts.rmdir()


def _settle(download: Download, file: Path, folder: Path) -> str:
    """Unpack an archive into the folder, or put a plain file there; a note where no checksum is known."""
    name = _file_name(download)
    if archive_kind(file):
        unpack(file, folder / download.path)
    elif name.endswith(_ARCHIVES):
        with file.open("rb") as raw:
            begins = raw.read(30)
        raise InputError(
            "unpack",
            download.url,
            f"no archive (it begins with {begins!r})",
            "a zip, tar or tar.gz",
        )
    else:
        place = folder / (download.path or name)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, place)
    if download.sha256:
        return ""
    return f"no checksum of {download.url} is known; the download has sha256 {sha256(file)}, recorded in {SOURCE}"


def _already(entry: CorpusEntry, target: Path) -> Fetched | None:
    """The corpus where it lies; None where it does not. Raises InputError for a folder that holds other files."""
    here = _folder(entry, target.parent)
    inside = here or target
    above = (
        folder
        for folder in (inside, *inside.parents)
        if folder != target.parent and folder.is_relative_to(target.parent)
    )
    ours = next((folder for folder in above if (folder / SOURCE).is_file()), None)
    if ours is not None:
        if not _is_as_signed(ours):
            got = "files that changed since they were fetched"
            raise InputError(
                f"fetch {entry.name}",
                str(ours),
                got,
                "those that were fetched",
                "move the folder away, then fetch again",
            )
        if here is None:
            got = "fetched files, but not those of this corpus"
            raise InputError(
                f"fetch {entry.name}",
                str(ours),
                got,
                f"the files of {entry.title}",
                "move the folder away, then fetch again",
            )
        return Fetched(entry.name, here, True)
    if here is not None and any(here.iterdir()):
        return Fetched(
            entry.name,
            here,
            True,
            ("these files were put there manually; they are left as they are",),
        )
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        got = "other files than those of this corpus"
        raise InputError(
            f"fetch {entry.name}",
            str(target),
            got,
            "an empty place",
            "move them away, then fetch again",
        )
    return None


def _target_name(entry: CorpusEntry) -> str:
    """The folder that a fetch makes: of those where the corpus is looked for the first where all that share its files look."""
    sharing = [other for other in CORPORA.values() if other.downloads == entry.downloads]
    folders = entry.places
    shared = [folder for folder in folders if all(folder in other.places for other in sharing)]
    return (shared or folders)[0].split("/")[0]


def _folder(entry: CorpusEntry, place: Path) -> Path | None:
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


def _entry(name: str) -> CorpusEntry:
    entry = CORPORA.find(name, "fetch")
    if entry.generate is not None:
        command = "translate" if entry.task == "translation" else "run"
        raise InputError(
            "fetch",
            name,
            "a generated corpus",
            "a corpus that has files",
            f"attnaudit {command} {name} generates it",
        )
    return entry


def _from(
    entry: CorpusEntry, downloads: tuple[Download, ...], address: str | None
) -> tuple[Download, ...]:
    if address is None:
        return downloads
    if len(downloads) != 1:
        got = f"a corpus of {len(downloads)} downloads"
        raise InputError(
            f"fetch {entry.name}",
            "--from",
            got,
            "one of a single download",
            "get the files manually",
        )
    if wrong := invalid_utf8(address):
        raise InputError(
            f"fetch {entry.name}", "--from", f"'{address}' with {wrong}", "an address in UTF-8"
        )
    if not _is_of_the_web(address):
        raise InputError(
            f"fetch {entry.name}",
            "--from",
            f"'{address}'",
            "an address that begins with http:// or https://",
        )
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


def _sign(
    folder: Path, entry: CorpusEntry, downloads: tuple[Download, ...], files: list[Path]
) -> None:
    """Record what the folder of a corpus was made from: addresses, checksums, licence, and a digest of all that is in it."""
    got = [
        {
            "url": download.url,
            "sha256": sha256(file),
            "bytes": file.stat().st_size,
            "sha256_known_before": download.sha256 is not None,
        }
        for download, file in zip(downloads, files, strict=True)
    ]
    about = {
        "corpus": entry.name,
        "title": entry.title,
        "licence": entry.licence,
        "citation": entry.citation,
        "homepage": entry.homepage,
    }
    text = json.dumps(
        {**about, "downloads": got, **_contents(folder)}, indent=1, ensure_ascii=False
    )
    (folder / SOURCE).write_text(text + "\n", encoding="utf-8")


def _is_as_signed(folder: Path) -> bool:
    """Whether a signed folder has exactly the files that were fetched, unchanged. Raises RunError for a SOURCE.json that is damaged."""
    known = read_json(folder / SOURCE)
    return isinstance(known, dict) and all(
        known.get(key) == value for key, value in _contents(folder).items()
    )


def _contents(folder: Path) -> dict[str, Any]:
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path != folder / SOURCE)
    total = hashlib.sha256()
    for path in files:
        total.update(
            f"{path.relative_to(folder).as_posix()}\0{sha256(path)}\n".encode(
                errors="surrogateescape"
            )
        )
    return {
        "files": len(files),
        "unpacked_bytes": sum(path.stat().st_size for path in files),
        "contents_sha256": total.hexdigest(),
    }
