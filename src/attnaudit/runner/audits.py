"""Audits: the experiments on a trace, as a step of a run or into a folder of their own, and the page of their results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnaudit.core.errors import InputError, RunError
from attnaudit.core.files import content_key, sha256, write_json, write_with_digest
from attnaudit.core.progress import Progress, silent
from attnaudit.plans.spec import SCHEMA, experiment_settings
from attnaudit.published.compare import with_references
from attnaudit.report.cards.skill import OF_RUN
from attnaudit.results.about import About
from attnaudit.runner.engine import LOCAL, Engine
from attnaudit.runner.pieces import AuditOfPieces, KeptTables, pieces_folder, replay_folder
from attnaudit.runner.store import (
    OF_TRANSFORMERS,
    Record,
    Store,
    alone,
    is_free,
    read_manifest,
    read_spec,
    require_as_written,
    trace_digests,
    trace_shown,
    versions,
)
from attnaudit.runner.tasks import TASKS
from attnaudit.trace import Trace, trace_metadata

if TYPE_CHECKING:
    from attnaudit.experiments import Tables

RESULTS = ("results", "summary.json")
Page = Callable[[Path, Path], Any]  # writes a page about a folder to a path


@dataclass(frozen=True)
class Battery:
    """Which experiments, with which settings; those ``chosen`` by name must be able to run, others may be excluded."""

    names: Sequence[str]
    settings: Mapping[str, Mapping[str, Any]]
    chosen: bool = False

    def key(self, trace: Path) -> str:
        """The content that the results follow from."""
        return content_key(
            "audit", trace_digests(trace), list(self.names), self.settings, self.chosen
        )


def audited(
    battery: Battery, trace: Path, folder: Path, spec: Mapping[str, Any], progress: Progress, replay: Any = None,
    tables: Any = None,
) -> tuple[list[dict[str, Any]], dict[str, str]]:  # fmt: skip
    """Write the tables of the experiments into ``folder``; returns their summary rows, and which experiments were excluded and why.

    Where labels are known, the quality of the model is measured also next to experiments that were chosen by name: what may be concluded
    from these depends on it.
    ``tables`` computes the tables of shards (`tables_on`). A row has the published number of the same corpus and model, which ``spec`` and
    the trace name, as ``reference``. Raises TraceError.
    """
    from attnaudit.experiments import plan_audit, run_audit, tables_of_shards

    names = [*battery.names, *_quality(battery, trace)] if battery.chosen else None
    plan = plan_audit(trace, names, battery.settings, replay)
    results = run_audit(plan, folder / RESULTS[0], progress, tables or tables_of_shards)
    about = About.of(spec, trace_metadata(trace))
    return with_references(results.summary, about).to_dicts(), dict(results.left_out)


def _quality(battery: Battery, trace: Path) -> list[str]:
    """The experiment by which a model is judged, where it is not among those that were chosen, and the trace allows it."""
    from attnaudit.experiments import make_experiment, refusal

    name = OF_RUN[0]
    return (
        []
        if name in battery.names or refusal(make_experiment(name), Trace.first(trace))
        else [name]
    )


def audit_step(
    store: Store, trace: Path, battery: Battery, spec: Mapping[str, Any], progress: Progress, outputs: Sequence[str] = RESULTS,
    replay: Any = None, engine: Engine = LOCAL,
) -> Record:  # fmt: skip
    """Audit ``trace`` into ``results/`` and ``summary.json``; ``spec.json``, which names the trace's place, may be one of the outputs.

    Raises TraceError.
    """
    key = battery.key(trace)

    def work(folder: Path) -> dict[str, Any]:
        rows, left_out = audited(
            battery,
            trace,
            folder,
            spec,
            progress,
            replay,
            tables_on(engine, trace, store.out, key, replay),
        )
        write_json(folder / RESULTS[1], rows)
        if "spec.json" in outputs:
            write_with_digest(folder / "spec.json", spec)
        return {"left_out": left_out}

    return store.step(
        "audit", content_key(key, spec["trace"]) if "spec.json" in outputs else key, outputs, work
    )


def tables_on(engine: Engine, trace: Path, out: Path, key: str, replay: Any = None) -> Tables:
    """What computes the tables of a trace's shards for an audit in ``out``, and keeps those that took long until it is done."""
    from attnaudit.experiments import tables_of_shards

    folder = pieces_folder(out, key)
    return (
        partial(tables_of_shards, keep=KeptTables(folder))
        if engine == LOCAL
        else AuditOfPieces(engine, trace, folder, replay_folder(replay))
    )


def report_step(store: Store, progress: Progress, pages: Mapping[str, Page]) -> Record:
    """Write ``pages``, by file name, from the results."""

    def work(folder: Path) -> None:
        progress("write the report", 0, 0)
        for name, write in pages.items():
            write(store.out, folder / name)

    made_from = {
        name: record.files
        for name, record in store.records.items()
        if name in ("collect", "translate", "audit")
    }
    return store.step(
        "report",
        content_key("report", made_from, sha256(store.out / "spec.json")),
        tuple(pages),
        work,
    )


def audit_page(trace: Path | None = None) -> dict[str, Page]:
    """The page of an audit, by its file name; the trace is by default the one in the folder."""

    def write(folder: Path, page: Path) -> None:
        from attnaudit.report.run_page import write_report

        write_report(folder, trace, page)

    return {"report.html": write}


def audit_into(
    out: str | Path | None, trace: str | Path, experiments: Sequence[str] = (), settings: Mapping[str, Any] | None = None,
    progress: Progress | None = None, replay: Any = None, engine: Engine = LOCAL,
) -> Path:  # fmt: skip
    """Audit the trace (a folder of shards, one file, or a run) into ``out``, by default a folder next to it; returns that folder.

    All experiments that the trace allows, or just those named, and ``prediction`` where labels are known; ``settings`` are dotted names, as
    ``{"adversary.epsilon": 0.05}``. ``replay`` is the model of a trace without a tail of its own, or its folder. The ``engine`` audits the
    files of the trace. Overwrites an earlier audit in ``out`` once the new one is computed, and never a run. Raises InputError, TraceError
    and RunError, and then leaves ``out`` as it was. Where it is stopped otherwise, or cannot write, finished tables of a model that is
    replayed stay in ``.unfinished``, from which the same call resumes.
    """
    from attnaudit.trace import trace_task

    trace, progress = Path(trace), progress or silent
    battery = choose(experiments, settings or {}, trace_task(trace))
    shards = trace_digests(trace)
    out = Path(out) if out is not None else default_folder(trace)
    _check_place(out)
    spec = {
        "schema": SCHEMA, "kind": "audit", "trace": str(trace.resolve()), "shards": shards, "chosen": battery.chosen,
        "experiments": {name: battery.settings[name] for name in battery.names},
    }  # fmt: skip
    with engine.opened(out) as opened, alone(out) as store:
        audit_step(store, trace, battery, spec, progress, ("spec.json", *RESULTS), replay, opened)
        report_step(store, progress, audit_page(trace))
        store.close({"kind": "audit", "versions": versions(*_packages(trace, replay))})
    return out


def _packages(trace: Path, replay: Any) -> tuple[str, ...]:
    """What an audit of this trace uses besides the packages of all."""
    from attnaudit.trace import tail_file, trace_files

    if replay is not None:
        return OF_TRANSFORMERS[:2]
    tail = tail_file(trace_files(trace)[0].parent)
    return OF_TRANSFORMERS[2:] if tail is not None and tail.suffix == ".onnx" else ()


def choose(
    experiments: Sequence[str], settings: Mapping[str, Any], task: str | None = None
) -> Battery:
    """The experiments named, or all, with the defaults for a task and dotted settings in place. Raises InputError."""
    from attnaudit.experiments import make_experiment

    names = list(dict.fromkeys(make_experiment(name).name for name in experiments))
    resolved = experiment_settings(settings, task)
    for key in settings:
        if names and key.partition(".")[0] not in names:
            raise InputError(
                "audit",
                f"setting {key}",
                "not of an experiment asked for",
                f"a setting of {', '.join(names)}",
            )
    chosen = names or list(resolved)
    return Battery(chosen, {name: resolved.get(name, {}) for name in chosen}, chosen=bool(names))


def report_into(folder: str | Path, progress: Progress | None = None) -> Path:
    """Write the page of a finished run or audit again and return its path. Raises RunError."""
    folder = Path(folder)
    require_as_written(folder)
    spec = read_spec(folder)
    kind = spec.get("kind")
    pages = audit_page(trace_shown(folder, spec) if kind == "audit" else None) | (
        dict(TASKS[kind].pages) if kind in TASKS else {}
    )
    with alone(folder) as store:
        kept = {key: value for key, value in read_manifest(folder).items() if key != "steps"}
        written = store.records.pop("report").files
        report_step(
            store,
            progress or silent,
            {name: write for name, write in pages.items() if name in written},
        )
        store.close(kept)
    return folder / "report.html"


def default_folder(trace: Path) -> Path:
    """Where an audit of ``trace`` goes by itself: ``<run>-audit`` or ``<trace>-audit``."""
    place = trace.resolve()
    run = place.parent if place.name == "trace" and (place.parent / "spec.json").exists() else place
    name = run.stem if run.is_file() else run.name
    shown = trace if run == place else trace.parent
    return (shown.parent if shown.name else shown.resolve().parent) / f"{name}-audit"


def _check_place(out: Path) -> None:
    if is_free(out):
        return
    kind = read_spec(out).get("kind") if (out / "spec.json").exists() else None
    if kind != "audit":
        got = (
            "a folder that holds a run"
            if kind in TASKS
            else "a folder that is not empty"
            if out.is_dir()
            else "a file"
        )
        raise RunError(
            "audit",
            str(out),
            got,
            "a new folder, or one of an earlier audit",
            "choose another --out",
        )
