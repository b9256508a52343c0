"""Fetching a registered corpus: all its files are put into its folder, or none is."""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from attnaudit.core import InputError, Progress, RunError, require, sha256, silent
from attnaudit.corpora.formats.archives import archive_kind, unpack
from attnaudit.corpora.registry import CORPORA, CorpusEntry, Download, corpus_folder, data_folder

SOURCE = "SOURCE.json"  # where the files of a folder are from
RETRIES = 3  # of a download whose connection breaks
_LARGEST = 2 << 30  # bytes of a download whose size is not known


@dataclass(frozen=True)
class Fetched:
    """The folder of a corpus, whether it was ``already`` there, and notes for the user."""

    name: str
    folder: Path
    already: bool
    notes: tuple[str, ...] = ()


def fetch_corpus(
    name: str,
    data_dir: str | Path | None = None,
    address: str | None = None,
    progress: Progress = silent,
    check: Callable[[Path], None] | None = None,
) -> Fetched:
    """Put the files of a registered corpus into its folder, with a SOURCE.json.

    A corpus that is there already, fetched or not, is left alone. Two processes that fetch one
    corpus wait for each other.

    Args:
        name: The corpus.
        data_dir: Data directory.
        address: Mirror of its only download.
        progress: Called with the kilobytes of each download.
        check: Called with a data directory that holds the files before they get their place; they
            are refused if it raises.

    Raises:
        InputError: If it cannot be fetched.
    """
    require("train", "corpora fetch")
    from filelock import FileLock

    entry = CORPORA.find(name, "fetch")
    if entry.generate is not None:
        expected = "a corpus that has files"
        raise _failed(entry, name, "a generated corpus", expected, f"attnaudit run {name}")
    if address is not None:
        if len(entry.downloads) != 1 or not address.lower().startswith(("http://", "https://")):
            got = f"{address!r}, and {len(entry.downloads)} downloads"
            raise _failed(entry, "--from", got, "one http(s) address", "or get the files manually")
        entry = replace(entry, downloads=(replace(entry.downloads[0], url=address),))
    place = data_folder(data_dir)[0].absolute()
    # Corpora of the same files share the first folder where all of them look.
    sharing = [set(one.places) for one in CORPORA.values() if one.downloads == entry.downloads]
    shared = [one for one in entry.places if all(one in places for places in sharing)]
    target = place / (shared or entry.places)[0].split("/")[0]

    def present():
        folder = corpus_folder(entry, place)
        return folder and Fetched(name, folder, True)

    try:
        if already := present():
            return already
        if not entry.downloads:
            how = entry.how_to_get or f"see {entry.homepage or entry.citation}"
            got = "no address that a program may fetch it from"
            raise _failed(entry, entry.title, got, f"a copy in {target}", how)
        place.mkdir(parents=True, exist_ok=True)
        with FileLock(target.with_name(f".{target.name}.lock")):
            return present() or _fetched(entry, target, progress, check)
    except OSError as error:
        got, do = error.strerror or str(error), "free some space, or choose another --data-dir"
        expected = "a place that can be written"
        raise RunError(f"fetch {name}", str(place), got, expected, do) from error


def _failed(entry: CorpusEntry, where: object, got: str, expected: str, do: str) -> InputError:
    page = f"; its page is {entry.homepage}" if entry.homepage else ""
    return InputError(f"fetch {entry.name}", str(where), got, expected, f"{do}{page}")


def _fetched(
    entry: CorpusEntry, target: Path, progress: Progress, check: Callable[[Path], None] | None
) -> Fetched:
    if target.is_file() or any(target.glob("*")):
        got, do = "other files than those of this corpus", "move them away, then fetch again"
        raise _failed(entry, target, got, f"the files of {entry.title}", do)
    notes, downloads = [], []
    # Beside its place, so that the whole corpus gets it in one step.
    staging = target.with_name(f".{target.name}.new")
    shutil.rmtree(staging, ignore_errors=True)  # of a process that was killed
    folder = staging / target.name
    folder.mkdir(parents=True)
    try:
        for download in entry.downloads:
            file = _download(entry, download, staging / "parts", progress)
            place = folder / (download.path or file.name)
            known = {"url": download.url, "sha256": sha256(file), "bytes": file.stat().st_size}
            downloads.append({**known, "sha256_known_before": bool(download.sha256)})
            if not download.sha256:
                told = f"the download has sha256 {known['sha256']}, recorded in {SOURCE}"
                notes.append(f"no checksum of {download.url} is known; {told}")
            if archive_kind(file):
                unpack(file, folder / download.path)
                file.unlink()
            else:
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.move(file, place)
        about = {"corpus": entry.name, "title": entry.title, "licence": entry.licence}
        about |= {"citation": entry.citation, "homepage": entry.homepage}
        text = json.dumps({**about, "downloads": downloads}, indent=1, ensure_ascii=False)
        (folder / SOURCE).write_text(f"{text}\n", encoding="utf-8")
        if check is not None:
            check(staging)
        if target.is_dir():
            target.rmdir()  # an empty one
        folder.rename(target)
    except InputError as error:
        if error.operation.startswith("fetch"):
            raise
        where, got = entry.downloads[0].url, f"the download cannot be used ({error})"
        do = "nothing was kept; get them manually"
        raise _failed(entry, where, got, f"the files of {entry.title}", do) from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return Fetched(entry.name, corpus_folder(entry, target.parent) or target, False, tuple(notes))


def _download(entry: CorpusEntry, download: Download, folder: Path, progress: Progress) -> Path:
    """Download one file, checked by pooch, which writes to a temporary name."""
    import pooch
    import requests

    pooch.get_logger().setLevel("WARNING")  # it logs every step
    name = download.url.partition("?")[0].rpartition("/")[2] or "download"
    most = _LARGEST if download.size is None else 2 * download.size + (1 << 20)
    bar: Any = _Bar(f"fetch {name} (kB)", most, progress)
    headers = {"Accept-Encoding": "identity", "User-Agent": "attnaudit"}
    known = f"sha256:{download.sha256}" if download.sha256 else None
    files = pooch.create(
        folder, "", registry={name: known}, urls={name: download.url}, retry_if_failed=RETRIES
    )
    expected, do = "the file itself", "check the network, or name a mirror with --from"
    try:
        by_http: Any = pooch.HTTPDownloader(progressbar=bar, headers=headers)
        return Path(files.fetch(name, downloader=by_http))
    except _TooLarge:
        got = f"more than {most} bytes"
    except requests.exceptions.RequestException as error:
        got = " ".join(str(error).split())
    except ValueError:  # how pooch reports another checksum
        got, expected = "a file with another checksum", f"sha256 {download.sha256}"
    raise _failed(entry, download.url, got, expected, f"{do}; nothing of it was kept")


class _TooLarge(Exception):
    """A download is larger than the corpus."""


class _Bar:
    """The progress bar that pooch calls with the bytes of each part."""

    def __init__(self, stage: str, most: int, progress: Progress) -> None:
        self.stage, self.most, self.progress = stage, most, progress
        self.total = self.done = 0

    def update(self, size: int) -> None:
        """Add bytes. Raises _TooLarge."""
        self.done += size
        if max(self.total, self.done) > self.most:
            raise _TooLarge
        self.progress(self.stage, self.done // 1000, self.total // 1000)

    def reset(self) -> None:
        """Begin again; pooch then adds all bytes at once."""
        self.done = 0

    close = reset
