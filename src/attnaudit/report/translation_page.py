"""The page of a translation run: how well it translates, where it attends for each token, and which translations of words it learned."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from jaxtyping import Float

from attnaudit.core.files import read_with_digest
from attnaudit.core.numbers import thousands
from attnaudit.core.papers import LUONG2015, SNELL2020
from attnaudit.report.cards.skill import no_skill_of_run
from attnaudit.report.page import Section, write_page
from attnaudit.report.sections.heatmaps import marks_words
from attnaudit.report.sections.numbers import numbers_section, summary_tables
from attnaudit.report.sections.provenance import corpus_title, provenance_sections
from attnaudit.report.words import figure
from attnaudit.results import read_table
from attnaudit.results.about import About
from attnaudit.results.record import read_summary
from attnaudit.results.summary import SummaryRows
from attnaudit.trace import Trace

EXAMPLES = 8  # translations that are shown: the first of the test split
MATRICES = 4
LENGTHS = (
    5,
    16,
)  # source units of the sentences whose matrices are shown: neither trivial nor too wide for a page
WORDS = 30  # lines of the dictionary
OWN = ("translation", "alignment")  # experiments whose numbers are this page's
_LEAD = (
    "BLEU by sacrebleu, with its bootstrap interval over pairs; accuracy and loss are of reference tokens, each predicted from the "
    "reference's earlier ones, and unknown is the share of them that the vocabulary lacks. Precision compares the largest score of a row "
    "with known alignments; its intervals resample whole pairs. Dictionary: of n pairs aligned in at least half of the target token's "
    "positions, the share among its n strongest (Wilson interval)."
)


class Cell(NamedTuple):
    """``shade`` is from 0 to 1, ``value`` its weight or probability."""

    shade: float
    value: float
    aligned: bool


@dataclass(frozen=True)
class Matrix:
    """One sentence: rows are (gold token, its `Cell` for every source unit), for each of the two scores."""

    title: str
    source: list[str]
    attention: list[tuple[str, list[Cell]]]
    relevance: list[tuple[str, list[Cell]]]


def write_translation(folder: str | Path, page: Path | None = None) -> Path:
    """Write the page of a translation run, by default its ``translation.html``, and return its path. Raises RunError and TraceError."""
    folder = Path(folder)
    spec, summary = read_with_digest(folder / "spec.json"), read_summary(folder / "summary.json")
    with (folder / "translations.jsonl").open(encoding="utf-8") as file:
        examples = [json.loads(line) for line in islice(file, EXAMPLES)]
    trace = Trace.read(folder / "trace") if (folder / "trace").exists() else None
    about = About.of(
        spec, trace.metadata if trace else {"corpus": {"name": Path(spec["corpus"]["source"]).name}}
    )
    own = summary.filter(pl.col("experiment").is_in(OWN))
    bleu = own.row(
        by_predicate=(pl.col("experiment") == "translation") & (pl.col("measure") == "bleu"),
        named=True,
    )
    low, high = (figure(bleu[name], 1) for name in ("low", "high"))
    sections = [
        Section(
            "translations",
            {"examples": examples, "notice": no_skill_of_run(SummaryRows.of(own))},
            (("Translations", "#translations"),),
        ),
        *(_of_alignment(trace, folder / "dictionary.parquet") if trace else ()),
        numbers_section(summary_tables(own), _LEAD),
        *provenance_sections(about, [paper.bibtex for paper in (SNELL2020, LUONG2015)]),
    ]
    heading = (
        f"{about.attention} attention on {corpus_title(about)}: where does a translator attend?"
    )
    return write_page(
        page or folder / "translation.html", sections, heading,
        f"BLEU {figure(bleu['value'], 1)} ({low} to {high}) on {thousands(bleu['n'])} test pairs.",
        links=[("The audit of its attention", "report.html")] if trace else (),
    )  # fmt: skip


def _of_alignment(trace: Trace, dictionary: Path) -> tuple[Section, ...]:
    """Sentences as matrices, and the strongest pairs of the dictionary."""
    matrices = sentence_matrices(trace)
    shared = {
        "known": trace.has("rationale"),
        "pieces": any(marks_words(matrix.source) for matrix in matrices),
    }
    words = read_table(dictionary).head(WORDS).collect().to_dicts() if dictionary.exists() else []
    return (
        Section(
            "matrices",
            {"matrices": matrices, **shared},
            (("Attention and relevance", "#alignment"),),
        ),
        Section("dictionary", {"dictionary": words, **shared}, (("Dictionary", "#dictionary"),)),
    )


def sentence_matrices(trace: Trace) -> list[Matrix]:
    """The first sentences of a suitable length; of several heads the first."""
    lengths = trace.alpha.lengths
    first_head = trace.array("head") == 0 if trace.has("head") else np.ones(len(trace), bool)
    fit = trace.instance[first_head & (lengths >= LENGTHS[0]) & (lengths <= LENGTHS[1])]
    chosen = list(dict.fromkeys((fit if len(fit) else trace.instance).tolist()))[:MATRICES]
    return [
        _matrix(trace, np.flatnonzero(first_head & (trace.instance == instance)), instance)
        for instance in chosen
    ]


def _matrix(trace: Trace, rows: np.ndarray, instance: int) -> Matrix:
    part = trace.take(rows)
    gold: list[str] = part.table["gold"].to_list()
    marks: list[Any] = (
        part.table["rationale"].to_list() if part.has("rationale") else [None] * len(part)
    )

    def cells(shades: list[np.ndarray], values: list[np.ndarray]) -> list[tuple[str, list[Cell]]]:
        return [
            (
                token,
                [
                    Cell(round(float(w), 4), float(v), k)
                    for w, v, k in zip(shade, value, known or [False] * len(value), strict=True)
                ],
            )
            for token, shade, value, known in zip(gold, shades, values, marks, strict=True)
        ]

    alpha, relevance = list(part.alpha), list(part.ragged("importance_relevance"))
    probability = [np.exp(row) for row in relevance]
    return Matrix(
        f"Pair {instance}",
        part.tokens(0),
        cells(alpha, alpha),
        cells([share(row) for row in relevance], probability),
    )


def share(relevance: Float[np.ndarray, " S"]) -> Float[np.ndarray, " S"]:
    """Probabilities of which these are the logarithms, scaled to sum to 1: the sentence as a whole no longer counts."""
    raised = np.exp(relevance - relevance.max())
    return raised / raised.sum()
