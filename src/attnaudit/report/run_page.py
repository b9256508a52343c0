"""The page of a run or an audit."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from attnaudit.core import count, expanded, thousands
from attnaudit.report.answer import Example, answer
from attnaudit.report.card import verdict
from attnaudit.report.cards import columns_of_figures
from attnaudit.report.charts.instances import draw_figures, draw_summaries
from attnaudit.report.page import Section, card_section, figures_section, write_page
from attnaudit.report.sections.answer import answer_section, brief
from attnaudit.report.sections.comparison import comparison_section
from attnaudit.report.sections.heads import heads_section
from attnaudit.report.sections.instances import instance_sections, read_rows
from attnaudit.report.sections.numbers import numbers_section, summary_numbers
from attnaudit.report.sections.playground import (
    READ,
    epsilon_of,
    playground_addresses,
    playground_section,
)
from attnaudit.report.sections.provenance import (
    citations,
    gate_section,
    left_out,
    provenance_sections,
)
from attnaudit.report.words import row_of_heads
from attnaudit.results import ROW, read_record
from attnaudit.trace import Trace

FIGURES = 3  # that are shown at once


def write_report(
    folder: str | Path, trace: Trace | str | Path | None = None, page: Path | None = None
) -> Path:
    """Write the page of a run directory, or of a folder of results, and return it.

    Args:
        folder: It has ``results/*.parquet``, ``summary.json``, and ``spec.json`` if it is a run.
        trace: The trace of these results, by default the folder's own; without any the page has
            no heatmaps and no list of texts, and says so.
        page: Where to write it instead of ``report.html``.

    Raises:
        RunError: A file of the folder is damaged.
        TraceError: The trace is.
        InputError: Trace and results name different texts.
    """
    folder = expanded(folder)
    if trace is None and (folder / "trace").exists():
        trace = folder / "trace"
    record = read_record(folder, trace)
    about, rows, first = record.about, record.columns(columns_of_figures()), None
    if trace is not None:
        first = trace if isinstance(trace, Trace) else Trace.first(trace)
    missing = left_out(record, first)
    card, said = verdict(record.summary, about), answer(record, trace, dict(missing))
    of_instances: tuple[Section | None, ...] = ()
    examples, played = [said.example] if said.example else [], dict[str, str]()
    if trace is not None and first is not None:
        heatmaps, instances, shown, pictured = instance_sections(trace, record, card.unit)
        further = [one.row for one in examples if one.row is not None]
        read = read_rows(trace, record, np.union1d(pictured, further).astype(int), READ)
        playground = playground_section(*read, epsilon_of(about, first.task), card.unit)
        played = playground_addresses(playground)
        heatmaps = replace(heatmaps, content={**heatmaps.content, "played": played})
        of_instances = (heatmaps, instances, playground)
        known = {one.instance.name for one in examples}
        examples += [Example.of(one, said.better) for one in shown if one.name not in known]
    heads = card.audited
    lead = (
        f"Means over {card.unit}s, or shares, with 95 % intervals over {card.drawn}; s.d. is the "
        f"spread over {card.unit}s."
    )
    if heads is not None and card.unit == ROW:
        lead += f" A row is {row_of_heads(heads)}."
    if record.sample is not None:
        sample = count(len(record.sample), card.unit)
        lead += f" Figures show a random sample of {sample} of {thousands(record.height)}."
    kicker = f"{said.title} · {said.subtitle}"
    if about.of_sentences:
        kicker += ". The model attends to sentences: each is a token of this page."
    figures, legend = draw_figures(rows, about.class_names, card.unit)
    summarised = draw_summaries(record.summary, card.unit)
    sections = [
        answer_section(said, examples, played),
        *of_instances,
        heads_section(record, trace, rows),
        figures_section([*figures, *summarised], legend, FIGURES),
        card_section(card, missing, is_folded=True),
        comparison_section(record),
        numbers_section(summary_numbers(record.summary, card.unit, heads), lead),
        gate_section(about),
        *provenance_sections(about, citations(record.tables, about.corpus), missing),
    ]
    heading, path = brief(said.statement), page or folder / "report.html"
    return write_page(path, sections, heading, title=card.title, kicker=kicker)
