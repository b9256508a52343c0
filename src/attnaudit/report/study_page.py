"""The page of a study, and the page that joins all studies of one model and corpus."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from attnaudit.core.files import read_with_digest
from attnaudit.report.card import VerdictCard, verdict
from attnaudit.report.cards.card import CardRow, of_enough, without_conclusions
from attnaudit.report.cards.skill import no_skill
from attnaudit.report.cards.studies import STUDY_CARDS
from attnaudit.report.charts.studies import draw_study
from attnaudit.report.page import card_section, figures_section, write_page
from attnaudit.report.sections.growth import growth_section
from attnaudit.report.sections.numbers import (
    SummaryTable,
    group_label,
    meanings,
    numbers_section,
    summary_cell,
    table_of,
)
from attnaudit.report.sections.provenance import corpus_title, provenance_sections
from attnaudit.results import read_table
from attnaudit.results.about import About
from attnaudit.results.measures import BASE, OF_BASE, label_of
from attnaudit.results.record import read_summary
from attnaudit.results.summary import SummaryRows
from attnaudit.studies import EVERY_STUDY, known_measures
from attnaudit.studies.over_seeds import figure_and_model, model_label, seeds_of_models

STUDIES_HEADING = "Retraining studies of attention"
_BEST_AND_LAST = (
    "Finished models have the weights of their best epoch on dev and are measured on all of test; numbers of a step are of the probe, with "
    "the weights of that step, so that the last step need not equal the finished models."
)


def write_study(
    folder: Path, metadata: Mapping[str, Any], notes: Sequence[str] = (), page: Path | None = None
) -> Path:
    """Write a study's ``report.html``, or ``page``; ``metadata`` is its base's trace's, ``notes`` go below the figure. Raises RunError."""
    spec, summary = read_with_digest(folder / "spec.json"), read_summary(folder / "summary.json")
    name = spec["study"]["name"]
    study = EVERY_STUDY[name]
    about = About.of(spec, metadata)
    table = read_table(folder / "results" / f"{name}.parquet").collect()
    figures = [draw_study(figure) for figure in STUDY_CARDS[name].figures(table, summary)]
    figures[0] = replace(figures[0], caption=" ".join([figures[0].caption, *notes]))
    card = study_card(summary, about)
    sections = [
        card_section(card),
        figures_section(figures),
        growth_section(table),
        numbers_section(study_tables(name, summary), _spread(name, table)),
        *provenance_sections(about, [study.paper.bibtex]),
    ]
    heading, subtitle = study.question, f"{card.title}, {card.subtitle}"
    links = [("All studies", "../index.html")]
    return write_page(
        page or folder / "report.html",
        sections,
        heading,
        subtitle,
        title=f"{heading} {card.title}",
        links=links,
    )


def write_studies(
    out: Path, metadata: Mapping[str, Any], names: Collection[str] = tuple(EVERY_STUDY)
) -> Path:
    """Write ``index.html`` over all studies in ``out``: one card of what each shows, links to their pages, which of ``names`` are missing.

    Where the base model was audited, in ``out/audit``, its verdict comes first, with what the studies add to it: nothing, where it is not
    shown to have learned anything.
    """
    found = [name for name in EVERY_STUDY if (out / name / "summary.json").exists()]
    audited = ["audit"] if (out / "audit" / "summary.json").exists() else []
    summary = pl.concat([read_summary(out / name / "summary.json") for name in (*audited, *found)])
    about = About.of(read_with_digest(out / found[0] / "spec.json"), metadata)
    card = study_card(summary, about)
    audit = verdict(summary, about)
    studied = without_conclusions(card.rows) if audit.notices else card.rows
    rows, notices = (*audit.rows, *studied), audit.notices or card.notices
    card = replace(
        audit,
        title=card.title,
        subtitle=card.subtitle,
        rows=rows,
        notices=notices,
        of_studies=not audited,
    )
    missing = [
        (study.question, f"run attnaudit study {name}")
        for name, study in EVERY_STUDY.items()
        if name in names and name not in found
    ]
    bibtex = [paper.bibtex for paper in dict.fromkeys(EVERY_STUDY[name].paper for name in found)]
    links = [("The audit of the base model", f"{name}/report.html") for name in audited]
    links += [(EVERY_STUDY[name].question, f"{name}/report.html") for name in found]
    sections = [card_section(card, missing), *provenance_sections(about, bibtex, missing)]
    title = f"{STUDIES_HEADING}: {card.title}"
    return write_page(
        out / "index.html",
        sections,
        STUDIES_HEADING,
        f"{card.title}, {card.subtitle}",
        title=title,
        links=links,
    )


def study_card(summary: pl.DataFrame, about: About) -> VerdictCard:
    """What studies show, a row each."""
    found = SummaryRows.of(summary)
    notices = {name: notice for name in EVERY_STUDY if (notice := no_skill(found, name, BASE))}
    rows: list[CardRow] = []
    for name in EVERY_STUDY:
        own = STUDY_CARDS[name].rows(found, about)
        rows += without_conclusions(own) if name in notices else of_enough(own, found)
    of_notice = {
        notice: [name for name in notices if notices[name] == notice] for notice in notices.values()
    }
    lines = tuple(
        f"{'Study' if len(names) == 1 else 'Studies'} {', '.join(names)}: {notice}"
        for notice, names in of_notice.items()
    )
    own = about.spec.get("study", {}).get("models")
    models = (
        f"the study's own models ({', '.join(own)})"
        if own
        else about.model or f"{about.encoder} + {about.attention}"
    )
    return VerdictCard(
        f"{models} on {corpus_title(about)}",
        "retrained; brackets: 95 % bootstrap interval",
        tuple(rows),
        lines,
        of_studies=True,
    )


def study_tables(name: str, summary: pl.DataFrame) -> list[SummaryTable]:
    """The whole summary of a study, laid out as the study states; every row of it is in one cell."""
    asked = pl.col("measure").is_in([measure.name for measure in OF_BASE])
    base = summary.filter(asked)
    tables = (
        [
            table_of(
                "the base models",
                base,
                lambda measure: label_of(OF_BASE, measure),
                group_label,
                name,
            )
        ]
        if base.height
        else []
    )
    return [*_own_tables(name, summary.filter(~asked)), *tables]


def _own_tables(name: str, summary: pl.DataFrame) -> list[SummaryTable]:
    study = EVERY_STUDY[name]
    if study.layout == "models":
        return _by_model(name, summary)
    caveats: Mapping[str, str] = getattr(study, "caveats", lambda summary: {})(summary)
    labels = {
        measure: label_of(study.measures, measure)
        for measure in summary["measure"].unique(maintain_order=True)
    }
    if study.layout == "steps":
        return _by_step(name, summary, labels, caveats)

    def group(name: str) -> str:
        return group_label(name).replace("max_alpha:", "largest weight ")

    return [table_of("medians over seeds", summary, labels.__getitem__, group, name)]


def _by_step(
    name: str, summary: pl.DataFrame, labels: Mapping[str, str], caveats: Mapping[str, str]
) -> list[SummaryTable]:
    """What is said of finished models; then a row for each step, a column for each measure, in three tables."""
    cells = {
        (row["group"], row["measure"]): summary_cell(row) for row in summary.iter_rows(named=True)
    }
    steps = [
        group for group in summary["group"].unique(maintain_order=True).to_list() if group != "all"
    ]
    finished = tuple(
        (one, labels[one] + caveats.get(one, ""), (cell,))
        for (group, one), cell in cells.items()
        if group == "all"
    )
    names = list(dict.fromkeys(one for group, one in cells if group != "all"))
    kinds = {
        "agreement": "agreement at each step",
        "tau": "Kendall's τ at each step",
        "": "accuracy, entropy and chance at each step",
    }
    by_kind = {
        kind: [
            one
            for one in names
            if (one.partition("_")[0] if one.partition("_")[0] in kinds else "") == kind
        ]
        for kind in kinds
    }
    tables = []
    for kind, title in kinds.items():
        columns = {
            measure: labels[measure].removeprefix("agreement, ").removeprefix("τ, ")
            for measure in by_kind[kind]
        }
        rows = tuple(
            (
                step,
                f"after {step.partition(':')[2]} steps",
                tuple(cells.get((step, one)) for one in columns),
            )
            for step in steps
        )
        tables.append(SummaryTable(title, tuple(columns.values()), rows, meanings(name, columns)))
    explained = meanings(name, {measure: label for measure, label, _ in finished})
    return [
        SummaryTable(
            "finished models, and the timing",
            ("all of test; timing on the probe",),
            finished,
            explained,
        ),
        *tables,
    ]


def _by_model(name: str, summary: pl.DataFrame) -> list[SummaryTable]:
    """A row for each model, and in a second table what is of no model."""
    known = known_measures(name)
    cells = {
        figure_and_model(row["measure"], known): summary_cell(row)
        for row in summary.iter_rows(named=True)
    }
    measured = {figure for figure, model in cells if model}
    figures = {one.name: one.label for one in known if one.name in measured}
    models = list(dict.fromkeys(model for _, model in cells if model))
    rows = tuple(
        (model, model_label(model), tuple(cells.get((figure, model)) for figure in figures))
        for model in models
    )
    table = SummaryTable(
        f"{name}: every model", tuple(figures.values()), rows, meanings(name, figures)
    )
    whole = tuple(
        (figure, label_of(known, figure), (cell,))
        for (figure, model), cell in cells.items()
        if not model
    )
    explained = meanings(name, {figure: label for figure, label, _ in whole})
    return (
        [table, SummaryTable("robustness", ("of what there could be",), whole, explained)]
        if whole
        else [table]
    )


def _spread(name: str, table: pl.DataFrame) -> str:
    """What is averaged and drawn in a study's numbers."""
    layout = EVERY_STUDY[name].layout
    if layout == "groups":
        alone = "Means over instances, with 95 % bootstrap intervals over instances; s.d. is the spread over instances."
        return f"{alone} Numbers of the base models are means over seeds and instances, with the spread over seeds."
    least, most = seeds_of_models(table)
    ends = f" {_BEST_AND_LAST}" if layout == "steps" else ""
    if most == 1:
        alone = "Means over instances, with 95 % bootstrap intervals over instances alone: one seed does not show what another would give."
        return f"{alone}{ends}"
    alone = "" if least > 1 else " (for a model with one seed, instances alone)"
    return f"Means over seeds and instances, with 95 % bootstrap intervals that resample both{alone}; s.d. is the spread over seeds.{ends}"
