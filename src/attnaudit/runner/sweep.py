"""A paper's tables rerun: every corpus × encoder × attention × seed as a run of its own, and one page of what they gave."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnaudit.core.errors import InputError, RunError
from attnaudit.core.progress import Progress, silent, within
from attnaudit.corpora.registry import CORPORA as REGISTERED
from attnaudit.corpora.registry import corpus_sources
from attnaudit.plans.spec import RunSpec, corpus_settings
from attnaudit.published.compare import over_seeds
from attnaudit.published.reproduction import NotRun
from attnaudit.results.record import read_record
from attnaudit.runner.cells import CORPORA, RUNS, Cell, Finished, found_in, manifest_of, settings_notes
from attnaudit.runner.pipeline import run
from attnaudit.runner.store import check_place
from attnaudit.runner.tasks import task_of

if TYPE_CHECKING:
    from attnaudit.report.reproduction.page import Reproduction

Say = Callable[[str], None]
PUBLISHED = {"permutation.permutations": 100}  # as Algorithm 2 of Jain & Wallace 2019 draws them, whose medians these are compared with


@dataclass(frozen=True)
class Sweep:
    """Which cells, how, and where: ``out/runs/<cell>`` is the run of a cell, ``out/index.html`` the page of all.

    ``vectors`` None means the default of each corpus; ``settings`` are dotted settings of every run.
    """

    out: Path
    cells: Sequence[Cell]
    data_dir: str | None = None
    vectors: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    def spec(self, cell: Cell) -> RunSpec:
        """The run of a cell."""
        own = corpus_settings(cell.corpus, cell.encoder, "paper")
        vectors = None if "vectors" in own else self.vectors  # a corpus may ask for its own
        return RunSpec.of(
            cell.corpus, encoder=cell.encoder, attention=cell.attention, seed=cell.seed, vectors=vectors,
            settings=PUBLISHED | dict(self.settings), data_dir=self.data_dir,
        )  # fmt: skip

    def check(self) -> None:
        """Raise InputError where there is no file of word vectors, RunError where ``out`` holds something else than a sweep."""
        _check_out(self.out)
        if self.vectors not in (None, "corpus", "random") and not Path(self.vectors).expanduser().is_file():
            raise InputError("reproduce", "--vectors", repr(self.vectors), "corpus, random or a file of word vectors")


@dataclass(frozen=True)
class Outcome:
    """The page of a sweep, how many of the cells asked for are ``done``, why others are not, and what else the page should tell."""

    page: Path
    done: int
    not_run: tuple[NotRun, ...]
    notes: tuple[str, ...]


def reproduce(sweep: Sweep, progress: Progress | None = None, say: Say = lambda line: None) -> Outcome:
    """Run the cells that are not finished yet, and write the page over all that are.

    A corpus that cannot be read, because its files are not here, say, or a cell whose word vectors cannot, is listed on the page with the
    reason. The same call resumes an interrupted sweep. Raises InputError where there is no file of word vectors, RunError where the place
    holds something else than a sweep, or a cell's folder another run.
    """
    sweep.check()
    work = _Work(sweep, progress or silent, say)
    pending = [cell for cell in sweep.cells if not work.finished(cell)]
    try:
        for (name, _), cells in groupby(pending, key=lambda cell: (cell.corpus, cell.seed)):
            work.run_all(name, list(cells))
    finally:
        with contextlib.suppress(OSError):
            (sweep.out / RUNS).rmdir()  # only where it is empty
    return write_page(sweep, work.failed, say)


@dataclass
class _Work:
    """A sweep under way; ``failed`` tells of each cell that could not be run why."""

    sweep: Sweep
    progress: Progress
    say: Say
    failed: dict[Cell, str] = field(default_factory=dict)

    def finished(self, cell: Cell) -> bool:
        """Whether the cell's folder holds its finished run, whole. Raises RunError where it holds another."""
        out = self.sweep.out / RUNS / cell.name
        check_place(out, self.sweep.spec(cell).to_json())
        return manifest_of(out) is not None

    def run_all(self, name: str, cells: Sequence[Cell]) -> None:
        """Run cells that share a corpus and a seed, reading the corpus once."""
        first = self.sweep.spec(cells[0])
        try:
            corpus = task_of(first).read(first, within(f"{name} s{first.seed}", self.progress))
        except InputError as error:
            self._skip(name, cells, error)
            return
        for cell in cells:
            started = time.perf_counter()
            out = self.sweep.out / RUNS / cell.name
            try:
                run(self.sweep.spec(cell), out, within(cell.name, self.progress), corpus)
            except RunError:
                raise
            except InputError as error:
                self._skip(cell.name, [cell], error)
                continue
            number = self.sweep.cells.index(cell) + 1
            self.say(f"{cell.name}: {time.perf_counter() - started:.0f} s ({number} of {len(self.sweep.cells)})")

    def _skip(self, name: str, cells: Sequence[Cell], error: InputError) -> None:
        """Keep the reason, and say it once."""
        if str(error) not in (reason for cell, reason in self.failed.items() if cell.corpus == cells[0].corpus):
            self.say(f"{name} is skipped: {error}")
        self.failed |= dict.fromkeys(cells, str(error))


def write_page(sweep: Sweep, failed: Mapping[Cell, str], say: Say) -> Outcome:
    """The page and the table over all finished runs of a sweep, whichever call made them."""
    from attnaudit.report.reproduction.page import write_reproduction

    runs, averaged, notes = found_in(sweep.out)
    for note in notes:
        say(f"note: {note}")
    have_runs = {one.cell.corpus for one in runs}
    parts = {cell: (cell.encoder, cell.attention) if cell.corpus in have_runs else ("", "") for cell in failed}  # none: all of a corpus
    not_run = tuple(dict.fromkeys(NotRun(cell.corpus, *parts[cell], reason) for cell, reason in failed.items()))
    not_asked = not_asked_for(have_runs | {cell.corpus for cell in failed}, sweep.data_dir)
    content = replace(reproduction_of(averaged), not_run=(*not_run, *not_asked), notes=tuple(notes))
    done = set(sweep.cells) & {one.cell for one in runs}
    return Outcome(write_reproduction(content, sweep.out), len(done), not_run, tuple(notes))


def reproduction_of(runs: Sequence[Finished]) -> Reproduction:
    """What the runs of a sweep that are averaged (`found_in`) found, compared with the published numbers."""
    from attnaudit.report.reproduction.page import Reproduction

    folders = [one.folder for one in runs]
    return Reproduction(
        table=over_seeds(folders), runs=tuple(replace(read_record(folder), tables={}) for folder in folders),
        pages={folder.name: f"{RUNS}/{folder.name}/report.html" for folder in folders}, corpus_notes=_corpus_notes(runs), not_run=(),
    )  # fmt: skip


def not_asked_for(known: Collection[str], data_dir: str | None) -> tuple[NotRun, ...]:
    """The corpora of the paper that are not ``known``, each with the reason why it may be missing."""
    return tuple(NotRun(corpus, "", "", _why_not(corpus, data_dir)) for corpus in CORPORA if corpus not in known)


def _corpus_notes(runs: Sequence[Finished]) -> dict[str, tuple[str, ...]]:
    """What is not as in the paper, or not as usual, by corpus."""
    notes = {}
    for corpus in dict.fromkeys(one.cell.corpus for one in runs):
        same = [one for one in runs if one.cell.corpus == corpus]
        made = [note for one in same for note in one.manifest["notes"]]
        notes[corpus] = tuple(dict.fromkeys([*settings_notes(same), *REGISTERED[corpus].differs, *made]))
    return notes


def _why_not(corpus: str, data_dir: str | None) -> str:
    try:
        _, sources, _ = corpus_sources(REGISTERED[corpus], data_dir)
    except InputError as error:
        return str(error)
    notes = "; ".join(filter(None, dict.fromkeys(source.note for source in sources.values())))
    return f"{notes or 'its files are here'}; it was not asked for: --corpus {corpus}"


def _check_out(out: Path) -> None:
    """Raise RunError unless ``out`` is free or holds a sweep, be it one that was stopped before its first page."""
    if out.exists() and not out.is_dir():
        raise RunError("reproduce", str(out), "a file", "a folder to write into", "choose another --out")
    names = {path.name for path in out.iterdir() if not path.name.startswith(".")} if out.exists() else set()
    if not names <= {RUNS} and "reproduction.csv" not in names:
        got = "a folder that is not empty and holds no sweep"
        raise RunError("reproduce", str(out), got, "a new or empty folder, or that of an earlier sweep", "choose another --out")
