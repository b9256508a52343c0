"""A study done: the trainings of its plan that are not there yet, then its analysis of all their traces, then its page.

``OUT/trainings/<name>-<key>`` holds a training, shared by all studies of one folder; ``OUT/<study>`` what a study gave; ``OUT/audit`` the
battery on the base's trace; ``OUT/index.html`` joins them. A training's key is that of all it follows from, so that none is run twice and
an interrupted study resumes.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import polars as pl

from attnaudit.copying.study import NAME as COPYING
from attnaudit.core.errors import InputError, RunError, did_you_mean
from attnaudit.core.files import content_key, sha256, write_json, write_with_digest
from attnaudit.core.progress import Progress, silent, within
from attnaudit.core.settings import override
from attnaudit.plans.spec import SCHEMA, Teacher, differences
from attnaudit.plans.training import TrainingId, usual
from attnaudit.published.compare import with_study_references
from attnaudit.results import SUMMARY_SCHEMA
from attnaudit.results.table import table_file
from attnaudit.runner.audits import RESULTS, audit_page, audit_step, choose, report_step
from attnaudit.runner.copying import copying_study, run_copying
from attnaudit.runner.pipeline import train_into
from attnaudit.runner.store import MANIFEST, Record, Store, alone, check_place, read_spec, remove_empty, some_of, trace_digests
from attnaudit.runner.tasks import task_of, task_of_corpus
from attnaudit.runner.tasks.pairs import TRANSLATIONS, read_translations
from attnaudit.runner.tasks.texts import TEACHER
from attnaudit.studies import Study, Training
from attnaudit.studies.base import base_rows
from attnaudit.trace import Trace, trace_task
from attnaudit.trace.probe import STEP_FOLDER

TRAININGS, AUDIT = "trainings", "audit"
OF_A_BILSTM = ("uniform", "seeds", "guide", "adversary")  # studies whose published numbers are of that model
NOT_IDENTITY = ("experiments", "device", "teacher")  # of a training's spec: what does not change it, and what its teacher's key says
EPOCHS = ("epochs", "patience")
Say = Callable[[str], None]


@dataclass(frozen=True)
class StudySpec:
    """A study and the run that it is about: model, corpus and settings of the ordinary training."""

    study: Study
    base: Any

    @classmethod
    def of(
        cls, study: str, source: str | Path, *, settings: Mapping[str, Any] | None = None, **options: Any
    ) -> StudySpec:  # fmt: skip
        """The study named, of the run that the corpus's task makes of ``source`` and ``options`` (as `RunSpec.of`, `TranslationSpec.of`).

        Dotted settings that begin with the study's name are its own. Raises InputError.
        """
        given = dict(settings or {})
        task = task_of_corpus(source, given)
        studies = task.studies
        if study not in studies:
            raise InputError("study", "study", repr(study), f"one of {', '.join(studies)} for {source}", did_you_mean(study, studies))
        for key, expected in getattr(studies[study], "overruled", {}).items():
            if key in given:
                raise InputError("study", f"setting {key}", f"{given[key]}, which has no effect in {study}", expected)
        own = {key: given.pop(key) for key in list(given) if key.partition(".")[0] == study}
        base = task.spec(source, settings=given, **options)
        return cls(override({study: studies[study]()}, {f"{study}.seed": base.seed, **own})[study], base)

    def to_json(self) -> dict[str, Any]:
        """What ``spec.json`` holds, apart from the fingerprint of the corpus."""
        base = {name: value for name, value in self.base.to_json().items() if name not in ("schema", "kind", "experiments")}
        return {"schema": SCHEMA, "kind": "study", "study": {"name": self.study.name, **json.loads(json.dumps(asdict(self.study)))}, **base}


def study(
    name: str, source: str | Path, out: str | Path | None = None, progress: Progress | None = None, say: Say = lambda line: None,
    **options: Any,
) -> Path:  # fmt: skip
    """Do the study ``name`` of the corpus ``source`` in the folder ``out``, by default below ``runs/studies``; returns the study's folder.

    ``options`` are those of the corpus's task (as `RunSpec.of`, `TranslationSpec.of`), with dotted ``settings`` that may be the study's own
    (``{"uniform.seeds": 3}``). ``say`` is called with a line for each training. What is done already is left as it is. Raises InputError,
    and RunError where the folder holds another study.
    """
    if name == COPYING:
        copying = copying_study(str(source), **options)
        return run_copying(copying, out or f"runs/studies/{COPYING}-{copying.kind}", progress)
    spec = StudySpec.of(name, source, **options)
    return run_study(spec, out or f"runs/studies/{spec.base.name}", progress, say)


def key_of(training: Training) -> str:
    """What a training follows from, its teacher's key included."""
    spec = {name: value for name, value in training.spec.to_json().items() if name not in NOT_IDENTITY}
    spec["corpus"] = {name: value for name, value in spec["corpus"].items() if name != "data_dir"}
    if training.teacher is None:
        return content_key(spec, None)
    taught = key_of(training.teacher) if isinstance(training.teacher, Training) else trace_digests(Path(training.teacher))
    return content_key(spec, [taught, training.column])


def run_study(spec: StudySpec, out: str | Path, progress: Progress | None = None, say: Say = lambda line: None) -> Path:
    """Do what is missing of a study in ``out``; returns the study's folder. Raises InputError, and RunError where that has another spec."""
    from attnaudit.report.study_page import write_studies, write_study

    out, progress = Path(out), progress or silent
    place, plain = out / spec.study.name, spec.to_json()
    corpus = task_of(spec.base).read(spec.base, progress)
    plain["fingerprint"] = corpus.fingerprint
    plan = spec.study.plan(spec.base, corpus)  # validates the plan before conflicting studies are looked for
    _check_places(out, place, plain)
    notes = list(dict.fromkeys(training.note for training in plan if training.note))
    for note in notes:
        say(f"note: {note}")
    try:
        folders = _train_all(plan, out / TRAININGS, corpus, progress, say)
    finally:
        remove_empty(out / TRAININGS, out)
    base = folders.get(usual(spec.base, spec.base.seed).id)
    metadata = next(Trace.shards((base or folders[plan[0].id]) / "trace")).metadata
    with alone(place) as store:
        analysed = _analyse(store, spec, plain, corpus.name, folders, progress)

        def write_page(folder: Path) -> None:
            write_study(place, metadata, notes, folder / "report.html")

        store.step("report", content_key("report", analysed.files, plain, *notes), ("report.html",), write_page)
        store.close({"kind": "study", "notes": notes, "trainings": {str(training): folder.name for training, folder in folders.items()}})
    if base is not None:
        _audit(out / AUDIT, base, progress)
    write_studies(out, metadata)
    return place


def _check_places(out: Path, place: Path, plain: dict[str, Any]) -> None:
    """Raise RunError where the study is there with other settings, or another study of another model, corpus or seed."""
    about = {key: value for key, value in plain.items() if key not in ("study", "kind")}
    for other in sorted(out.glob("*/spec.json")):
        found = read_spec(other.parent)
        if found.get("kind") == "study":
            base = {key: value for key, value in found.items() if key in about}
            steps = any("steps" in {**one["study"], **one.get("training", {})} for one in (plain, found))
            differing = differences(*(_without_epochs(one) if steps else one for one in (about, base)))
            if differing:
                raise RunError(
                    "study", str(out), f"{other.parent.name} there is of another model or corpus: {some_of(differing)}",
                    "all studies of a folder about the same", "choose another --out",
                )  # fmt: skip
    check_place(place, plain, f"give its options, or remove {place} (the trainings stay), or choose another --out")


def _without_epochs(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Without what says how many epochs there are: a study with ``steps`` of its own, or ``training.steps``, does not count them."""
    return {name: _without_epochs(value) if name == "training" else value for name, value in plain.items() if name not in EPOCHS}


def _audit(place: Path, base: Path, progress: Progress) -> None:
    """The battery on the trace of the training ``base``, with its page."""
    trace = base / "trace"
    battery = choose((), {}, trace_task(trace))
    spec = {"schema": SCHEMA, "kind": "audit", "trace": f"../{TRAININGS}/{base.name}/trace", "experiments": battery.settings}
    with alone(place) as store:
        write_with_digest(place / "spec.json", spec)
        audit_step(store, trace, battery, spec, progress)
        report_step(store, progress, audit_page(trace))
        store.close({"kind": "audit"})


def _analyse(
    store: Store, spec: StudySpec, plain: Mapping[str, Any], corpus: str, folders: Mapping[TrainingId, Path], progress: Progress
) -> Record:
    study = spec.study
    comparable = study.name not in OF_A_BILSTM or spec.base.model.encoder == "bilstm"

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
        write_with_digest(store.out / "spec.json", plain)  # none where the analysis failed: the folder is then free

    named = {str(training): folder for training, folder in folders.items()}
    digests = {name: trace_digests(folder / "trace") for name, folder in named.items()}
    steps = ((name, part) for name, folder in named.items() for part in sorted((folder / STEP_FOLDER).glob("*")))
    digests |= {f"{name}/{part.name}": trace_digests(part) for name, part in steps}
    digests |= {f"{name}/{TRANSLATIONS}": [sha256(file)] for name, folder in named.items() if (file := folder / TRANSLATIONS).exists()}
    return store.step("analyse", content_key("analyse", study.name, asdict(study), digests), RESULTS, work)


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


def _train_all(plan: Sequence[Training], store: Path, corpus: Any, progress: Progress, say: Say) -> dict[TrainingId, Path]:
    """The folder of every training of a plan, trained where it is not yet."""
    folders = {training.id: _folder(store, training) for training in plan}
    teachers = {key_of(training.teacher) for training in plan if isinstance(training.teacher, Training)}
    seconds: list[float] = []
    for number, training in enumerate(plan, 1):
        folder = folders[training.id]
        started, before = time.perf_counter(), _finished(folder)
        needed = {"teach": training.teaches or key_of(training) in teachers, "translate": training.writes}
        of_this = within(f"{training.name} ({number} of {len(plan)})", progress)
        train_into(_taught(training, store), folder, of_this, corpus, [name for name, is_needed in needed.items() if is_needed])
        if _finished(folder) != before:
            seconds.append(time.perf_counter() - started)
            missing = sum(_finished(folders[one.id]) is None for one in plan)
            say(f"{training.name}: {seconds[-1]:.0f} s ({number} of {len(plan)}{_left(missing * sum(seconds) / len(seconds))})")
    return folders


def _folder(store: Path, training: Training) -> Path:
    return store / f"{training.name}-{key_of(training)[:10]}"


def _finished(folder: Path) -> int | None:
    """When a training's manifest was written, which is whenever something of it was made; None where there is none."""
    manifest = folder / MANIFEST
    return manifest.stat().st_mtime_ns if manifest.exists() else None


def _taught(training: Training, store: Path) -> Any:
    """The specification of a training, with the trace that it takes as given."""
    if training.teacher is None:
        return training.spec
    place = _folder(store, training.teacher) / TEACHER if isinstance(training.teacher, Training) else training.teacher
    spec: Any = training.spec
    return replace(spec, teacher=Teacher(str(place), training.column))


def _left(seconds: float) -> str:
    if not seconds:
        return ""
    return f", about {seconds / 60:.0f} min left" if seconds >= 90 else f", about {seconds:.0f} s left"
