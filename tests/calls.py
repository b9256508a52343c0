"""Calls for tests of engines, functions of a module as workers need them, and an engine that shows what a call must bear."""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnaudit.core.progress import Progress
from attnaudit.core.threads import cores
from attnaudit.runner.engine import Here, done
from attnaudit.steps.pool import Call, Done, Pool


@dataclass(frozen=True)
class Elsewhere:
    """Does calls here, but as on another machine: all that they are given goes through pickle, and ``last`` is done first."""

    at_once: int = 2

    def device(self, asked: str) -> str | None:
        return "cpu"

    def opened(self, folder: Path) -> AbstractContextManager[Pool]:
        return nullcontext(self)

    def do(self, calls: Iterable[Call], progress: Progress, total: int = 0) -> Iterator[Done]:
        here, before = Here(Path.cwd(), device="cpu"), set[str]()
        for call in _after(list(calls)):
            assert before.issuperset(call.after)
            before.add(call.name)
            sent: Call = pickle.loads(pickle.dumps(call))
            found = done(sent, here, sent.held, progress)
            yield Done(call, *pickle.loads(pickle.dumps((found.answer, found.error))))


def _after(calls: list[Call]) -> list[Call]:
    """The last first, but for those that others come after."""
    needed = {name for call in calls for name in call.after}
    return [call for call in calls if call.name in needed] + [
        call for call in calls if call.name not in needed
    ][::-1]


def touch(here: Here, held: Any, progress: Progress, *, folder: Path, number: int) -> int:
    here.path(folder).mkdir(parents=True, exist_ok=True)
    (here.path(folder) / "made").write_text(f"{number}", encoding="utf-8")
    return number


def marked(here: Here, held: Any, progress: Progress, *, marks: Path, folder: Path) -> None:
    """Leaves a mark each time that it is done."""
    (marks / f"{time.monotonic_ns()}").touch()
    here.path(folder).mkdir(parents=True, exist_ok=True)
    (here.path(folder) / "made").write_text("whole", encoding="utf-8")


def touch_later(here: Here, held: Any, progress: Progress, *, file: Path, seconds: float) -> None:
    """Ends before the file is there, as where machines share a folder that shows it late."""
    threading.Timer(seconds, here.path(file).touch).start()


def copied_text(here: Here, held: Any, progress: Progress, *, source: Path, target: Path) -> None:
    here.path(target).write_text(here.path(source).read_text(encoding="utf-8"), encoding="utf-8")


def threads(here: Here, held: Any, progress: Progress) -> list[int]:
    """The numbers of threads that work split by rows and torch take."""
    import torch

    return [cores(), torch.get_num_threads()]


def gpus(here: Here, held: Any, progress: Progress) -> tuple[str | None, int]:
    """The device of a model, and how many GPUs Ray has given to the call."""
    import ray

    return here.device, len(ray.get_gpu_ids())


def too_large(here: Here, held: Any, progress: Progress, *, marks: Path) -> None:
    """Memory never suffices; every try leaves a mark."""
    (marks / f"{time.monotonic_ns()}").touch()
    raise MemoryError
