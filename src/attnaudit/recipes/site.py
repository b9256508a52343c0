"""A site over runs, audits, studies, reproductions, comparisons and calibrations: what each folder is, and what is copied of it."""

from __future__ import annotations

import html
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import combinations
from pathlib import Path
from typing import Any

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
from attnaudit.steps.folder import MANIFEST

PAGE, INDEX, MARK, DATA = "report.html", "index.html", "site.json", "data"
PAIRED_ROWS = 1_000_000  # compared for a site, in about a minute
HEADINGS = ("Studies", "Reproductions", "Comparisons", "Calibrations")
_TITLE = re.compile(r"<title>(.*?)(?: – attnaudit)?</title>", re.DOTALL)


@dataclass
class _Found:
    """What the folders of a site are: ``runs`` by the place that they get in it, ``pages`` to copy, the further ones by heading."""

    runs: dict[str, Path] = field(default_factory=dict)
    pages: dict[str, Path] = field(default_factory=dict)
    further: dict[str, list[str]] = field(default_factory=dict)

    def add(self, folder: Path, place: str) -> None:
        """Put ``folder`` at ``place``. Raises RunError where it holds nothing that a site shows."""
        require_text(folder)
        if not folder.is_dir():
            raise RunError(
                "report",
                str(folder),
                "no such folder",
                "runs, audits, studies or reproductions",
                "name folders that are there",
            )
        if (folder / "reproduction.csv").exists() and (folder / INDEX).exists():
            self._add_pages("Reproductions", folder, place, [INDEX])
            for manifest in sorted((folder / "runs").glob(f"*/{MANIFEST}")):
                self._add_run(manifest.parent, f"{place}/runs/{manifest.parent.name}")
            for studies in sorted(
                {
                    manifest.parent.parent
                    for manifest in (folder / "studies").glob(f"*/*/{MANIFEST}")
                }
            ):
                self._add_studies(studies, f"{place}/studies/{studies.name}")
            for manifest in sorted((folder / "studies").glob(f"*/{MANIFEST}")):
                self._add_pages(
                    "Studies", manifest.parent, f"{place}/studies/{manifest.parent.name}", [PAGE]
                )
        elif (folder / "differences.parquet").exists():
            self._add_pages("Comparisons", folder, place, [PAGE])
        elif (folder / "calibration" / PAGE).exists():
            self._add_pages("Calibrations", folder / "calibration", place, [PAGE])
        elif (folder / "degree.json").exists():
            self._add_pages("Calibrations", folder, place, [PAGE])
        elif not (folder / "spec.json").exists() and any(folder.glob(f"*/{MANIFEST}")):
            self._add_studies(folder, place)
        else:
            require_finished(folder)
            kind = read_spec(folder).get("kind")
            if kind == "study":
                self._add_pages("Studies", folder, place, [PAGE])
            else:
                self._add_run(folder, place)

    def _add_studies(self, folder: Path, place: str) -> None:
        """All studies of one model, and the audit of it."""
        studies = sorted(path.parent.name for path in folder.glob(f"*/{MANIFEST}"))
        kinds = {name: read_spec(folder / name).get("kind") for name in studies}
        if "study" not in kinds.values():
            raise RunError(
                "report",
                str(folder),
                "a folder without a run or a study",
                "a run directory",
                "name the runs themselves",
            )
        own = [f"{name}/{PAGE}" for name, kind in kinds.items() if kind == "study"]
        own = [*([INDEX] if (folder / INDEX).is_file() else []), *own]
        self._add_pages("Studies", folder, place, own)
        for name, kind in kinds.items():
            if kind in AUDITED:
                self._add_run(folder / name, f"{place}/{name}")

    def _add_run(self, folder: Path, place: str) -> None:
        _check_run(folder)
        self.runs[place] = folder
        for page in folder.glob("*.html"):
            self.pages[f"{place}/{page.name}"] = page

    def _add_pages(self, heading: str, folder: Path, place: str, names: Sequence[str]) -> None:
        for name in names:
            if not (folder / name).is_file():
                raise RunError(
                    "report",
                    str(folder / name),
                    "no such page",
                    "a finished folder",
                    "run the command that makes it again",
                )
            self.pages[f"{place}/{name}"] = folder / name
        self.further.setdefault(heading, []).extend(f"{place}/{name}" for name in names)


def site_into(
    runs: Sequence[str | Path], out: str | Path, progress: Progress | None = None
) -> Path:
    """Write a site over finished ``runs`` into the folder ``out``, or one file where ``out`` ends in ``.html``; returns its page.

    ``runs`` are runs, audits, folders of studies, of a reproduction with its runs and studies, of comparisons or of a calibration. A site
    that is there is replaced once the new one is whole. Raises RunError where ``out`` holds something else, and for a folder that cannot
    be shown.
    """
    out, progress = Path(out), progress or silent
    single = out.suffix == ".html"
    before = _site_files(out, single)
    found = _Found()
    folders = [Path(run) for run in runs]
    for folder, place in zip(folders, _names(folders), strict=True):
        found.add(folder, place)
    if single and not found.runs:
        expected, do = (
            "a run: one file holds the data of runs, and no further pages",
            "choose a folder by --out",
        )
        raise RunError("report", ", ".join(map(str, runs)), "no run", expected, do)
    with _staged(out, single, before) as staging:
        _write(staging, found, single, progress)
    return out if single else out / INDEX


def _write(staging: Path, found: _Found, single: bool, progress: Progress) -> None:
    """Everything of a site into ``staging``, a folder, or for a ``single`` file its path."""
    from attnaudit.report.site.page import (
        OVERVIEW,
        Further,
        overview,
        write_index,
    )  # charts and templates: slow to import

    kept: dict[str, str] = {}

    def keep(key: str, packed: str) -> None:
        from attnaudit.report.site.packing import script

        if single:
            kept[key] = packed
        else:
            write_text(staging / DATA / f"{key}.js", script(key, packed))

    texts: dict[str, str] = {}
    shown = []
    for number, (place, folder) in enumerate(found.runs.items()):
        progress("read runs", number, len(found.runs))
        run, packed_texts = _read(folder, place, number, keep)
        key = texts.setdefault(content_key(packed_texts), f"texts-{len(texts)}")
        if key == f"texts-{len(texts) - 1}":
            keep(key, packed_texts)
        page = "" if single else f"{place}/{PAGE}"
        shown.append(replace(run, page=page, texts=key))
    progress("write the site", len(found.runs), len(found.runs))
    keep(OVERVIEW, overview(shown))
    further = (
        []
        if single
        else [
            Further(name, tuple(_titles(found, found.further[name])))
            for name in HEADINGS
            if name in found.further
        ]
    )
    pairs = _pairs(list(found.runs.values()), shown, keep)
    if single:
        write_index(staging, shown, further, pairs, kept)
        return
    for address, page in found.pages.items():
        write_text(staging / address, _text_of(page))
    write_index(staging / INDEX, shown, further, pairs)
    files = sorted(
        path.relative_to(staging).as_posix() for path in staging.rglob("*") if path.is_file()
    )
    write_json(staging / MARK, {"schema": SCHEMA, "kind": "site", "files": [*files, MARK]})


def _read(folder: Path, place: str, number: int, keep: Any) -> tuple[Any, str]:
    """A run as the site shows it, its columns and weights kept, and its texts."""
    from attnaudit.report.site.contents import contents, known_figures
    from attnaudit.report.site.page import SiteRun

    measured, trace = measured_run(folder), trace_of(folder)
    record = read_record(folder, trace)
    held = contents(measured, record, trace)
    columns, weights = f"run-{number}-columns", f"run-{number}-weights"
    keep(columns, held.columns)
    keep(weights, held.weights)
    notice = no_skill_of_run(SummaryRows.of(record.summary))
    return SiteRun(
        printable(place.replace("/runs/", "/")), "", record.about, known_figures(record), held.measures, held.rows, held.instances, notice,
        columns, weights,
    ), held.texts  # fmt: skip


def _pairs(
    folders: Sequence[Path], shown: Sequence[Any], keep: Callable[[str, str], None]
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
    """Raise RunError unless ``folder`` is a finished run of this schema, with its page, as its manifest lists it."""
    require_as_written(folder)
    spec = read_spec(folder)
    if spec.get("kind") not in AUDITED:
        raise RunError(
            "report",
            str(folder),
            f"a folder of kind {spec.get('kind')}",
            "a run, an audit, a study",
            "name runs/…",
        )
    if spec.get("schema") != SCHEMA:
        got, do = f"schema {spec.get('schema')}", "run it again with this version of attnaudit"
        raise RunError("report", str(folder / "spec.json"), got, f"schema {SCHEMA}", do)
    if not (folder / PAGE).is_file():
        raise RunError(
            "report",
            str(folder),
            f"no {PAGE}",
            "a run with its page",
            f"write it with attnaudit report {folder}",
        )


def _titles(found: _Found, addresses: Sequence[str]) -> Iterator[tuple[str, str]]:
    for address in addresses:
        title = _TITLE.search(_text_of(found.pages[address]))
        yield html.unescape(title[1]).strip() if title else address, address


def _text_of(page: Path) -> str:
    """A page of a folder. Raises RunError where it cannot be read."""
    try:
        return page.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        do = f"write it with attnaudit report {page.parent}, or run the command that made it again"
        raise RunError(
            "report", str(page), " ".join(str(error).split()), "a page written by attnaudit", do
        ) from error


def _site_files(out: Path, single: bool) -> bool:
    """Whether a site is at ``out`` already. Raises RunError where something else is."""
    if single:
        if out.is_dir():
            raise RunError(
                "report", str(out), "a folder", "a file to write", "choose another --out"
            )
        if out.exists() and 'id="site-data"' not in out.read_text(
            encoding="utf-8", errors="replace"
        ):
            raise RunError(
                "report",
                str(out),
                "a file that is no site",
                "a new file, or an earlier site",
                "choose another --out",
            )
        return out.exists()
    expected, do = "a new or empty folder, or an earlier site", "choose another --out"
    if not out.exists():
        return False
    if not out.is_dir():
        raise RunError("report", str(out), "a file", expected, do)
    if not (out / MARK).is_file():
        held = min(
            (path.name for path in out.iterdir()), default=None
        )  # whatever it is, it is not searched
        if held is not None:
            raise RunError(
                "report",
                str(out),
                f"a folder that is not empty and holds no site ({held})",
                expected,
                do,
            )
        return True
    held = sorted(
        path.relative_to(out).as_posix()
        for path in out.rglob("*")
        if path.is_file() or path.is_symlink()
    )
    mark = read_json(out / MARK)
    listed = mark.get("files") if isinstance(mark, dict) and mark.get("kind") == "site" else None
    foreign = (
        held if not isinstance(listed, list) else [name for name in held if name not in listed]
    )
    if foreign:
        raise RunError(
            "report",
            str(out),
            f"it holds a file that is not of the site: {foreign[0]}",
            expected,
            do,
        )
    return True


@contextmanager
def _staged(out: Path, single: bool, before: bool) -> Iterator[Path]:
    """A place next to ``out`` to write into, which takes the place of ``out`` once all is written, and is removed after an error."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(dir=out.parent, prefix=f".{out.name}."))
    except OSError as error:
        raise unwritable(out, error) from error
    try:
        made = scratch / out.name
        if not single:
            made.mkdir(mode=0o755)
        yield made
        if before and not single:
            out.replace(scratch / "before")
        try:
            made.replace(out)
        except OSError:
            if before and not single:
                (scratch / "before").replace(out)
            raise
    except OSError as error:
        raise unwritable(out, error) from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _names(folders: Sequence[Path]) -> list[str]:
    """The folders' own names, numbered where two are the same, or where one would be a file of the site."""
    taken: set[str] = {DATA, INDEX, MARK}
    names = []
    for folder in folders:
        base = folder.resolve().name
        names.append(
            next(
                name
                for k in range(1, len(folders) + 4)
                if (name := base if k == 1 else f"{base}-{k}") not in taken
            )
        )
        taken.add(names[-1])
    return names
