"""A model trained here, and what is made with it: train → collect → … → audit → report."""

import shutil
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from attnaudit.core import Progress, expanded, silent
from attnaudit.plans.audit import Battery
from attnaudit.recipes.job import COLLECT, Trained, resolve_device
from attnaudit.recipes.kinds import job_of
from attnaudit.steps import (
    MANIFEST,
    SERIAL,
    Call,
    Planned,
    Pool,
    Recipe,
    check_place,
    execute,
    plan,
    read_manifest,
)


def run(
    spec: Any,
    out: str | Path,
    progress: Progress = silent,
    corpus: Any = None,
    pool: Pool = SERIAL,
    device: str | None = None,
) -> Path:
    """Train, collect, audit and report.

    An interrupted run resumes after its last complete step or epoch, and ends with the same
    ``results/``. A finished run is left as it is.

    Args:
        spec: A `RunSpec` or a `TranslationSpec`.
        out: Folder of the run.
        progress: Callback.
        corpus: The corpus of the spec, if it has been read already.
        pool: Pool that trains, collects and audits.
        device: Device of this process; None to go by the spec.

    Returns:
        The folder.

    Raises:
        InputError: For bad input.
        RunError: If ``out`` holds another run, is no empty folder, or is full.
    """
    out = expanded(out)
    return execute(_run_recipe(prepared(spec, out, progress, corpus, pool, device)), out)


def plan_run(spec: Any, out: Path, progress: Progress = silent) -> list[Planned]:
    """List the steps of `run`, and say which are done; nothing is written.

    Raises:
        InputError: What `run` raises before it trains.
    """
    return plan(prepared(spec, out, progress).whole_run(), out)


def train_into(
    spec: Any,
    out: str | Path,
    progress: Progress = silent,
    corpus: Any = None,
    further: Sequence[str] = (COLLECT,),
    device: str | None = None,
) -> Path:
    """Train into a folder without an audit; return the folder.

    Args:
        spec: Specification of the training.
        out: Folder of the training.
        progress: Callback.
        corpus: The corpus of the spec, if it has been read already.
        further: Names of further steps: ``collect``, and of its kind ``teach``, which leaves a
            trace of all splits, or ``translate``, which leaves translations of the test split.
        device: Device of this process; None to go by the spec.
    """
    out, do = expanded(out), f"remove {out}: what it held is made again"
    made = prepared(spec, out, progress, corpus, device=device, do=do)
    return execute(replace(made.recipe(further), do=do), out)


def do_training(
    corpus: Any,
    folder: Path,
    progress: Progress,
    device: str | None,
    spec: Any,
    further: Sequence[str],
) -> float | None:
    """Train into ``folder``, in any process; return the seconds, None if nothing was left to do."""
    started, before = time.perf_counter(), _finished_at(folder)
    train_into(spec, folder, progress, corpus, further, device)
    return None if _finished_at(folder) == before else time.perf_counter() - started


def _finished_at(folder: Path) -> int | None:
    """Return when a training's manifest was written; None if there is none."""
    manifest = folder / MANIFEST
    return manifest.stat().st_mtime_ns if manifest.exists() else None


def prepared(
    spec: Any,
    out: Path,
    progress: Progress,
    corpus: Any = None,
    pool: Pool = SERIAL,
    device: str | None = None,
    do: str = "",
) -> Trained:
    """Read and prepare the corpus of a training for a place that is its own or free.

    Raises:
        InputError: For bad input.
        RunError: If ``out`` holds something else.
    """
    plain = spec.to_json()
    check_place(out, plain, do)
    if spec.device != "auto" and not pool.shares:
        resolve_device(spec.device)  # refused before a corpus is read
    job = job_of(spec)
    source = corpus or job.read(spec, progress)
    texts, plain["fingerprint"] = job.prepare(spec, source)
    check_place(out, plain, do)
    return job(
        trace=out / "trace",
        battery=Battery(spec.experiments),
        plain=plain,
        progress=progress,
        pool=pool,
        spec=spec,
        corpus=texts,
        device=device or pool.device(spec.device) or resolve_device(spec.device),
        source=source,
    )


def _run_recipe(job: Trained) -> Recipe:
    """Return the recipe of a run, of which a pool trains on another machine."""
    recipe = job.whole_run()
    if not job.pool.shares:
        return recipe
    train, *others = recipe.steps

    def work(folder, made):
        spec = job.spec
        work = partial(do_training, spec=spec, further=())
        call = Call(spec.name, work, folder.pieces, job.source, device=spec.device)
        for done in job.pool.do([call], job.progress, 1):
            done.result()
        for output in train.outputs:
            shutil.copytree(call.writes / output, made / output)
        return read_manifest(call.writes)["steps"]["train"]["notes"]

    return replace(recipe, steps=[replace(train, work=work), *others])
