"""What a reproduction ends in: one page and one table that answer whether the published numbers came out again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from attnaudit.core.files import atomic, write_text
from attnaudit.core.numbers import count
from attnaudit.published import reproduction as counted
from attnaudit.published.compare import DEGREES
from attnaudit.published.reference import published_corpus
from attnaudit.published.reproduction import Contrast, Extent, Model, NotRun, Tally, corpus_key
from attnaudit.report.page import Section, write_page
from attnaudit.report.reproduction.figures import agreement_figures
from attnaudit.report.reproduction.tables import MARKS, as_markdown, further_tables, main_table
from attnaudit.report.sections.comparison import VECTORS_DIFFER
from attnaudit.report.sections.provenance import corpus_title
from attnaudit.report.words import percent
from attnaudit.results.about import About
from attnaudit.results.record import RunRecord

INTERVAL_RULE = (
    "Intervals over seeds are clipped to the range of the measure. One counts as containing a published value only where it is over "
    "three seeds or more (or over the instances of a single run) and no wider than half of that range."
)
_PAIRS = {"tau_gradient": "attention – gradient", "tau_loo": "attention – leave-one-out"}
_CONTRAST_WORDS = {
    "cell": "as theirs", "corpus": "same sign, less than half of theirs", "farther": "the other way round",
    "unknown": "their two runs disagree",
}  # fmt: skip


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


def write_reproduction(found: Reproduction, folder: Path) -> Path:
    """Write ``index.html``, ``reproduction.csv`` and ``reproduction.md`` into ``folder`` and return the page. Raises RunError."""
    content, page = _content(found), folder / "index.html"
    with atomic(folder / "reproduction.csv") as temporary:
        found.table.write_csv(temporary)
    write_text(folder / "reproduction.md", as_markdown(content))
    links = [("Verdict", "#verdict"), ("What was run", "#extent")]
    links += [("Figures", "#figures")] if content["figures"] else []
    links += [("Average and BiLSTM", "#encoders")] if content["contrasts"] else []
    links += [(section["title"], f"#{section['anchor']}") for section in content["sections"]]
    return write_page(
        page, [Section("reproduction", content, tuple(links))], "Did “Attention is not Explanation” reproduce?",
        "The published numbers of Jain & Wallace 2019 compared with ours", title="Reproduction of Jain & Wallace 2019",
        styles=("report.css", "reproduction.css"),
    )  # fmt: skip


def markdown(found: Reproduction) -> str:
    """The page without its figures, as Markdown."""
    return as_markdown(_content(found))


def _content(found: Reproduction) -> dict[str, Any]:
    """What the page and the Markdown show."""
    numbers = counted.all_numbers(found.table, found.runs)
    abouts = {corpus_key(run.about.corpus): run.about for run in reversed(found.runs)}
    titles = {
        name: corpus_title(abouts[name]) if name in abouts else name
        for name in counted.corpora(numbers)
    }
    has_question = {name: name in abouts and abouts[name].has_question for name in titles}
    others = (one.corpus for one in found.not_run if corpus_key(one.corpus) not in titles)
    all_titles = titles | {corpus_key(name): corpus_title(About(corpus=name)) for name in others}
    scores = {
        name: counted.score_measure(numbers.filter(corpus=name), has_question[name])
        for name in titles
    }
    return {
        "verdict": verdict_sentences(found.table),
        "tallies": counted.tallies(found.table),
        "degrees": [(degree, *MARKS[degree]) for degree in DEGREES.values()],
        "extent": extent_sentence(counted.extent_of(found.runs, numbers)),
        "models": counted.models(numbers),
        "coverage": counted.runs_by_model(numbers, found.runs, titles),
        "not_run": counted.not_run_by_reason(found.not_run, all_titles),
        "intervals": interval_sentence(numbers),
        "figures": agreement_figures(numbers, titles, scores),
        "sections": [
            _section(found, numbers, name, titles[name], has_question[name], k)
            for k, name in enumerate(titles)
        ],
        "titles": titles,
        "contrasts": counted.contrasts(found.table),
        "contrast_sentence": contrast_sentence(counted.contrasts(found.table)),
        "pairs": _PAIRS,
        "contrast_words": _CONTRAST_WORDS,
        "vectors_differ": VECTORS_DIFFER,
        "interval_rule": INTERVAL_RULE,
        "once": MARKS["once"],
        "notes": [_sentence(note) for note in found.notes],
    }


def _section(
    found: Reproduction, numbers: pl.DataFrame, name: str, title: str, has_question: bool, k: int
) -> dict[str, Any]:
    """One corpus: its tables, what differs, and for each model its (seed, link to the page or nothing)."""
    part = numbers.filter(corpus=name)
    main = main_table(part, title, has_question)
    notes = [
        note
        for corpus, notes in found.corpus_notes.items()
        if corpus_key(corpus) == name
        for note in notes
    ]
    notes += part.filter(pl.col("note") != "")["note"].unique(maintain_order=True).to_list()
    return {
        "anchor": f"corpus-{k + 1}", "title": title, "published": published_corpus(name) is not None, "table": main,
        "notes": [_sentence(note) for note in dict.fromkeys(notes)], "further": further_tables(part, main.columns),
        "seeds": _seeds(found, name),
    }  # fmt: skip


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


def verdict_sentences(table: pl.DataFrame) -> list[str]:
    """The verdict in words that claim no more than the counts do."""
    means, once = counted.main_means(table), counted.published_once(table)
    if not means.judged:
        return ["No published mean can be compared with a run: there is nothing to judge."]
    sentences = [_in_words(means)]
    few = counted.fewest_seeds_within_ours(table)
    if few is not None and 1 < few < 5:
        sentences.append(
            f"Intervals from {few} seeds are wide: that such an interval contains a published value says little."
        )
    if once:
        sentences.append(
            f"{count(once, 'further number')} {'was' if once == 1 else 'were'} published only once, so no spread is known: in the tables, "
            "not counted."
        )
    if means.counts[-1]:
        sentences.append(
            f"{count(means.counts[-1], 'published mean')} could not be measured in the runs that were made."
        )
    return sentences


def _in_words(tally: Tally) -> str:
    cell, corpus, ours, above, farther, _ = tally.counts
    parts = [
        f"{tally.between} ({percent(tally.between / tally.judged)}) lie between the two values",
        f"{cell - tally.between} more lie outside both, no farther than the two are apart: {cell} ({percent(cell / tally.judged)}) are "
        "within their spread by this rule",
        f"{corpus} more within the most that their two runs differ on the corpus" if corpus else "",
        f"for {ours} more a published value lies within our interval" if ours else "",
        f"{above} exceed what their search found" if above else "",
        f"{farther} ({percent(farther / tally.judged)}) lie farther off"
        if farther
        else "none lies farther off",
    ]
    means = f"{count(tally.judged, 'mean')} published from two runs of the authors (prediction score, Kendall τ, ε-max JSD)"
    return f"Of {means}, " + "; ".join(filter(None, parts)) + "."


def extent_sentence(extent: Extent) -> str:
    """What was run, in words."""
    if not extent.runs:
        return "Nothing was run."
    seeds = (
        f", seed{'s' if len(extent.seeds) > 1 else ''} {', '.join(map(str, extent.seeds))}"
        if extent.seeds
        else ""
    )
    beyond = (
        f" Of these corpora the paper lacks {extent.unpublished}." if extent.unpublished else ""
    )
    kinds = f"{extent.corpora} {'corpus' if extent.corpora == 1 else 'corpora'}, {count(extent.models, 'kind')} of model"
    return f"{count(extent.runs, 'run')} of {count(extent.cells, 'cell')} (corpus, encoder, attention): {kinds}{seeds}.{beyond}"


def interval_sentence(numbers: pl.DataFrame) -> str:
    """What the intervals of ours are over, which depends on the number of seeds of each model."""
    seeds = set(counted.seed_counts(numbers))
    alone = "intervals over instances, which say nothing about other seeds"
    several = "means over seeds with the 95 % t interval of that mean"
    if not seeds:
        return ""
    if seeds == {1}:
        return f"All our numbers are of one seed, with {alone}."
    shown = f"{min(seeds - {1})} to {max(seeds)}" if len(seeds - {1}) > 1 else str(max(seeds))
    if 1 not in seeds:
        return f"All our numbers are {several} ({shown} seeds)."
    return (
        f"Our numbers of several seeds ({shown}) are {several}; those of a single run have {alone}."
    )


def contrast_sentence(found: Sequence[Contrast]) -> str:
    """In how many cases the average encoder is higher, in theirs and in ours; empty where nothing can be compared."""
    if not found:
        return ""
    theirs, ours, half = counted.contrast_counts(found)
    return (
        f"In {theirs} of {len(found)} comparisons (corpus, attention, τ) both runs of the authors have a higher mean τ for the average "
        f"encoder than for the BiLSTM; ours have it in {ours} of these, in {half} by at least half of their difference."
    )
