"""Calls for tests of pools, as functions of a module, which workers need; and what a call must bear."""

import json
import os
import pickle
import signal
import threading
import time

from attnaudit.core import InputError
from attnaudit.core.threads import cores
from attnaudit.steps import Pool
from attnaudit.steps.claim import claimed
from attnaudit.steps.pool import Done, done

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

    def device(self, asked):
        return "cpu"

    def do(self, calls, progress, total=0):
        waiting, ended = list(calls)[::-1], set()
        while waiting:
            call = next(call for call in waiting if ended.issuperset(call.after))
            waiting = [other for other in waiting if other is not call]
            sent = pickle.loads(pickle.dumps(call))
            found = done(sent, sent.held, progress, "cpu")
            ended.add(call.name)
            yield Done(call, *pickle.loads(pickle.dumps((found.answer, found.error))))


def made(out):
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


def number(held, out, progress, device, number):
    return number


def text_of(held, source, progress, device):
    return source.read_text(), held


def refused(held, out, progress, device):
    raise InputError("read", "row 3", "nothing", "a label", "add one")


def broken(held, out, progress, device):
    raise ZeroDivisionError


def killed(held, out, progress, device):
    os.kill(os.getpid(), signal.SIGKILL)


def sleep(held, out, progress, device):
    time.sleep(3600)


def touch_later(held, out, progress, device, seconds):
    """End before the file is there, as where a folder shows late what another machine wrote."""
    threading.Timer(seconds, (out / "a").touch).start()


def hold(held, folder, progress, device, marks):
    """Write into a folder as its only process, and leave a mark for each try."""
    (marks / f"{time.monotonic_ns()}").touch()
    with claimed(folder):
        (folder / "made").write_text("whole")
    return "held"


def threads(held, out, progress, device):
    """Count the threads that work split by rows and torch take."""
    import torch

    return [cores(), torch.get_num_threads()]


def gpus(held, out, progress, device):
    """Return the device of a model, and how many GPUs Ray has given to the call."""
    import ray

    return device, len(ray.get_gpu_ids())
