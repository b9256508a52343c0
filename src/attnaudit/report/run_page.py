"""The page of a run or an audit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
from jaxtyping import Int64

from attnaudit.core.numbers import count, thousands
from attnaudit.report.card import verdict
from attnaudit.report.cards import columns_of_figures
from attnaudit.report.charts.instances import draw_figures, draw_summaries
from attnaudit.report.page import Section, card_section, figures_section, write_page
from attnaudit.report.sections.comparison import comparison_section
from attnaudit.report.sections.gate import gate_section
from attnaudit.report.sections.head_cards import head_view
from attnaudit.report.sections.heads import heads_section
from attnaudit.report.sections.instances import (
    SHOWN_BY,
    check_same_instances,
    instance_sections,
    overview,
    rows_shown,
)
from attnaudit.report.sections.numbers import numbers_section, summary_tables
from attnaudit.report.sections.playground import READ, epsilon_of, playground_section
from attnaudit.report.sections.power import power_section
from attnaudit.report.sections.provenance import citations, left_out, provenance_sections
from attnaudit.report.words import row_of_heads
from attnaudit.results.record import RunRecord, read_record
from attnaudit.results.summary import ROW, SummaryRows
from attnaudit.trace import Trace


def write_report(
    folder: str | Path, trace: Trace | str | Path | None = None, page: Path | None = None
) -> Path:
    """Write the page of a run directory, or of a folder of results, by default its ``report.html``, and return its path.

    Reads ``results/*.parquet``, ``summary.json``, and ``spec.json`` where there is one. ``trace`` is the trace of these results, by
    default the folder's own; without any the page has no heatmaps and no list of instances, and says so. Raises RunError, TraceError,
    and InputError where trace and results name different instances.
    """
    folder = Path(folder)
    if trace is None and (folder / "trace").exists():
        trace = folder / "trace"
    record = read_record(folder, trace)
    about, rows, first = record.about, record.columns({SHOWN_BY, *columns_of_figures()}), None
    card = verdict(record.summary, about)
    of_instances: tuple[Section | None, ...] = (Section("no_trace"),)
    if trace is not None:
        first, seen = (
            trace if isinstance(trace, Trace) else Trace.first(trace),
            overview(trace, record.sample),
        )
        check_same_instances(seen, rows)
        heatmaps, instances, chosen = instance_sections(trace, seen, rows, record, card.unit)
        shown = _read_out(trace, record, chosen.pictured)
        listed = _read_out(trace, record, chosen.only_listed) if len(chosen.only_listed) else None
        played = playground_section(*shown, epsilon_of(about, first.task), card.unit, listed)
        of_instances = (heatmaps, played, instances)
    missing, heads = left_out(record, first), card.audited
    lead = (
        f"Means over {card.unit}s, or shares, with 95 % intervals over {card.drawn}; s.d. is the spread over {card.unit}s."
        f"{f' A row is {row_of_heads(heads)}.' if heads is not None and card.unit == ROW else ''}"
    )
    if record.sample is not None:
        lead += f" Figures show a random sample of {count(len(record.sample), card.unit)} of {thousands(record.height)}."
    figures, legend = draw_figures(rows, about.class_names, card.unit)
    sections = [
        card_section(card, missing),
        heads_section(record, head_view(record, trace, rows)),
        figures_section([*figures, *draw_summaries(record.summary, card.unit)], legend),
        *of_instances,
        comparison_section(record),
        numbers_section(summary_tables(record.summary, card.unit, heads), lead),
        power_section(card, record.documents(rows), SummaryRows.of(record.summary)),
        gate_section(about),
        *provenance_sections(about, citations(record.tables, about.corpus), missing),
    ]
    of_sentences = (
        " The model attends to sentences: each is a token of this page."
        if about.of_sentences
        else ""
    )
    return write_page(
        page or folder / "report.html", sections, card.title, card.subtitle + of_sentences
    )


def _read_out(
    trace: Trace | str | Path, record: RunRecord, picks: Int64[np.ndarray, " k"]
) -> tuple[Trace, pl.DataFrame]:
    """The rows ``picks`` with their readout, and what experiments found of them."""
    return rows_shown(trace, picks, READ), record.rows(picks)
