"""Audits of a trace that is already there, and pages of what is already audited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnaudit.core.errors import InputError, RunError
from attnaudit.core.files import write_json
from attnaudit.core.progress import Progress, silent
from attnaudit.plans.spec import SCHEMA, experiment_settings
from attnaudit.runner.ledger import MANIFEST, is_free, read_manifest
from attnaudit.runner.place import alone, read_spec
from attnaudit.runner.steps import RESULTS, Battery, keep_results, manifest, report_step, trace_digests

if TYPE_CHECKING:
    from attnaudit.results import Results


def audit_into(
    out: str | Path | None, trace: str | Path, experiments: Sequence[str] = (), settings: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> Path:  # fmt: skip
    """Audit the trace (a folder of shards, one file, or a run) into ``out``, by default a folder beside it; returns that folder.

    All experiments that the trace allows, or just those named; ``settings`` are dotted names, as ``{"adversary.epsilon": 0.05}``.
    An earlier audit in ``out`` gives way once the new one is computed; a run never does. Raises InputError, TraceError and RunError,
    and then leaves ``out`` as it was.
    """
    from attnaudit.trace import trace_task

    trace, progress = Path(trace), progress or silent
    battery = choose(experiments, settings or {}, trace_task(trace))
    shards = trace_digests(trace)
    out = Path(out) if out is not None else beside(trace)
    _check_place(out)
    spec = {
        "schema": SCHEMA, "kind": "audit", "trace": str(trace.resolve()), "shards": shards, "chosen": battery.chosen,
        "experiments": {name: battery.settings[name] for name in battery.names},
    }  # fmt: skip
    with alone(out) as ledger:
        made = ledger.scratch / "audit"

        def keep(results: Results) -> dict[str, Any]:
            write_json(out / "spec.json", spec)
            return keep_results(results, made, out, trace)

        ledger.step("audit", battery.key(trace), (*RESULTS, "spec.json"), lambda: battery(trace, made, progress), keep)
        report_step(ledger, trace, progress)
        ledger.close({**manifest(ledger), "kind": "audit"})
    return out


def choose(experiments: Sequence[str], settings: Mapping[str, Any], task: str | None = None) -> Battery:
    """The experiments named, or all, with the defaults for a task and dotted settings in place. Raises InputError."""
    from attnaudit.experiments import make_experiment

    names = list(dict.fromkeys(make_experiment(name).name for name in experiments))
    resolved = experiment_settings(settings, task)
    for key in settings:
        if names and key.partition(".")[0] not in names:
            raise InputError("audit", f"setting {key}", "not of an experiment asked for", f"a setting of {', '.join(names)}")
    chosen = names or list(resolved)
    return Battery(chosen, {name: resolved.get(name, {}) for name in chosen}, chosen=bool(names))


def report_into(folder: str | Path, progress: Progress | None = None) -> Path:
    """Write the page of a finished run or audit again and return its path. Raises RunError."""
    folder = Path(folder)
    require_finished(folder)
    spec = read_spec(folder)
    with alone(folder) as ledger:
        kept = {key: value for key, value in read_manifest(folder).items() if key != "steps"}
        (folder / "report.html").unlink(missing_ok=True)
        report_step(ledger, folder / spec["trace"] if spec.get("kind") == "audit" else None, progress or silent)
        ledger.close({**kept, **manifest(ledger)})
    return folder / "report.html"


def require_finished(folder: Path) -> None:
    """Raise RunError unless ``folder`` is a run or an audit that reached its manifest."""
    if not folder.is_dir():
        raise RunError("read run", str(folder), "no such folder", "a run directory", "make one with attnaudit run")
    if not (folder / "spec.json").exists():
        raise RunError("read run", str(folder), "no spec.json there", "a run directory", "make one with attnaudit run")
    if not (folder / MANIFEST).exists():
        raise RunError("read run", str(folder), "an unfinished run", "one with a manifest", "finish it by the command that started it")


def beside(trace: Path) -> Path:
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
        got = "a folder that holds a run" if kind == "run" else "a folder that is not empty" if out.is_dir() else "a file"
        raise RunError("audit", str(out), got, "a new folder, or one of an earlier audit", "choose another --out")
