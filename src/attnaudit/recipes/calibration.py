"""Planted truth: train models of known truth, audit them as a user would, count right verdicts.

``OUT/trainings`` holds the trainings, ``OUT/audits/<cell>`` the trace that is audited and its
results, ``OUT/calibration`` the tables and the page. A killed calibration resumes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import polars as pl

from attnaudit.calibration import CONSTRUCTIONS, Cell
from attnaudit.calibration.check import checked
from attnaudit.calibration.construction import TRANSFORMER, AnySpec, training_of
from attnaudit.calibration.score import scores
from attnaudit.calibration.verdicts import verdict_of
from attnaudit.core import (
    InputError,
    Progress,
    expanded,
    read_json,
    require,
    require_known,
    silent,
    within,
    write_json,
)
from attnaudit.core.settings import Settings, override, setting
from attnaudit.corpora.registry import CORPORA
from attnaudit.experiments import facts
from attnaudit.plans.audit import choose
from attnaudit.plans.spec import SCHEMA, RunSpec, refuse_options, refuse_settings
from attnaudit.plans.training import Training, TrainingId
from attnaudit.recipes.audit import PAGE, RESULTS, Audit, report_step
from attnaudit.recipes.job import INTERVENTIONS, STEPS
from attnaudit.recipes.kinds import LastCorpus, kind_of_corpus, model_options
from attnaudit.recipes.study import (
    TRAININGS,
    Say,
    do_trainings,
    training_calls,
    training_folder,
)
from attnaudit.results import measure_of
from attnaudit.steps import MANIFEST, Planned, Recipe, Step, check_place, execute, read_manifest
from attnaudit.trace import Trace
from attnaudit.training.transformers import config_named

AUDITS, PLACE = "audits", "calibration"
TABLES = tuple(f"{name}.parquet" for name in ("values", "checks", "scores", "verdicts"))
CHECK = "check.json"
SOURCES: dict[str, dict[str, Any]] = {
    "planted-prior": {"corpus.size": 3000, "corpus.length": (12, 24)},
    "sst": {},
    "movies_rationales": {"corpus.max_tokens": 400},
}
BY_OPTION = {
    "calibration.out": "--out",
    "calibration.corpora": "CORPUS",
    "calibration.model": "--model",
    "calibration.data_dir": "--data-dir",
}


@dataclass(frozen=True)
class Calibration(Settings):
    """Models to calibrate on, and their folder.

    Raises:
        InputError: For an unknown name, no corpus, or a number out of range.
    """

    name: ClassVar = PLACE
    question: ClassVar[str] = "How often is the verdict right?"
    quick: ClassVar[Mapping[str, Any]] = {"seeds": 1, "encoders": 1}
    out: Path = setting("Folder of the calibration.", Path("runs/calibration"))
    corpora: tuple[str, ...] = setting("Corpora that words are planted into.", tuple(SOURCES))
    seeds: int = setting("Number of seeds of each construction on each corpus.", 5, least=1)
    encoders: int | None = setting(
        "Largest number of encoders of a construction; default: all.", None, least=1
    )
    constructions: tuple[str, ...] | None = setting(
        "Names of the only constructions; default: all.", None
    )
    data_dir: str | None = setting("Folder of the registered corpora.", None)
    model: str | None = setting("Transformer that is trained, in place of the encoders.", None)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.corpora:
            CORPORA.find(name, "calibrate")
        for name in self.constructions or ():
            CONSTRUCTIONS.find(name, "calibrate")
            require_known("calibrate", f"construction for {self.model}", name, self.known)
        if not self.corpora:
            raise InputError("calibrate", "CORPUS", "none", "1 or more")

    @classmethod
    def of(
        cls,
        source: str,
        out: str | Path | None = None,
        *,
        seed: int = 0,
        full: bool = False,
        settings: Mapping[str, Any] | None = None,
        data_dir: str | None = None,
        **options: Any,
    ) -> Calibration:
        """Make a calibration.

        Args:
            source: Names of corpora, joined by commas.
            out: Its folder.
            seed: First seed, 0.
            full: Whether all encoders and seeds are trained.
            settings: ``calibration.seeds``, ``calibration.encoders``,
                ``calibration.constructions``.
            data_dir: Folder of the registered corpora.
            **options: ``config`` or ``folder`` of a transformer (`model_options`). Options of other
                studies are refused.

        Raises:
            InputError: For an unknown name, setting or option.
        """
        if seed:
            options["seed"] = seed
        refuse_options(options, ("config", "folder"), PLACE)
        given = dict(settings or {})
        refuse_settings(given, BY_OPTION)
        model = options.get("config", options.get("folder"))
        corpora = tuple(source.split(","))
        made = cls(expanded(out or cls.out), corpora, data_dir=data_dir, model=model)
        return override({PLACE: made if full else replace(made, **cls.quick)}, given)[PLACE]

    @cached_property
    def base(self) -> dict[str, AnySpec]:
        """An ordinary spec for each corpus, without planted words."""
        named = model_options(self.model)
        if "config" in named and config_named(named["config"]).architecture.causal:
            raise InputError("calibrate", "--model", self.model or "", "a classifier")
        kind = kind_of_corpus("", named=named).spec
        settings = {
            name: SOURCES.get(name, {}) | TRANSFORMER.get(kind.kind, {}) for name in self.corpora
        }
        return {
            name: kind.of(name, settings=own, data_dir=self.data_dir, **named)
            for name, own in settings.items()
        }

    @property
    def known(self) -> list[str]:
        """Names of the constructions of models of this kind."""
        every = CONSTRUCTIONS.items()
        return [name for name, one in every if self.model is None or one.transformers]

    @cached_property
    def cells(self) -> list[Cell]:
        """All models, sorted by corpus, then seed."""
        chosen = [
            CONSTRUCTIONS[name] for name in self.known if name in (self.constructions or self.known)
        ]
        cells = [
            Cell(one, corpus, encoder, seed, training_of(one, spec, corpus, encoder, seed))
            for one in chosen
            for corpus, spec in self.base.items()
            for every in [one.encoders if isinstance(spec, RunSpec) else (spec.config,)]
            for encoder in every[: self.encoders]
            for seed in range(self.seeds)
        ]
        return sorted(cells, key=lambda cell: (self.corpora.index(cell.corpus), cell.seed))

    @cached_property
    def trainings(self) -> list[Training]:
        """All trainings, each once and after its teacher."""
        every: dict[TrainingId, Training] = {}
        for cell in self.cells:
            if teacher := cell.training.teacher:
                every[teacher.id] = replace(teacher, also=("intervene", "teach"))
            every.setdefault(cell.training.id, replace(cell.training, also=("intervene",)))
        return list(every.values())

    @property
    def missing(self) -> list[Training]:
        """Trainings that are not done, or have not left all that is asked for."""
        return [
            one
            for one in self.trainings
            for place in [training_folder(self.out / TRAININGS, one)]
            if not (place / MANIFEST).exists()
            or not all((place / STEPS[name][0]).exists() for name in one.also)
        ]

    @cached_property
    def audits(self) -> dict[Cell, Path]:
        """Folder of each model's audit."""
        return {cell: self.out / AUDITS / cell.name for cell in self.cells}

    def to_json(self) -> dict[str, Any]:
        """Return what ``spec.json`` holds."""
        spec: Any = self.base[self.corpora[0]]
        return {
            "schema": SCHEMA,
            "kind": PLACE,
            "corpora": list(self.corpora),
            "seeds": self.seeds,
            "encoders": self.encoders,
            "constructions": self.constructions and list(self.constructions),
            "model": self.model and {"name": spec.config, **spec.to_json()["model"]},
        }


def calibrate(
    calibration: Calibration, progress: Progress = silent, say: Say = lambda line: None
) -> Path:
    """Train, audit and score what is missing; return the folder of the tables and the page.

    Raises:
        InputError: For a corpus that cannot be read.
        RunError: If the place holds another calibration.
    """
    require("train", "calibrate")
    place, store = calibration.out / PLACE, calibration.out / TRAININGS
    do = f"give its options, or remove {place} (trainings and audits stay)"
    report = report_step(progress, {PAGE: _write_page})
    recipe = Recipe(
        calibration.to_json(),
        [_score_step(calibration, progress), report],
        do=f"{do}, or choose another --out",
    )
    check_place(place, recipe.spec or {}, recipe.do)
    read = LastCorpus()
    missing, base = calibration.missing, calibration.base
    calls = training_calls(missing, store, lambda spec: read(_unplanted(spec, base), progress))
    do_trainings(calls, len(missing), progress, say)
    for number, (cell, out) in enumerate(calibration.audits.items(), 1):
        label = f"{cell.name} ({number} of {len(calibration.audits)})"
        training = training_folder(store, cell.training)
        execute(_audit_recipe(out, cell, training, within(label, progress)), out)
    return execute(recipe, place)


def plan_calibration(calibration: Calibration) -> list[Planned]:
    """List the models of a calibration, and say which are done."""
    return [
        Planned(cell.name, str(place), (place / MANIFEST).exists())
        for cell, place in calibration.audits.items()
    ]


def _write_page(folder: Path, page: Path) -> None:
    from attnaudit.report.calibration_page import write_calibration

    write_calibration(folder, page)


def _unplanted(spec: AnySpec, base: Mapping[str, AnySpec]) -> AnySpec:
    """Return the spec of a corpus before words are planted into it.

    A file is read once, whatever the seed of what is planted.
    """
    is_generated = CORPORA[spec.corpus.source].generate is not None
    seed = spec.corpus.seed if is_generated else 0
    return replace(spec, corpus=replace(base[spec.corpus.source].corpus, seed=seed))


def _audit_recipe(out: Path, cell: Cell, training: Path, progress: Progress) -> Recipe:
    """Collect the trace as a user would have it, and what check and battery say of it."""
    # The other experiments are about the weights of single heads, and take long on each of them.
    of_words = isinstance(cell.training.spec, RunSpec)
    battery = choose(() if of_words else ("prediction", "replacement"), task="classification")
    shown = {"trace": f"{AUDITS}/{cell.name}/trace", "experiments": battery.settings}
    plain = {"schema": SCHEMA, "kind": "audit", **shown}

    def inputs(folder):
        return read_manifest(training)["files"], cell.name

    def show(folder, made):
        trace = Trace.read(training / "trace")
        shown = cell.audited(trace)
        shown.write(made / "trace")
        found: Mapping[str, Sequence[Any]] = read_json(training / INTERVENTIONS)
        write_json(made / CHECK, checked(cell.construction, found, trace, shown))

    audit = Audit(trace=out / "trace", battery=battery, plain=plain, progress=progress).audit_step()
    return Recipe(plain, [Step("show", inputs, ("trace", CHECK), show), audit])


def _score_step(calibration: Calibration, progress: Progress) -> Step:
    """Make the tables over all models."""
    folders = calibration.audits

    def inputs(folder):
        files = {cell.name: read_manifest(place)["files"] for cell, place in folders.items()}
        return files, calibration.to_json()

    def work(folder, made):
        progress("score the measures", 0, 0)
        checks = {cell: read_json(place / CHECK) for cell, place in folders.items()}

        def tabulated(rows):
            """Tabulate what ``rows`` yields for each model, with the facts of the model."""
            every = (
                {**_facts(cell), **row, "confirmed": check["confirmed"]}
                for cell, check in checks.items()
                for row in rows(cell)
            )
            return pl.DataFrame(list(every), infer_schema_length=None)

        values = tabulated(lambda cell: _values(folders[cell]))
        verdicts = tabulated(lambda cell: [verdict_of(folders[cell])])
        found = (values, tabulated(lambda cell: [checks[cell]]), scores(values), verdicts)
        for name, table in zip(TABLES, found, strict=True):
            table.write_parquet(made / name)

    return Step("score", inputs, TABLES, work)


def _facts(cell: Cell) -> dict[str, Any]:
    own, of_words = cell.construction, isinstance(cell.training.spec, RunSpec)
    # Nothing was fitted to transformers, so that both halves are held out.
    half = own.half if of_words else "transformer"
    named = {"construction": own.name, "truth": own.truth, "half": half}
    place = {"corpus": cell.corpus, "encoder": cell.encoder, "seed": cell.seed}
    return {"cell": cell.name, **named, **place}


def _values(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield a row per measure of all instances of an audit."""
    for row in read_json(folder / RESULTS[1]):
        if row["group"] == "all":
            name, measure = row["experiment"], row["measure"]
            direction = measure_of(facts(name).measures, measure).direction
            value = None if row["value"] is None else float(row["value"])
            named = {"experiment": name, "measure": measure, "direction": direction}
            yield {**named, "value": value}
