"""The pages of a study, of all studies of one model and corpus, and of the copying study."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from attnaudit.copying.measures import MEASURES
from attnaudit.copying.study import NAME, Copying
from attnaudit.core import read_with_digest
from attnaudit.report.card import VerdictCard, verdict
from attnaudit.report.cards import copying
from attnaudit.report.cards.card import CardRow, of_enough, without_conclusions
from attnaudit.report.cards.skill import no_skill
from attnaudit.report.cards.studies import STUDY_CARDS
from attnaudit.report.meanings import measure_meaning
from attnaudit.report.models import figure_and_model, model_label, seeds_of_models
from attnaudit.report.page import Section, card_section, figures_section, write_page
from attnaudit.report.sections.numbers import (
    Number,
    group_label,
    numbers_section,
    summary_cell,
)
from attnaudit.report.sections.provenance import corpus_title, provenance_sections
from attnaudit.report.words import with_interval
from attnaudit.results import About, SummaryRows, measure_of, read_summary, read_table
from attnaudit.results.measures import BASE, OF_BASE
from attnaudit.studies import EVERY_STUDY, Study, known_measures
from attnaudit.studies.dynamics.measures import STEP

BASE_MODELS = "the base models"
STUDIES_HEADING = "Retraining studies of attention"


def write_study(
    folder: Path, metadata: Mapping[str, Any], notes: Sequence[str] = (), page: Path | None = None
) -> Path:
    """Write the page of a study.

    Args:
        folder: Folder of the study.
        metadata: Metadata of its base's trace.
        notes: Sentences below the first figure.
        page: Where to write it instead of ``report.html``.

    Raises:
        RunError: A file of the folder is damaged.
    """
    spec, summary = read_with_digest(folder / "spec.json"), read_summary(folder / "summary.json")
    name = spec["study"]["name"]
    study, about = EVERY_STUDY[name], About.of(spec, metadata)
    table = read_table(folder / "results" / f"{name}.parquet").collect()
    first, *others = STUDY_CARDS[name].figures(table, summary)
    first = replace(first, caption=" ".join([first.caption, *notes]))
    card, labels = study_card(summary, about), [one.label for one in known_measures(name)]
    return write_page(
        page or folder / "report.html",
        [
            card_section(card),
            hypotheses_section(study, summary),
            figures_section([first, *others]),
            numbers_section(study_numbers(name, summary), _spread(name, table), labels),
            *provenance_sections(about, [study.paper.bibtex]),
        ],
        study.question,
        f"{card.title}, {card.subtitle}",
        title=f"{study.question} {card.title}",
        links=[("All studies", "../index.html")],
    )


def write_studies(
    out: Path, metadata: Mapping[str, Any], names: Collection[str] = tuple(EVERY_STUDY)
) -> Path:
    """Write ``index.html`` over all studies of a folder: one card, and links to their pages.

    If the base model was audited, in ``out/audit``, its verdict comes first, with what the studies
    add to it. They add nothing to a model that is not shown to have learned anything.

    Args:
        out: The folder.
        metadata: Metadata of the base's trace.
        names: Studies that there may be.
    """
    done = {name: (out / name / "summary.json").exists() for name in ("audit", *EVERY_STUDY)}
    pages = [name for name, is_done in done.items() if is_done]
    studies = {name: EVERY_STUDY[name] for name in pages if name != "audit"}
    summary = pl.concat([read_summary(out / name / "summary.json") for name in pages])
    about = About.of(read_with_digest(out / next(iter(studies)) / "spec.json"), metadata)
    card, audit = study_card(summary, about), verdict(summary, about)
    card = replace(
        audit,
        title=card.title,
        subtitle=card.subtitle,
        rows=(*audit.rows, *(without_conclusions(card.rows) if audit.notices else card.rows)),
        verdict=audit.verdict if done["audit"] else None,
        notices=audit.notices or card.notices,
    )
    missing = [
        (study.question, f"run attnaudit study {name}")
        for name, study in EVERY_STUDY.items()
        if name in names and not done[name]
    ]
    bibtex = list(dict.fromkeys(study.paper.bibtex for study in studies.values()))
    questions = {name: study.question for name, study in studies.items()}
    titles = {"audit": "The audit of the base model", **questions}
    return write_page(
        out / "index.html",
        [card_section(card, missing), *provenance_sections(about, bibtex, missing)],
        STUDIES_HEADING,
        f"{card.title}, {card.subtitle}",
        title=f"{STUDIES_HEADING}: {card.title}",
        links=[(titles[name], f"{name}/report.html") for name in pages],
    )


def study_card(summary: pl.DataFrame, about: About) -> VerdictCard:
    """Make the card of studies of one base, with a row for what each shows."""
    found, rows = SummaryRows.of(summary), list[CardRow]()
    notices: dict[str, list[str]] = {}
    for name, card in STUDY_CARDS.items():
        own = card.rows(found, about)
        if notice := no_skill(found, name, BASE):
            notices.setdefault(notice, []).append(name)
        rows += without_conclusions(own) if notice else of_enough(own, found)
    own_models = about.spec.get("study", {}).get("models")
    models = about.model or f"{about.encoder} + {about.attention}"
    if own_models:
        models = f"the study's own models ({', '.join(own_models)})"
    return VerdictCard(
        f"{models} on {corpus_title(about)}",
        "retrained; brackets: 95 % interval",
        tuple(rows),
        notices=tuple(
            f"{'Study' if len(names) == 1 else 'Studies'} {', '.join(names)}: {notice}"
            for notice, names in notices.items()
        ),
    )


def hypotheses_section(study: type[Study], summary: pl.DataFrame) -> Section | None:
    """Say what became of the claims that a study stated before; None without any.

    A study whose base models are not shown to have learned anything decides none.
    """
    if not study.hypotheses:
        return None
    skilled = not no_skill(SummaryRows.of(summary), study.name, BASE)
    claims = []
    for one in study.hypotheses:
        rows = summary.filter(measure=one.measure, group="all").drop_nulls("value").to_dicts()
        outcome = one.outcome(summary) if skilled else "open"
        claims.append(
            {
                "claim": one.claim,
                "measure": one.measure,
                "found": with_interval(rows[0]) if rows else "not measured",
                "outcome": "not enough to tell" if outcome == "open" else outcome,
            }
        )
    content = {"claims": claims, "exclusions": " ".join(study.exclusions)}
    return Section("hypotheses", content, "Hypotheses")


def study_numbers(name: str, summary: pl.DataFrame) -> list[Number]:
    """Return every number of a study, those of the base models last."""
    known, numbers = known_measures(name), []
    for row in summary.to_dicts():
        figure, model = row["measure"], ""
        if EVERY_STUDY[name].layout == "models":
            figure, model = figure_and_model(figure, known)
        label = measure_of([*known, *OF_BASE], figure).label
        table, line, column = _place(name, row["group"], (figure, label), model)
        explained = line[1] if line[0] == figure else column
        meaning = explained, measure_meaning(figure, name)
        numbers.append(Number(table, line, column, summary_cell(row), meaning))
    return sorted(numbers, key=lambda one: one.table == BASE_MODELS)


def _place(
    name: str, group: str, measure: tuple[str, str], model: str
) -> tuple[str, tuple[str, str], str]:
    """Return the title of a row's table, the name and label of its line, and its column."""
    layout, (figure, label) = EVERY_STUDY[name].layout, measure
    if figure.startswith(BASE):
        return BASE_MODELS, measure, group_label(group)
    if layout == "groups":
        column = group_label(group).replace("max_alpha:", "largest weight ")
        return "medians over seeds", measure, column
    if model:
        return f"{name}: every model", (model, model_label(model)), label
    if layout == "models":
        if name == "adversary":
            return "robustness", measure, "of what there could be"
        return f"{name}: over the models", measure, "value"
    if group == "all":
        return "finished models, and the timing", measure, "all of test; timing on the probe"
    titles = {"agreement": "agreement at each step", "tau": "Kendall's τ at each step"}
    title = titles.get(figure.partition("_")[0], "accuracy, entropy and chance at each step")
    line = group, f"after {group.removeprefix(STEP)} steps"
    return title, line, label.removeprefix("agreement, ").removeprefix("τ, ")


def _spread(name: str, table: pl.DataFrame) -> str:
    """Say what is averaged and drawn in a study's numbers."""
    layout = EVERY_STUDY[name].layout
    if layout == "groups":
        return (
            "Means over texts, with 95 % bootstrap intervals over texts; s.d. is the "
            "spread over texts. Numbers of the base models are means over seeds and "
            "texts, with the spread over seeds."
        )
    least, most = seeds_of_models(table)
    some = "" if least > 1 else " (for a model with one seed, only texts)"
    text = (
        "Means over seeds and texts, with 95 % bootstrap intervals that resample both"
        f"{some}; s.d. is the spread over seeds."
    )
    if EVERY_STUDY[name].hypotheses:
        text = (
            f"Means over seeds and texts, with 95 % t intervals for both{some} (for slopes, "
            "over seeds only); s.d. is the spread over seeds. Intervals of the base models are "
            "bootstrapped."
        )
    elif most == 1:
        text = (
            "Means over texts, with 95 % bootstrap intervals only over texts: one seed "
            "does not show what another would give."
        )
    if layout == "steps":
        text += (
            " Finished models have the weights of their best epoch on dev and are measured on all "
            "of test; numbers of a step are of the probe, with the weights of that step, so that "
            "the last step need not equal the finished models."
        )
    return text


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
    numbers = [
        Number(
            NAME,
            (row["measure"], measure.label),
            row["group"],
            summary_cell(row),
            (measure.label, measure.meaning),
        )
        for row in summary.with_columns(pl.col("group").replace(copying.GROUPS)).to_dicts()
        for measure in [measure_of(MEASURES, row["measure"])]
    ]
    return write_page(
        page or folder / "report.html",
        [
            card_section(card),
            figures_section(list(copying.figures(curves, final, attention, _study(spec["study"])))),
            numbers_section(numbers, copying.SPREAD),
            *provenance_sections(About.of(spec), [Copying.paper.bibtex]),
        ],
        copying.QUESTION,
        f"{card.title}, {card.subtitle}",
        title=f"{copying.QUESTION}: {card.title}",
    )


def copying_card(summary: pl.DataFrame, study: Mapping[str, Any]) -> VerdictCard:
    """Say whether copying is learned, and what first."""
    settings, found = _study(study), SummaryRows.of(summary)
    rows, notice = copying.card_rows(found, settings), copying.none_learned(found)
    return VerdictCard(
        *copying.headings(settings),
        tuple(without_conclusions(rows) if notice else rows),
        notices=(notice,) if notice else (),
        model="a model trained to copy",
    )


def _study(recorded: Mapping[str, Any]) -> Copying:
    """Return the study of a ``spec.json``."""
    return Copying(**{key: value for key, value in recorded.items() if key != "name"})
