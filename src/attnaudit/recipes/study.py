"""A study: the trainings of its plan, the analysis of all their traces, and the page.

``OUT/trainings/<name>-<key>`` holds a training, shared by all studies of one folder;
``OUT/<study>`` what a study gave; ``OUT/audit`` the battery on the base's trace;
``OUT/index.html`` joins them. A training's key is that of all it follows from, so none is run
twice and a killed study resumes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from attnaudit.core.errors import InputError, RunError, did_you_mean
from attnaudit.core.extras import require
from attnaudit.core.files import content_key, sha256, write_json
from attnaudit.core.progress import Progress, silent
from attnaudit.core.settings import override
from attnaudit.papers import PAPERS
from attnaudit.papers.comparison import with_references
from attnaudit.plans.spec import SCHEMA, Teacher, differences, take_section
from attnaudit.plans.training import Training, TrainingId, usual
from attnaudit.recipes.audit import RESULTS, Audit, choose, report_step
from attnaudit.recipes.classifier import TEACHER
from attnaudit.recipes.kinds import LastCorpus, Read, kind_of, kind_of_corpus
from attnaudit.recipes.trained import COLLECT, do_training
from attnaudit.recipes.translator import TRANSLATIONS, read_translations
from attnaudit.results import SUMMARY_SCHEMA
from attnaudit.results.table import table_file
from attnaudit.steps import (
    SERIAL,
    Call,
    Folder,
    Pool,
    Recipe,
    Step,
    check_place,
    execute,
    read_spec,
)
from attnaudit.steps.finished import some_of, trace_digests
from attnaudit.steps.folder import SPEC
from attnaudit.studies import Study
from attnaudit.studies.base import base_rows
from attnaudit.trace import Trace, trace_task
from attnaudit.training.probe import STEP_FOLDER

TRAININGS, AUDIT = "trainings", "audit"
# Studies whose published numbers are of that model.
OF_A_BILSTM = ("uniform", "seeds", "guide", "adversary")
# Parts of a training's spec that do not change it, and what its teacher's key says.
NOT_IDENTITY = ("experiments", "device", "teacher")
Say = Callable[[str], None]


@dataclass(frozen=True)
class StudySpec:
    """A study and the run that it is about: model, corpus and settings of the usual training."""

    study: Study
    base: Any

    @classmethod
    def of(
        cls,
        study: str,
        source: str | Path,
        *,
        full: bool = False,
        settings: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> StudySpec:
        """Make the spec of a study.

        Args:
            study: Name of a study of `EVERY_STUDY`.
            source: The corpus.
            full: Whether settings that are not given are as published, else those of `Study.quick`.
            settings: Settings by dotted name. Those that begin with the study's name are its own;
                ``training.epochs`` and ``training.patience`` hold for all of its trainings.
            **options: Those of the kind of model: `RunSpec.of`, `TranslationSpec.of`, or with
                ``config`` `TransformerTraining.of`.

        Raises:
            InputError: For an unknown study or setting, or one that has no effect.
        """
        given = dict(settings or {})
        kind = kind_of_corpus(source, given, options.get("config"))
        if study not in kind.studies:
            names, what = ", ".join(kind.studies), options.get("config", source)
            expected, near = f"one of {names} for {what}", did_you_mean(study, kind.studies)
            raise InputError("study", "name", repr(study), expected, near)
        of_study, stated = kind.studies[study], options | given
        # Epochs are those of the study's own trainings too.
        own = {
            f"{study}.{name}": given[f"training.{name}"]
            for name in ("epochs", "patience")
            if f"training.{name}" in given and hasattr(of_study, name)
        }
        own |= take_section(given, study)
        quick = {} if full else of_study.quick.items()
        scale = {key if "." in key else f"{study}.{key}": value for key, value in quick}
        own_scale = take_section(scale, study)
        base = kind.spec(source, settings=scale | given, **options)
        changed = {**own_scale, f"{study}.seed": base.seed, **own}
        chosen = override({study: of_study()}, changed)[study]
        _check_stated(chosen, stated)
        return cls(chosen, base)

    @property
    def folder(self) -> str:
        """Default folder of studies of this model."""
        return f"runs/studies/{self.base.name}"

    def to_json(self) -> dict[str, Any]:
        """Return what ``spec.json`` holds, apart from the fingerprint of the corpus."""
        apart = ("schema", "kind", "experiments")
        base = {name: value for name, value in self.base.to_json().items() if name not in apart}
        own = {"name": self.study.name, **json.loads(json.dumps(asdict(self.study)))}
        return {"schema": SCHEMA, "kind": "study", "study": own, **base}


def _check_stated(study: Study, stated: Mapping[str, Any]) -> None:
    """Raise InputError for a setting, or an option, that has no effect in ``study``."""
    decided = getattr(study, "decided", {})
    for key, expected in getattr(study, "overruled", {}).items():
        value = stated.get(key)
        if value is not None and str(value) != str(decided.get(key)):
            name = f"setting {key}" if "." in key else f"--{key}"
            got = f"{value}, which has no effect in {study.name}"
            raise InputError("study", name, got, expected)


def run_study(
    spec: StudySpec,
    out: str | Path,
    progress: Progress = silent,
    say: Say = lambda line: None,
    pool: Pool = SERIAL,
    read: Read | None = None,
) -> Path:
    """Do what is missing of a study in ``out``; return the study's folder.

    Args:
        spec: The study.
        out: Folder of all studies of this model.
        progress: Callback.
        say: Function that is called with a line for each training.
        pool: Pool that trains.
        read: Reads the corpus of a specification.

    Raises:
        InputError: For bad input.
        RunError: If the folder has another spec.
    """
    from attnaudit.report.study_page import write_studies

    out, kind = Path(out), kind_of(spec.base)
    for extra in kind.needs:
        require(extra, "study")
    plan = prepared(spec, out, progress, read)
    for note in plan.notes:
        say(f"note: {note}")
    do_trainings(plan.calls, len(plan.trainings), progress, say, pool)
    base = plan.folders.get(usual(spec.base, spec.base.seed).id)
    first = base or plan.folders[plan.trainings[0].id]
    metadata = next(Trace.shards(first / "trace")).metadata
    place = execute(plan.recipe(metadata, progress), out / spec.study.name)
    if base is not None:
        trace = base / "trace"
        battery = choose((), {}, trace_task(trace))
        shown = {"trace": f"../{TRAININGS}/{base.name}/trace", "experiments": battery.settings}
        plain = {"schema": SCHEMA, "kind": "audit", **shown}
        execute(Audit(trace, battery, plain, progress).recipe({}), out / AUDIT)
    write_studies(out, metadata, tuple(kind.studies))
    return place


def prepared(spec: StudySpec, out: Path, progress: Progress, read: Read | None = None) -> Prepared:
    """Plan the trainings of a study in ``out``.

    Raises:
        InputError: For bad input.
        RunError: If the folder has another spec.
    """
    plain = spec.to_json()
    corpus = (read or LastCorpus())(spec.base, progress)
    plain["fingerprint"] = corpus.fingerprint
    trainings = spec.study.plan(spec.base, corpus)
    _check_places(out, out / spec.study.name, plain, kind_of(spec.base).studies)
    return Prepared(spec, corpus, plain, trainings, out / TRAININGS)


@dataclass(frozen=True)
class Prepared:
    """A study about to be done.

    Attributes:
        spec: The study.
        corpus: Its corpus.
        plain: Content of its ``spec.json``.
        trainings: Its trainings.
        store: Folder of all trainings.
    """

    spec: StudySpec
    corpus: Any
    plain: dict[str, Any]
    trainings: Sequence[Training]
    store: Path

    @property
    def folders(self) -> Mapping[TrainingId, Path]:
        """Folder of each training."""
        return {one.id: training_folder(self.store, one) for one in self.trainings}

    @property
    def notes(self) -> list[str]:
        """Remarks on the trainings, for readers."""
        return list(dict.fromkeys(one.note for one in self.trainings if one.note))

    @property
    def calls(self) -> Iterator[Call]:
        """A call for each training."""
        return training_calls(self.trainings, self.store, lambda spec: self.corpus)

    def recipe(self, metadata: Mapping[str, Any], progress: Progress) -> Recipe:
        """Return the recipe of the study's own folder: the analysis and the page."""
        from attnaudit.report.study_page import write_study

        folders = {str(training): folder.name for training, folder in self.folders.items()}
        analyse = self._analyse_step(progress)

        def write_page(folder: Path, page: Path) -> None:
            write_study(folder, metadata, self.notes, page)

        report = report_step(progress, {"report.html": write_page}, *self.notes)
        facts = {"notes": self.notes, "trainings": folders}
        do = _advice(self.store.parent / self.spec.study.name)
        return Recipe(self.plain, [analyse, report], lambda folder: facts, do)

    def _analyse_step(self, progress: Progress) -> Step:
        study, base, folders = self.spec.study, self.spec.base, self.folders
        encoder = getattr(base.model, "encoder", "")
        is_comparable = study.name not in OF_A_BILSTM or encoder == "bilstm"

        def inputs(folder: Folder) -> Sequence[Any]:
            return study.name, asdict(study), _digests(folders)

        def work(folder: Folder, made: Path) -> None:
            progress("compare the trainings", 0, 0)
            traces = Traces(folders)
            table = study(traces)
            summary = study.summarise(table)
            asked = pl.DataFrame(base_rows(study, traces), schema=SUMMARY_SCHEMA)
            if is_comparable:
                cell = {"corpus": self.corpus.name, "study": study.name, "model": ""}
                summary = with_references(summary, PAPERS, cell)
            with table_file(made / RESULTS[0] / f"{study.name}.parquet") as add:
                add(table)
            write_json(made / RESULTS[1], [*summary.to_dicts(), *asked.to_dicts()])

        return Step("analyse", inputs, RESULTS, work)


def _digests(folders: Mapping[TrainingId, Path]) -> dict[str, list[str]]:
    """Return the digests of all that trainings left and an analysis may read."""
    found = {}
    for training, folder in folders.items():
        found[str(training)] = trace_digests(folder / "trace")
        for part in sorted((folder / STEP_FOLDER).glob("*")):
            found[f"{training}/{part.name}"] = trace_digests(part)
        if (translations := folder / TRANSLATIONS).exists():
            found[f"{training}/{TRANSLATIONS}"] = [sha256(translations)]
    return found


@dataclass(frozen=True)
class Traces(Mapping[TrainingId, Trace]):
    """The traces of trainings.

    What else one of them left, a `TrainingId` with a ``part``, is read whenever it is asked for.
    """

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
        """Return what a translator that `Training.writes` wrote of every pair of test."""
        return read_translations(self.folders[training])

    def __iter__(self) -> Iterator[TrainingId]:
        return iter(self.folders)

    def __len__(self) -> int:
        return len(self.folders)


def training_calls(
    trainings: Sequence[Training],
    store: Path,
    corpus_of: Callable[[Any], Any],
    also: Sequence[str] = (),
) -> Iterator[Call]:
    """Yield a call for each training.

    Args:
        trainings: Trainings, each after its teacher.
        store: Folder of all trainings.
        corpus_of: Function of a specification that returns its corpus.
        also: Further steps of every training.
    """
    names = {key_of(one): one.name for one in trainings}
    teachers = [key_of(one.teacher) for one in trainings if isinstance(one.teacher, Training)]
    for one in trainings:
        teaches = one.teaches or key_of(one) in teachers
        further = (COLLECT, *(["teach"] * teaches), *(["translate"] * one.writes), *also)
        after = names.get(key_of(one.teacher)) if isinstance(one.teacher, Training) else None
        spec, place = taught(one, store), training_folder(store, one)
        work = partial(do_training, spec=spec, further=further)
        yield Call(one.name, work, place, corpus_of(spec), (after,) if after else (), spec.device)


def do_trainings(
    calls: Iterable[Call], total: int, progress: Progress, say: Say, pool: Pool = SERIAL
) -> None:
    """Do calls of `training_calls`, and say how long each took. Raises InputError."""
    for number, done in enumerate(pool.do(calls, progress, total), 1):
        seconds = done.result()
        if seconds is not None:
            say(f"{done.call.name}: {seconds:.0f} s ({number} of {total})")


def key_of(training: Training) -> str:
    """Return the key of what a training follows from, its teacher's key included."""
    plain = training.spec.to_json().items()
    spec = {name: value for name, value in plain if name not in NOT_IDENTITY}
    spec["corpus"] = {name: value for name, value in spec["corpus"].items() if name != "data_dir"}
    if training.teacher is None:
        return content_key(spec, None)
    if isinstance(training.teacher, Training):
        return content_key(spec, [key_of(training.teacher), training.column])
    return content_key(spec, [trace_digests(Path(training.teacher)), training.column])


def training_folder(store: Path, training: Training) -> Path:
    """Return where a training is, in the folder of all of them."""
    return store / f"{training.name}-{key_of(training)[:10]}"


def taught(training: Training, store: Path) -> Any:
    """Return the specification of a training, with the trace that it takes as given."""
    spec: Any = training.spec
    if training.teacher is None:
        return spec
    place = training.teacher
    if isinstance(place, Training):
        place = training_folder(store, place) / TEACHER
    return replace(spec, teacher=Teacher(str(place), training.column))


def _check_places(
    out: Path, place: Path, plain: dict[str, Any], studies: Mapping[str, Any]
) -> None:
    """Check that no study in ``out`` is of another model, corpus or seed.

    What a study decides itself is not asked of the others.

    Raises:
        RunError: If one is, or the study is there with other settings.
    """
    about = {key: value for key, value in plain.items() if key not in ("study", "kind")}
    for other in sorted(out.glob(f"*/{SPEC}")):
        found = read_spec(other.parent)
        if found.get("kind") != "study":
            continue
        base = {key: value for key, value in found.items() if key in about}
        names = plain["study"]["name"], found["study"]["name"]
        free = [key for name in names if name in studies for key in studies[name].not_of_base]
        if differing := differences(about, base, free):
            got = f"{other.parent.name} there is of another model or corpus: {some_of(differing)}"
            expected = "all studies of a folder about the same"
            raise RunError("study", str(out), got, expected, "choose another --out")
    check_place(place, plain, _advice(place))


def _advice(place: Path) -> str:
    return f"give its options, or remove {place} (the trainings stay), or choose another --out"
