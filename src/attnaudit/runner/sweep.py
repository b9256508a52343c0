"""A paper's tables anew: every corpus × encoder × attention × seed as a run of its own, and one page of what they gave."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from attnaudit.errors import InputError, did_you_mean
from attnaudit.files import read_json
from attnaudit.progress import Progress, silent
from attnaudit.runner.ledger import MANIFEST
from attnaudit.runner.pipeline import read, run
from attnaudit.runner.place import check_place
from attnaudit.runner.spec import RunSpec, corpus_settings

SOURCES = ("jain2019",)
CORPORA = ("sst", "imdb", "adr", "20news_sports", "ag_news", "diabetes", "anemia", "cnn", "babi1", "babi2", "babi3", "snli")
ENCODERS, ATTENTIONS = ("bilstm", "cnn", "average"), ("additive", "dot")
SEEDS = 3
ONE_SEED = {"imdb", "cnn", "diabetes"}  # corpora so large that one training takes as long as all of a small one's
RUNS = "runs"

Say = Callable[[str], None]


@dataclass(frozen=True, order=True)
class Cell:
    """One run of the sweep."""

    corpus: str
    seed: int
    encoder: str
    attention: str

    @property
    def parts(self) -> tuple[str, str, str]:
        return self.corpus, self.encoder, self.attention

    @property
    def name(self) -> str:
        return f"{self.corpus}-{self.encoder}-{self.attention}-s{self.seed}"


# A class of each task, every encoder and both kinds of attention, on the corpora that train fast.
QUICK = (
    *(Cell("sst", 0, encoder, "additive") for encoder in ENCODERS),
    Cell("sst", 0, "bilstm", "dot"),
    *(Cell("20news_sports", 0, encoder, "additive") for encoder in ("bilstm", "average")),
    *(Cell("babi1", 0, encoder, "additive") for encoder in ("bilstm", "average")),
    Cell("snli", 0, "average", "additive"),
)


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


def plan(
    source: str = "jain2019", *, quick: bool = False, corpora: Sequence[str] = (), encoders: Sequence[str] = (),
    attentions: Sequence[str] = (), seeds: int | None = None,
) -> list[Cell]:  # fmt: skip
    """The cells of a sweep, those of one corpus and seed together; what is not named is all there is. Raises InputError."""
    _check("source", [source], SOURCES)
    _check("--corpus", corpora, CORPORA)
    _check("--encoder", encoders, ENCODERS)
    _check("--attention", attentions, ATTENTIONS)
    if quick:
        chosen: Iterable[Cell] = QUICK
    else:
        chosen = (
            Cell(corpus, seed, encoder, attention)
            for corpus in corpora or CORPORA
            for seed in range(seeds or (1 if corpus in ONE_SEED else SEEDS))
            for encoder in ENCODERS
            for attention in ATTENTIONS
        )
    wanted = (corpora or CORPORA, encoders or ENCODERS, attentions or ATTENTIONS)
    return [cell for cell in chosen if all(part in names for part, names in zip(cell.parts, wanted, strict=True))]


def reproduce(sweep: Sweep, progress: Progress | None = None, say: Say = lambda line: None) -> Path:
    """Run the cells that are not finished yet, write the page over all that are, and return it.

    A corpus that cannot be read, because its files are not here, say, stands in the page with the reason. A sweep that was stopped goes on
    by the same call. Raises RunError where a cell's folder holds another run.
    """
    work = _Work(sweep, progress or silent, say)
    pending = [cell for cell in sweep.cells if not work.finished(cell)]
    for (name, _), cells in groupby(pending, key=lambda cell: (cell.corpus, cell.seed)):
        if name not in work.unreadable:
            work.run_all(name, list(cells))
    return write_page(sweep.out, work.unreadable)


@dataclass
class _Work:
    """A sweep under way; ``unreadable`` tells of each corpus that could not be read why."""

    sweep: Sweep
    progress: Progress
    say: Say
    unreadable: dict[str, str] = field(default_factory=dict)

    def spec(self, cell: Cell) -> RunSpec:
        sweep = self.sweep
        return RunSpec.of(
            cell.corpus, encoder=cell.encoder, attention=cell.attention, seed=cell.seed, vectors=self._vectors(cell),
            settings=sweep.settings, data_dir=sweep.data_dir,
        )  # fmt: skip

    def _vectors(self, cell: Cell) -> str | None:
        """The sweep's vectors, but those of the corpus where it asks for its own."""
        return None if "vectors" in corpus_settings(cell.corpus, cell.encoder, "paper") else self.sweep.vectors

    def finished(self, cell: Cell) -> bool:
        """Whether the cell's folder holds its finished run. Raises RunError where it holds another."""
        out = self.sweep.out / RUNS / cell.name
        check_place(out, self.spec(cell).to_json())
        return (out / MANIFEST).exists()

    def run_all(self, name: str, cells: Sequence[Cell]) -> None:
        """Run cells that share a corpus and a seed, reading the corpus once."""
        first = self.spec(cells[0])
        try:
            corpus = read(first.corpus, first.seed, first.preset, self._progress(f"{name} s{first.seed}"))
        except InputError as error:
            self.unreadable[name] = str(error)
            self.say(f"{name} is left out: {error}")
            return
        for cell in cells:
            started = time.perf_counter()
            run(self.spec(cell), self.sweep.out / RUNS / cell.name, self._progress(cell.name), corpus)
            number = self.sweep.cells.index(cell) + 1
            self.say(f"{cell.name}: {time.perf_counter() - started:.0f} s ({number} of {len(self.sweep.cells)})")

    def _progress(self, cell: str) -> Progress:
        return lambda what, done, total: self.progress(f"{cell}: {what}", done, total)


def write_page(out: Path, unreadable: Mapping[str, str]) -> Path:
    """The page and the table over all finished runs of ``out``, whichever call made them."""
    from attnaudit.corpora import REGISTRY
    from attnaudit.report.record import read_record
    from attnaudit.report.reproduction import NotRun, Reproduction, write_reproduction
    from attnaudit.report.seeds import over_seeds

    folders = sorted(path.parent for path in (out / RUNS).glob(f"*/{MANIFEST}"))
    notes: dict[str, dict[str, None]] = {}
    for folder in folders:
        manifest = read_json(folder / MANIFEST)
        corpus = manifest["corpus"]["name"]
        notes.setdefault(corpus, {}).update(dict.fromkeys([*REGISTRY[corpus].differs, *manifest["notes"]]))
    records = tuple(replace(read_record(folder), tables={}) for folder in folders)
    found = Reproduction(
        table=over_seeds(folders), runs=records, pages={folder.name: f"{RUNS}/{folder.name}/report.html" for folder in folders},
        corpus_notes={corpus: tuple(lines) for corpus, lines in notes.items()},
        not_run=tuple(NotRun(corpus, "", "", reason) for corpus, reason in unreadable.items()),
    )  # fmt: skip
    return write_reproduction(found, out)


def _check(option: str, given: Sequence[str], known: Sequence[str]) -> None:
    for name in given:
        if name not in known:
            raise InputError("reproduce", option, repr(name), f"one of {', '.join(known)}", did_you_mean(name, known))
