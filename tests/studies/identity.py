"""Identities of trainings by the names of their folders."""

import random

from attnaudit.plans.training import TrainingId
from attnaudit.recipes.kinds import job_of
from attnaudit.recipes.study import TRAININGS, Traces, key_of


def identity(name):
    """``deceive-bilstm-0.1-s2/steps/00010``: role, variant, strength, seed and part."""
    training, _, part = name.partition("/")
    start, _, seed = training.rpartition("-s")
    role, *setting = start.split("-")
    strength = float(setting.pop()) if setting and setting[-1][0].isdigit() else None
    found = TrainingId(role, int(seed), "-".join(setting), strength, part)
    assert str(found) == training
    return found


def identified(traces):
    return {identity(name): trace for name, trace in traces.items()}


def shuffled_traces(spec, folder):
    """The traces that a study left in ``folder``, its plan in another order."""
    task = job_of(spec.base)
    plan = list(spec.study.plan(spec.base, task.read(spec.base, lambda what, done, total: None)))
    random.Random(5).shuffle(plan)
    return Traces(
        {
            training.id: folder / TRAININGS / f"{training.name}-{key_of(training)[:10]}"
            for training in plan
        }
    )
