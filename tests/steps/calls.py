"""Calls for tests of pools, as functions of a module, which workers need; and what a call must bear."""

import json
import os
import pickle
import signal
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from attnaudit.core.errors import InputError
from attnaudit.core.progress import Progress
from attnaudit.core.threads import cores
from attnaudit.steps.claim import claimed
from attnaudit.steps.pool import Call, Done, Pool, done

SMALL = {
    "corpus.size": 100,
    "corpus.length": (10, 14),
    "training.epochs": 2,
    "model.embedding": 8,
    "model.hidden": 4,
}


class Elsewhere(Pool):
    """Does calls here as on another machine: all goes through pickle, and the last is done first."""

    shares = True

    def device(self, asked: str) -> str:
        return "cpu"

    def do(self, calls: Iterable[Call], progress: Progress, total: int = 0) -> Iterator[Done]:
        waiting, ended = list(calls)[::-1], set[str]()
        while waiting:
            call = next(call for call in waiting if ended.issuperset(call.after))
            waiting = [other for other in waiting if other is not call]
            sent: Call = pickle.loads(pickle.dumps(call))
            found = done(sent, sent.held, progress, "cpu")
            ended.add(call.name)
            yield Done(call, *pickle.loads(pickle.dumps((found.answer, found.error))))


def made(out: Path) -> dict[str, bytes]:
    """Every file below ``out``; of manifests, which tell of time and memory, digests and notes."""
    found = {}
    for path in sorted(out.rglob("*")):
        name = path.relative_to(out).as_posix()
        if path.name == "manifest.json":
            manifest = json.loads(path.read_text())
            found[name] = json.dumps([manifest["files"], manifest.get("notes")]).encode()
        elif path.is_file():
            found[name] = path.read_bytes()
    return found


def number(held: Any, out: Path, progress: Progress, device: str, number: int) -> int:
    return number


def text_of(held: Any, source: Path, progress: Progress, device: str) -> tuple[str, Any]:
    return source.read_text(encoding="utf-8"), held


def refused(held: Any, out: Path, progress: Progress, device: str) -> None:
    raise InputError("read", "row 3", "nothing", "a label", "add one")


def broken(held: Any, out: Path, progress: Progress, device: str) -> None:
    raise ZeroDivisionError


def killed(held: Any, out: Path, progress: Progress, device: str) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def sleep(held: Any, out: Path, progress: Progress, device: str) -> None:
    time.sleep(3600)


def touch_later(held: Any, out: Path, progress: Progress, device: str, seconds: float) -> None:
    """End before the file is there, as where a folder shows late what another machine wrote."""
    threading.Timer(seconds, (out / "a").touch).start()


def hold(held: Any, folder: Path, progress: Progress, device: str, marks: Path) -> str:
    """Write into a folder as its only process, and leave a mark for each try."""
    (marks / f"{time.monotonic_ns()}").touch()
    with claimed(folder):
        (folder / "made").write_text("whole", encoding="utf-8")
    return "held"


def threads(held: Any, out: Path, progress: Progress, device: str) -> list[int]:
    """Count the threads that work split by rows and torch take."""
    import torch

    return [cores(), torch.get_num_threads()]


def gpus(held: Any, out: Path, progress: Progress, device: str) -> tuple[str, int]:
    """Return the device of a model, and how many GPUs Ray has given to the call."""
    import ray

    return device, len(ray.get_gpu_ids())
