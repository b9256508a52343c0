"""A site over runs, audits, studies, reproductions, comparisons and calibrations.

What each folder is decides which of its pages are copied, and which data are read.
"""

from __future__ import annotations

import html
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import combinations, count
from pathlib import Path
from typing import TYPE_CHECKING

from attnaudit.core.errors import InputError, RunError
from attnaudit.core.files import content_key, read_json, unwritable, write_json, write_text
from attnaudit.core.printable import printable
from attnaudit.core.progress import Progress, silent
from attnaudit.plans.spec import SCHEMA
from attnaudit.recipes.compare import AUDITED, measured_run, trace_of
from attnaudit.report.cards.skill import no_skill_of_run
from attnaudit.results.record import read_record
from attnaudit.results.summary import SummaryRows
from attnaudit.steps.finished import read_spec, require_as_written, require_finished, require_text
from attnaudit.steps.folder import MANIFEST, SPEC

if TYPE_CHECKING:
    from attnaudit.report.site.page import SiteRun

PAGE, INDEX, MARK, DATA = "report.html", "index.html", "site.json", "data"
PAIRED_ROWS = 1_000_000  # compared for a site, in about a minute
HEADINGS = ("Studies", "Reproductions", "Comparisons", "Calibrations")
# Files that tell of what a folder is that has no spec of a run or a study.
_MARKED = {
    "reproduction.csv": "Reproductions",
    "differences.parquet": "Comparisons",
    "degree.json": "Calibrations",
}
_TITLE = re.compile(r"<title>(.*?)(?: – attnaudit)?</title>", re.DOTALL)


@dataclass
class _Found:
    """The folders of a site.

    Attributes:
        runs: Folders of runs by their place in the site.
        pages: Pages to copy, by their address.
        further: Addresses of pages that are not of runs, by heading.
    """

    runs: dict[str, Path] = field(default_factory=dict)
    pages: dict[str, Path] = field(default_factory=dict)
    further: dict[str, list[str]] = field(default_factory=dict)

    def add(self, folder: Path, place: str) -> None:
        """Put a folder at a place. Raises RunError if it holds nothing that a site shows."""
        require_text(folder)
        if not folder.is_dir():
            expected = "runs, audits, studies or reproductions"
            raise _refusal(folder, "no such folder", expected, "name folders that are there")
        heading = next((_MARKED[name] for name in _MARKED if (folder / name).exists()), "")
        if heading == "Reproductions":
            self._add_pages(heading, folder, place, [INDEX])
            for child in sorted([*folder.glob("runs/*"), *folder.glob("studies/*")]):
                if any(child.glob(MANIFEST)) or any(child.glob(f"*/{MANIFEST}")):
                    self.add(child, f"{place}/{child.relative_to(folder).as_posix()}")
        elif heading:
            self._add_pages(heading, folder, place, [PAGE])
        elif (folder / "calibration" / PAGE).exists():
            self.add(folder / "calibration", place)
        elif not (folder / SPEC).exists() and any(folder.glob(f"*/{MANIFEST}")):
            self._add_studies(folder, place)
        else:
            require_finished(folder)
            if read_spec(folder).get("kind") == "study":
                self._add_pages("Studies", folder, place, [PAGE])
            else:
                self._add_run(folder, place)

    def _add_studies(self, folder: Path, place: str) -> None:
        """Add all studies of one model, and the audit of it."""
        studies = sorted(path.parent.name for path in folder.glob(f"*/{MANIFEST}"))
        kinds = {name: read_spec(folder / name).get("kind") for name in studies}
        own = [f"{name}/{PAGE}" for name, kind in kinds.items() if kind == "study"]
        if not own:
            got, do = "a folder without a run or a study", "name the runs themselves"
            raise _refusal(folder, got, "a run directory", do)
        index = [INDEX] if (folder / INDEX).is_file() else []
        self._add_pages("Studies", folder, place, [*index, *own])
        for name, kind in kinds.items():
            if kind in AUDITED:
                self._add_run(folder / name, f"{place}/{name}")

    def _add_run(self, folder: Path, place: str) -> None:
        _check_run(folder)
        self.runs[place] = folder
        self.pages |= {f"{place}/{page.name}": page for page in folder.glob("*.html")}

    def _add_pages(self, heading: str, folder: Path, place: str, names: Sequence[str]) -> None:
        for name in names:
            if not (folder / name).is_file():
                do = "run the command that makes it again"
                raise _refusal(folder / name, "no such page", "a finished folder", do)
            self.pages[f"{place}/{name}"] = folder / name
            self.further.setdefault(heading, []).append(f"{place}/{name}")


def site_into(runs: Sequence[str | Path], out: str | Path, progress: Progress = silent) -> Path:
    """Write a site over finished work; one that is there is replaced once the new one is whole.

    Args:
        runs: Folders of runs, audits, studies, a reproduction, comparisons or a calibration.
        out: Folder of the site, or one file for all data, without further pages, if it ends in
            ``.html``.
        progress: Callback.

    Returns:
        The page.

    Raises:
        RunError: If ``out`` holds something else, and for a folder that cannot be shown.
    """
    out = Path(out)
    single = out.suffix == ".html"
    _check_out(out, single)
    found, folders = _Found(), [Path(run) for run in runs]
    for folder, place in zip(folders, _names(folders), strict=True):
        found.add(folder, place)
    if single and not found.runs:
        where, do = ", ".join(map(str, runs)), "choose a folder by --out"
        expected = "a run: one file holds the data of runs, and no further pages"
        raise _refusal(where, "no run", expected, do)
    with _staged(out, single) as staging:
        _write(staging, found, single, progress)
    return out if single else out / INDEX


def _write(staging: Path, found: _Found, single: bool, progress: Progress) -> None:
    """Write a site into a folder, or into one file."""
    # Charts and templates take long to import.
    from attnaudit.report.site.contents import script
    from attnaudit.report.site.page import write_index

    kept: dict[str, str] = {}

    def keep(key: str, packed: str) -> None:
        if single:
            kept[key] = packed
        else:
            write_text(staging / DATA / f"{key}.js", script(key, packed))

    texts: dict[str, str] = {}
    shown = []
    for number, (place, folder) in enumerate(found.runs.items()):
        progress("read runs", number, len(found.runs))
        page = "" if single else f"{place}/{PAGE}"
        shown.append(_read(folder, place, page, texts, number, keep))
    progress("write the site", len(found.runs), len(found.runs))
    pairs = _pairs(list(found.runs.values()), shown, keep)
    if single:
        write_index(staging, shown, {}, pairs, kept)
        return
    further = {
        name: list(_titles(found, found.further[name]))
        for name in HEADINGS
        if name in found.further
    }
    for address, page in found.pages.items():
        write_text(staging / address, _text_of(page))
    write_index(staging / INDEX, shown, further, pairs)
    files = [path.relative_to(staging).as_posix() for path in _files(staging)]
    write_json(staging / MARK, {"schema": SCHEMA, "kind": "site", "files": [*sorted(files), MARK]})


def _read(
    folder: Path,
    place: str,
    page: str,
    texts: dict[str, str],
    number: int,
    keep: Callable[[str, str], None],
) -> SiteRun:
    """Return a run as the site shows it, and keep its data; ``texts`` are keys by fingerprint."""
    from attnaudit.report.site.contents import contents
    from attnaudit.report.site.page import SiteRun

    measured, trace = measured_run(folder), trace_of(folder)
    record = read_record(folder, trace)
    held, key = contents(measured, record, trace), f"run-{number}"
    keep(f"{key}-columns", held.columns)
    keep(f"{key}-weights", held.weights)
    fingerprint = content_key(held.texts)
    if fingerprint not in texts:
        texts[fingerprint] = f"texts-{len(texts)}"
        keep(texts[fingerprint], held.texts)
    notice = no_skill_of_run(SummaryRows.of(record.summary))
    name = printable(place.replace("/runs/", "/"))
    sizes = held.rows, held.instances
    return SiteRun(name, key, record, *sizes, texts[fingerprint], page, notice)


def _pairs(
    folders: Sequence[Path], shown: Sequence[SiteRun], keep: Callable[[str, str], None]
) -> dict[str, dict[str, str]]:
    """Compare runs two by two, those on the same texts first, until `PAIRED_ROWS` are compared.

    Returns:
        For a pair, as ``0-1``, the key of its comparison, or the reason why there is none.
    """
    from attnaudit.report.site.contents import paired_contents

    read, room, pairs = lru_cache(2)(measured_run), PAIRED_ROWS, {}
    every = combinations(range(len(shown)), 2)
    for a, b in sorted(every, key=lambda two: shown[two[0]].texts != shown[two[1]].texts):
        room -= min(shown[a].rows, shown[b].rows)
        if room < 0:
            break
        key = f"pair-{a}-{b}"
        try:
            one, other = (replace(read(folders[k]), name=shown[k].name) for k in (a, b))
            keep(key, paired_contents(one, other))
        except InputError as error:
            pairs[f"{a}-{b}"] = {"reason": str(error)}
        else:
            pairs[f"{a}-{b}"] = {"key": key}
    return pairs


def _check_run(folder: Path) -> None:
    """Check that a folder is a finished run of this schema, with its page. Raises RunError."""
    require_as_written(folder)
    spec = read_spec(folder)
    if spec.get("kind") not in AUDITED:
        got, expected = f"a folder of kind {spec.get('kind')}", "a run, an audit, a study"
        raise _refusal(folder, got, expected, "name runs/…")
    if spec.get("schema") != SCHEMA:
        got, do = f"schema {spec.get('schema')}", "run it again with this version of attnaudit"
        raise _refusal(folder / SPEC, got, f"schema {SCHEMA}", do)
    if not (folder / PAGE).is_file():
        do = f"write it with attnaudit report {folder}"
        raise _refusal(folder, f"no {PAGE}", "a run with its page", do)


def _titles(found: _Found, addresses: Sequence[str]) -> Iterator[tuple[str, str]]:
    for address in addresses:
        title = _TITLE.search(_text_of(found.pages[address]))
        yield html.unescape(title[1]).strip() if title else address, address


def _text_of(page: Path) -> str:
    """Read a page of a folder. Raises RunError."""
    try:
        return page.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        do = f"write it with attnaudit report {page.parent}, or run the command that made it again"
        raise _refusal(page, str(error), "a page written by attnaudit", do) from error


def _check_out(out: Path, single: bool) -> None:
    """Raise RunError if something else than a site is at ``out``."""
    got = ""
    if single and out.is_dir():
        got = "a folder"
    elif single and out.exists():
        is_site = 'id="site-data"' in out.read_text(encoding="utf-8", errors="replace")
        got = "" if is_site else "a file that is no site"
    elif out.is_dir():
        mark = read_json(out / MARK) if (out / MARK).is_file() else None
        listed = mark.get("files", ()) if isinstance(mark, dict) else ()
        names = (path.relative_to(out).as_posix() for path in _files(out))
        foreign = next((name for name in names if name not in listed), "")
        got = f"it holds a file that is not of the site: {foreign}" if foreign else ""
    elif out.exists():
        got = "a file"
    if got:
        place = "a new file" if single else "a new or empty folder"
        raise _refusal(out, got, f"{place}, or an earlier site", "choose another --out")


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file() or path.is_symlink())


def _refusal(where: str | Path, got: str, expected: str, do: str) -> RunError:
    return RunError("report", str(where), got, expected, do)


@contextmanager
def _staged(out: Path, single: bool) -> Iterator[Path]:
    """Yield a place next to ``out``, which replaces it unless there is an error."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(dir=out.parent, prefix=f".{out.name}."))
    except OSError as error:
        raise unwritable(out, error) from error
    made, before = scratch / out.name, scratch / "before"
    try:
        if not single:
            made.mkdir(mode=0o755)
        yield made
        if out.is_dir():
            out.replace(before)
        try:
            made.replace(out)
        except OSError:
            if before.exists():
                before.replace(out)
            raise
    except OSError as error:
        raise unwritable(out, error) from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _names(folders: Sequence[Path]) -> list[str]:
    """Name folders by themselves, numbered if a name is that of another or of the site's files."""
    names: list[str] = []
    for folder in folders:
        base = folder.resolve().name
        numbered = (base if k == 1 else f"{base}-{k}" for k in count(1))
        names.append(next(name for name in numbered if name not in (*names, DATA, INDEX, MARK)))
    return names
