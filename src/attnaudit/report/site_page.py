"""The index of several runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from attnaudit.report.citations import corpus_title
from attnaudit.report.page import Section, write_page
from attnaudit.results.record import RunRecord

SHOWN = {
    "F1": "f1", "τ gradient": "tau_gradient", "τ LOO": "tau_loo", "τ gradient–LOO": "tau_gradient_loo", "median Δŷ": "median_delta_y",
    "ε-max JSD": "emax_jsd",
}  # fmt: skip


def write_site(out: Path, runs: Mapping[str, RunRecord]) -> Path:
    """Write ``index.html`` into ``out`` and return it: a row for each of ``runs``, by the name of its page. Raises RunError."""
    entries = []
    for page, record in runs.items():
        values = dict(record.summary.filter(group="all").select("measure", "value").iter_rows())
        entries.append((page, record.about, corpus_title(record.about), [values.get(measure) for measure in SHOWN.values()]))
    return write_page(out / "index.html", [Section("site", {"entries": entries, "columns": list(SHOWN)})], "Attention audits")
