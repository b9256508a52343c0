"""Planted truth: constructions are trained, audited as users' traces would be, and measures scored.

``OUT/trainings`` holds the trainings, ``OUT/audits/<cell>`` the trace that is audited and its
results, ``OUT/calibration`` the tables, the degree and the page. A killed calibration resumes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from attnaudit.calibration import CONSTRUCTIONS, Cell, cells_of
from attnaudit.calibration.check import checked
from attnaudit.calibration.degree import fitted
from attnaudit.calibration.score import dials, matrix, scores
from attnaudit.core.errors import InputError
from attnaudit.core.extras import require
from attnaudit.core.files import read_json, sha256, write_json
from attnaudit.core.progress import Progress, silent, within
from attnaudit.corpora.registry import CORPORA
from attnaudit.experiments import facts
from attnaudit.plans.spec import SCHEMA, RunSpec
from attnaudit.plans.training import Training
from attnaudit.recipes.audit import RESULTS, audit_step, choose
from attnaudit.recipes.classifier import INTERVENTIONS, TEACHER
from attnaudit.recipes.reading import LastCorpus
from attnaudit.recipes.study import TRAININGS, finished_at, key_of, taught, training_folder
from attnaudit.recipes.trained import train_into
from attnaudit.results.measures import direction_of
from attnaudit.steps import Folder, Planned, Recipe, Step, check_place, execute
from attnaudit.steps.finished import trace_digests
from attnaudit.steps.folder import MANIFEST
from attnaudit.trace import Trace

AUDITS, PLACE = "audits", "calibration"
TABLES = ("values.parquet", "checks.parquet", "scores.parquet", "dials.parquet", "matrix.parquet")
DEGREE, CHECK = "degree.json", "check.json"
SOURCES: dict[str, dict[str, Any]] = {
    "planted-prior": {"corpus.size": 3000, "corpus.length": (12, 24)},
    "sst": {},
    "movies_rationales": {"corpus.max_tokens": 400},
}
FULL_SEEDS = 5
MADE = {"teach": TEACHER, "intervene": INTERVENTIONS}  # by steps of a training
Say = Callable[[str], None]


@dataclass(frozen=True)
class Calibration:
    """Which models, and where.

    Attributes:
        out: Folder of the calibration.
        corpora: Corpora that words are planted into.
        seeds: Number of seeds of every construction on each corpus.
        encoders: Largest number of encoders of a construction; None for all.
        constructions: Names of the only constructions; None for all.
        data_dir: Folder of the corpora.

    Raises:
        InputError: For an unknown name, and for fewer than one seed or encoder.
    """

    out: Path
    corpora: tuple[str, ...] = tuple(SOURCES)
    seeds: int = FULL_SEEDS
    encoders: int | None = None
    constructions: tuple[str, ...] | None = None
    data_dir: str | None = None

    def __post_init__(self) -> None:
        for name in self.corpora:
            CORPORA.find(name, "calibrate")
        for name in self.constructions or ():
            CONSTRUCTIONS.find(name, "calibrate")
        if self.seeds < 1 or not self.corpora:
            got = f"{self.seeds} seeds, {len(self.corpora)} corpora"
            raise InputError("calibrate", "--seeds, --corpus", got, "1 or more of each")
        if self.encoders is not None and self.encoders < 1:
            raise InputError("calibrate", "--encoders", str(self.encoders), "1 or more")

    @cached_property
    def cells(self) -> list[Cell]:
        """All models, those of one corpus and seed together."""
        base = {
            name: RunSpec.of(name, settings=SOURCES.get(name, {}), data_dir=self.data_dir)
            for name in self.corpora
        }
        names = self.constructions or tuple(CONSTRUCTIONS)
        chosen = [one for name, one in CONSTRUCTIONS.items() if name in names]
        cells = [cell for one in chosen for cell in cells_of(one, base, self.seeds, self.encoders)]
        # The same training may be asked for by several constructions: it is done once.
        first: dict[str, Training] = {}
        once = [
            replace(cell, training=first.setdefault(key_of(cell.training), cell.training))
            for cell in cells
        ]
        return sorted(once, key=lambda cell: (self.corpora.index(cell.corpus), cell.seed))

    @cached_property
    def teachers(self) -> set[str]:
        """Keys of the trainings that others take as given."""
        taught_by = (cell.training.teacher for cell in self.cells)
        return {key_of(teacher) for teacher in taught_by if isinstance(teacher, Training)}

    def audit_of(self, cell: Cell) -> Path:
        """Return the folder of a model's audit."""
        return self.out / AUDITS / cell.name

    def to_json(self) -> dict[str, Any]:
        """Return what ``spec.json`` holds."""
        chosen = {
            "corpora": list(self.corpora),
            "seeds": self.seeds,
            "encoders": self.encoders,
            "constructions": self.constructions and list(self.constructions),
        }
        return {"schema": SCHEMA, "kind": "calibration", **chosen}

    @property
    def command(self) -> str:
        """The command that does this."""
        parts = [f"attnaudit study calibration {','.join(self.corpora)}"]
        parts += [f"--set calibration.seeds={self.seeds}"]
        parts += [f"--set calibration.encoders={self.encoders}"] if self.encoders else []
        names = ",".join(self.constructions or ())
        return " ".join([*parts, *([f"--set calibration.constructions={names}"] if names else [])])


def calibrate(
    calibration: Calibration, progress: Progress = silent, say: Say = lambda line: None
) -> Path:
    """Train, audit and score what is missing; return the folder of the tables and the page.

    Raises:
        InputError: For a corpus that cannot be read.
        RunError: If the place holds another calibration.
    """
    require("train", "calibrate")
    place = calibration.out / PLACE
    do = f"give its options, or remove {place} (trainings and audits stay)"
    recipe = Recipe(
        calibration.to_json(),
        [_score_step(calibration, progress), Step("report", _scored, ("report.html",), _report)],
        lambda folder: {"kind": "calibration", "command": calibration.command},
        f"{do}, or choose another --out",
    )
    check_place(place, calibration.to_json(), recipe.do)
    work, number = _Cells(calibration, progress, say), len(calibration.cells)
    for done, cell in enumerate(calibration.cells, 1):
        work.do(cell, f"{done} of {number}")
    return execute(recipe, place)


def plan_calibration(calibration: Calibration) -> list[Planned]:
    """List the models of a calibration, and say which are done."""
    places = {cell: calibration.audit_of(cell) for cell in calibration.cells}
    return [
        Planned(cell.name, str(place), (place / MANIFEST).exists())
        for cell, place in places.items()
    ]


def _report(folder: Folder, made: Path) -> None:
    from attnaudit.report.calibration_page import write_calibration

    write_calibration(folder.out, made / "report.html")


def _scored(folder: Folder) -> Sequence[Any]:
    return (folder.records["score"].files,)


@dataclass
class _Cells:
    """Trains and audits the models one after another."""

    calibration: Calibration
    progress: Progress
    say: Say
    read: LastCorpus = field(default_factory=LastCorpus)

    def do(self, cell: Cell, of_all: str) -> None:
        """Train and audit a model, unless it is done."""
        started, place = time.perf_counter(), self.calibration.audit_of(cell)
        is_done = (place / MANIFEST).exists()
        progress = within(f"{cell.name} ({of_all})", self.progress)
        if isinstance(cell.training.teacher, Training):
            self._train(cell.training.teacher, progress, ["teach"])
        teaches = key_of(cell.training) in self.calibration.teachers
        self._train(cell.training, progress, ["intervene", *(["teach"] if teaches else [])])
        execute(self._recipe(cell, progress), place)
        if not is_done:
            self.say(f"{cell.name}: {time.perf_counter() - started:.0f} s ({of_all})")

    def _train(self, training: Training, progress: Progress, further: Sequence[str]) -> None:
        store = self.calibration.out / TRAININGS
        folder = training_folder(store, training)
        if finished_at(folder) is None or not all((folder / MADE[one]).exists() for one in further):
            corpus = self._corpus(training.spec)
            train_into(taught(training, store), folder, progress, corpus, further)

    def _corpus(self, spec: Any) -> Any:
        """Read the corpus of a training before words are planted into it.

        A file is read once, whatever the seed of what is planted.
        """
        is_generated = CORPORA[spec.corpus.source].generate is not None
        seed = spec.corpus.seed if is_generated else 0
        unplanted = replace(spec.corpus, planted=None, seed=seed)
        return self.read(replace(spec, corpus=unplanted), self.progress)

    def _recipe(self, cell: Cell, progress: Progress) -> Recipe:
        """Collect the trace as a user would have it, and what check and battery say of it."""
        training = training_folder(self.calibration.out / TRAININGS, cell.training)
        battery = choose((), {}, "classification")
        plain = {
            "schema": SCHEMA,
            "kind": "audit",
            "trace": f"{AUDITS}/{cell.name}/trace",
            "experiments": battery.settings,
        }

        def inputs(folder: Folder) -> Sequence[Any]:
            shards, found = trace_digests(training / "trace"), sha256(training / INTERVENTIONS)
            return shards, found, cell.name

        def show(folder: Folder, made: Path) -> None:
            trace = Trace.read(training / "trace")
            shown = cell.audited(trace)
            shown.write(made / "trace")
            found: Mapping[str, float] = read_json(training / INTERVENTIONS)
            write_json(made / CHECK, checked(cell.construction, found, trace, shown))

        audit = audit_step(self.calibration.audit_of(cell) / "trace", battery, plain, progress)
        steps = [Step("show", inputs, ("trace", CHECK), show), audit]
        return Recipe(plain, steps, lambda folder: {"kind": "audit"})


def _score_step(calibration: Calibration, progress: Progress) -> Step:
    """Make the tables over all models, and the degree."""
    folders = {cell: calibration.audit_of(cell) for cell in calibration.cells}

    def inputs(folder: Folder) -> Sequence[Any]:
        names = (RESULTS[1], CHECK)
        digests = {
            cell.name: [sha256(place / name) for name in names] for cell, place in folders.items()
        }
        return digests, calibration.to_json()

    def work(folder: Folder, made: Path) -> dict[str, Any]:
        progress("score the measures", 0, 0)
        rows = [{**_facts(cell), **read_json(place / CHECK)} for cell, place in folders.items()]
        checks = pl.DataFrame(rows)
        values = pl.DataFrame(list(_values(folders)), infer_schema_length=None)
        confirmed = checks.select("cell", "confirmed")
        values = values.join(confirmed, on="cell", maintain_order="left")
        found = (values, checks, scores(values), dials(values), matrix(values))
        for name, table in zip(TABLES, found, strict=True):
            table.write_parquet(made / name)
        degree, reason = _degree(values, calibration.command)
        write_json(made / DEGREE, degree)
        return {"no_degree": reason} if reason else {}

    return Step("score", inputs, (*TABLES, DEGREE), work)


def _degree(values: pl.DataFrame, command: str) -> tuple[dict[str, Any] | None, str]:
    """Return the degree as JSON, or why there is none."""
    known = values.filter(pl.col("confirmed"))
    for half in ("fit", "held"):
        for truth in ("faithful", "unfaithful"):
            if known.filter(half=half, truth=truth)["construction"].n_unique() < 2:
                return None, f"fewer than two {truth} constructions of the half {half}"
    try:
        return {**fitted(values).to_json(), "made_by": command}, ""
    except ValueError as error:
        return None, str(error)


def _facts(cell: Cell) -> dict[str, Any]:
    own = cell.construction
    named = {"construction": own.name, "truth": own.truth, "half": own.half}
    of_cell = {name: getattr(cell, name) for name in ("corpus", "encoder", "seed", "strength")}
    return {"cell": cell.name, **named, **of_cell}


def _values(folders: Mapping[Cell, Path]) -> Iterator[dict[str, Any]]:
    """Yield a row per model and measure of all of its instances."""
    for cell, folder in folders.items():
        for row in read_json(folder / RESULTS[1]):
            if row["group"] == "all":
                name, measure = row["experiment"], row["measure"]
                direction = direction_of(facts(name).measures, measure)
                value = None if row["value"] is None else float(row["value"])
                named = {"experiment": name, "measure": measure, "direction": direction}
                yield {**_facts(cell), **named, "value": value}
