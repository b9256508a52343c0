"""Audits of a trace that is already there, and pages of what is already audited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attnaudit.errors import InputError, RunError, did_you_mean
from attnaudit.files import write_json
from attnaudit.runner.ledger import MANIFEST, Ledger, is_empty
from attnaudit.runner.place import read_spec
from attnaudit.runner.spec import SCHEMA, experiment_settings
from attnaudit.runner.steps import Battery, Progress, audit_step, manifest, report_step, silent, trace_digests


def audit_into(
    out: str | Path | None, trace: str | Path, experiments: Sequence[str] = (), settings: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> Path:  # fmt: skip
    """Audit the trace (a folder of shards, one file, or a run) into ``out``, by default a folder beside it; returns that folder.

    All experiments that the trace allows, or just those named; ``settings`` are dotted names, as ``{"adversary.epsilon": 0.05}``.
    An earlier audit in ``out`` gives way; a run never does. Raises InputError, TraceError and RunError, and then leaves an earlier
    audit of other experiments or another trace in peace.
    """
    trace, progress = Path(trace), progress or silent
    battery = _battery(experiments, settings or {})
    digests = trace_digests(trace)
    out = Path(out) if out is not None else beside(trace)
    _check_place(out)
    spec = {
        "schema": SCHEMA, "kind": "audit", "trace": str(trace), "shards": digests, "chosen": battery.chosen,
        "experiments": {name: battery.settings[name] for name in battery.names},
    }  # fmt: skip
    _audit(out, spec, trace, battery, progress)
    return out


def report_into(folder: str | Path, progress: Progress | None = None) -> Path:
    """Write the page of a finished run or audit again and return its path. Raises RunError."""
    folder = Path(folder)
    require_finished(folder)
    ledger = Ledger(folder)
    kept = {key: value for key, value in _manifest(folder).items() if key != "steps"}
    ledger.forget("report")
    spec = read_spec(folder)
    report_step(ledger, Path(spec["trace"]) if spec.get("kind") == "audit" else None, progress or silent)
    ledger.close({**kept, **manifest(ledger)})
    return folder / "report.html"


def beside(trace: Path) -> Path:
    """Where an audit of ``trace`` goes by itself: ``<run>-audit`` or ``<trace>-audit``."""
    base = trace.resolve()
    base = base.parent if base.name == "trace" and (base.parent / "spec.json").exists() else base
    return trace.parent / f"{base.stem}-audit" if base.is_file() else base.with_name(f"{base.name}-audit")
