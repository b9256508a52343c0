"""The page of a study, and the page that joins all studies of one model and corpus."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from attnaudit.core.files import read_json
from attnaudit.core.papers import PRUTHI2020, SNELL2020, WIEGREFFE2019
from attnaudit.report.card import Card, verdict
from attnaudit.report.citations import corpus_title
from attnaudit.report.figures.studies import FIGURES
from attnaudit.report.page import card_section, figures_section, write_page
from attnaudit.report.sections.growth import growth_section
from attnaudit.report.sections.numbers import numbers_section
from attnaudit.report.sections.provenance import provenance_sections
from attnaudit.report.words.study_numbers import seeds_of_models, study_tables
from attnaudit.report.words.study_rows import QUESTIONS
from attnaudit.results.about import About
from attnaudit.results.card import SummaryRows
from attnaudit.results.record import read_summary

PAPERS = {**dict.fromkeys(("uniform", "seeds", "guide", "adversary"), WIEGREFFE2019), "deceive": PRUTHI2020, "dynamics": SNELL2020}
QUESTION = {
    "uniform": "Is attention needed?", "seeds": "Is attention stable?", "guide": "Does attention transfer?",
    "adversary": "Can attention be moved?", "deceive": "Can attention deceive?",
    "dynamics": "What is attention learned from?",
}  # fmt: skip
STUDIES_HEADING = "Retraining studies of attention"
_BEST_AND_LAST = (
    "Finished models have the weights of their best epoch on dev and are measured on all of test; numbers of a step are of the probe, with "
    "the weights of that step, so that the last step need not equal the finished models."
)


def write_study(folder: Path, metadata: Mapping[str, Any], notes: Sequence[str] = (), page: Path | None = None) -> Path:
    """Write the page of the study in ``folder``, by default its ``report.html``, and return its path. Raises RunError.

    ``metadata`` is that of its base's trace; ``notes`` on the trainings are below the figure.
    """
    spec, summary = read_json(folder / "spec.json"), read_summary(folder / "summary.json")
    name = spec["study"]["name"]
    about = About.of(spec, metadata)
    table = pl.read_parquet(folder / "results" / f"{name}.parquet")
    figures = [draw(table, summary) for draw in FIGURES[name]]
    figures[0] = replace(figures[0], caption=" ".join([figures[0].caption, *notes]))
    card = study_card(summary, about)
    sections = [
        card_section(card),
        figures_section(figures),
        growth_section(table),
        numbers_section(study_tables(name, summary), _spread(name, table)),
        *provenance_sections(about, [PAPERS[name].bibtex]),
    ]
    heading, subtitle = QUESTION[name], f"{card.title}, {card.subtitle}"
    links = [("All studies", "../index.html")]
    return write_page(page or folder / "report.html", sections, heading, subtitle, title=f"{heading} {card.title}", links=links)


def write_studies(out: Path, metadata: Mapping[str, Any]) -> Path:
    """Write ``index.html`` over all studies in ``out``: one card of what each shows, and links to their pages.

    Where the base model was audited, in ``out/audit``, its verdict comes first, with what the studies add to it.
    """
    found = [name for name in QUESTION if (out / name / "summary.json").exists()]
    audited = ["audit"] if (out / "audit" / "summary.json").exists() else []
    summary = pl.concat([read_summary(out / name / "summary.json") for name in (*audited, *found)])
    about = About.of(read_json(out / found[0] / "spec.json"), metadata)
    card = study_card(summary, about)
    card = replace(card, rows=(*verdict(summary, about).rows, *card.rows))
    missing = [(QUESTION[name], f"run attnaudit study {name}") for name in QUESTION if name not in found]
    bibtex = [paper.bibtex for paper in dict.fromkeys(PAPERS[name] for name in found)]
    links = [("The audit of the base model", f"{name}/report.html") for name in audited]
    links += [(QUESTION[name], f"{name}/report.html") for name in found]
    sections = [card_section(card, missing), *provenance_sections(about, bibtex, missing)]
    title = f"{STUDIES_HEADING}: {card.title}"
    return write_page(out / "index.html", sections, STUDIES_HEADING, f"{card.title}, {card.subtitle}", title=title, links=links)


def study_card(summary: pl.DataFrame, about: About) -> Card:
    """What studies show, a row each."""
    figures = SummaryRows.of(summary)
    rows = tuple(row for question in QUESTIONS for row in question(figures, about))
    return Card(f"{_models(about)} on {corpus_title(about)}", "retrained; brackets: 95 % bootstrap interval", rows)


def _models(about: About) -> str:
    """The model under study, or the study's own models."""
    own = about.spec.get("study", {}).get("models")
    return f"the study's own models ({', '.join(own)})" if own else f"{about.encoder} + {about.attention}"


def _spread(name: str, table: pl.DataFrame) -> str:
    """What is averaged and drawn in a study's numbers."""
    if name == "seeds":
        return "Means over instances, with 95 % bootstrap intervals over instances; s.d. is the spread over instances."
    least, most = seeds_of_models(table)
    ends = f" {_BEST_AND_LAST}" if name == "dynamics" else ""
    if most == 1:
        alone = "Means over instances, with 95 % bootstrap intervals over instances alone: one seed does not show what another would give."
        return f"{alone}{ends}"
    alone = "" if least > 1 else ", of a model with one seed instances alone"
    return f"Means over seeds and instances, with 95 % bootstrap intervals that draw both{alone}; s.d. is the spread over seeds.{ends}"
