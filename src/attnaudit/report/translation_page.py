"""The page of a translation run: how well it translates, where it attends, which words it knows."""

import json
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from attnaudit.core import expanded, read_with_digest, thousands
from attnaudit.core.papers import LUONG2015, SNELL2020
from attnaudit.report.cards.skill import no_skill_of_run
from attnaudit.report.page import Section, write_page
from attnaudit.report.sections.heatmaps import marks_words
from attnaudit.report.sections.numbers import numbers_section, summary_numbers
from attnaudit.report.sections.provenance import corpus_title, provenance_sections
from attnaudit.report.words import with_interval
from attnaudit.results import About, SummaryRows, read_summary, read_table
from attnaudit.trace import Trace

EXAMPLES = 8  # translations that are shown: the first of the test split
MATRICES = 4
# Source units of the sentences whose matrices are shown: neither trivial nor too wide for a page.
LENGTHS = (5, 16)
WORDS = 30  # lines of the dictionary
OWN = ("translation", "alignment")  # experiments whose numbers are this page's
_LEAD = (
    "BLEU by sacrebleu, with its bootstrap interval over pairs; accuracy and loss are of reference "
    "tokens, each predicted from the reference's earlier ones, and unknown is the share of them "
    "that the vocabulary lacks. Precision compares the largest score of a row with known "
    "alignments; its intervals resample whole pairs. Dictionary: of n pairs aligned in at least "
    "half of the target token's positions, the share among its n strongest (Wilson interval)."
)


class Cell(NamedTuple):
    """A source unit of a gold token: its weight, its relevance as share and as probability."""

    weight: float
    share: float
    probability: float
    aligned: bool


class Matrix(NamedTuple):
    """One sentence: its source units, and gold tokens with a cell for each of them."""

    title: str
    source: list[str]
    rows: list[tuple[str, list[Cell]]]


def write_translation(folder: str | Path, page: Path | None = None) -> Path:
    """Write the page of a translation run and return it.

    Args:
        folder: The run.
        page: Where to write it instead of ``translation.html``.

    Raises:
        RunError: A file of the folder is damaged.
        TraceError: The trace is.
    """
    folder = expanded(folder)
    spec, summary = read_with_digest(folder / "spec.json"), read_summary(folder / "summary.json")
    with (folder / "translations.jsonl").open(encoding="utf-8") as file:
        examples = [json.loads(line) for line in islice(file, EXAMPLES)]
    trace = Trace.read(folder / "trace") if (folder / "trace").exists() else None
    source = {"corpus": {"name": Path(spec["corpus"]["source"]).name}}
    about = About.of(spec, trace.metadata if trace else source)
    own = summary.filter(pl.col("experiment").is_in(OWN))
    bleu = SummaryRows.of(own).rows["translation", "bleu"]
    content = {"examples": examples, "notice": no_skill_of_run(SummaryRows.of(own))}
    return write_page(
        page or folder / "translation.html",
        [
            Section("translations", content, "Translations"),
            *(_of_alignment(trace, folder / "dictionary.parquet") if trace else ()),
            numbers_section(summary_numbers(own), _LEAD),
            *provenance_sections(about, [paper.bibtex for paper in (SNELL2020, LUONG2015)]),
        ],
        f"{about.attention} attention on {corpus_title(about)}: where does a translator attend?",
        f"BLEU {with_interval(bleu, 1)} on {thousands(bleu['n'])} test pairs.",
        links=[("The audit of its attention", "report.html")] if trace else (),
    )


def _of_alignment(trace: Trace, dictionary: Path) -> tuple[Section, ...]:
    """Show sentences as matrices, and the strongest pairs of the dictionary."""
    lengths = trace.alpha.lengths
    # The first sentences of a suitable length; of several heads the first.
    first_head = trace.array("head") == 0 if trace.has("head") else np.ones(len(trace), bool)
    fit = trace.instance[first_head & (lengths >= LENGTHS[0]) & (lengths <= LENGTHS[1])]
    chosen = list(dict.fromkeys((fit if len(fit) else trace.instance).tolist()))[:MATRICES]
    matrices = [
        _matrix(trace.take(np.flatnonzero(first_head & (trace.instance == instance))), instance)
        for instance in chosen
    ]
    words = read_table(dictionary).head(WORDS).collect().to_dicts() if dictionary.exists() else []
    content = {
        "known": trace.has("rationale"),
        "pieces": any(marks_words(matrix.source) for matrix in matrices),
        "matrices": matrices,
        "dictionary": words,
    }
    return (
        Section("matrices", content, links=(("Attention and relevance", "#alignment"),)),
        Section("dictionary", content, "Dictionary"),
    )


def _matrix(part: Trace, instance: int) -> Matrix:
    rows, scores = [], part.ragged("importance_relevance")
    known = part.table["rationale"].to_list() if part.has("rationale") else [None] * len(part)
    gold = part.table["gold"]
    for token, alpha, relevance, marks in zip(gold, part.alpha, scores, known, strict=True):
        # The largest is subtracted first: all probabilities of a row may be 0 as floats.
        raised = np.exp(relevance - relevance.max())
        aligned = marks or [False] * len(alpha)
        cells = map(Cell, alpha, raised / raised.sum(), np.exp(relevance), aligned)
        rows.append((token, list(cells)))
    return Matrix(f"Pair {instance}", part.tokens(0), rows)
