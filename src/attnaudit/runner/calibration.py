"""Planted truth: every construction is trained, audited as a user's trace would be, and every measure scored by what it says of them.

``OUT/trainings`` holds the trainings, ``OUT/audits/<cell>`` the trace that is audited and its results, ``OUT/calibration`` the tables, the
degree and the page. All is done once for what it follows from, so that the same call resumes a sweep that was stopped.
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
from attnaudit.core.files import content_key, read_json, sha256, write_json, write_with_digest
from attnaudit.core.progress import Progress, silent, within
from attnaudit.corpora.registry import CORPORA
from attnaudit.plans.spec import SCHEMA, RunSpec
from attnaudit.plans.training import Training
from attnaudit.results.measures import direction_of
from attnaudit.runner.audits import RESULTS, audit_step, choose
from attnaudit.runner.pipeline import train_into
from attnaudit.runner.planning import Estimates, Plan
from attnaudit.runner.reading import LastCorpus
from attnaudit.runner.store import Store, alone, check_place, trace_digests
from attnaudit.runner.studies import TRAININGS, finished_at, key_of, taught, training_folder
from attnaudit.runner.tasks.texts import INTERVENTIONS
from attnaudit.trace import Trace

AUDITS, PLACE = "audits", "calibration"
TABLES = ("values.parquet", "checks.parquet", "scores.parquet", "dials.parquet", "matrix.parquet")
DEGREE = "degree.json"
SOURCES: dict[str, dict[str, Any]] = {
    "planted-prior": {"corpus.size": 3000, "corpus.length": (12, 24)}, "sst": {}, "movies_rationales": {"corpus.max_tokens": 400},
}  # fmt: skip
FULL_SEEDS = 5
AUDIT_SECONDS = 1.0  # of 80 short texts
Say = Callable[[str], None]


@dataclass(frozen=True)
class Calibration:
    """Which cells, and where: of every construction ``seeds`` models on each of the ``corpora``, with at most ``encoders`` encoders.

    ``constructions`` None means all. Raises InputError for an unknown name, and for fewer than one seed or encoder.
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
            raise InputError(
                "calibrate",
                "--seeds, --corpus",
                f"{self.seeds} seeds, {len(self.corpora)} corpora",
                "1 or more of each",
            )
        if self.encoders is not None and self.encoders < 1:
            raise InputError("calibrate", "--encoders", str(self.encoders), "1 or more")

    @cached_property
    def cells(self) -> list[Cell]:
        """All models, those of one corpus and seed together."""
        base = {
            name: RunSpec.of(name, settings=SOURCES.get(name, {}), data_dir=self.data_dir)
            for name in self.corpora
        }
        chosen = [
            one
            for name, one in CONSTRUCTIONS.items()
            if self.constructions is None or name in self.constructions
        ]
        cells = [cell for one in chosen for cell in cells_of(one, base, self.seeds, self.encoders)]
        first: dict[
            str, Training
        ] = {}  # the same training may be asked for by several constructions: it is done once
        once = [
            replace(cell, training=first.setdefault(key_of(cell.training), cell.training))
            for cell in cells
        ]
        return sorted(once, key=lambda cell: (self.corpora.index(cell.corpus), cell.seed))

    @property
    def trainings(self) -> list[Training]:
        """What is trained for the cells, each training once, teachers first."""
        found: dict[str, Training] = {}
        for cell in self.cells:
            for training in filter(None, (cell.training.teacher, cell.training)):
                assert isinstance(training, Training)
                found.setdefault(key_of(training), training)
        return list(found.values())

    def to_json(self) -> dict[str, Any]:
        """What ``spec.json`` holds."""
        chosen = {
            "corpora": list(self.corpora),
            "seeds": self.seeds,
            "encoders": self.encoders,
            "constructions": self.constructions,
        }
        return {
            "schema": SCHEMA,
            "kind": "calibration",
            **{name: list(one) if isinstance(one, tuple) else one for name, one in chosen.items()},
        }

    @property
    def command(self) -> str:
        """The command that does this."""
        parts = [*(f"--corpus {name}" for name in self.corpora), f"--seeds {self.seeds}"]
        parts += [f"--encoders {self.encoders}"] if self.encoders else []
        return " ".join(
            [
                "attnaudit calibrate",
                *parts,
                *(f"--construction {name}" for name in self.constructions or ()),
            ]
        )


def calibrate(
    calibration: Calibration, progress: Progress | None = None, say: Say = lambda line: None
) -> Path:
    """Train, audit and score what is missing; returns the folder of the tables and the page.

    Raises InputError for a corpus that cannot be read, and RunError where the place holds another calibration.
    """
    from attnaudit.report.calibration_page import write_calibration

    require("train", "calibrate")
    work, place, plain = (
        _Work(calibration, progress or silent, say),
        calibration.out / PLACE,
        calibration.to_json(),
    )
    check_place(
        place,
        plain,
        f"give its options, or remove {place} (trainings and audits stay), or choose another --out",
    )
    for number, cell in enumerate(calibration.cells, 1):
        work.do(cell, number)
    with alone(place) as store:
        work.score(store, plain)
        record = store.records["score"]

        def write(folder: Path) -> None:
            write_calibration(place, folder / "report.html")

        store.step("report", content_key("report", record.files), ("report.html",), write)
        store.close({"kind": "calibration", "command": calibration.command})
    return place


def plan_calibration(calibration: Calibration, progress: Progress | None = None) -> Plan:
    """The plan of `calibrate` with the same arguments: its trainings; audits, which take about as long, are not counted."""
    work = _Work(calibration, progress or silent, lambda line: None)
    jobs = [
        (one.name, training_folder(calibration.out / TRAININGS, one), one.spec)
        for one in calibration.trainings
    ]
    note = f"{len(calibration.cells)} models are audited, {AUDIT_SECONDS:g} s each, which the estimate does not include"
    return Estimates(lambda spec, _: work._corpus(spec), work.progress).plan(jobs, (note,))


@dataclass
class _Work:
    """A sweep under way."""

    calibration: Calibration
    progress: Progress
    say: Say
    read: LastCorpus = field(default_factory=LastCorpus)

    def do(self, cell: Cell, number: int) -> None:
        """Train and audit one cell, unless that is done."""
        of_all = f"{number} of {len(self.calibration.cells)}"
        started, before = time.perf_counter(), (self._audit_of(cell) / "manifest.json").exists()
        progress = within(f"{cell.name} ({of_all})", self.progress)
        if isinstance(cell.training.teacher, Training):
            self._train(cell.training.teacher, progress, ["teach"])
        self._train(
            cell.training,
            progress,
            ["intervene", *(["teach"] if self._teaches(cell.training) else [])],
        )
        with alone(self._audit_of(cell)) as store:
            self._audit(store, cell, progress)
        if not before:
            self.say(f"{cell.name}: {time.perf_counter() - started:.0f} s ({of_all})")

    @cached_property
    def _teachers(self) -> set[str]:
        return {
            key_of(cell.training.teacher)
            for cell in self.calibration.cells
            if isinstance(cell.training.teacher, Training)
        }

    def _teaches(self, training: Training) -> bool:
        return key_of(training) in self._teachers

    def _train(self, training: Training, progress: Progress, steps: Sequence[str]) -> None:
        store = self.calibration.out / TRAININGS
        folder = training_folder(store, training)
        if finished_at(folder) is not None and all(
            (folder / made).exists() for made in _made(steps)
        ):
            return
        train_into(taught(training, store), folder, progress, self._corpus(training.spec), [*steps])

    def _corpus(self, spec: Any) -> Any:
        """The corpus of a training before words are planted into it; a file is read once, whatever the seed of what is planted."""
        generated = CORPORA[spec.corpus.source].generate is not None
        unplanted = replace(spec.corpus, planted=None, seed=spec.corpus.seed if generated else 0)
        return self.read(replace(spec, corpus=unplanted), self.progress)

    def _audit_of(self, cell: Cell) -> Path:
        return self.calibration.out / AUDITS / cell.name

    def _audit(self, store: Store, cell: Cell, progress: Progress) -> None:
        """The trace as a user would have it, what the check says of it, and the battery on it."""
        training = training_folder(self.calibration.out / TRAININGS, cell.training)
        battery = choose((), {}, "classification")
        plain = {
            "schema": SCHEMA,
            "kind": "audit",
            "trace": f"{AUDITS}/{cell.name}/trace",
            "experiments": battery.settings,
        }

        def show(folder: Path) -> None:
            trace = Trace.read(training / "trace")
            shown = cell.audited(trace)
            shown.write(folder / "trace")
            interventions: Mapping[str, float] = read_json(training / INTERVENTIONS)
            write_json(
                folder / "check.json", checked(cell.construction, interventions, trace, shown)
            )

        key = content_key(
            "show", trace_digests(training / "trace"), sha256(training / INTERVENTIONS), cell.name
        )
        store.step("show", key, ("trace", "check.json"), show)
        if not (store.out / "spec.json").exists():
            write_with_digest(store.out / "spec.json", plain)
        audit_step(store, store.out / "trace", battery, plain, progress)
        store.close({"kind": "audit"})

    def score(self, store: Store, plain: Mapping[str, Any]) -> None:
        """The tables over all cells, and the degree where the constructions of both halves are there."""
        folders = {cell: self._audit_of(cell) for cell in self.calibration.cells}
        digests = {
            cell.name: [sha256(folder / RESULTS[1]), sha256(folder / "check.json")]
            for cell, folder in folders.items()
        }

        def work(folder: Path) -> dict[str, Any]:
            self.progress("score the measures", 0, 0)
            checks = pl.DataFrame(
                [
                    {**_facts(cell), **read_json(place / "check.json")}
                    for cell, place in folders.items()
                ]
            )
            values = pl.DataFrame(list(_values(folders)), infer_schema_length=None)
            values = values.join(
                checks.select("cell", "confirmed"), on="cell", maintain_order="left"
            )
            found = (values, checks, scores(values), dials(values), matrix(values))
            for name, table in zip(TABLES, found, strict=True):
                table.write_parquet(folder / name)
            degree, reason = _degree(values, self.calibration.command)
            write_json(folder / DEGREE, degree)
            if not (store.out / "spec.json").exists():
                write_with_digest(store.out / "spec.json", plain)
            return {"no_degree": reason} if reason else {}

        store.step("score", content_key("score", digests, plain), (*TABLES, DEGREE), work)


def _made(steps: Sequence[str]) -> list[str]:
    return [{"teach": "teacher", "intervene": INTERVENTIONS}[step] for step in steps]


def _degree(values: pl.DataFrame, command: str) -> tuple[dict[str, Any] | None, str]:
    """The degree as JSON, or why there is none."""
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
    return {
        "cell": cell.name, "construction": own.name, "truth": own.truth, "half": own.half, "corpus": cell.corpus, "encoder": cell.encoder,
        "seed": cell.seed, "strength": cell.strength,
    }  # fmt: skip


def _values(folders: Mapping[Cell, Path]) -> Iterator[dict[str, Any]]:
    """A row per cell and measure of all of its instances."""
    from attnaudit.experiments import facts

    for cell, folder in folders.items():
        for row in read_json(folder / RESULTS[1]):
            if row["group"] == "all":
                direction = direction_of(facts(row["experiment"]).measures, row["measure"])
                value = None if row["value"] is None else float(row["value"])
                yield {
                    **_facts(cell),
                    "experiment": row["experiment"],
                    "measure": row["measure"],
                    "direction": direction,
                    "value": value,
                }
