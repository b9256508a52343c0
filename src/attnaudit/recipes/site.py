"""A site over runs, audits, studies, reproductions, comparisons and calibrations."""

from __future__ import annotations

import html
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from attnaudit.core import (
    Progress,
    RunError,
    content_key,
    expanded,
    printable,
    read_json,
    silent,
    unwritable,
    write_json,
    write_text,
)
from attnaudit.plans.spec import SCHEMA
from attnaudit.recipes.audit import PAGE
from attnaudit.recipes.compare import AUDITED, DIFFERENCES, measured_run, trace_of
from attnaudit.report.cards.skill import no_skill_of_run
from attnaudit.results import SummaryRows, read_record
from attnaudit.steps import MANIFEST, SPEC, read_spec, require_as_written, require_finished
from attnaudit.steps.finished import require_text
from attnaudit.steps.folder import is_free

if TYPE_CHECKING:
    from attnaudit.report.site.page import SiteRun

INDEX, MARK, DATA = "index.html", "site.json", "data"
# Headings of work that is no run, by the kind of its spec, and of indexes.
HEADINGS = {
    "study": "Studies",
    "reproduction": "Reproductions",
    "comparison": "Comparisons",
    "calibration": "Calibrations",
}
_TITLE = re.compile(r"<title>(.*?)(?: – attnaudit)?</title>", re.DOTALL)


@dataclass(frozen=True)
class Part:
    """Finished work that a site shows.

    Attributes:
        kind: Kind of its spec, or ``reproduction`` or ``comparison``.
        folder: Its folder.
        place: Its place in the site.
        pages: Names of the pages that are copied.
    """

    kind: str
    folder: Path
    place: str
    pages: Sequence[str]


def parts_of(folder: Path, place: str) -> Iterator[Part]:
    """Yield what a folder is, or all finished work with a page below it, and indexes.

    Raises:
        RunError: If it holds nothing that a site shows.
    """
    require_text(folder)
    if not folder.is_dir():
        expected = "runs, audits, studies or reproductions"
        raise _refusal(folder, "no such folder", expected, "name folders that are there")
    if (folder / SPEC).exists():
        yield _finished(folder, place)
        return
    if (folder / DIFFERENCES).exists():
        yield Part("comparison", folder, place, [PAGE])
        return
    found = sorted(path.parent for path in folder.rglob(MANIFEST) if path.with_name(PAGE).exists())
    if not found:
        do = "name the runs themselves"
        raise _refusal(folder, "a folder without a run or a study", "a run directory", do)
    for index in sorted(folder.rglob(INDEX)):
        kind = "reproduction" if index.with_name("reproduction.csv").exists() else "study"
        yield Part(kind, index.parent, _below(place, folder, index.parent), [INDEX])
    for one in found:
        yield _finished(one, _below(place, folder, one))


def _below(place: str, folder: Path, child: Path) -> str:
    return "/".join((place, *child.relative_to(folder).parts))


def _finished(folder: Path, place: str) -> Part:
    """Return finished work, a run checked to be of this schema and as written. Raises RunError."""
    require_finished(folder)
    spec = read_spec(folder)
    kind = str(spec.get("kind"))
    if kind in AUDITED:
        require_as_written(folder)
        if spec.get("schema") != SCHEMA:
            do = "run it again with this version of attnaudit"
            raise _refusal(folder / SPEC, f"schema {spec.get('schema')}", f"schema {SCHEMA}", do)
    elif kind not in HEADINGS:
        expected = "a run, an audit, a study"
        raise _refusal(folder, f"a folder of kind {kind}", expected, "name runs/…")
    if not (folder / PAGE).is_file():
        do = f"write it with attnaudit report {folder}"
        raise _refusal(folder, f"no {PAGE}", "finished work with its page", do)
    pages = [page.name for page in folder.glob("*.html")] if kind in AUDITED else [PAGE]
    return Part(kind, folder, place, pages)


def site_into(runs: Sequence[str | Path], out: str | Path, progress: Progress = silent) -> Path:
    """Write a site over finished work; one that is there is replaced once the new one is whole.

    Args:
        runs: Folders of runs, audits, studies, a reproduction, comparisons or a calibration, or
            folders that hold such.
        out: Folder of the site.
        progress: Callback.

    Returns:
        The page.

    Raises:
        RunError: If ``out`` holds something else, and for a folder that cannot be shown.
    """
    out, folders = expanded(out), [expanded(run) for run in runs]
    mark = read_json(out / MARK) if (out / MARK).is_file() else {}
    is_own = out.is_dir() and set(_files(out)) <= set(mark.get("files", ()))
    if not is_own and not is_free(out):
        expected = "a new or empty folder, or an earlier site alone"
        raise _refusal(out, "something else is there", expected, "choose another --out")
    places = zip(folders, _names(folders), strict=True)
    parts = [part for folder, place in places for part in parts_of(folder, place)]
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as scratch:
            made = Path(scratch) / out.name
            _write(made, parts, progress)
            if out.is_dir():
                out.replace(Path(scratch) / "before")
            made.replace(out)
    except OSError as error:
        raise unwritable(out, error) from error
    return out / INDEX


def _write(site: Path, parts: Sequence[Part], progress: Progress) -> None:
    """Write a site into a folder."""
    # Charts and templates take long to import.
    from attnaudit.report.site.contents import script
    from attnaudit.report.site.page import write_index

    def keep(key, packed):
        write_text(site / DATA / f"{key}.js", script(key, packed))

    runs = [part for part in parts if part.kind in AUDITED]
    texts: dict[str, str] = {}
    shown = []
    for number, part in enumerate(runs):
        progress("read runs", number, len(runs))
        shown.append(_read(part, f"run-{number}", texts, keep))
    progress("write the site", len(runs), len(runs))
    further: dict[str, list[tuple[str, str]]] = {kind: [] for kind in HEADINGS}
    for part in parts:
        for name in part.pages:
            address, text = f"{part.place}/{name}", _text_of(part.folder / name)
            write_text(site / address, text)
            if part.kind in further:
                title = _TITLE.search(text)
                titled = html.unescape(title[1]).strip() if title else address
                further[part.kind].append((titled, address))
    listed = {HEADINGS[kind]: pages for kind, pages in further.items() if pages}
    write_index(site / INDEX, shown, listed)
    write_json(site / MARK, {"schema": SCHEMA, "kind": "site", "files": [*_files(site), MARK]})


def _read(part: Part, key: str, texts: dict[str, str], keep: Callable[[str, str], None]) -> SiteRun:
    """Return a run as the site shows it, and keep its data; ``texts`` are keys by fingerprint."""
    from attnaudit.report.site.contents import contents
    from attnaudit.report.site.page import SiteRun

    measured, trace = measured_run(part.folder), trace_of(part.folder)
    record = read_record(part.folder, trace)
    held = contents(measured, record, trace)
    keep(f"{key}-columns", held.columns)
    keep(f"{key}-weights", held.weights)
    fingerprint = content_key(held.texts)
    if fingerprint not in texts:
        texts[fingerprint] = f"texts-{len(texts)}"
        keep(texts[fingerprint], held.texts)
    notice = no_skill_of_run(SummaryRows.of(record.summary))
    name = printable(part.place.replace("/runs/", "/"))
    sizes = held.rows, held.instances
    return SiteRun(name, key, record, *sizes, texts[fingerprint], f"{part.place}/{PAGE}", notice)


def _text_of(page: Path) -> str:
    """Read a page of a folder. Raises RunError."""
    try:
        return page.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        do = f"write it with attnaudit report {page.parent}, or repeat the command that made it"
        raise _refusal(page, str(error), "a page written by attnaudit", do) from error


def _files(folder: Path) -> list[str]:
    """List the files of a folder, by their path in it."""
    return sorted(
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir()
    )


def _refusal(where: str | Path, got: str, expected: str, do: str) -> RunError:
    return RunError("report", str(where), got, expected, do)


def _names(folders: Sequence[Path]) -> list[str]:
    """Name folders by themselves, numbered if a name is that of another or of the site's files."""
    names: list[str] = []
    for folder in folders:
        base = folder.resolve().name
        numbered = (base if k == 1 else f"{base}-{k}" for k in count(1))
        names.append(next(name for name in numbered if name not in (*names, DATA, INDEX, MARK)))
    return names
