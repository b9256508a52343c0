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
from attnaudit.report.sections.provenance import citations, left_out, provenance_sections
from attnaudit.report.words import row_of_heads
from attnaudit.results.record import read_record
from attnaudit.results.summary import ROW
from attnaudit.trace import Trace


def write_report(
    folder: str | Path, trace: Trace | str | Path | None = None, page: Path | None = None
) -> Path:
    """Write the page of a run directory, or of a folder of results, and return it.

    Args:
        folder: It has ``results/*.parquet``, ``summary.json``, and ``spec.json`` if it is a run.
        trace: The trace of these results, by default the folder's own; without any the page has
            no heatmaps and no list of instances, and says so.
        page: Where to write it instead of ``report.html``.

    Raises:
        RunError: A file of the folder is damaged.
        TraceError: The trace is.
        InputError: Trace and results name different instances.
    """
    folder = Path(folder)
    if trace is None and (folder / "trace").exists():
        trace = folder / "trace"
    record = read_record(folder, trace)
    about, rows, first = record.about, record.columns({SHOWN_BY, *columns_of_figures()}), None
    card = verdict(record.summary, about)
    of_instances: tuple[Section | None, ...] = (Section("no_trace"),)
    if trace is not None:
        first = trace if isinstance(trace, Trace) else Trace.first(trace)
        seen = overview(trace, record.sample)
        check_same_instances(seen, rows)

        def read(picks: Int64[np.ndarray, " k"]) -> tuple[Trace, pl.DataFrame]:
            """Read rows with their readout, and what experiments found of them."""
            return rows_shown(trace, picks, READ), record.rows(picks)

        heatmaps, instances, chosen = instance_sections(trace, seen, rows, record, card.unit)
        listed = read(chosen.only_listed) if len(chosen.only_listed) else None
        epsilon = epsilon_of(about, first.task)
        played = playground_section(*read(chosen.pictured), epsilon, card.unit, listed)
        of_instances = (heatmaps, played, instances)
    missing, heads = left_out(record, first), card.audited
    lead = (
        f"Means over {card.unit}s, or shares, with 95 % intervals over {card.drawn}; s.d. is the "
        f"spread over {card.unit}s."
    )
    if heads is not None and card.unit == ROW:
        lead += f" A row is {row_of_heads(heads)}."
    if record.sample is not None:
        sample = count(len(record.sample), card.unit)
        lead += f" Figures show a random sample of {sample} of {thousands(record.height)}."
    subtitle = card.subtitle
    if about.of_sentences:
        subtitle += " The model attends to sentences: each is a token of this page."
    figures, legend = draw_figures(rows, about.class_names, card.unit)
    sections = [
        card_section(card, missing),
        heads_section(record, head_view(record, trace, rows)),
        figures_section([*figures, *draw_summaries(record.summary, card.unit)], legend),
        *of_instances,
        comparison_section(record),
        numbers_section(summary_tables(record.summary, card.unit, heads), lead),
        gate_section(about),
        *provenance_sections(about, citations(record.tables, about.corpus), missing),
    ]
    return write_page(page or folder / "report.html", sections, card.title, subtitle)
