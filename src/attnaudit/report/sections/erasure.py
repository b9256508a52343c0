"""Some instances whose tokens a reader can remove one by one and see the output change.

The page computes the output itself, from the numbers of the trace: ``activation(offset + Σ alpha_t · readout_t / Σ alpha_t)`` over what is
left.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from attnaudit.experiments.erasure.experiment import MINIMUM
from attnaudit.report.page import Section
from attnaudit.report.sections.heatmaps import visible
from attnaudit.report.sections.instances import rows_read_out
from attnaudit.results.record import RunRecord
from attnaudit.trace import Trace

MOST_NUMBERS = 4000  # tokens times outputs of one instance
DIGITS = 9  # as many as float32 holds


def erasure_section(trace: Trace | str | Path, record: RunRecord, picks: np.ndarray) -> Section | None:
    """The rows ``picks`` for stepwise removal; None where erasure was not run, or the output is not a plain sum."""
    if "erasure" not in record.tables:
        return None
    chosen, facts = rows_read_out(trace, picks), record.rows(picks)
    if chosen.metadata["tail"] != "identity":
        return None
    entries = [_entry(chosen, k, facts) for k in range(len(chosen)) if _fits(chosen, k)]
    if not entries:
        return None
    content = {"names": [entry["name"] for entry in entries], "left_out": len(chosen) - len(entries)}
    data = {"steps-data": {"instances": entries, "classes": chosen.class_names}}
    return Section("erasure", content, (("Removals", "#steps"),), ("erasure.js",), data)


def _fits(trace: Trace, k: int) -> bool:
    return len(trace.alpha[k]) > 1 and trace.readout.contribution[k].size <= MOST_NUMBERS


def _entry(trace: Trace, k: int, facts: pl.DataFrame) -> dict[str, Any]:
    readout = trace.readout
    allowed = None if readout.candidates is None else readout.candidates[k].tolist()
    tokens = [visible(token) for token in trace.tokens(k)]
    return {
        "name": str(trace.instance[k]), "tokens": tokens, "alpha": _rounded(trace.alpha[k]),
        "readout": _rounded(readout.contribution[k].T), "offset": _rounded(readout.offset[k]), "allowed": allowed,
        "minimum": facts[MINIMUM][k].to_list(), "proven": facts["minimum_proven"][k],
    }  # fmt: skip


def _rounded(values: np.ndarray) -> Any:
    """Numbers short enough for a page."""
    if values.ndim == 2:
        return [_rounded(row) for row in values]
    return [float(f"{value:.{DIGITS}g}") for value in values.tolist()]
