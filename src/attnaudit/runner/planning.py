"""What a command would train, what of it exists, and about how long the rest takes; nothing is written into its folder.

A training is taken to last as long as a finished one of the same kind. Where there is none, a few seconds of each kind of model are timed
(`timing`). Audits, translations, analyses and pages are not included.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal

from attnaudit.core.errors import InputError, RunError
from attnaudit.core.files import content_key
from attnaudit.core.numbers import count
from attnaudit.core.progress import Progress, silent, within
from attnaudit.runner.copying import (
    copying_folder,
    copying_study,
    seconds_a_step,
    specified,
    steps_done,
)
from attnaudit.runner.jobs import CopyingJob, RunJob, StudyJob
from attnaudit.runner.reading import LastCorpus, Read
from attnaudit.runner.store import UNFINISHED, check_place, read_manifest
from attnaudit.runner.studies import COPYING, StudySpec, check_name, prepared
from attnaudit.runner.sweep import Sweep
from attnaudit.runner.tasks import task_of
from attnaudit.runner.timing import Speed, timed

if TYPE_CHECKING:
    from attnaudit.copying.study import Copying
    from attnaudit.training.settings import TrainingSettings

OF_TRAINING = ("train", "collect", "teach", "translate")  # steps whose recorded seconds count
State = Literal["finished", "unfinished", "missing"]
Source = Literal["recorded", "timed", "unknown"]


@dataclass(frozen=True)
class Planned:
    """One training: its ``name``, its ``folder``, its ``length`` ("8 epochs"), and how many epochs are ``done``.

    ``studies`` is the folder of the studies that share it, where it is one of several folders.
    ``seconds`` is what a finished training and its trace took, else an estimate of what is left, by the ``source``: a finished training
    of the same kind, or a few seconds of one. Where it is unknown, ``reason`` says why.
    """

    name: str
    folder: str
    state: State
    length: str
    done: int = 0
    seconds: float = 0.0
    source: Source = "unknown"
    reason: str = ""
    studies: str = ""


@dataclass(frozen=True)
class Plan:
    """All trainings of a command, in their order, and ``notes`` on them."""

    trainings: tuple[Planned, ...]
    notes: tuple[str, ...] = ()

    @property
    def missing(self) -> list[Planned]:
        return [one for one in self.trainings if one.state != "finished"]

    @property
    def seconds(self) -> float:
        """The estimate for all that is missing."""
        return sum(one.seconds for one in self.missing)

    @property
    def is_possible(self) -> bool:
        """Whether anything of it can be done, or is."""
        return not self.trainings or not all(one.reason for one in self.trainings)

    def to_json(self) -> dict[str, Any]:
        return {
            "seconds": self.seconds,
            "trainings": [asdict(one) for one in self.trainings],
            "notes": list(self.notes),
        }


def plan_run(spec: Any, out: str | Path, progress: Progress | None = None) -> Plan:
    """The plan of `pipeline.run` with the same arguments. Raises what that raises before it trains."""
    out, progress, task = Path(out), progress or silent, task_of(spec)
    check_place(out, spec.to_json())
    corpus = task.read(spec, progress)
    check_place(out, {**spec.to_json(), "fingerprint": task.prepare(spec, corpus)[1]})
    return Estimates(lambda *_: corpus, progress).plan([(spec.name, out, spec)])


def plan_study(
    name: str, source: str | Path, out: str | Path | None = None, progress: Progress | None = None, **options: Any
) -> Plan:  # fmt: skip
    """The plan of `attnaudit.study` with the same arguments. Raises what that raises before it trains."""
    check_name(name)
    if name == COPYING:
        copying = copying_study(str(source), **options)
        return _plan_copying(copying, Path(out or copying_folder(copying)), progress or silent)
    spec = StudySpec.of(name, source, **options)
    return Estimates(LastCorpus(), progress or silent).plan_of_study(spec, Path(out or spec.folder))


def _plan_copying(study: Copying, out: Path, progress: Progress) -> Plan:
    """One line for each seed, although all are trained side by side: its part of the time."""
    check_place(out, specified(study))
    steps, recorded = study.steps + study.pretraining, recorded_seconds(out)
    done = 0 if recorded is not None else steps_done(out)
    state: State = "finished" if recorded is not None else "unfinished" if done else "missing"
    if recorded is None:
        progress("time a few steps", 0, 0)
    seconds = seconds_a_step(study) * (steps - done) if recorded is None else recorded
    names = [f"{study.kind}-s{study.seed + k}" for k in range(study.seeds)]
    one = Planned(
        "",
        str(out),
        state,
        f"{steps} steps",
        done,
        seconds / len(names),
        "timed" if recorded is None else "recorded",
    )
    note = "all seeds are trained side by side; the time of each is its part of the whole"
    return Plan(tuple(replace(one, name=name) for name in names), (note,))


def plan_reproduction(sweep: Sweep, progress: Progress | None = None) -> Plan:
    """The plan of `reproduce`; of a cell whose data cannot be read the seconds are unknown. Raises what that raises before it trains."""
    progress = progress or silent
    sweep.check()
    runs = [(cell, job) for cell in sweep.cells if isinstance(job := sweep.job(cell), RunJob)]
    jobs = [(cell.name, job.folder, job.spec) for cell, job in runs]
    for _, folder, spec in jobs:
        check_place(folder, spec.to_json())
    estimates = Estimates(LastCorpus(), progress, (InputError,))
    plans = [estimates.plan(jobs)]
    studies = [job for cell in sweep.cells if not isinstance(job := sweep.job(cell), RunJob)]
    for number, job in enumerate(studies, 1):
        labelled = within(f"{job.cell.name} ({number} of {len(studies)})", progress)
        plans.append(_plan_job(job, replace(estimates, progress=labelled)))
    trainings = {
        one.folder + one.name: one for plan in plans for one in plan.trainings
    }  # studies share trainings
    return Plan(
        tuple(trainings.values()),
        tuple(dict.fromkeys(note for plan in plans for note in plan.notes)),
    )


def _plan_job(job: StudyJob | CopyingJob, estimates: Estimates) -> Plan:
    """The plan of a cell that is a study; one line where its data cannot be read."""
    try:
        if isinstance(job, CopyingJob):
            plan, studies = _plan_copying(job.spec, job.folder, estimates.progress), job.folder
        else:
            plan, studies = estimates.plan_of_study(job.spec, job.shared), job.shared
    except InputError as error:
        return Plan((Planned(job.cell.name, str(job.folder), "missing", "", reason=str(error)),))
    return replace(
        plan, trainings=tuple(replace(one, studies=studies.name) for one in plan.trainings)
    )


@dataclass
class Estimates:
    """Estimates for trainings; what was timed holds for all with the same model, and the first seed that is read stands for all.

    ``read`` gives the corpus of a specification. Errors that are ``tolerated`` leave a time unknown.
    """

    read: Read
    progress: Progress
    tolerated: tuple[type[InputError], ...] = ()
    recorded: dict[str, list[float]] = field(default_factory=dict)
    speeds: dict[str, Speed] = field(default_factory=dict)
    untimed: list[str] = field(
        default_factory=list
    )  # models of the plan that is made, as far as they are not timed yet

    def plan(self, jobs: Sequence[tuple[str, Path, Any]], notes: Sequence[str] = ()) -> Plan:
        """Of the name, the folder and the spec of each training."""
        for _, folder, spec in jobs:
            if (seconds := recorded_seconds(folder)) is not None:
                self.recorded.setdefault(_kind(spec), []).append(seconds)
        models = dict.fromkeys(
            _model(spec) for _, _, spec in jobs if _kind(spec) not in self.recorded
        )
        self.untimed = [model for model in models if model not in self.speeds]
        return Plan(tuple(self._planned(*job) for job in jobs), tuple(notes))

    def plan_of_study(self, spec: StudySpec, out: Path) -> Plan:
        """Of all trainings of a study in ``out``. Raises InputError."""
        study = prepared(spec, out, self.progress, self.read)
        return self.plan(
            [(one.name, study.folders[one.id], one.spec) for one in study.trainings], study.notes
        )

    def _planned(self, name: str, folder: Path, spec: Any) -> Planned:
        of_this = Planned(name, str(folder), "finished", _length(spec.training))
        if (recorded := recorded_seconds(folder)) is not None:
            return replace(of_this, seconds=recorded, source="recorded")
        done = epochs_done(folder)
        of_this = replace(
            of_this, state="unfinished" if (folder / "spec.json").exists() else "missing", done=done
        )
        try:
            seconds, source = self._estimate(name, spec)
        except self.tolerated as error:
            return replace(of_this, reason=str(error))
        left = 1.0 if spec.training.steps is not None else max(1 - done / spec.training.epochs, 0.0)
        return replace(of_this, seconds=left * seconds, source=source)

    def _estimate(self, name: str, spec: Any) -> tuple[float, Source]:
        """Seconds of the whole training."""
        if known := self.recorded.get(_kind(spec)):
            return fmean(known), "recorded"
        model = _model(spec)
        if model not in self.speeds:
            corpus = self.read(spec, self.progress)
            self.progress(
                f"time a few seconds of {name}", self.untimed.index(model), len(self.untimed)
            )
            self.speeds[model] = timed(spec, corpus)
        return self.speeds[model].seconds(spec), "timed"


def _model(spec: Any) -> str:
    """A key of what the time of a step depends on."""
    return content_key(
        spec.corpus.source,
        *(spec.to_json()[part] for part in ("model", "collect")),
        spec.training.batch_size,
    )


def _kind(spec: Any) -> str:
    """A key of all that a training's time depends on: its settings, without seeds, λ and teacher."""
    plain = {
        name: value
        for name, value in spec.to_json().items()
        if name not in ("seed", "teacher", "experiments", "device", "objective")
    }
    plain["corpus"] = {
        name: value for name, value in plain["corpus"].items() if name not in ("seed", "data_dir")
    }
    return content_key(plain, getattr(spec.objective, "kind", None))


def _length(training: TrainingSettings) -> str:
    if training.steps is not None:
        return count(training.steps, "step")
    return f"{'up to ' if training.patience is not None else ''}{count(training.epochs, 'epoch')}"


def recorded_seconds(folder: Path) -> float | None:
    """Seconds that a finished training and its traces took; None where there is no whole manifest, as it is then made again."""
    with contextlib.suppress(RunError):
        steps = read_manifest(folder)["steps"]
        return sum(steps[name]["seconds"] for name in OF_TRAINING if name in steps)
    return None


def epochs_done(folder: Path) -> int:
    """Epochs that the checkpoint of an unfinished training holds."""
    from attnaudit.training.checkpoint import load_checkpoint

    found = [
        load_checkpoint(path)
        for path in folder.glob(f"{UNFINISHED}/checkpoint-*/checkpoint.safetensors")
    ]
    return max((len(state["history"]) for _, state in filter(None, found)), default=0)
