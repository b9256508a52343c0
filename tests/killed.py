"""Runs and studies that are killed again and again: functions for `forked.apart`, each answers how often its work was killed."""

import os
import random
import signal
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch

from numba.core.registry import cpu_target

from attnaudit.copying.training import Training
from attnaudit.recipes.studies import run_copying
from attnaudit.recipes.study import run_study
from tests.forked import survived

COMPILING: Any = cpu_target.target_context
COMPILING.refresh()  # what the first kernel of a process imports

MOST = 100  # of a study that never ends, which then lacks files
OF_TRANSFORMERS = (
    "attnaudit.hf.trace", "attnaudit.recipes.saved", "onnxruntime", "onnxscript", "torch.onnx._internal.exporter._core",
    "transformers.models.bert.modeling_bert",
)  # fmt: skip


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def dying_at(call, own):
    """``own``, whose caller is killed in its place at a ``call``, from 1."""
    left = call

    def some(*given, **named):
        nonlocal left
        left -= 1
        if left == 0:
            die()
        return own(*given, **named)

    return some


def _a_page(*arguments):
    """In place of a real page, whose charts take seconds; its path is the last argument that is one."""
    next(path for path in reversed(arguments) if isinstance(path, Path)).write_text("page")


def of_command(command, calls):
    """A command on a transformer, given again and again, killed when a finished temporary file is about to get its name: after so many."""
    from attnaudit.cli import main

    for name in OF_TRANSFORMERS:  # once, before the forks
        import_module(name)
    kills = 0
    for call in calls:
        with patch.object(Path, "replace", dying_at(call + 1, Path.replace)):
            kills += not survived(partial(main, command))
    return kills


def at_random_renames(spec, folder):
    """One study, killed before a random one of its next renames until a call gets to the end, or to none after `MOST` kills."""
    chance, kills, done = random.Random(1), 0, False
    with (
        patch("attnaudit.report.run_page.write_report", _a_page),
        patch("attnaudit.report.study_page.write_study", _a_page),
        patch(
            "attnaudit.report.study_page.write_studies",
            lambda folder, *rest: _a_page(folder / "report.html"),
        ),
    ):
        while not done and kills < MOST:
            left = chance.randint(4, 16 + kills // 4)  # a step of many files gets done at last
            with patch.object(Path, "replace", dying_at(left, Path.replace)):
                done = survived(partial(run_study, spec, folder))
            kills += not done
    return kills


def at_second_portion(study, folder):
    """Copying, killed after each portion until it gets to the end."""
    kills = 0
    with (
        patch("attnaudit.copying.training.PAUSE", 0.0),
        patch.object(Training, "advance", dying_at(2, Training.advance)),
    ):
        while not survived(partial(run_copying, study, folder, threads=2)):
            kills += 1
    return kills
