"""What a reproduction ends in: one page and one table that answer whether the published numbers came out again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from attnaudit.core.files import atomic, write_text
from attnaudit.published.reference import published_corpus
from attnaudit.report.citations import corpus_title
from attnaudit.report.page import Section, write_page
from attnaudit.report.reproduction.encoders import contrast_sentence, contrasts
from attnaudit.report.reproduction.extent import NotRun, coverage, extent_sentence, interval_sentence, left_out
from attnaudit.report.reproduction.figures import agreement_figures
from attnaudit.report.reproduction.markdown import as_markdown
from attnaudit.report.reproduction.numbers import Model, all_numbers, corpora, corpus_key, score_measure
from attnaudit.report.reproduction.verdict import DEGREES, INTERVAL_RULE, ONCE, SYMBOLS, tallies, verdict_sentences
from attnaudit.report.reproduction.view import NumberTable, further_tables, main_table
from attnaudit.report.sections.comparison import VECTORS_DIFFER
from attnaudit.results.about import About
from attnaudit.results.record import RunRecord

__all__ = ["NotRun", "Reproduction", "write_reproduction"]


@dataclass(frozen=True)
class Reproduction:
    """What a sweep found.

    ``table`` is `over_seeds` of the runs whose cells were published, ``runs`` are all finished runs, ``pages`` maps their names to
    relative links, ``corpus_notes`` tells what differs in a corpus (by its name, or by its published name), ``notes`` what else is to be
    known of the runs.
    """

    table: pl.DataFrame
    runs: tuple[RunRecord, ...]
    pages: Mapping[str, str]
    corpus_notes: Mapping[str, tuple[str, ...]]
    not_run: tuple[NotRun, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class CorpusSection:
    """One corpus: its tables, what differs, and for each model its (seed, link to the page or nothing)."""

    anchor: str
    title: str
    published: bool
    notes: tuple[str, ...]
    table: NumberTable
    further: tuple[NumberTable, ...]
    seeds: Mapping[Model, tuple[tuple[str, str], ...]]


def write_reproduction(found: Reproduction, folder: Path) -> Path:
    """Write ``index.html``, ``reproduction.csv`` and ``reproduction.md`` into ``folder`` and return the page.

    Raises RunError when the place cannot be written.
    """
    content, page = _content(found), folder / "index.html"
    with atomic(folder / "reproduction.csv") as temporary:
        found.table.write_csv(temporary)
    write_text(folder / "reproduction.md", as_markdown(content))
    links = [("Verdict", "#verdict"), ("What was run", "#extent")]
    links += [("Figures", "#figures")] if content["figures"] else []
    links += [("Average and BiLSTM", "#encoders")] if content["contrasts"] else []
    links += [(section.title, f"#{section.anchor}") for section in content["sections"]]
    return write_page(
        page, [Section("reproduction", content, tuple(links))], "Did “Attention is not Explanation” reproduce?",
        "The published numbers of Jain & Wallace 2019 compared with ours", title="Reproduction of Jain & Wallace 2019",
        styles=("report.css", "reproduction.css"),
    )  # fmt: skip


def _content(found: Reproduction) -> dict[str, Any]:
    """What the page and the Markdown show."""
    numbers = all_numbers(found.table, found.runs)
    abouts = {corpus_key(run.about.corpus): run.about for run in reversed(found.runs)}
    titles = {name: corpus_title(abouts[name]) if name in abouts else name for name in corpora(numbers)}
    has_question = {name: name in abouts and abouts[name].has_question for name in titles}
    scores = {name: score_measure(numbers.filter(corpus=name), has_question[name]) for name in titles}
    return {
        "verdict": verdict_sentences(found.table),
        "tallies": tallies(found.table),
        "degrees": [(degree, SYMBOLS[degree], head) for _, degree, head in DEGREES],
        "extent": extent_sentence(found.runs, numbers),
        "coverage": coverage(numbers, found.runs, titles),
        "left_out": left_out(found.not_run, titles | _titles(one.corpus for one in found.not_run if corpus_key(one.corpus) not in titles)),
        "intervals": interval_sentence(numbers),
        "figures": agreement_figures(numbers, titles, scores),
        "sections": [_section(found, numbers, name, titles[name], has_question[name], k) for k, name in enumerate(titles)],
        "titles": titles,
        "contrasts": contrasts(found.table),
        "contrast_sentence": contrast_sentence(contrasts(found.table)),
        "vectors_differ": VECTORS_DIFFER,
        "interval_rule": INTERVAL_RULE,
        "once": (SYMBOLS["once"], ONCE),
        "notes": [_sentence(note) for note in found.notes],
    }


def _titles(names: Iterable[str]) -> dict[str, str]:
    return {corpus_key(name): corpus_title(About(corpus=name)) for name in names}


def _section(found: Reproduction, numbers: pl.DataFrame, name: str, title: str, has_question: bool, k: int) -> CorpusSection:
    part = numbers.filter(corpus=name)
    main = main_table(part, title, has_question)
    told = [note for corpus, notes in found.corpus_notes.items() if corpus_key(corpus) == name for note in notes]
    told += part.filter(pl.col("note") != "")["note"].unique(maintain_order=True).to_list()
    notes = tuple(_sentence(note) for note in dict.fromkeys(told))
    return CorpusSection(
        anchor=f"corpus-{k + 1}", title=title, published=published_corpus(name) is not None, notes=notes, table=main,
        further=tuple(further_tables(part, main.columns)), seeds=_seeds(found, name),
    )  # fmt: skip


def _sentence(note: str) -> str:
    return f"{note[:1].upper()}{note[1:].rstrip('.')}."


def _seeds(found: Reproduction, corpus: str) -> dict[Model, tuple[tuple[str, str], ...]]:
    """The runs of each model of a corpus: (seed as text, link)."""
    seeds: dict[Model, tuple[tuple[str, str], ...]] = {}
    runs = [run for run in found.runs if corpus_key(run.about.corpus) == corpus]
    for run in sorted(runs, key=lambda run: (run.about.seed is None, run.about.seed, run.name)):
        model = (run.about.encoder, run.about.attention)
        shown = run.name if run.about.seed is None else str(run.about.seed)
        seeds[model] = (*seeds.get(model, ()), (shown, found.pages.get(run.name, "")))
    return seeds
