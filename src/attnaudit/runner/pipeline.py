"""A run of any `Task`: read → train → collect → audit → report → manifest, each step done once for what it follows from."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np

from attnaudit.core.errors import InputError
from attnaudit.core.extras import require
from attnaudit.core.files import atomic, content_key, write_json, write_with_digest
from attnaudit.core.progress import Progress, silent
from attnaudit.runner.audits import RESULTS, Battery, audit_page, audited, report_step, tables_on
from attnaudit.runner.engine import LOCAL, LOCALLY, Call, Engine, Here, files_of
from attnaudit.runner.pieces import DIGESTS, collected, pieces_folder, whole
from attnaudit.runner.store import (
    MANIFEST,
    OF_TRANSFORMERS,
    Record,
    alone,
    check_place,
    read_manifest,
    trace_digests,
    versions,
)
from attnaudit.runner.tasks import Job, Step, Task, task_of
from attnaudit.trace import Trace, trace_files, write_shards
from attnaudit.training.probe import STEP_FOLDER, Probe, step_part


def run(
    spec: Any, out: str | Path, progress: Progress | None = None, corpus: Any = None, engine: Engine = LOCAL, here: Here = LOCALLY
) -> Path:  # fmt: skip
    """Train, collect, audit and report into the folder ``out``; returns it.

    ``spec`` is a `RunSpec` or a `TranslationSpec`, ``corpus`` what it names, where that has been read already. On
    another ``engine`` than the local one training, shards of the trace and files of the audit are calls; ``here`` as in `train_into`. An
    interrupted run resumes after its last complete step or epoch, and ends with the same ``results/``. A finished run is left as it is.
    Raises InputError for bad
    input and RunError where ``out`` holds another run, is no empty folder, or is full.
    """
    traced = spec.model.attention != "none"
    out, progress = here.path(Path(out)), progress or silent
    if engine != LOCAL:  # what cannot be run is refused before there is a cluster
        check_place(out, spec.to_json())
        corpus = corpus or task_of(spec).read(spec, progress)
    with (
        engine.opened(out) as opened,
        _prepared(spec, out, progress, corpus, here=here, engine=opened) as prepared,
    ):
        prepared.train(prepared.task.extra, traced)
        prepared.audit(traced)
        report_step(
            prepared.job.store,
            prepared.job.progress,
            {**(audit_page() if traced else {}), **prepared.task.pages},
        )
    return out


def train_into(
    spec: Any, out: str | Path, progress: Progress | None = None, corpus: Any = None, steps: Sequence[str] = (), here: Here = LOCALLY,
) -> Path:  # fmt: skip
    """The first half of `run`: train and collect into the folder ``out``, one that a study names; returns it.

    ``steps`` are further ones of its task: ``teach`` leaves a trace of all splits, for a training that takes it as given; ``translate``
    leaves translations of the test split. ``here`` says where files that the specification names are on this machine.
    """
    out = here.path(Path(out))
    with _prepared(
        spec, out, progress or silent, corpus, f"remove {out}: what it held is made again", here
    ) as prepared:
        prepared.train(steps)
    return out


@contextlib.contextmanager
def _prepared(
    spec: Any,
    out: Path,
    progress: Progress,
    corpus: Any,
    do: str = "",
    here: Here = LOCALLY,
    engine: Engine = LOCAL,
) -> Iterator[_Run]:
    """The run with its corpus read, holding its place; ``do`` is said where that is another's."""
    task, plain, spec = task_of(spec), spec.to_json(), here.spec(spec)
    for extra in task.needs:
        require(extra, spec.kind)
    check_place(out, plain, do)
    device = engine.device(spec.device) or (
        spec.device if spec.device == "auto" else resolve_device(spec.device)
    )  # refused at once
    corpus = corpus or task.read(spec, progress)
    texts, plain["fingerprint"] = task.prepare(spec, corpus)
    device = resolve_device(device) if engine == LOCAL else device
    check_place(out, plain, do)
    from attnaudit.training.loop import (
        torch_threads,
    )  # here because it imports torch, when nothing in the input was refused

    with alone(out) as store, torch_threads(spec.training.threads):
        prepared = _Run(task, Job(spec, plain, texts, device, store, progress), engine, corpus)
        yield prepared
        store.close(prepared.manifest())


def resolve_device(device: str) -> str:
    """``auto`` is CUDA where it is available. Raises InputError for a device that is not."""
    if device == "cpu":
        return device
    import torch

    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    known = [
        "cpu",
        *(["cuda"] if torch.cuda.is_available() else []),
        *(f"cuda:{k}" for k in range(torch.cuda.device_count())),
    ]
    if device not in known:
        raise InputError(
            "run", "--device", repr(device), f"auto or one of {', '.join(known)} on this machine"
        )
    return device


@dataclass(frozen=True)
class _Run:
    """The steps of one run, which an ``engine`` does; ``corpus`` is what was read, before words were planted into it or removed."""

    task: Task
    job: Job
    engine: Engine
    corpus: Any

    def train(self, steps: Sequence[str], traced: bool = True) -> None:
        """Train, collect if there is attention to trace, and do the ``steps`` besides."""
        trained = self._train()
        for name in (*(("collect",) if traced else ()), *steps):
            self._with_model(name, trained)

    def _train(self) -> Record:
        job, plain = self.job, self.job.plain
        key = content_key("train", plain["fingerprint"], *self.task.training_key(job), job.device)
        outputs = ("model",) if job.spec.probe is None else ("model", STEP_FOLDER)
        if self.engine == LOCAL:
            work = partial(self._fit, job.store.scratch / f"checkpoint-{key[:12]}")
        else:
            work = partial(self._fit_by_call, pieces_folder(job.store.out, key), outputs)
        return job.store.step("train", key, outputs, work)

    def _fit_by_call(self, place: Path, outputs: Sequence[str], folder: Path) -> dict[str, Any]:
        """Train in a folder of its own, on a machine of the engine; returns the notes of that training."""
        job, spec = self.job, self.job.spec
        call = Call(
            spec.name,
            do_train,
            place,
            {"spec": spec, "folder": place},
            files_of(spec),
            self.corpus,
            (),
            spec.device,
            MANIFEST,
        )
        for done in self.engine.do([call], job.progress, 1):
            done.result()
        for output in outputs:
            shutil.copytree(place / output, folder / output)
        if not (job.store.out / "spec.json").exists():
            write_with_digest(job.store.out / "spec.json", job.plain)
        return read_manifest(place)["steps"]["train"]["notes"]

    def _fit(self, checkpoint: Path, folder: Path) -> dict[str, Any]:
        from attnaudit.tracing.texts import trace_probe
        from attnaudit.training.loop import best_epoch

        task, job, probe = self.task, self.job, self.job.spec.probe
        model, notes = task.build(job)
        origin = self._origin(model)

        def shards(rows: Any, step: int) -> Iterator[Trace]:
            return task.shards(job, model, rows, {**origin, "step": step}, silent)

        callback = (
            None if probe is None else trace_probe(task.traced(job), probe, checkpoint, shards)
        )
        if not (
            job.store.out / "spec.json"
        ).exists():  # the folder is this run's own, now that nothing in its input was refused
            write_with_digest(job.store.out / "spec.json", job.plain)
        history = task.fit(
            job,
            model,
            seed=job.spec.seed,
            device=job.device,
            checkpoint=checkpoint,
            progress=job.progress,
            callback=callback,
        )
        model.save(folder / "model")
        if probe is not None:
            _keep_steps(probe, checkpoint, folder)
        return {
            "history": [asdict(epoch) for epoch in history],
            "best_epoch": best_epoch(history).epoch,
            **notes,
        }

    def _with_model(self, name: str, trained: Record) -> None:
        """A step that follows from the trained model."""
        job, task = self.job, self.task
        step = (
            Step(("trace",), task.collect_key, self._collect)
            if name == "collect"
            else task.steps[name]
        )

        def work(folder: Path) -> dict[str, Any]:
            model = task.load(
                job.store.out / "model", job.device if self.engine == LOCAL else "cpu"
            )
            return step.work(job, model, self._metadata(model, trained), folder)

        key = content_key(name, job.plain["fingerprint"], trained.files, *step.key(job), job.device)
        job.store.step(name, key, step.outputs, work)

    def _collect(
        self, job: Job, model: Any, origin: Mapping[str, Any], folder: Path
    ) -> dict[str, Any]:
        if self.engine != LOCAL:
            return {
                "shards": collected(
                    self.engine, self._calls(origin), folder / "trace", job.progress
                )
            }
        shards = self.task.shards(job, model, self.task.traced(job), origin, job.progress)
        return {"shards": len(write_shards(folder / "trace", shards))}

    def _calls(self, origin: Mapping[str, Any]) -> Iterator[Call]:
        """A call for each shard of the trace."""
        job, out = self.job, self.job.store.out
        model, rows = out / "model", len(self.task.traced(job))
        place = pieces_folder(out, content_key(origin))
        for number, start in enumerate(range(0, rows, self.task.shard_rows)):
            span = start, min(start + self.task.shard_rows, rows)
            arguments = {
                "spec": job.spec,
                "plain": job.plain,
                "model": model,
                "origin": origin,
                "span": span,
                "folder": place / f"{number}",
            }
            yield Call(
                f"collect {number}",
                do_shard,
                place / f"{number}",
                arguments,
                (model,),
                job.corpus,
                (),
                job.spec.device,
                DIGESTS,
            )

    def _origin(self, model: Any) -> dict[str, Any]:
        """What any trace says of its origin: nothing in it depends on when, where or how fast it was made."""
        plain, corpus = self.job.plain, self.job.corpus
        settings = {
            name: value
            for name, value in plain["corpus"].items()
            if name not in ("source", "data_dir")
        }
        return {
            "corpus": {
                **settings, "name": corpus.name, "task": corpus.task, "fingerprint": corpus.fingerprint, "notes": list(corpus.notes),
            },
            "collect": plain["collect"],
            "model": self.task.described(self.job, model),
            "training": plain["training"],
            "seed": self.job.spec.seed,
            "versions": self._versions(),
        }  # fmt: skip

    def _metadata(self, model: Any, trained: Record) -> dict[str, Any]:
        """What a trace of the trained model says of its origin."""
        from attnaudit.models.weights import weights_fingerprint

        origin = self.task.with_remarks(self._origin(model), self.task.remarks(trained.notes))
        return {
            **origin,
            "model": {
                **origin["model"],
                "fingerprint": weights_fingerprint(self.task.network(model)),
            },
            "training": {**origin["training"], "best_epoch": trained.notes["best_epoch"]},
        }

    def audit(self, traced: bool) -> None:
        """The experiments on the trace, and what else the task measures."""
        task, job, trace = self.task, self.job, self.job.store.out / "trace"
        battery = Battery(list(job.spec.experiments), job.spec.experiments)

        key = content_key("audit", trace_digests(trace) if traced else None, *task.audit_key(job))

        def work(folder: Path) -> dict[str, Any]:
            (folder / RESULTS[0]).mkdir()
            tables = tables_on(self.engine, trace, job.store.out, key)
            rows, left_out = (
                audited(battery, trace, folder, job.plain, job.progress, tables=tables)
                if traced
                else ([], {})
            )
            write_json(folder / RESULTS[1], task.rows(job, folder, rows))
            return {"left_out": left_out}

        job.store.step("audit", key, (*RESULTS, *(task.tables if traced else ())), work)

    def manifest(self) -> dict[str, Any]:
        job, corpus, trained = self.job, self.job.corpus, self.job.store.records["train"].notes
        facts: Mapping[str, Mapping[str, Any]] = self.task.facts(job)
        return {
            "kind": self.task.kind,
            "device": job.device,
            "seeds": {"run": job.spec.seed, **facts.get("seeds", {})},
            "corpus": {
                "name": corpus.name, "task": corpus.task, "fingerprint": corpus.fingerprint,
                "rows": {name: len(split) for name, split in corpus.splits.items()}, **facts.get("corpus", {}),
            },
            "notes": [*corpus.notes, *self.task.remarks(trained)],
            "training": {name: trained[name] for name in ("best_epoch", "history")},
            "skipped": [asdict(row) for row in corpus.skipped],
            "versions": self._versions(),
        }  # fmt: skip

    def _versions(self) -> dict[str, str]:
        return versions(*(OF_TRANSFORMERS[:2] if "hf" in self.task.needs else ()))


def do_train(here: Here, corpus: Any, progress: Progress, *, spec: Any, folder: Path) -> None:
    """The training of a run alone, on any machine."""
    with _prepared(spec, here.path(folder), progress, corpus, here=here) as prepared:
        prepared.train((), traced=False)


def do_shard(
    here: Here, corpus: Any, progress: Progress, *, spec: Any, plain: dict[str, Any], model: Path, origin: Mapping[str, Any],
    span: tuple[int, int], folder: Path,
) -> None:  # fmt: skip
    """Write the trace of some rows of a prepared corpus into ``folder``, on any machine."""
    task, place, nobody = task_of(spec), here.path(folder), cast(Any, None)
    job = Job(
        here.spec(spec), plain, corpus, here.device or resolve_device(spec.device), nobody, progress
    )
    rows = task.traced(job).take(np.arange(*span))
    with whole(place) as made:
        write_shards(
            made, task.shards(job, task.load(here.path(model), job.device), rows, origin, progress)
        )


def _keep_steps(probe: Probe, made: Path, folder: Path) -> None:
    """Copy the traces of the probe from ``made``: those beside the checkpoint stay good for another try until the run is done."""
    for part in map(step_part, probe.steps):
        for path in (made / part).iterdir() if (made / part).is_dir() else ():
            with atomic(folder / part / path.name) as temporary:
                shutil.copyfile(path, temporary)
        trace_files(folder / part)  # refuses a step that is not there
