"""How fast a model trains and is traced here, from a few seconds of both: nothing is kept."""

from __future__ import annotations

import contextlib
import math
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from attnaudit.core.progress import Progress, silent
from attnaudit.runner.pipeline import resolve_device
from attnaudit.runner.store import Store
from attnaudit.runner.tasks import Job, task_of

SECONDS, ROWS = 2.0, 32  # of training, at most an epoch; of test, of which the trace is timed
DEV = (
    1 / 3
)  # cost of a row of dev, which has no backward pass, as a share of that of a row of train


@dataclass(frozen=True)
class Speed:
    """Seconds to ``build`` a model, of an optimizer ``step`` of ``steps`` in an epoch, of its ``dev`` split, and to trace a ``row``."""

    build: float
    step: float
    steps: int
    dev: float
    row: float
    rows: int

    def seconds(self, spec: Any) -> float:
        """Those of all epochs, or steps, of a training and of its traces."""
        steps = spec.training.steps or spec.training.epochs * self.steps
        probed = (
            0 if spec.probe is None else len(spec.probe.steps) * min(spec.probe.size, self.rows)
        )
        return (
            self.build
            + steps * self.step
            + math.ceil(steps / self.steps) * self.dev
            + (self.rows + probed) * self.row
        )


def timed(spec: Any, corpus: Any) -> Speed:
    """The speed of the model of ``spec`` on its corpus, without a teacher, which may not exist. Raises InputError as training does."""
    spec = _without_teacher(spec)
    task, device = task_of(spec), resolve_device(spec.device)
    corpus, _ = task.prepare(spec, corpus)
    with tempfile.TemporaryDirectory() as folder:
        job = Job(spec, spec.to_json(), corpus, device, Store(Path(folder)), silent)
        started = time.perf_counter()
        model, _ = task.build(job)
        build = time.perf_counter() - started
        steps = timed_steps(
            lambda progress: task.fit(job, model, seed=spec.seed, device=device, progress=progress)
        )
        train, dev, rows = (
            len(part) for part in (corpus.splits["train"], corpus.splits["dev"], task.traced(job))
        )
        row = 0.0 if getattr(spec.model, "attention", "") == "none" else _traced(job, model)
    return Speed(
        build, steps.each, steps.total, steps.each * steps.total * DEV * dev / train, row, rows
    )


def _without_teacher(spec: Any) -> Any:
    """One epoch, with the loss on labels in place of an adversary's, and uniform weights in place of imposed ones: they cost the same."""
    model = (
        replace(spec.model, attention="uniform")
        if getattr(spec.model, "attention", "") == "imposed"
        else spec.model
    )
    objective = None if getattr(spec.objective, "kind", "") == "adversary" else spec.objective
    unwatched = {} if spec.probe is None else {"probe": None}
    return replace(
        spec,
        model=model,
        objective=objective,
        training=replace(spec.training, epochs=1, steps=None),
        **unwatched,
    )


def _traced(job: Job, model: Any) -> float:
    """Seconds a row of the trace, of rows from all over test: the first few are to warm up, then what any number takes is deducted."""
    task = task_of(job.spec)
    every = task.traced(job)
    chosen = np.unique(np.linspace(0, len(every) - 1, ROWS).astype(np.int64))
    few, took = chosen[:2], []
    for rows in (few, few, chosen):
        started = time.perf_counter()
        for _ in task.shards(job, model, every.take(rows), {}, silent):
            pass
        took.append(time.perf_counter() - started)
    return (
        max(took[2] - took[1], 0.0) / (len(chosen) - len(few))
        if len(chosen) > len(few)
        else took[2] / len(chosen)
    )


def timed_steps(fit: Callable[[Progress], Any]) -> Steps:
    """How many optimizer steps a training takes, and how long each: of ``fit``, which is given a progress, a few seconds are run."""
    steps = Steps()
    with contextlib.suppress(_EnoughError):
        fit(steps)
    return steps


class _EnoughError(Exception):
    """Training was timed for long enough."""


@dataclass
class Steps:
    """Takes the progress of a training: how many steps there are, and how long each takes, the first apart, which loads code."""

    total: int = 1
    began: float = 0.0
    each: float = 0.0

    def __call__(self, what: str, done: int, total: int) -> None:
        now = time.perf_counter()
        if done <= 1:
            self.total, self.began = total, now
            return
        self.each = (now - self.began) / (done - 1)
        if now - self.began >= SECONDS:
            raise _EnoughError
