"""The page of the copying study: the card, curves of every seed, what is learned first."""

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
from attnaudit.report.page import card_section, figures_section, write_page
from attnaudit.report.sections.numbers import numbers_section, table_of
from attnaudit.report.sections.provenance import provenance_sections
from attnaudit.results import read_table
from attnaudit.results.about import About
from attnaudit.results.record import read_summary
from attnaudit.results.summary import SummaryRows


def write_copying(folder: Path, page: Path | None = None) -> Path:
    """Write the page of the copying study and return it.

    Args:
        folder: Folder of the study.
        page: Where to write it instead of ``report.html``.

    Raises:
        RunError: A file of the folder is damaged.
    """
    spec, summary = read_with_digest(folder / "spec.json"), read_summary(folder / "summary.json")
    curves, final, attention = (
        read_table(folder / "results" / f"{name}.parquet").collect()
        for name in (NAME, "seeds", "attention")
    )
    card = copying_card(summary, spec["study"])
    table = table_of(NAME, summary, NAME, measure_label, lambda group: GROUPS.get(group, group))
    return write_page(
        page or folder / "report.html",
        [
            card_section(card),
            figures_section(list(figures(curves, final, attention, _study(spec["study"])))),
            numbers_section([table], SPREAD),
            *provenance_sections(About.of(spec), [Copying.paper.bibtex]),
        ],
        QUESTION,
        f"{card.title}, {card.subtitle}",
        title=f"{QUESTION}: {card.title}",
    )


def copying_card(summary: pl.DataFrame, study: Mapping[str, Any]) -> VerdictCard:
    """Say whether copying is learned, and what first."""
    settings, found = _study(study), SummaryRows.of(summary)
    rows, notice = card_rows(found, settings), none_learned(found)
    return VerdictCard(
        *headings(settings),
        tuple(without_conclusions(rows) if notice else rows),
        (notice,) if notice else (),
        model="a model trained to copy",
    )


def _study(recorded: Mapping[str, Any]) -> Copying:
    """Return the study of a ``spec.json``."""
    return Copying(**{key: value for key, value in recorded.items() if key != "name"})
