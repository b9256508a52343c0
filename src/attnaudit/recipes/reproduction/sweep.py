"""A paper reproduced: every cell that is not done yet, a record of each that is, and the page over all records."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from attnaudit.core.errors import InputError, RunError
from attnaudit.core.files import write_text
from attnaudit.core.progress import Progress, silent, within
from attnaudit.papers import PAPERS, Cell, Declaration
from attnaudit.published.numbers import ONCE
from attnaudit.published.reproduction import NotRun
from attnaudit.recipes.reading import LastCorpus
from attnaudit.recipes.reproduction.cells import RUNS, Finished, found_in
from attnaudit.recipes.reproduction.jobs import (
    STUDIES,
    CopyingJob,
    Job,
    Options,
    RunJob,
    StudyJob,
    command_of,
    do_run,
    job_of,
    kept,
    over_seeds,
    settings_changed,
    study_of,
)
from attnaudit.recipes.reproduction.records import FOLDER, load, place_of, records_of, save
from attnaudit.recipes.reproduction.twice import (
    not_asked_for,
    not_run_of,
    record_corpora,
    recorded,
    reproduction_of,
)
from attnaudit.steps import SERIAL, Call, Planned, Pool
from attnaudit.steps.finished import read_spec, whole_manifest
from attnaudit.steps.folder import MANIFEST

Say = Callable[[str], None]
_SECTION = re.compile(r"^(?:#+ (.*)|- (`[^`]+`): `attnaudit)", re.MULTILINE)
PAGE, MARKDOWN, TABLE = "index.html", "reproduction.md", "reproduction.csv"


@dataclass(frozen=True)
class Sweep:
    """Which cells of a ``paper``, how, and where: below ``out`` are ``runs``, ``studies`` and the page ``index.html``.

    ``vectors`` None means the default of each corpus; ``settings`` are dotted settings of every cell; ``records`` is the folder of the
    paper's records, by default ``out/records``.
    """

    out: Path
    cells: Sequence[Cell]
    data_dir: str | None = None
    vectors: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    paper: Declaration = PAPERS["jain2019"]
    records: Path | None = None

    @property
    def kept(self) -> Path:
        return self.records or self.out / FOLDER

    def job(self, cell: Cell) -> Job:
        return job_of(
            self.paper, cell, self.out, Options(self.data_dir, self.vectors, self.settings)
        )

    def check(self) -> None:
        """Raise InputError where there is no file of word vectors, and for a setting of a study that no cell is of.

        RunError where ``out`` holds something else than a reproduction.
        """
        _check_out(self.out)
        if self.data_dir is not None and not Path(self.data_dir).expanduser().is_dir():
            raise InputError(
                "reproduce",
                f"--data-dir {self.data_dir}",
                "no such folder",
                "the folder of the corpora",
            )
        asked = sorted({cell.study for cell in self.cells if cell.study})
        for key in self.settings:
            if study_of(key) not in ("", *asked):
                expected = f"a setting of {', '.join(asked)}" if asked else "no setting of a study"
                raise InputError(
                    "reproduce",
                    f"--set {key}",
                    "a setting of a study that no requested cell is of",
                    expected,
                )
        if (
            self.vectors not in (None, "corpus", "random")
            and not Path(self.vectors).expanduser().is_file()
        ):
            raise InputError(
                "reproduce",
                "--vectors",
                repr(self.vectors),
                "corpus, random or a file of word vectors",
            )


@dataclass(frozen=True)
class Outcome:
    """The page, how many of the cells asked for are ``done``, why others are not, and what else the page should tell."""

    page: Path
    done: int
    not_run: tuple[NotRun, ...]
    notes: tuple[str, ...]


def reproduce(
    sweep: Sweep, progress: Progress | None = None, say: Say = lambda line: None, pool: Pool = SERIAL
) -> Outcome:  # fmt: skip
    """Do the cells that are not done yet, record all that are, and write the page.

    The ``pool`` does runs, each as a whole, and then of one study after another the trainings.

    A corpus that cannot be read, because its files are not here, say, or a cell whose word vectors cannot, is listed on the page with the
    reason. The same call resumes an interrupted one. Raises InputError where there is no file of word vectors, RunError where the place
    holds something else than a reproduction, or a cell's folder something else than the cell.
    """
    sweep.check()
    pending = [cell for cell in sweep.cells if not sweep.job(cell).finished()]
    work = _Work(sweep, progress or silent, say)
    try:
        if pending:
            work.do_all(pending, pool)
    finally:
        with contextlib.suppress(OSError):
            (sweep.out / RUNS).rmdir()  # only where it is empty
    return write_page(sweep, work.failed, say)


def plan_sweep(sweep: Sweep) -> list[Planned]:
    """List the cells of a sweep, and say which are done."""
    sweep.check()
    jobs = [sweep.job(cell) for cell in sweep.cells]
    return [Planned(job.cell.name, str(job.folder), job.finished()) for job in jobs]


@dataclass
class _Work:
    """A reproduction under way; ``failed`` tells of each cell that could not be done why."""

    sweep: Sweep
    progress: Progress
    say: Say
    failed: dict[Cell, str] = field(default_factory=dict)
    read: LastCorpus = field(default_factory=LastCorpus)

    def do_all(self, cells: Sequence[Cell], pool: Pool) -> None:
        """Do the runs, then the studies."""
        by_name = {cell.name: cell for cell in cells}
        jobs = [self.sweep.job(cell) for cell in cells]
        for done in pool.do(
            self._calls([job for job in jobs if isinstance(job, RunJob)]), self.progress
        ):
            self._report(by_name[done.call.name], done.answer, done.error)
        for job in jobs:
            if not isinstance(job, RunJob):
                self._do_study(job, pool)

    def _calls(self, jobs: Sequence[RunJob]) -> Iterator[Call]:
        """A call for each run; those that share a corpus and a seed follow each other, and the corpus is read once."""
        for job in jobs:
            spec = job.spec
            try:
                corpus = self.read(
                    spec, within(f"{job.cell.corpus} s{job.cell.seed}", self.progress)
                )
            except InputError as error:
                self._skip(job.cell.corpus, job.cell, error)
                continue
            arguments = {"spec": spec, "folder": job.folder}
            yield Call(
                job.cell.name,
                do_run,
                job.folder,
                arguments,
                corpus,
                (),
                spec.device,
                MANIFEST,
            )

    def _do_study(self, job: StudyJob | CopyingJob, pool: Pool) -> None:
        started, error = time.perf_counter(), None
        try:
            job.do(within(job.cell.name, self.progress), self.say, pool, self.read)
        except InputError as caught:
            error = caught
        self._report(job.cell, time.perf_counter() - started, error)

    def _report(self, cell: Cell, seconds: float, error: InputError | None) -> None:
        """Say that a cell is done, or why it is skipped. Raises RunError."""
        if isinstance(error, RunError):
            raise error
        if error is not None:
            self._skip(cell.name, cell, error)
            return
        number = self.sweep.cells.index(cell) + 1
        self.say(f"{cell.name}: {seconds:.0f} s ({number} of {len(self.sweep.cells)})")

    def _skip(self, name: str, cell: Cell, error: InputError) -> None:
        """Keep the reason, and say it once."""
        if str(error) not in (
            reason for other, reason in self.failed.items() if other.corpus == cell.corpus
        ):
            self.say(f"{name} is skipped: {error}")
        self.failed[cell] = str(error)


def write_page(sweep: Sweep, failed: dict[Cell, str], say: Say) -> Outcome:
    """Record what is finished, whichever call made it, and write the page over all that is."""
    runs, averaged, notes = found_in(sweep.out, sweep.paper)
    for note in notes:
        say(f"note: {note}")
    if sweep.paper.name not in ONCE:
        return _page_of_runs(sweep, failed, runs, averaged, notes)
    done = record(sweep, averaged)
    from attnaudit.report.reproduction.once import Once, write_once

    page = write_once(
        Once(
            sweep.paper,
            records_of(sweep.paper, sweep.kept),
            {cell.key: reason for cell, reason in failed.items()},
            tuple(notes),
        ),
        sweep.out,
    )
    not_run = tuple(
        NotRun(cell.corpus, cell.encoder, cell.attention, reason) for cell, reason in failed.items()
    )
    return Outcome(page, len({cell.name for cell in sweep.cells} & done), not_run, tuple(notes))


def _page_of_runs(
    sweep: Sweep,
    failed: dict[Cell, str],
    runs: Sequence[Finished],
    averaged: Sequence[Finished],
    notes: list[str],
) -> Outcome:
    """The page of a paper whose numbers are compared with two runs of its authors."""
    from attnaudit.report.reproduction.page import write_reproduction
    from attnaudit.report.reproduction.tables import reasons_of

    record_corpora(sweep.paper, sweep.out, sweep.kept)
    have_runs = {one.cell.corpus for one in runs}
    not_run = not_run_of(failed, have_runs)
    not_asked = not_asked_for(
        sweep.paper, have_runs | {cell.corpus for cell in failed}, sweep.data_dir
    )
    found = reproduction_of(averaged, sweep.paper)
    corpus_notes = {
        corpus: (*reasons_of(sweep.paper, corpus, found.table), *made)
        for corpus, made in found.corpus_notes.items()
    }
    content = replace(
        found, corpus_notes=corpus_notes, not_run=(*not_run, *not_asked), notes=tuple(notes)
    )
    done = set(sweep.cells) & {one.cell for one in runs}
    return Outcome(write_reproduction(content, sweep.out), len(done), not_run, tuple(notes))


def record(sweep: Sweep, averaged: Sequence[Finished]) -> set[str]:
    """Record the runs that are averaged, by cell, and every finished study; returns the names of the cells that are done."""
    paper, done = sweep.paper, {run.cell.name for run in averaged}
    for _, same in groupby(
        sorted(averaged, key=lambda run: (run.cell.key, run.cell.seed)),
        key=lambda run: run.cell.key,
    ):
        runs = list(same)
        cell = runs[0].cell
        summaries = [sweep.job(run.cell).rows() for run in runs]
        seeds = [run.cell.seed for run in runs]
        place = place_of(sweep.kept, cell)
        if place.exists() and len(load(place).get("seeds", [])) > len(seeds):
            continue
        classes = len(runs[0].manifest["corpus"]["class_names"])
        _save(sweep, cell, runs[0].folder, over_seeds(summaries), seeds=seeds, classes=classes)
    for cell in (cell for cell in paper.every_cell if cell.study):
        job = sweep.job(cell)
        if whole_manifest(job.folder) is None:
            continue
        done.add(cell.name)
        place = place_of(sweep.kept, cell)
        seeds = read_spec(job.folder).get("study", {}).get("seeds")
        if place.exists() and isinstance(seeds, int) and (load(place).get("seeds") or 0) > seeds:
            continue
        _save(
            sweep,
            cell,
            job.folder,
            job.rows(),
            **({"seeds": seeds} if isinstance(seeds, int) else {}),
        )
    return done


def _save(
    sweep: Sweep, cell: Cell, folder: Path, rows: Sequence[Mapping[str, Any]], **more: Any
) -> None:
    """The record of a cell whose finished run or study is in ``folder``; it says what was ``changed`` of the settings declared."""
    changed = settings_changed(sweep.paper, cell, folder)
    more |= {"changed": changed} if changed else {}
    save(
        place_of(sweep.kept, cell),
        command_of(sweep.paper, cell, changed),
        kept(sweep.paper, cell, rows),
        **more,
    )


def write_markdown(sweep: Sweep, file: Path) -> None:
    """Record what is finished in ``out``, run nothing, and write the tables of all records between the marks of ``file``.

    A file without marks is refused, unless it is new. So is one that has a section that no record fills, and a paper without any record.
    Raises InputError.
    """
    from attnaudit.report.reproduction.once import Once, markdown_of
    from attnaudit.report.reproduction.page import markdown

    paper = sweep.paper
    _, averaged, _ = found_in(sweep.out, paper)
    once = paper.name in ONCE
    if once:
        record(sweep, averaged)
    else:
        record_corpora(paper, sweep.out, sweep.kept)
    if not any(sweep.kept.glob("*.json")):
        do = f"run attnaudit reproduce {paper.name} first, or name the folder with --records DIR"
        raise InputError(
            "reproduce",
            f"--markdown {file}",
            f"no record in {sweep.kept}",
            f"records of {paper.name}",
            do,
        )
    if once:
        text = markdown_of(Once(paper, records_of(paper, sweep.kept), {}, ()))
    else:
        text = markdown(recorded(paper, sweep.kept)).partition("\n")[2]  # without its title
    write_between(file, paper.name, text.strip())


def write_between(file: Path, name: str, text: str) -> None:
    """Write ``text`` between the marks ``<!-- reproduce NAME -->`` and ``<!-- end of reproduce NAME -->``; a new file gets them."""
    begin, end = f"<!-- reproduce {name} -->", f"<!-- end of reproduce {name} -->"
    try:
        page = file.read_text(encoding="utf-8") if file.exists() else f"{begin}{end}\n"
    except UnicodeDecodeError as error:
        raise InputError(
            "reproduce",
            f"--markdown {file}",
            f"byte {error.start} is no UTF-8",
            "a page in UTF-8",
            "save it as UTF-8",
        ) from error
    before, begun, rest = page.partition(begin)
    former, ended, after = rest.partition(end)
    if not begun or not ended:
        raise InputError(
            "reproduce",
            f"--markdown {file}",
            f"no {begin} with {end} behind it",
            "a file with these marks, or a new one",
        )
    made = set(_sections(text))
    if lost := [name for name in _sections(former) if name not in made]:
        got = f"sections without a record: {', '.join(lost)}"
        raise InputError(
            "reproduce",
            f"--markdown {file}",
            got,
            "a record for each",
            "run their cells, or remove the sections",
        )
    write_text(file, f"{before}{begin}\n\n{text}\n\n{end}{after}")


def _sections(text: str) -> Iterator[str]:
    """The headings of a page, and the cells whose commands it lists."""
    for found in _SECTION.finditer(text):
        yield found[1] or found[2]


def _check_out(out: Path) -> None:
    """Raise RunError unless ``out`` is free or holds a reproduction, be it one that was stopped before its first page."""
    if out.exists() and not out.is_dir():
        raise RunError(
            "reproduce", str(out), "a file", "a folder to write into", "choose another --out"
        )
    names = (
        {path.name for path in out.iterdir() if not path.name.startswith(".")}
        if out.exists()
        else set()
    )
    if not names <= {RUNS, STUDIES, FOLDER} and MARKDOWN not in names:
        got = "a folder that is not empty and holds no sweep"
        raise RunError(
            "reproduce",
            str(out),
            got,
            "a new or empty folder, or that of an earlier sweep",
            "choose another --out",
        )
