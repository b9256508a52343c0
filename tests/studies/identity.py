"""Identities of trainings by the names of their folders, and traces of other models."""

import random
from dataclasses import replace

import polars as pl

from attnaudit.plans.training import TrainingId
from attnaudit.recipes.kinds import job_of
from attnaudit.recipes.study import TRAININGS, Traces, training_folder
from tests.traces import make_trace


def identity(name):
    """``deceive-bilstm-0.1-s2/steps/00010``: role, variant, strength, seed and part."""
    training, _, part = name.partition("/")
    start, _, seed = training.rpartition("-s")
    role, *setting = start.split("-")
    strength = float(setting.pop()) if setting and setting[-1][0].isdigit() else None
    found = TrainingId(role, int(seed), "-".join(setting), strength, part)
    assert str(found) == training
    return found


def training_of(folder, name):
    """The one folder of a training among those of the studies of ``folder``."""
    (found,) = (folder / TRAININGS).glob(f"{name}-??????????")
    return found


def like(base, lengths, seed, outputs=1):
    """Another model's trace of the same texts."""
    other, kept = make_trace(len(base), lengths, outputs, seed=seed), base.table
    of_text = ("tokens", "label", "instance", "rationale")
    names = [name for name in other.table.columns if name not in of_text]
    return replace(base, table=kept.with_columns(other.table[names]))


def values_of(summary):
    """The value of each measure."""
    return dict(summary.select("measure", "value").iter_rows())


def identified(traces):
    return {identity(name): trace for name, trace in traces.items()}


def assert_order_is_nothing(spec, folder):
    """With its plan in another order a study has the table that it left in ``folder``."""
    name = spec.study.name
    stored = pl.read_parquet(folder / name / "results" / f"{name}.parquet")
    assert spec.study(shuffled_traces(spec, folder)).equals(stored)


def shuffled_traces(spec, folder):
    """The traces that a study left in ``folder``, its plan in another order."""
    task = job_of(spec.base)
    plan = list(spec.study.plan(spec.base, task.read(spec.base, lambda what, done, total: None)))
    random.Random(5).shuffle(plan)
    return Traces({training.id: training_folder(folder / TRAININGS, training) for training in plan})
