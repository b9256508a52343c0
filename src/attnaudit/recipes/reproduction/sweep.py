"""A paper reproduced: every cell that is not done yet, a record of each that is, and the page."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from attnaudit.core import InputError, Progress, RunError, silent, within
from attnaudit.corpora.registry import CORPORA as REGISTERED
from attnaudit.papers import Cell
from attnaudit.recipes.kinds import LastCorpus
from attnaudit.recipes.reproduction.cells import RUNS, averaged_runs
from attnaudit.recipes.reproduction.jobs import Job, Sweep, command_of, settings_changed
from attnaudit.recipes.reproduction.records import (
    kept,
    load,
    over_seeds,
    place_of,
    records_of,
    save,
)
from attnaudit.recipes.study import Say
from attnaudit.recipes.trained import run
from attnaudit.steps import SERIAL, Call, Planned, Pool, read_spec, whole_manifest

PAGE = "index.html"


@dataclass(frozen=True, order=True)
class NotRun:
    """A cell that could not be done, whichever its seed, and why."""

    corpus: str
    model: str
    study: str
    reason: str


@dataclass(frozen=True)
class Outcome:
    """The page, and what it is of.

    Attributes:
        page: The page.
        done: How many of the cells asked for are done.
        not_run: Why others are not.
        notes: What else the page tells.
    """

    page: Path
    done: int
    not_run: tuple[NotRun, ...]
    notes: tuple[str, ...]


def reproduce(
    sweep: Sweep,
    progress: Progress = silent,
    say: Say = lambda line: None,
    pool: Pool = SERIAL,
) -> Outcome:
    """Do the cells that are not done yet, record all that are, and write the page.

    A corpus, or word vectors, that cannot be read are a reason on the page. The same call resumes
    an interrupted one.

    Args:
        sweep: The cells.
        progress: Callback.
        say: Called with a line for the user.
        pool: Does runs, each as a whole, and then of one study after another the trainings.

    Raises:
        InputError: As `Sweep.check`.
        RunError: As `Sweep.check`, or if the folder of a cell holds something else.
    """
    sweep.check()
    failed, read = dict[Cell, str](), LastCorpus()
    pending = [job for job in map(sweep.job, sweep.cells) if not job.finished()]
    jobs = {job.cell.name: job for job in pending if not job.cell.study}

    def skip(cell, error, name=""):
        """Keep the reason, and say it once."""
        said = {reason for other, reason in failed.items() if other.corpus == cell.corpus}
        if str(error) not in said:
            say(f"{name or cell.name} is skipped: {error}")
        failed[cell] = str(error)

    def report(cell, seconds, error):
        """Say that a cell is done, or why it is skipped. Raises RunError."""
        if isinstance(error, RunError):
            raise error
        if error is not None:
            skip(cell, error)
        else:
            number = sweep.cells.index(cell) + 1
            say(f"{cell.name}: {seconds:.0f} s ({number} of {len(sweep.cells)})")

    def calls():
        """Yield the runs; those of one corpus and seed follow each other and read it once."""
        for name, job in jobs.items():
            spec = job.spec
            label = f"{spec.corpus.source} s{spec.seed}"
            try:
                corpus = read(spec, within(label, progress))
            except InputError as error:
                skip(job.cell, error, job.cell.corpus)
            else:
                yield Call(name, partial(do_run, spec=spec), job.folder, corpus, (), spec.device)

    for done in pool.do(calls(), progress):
        report(jobs[done.call.name].cell, done.answer, done.error)
    for job in (job for job in pending if job.cell.study):
        started, error = time.perf_counter(), None
        try:
            job.do_study(within(job.cell.name, progress), say, pool, read)
        except InputError as caught:
            error = caught
        report(job.cell, time.perf_counter() - started, error)
    return _write(sweep, failed, say)


def plan_sweep(sweep: Sweep) -> list[Planned]:
    """List the cells of a sweep, and say which are done."""
    sweep.check()
    jobs = [sweep.job(cell) for cell in sweep.cells]
    return [Planned(job.cell.name, str(job.folder), job.finished()) for job in jobs]


def do_run(corpus: Any, folder: Path, progress: Progress, device: str | None, spec: Any) -> float:
    """Train, collect and audit into ``folder``, in any process; return the seconds."""
    started = time.perf_counter()
    run(spec, folder, progress, corpus, device=device)
    return time.perf_counter() - started


def _write(sweep: Sweep, failed: Mapping[Cell, str], say: Say) -> Outcome:
    """Record what is finished, whichever call made it, and write the page over all that is."""
    from attnaudit.report.paper_page import Reproduction, write_paper

    notes = record(sweep)
    for note in notes:
        say(f"note: {note}")
    records, pages = records_of(sweep.paper, sweep.kept), dict[str, dict[int, str]]()
    for cell in (cell for cell in sweep.paper.every_cell if not cell.study):
        for seed in records.get(cell.key, {}).get("seeds", ()):
            page = f"{RUNS}/{replace(cell, seed=seed).name}/report.html"
            if (sweep.out / page).exists():
                pages.setdefault(cell.key, {})[seed] = page
    reasons = {cell.key: reason for cell, reason in failed.items()}
    page = write_paper(Reproduction(sweep.paper, records, reasons, notes, pages), sweep.out)
    not_run = dict.fromkeys(
        NotRun(cell.corpus, cell.model, cell.study, reason) for cell, reason in failed.items()
    )
    done = len(set(sweep.cells) - failed.keys())
    return Outcome(page, done, tuple(not_run), tuple(notes))


def record(sweep: Sweep) -> list[str]:
    """Record every finished cell of a folder, but those of fewer seeds than their record has.

    Returns:
        Notes on runs that are not counted.
    """
    runs, notes = averaged_runs(sweep.out, sweep.paper)
    for _, same in groupby(runs, key=lambda run: run.cell.key):
        alike = list(same)
        first = alike[0]
        notes_of = (note for run in alike for note in run.manifest["notes"])
        differs = REGISTERED[first.cell.corpus].differs if first.cell.corpus in REGISTERED else ()
        _record(
            sweep,
            sweep.job(first.cell),
            over_seeds([sweep.job(run.cell).rows() for run in alike]),
            seeds=[run.cell.seed for run in alike],
            class_names=list(first.corpus["class_names"]),
            notes=list(dict.fromkeys([*differs, *notes_of])),
        )
    for job in (sweep.job(cell) for cell in sweep.paper.every_cell if cell.study):
        if whole_manifest(job.folder) is not None:
            seeds = read_spec(job.folder).get("study", {}).get("seeds")
            _record(sweep, job, job.rows(), **({"seeds": seeds} if seeds else {}))
    return notes


def _record(sweep: Sweep, job: Job, rows: Sequence[Mapping[str, Any]], **more: Any) -> None:
    """Write the record of a cell, which says what was changed of the settings declared."""
    place = place_of(sweep.kept, job.cell)
    if place.exists() and _seeds(load(place)) > _seeds(more):
        return
    changed = settings_changed(job)
    more |= {"changed": changed} if changed else {}
    command = command_of(sweep.paper, job.cell, changed)
    save(place, command, kept(sweep.paper, job.cell, rows), **more)


def _seeds(record: Mapping[str, Any]) -> int:
    seeds = record.get("seeds", 0)
    return seeds if isinstance(seeds, int) else len(seeds)
