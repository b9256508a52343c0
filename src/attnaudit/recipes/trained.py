"""A model trained here, and what is made with it: train → collect → … → audit → report."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from attnaudit.core.errors import InputError
from attnaudit.core.extras import require
from attnaudit.core.files import atomic, write_json
from attnaudit.core.progress import Progress, silent
from attnaudit.recipes.audit import RESULTS, Battery, audit_page, audited, report_step, tables_on
from attnaudit.recipes.kind import Further, Job, Kind
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
from attnaudit.steps.finished import read_manifest, trace_digests
from attnaudit.steps.folder import MANIFEST
from attnaudit.steps.pieces import DIGESTS, collected, whole
from attnaudit.steps.versions import OF_TRANSFORMERS, versions
from attnaudit.trace import Trace, trace_files, write_shards
from attnaudit.training.probe import STEP_FOLDER, Probe, step_part

SHARD_ROWS = 2048  # of a call that collects


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
        corpus: What the spec names, if it has been read already.
        pool: What trains, collects and audits.
        device: Device of this process; None to go by the spec.

    Returns:
        The folder.

    Raises:
        InputError: For bad input.
        RunError: If ``out`` holds another run, is no empty folder, or is full.
    """
    out = Path(out)
    made = prepared(spec, out, progress, corpus, pool, device=device)
    return execute(made.whole_run(), out)


def plan_run(spec: Any, out: Path, progress: Progress = silent) -> list[Planned]:
    """List the steps of `run`, and say which are done; nothing is written.

    Raises:
        InputError: What `run` raises before it trains.
    """
    return plan(prepared(spec, out, progress).whole_run(), out)


def train(
    spec: Any,
    out: Path,
    progress: Progress = silent,
    corpus: Any = None,
    device: str | None = None,
) -> Path:
    """Train a model without a trace; return its folder. Arguments are those of `run`."""
    made = prepared(spec, out, progress, corpus, device=device)
    return execute(made.training(is_traced=False), out) / "model"


def train_into(
    spec: Any,
    out: str | Path,
    progress: Progress = silent,
    corpus: Any = None,
    further: Sequence[str] = (),
    device: str | None = None,
) -> Path:
    """Train and collect into a folder that a study names: the first half of `run`.

    Args:
        spec: Specification of the training.
        out: Folder of the training.
        progress: Callback.
        corpus: What the spec names, if it has been read already.
        further: Names of further steps of its kind: ``teach`` leaves a trace of all splits,
            ``translate`` translations of the test split.
        device: Device of this process; None to go by the spec.
    """
    out, do = Path(out), f"remove {out}: what it held is made again"
    made = prepared(spec, out, progress, corpus, do=do, device=device)
    return execute(replace(made.training(further), do=do), out)


def prepared(
    spec: Any,
    out: Path,
    progress: Progress,
    corpus: Any = None,
    pool: Pool = SERIAL,
    do: str = "",
    device: str | None = None,
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
    return Trained(kind, Job(spec, plain, texts, device, progress), pool, corpus)


def resolve_device(device: str) -> str:
    """Return the torch device of a setting; ``auto`` is CUDA where it is available.

    Raises:
        InputError: If there is no such device.
    """
    if device == "cpu":
        return device
    import torch

    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    numbered = [f"cuda:{k}" for k in range(torch.cuda.device_count())]
    known = ["cpu", *(["cuda"] if torch.cuda.is_available() else []), *numbered]
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
        pool: What does it.
        corpus: What was read, before words were planted into it or removed.
    """

    kind: Kind
    job: Job
    pool: Pool
    corpus: Any

    @property
    def is_traced(self) -> bool:
        """True if there is attention to trace."""
        return getattr(self.job.spec.model, "attention", "") != "none"

    def whole_run(self) -> Recipe:
        """Return the recipe of a run: training, trace, audit and pages."""
        further = ("collect", *self.kind.usual) if self.is_traced else self.kind.usual
        pages = {**(audit_page() if self.is_traced else {}), **self.kind.pages}
        report = report_step(self.job.progress, pages)
        steps = [self.train_step(), *map(self.further_step, further), self.audit_step(), report]
        return Recipe(self.job.plain, steps, self.facts)

    def training(self, further: Sequence[str] = (), is_traced: bool = True) -> Recipe:
        """Return the recipe of a training of a study: no audit, no page."""
        names = (*(("collect",) if is_traced else ()), *further)
        steps = [self.train_step(), *map(self.further_step, names)]
        return Recipe(self.job.plain, steps, self.facts)

    def train_step(self) -> Step:
        """Train the model; in a pool in a folder of its own, on another machine."""
        job = self.job
        outputs = ("model",) if job.spec.probe is None else ("model", STEP_FOLDER)

        def inputs(folder: Folder) -> Sequence[Any]:
            return job.plain["fingerprint"], *self.kind.training_inputs(job), job.device

        def work(folder: Folder, made: Path) -> Mapping[str, Any]:
            key = step.key(folder)
            if not self.pool.shares:
                return self._fit(made, folder.scratch / f"checkpoint-{key[:12]}")
            place = folder.pieces(key)
            arguments = {"spec": job.spec, "folder": place}
            call = Call(
                job.spec.name,
                do_train,
                place,
                arguments,
                self.corpus,
                device=job.spec.device,
                last=MANIFEST,
            )
            for done in self.pool.do([call], job.progress, 1):
                done.result()
            for output in outputs:
                shutil.copytree(place / output, made / output)
            return read_manifest(place)["steps"]["train"]["notes"]

        step = Step("train", inputs, outputs, work)
        return step

    def _fit(self, made: Path, checkpoint: Path) -> dict[str, Any]:
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
        known = Further(("trace",), self._collect, kind.collect_inputs)
        further = known if name == "collect" else kind.further[name]

        def inputs(folder: Folder) -> Sequence[Any]:
            trained = folder.records["train"].files
            return job.plain["fingerprint"], trained, *further.inputs(job), job.device

        def work(folder: Folder, made: Path) -> dict[str, Any]:
            from attnaudit.training.loop import torch_threads

            saved, place = folder.out / "model", folder.pieces(step.key(folder))
            model = kind.load(saved, "cpu" if self.pool.shares else job.device)
            origin = self.origin_of_trained(model, folder)
            with torch_threads(job.spec.training.threads):
                if name == "collect" and self.pool.shares:
                    return self._collect_in_pool(saved, origin, place, made)
                return further.work(job, model, origin, made)

        step = Step(name, inputs, further.outputs, work)
        return step

    def _collect(
        self, job: Job, model: Any, origin: Mapping[str, Any], made: Path
    ) -> dict[str, Any]:
        shards = self.kind.shards(job, model, self.kind.traced(job), origin, job.progress)
        return {"shards": len(write_shards(made / "trace", shards))}

    def _collect_in_pool(
        self, model: Path, origin: Mapping[str, Any], place: Path, made: Path
    ) -> dict[str, Any]:
        job, calls = self.job, []
        rows = len(self.kind.traced(job))
        for number, start in enumerate(range(0, rows, SHARD_ROWS)):
            arguments = {
                "spec": job.spec,
                "plain": job.plain,
                "model": model,
                "origin": origin,
                "span": (start, min(start + SHARD_ROWS, rows)),
                "folder": place / f"{number}",
            }
            calls.append(
                Call(
                    f"collect {number}",
                    do_shard,
                    place / f"{number}",
                    arguments,
                    job.corpus,
                    device=job.spec.device,
                    last=DIGESTS,
                )
            )
        return {"shards": collected(self.pool, calls, made / "trace", job.progress)}

    def audit_step(self) -> Step:
        """Run the experiments on the trace, and what else the kind measures."""
        kind, job = self.kind, self.job
        battery = Battery(list(job.spec.experiments), job.spec.experiments)

        def inputs(folder: Folder) -> Sequence[Any]:
            shards = trace_digests(folder.out / "trace") if self.is_traced else None
            return shards, *kind.audit_inputs(job, folder)

        def work(folder: Folder, made: Path) -> dict[str, Any]:
            (made / RESULTS[0]).mkdir()
            rows, left_out = [], {}
            if self.is_traced:
                trace = folder.out / "trace"
                tables = tables_on(self.pool, trace, folder.pieces(step.key(folder)))
                rows, left_out = audited(
                    battery, trace, made, job.plain, job.progress, tables=tables
                )
            write_json(made / RESULTS[1], kind.rows(job, folder, made, rows))
            return {"left_out": left_out}

        step = Step("audit", inputs, (*RESULTS, *(kind.tables if self.is_traced else ())), work)
        return step

    def origin(self, model: Any) -> dict[str, Any]:
        """Return what any trace says of its origin; not when, where or how fast it was made."""
        plain, corpus = self.job.plain, self.job.corpus
        settings = {
            name: value
            for name, value in plain["corpus"].items()
            if name not in ("source", "data_dir")
        }
        named = {
            "name": corpus.name,
            "task": self.kind.task(self.job),
            "fingerprint": corpus.fingerprint,
            "notes": list(corpus.notes),
        }
        return {
            "corpus": {**settings, **named},
            "collect": plain["collect"],
            "model": self.kind.described(self.job, model),
            "training": plain["training"],
            "seed": self.job.spec.seed,
            "versions": self._versions(),
        }

    def origin_of_trained(self, model: Any, folder: Folder) -> dict[str, Any]:
        """Return what a trace of the trained model says of its origin."""
        from attnaudit.models.weights import weights_fingerprint

        notes = folder.records["train"].notes
        origin = self.kind.with_remarks(self.origin(model), self.kind.remarks(notes))
        fingerprint = weights_fingerprint(self.kind.network(model))
        return {
            **origin,
            "model": {**origin["model"], "fingerprint": fingerprint},
            "training": {**origin["training"], "best_epoch": notes["best_epoch"]},
        }

    def facts(self, folder: Folder) -> dict[str, Any]:
        """Return what the manifest says besides files, costs and versions."""
        job, corpus, trained = self.job, self.job.corpus, folder.records["train"].notes
        more = self.kind.facts(job)
        rows = {name: len(split) for name, split in corpus.splits.items()}
        named = {"name": corpus.name, "task": corpus.task, "fingerprint": corpus.fingerprint}
        return {
            "kind": self.kind.name,
            "device": job.device,
            "seeds": {"run": job.spec.seed, **more.get("seeds", {})},
            "corpus": {**named, "rows": rows, **more.get("corpus", {})},
            "notes": [*corpus.notes, *self.kind.remarks(trained)],
            "training": {name: trained[name] for name in ("best_epoch", "history")},
            "skipped": [asdict(row) for row in corpus.skipped],
            "versions": self._versions(),
        }

    def _versions(self) -> dict[str, str]:
        return versions(*(OF_TRANSFORMERS[:2] if "hf" in self.kind.needs else ()))


def do_train(
    corpus: Any, progress: Progress, device: str | None, *, spec: Any, folder: Path
) -> None:
    """Train a model alone, in any process."""
    train(spec, folder, progress, corpus, device)


def do_shard(
    corpus: Any,
    progress: Progress,
    device: str | None,
    *,
    spec: Any,
    plain: dict[str, Any],
    model: Path,
    origin: Mapping[str, Any],
    span: tuple[int, int],
    folder: Path,
) -> None:
    """Write the trace of some rows of a prepared corpus, in any process."""
    kind = kind_of(spec)
    job = Job(spec, plain, corpus, device or resolve_device(spec.device), progress)
    rows = kind.traced(job).take(np.arange(*span))
    with whole(folder) as made:
        loaded = kind.load(model, job.device)
        write_shards(made, kind.shards(job, loaded, rows, origin, progress))


def _keep_steps(probe: Probe, checkpoint: Path, made: Path) -> None:
    """Copy the traces of the probe: those beside the checkpoint stay good for another try."""
    for part in map(step_part, probe.steps):
        for path in (checkpoint / part).iterdir() if (checkpoint / part).is_dir() else ():
            with atomic(made / part / path.name) as temporary:
                shutil.copyfile(path, temporary)
        trace_files(made / part)  # refuses a step that is not there
