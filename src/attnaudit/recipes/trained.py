"""A model trained here, and what is made with it: train → collect → … → audit → report."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from attnaudit.core.errors import InputError
from attnaudit.core.extras import require
from attnaudit.core.files import atomic, write_json
from attnaudit.core.progress import Progress, silent
from attnaudit.recipes.audit import RESULTS, Audit, Battery, audit_page, report_step
from attnaudit.recipes.kind import Further, Job, Kind, Notes
from attnaudit.recipes.kinds import kind_of
from attnaudit.steps import (
    SERIAL,
    Call,
    Folder,
    Planned,
    Pool,
    Recipe,
    Step,
    check_place,
    execute,
    plan,
)
from attnaudit.steps.finished import read_manifest
from attnaudit.steps.folder import MANIFEST
from attnaudit.steps.pieces import collected, piece
from attnaudit.steps.versions import OF_TRANSFORMERS, versions
from attnaudit.trace import Trace, trace_files, write_shards
from attnaudit.training.probe import STEP_FOLDER, Probe, step_part

SHARD_ROWS = 2048  # of a call that collects
COLLECT = "collect"


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
    out = Path(out)
    return execute(prepared(spec, out, progress, corpus, pool, device).whole_run(), out)


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
    out, do = Path(out), f"remove {out}: what it held is made again"
    made = prepared(spec, out, progress, corpus, device=device, do=do)
    return execute(replace(made.recipe(further), do=do), out)


def do_training(
    corpus: Any,
    folder: Path,
    progress: Progress,
    device: str | None,
    spec: Any,
    further: Sequence[str] = (COLLECT,),
) -> float | None:
    """Train into ``folder``, in any process; return the seconds, None if nothing was left to do."""
    started, before = time.perf_counter(), finished_at(folder)
    train_into(spec, folder, progress, corpus, further, device)
    return None if finished_at(folder) == before else time.perf_counter() - started


def finished_at(folder: Path) -> int | None:
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
    kind, plain = kind_of(spec), spec.to_json()
    for extra in kind.needs:
        require(extra, spec.kind)
    check_place(out, plain, do)
    if spec.device != "auto" and not pool.shares:
        resolve_device(spec.device)  # refused before a corpus is read
    corpus = corpus or kind.read(spec, progress)
    texts, plain["fingerprint"] = kind.prepare(spec, corpus)
    check_place(out, plain, do)
    device = device or pool.device(spec.device) or resolve_device(spec.device)
    return Trained(kind, Job(spec, plain, texts, device, progress), pool, corpus, out)


def resolve_device(device: str) -> str:
    """Return the torch device of a setting; ``auto`` is CUDA where it is available.

    Raises:
        InputError: If there is no such device.
    """
    if device == "cpu":
        return device
    import torch

    known = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
    if device == "auto":
        return known[-1]
    known += [f"cuda:{k}" for k in range(torch.cuda.device_count())]
    if device not in known:
        expected = f"auto or one of {', '.join(known)} on this machine"
        raise InputError("run", "--device", repr(device), expected)
    return device


@dataclass(frozen=True)
class Trained:
    """The steps of one training.

    Attributes:
        kind: Kind of model.
        job: The training.
        pool: Pool that does the work.
        corpus: What was read, before words were planted into it or removed.
        out: Folder of the training.
    """

    kind: Kind
    job: Job
    pool: Pool
    corpus: Any
    out: Path

    @property
    def is_traced(self) -> bool:
        """True if there is attention to trace."""
        return getattr(self.job.spec.model, "attention", "") != "none"

    def whole_run(self) -> Recipe:
        """Return the recipe of a run: training, trace, audit and pages."""
        pages = {**(audit_page() if self.is_traced else {}), **self.kind.pages}
        further = (*([COLLECT] if self.is_traced else []), *self.kind.usual)
        return self.recipe(further, self.audit_step(), report_step(self.job.progress, pages))

    def recipe(self, further: Sequence[str], *steps: Step) -> Recipe:
        """Return the recipe of a training, of what is made with it, and of more steps."""
        all_steps = [self.train_step(), *map(self.further_step, further), *steps]
        return Recipe(self.job.plain, all_steps, self.facts)

    def train_step(self) -> Step:
        """Train the model; in a pool in a folder of its own, on another machine."""
        job = self.job
        watched = () if job.spec.probe is None else ("probe", COLLECT)
        parts = (*self.kind.trained_by, *watched)

        def inputs(folder: Folder) -> Sequence[Any]:
            plain = {name: job.plain[name] for name in parts if job.plain[name] is not None}
            return job.plain["fingerprint"], plain, *self.kind.read_by(job), job.device

        def work(folder: Folder, made: Path) -> Mapping[str, Any]:
            if not self.pool.shares:
                return self._fit(made, folder.scratch / f"checkpoint-{folder.key[:12]}")
            work = partial(do_training, spec=job.spec, further=())
            call = Call(job.spec.name, work, folder.pieces, self.corpus, device=job.spec.device)
            for done in self.pool.do([call], job.progress, 1):
                done.result()
            for output in step.outputs:
                shutil.copytree(call.writes / output, made / output)
            return read_manifest(call.writes)["steps"]["train"]["notes"]

        step = Step("train", inputs, ("model", *([STEP_FOLDER] if watched else [])), work)
        return step

    def _fit(self, made: Path, checkpoint: Path) -> Notes:
        from attnaudit.tracing.texts import trace_probe
        from attnaudit.training.loop import best_epoch, torch_threads

        kind, job, probe = self.kind, self.job, self.job.spec.probe
        with torch_threads(job.spec.training.threads):
            model, notes = kind.build(job)
            origin = self.origin(model)

            def shards(rows: Any, step: int) -> Iterator[Trace]:
                return kind.shards(job, model, rows, {**origin, "step": step}, silent)

            callback = None
            if probe is not None:
                callback = trace_probe(kind.traced(job), probe, checkpoint, shards)
            history = kind.fit(
                job,
                model,
                seed=job.spec.seed,
                device=job.device,
                checkpoint=checkpoint,
                progress=job.progress,
                callback=callback,
            )
            model.save(made / "model")
        if probe is not None:
            _keep_steps(probe, checkpoint, made)
        best = best_epoch(history).epoch
        return {"history": [asdict(epoch) for epoch in history], "best_epoch": best, **notes}

    def further_step(self, name: str) -> Step:
        """Return a step that follows from the trained model."""
        kind, job = self.kind, self.job
        # Texts are drawn by the seed.
        collect = Further(
            ("trace",), self._collect, lambda job: (job.plain[COLLECT], job.spec.seed)
        )
        further = collect if name == COLLECT else kind.further[name]

        def inputs(folder: Folder) -> Sequence[Any]:
            trained = folder.records["train"].files
            return job.plain["fingerprint"], trained, *further.inputs(job), job.device

        def work(folder: Folder, made: Path) -> Notes:
            from attnaudit.training.loop import torch_threads

            model = kind.load(self.out / "model", "cpu" if self.pool.shares else job.device)
            origin = self.origin_of_trained(model, folder)
            with torch_threads(job.spec.training.threads):
                if name == COLLECT and self.pool.shares:
                    return self._collect_in_pool(origin, folder.pieces, made)
                return further.work(job, model, origin, made)

        return Step(name, inputs, further.outputs, work)

    def _collect(self, job: Job, model: Any, origin: Mapping[str, Any], made: Path) -> Notes:
        shards = self.kind.shards(job, model, self.kind.traced(job), origin, job.progress)
        return {"shards": len(write_shards(made / "trace", shards))}

    def _collect_in_pool(self, origin: Mapping[str, Any], place: Path, made: Path) -> Notes:
        job = self.job
        sent = replace(job, corpus=None, progress=silent)
        rows = np.arange(len(self.kind.traced(job)))
        calls = [
            piece(
                f"collect {number}",
                partial(do_shard, sent, self.out / "model", origin, part),
                place / f"{number}",
                job.corpus,
                job.spec.device,
            )
            for number, part in enumerate(np.split(rows, rows[SHARD_ROWS::SHARD_ROWS]))
        ]
        return {"shards": collected(self.pool, calls, made / "trace", job.progress)}

    def audit_step(self) -> Step:
        """Run the experiments on the trace, and what else the kind measures."""
        kind, job = self.kind, self.job
        battery = Battery(job.spec.experiments)
        audit = Audit(self.out / "trace", battery, job.plain, job.progress, pool=self.pool)

        def inputs(folder: Folder) -> Sequence[Any]:
            usual = (folder.records[name] for name in kind.usual)
            of_trace = audit.inputs() if self.is_traced else ()
            return *of_trace, *((one.files, one.notes) for one in usual)

        def work(folder: Folder, made: Path) -> Notes:
            (made / RESULTS[0]).mkdir()
            rows, left_out = audit.measure(made, folder.pieces) if self.is_traced else ([], {})
            write_json(made / RESULTS[1], kind.rows(job, folder, made, rows))
            return {"left_out": left_out}

        return Step("audit", inputs, (*RESULTS, *(kind.tables if self.is_traced else ())), work)

    def origin(self, model: Any) -> dict[str, Any]:
        """Return what any trace says of its origin; not when, where or how fast it was made."""
        plain, corpus = self.job.plain, self.job.corpus
        settings = {
            name: value
            for name, value in plain["corpus"].items()
            if name not in ("source", "data_dir")
        }
        named = {**self._named(), "task": self.kind.task(self.job), "notes": list(corpus.notes)}
        return {
            "corpus": {**settings, **named},
            "collect": plain[COLLECT],
            "model": self.kind.described(self.job, model),
            "training": plain["training"],
            "seed": self.job.spec.seed,
            "versions": self._versions(),
        }

    def origin_of_trained(self, model: Any, folder: Folder) -> dict[str, Any]:
        """Return what a trace of the trained model says of its origin."""
        from attnaudit.models.weights import weights_fingerprint

        trained, origin = folder.records["train"].notes, self.origin(model)
        origin["corpus"]["notes"] += trained.get("remarks", [])
        origin["model"]["fingerprint"] = weights_fingerprint(self.kind.network(model))
        return {**origin, "training": origin["training"] | {"best_epoch": trained["best_epoch"]}}

    def facts(self, folder: Folder) -> dict[str, Any]:
        """Return what the manifest says besides files, costs and versions."""
        job, corpus, trained = self.job, self.job.corpus, folder.records["train"].notes
        experiments = job.spec.experiments.items()
        seeds = {name: values["seed"] for name, values in experiments if "seed" in values}
        rows = {name: len(split) for name, split in corpus.splits.items()}
        classes = list(getattr(corpus, "class_names", ()))
        return {
            "device": job.device,
            "seeds": {"run": job.spec.seed, **seeds},
            "corpus": {**self._named(), "rows": rows, "class_names": classes},
            "notes": [*corpus.notes, *trained.get("remarks", [])],
            "training": {name: trained[name] for name in ("best_epoch", "history")},
            "skipped": [asdict(row) for row in corpus.skipped],
            "versions": self._versions(),
        }

    def _named(self) -> dict[str, Any]:
        return {name: getattr(self.job.corpus, name) for name in ("name", "task", "fingerprint")}

    def _versions(self) -> dict[str, str]:
        return versions(*(OF_TRANSFORMERS[:2] if "hf" in self.kind.needs else ()))


def do_shard(
    job: Job,
    model: Path,
    origin: Mapping[str, Any],
    part: np.ndarray,
    corpus: Any,
    made: Path,
    progress: Progress,
    device: str | None,
) -> None:
    """Write the trace of some rows of a prepared corpus, in any process."""
    kind, device = kind_of(job.spec), device or resolve_device(job.spec.device)
    job = replace(job, corpus=corpus, device=device, progress=progress)
    rows = kind.traced(job).take(part)
    write_shards(made, kind.shards(job, kind.load(model, device), rows, origin, progress))


def _keep_steps(probe: Probe, checkpoint: Path, made: Path) -> None:
    """Copy the traces of the probe: those beside the checkpoint stay good for another try."""
    for part in map(step_part, probe.steps):
        for path in (checkpoint / part).iterdir() if (checkpoint / part).is_dir() else ():
            with atomic(made / part / path.name) as temporary:
                shutil.copyfile(path, temporary)
        trace_files(made / part)  # refuses a step that is not there
