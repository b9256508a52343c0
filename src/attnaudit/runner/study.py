"""A study done: the trainings of its plan that are not there yet, then its analysis of all their traces, then its page.

``OUT/trainings/<name>-<key>`` holds a training, shared by all studies of one folder; ``OUT/<study>`` what a study gave; ``OUT/audit`` the
battery on the base's trace; ``OUT/index.html`` joins them. A training's key is that of all it follows from, so that none is done twice
and an interrupted study goes on where it was.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from attnaudit.core.errors import InputError, RunError, did_you_mean
from attnaudit.core.files import sha256, write_json
from attnaudit.core.progress import Progress, silent, within
from attnaudit.core.settings import override
from attnaudit.plans.spec import SCHEMA, RunSpec, Teacher, content_key, differences
from attnaudit.plans.training import usual
from attnaudit.plans.translation import TranslationSpec
from attnaudit.published.studies import with_published
from attnaudit.results.file import table_file
from attnaudit.runner.audits import choose
from attnaudit.runner.ledger import MANIFEST, Ledger, Record, remove_empty
from attnaudit.runner.pipeline import TEACHER, train_into
from attnaudit.runner.place import alone, check_place, read_spec, some_of
from attnaudit.runner.steps import RESULTS, audit_step, manifest, report_step, trace_digests
from attnaudit.runner.translation import TRANSLATIONS, read_translations
from attnaudit.runner.translation import train_into as train_translation_into
from attnaudit.studies import Study, Training
from attnaudit.trace import Trace, trace_task
from attnaudit.trace.probe import STEP_FOLDER

if TYPE_CHECKING:
    from attnaudit.corpora import Corpus
    from attnaudit.corpora.parallel import ParallelCorpus

TRAININGS, AUDIT = "trainings", "audit"
OF_A_BILSTM = ("uniform", "seeds", "guide", "adversary")  # studies whose published numbers are of that model
NOT_IDENTITY = ("experiments", "device", "teacher")  # of a training's spec: what does not change it, and what its teacher's key says
EPOCHS = ("epochs", "patience")
Say = Callable[[str], None]


@dataclass(frozen=True)
class StudySpec:
    """A study and the run that it is about: model, corpus and settings of the ordinary training."""

    study: Study
    base: RunSpec | TranslationSpec

    @classmethod
    def of(cls, study: str, source: str | Path, *, settings: Mapping[str, Any] | None = None, **options: Any) -> StudySpec:
        """The study named, of a run as `RunSpec.of` makes it; dotted settings that begin with the study's name are its own.

        Raises InputError.
        """
        from attnaudit.studies import STUDIES

        return cls._of(STUDIES, RunSpec.of, study, source, settings, options)

    @classmethod
    def of_pairs(cls, study: str, source: str | Path, *, settings: Mapping[str, Any] | None = None, **options: Any) -> StudySpec:
        """The same of a translator, of a run as `TranslationSpec.of` makes it."""
        from attnaudit.studies import PAIR_STUDIES

        return cls._of(PAIR_STUDIES, TranslationSpec.of, study, source, settings, options)

    @classmethod
    def _of(
        cls, studies: Mapping[str, Any], run: Callable[..., Any], study: str, source: str | Path, settings: Mapping[str, Any] | None,
        options: Mapping[str, Any],
    ) -> StudySpec:  # fmt: skip
        if study not in studies:
            what = f"study of {source}" if run == TranslationSpec.of else "study"
            raise InputError("study", what, repr(study), f"one of {', '.join(studies)}", did_you_mean(study, studies))
        given = dict(settings or {})
        for key, expected in getattr(studies[study], "overruled", {}).items():
            if key in given:
                raise InputError("study", f"setting {key}", f"{given[key]}, which has no effect in {study}", expected)
        own = {key: given.pop(key) for key in list(given) if key.partition(".")[0] == study}
        base = run(source, settings=given, **options)
        chosen = override({study: studies[study]()}, {f"{study}.seed": base.seed, **own})[study]
        return cls(chosen, base)

    def to_json(self) -> dict[str, Any]:
        """What ``spec.json`` holds, apart from the fingerprint of the corpus."""
        base = {name: value for name, value in self.base.to_json().items() if name not in ("schema", "kind", "experiments")}
        return {"schema": SCHEMA, "kind": "study", "study": {"name": self.study.name, **json.loads(json.dumps(asdict(self.study)))}, **base}


def key_of(training: Training) -> str:
    """What a training follows from, its teacher's key included."""
    spec = {name: value for name, value in training.spec.to_json().items() if name not in NOT_IDENTITY}
    spec["corpus"] = {name: value for name, value in spec["corpus"].items() if name != "data_dir"}
    if training.teacher is None:
        return content_key(spec, None)
    taught = key_of(training.teacher) if isinstance(training.teacher, Training) else trace_digests(Path(training.teacher))
    return content_key(spec, [taught, training.column])


def run_study(spec: StudySpec, out: str | Path, progress: Progress | None = None, say: Say = lambda line: None) -> Path:
    """Do what is missing of a study in the folder ``out``; returns the study's own folder in it.

    Raises InputError for bad input, and RunError where the folder holds the study with another spec.
    """
    from attnaudit.report.study_page import write_studies, write_study

    out, progress = Path(out), progress or silent
    place, plain = out / spec.study.name, spec.to_json()
    if isinstance(spec.base, RunSpec):  # texts may take minutes to read; pairs do not
        _check_places(out, place, plain)
    corpus = _read(spec.base, progress)
    plain["fingerprint"] = corpus.fingerprint
    plan = spec.study.plan(spec.base, corpus)  # what it cannot be about is told before what it may not lie beside
    _check_places(out, place, plain)
    notes = _notes(plan, say)
    try:
        folders = _Work(plan, out / TRAININGS, corpus, progress, say)()
    finally:
        remove_empty(out / TRAININGS, out)
    base = folders.get(usual(spec.base, spec.base.seed).name)
    metadata = next(Trace.shards((base or folders[plan[0].name]) / "trace")).metadata
    with alone(place) as ledger:
        analysed = _analyse(ledger, spec, plain, corpus.name, folders, progress)

        def keep(_: None) -> dict[str, Any]:
            write_study(place, metadata, notes)
            return {}

        ledger.step("report", content_key("report", analysed.files, plain, *notes), ("report.html",), lambda: None, keep)
        trainings = {name: folder.name for name, folder in folders.items()}
        ledger.close({**manifest(ledger), "kind": "study", "notes": notes, "trainings": trainings})
    if base is not None:
        _audit(out / AUDIT, base, progress)
    write_studies(out, metadata)
    return place


def _read(base: RunSpec | TranslationSpec, progress: Progress) -> Corpus | ParallelCorpus:
    from attnaudit.corpora import read_corpus
    from attnaudit.corpora.named.pairs import read_parallel

    if isinstance(base, TranslationSpec):
        return read_parallel(base.corpus, seed=base.seed, progress=progress)
    return read_corpus(base.corpus, seed=base.seed, preset=base.preset, progress=progress)


def _notes(plan: Sequence[Training], say: Say) -> list[str]:
    """What is to be known of the trainings, said before they are begun."""
    notes = list(dict.fromkeys(training.note for training in plan if training.note))
    for note in notes:
        say(f"note: {note}")
    return notes


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
    with alone(place) as ledger:
        write_json(place / "spec.json", spec)
        audit_step(ledger, trace, battery, progress)
        report_step(ledger, trace, progress)
        ledger.close({**manifest(ledger), "kind": "audit"})


def _analyse(
    ledger: Ledger, spec: StudySpec, plain: Mapping[str, Any], corpus: str, folders: Mapping[str, Path], progress: Progress
) -> Record:
    study = spec.study
    comparable = spec.study.name not in OF_A_BILSTM or (isinstance(spec.base, RunSpec) and spec.base.model.encoder == "bilstm")

    def make() -> Any:
        progress("compare the trainings", 0, 0)
        table = study(Traces(folders))
        summary = study.summarise(table)
        return table, with_published(summary, study.name, corpus) if comparable else summary

    def keep(made: Any) -> dict[str, Any]:
        table, summary = made
        write_json(ledger.out / "spec.json", plain)  # first of its files, and none where the analysis failed: the folder is then free
        with table_file(ledger.out / RESULTS[0] / f"{study.name}.parquet") as add:
            add(table)
        write_json(ledger.out / RESULTS[1], summary.to_dicts())
        return {}

    digests = {name: trace_digests(folder / "trace") for name, folder in folders.items()}
    digests |= {f"{name}/{part.name}": trace_digests(part) for name, folder in folders.items() for part in _steps(folder)}
    digests |= {f"{name}/{TRANSLATIONS}": [sha256(file)] for name, folder in folders.items() if (file := folder / TRANSLATIONS).exists()}
    return ledger.step("analyse", content_key("analyse", study.name, asdict(study), digests), RESULTS, make, keep)


def _steps(training: Path) -> list[Path]:
    """The traces that were taken while a training went on, from the first step to the last."""
    return sorted((training / STEP_FOLDER).glob("*"))


@dataclass(frozen=True)
class Traces(Mapping[str, Trace]):
    """The traces of trainings by name. What else one of them left, as ``name/steps/00250``, is read whenever it is asked for."""

    folders: Mapping[str, Path]
    held: dict[str, Trace] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Trace:
        training, _, part = name.partition("/")
        if part:
            return Trace.read(self.folders[training] / part)
        if name not in self.held:
            self.held[name] = Trace.read(self.folders[name] / "trace")
        return self.held[name]

    def translations(self, name: str) -> list[dict[str, Any]]:
        """What a translator that `Training.writes` wrote: {instance, source, reference, translation} of every pair of test."""
        return read_translations(self.folders[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self.folders)

    def __len__(self) -> int:
        return len(self.folders)


@dataclass
class _Work:
    """The trainings of a plan, one after another."""

    plan: Sequence[Training]
    store: Path
    corpus: Corpus | ParallelCorpus
    progress: Progress
    say: Say
    seconds: list[float] = field(default_factory=list)

    def __call__(self) -> dict[str, Path]:
        """The folder of every training by its name."""
        teachers = {key_of(training.teacher) for training in self.plan if isinstance(training.teacher, Training)}
        for number, training in enumerate(self.plan, 1):
            started, before = time.perf_counter(), self._finished(training)
            of_this = within(f"{training.name} ({number} of {len(self.plan)})", self.progress)
            self._train(training, of_this, key_of(training) in teachers)
            if self._finished(training) != before:
                self.seconds.append(time.perf_counter() - started)
                self.say(f"{training.name}: {self.seconds[-1]:.0f} s ({number} of {len(self.plan)}{self._left()})")
        return {training.name: self.folder(training) for training in self.plan}

    def _train(self, training: Training, progress: Progress, teaches: bool) -> None:
        spec, folder, corpus = self._spec(training), self.folder(training), self.corpus
        if isinstance(spec, TranslationSpec):
            train_translation_into(spec, folder, progress, cast("ParallelCorpus", corpus), training.writes)
        else:
            train_into(spec, folder, progress, cast("Corpus", corpus), teaches or training.teaches)

    def folder(self, training: Training) -> Path:
        return self.store / f"{training.name}-{key_of(training)[:10]}"

    def _finished(self, training: Training) -> int | None:
        """When the training's manifest was written, which is whenever something of it was made; None where there is none."""
        manifest = self.folder(training) / MANIFEST
        return manifest.stat().st_mtime_ns if manifest.exists() else None

    def _spec(self, training: Training) -> RunSpec | TranslationSpec:
        if training.teacher is None or isinstance(training.spec, TranslationSpec):
            return training.spec
        place = self.folder(training.teacher) / TEACHER if isinstance(training.teacher, Training) else training.teacher
        return replace(training.spec, teacher=Teacher(str(place), training.column))

    def _left(self) -> str:
        """About how long the rest takes, once something is known of it."""
        missing = sum(self._finished(training) is None for training in self.plan)
        if not self.seconds or not missing:
            return ""
        left = missing * sum(self.seconds) / len(self.seconds)
        return f", about {left / 60:.0f} min left" if left >= 90 else f", about {left:.0f} s left"
