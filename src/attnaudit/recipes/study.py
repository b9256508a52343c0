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
from typing import Any, ClassVar

import polars as pl

from attnaudit.core import (
    InputError,
    Progress,
    RunError,
    content_key,
    did_you_mean,
    expanded,
    read_json,
    silent,
    write_json,
)
from attnaudit.core.settings import override
from attnaudit.papers import PAPERS
from attnaudit.papers.comparison import with_references
from attnaudit.plans.audit import choose
from attnaudit.plans.spec import SCHEMA, Spec, Teacher, differences, take_section
from attnaudit.plans.training import Training, TrainingId, usual
from attnaudit.recipes.audit import PAGE, RESULTS, Audit, report_step, trace_audit
from attnaudit.recipes.job import COLLECT, OWN_TOKEN, TEACHER, read_translations
from attnaudit.recipes.kinds import LastCorpus, Read, kind_of, kind_of_corpus
from attnaudit.recipes.trained import do_training
from attnaudit.results import SUMMARY_SCHEMA, table_file
from attnaudit.steps import (
    SERIAL,
    SPEC,
    Call,
    Pool,
    Recipe,
    Step,
    check_place,
    execute,
    read_manifest,
    read_spec,
)
from attnaudit.steps.finished import some_of
from attnaudit.studies import Study
from attnaudit.studies.base import base_rows
from attnaudit.trace import Trace, trace_task

TRAININGS, AUDIT = "trainings", "audit"
# Studies whose published numbers are of that model.
OF_A_BILSTM = ("uniform", "seeds", "guide", "adversary")
# Parts of a training's spec that do not change it, and what its teacher's key says.
NOT_IDENTITY = ("experiments", "device", "teacher")
Say = Callable[[str], None]


@dataclass(frozen=True)
class StudySpec(Spec):
    """A study and the run that it is about: model, corpus and settings of the usual training."""

    kind: ClassVar[str] = "study"
    study: Study
    base: Any

    @classmethod
    def of(
        cls,
        study: str,
        source: str | Path,
        *,
        full: bool = False,
        paper: bool = False,
        settings: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> StudySpec:
        """Make the spec of a study.

        Args:
            study: Name of a study of `EVERY_STUDY`.
            source: The corpus.
            full: Whether settings that are not given are those of `Study.full`, not of
                `Study.quick`.
            paper: Whether to do the form that the paper has, at the full scale.
            settings: Settings by dotted name. Those that begin with the study's name are its own;
                ``training.epochs`` and ``training.patience`` hold for all of its trainings.
            **options: Those of the kind of model: `RunSpec.of`, `TranslationSpec.of`, or with
                ``config`` `TransformerTraining.of`, with ``folder`` `FineTuning.of`.

        Raises:
            InputError: For an unknown study or setting, or one that has no effect.
        """
        given = dict(settings or {})
        kind = kind_of_corpus(source, given, options)
        if study not in kind.studies:
            named = options.get("config", options.get("folder", source))
            expected = f"one of {', '.join(kind.studies)} for {named}"
            near = did_you_mean(study, kind.studies)
            raise InputError("study", "name", repr(study), expected, near)
        if paper:
            study, full = kind.studies[study].published or study, True
        of_study, stated = kind.studies[study], options | given
        # Epochs are those of the study's own trainings too.
        own = {
            f"{study}.{name}": given[f"training.{name}"]
            for name in ("epochs", "patience")
            if f"training.{name}" in given and hasattr(of_study, name)
        }
        own |= take_section(given, study)
        chosen = of_study.full if full else of_study.quick
        scale = {key if "." in key else f"{study}.{key}": one for key, one in chosen.items()}
        own_scale = take_section(scale, study)
        base = kind.spec.of(source, settings=scale | given, **options)
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
        return {"schema": SCHEMA, "kind": self.kind, "study": own, **base}


def _check_stated(study: Study, stated: Mapping[str, Any]) -> None:
    """Raise InputError for a setting, or an option, that has no effect in ``study``."""
    for key, expected in study.overruled.items():
        value = stated.get(key)
        if value is not None and str(value) != str(study.decided.get(key)):
            got = f"{value}, which has no effect in {study.name}"
            raise InputError("study", f"setting {key}" if "." in key else f"--{key}", got, expected)


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

    study = prepared(spec, expanded(out), progress, read)
    for note in study.notes:
        say(f"note: {note}")
    do_trainings(study.calls, len(study.trainings), progress, say, pool)
    base = study.folders.get(usual(spec.base, spec.base.seed).id)
    first = base or study.folders[study.trainings[0].id]
    metadata = next(Trace.shards(first / "trace")).metadata
    place = execute(study.recipe(metadata, progress), study.place)
    if base is not None:
        trace = base / "trace"
        battery = choose(task=trace_task(trace))
        shown = {"trace": f"../{TRAININGS}/{base.name}/trace", "experiments": battery.settings}
        plain = {"schema": SCHEMA, "kind": "audit", **shown}
        audit = Audit(trace=trace, battery=battery, plain=plain, progress=progress)
        execute(trace_audit(audit), study.out / AUDIT)
    write_studies(study.out, metadata, tuple(kind_of(spec.base).studies))
    return place


def prepared(spec: StudySpec, out: Path, progress: Progress, read: Read | None = None) -> Prepared:
    """Plan the trainings of a study in ``out``.

    Raises:
        InputError: For bad input.
        RunError: If the folder has another spec.
    """
    read = read or LastCorpus()
    corpus = read(spec.base, progress)
    plain = spec.to_json() | {"fingerprint": corpus.fingerprint}
    study = Prepared(spec, out, plain, spec.study.plan(spec.base, corpus), corpus, read)
    study.check_places()
    return study


@dataclass(frozen=True)
class Prepared:
    """A study about to be done.

    Attributes:
        spec: The study.
        out: Folder of all studies of its model.
        plain: Content of its ``spec.json``.
        trainings: Its trainings.
        corpus: Its corpus.
        read: Reads the corpus of a training, which may be cut.
    """

    spec: StudySpec
    out: Path
    plain: dict[str, Any]
    trainings: Sequence[Training]
    corpus: Any
    read: Read

    @property
    def place(self) -> Path:
        """Folder of the study."""
        return self.out / self.spec.study.name

    @property
    def advice(self) -> str:
        """Advice to a user whose folder holds another study."""
        do = f"give its options, or remove {self.place} (the trainings stay)"
        return f"{do}, or choose another --out"

    @property
    def folders(self) -> Mapping[TrainingId, Path]:
        """Folder of each training."""
        return {one.id: training_folder(self.out / TRAININGS, one) for one in self.trainings}

    @property
    def notes(self) -> list[str]:
        """Remarks on the trainings, for readers."""
        return list(dict.fromkeys(one.note for one in self.trainings if one.note))

    @property
    def calls(self) -> Iterator[Call]:
        """A call for each training."""
        return training_calls(
            self.trainings, self.out / TRAININGS, lambda spec: self.read(spec, silent)
        )

    def check_places(self) -> None:
        """Check that no study in ``out`` is of another model, corpus or seed.

        Settings that each study chooses for itself may differ.

        Raises:
            RunError: If one is, or the study is there with other settings.
        """
        studies = kind_of(self.spec.base).studies
        about = {key: one for key, one in self.plain.items() if key not in ("study", "kind")}
        for other in sorted(self.out.glob(f"*/{SPEC}")):
            found = read_spec(other.parent)
            if found.get("kind") != StudySpec.kind:
                continue
            base = {key: value for key, value in found.items() if key in about}
            names = {self.spec.study.name, found["study"]["name"]} & studies.keys()
            free = [key for name in names for key in studies[name].not_of_base]
            if differing := differences(about, base, free):
                of = f"{other.parent.name} there is of another model or corpus"
                got, expected = (
                    f"{of}: {some_of(differing)}",
                    "all studies of a folder about the same",
                )
                raise RunError("study", str(self.out), got, expected, "choose another --out")
        check_place(self.place, self.plain, self.advice)

    def recipe(self, metadata: Mapping[str, Any], progress: Progress) -> Recipe:
        """Return the recipe of the study's own folder: the analysis and the page."""
        from attnaudit.report.study_page import write_study

        folders = {str(training): folder.name for training, folder in self.folders.items()}

        def write_page(folder, page):
            write_study(folder, metadata, self.notes, page)

        report = report_step(progress, {PAGE: write_page}, *self.notes)
        facts = {"notes": self.notes, "trainings": folders}
        steps = [self._analyse_step(progress), report]
        return Recipe(self.plain, steps, lambda folder: facts, self.advice)

    def _analyse_step(self, progress: Progress) -> Step:
        study, folders = self.spec.study, self.folders
        encoder = getattr(self.spec.base.model, "encoder", "")
        is_comparable = study.name not in OF_A_BILSTM or encoder == "bilstm"

        def inputs(folder):
            files = {str(one): read_manifest(place)["files"] for one, place in folders.items()}
            return study.name, asdict(study), files

        def work(folder, made):
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
        """Return what a translator wrote of every pair of test."""
        return read_translations(self.folders[training])

    def own_token(self, training: TrainingId) -> dict[str, list[Any]]:
        """Return the share of some states that their own word accounts for, by instance."""
        return read_json(self.folders[training] / OWN_TOKEN)

    def __iter__(self) -> Iterator[TrainingId]:
        return iter(self.folders)

    def __len__(self) -> int:
        return len(self.folders)


def training_calls(
    trainings: Sequence[Training], store: Path, corpus_of: Callable[[Any], Any]
) -> Iterator[Call]:
    """Yield a call for each training.

    Args:
        trainings: Trainings, each after its teacher.
        store: Folder of all trainings.
        corpus_of: Function of a specification that returns its corpus.
    """
    planned = {one.id for one in trainings}
    teachers = {one.teacher.id for one in trainings if one.teacher}
    for one in trainings:
        taught = ["teach"] if one.id in teachers else []
        further = tuple(dict.fromkeys((COLLECT, *taught, *one.also)))
        after = (one.teacher.name,) if one.teacher and one.teacher.id in planned else ()
        spec, place = _with_teacher(one, store), training_folder(store, one)
        work = partial(do_training, spec=spec, further=further)
        yield Call(one.name, work, place, corpus_of(spec), after, spec.device)


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
    plain, teacher = training.spec.to_json().items(), training.teacher
    spec = {name: value for name, value in plain if name not in NOT_IDENTITY}
    spec["corpus"] = {name: value for name, value in spec["corpus"].items() if name != "data_dir"}
    return content_key(spec, teacher and [key_of(teacher), training.column])


def training_folder(store: Path, training: Training) -> Path:
    """Return where a training is, in the folder of all of them."""
    return store / f"{training.name}-{key_of(training)[:10]}"


def _with_teacher(training: Training, store: Path) -> Any:
    """Return the specification of a training, with the trace that it takes as given."""
    spec: Any = training.spec
    if training.teacher is None:
        return spec
    trace = training_folder(store, training.teacher) / TEACHER
    return replace(spec, teacher=Teacher(str(trace), training.column))
