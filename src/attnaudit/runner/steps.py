"""The steps that a run and an audit of a ready trace share: audit, report, manifest."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnaudit.core.files import atomic, sha256, write_json
from attnaudit.core.progress import Progress
from attnaudit.plans.spec import content_key
from attnaudit.published.join import add_published
from attnaudit.runner.ledger import Ledger, Record
from attnaudit.runner.versions import versions
from attnaudit.trace.probe import Probe, step_part

if TYPE_CHECKING:
    from attnaudit.results import Results

RESULTS = ("results", "summary.json")


@dataclass(frozen=True)
class Battery:
    """Which experiments, with which settings; those ``chosen`` by name must be able to run, others may be left out."""

    names: Sequence[str]
    settings: Mapping[str, Mapping[str, Any]]
    chosen: bool = False

    def __call__(self, trace: Path, folder: Path, progress: Progress) -> Results:
        """The results, their tables written into ``folder``. Raises TraceError."""
        from attnaudit.experiments import audit

        return audit(trace, list(self.names) if self.chosen else None, self.settings, folder, progress)

    def key(self, trace: Path) -> str:
        """The content that the results follow from."""
        return content_key("audit", trace_digests(trace), list(self.names), self.settings, self.chosen)


def audit_step(ledger: Ledger, trace: Path, battery: Battery, progress: Progress) -> Record:
    """Audit the trace at ``trace`` into ``results/`` and ``summary.json``. Raises TraceError."""
    made = ledger.scratch / "audit"
    return ledger.step(
        "audit", battery.key(trace), RESULTS, lambda: battery(trace, made, progress),
        lambda results: keep_results(results, made, ledger.out, trace),
    )  # fmt: skip


def keep_results(results: Results, made: Path, out: Path, trace: Path) -> dict[str, Any]:
    """Move the tables from ``made`` to ``results/``, write ``summary.json``; what was left out, and why, is for the manifest."""
    made.replace(out / RESULTS[0])
    write_json(out / RESULTS[1], results.summary.to_dicts())
    add_published(out, trace)
    return {"left_out": dict(results.left_out)}


def report_step(ledger: Ledger, trace: Path | None, progress: Progress) -> Record:
    """Write ``report.html`` from the results, and from the trace where it lies elsewhere."""

    def keep(_: None) -> dict[str, Any]:
        from attnaudit.report import write_report

        progress("write the report", 0, 0)
        write_report(ledger.out, trace)
        return {}

    made_from = {name: record.files for name, record in ledger.records.items() if name in ("collect", "audit")}
    key = content_key("report", made_from, sha256(ledger.out / "spec.json"))
    return ledger.step("report", key, ("report.html",), lambda: None, keep)


def manifest(ledger: Ledger) -> dict[str, Any]:
    """What every manifest says: files, costs and versions."""
    steps = ledger.records
    files = {"spec.json": sha256(ledger.out / "spec.json")} | {k: v for record in steps.values() for k, v in record.files.items()}
    return {
        "schema": 1, "files": files, "versions": versions(), "timings": {name: record.seconds for name, record in steps.items()},
        "peak_memory_bytes": max(record.peak_memory_bytes for record in steps.values()),
    }  # fmt: skip


def keep_steps(probe: Probe, made: Path, out: Path) -> None:
    """Copy the traces of the probe from ``made``: what they lie beside goes on being good for another try until the run is done."""
    from attnaudit.trace import trace_files

    for part in map(step_part, probe.steps):
        for path in (made / part).iterdir() if (made / part).is_dir() else ():
            with atomic(out / part / path.name) as temporary:
                shutil.copyfile(path, temporary)
        trace_files(out / part)  # refuses a step that is not there


def trace_digests(trace: Path) -> list[str]:
    """sha256 of every shard of a trace, and of the tail beside them. Raises TraceError."""
    from attnaudit.trace import TAIL_FILE, trace_files

    shards = trace_files(trace)
    tail = shards[0].parent / TAIL_FILE
    return [sha256(file) for file in (*shards, *([tail] if tail.exists() else []))]
