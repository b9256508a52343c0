"""A paper reproduced: every cell that is not done yet, a record of each that is, and the page."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, groupby
from pathlib import Path
from typing import Any

import polars as pl

from attnaudit.copying.study import NAME as COPYING
from attnaudit.core import InputError, Progress, RunError, expanded, read_json, silent, within
from attnaudit.corpora.registry import CORPORA as REGISTERED
from attnaudit.corpora.registry import is_parallel
from attnaudit.papers import PAPERS, Cell, Declaration
from attnaudit.papers.comparison import COLUMNS, medians_by_weight
from attnaudit.papers.published import published
from attnaudit.plans.spec import RunSpec, corpus_settings, other_settings
from attnaudit.recipes.audit import RESULTS
from attnaudit.recipes.kinds import LastCorpus, Read
from attnaudit.recipes.reproduction.cells import RUNS, averaged_runs
from attnaudit.recipes.reproduction.records import (
    FOLDER,
    kept,
    load,
    over_seeds,
    place_of,
    records_of,
    save,
)
from attnaudit.recipes.studies import copying_study, run_copying
from attnaudit.recipes.study import Say, StudySpec, run_study
from attnaudit.recipes.trained import run
from attnaudit.results import read_record, read_table, summary_row
from attnaudit.steps import (
    MANIFEST,
    SERIAL,
    Call,
    Planned,
    Pool,
    check_place,
    read_spec,
    refuse_other,
    whole_manifest,
)
from attnaudit.studies import EVERY_STUDY

STUDIES, TABLE = "studies", "reproduction.csv"
BANDS = ((0.0, 0.05), (0.05, 0.1), (0.1, 0.2), (0.2, 0.4), (0.4, 1.01))


@dataclass(frozen=True)
class Sweep:
    """Options of a reproduction: cells, settings and folder.

    Attributes:
        out: Folder of ``runs``, ``studies`` and the page ``index.html``.
        cells: The cells.
        data_dir: Folder of the corpora.
        vectors: Word vectors; None for the default of each corpus.
        settings: Dotted settings of every cell.
        paper: The paper.
        records: Folder of the records; by default below ``out``.
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
        """Folder of the records."""
        return self.records or self.out / FOLDER

    def job(self, cell: Cell) -> Job:
        """Return the job of a cell."""
        return Job(self, cell)

    def check(self) -> None:
        """Check what is asked for.

        Raises:
            InputError: For a folder or file that is missing, or a setting of a study that no cell
                is of.
            RunError: If ``out`` holds something else than a reproduction.
        """
        found = self.out.iterdir() if self.out.is_dir() else ()
        names = {path.name for path in found if not path.name.startswith(".")}
        # One that was stopped has no page yet.
        is_own = TABLE in names or names <= {RUNS, STUDIES, FOLDER}
        refuse_other("reproduce", self.out, is_own, "one of an earlier sweep")
        if self.data_dir is not None and not expanded(self.data_dir).is_dir():
            expected = "the folder of the corpora"
            raise InputError("reproduce", f"--data-dir {self.data_dir}", "no such folder", expected)
        asked = sorted({cell.study for cell in self.cells if cell.study})
        for key in self.settings:
            if study_of(key) not in ("", *asked):
                got = "a setting of a study that no requested cell is of"
                expected = f"a setting of {', '.join(asked)}" if asked else "no setting of a study"
                raise InputError("reproduce", f"--set {key}", got, expected)
        if self.vectors in (None, "corpus", "random"):
            return
        if not expanded(self.vectors).is_file():
            expected = "corpus, random or a file of word vectors"
            raise InputError("reproduce", "--vectors", repr(self.vectors), expected)


def study_of(setting: str) -> str:
    """Return the study that a dotted setting is of; empty for those of runs and experiments."""
    name = setting.partition(".")[0]
    return name if name in (*EVERY_STUDY, COPYING) else ""


def takes_vectors(cell: Cell) -> bool:
    """Say whether a cell has the word vectors of the call; a corpus may ask for others."""
    has_own = "vectors" in corpus_settings(cell.corpus, cell.encoder, cell.preset)
    return cell.vectors and cell.study != COPYING and (bool(cell.study) or not has_own)


@dataclass(frozen=True)
class Job:
    """A cell of a sweep: a run, a study, or the copying task.

    All may raise InputError and RunError.
    """

    sweep: Sweep
    cell: Cell

    @property
    def shared(self) -> Path:
        """Folder that this study shares with all of the same corpus and settings."""
        cell = self.cell
        parts = (cell.corpus, cell.config, cell.variant, "quick" if cell.quick else "")
        return self.sweep.out / STUDIES / "-".join(filter(None, parts))

    @property
    def folder(self) -> Path:
        """Folder of what it makes."""
        cell, out = self.cell, self.sweep.out
        if cell.study == COPYING:
            return out / STUDIES / cell.key
        return self.shared / cell.study if cell.study else out / RUNS / cell.name

    @property
    def spec(self) -> Any:
        """A `RunSpec`, a `StudySpec` or a `Copying`."""
        cell, settings = self.cell, self.settings
        if cell.study == COPYING:
            return copying_study(cell.corpus, 0, settings, full=not cell.quick)
        given: dict[str, Any] = {"data_dir": self.sweep.data_dir, "settings": settings}
        if takes_vectors(cell) and not (cell.config or is_parallel(cell.corpus)):
            given["vectors"] = self.sweep.vectors
        if cell.study:
            if cell.config:
                given["config"] = cell.config
            return StudySpec.of(cell.study, cell.corpus, full=not cell.quick, **given)
        model = {"encoder": cell.encoder, "attention": cell.attention, "preset": cell.preset}
        return RunSpec.of(cell.corpus, seed=cell.seed, **model, **given)

    @property
    def settings(self) -> dict[str, Any]:
        """Dotted settings of the cell, without those of other studies."""
        of_call = self.sweep.settings.items()
        own = {key: value for key, value in of_call if study_of(key) in ("", self.cell.study)}
        return {**self.sweep.paper.settings, **self.cell.settings, **own}

    def finished(self) -> bool:
        """Say whether it is done. Raises RunError if the folder holds something else."""
        # The folder of a study may hold parts of it before there is a spec.
        if self.cell.study and not (self.folder / MANIFEST).exists():
            return False
        check_place(self.folder, self.spec.to_json())
        return whole_manifest(self.folder) is not None

    def rows(self) -> list[dict[str, Any]]:
        """Return its summary rows; of a run also the medians and shares that papers have."""
        rows = read_json(self.folder / RESULTS[1])
        if self.cell.study:
            return rows
        rows += by_delta_alpha(self.folder)
        if published(self.sweep.paper.name)["max_alpha"].count():
            rows += medians_by_weight(read_record(self.folder).columns(COLUMNS))
        return rows


def settings_changed(job: Job) -> dict[str, Any]:
    """Return the dotted settings of a finished cell that are not those of the paper's declaration.

    A cell that takes the word vectors of the call is declared with a file of them, whichever it is.
    """
    cell = job.cell
    vectors = "a file" if cell.vectors else None
    usual = replace(job.sweep, data_dir=None, vectors=vectors, settings={}).job(cell)
    made = read_spec(job.folder)
    if made.get("vectors") not in ("corpus", "random"):
        made.pop("vectors", None)
    found = other_settings(made, usual.spec.to_json())
    renamed = {key.removeprefix("experiments."): value for key, value in found.items()}
    return {
        f"{cell.study}.{key.removeprefix('study.')}" if key.startswith("study.") else key: value
        for key, value in renamed.items()
    }


def command_of(paper: Declaration, cell: Cell, changed: Mapping[str, Any] | None = None) -> str:
    """Return the command that makes a cell, wherever data and vectors are.

    Args:
        paper: The paper.
        cell: The cell.
        changed: Its settings that are not those of the paper.
    """
    settings = {**paper.settings, **cell.settings, **(changed or {})}
    preset = "" if cell.preset == "paper" else cell.preset
    needs_data, is_study = cell.corpus in REGISTERED and cell.study != COPYING, bool(cell.study)
    options = {
        "preset": preset,
        "model": cell.config or cell.encoder,
        "attention": cell.attention,
        "data-dir": "DATA" if needs_data else "",
        "vectors": settings.pop("vectors", "VECTORS" if takes_vectors(cell) else ""),
        "device": settings.pop("device", ""),
    }
    parts = ["attnaudit", *(["study", cell.study] if is_study else ["run"]), cell.corpus]
    parts += ["--full"] if is_study and not cell.quick else []
    parts += [f"--{name} {value}" for name, value in options.items() if value]
    for key, value in settings.items():
        shown = ",".join(map(str, value)) if isinstance(value, tuple | list) else value
        parts.append(f"--set {key}={shown}")
    return " ".join(parts)


def by_delta_alpha(run: Path) -> Iterator[dict[str, Any]]:
    """Yield a summary row for each band of Δα: the share of negative ΔJS there.

    Nothing is yielded for a run without the experiment.
    """
    table = run / "results" / "erasure.parquet"
    if not table.exists():
        return
    gaps = read_table(table).select("delta_js", "delta_alpha").drop_nulls("delta_js").collect()
    for low, high in BANDS:
        inside = gaps.filter(pl.col("delta_alpha") >= low, pl.col("delta_alpha") < high)
        share: Any = (inside["delta_js"] < 0).mean()
        where = {"n": inside.height, "group": f"delta_alpha:{low:g} to {min(high, 1):g}"}
        yield summary_row("erasure", "negative_delta_js", share, **where)


PAGE = "index.html"


@dataclass(frozen=True)
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
    jobs = {job.cell.name: job for job in pending}

    def skip(cell, error, name=""):
        """Keep the reason, and say it once."""
        said = {reason for other, reason in failed.items() if other.corpus == cell.corpus}
        if str(error) not in said:
            say(f"{name or cell.name} is skipped: {error}")
        failed[cell] = str(error)

    def calls():
        """Yield the runs; those of one corpus and seed follow each other and read it once."""
        for name, job in jobs.items():
            if job.cell.study:
                continue
            spec = job.spec
            label = f"{spec.corpus.source} s{spec.seed}"
            try:
                corpus = read(spec, within(label, progress))
            except InputError as error:
                skip(job.cell, error, job.cell.corpus)
            else:
                yield Call(name, partial(do_run, spec=spec), job.folder, corpus, (), spec.device)

    studies = (
        Call(name, partial(do_study, job=job, say=say, pool=pool, read=read), job.folder)
        for name, job in jobs.items()
        if job.cell.study
    )
    for done in chain(pool.do(calls(), progress), SERIAL.do(studies, progress)):
        cell = jobs[done.call.name].cell
        if isinstance(done.error, RunError):
            raise done.error
        if done.error is not None:
            skip(cell, done.error)
        else:
            number = sweep.cells.index(cell) + 1
            say(f"{cell.name}: {done.answer:.0f} s ({number} of {len(sweep.cells)})")
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


def do_study(
    held: None,
    folder: Path,
    progress: Progress,
    device: str | None,
    *,
    job: Job,
    say: Say,
    pool: Pool,
    read: Read,
) -> float:
    """Run the missing trainings of a study, analyse all, and return the seconds that it took."""
    started = time.perf_counter()
    if job.cell.study == COPYING:
        run_copying(job.spec, folder, progress)
    else:
        run_study(job.spec, job.shared, progress, say, pool, read)
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
        _record(
            sweep,
            sweep.job(first.cell),
            over_seeds([sweep.job(run.cell).rows() for run in alike]),
            seeds=[run.cell.seed for run in alike],
            class_names=list(first.corpus["class_names"]),
            notes=list(dict.fromkeys([*REGISTERED[first.cell.corpus].differs, *notes_of])),
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
