"""A study done: the trainings of its plan that are not there yet, then its analysis of all their traces, then its page.

``OUT/trainings/<name>-<key>`` holds a training, shared by all studies of one folder; ``OUT/<study>`` what a study gave; ``OUT/audit`` the
battery on the base's trace; ``OUT/index.html`` joins them. A training's key is that of all it follows from, so that none is run twice and
an interrupted study resumes.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import polars as pl

from attnaudit.copying.study import NAME as COPYING
from attnaudit.core.errors import InputError, RunError, did_you_mean
from attnaudit.core.extras import require
from attnaudit.core.files import content_key, sha256, write_json, write_with_digest
from attnaudit.core.progress import WITHIN, Progress, silent
from attnaudit.core.settings import override
from attnaudit.plans.spec import SCHEMA, Teacher, differences
from attnaudit.plans.training import TrainingId, usual
from attnaudit.published.numbers import with_study_references
from attnaudit.results import SUMMARY_SCHEMA
from attnaudit.results.table import table_file
from attnaudit.runner.audits import RESULTS, audit_page, audit_step, choose, report_step
from attnaudit.runner.copying import copying_folder, copying_study, run_copying
from attnaudit.runner.engine import LOCAL, Call, Engine, Here, files_of
from attnaudit.runner.pipeline import train_into
from attnaudit.runner.reading import LastCorpus, Read
from attnaudit.runner.store import (
    MANIFEST,
    Record,
    Store,
    alone,
    check_place,
    read_spec,
    remove_empty,
    some_of,
    trace_digests,
)
from attnaudit.runner.tasks import task_of, task_of_corpus
from attnaudit.runner.tasks.pairs import TRANSLATIONS, read_translations
from attnaudit.runner.tasks.texts import TEACHER
from attnaudit.studies import EVERY_STUDY, Study, Training
from attnaudit.studies.base import base_rows
from attnaudit.trace import Trace, trace_task
from attnaudit.training.probe import STEP_FOLDER

TRAININGS, AUDIT = "trainings", "audit"
OF_A_BILSTM = (
    "uniform",
    "seeds",
    "guide",
    "adversary",
)  # studies whose published numbers are of that model
NOT_IDENTITY = (
    "experiments",
    "device",
    "teacher",
)  # of a training's spec: what does not change it, and what its teacher's key says
EPOCHS = ("training.epochs", "training.patience")
Say = Callable[[str], None]


@dataclass(frozen=True)
class StudySpec:
    """A study and the run that it is about: model, corpus and settings of the ordinary training."""

    study: Study
    base: Any

    @classmethod
    def of(
        cls, study: str, source: str | Path, *, full: bool = False, settings: Mapping[str, Any] | None = None, **options: Any
    ) -> StudySpec:  # fmt: skip
        """The study named, of the run that the corpus's task makes of ``source`` and ``options`` (as `RunSpec.of`, `TranslationSpec.of`),
        or of the transformer ``config`` (as `TransformerTraining.of`).

        Dotted settings that begin with the study's name are its own; the others of its settings are as published with ``full``, else those
        of `Study.quick`. ``training.epochs`` and ``training.patience`` hold for trainings of the study's own too, unless the study's
        settings have others. Raises InputError.
        """
        check_name(study)
        given = dict(settings or {})
        task = task_of_corpus(source, given, options.get("config"))
        studies = task.studies
        if study not in studies:
            raise InputError(
                "study",
                "name",
                repr(study),
                f"one of {', '.join(studies)} for {options.get('config', source)}",
            )
        kind = studies[study]
        stated = options | given
        names = {name: name.partition(".")[2] for name in EPOCHS}
        own = {
            f"{study}.{name}": given[setting]
            for setting, name in names.items()
            if setting in given and hasattr(kind, name)
        }
        own |= {key: given.pop(key) for key in list(given) if key.partition(".")[0] == study}
        quick = (
            {}
            if full
            else {
                key if "." in key else f"{study}.{key}": value for key, value in kind.quick.items()
            }
        )
        usual = {key: quick.pop(key) for key in list(quick) if key.partition(".")[0] == study}
        base = task.spec(source, settings=quick | given, **options)
        chosen = override({study: kind()}, {**usual, f"{study}.seed": base.seed, **own})[study]
        _check_stated(chosen, stated)
        return cls(chosen, base)

    @property
    def folder(self) -> str:
        """Where studies of this model are by default."""
        return f"runs/studies/{self.base.name}"

    def to_json(self) -> dict[str, Any]:
        """What ``spec.json`` holds, apart from the fingerprint of the corpus."""
        base = {
            name: value
            for name, value in self.base.to_json().items()
            if name not in ("schema", "kind", "experiments")
        }
        return {
            "schema": SCHEMA,
            "kind": "study",
            "study": {"name": self.study.name, **json.loads(json.dumps(asdict(self.study)))},
            **base,
        }


def _check_stated(study: Study, stated: Mapping[str, Any]) -> None:
    """Raise InputError for a setting, or an option, that has no effect in ``study``."""
    decided = getattr(study, "decided", {})
    for key, expected in getattr(study, "overruled", {}).items():
        value = stated.get(key)
        if value is not None and str(value) != str(decided.get(key)):
            name = f"setting {key}" if "." in key else f"--{key}"
            raise InputError(
                "study", name, f"{value}, which has no effect in {study.name}", expected
            )


def study(
    name: str, source: str | Path, out: str | Path | None = None, progress: Progress | None = None, say: Say = lambda line: None,
    engine: Engine = LOCAL, **options: Any,
) -> Path:  # fmt: skip
    """Do the study ``name`` of the corpus ``source`` in the folder ``out``, by default below ``runs/studies``; returns the study's folder.

    ``options`` are those of the corpus's task (as `RunSpec.of`, `TranslationSpec.of`), or with ``config`` those of a transformer that is
    trained here (as `TransformerTraining.of`), with dotted ``settings`` that may be the study's own
    (``{"uniform.seeds": 3}``), and ``full``: with it the settings that are not given are as published, else those of a study that two cores
    finish in minutes. ``say`` is called with a line for each training. The ``engine`` trains. What is done already is left as it is. Raises
    InputError, and RunError where the folder holds another study.
    """
    check_name(name)
    if name == COPYING:
        if engine != LOCAL:
            raise InputError(
                "study",
                "--engine ray",
                "copying, which trains all seeds side by side in one process",
                "--engine local",
            )
        copying = copying_study(str(source), **options)
        return run_copying(copying, out or copying_folder(copying), progress)
    spec = StudySpec.of(name, source, **options)
    return run_study(spec, out or spec.folder, progress, say, engine)


def check_name(study: str) -> None:
    """Raise InputError for what is no study of any corpus."""
    names = [*EVERY_STUDY, COPYING]
    if study not in names:
        raise InputError(
            "study", "name", repr(study), f"one of {', '.join(names)}", did_you_mean(study, names)
        )


def key_of(training: Training) -> str:
    """What a training follows from, its teacher's key included."""
    spec = {
        name: value for name, value in training.spec.to_json().items() if name not in NOT_IDENTITY
    }
    spec["corpus"] = {name: value for name, value in spec["corpus"].items() if name != "data_dir"}
    if training.teacher is None:
        return content_key(spec, None)
    taught = (
        key_of(training.teacher)
        if isinstance(training.teacher, Training)
        else trace_digests(Path(training.teacher))
    )
    return content_key(spec, [taught, training.column])


@dataclass(frozen=True)
class Prepared:
    """A study about to be done: its corpus, what its ``spec.json`` holds, its trainings with their folders, and notes on them."""

    corpus: Any
    plain: dict[str, Any]
    trainings: Sequence[Training]
    folders: Mapping[TrainingId, Path]
    notes: tuple[str, ...]

    @property
    def missing(self) -> list[Training]:
        return [
            training
            for training in self.trainings
            if finished_at(self.folders[training.id]) is None
        ]


def prepared(spec: StudySpec, out: Path, progress: Progress, read: Read | None = None) -> Prepared:
    """What there is to be done of a study in ``out``. Raises InputError, and RunError where that has another spec."""
    plain = spec.to_json()
    corpus = (read or LastCorpus())(spec.base, progress)
    plain["fingerprint"] = corpus.fingerprint
    plan = spec.study.plan(
        spec.base, corpus
    )  # validates the plan before conflicting studies are looked for
    _check_places(out, out / spec.study.name, plain, task_of(spec.base).studies)
    notes = tuple(dict.fromkeys(training.note for training in plan if training.note))
    return Prepared(
        corpus,
        plain,
        plan,
        {training.id: training_folder(out / TRAININGS, training) for training in plan},
        notes,
    )


def run_study(
    spec: StudySpec, out: str | Path, progress: Progress | None = None, say: Say = lambda line: None, engine: Engine = LOCAL,
    read: Read | None = None,
) -> Path:  # fmt: skip
    """Do what is missing of a study in ``out``; returns the study's folder. Raises InputError, and RunError where that has another spec."""
    from attnaudit.report.study_page import write_studies, write_study

    for extra in task_of(spec.base).needs:
        require(extra, "study")
    out, progress = Path(out), progress or silent
    study = prepared(spec, out, progress, read)
    place, plain, folders, notes = (
        out / spec.study.name,
        study.plain,
        study.folders,
        list(study.notes),
    )
    for note in notes:
        say(f"note: {note}")
    try:
        if study.missing or engine == LOCAL:
            with engine.opened(out) as opened:
                _train_all(study, out / TRAININGS, progress, say, opened)
    finally:
        remove_empty(out / TRAININGS, out)
    base = folders.get(usual(spec.base, spec.base.seed).id)
    metadata = next(Trace.shards((base or folders[study.trainings[0].id]) / "trace")).metadata
    with alone(place) as store:
        analysed = _analyse(store, spec, plain, study.corpus.name, folders, progress)

        def write_page(folder: Path) -> None:
            write_study(place, metadata, notes, folder / "report.html")

        store.step(
            "report",
            content_key("report", analysed.files, plain, *notes),
            ("report.html",),
            write_page,
        )
        store.close(
            {
                "kind": "study",
                "notes": notes,
                "trainings": {str(training): folder.name for training, folder in folders.items()},
            }
        )
    if base is not None:
        (task_of(spec.base).audit or _audit)(spec.base, base, out / AUDIT, progress)
    write_studies(out, metadata, tuple(task_of(spec.base).studies))
    return place


def _check_places(
    out: Path, place: Path, plain: dict[str, Any], studies: Mapping[str, type[Study]]
) -> None:
    """Raise RunError where the study is there with other settings, or another study of another model, corpus or seed.

    What a study decides itself is not asked of the others, nor how many epochs there are of one that counts steps.
    """
    about = {key: value for key, value in plain.items() if key not in ("study", "kind")}
    for other in sorted(out.glob("*/spec.json")):
        found = read_spec(other.parent)
        if found.get("kind") == "study":
            base = {key: value for key, value in found.items() if key in about}
            both = (plain, found)
            free = {
                name
                for one in both
                for name in getattr(studies.get(one["study"]["name"]), "not_of_base", ())
            }
            free |= (
                set(EPOCHS)
                if any("steps" in {**one["study"], **one.get("training", {})} for one in both)
                else set()
            )
            differing = differences(*(_without(one, free) for one in (about, base)))
            if differing:
                raise RunError(
                    "study", str(out), f"{other.parent.name} there is of another model or corpus: {some_of(differing)}",
                    "all studies of a folder about the same", "choose another --out",
                )  # fmt: skip
    check_place(
        place,
        plain,
        f"give its options, or remove {place} (the trainings stay), or choose another --out",
    )


def _without(plain: Mapping[str, Any], names: Collection[str], prefix: str = "") -> dict[str, Any]:
    """Without the entries of dotted ``names``."""
    return {
        key: _without(value, names, f"{prefix}{key}.") if isinstance(value, Mapping) else value
        for key, value in plain.items()
        if f"{prefix}{key}" not in names
    }


def _audit(spec: Any, base: Path, place: Path, progress: Progress) -> None:
    """The battery on the trace of the training ``base``, with its page."""
    trace = base / "trace"
    battery = choose((), {}, trace_task(trace))
    plain = {
        "schema": SCHEMA,
        "kind": "audit",
        "trace": f"../{TRAININGS}/{base.name}/trace",
        "experiments": battery.settings,
    }
    with alone(place) as store:
        write_with_digest(place / "spec.json", plain)
        audit_step(store, trace, battery, plain, progress)
        report_step(store, progress, audit_page(trace))
        store.close({"kind": "audit"})


def _analyse(
    store: Store,
    spec: StudySpec,
    plain: Mapping[str, Any],
    corpus: str,
    folders: Mapping[TrainingId, Path],
    progress: Progress,
) -> Record:
    study = spec.study
    comparable = (
        study.name not in OF_A_BILSTM or getattr(spec.base.model, "encoder", "") == "bilstm"
    )

    def work(folder: Path) -> None:
        progress("compare the trainings", 0, 0)
        traces = Traces(folders)
        table = study(traces)
        summary = study.summarise(table)
        asked = pl.DataFrame(base_rows(study, traces), schema=SUMMARY_SCHEMA)
        summary = with_study_references(summary, study.name, corpus) if comparable else summary
        with table_file(folder / RESULTS[0] / f"{study.name}.parquet") as add:
            add(table)
        write_json(folder / RESULTS[1], [*summary.to_dicts(), *asked.to_dicts()])
        write_with_digest(
            store.out / "spec.json", plain
        )  # none where the analysis failed: the folder is then free

    named = {str(training): folder for training, folder in folders.items()}
    digests = {name: trace_digests(folder / "trace") for name, folder in named.items()}
    steps = (
        (name, part)
        for name, folder in named.items()
        for part in sorted((folder / STEP_FOLDER).glob("*"))
    )
    digests |= {f"{name}/{part.name}": trace_digests(part) for name, part in steps}
    digests |= {
        f"{name}/{TRANSLATIONS}": [sha256(file)]
        for name, folder in named.items()
        if (file := folder / TRANSLATIONS).exists()
    }
    return store.step(
        "analyse", content_key("analyse", study.name, asdict(study), digests), RESULTS, work
    )


@dataclass(frozen=True)
class Traces(Mapping[TrainingId, Trace]):
    """The traces of trainings. What else one of them left, a `TrainingId` with a ``part``, is read whenever it is asked for."""

    folders: Mapping[TrainingId, Path]
    held: dict[TrainingId, Trace] = field(default_factory=dict)

    def __getitem__(self, training: TrainingId) -> Trace:
        folder = self.folders[replace(training, part="")]
        if training.part:
            return Trace.read(folder / training.part)
        if training not in self.held:
            self.held[training] = Trace.read(folder / "trace")
        return self.held[training]

    def translations(self, training: TrainingId) -> list[dict[str, Any]]:
        """What a translator that `Training.writes` wrote: {instance, source, reference, translation} of every pair of test."""
        return read_translations(self.folders[training])

    def __iter__(self) -> Iterator[TrainingId]:
        return iter(self.folders)

    def __len__(self) -> int:
        return len(self.folders)


def _train_all(study: Prepared, store: Path, progress: Progress, say: Say, engine: Engine) -> None:
    """Train what of a study is not finished."""
    total, by_name = len(study.trainings), {training.name: training for training in study.trainings}
    took: dict[TrainingId, float] = {}
    shown = _FirstEpoch(progress, [one.spec for one in study.missing], say)
    for number, done in enumerate(engine.do(_calls(study, store), shown, total), 1):
        seconds = done.result()
        if seconds is not None:
            shown.specs, took[by_name[done.call.name].id] = (), seconds
            left = _estimate(study.missing, took) / min(engine.at_once, max(len(study.missing), 1))
            say(f"{done.call.name}: {seconds:.0f} s ({number} of {total}{_left(left)})")


def _calls(study: Prepared, store: Path) -> Iterator[Call]:
    """A call for each training of a study."""
    plan, known = study.trainings, {key_of(training): training.name for training in study.trainings}
    teachers = {
        key_of(training.teacher) for training in plan if isinstance(training.teacher, Training)
    }
    for training in plan:
        needed = {
            "teach": training.teaches or key_of(training) in teachers,
            "translate": training.writes,
        }
        spec = taught(training, store)
        arguments = {
            "spec": spec,
            "folder": study.folders[training.id],
            "steps": [name for name, is_needed in needed.items() if is_needed],
        }
        after = (
            known.get(key_of(training.teacher)) if isinstance(training.teacher, Training) else None
        )
        yield Call(
            training.name, do_training, study.folders[training.id], arguments, files_of(spec), study.corpus,
            (after,) if after is not None else (), spec.device, MANIFEST,
        )  # fmt: skip


def do_training(
    here: Here, corpus: Any, progress: Progress, *, spec: Any, folder: Path, steps: Sequence[str]
) -> float | None:
    """Train into ``folder``, on any machine; returns the seconds that it took, None where nothing was left to be done."""
    place = here.path(folder)
    started, before = time.perf_counter(), finished_at(place)
    train_into(spec, folder, progress, corpus, steps, here)
    return None if finished_at(place) == before else time.perf_counter() - started


def _estimate(missing: Iterable[Training], took: Mapping[TrainingId, float]) -> float:
    """Seconds that trainings will take: each as long as those of its role and variant took on average, else as all did."""
    alike: dict[tuple[str, str], list[float]] = {}
    for training, seconds in took.items():
        alike.setdefault((training.role, training.variant), []).append(seconds)
    every = list(took.values())
    return sum(fmean(alike.get((one.id.role, one.id.variant), every)) for one in missing)


@dataclass
class _FirstEpoch:
    """Progress of the first training of several, ``specs``: says after its first epoch how long the epochs of all will take."""

    progress: Progress
    specs: Sequence[Any]
    say: Say
    epoch: str = ""
    began: tuple[float, int] = (0.0, 0)

    def __call__(self, what: str, done: int, total: int) -> None:
        self.progress(what, done, total)
        stage, _, epoch = what.rpartition(WITHIN)[2].partition(", ")
        if not self.specs or stage != "train" or epoch == self.epoch:
            return
        now = time.perf_counter(), done
        if self.epoch:
            seconds, steps = (after - before for after, before in zip(now, self.began, strict=True))
            of_all = sum(spec.training.steps or spec.training.epochs * steps for spec in self.specs)
            number = f"{len(self.specs)} training{'s' if len(self.specs) > 1 else ''}"
            self.say(
                f"an epoch takes {seconds:.1f} s: {number} missing{_left(of_all * seconds / steps)}, without their traces"
            )
            self.specs = ()
        self.epoch, self.began = epoch, now


def training_folder(store: Path, training: Training) -> Path:
    """Where a training is, in the folder of all of them."""
    return store / f"{training.name}-{key_of(training)[:10]}"


def finished_at(folder: Path) -> int | None:
    """When a training's manifest was written, which is whenever something of it was made; None where there is none."""
    manifest = folder / MANIFEST
    return manifest.stat().st_mtime_ns if manifest.exists() else None


def taught(training: Training, store: Path) -> Any:
    """The specification of a training, with the trace that it takes as given."""
    if training.teacher is None:
        return training.spec
    place = (
        training_folder(store, training.teacher) / TEACHER
        if isinstance(training.teacher, Training)
        else training.teacher
    )
    spec: Any = training.spec
    return replace(spec, teacher=Teacher(str(place), training.column))


def _left(seconds: float) -> str:
    return f", about {duration(seconds)} left" if seconds else ""


def duration(seconds: float) -> str:
    """``40 s`` or ``12 min``."""
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"
