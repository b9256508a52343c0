"""The page of the copying study: the card, curves of every seed, what is learned first, attention as a matrix, all numbers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from attnaudit.copying.measures import measure_label
from attnaudit.copying.study import NAME, Copying
from attnaudit.core.files import read_with_digest
from attnaudit.report.card import VerdictCard
from attnaudit.report.cards.card import without_conclusions
from attnaudit.report.cards.copying import (
    GROUPS,
    QUESTION,
    SPREAD,
    card_rows,
    figures,
    headings,
    none_learned,
)
from attnaudit.report.charts.studies import draw_study
from attnaudit.report.page import card_section, figures_section, write_page
from attnaudit.report.sections.numbers import SummaryTable, meanings, numbers_section, summary_cell
from attnaudit.report.sections.provenance import provenance_sections
from attnaudit.results import read_table
from attnaudit.results.about import About
from attnaudit.results.record import read_summary
from attnaudit.results.summary import SummaryRows


def write_copying(folder: Path, page: Path | None = None) -> Path:
    """Write the page of the copying study in ``folder``, by default its ``report.html``, and return its path. Raises RunError."""
    spec, summary = read_with_digest(folder / "spec.json"), read_summary(folder / "summary.json")
    curves, final, attention = (
        read_table(folder / "results" / f"{name}.parquet").collect()
        for name in (NAME, "seeds", "attention")
    )
    card = copying_card(summary, spec["study"])
    sections = [
        card_section(card),
        figures_section(
            [
                draw_study(figure)
                for figure in figures(curves, final, attention, _study(spec["study"]))
            ]
        ),
        numbers_section([_table(summary)], SPREAD),
        *provenance_sections(About.of(spec), [Copying.paper.bibtex]),
    ]
    subtitle, title = f"{card.title}, {card.subtitle}", f"{QUESTION}: {card.title}"
    return write_page(page or folder / "report.html", sections, QUESTION, subtitle, title=title)


def copying_card(summary: pl.DataFrame, study: Mapping[str, Any]) -> VerdictCard:
    """Whether copying is learned, and what first."""
    settings, found = _study(study), SummaryRows.of(summary)
    rows, notice = card_rows(found, settings), none_learned(found)
    notices = (notice,) if notice else ()
    return VerdictCard(
        *headings(settings),
        tuple(without_conclusions(rows) if notice else rows),
        notices,
        model="a model trained to copy",
    )


def _study(recorded: Mapping[str, Any]) -> Copying:
    """Return the study of a ``spec.json``."""
    return Copying(**{key: value for key, value in recorded.items() if key != "name"})


def _table(summary: pl.DataFrame) -> SummaryTable:
    measures: list[str] = summary["measure"].unique(maintain_order=True).to_list()
    groups: list[str] = summary["group"].unique(maintain_order=True).to_list()
    cells = {
        (row["measure"], row["group"]): summary_cell(row) for row in summary.iter_rows(named=True)
    }
    rows = tuple(
        (name, measure_label(name), tuple(cells.get((name, group)) for group in groups))
        for name in measures
    )
    explained = meanings(NAME, {name: label for name, label, _ in rows})
    return SummaryTable(NAME, tuple(GROUPS.get(group, group) for group in groups), rows, explained)
