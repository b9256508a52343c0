"""The page of a translation run: how well it translates, where it looks for each word, and what it has learned that words mean."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from jaxtyping import Float

from attnaudit.core.files import read_json, write_text
from attnaudit.core.papers import LUONG2015, SNELL2020
from attnaudit.report.citations import corpus_title
from attnaudit.report.page import environment
from attnaudit.report.sections.heatmaps import marks_words
from attnaudit.report.sections.provenance import settings
from attnaudit.report.sections.summary import summary_tables
from attnaudit.results.about import About
from attnaudit.results.record import read_summary
from attnaudit.trace import Trace

EXAMPLES = 8  # translations that are shown: the first of the test split
MATRICES = 4
LENGTHS = (5, 16)  # source units of the sentences whose matrices are shown: neither trivial nor too wide for a page
WORDS = 30  # lines of the dictionary
OWN = ("translation", "alignment")  # experiments whose numbers are this page's


class Cell(NamedTuple):
    """``shade`` is from 0 to 1, ``value`` what is told of the cell."""

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
    spec, summary = read_json(folder / "spec.json"), read_summary(folder / "summary.json")
    with (folder / "translations.jsonl").open(encoding="utf-8") as file:
        examples = [json.loads(line) for line in islice(file, EXAMPLES)]
    trace = Trace.read(folder / "trace") if (folder / "trace").exists() else None
    about = About.of(spec, trace.metadata if trace else {"corpus": {"name": Path(spec["corpus"]["source"]).name}})
    own = summary.filter(pl.col("experiment").is_in(OWN))
    known = {(row["experiment"], row["measure"]): row for row in own.iter_rows(named=True)}
    words = folder / "dictionary.parquet"
    matrices = sentence_matrices(trace) if trace else []
    content = {
        "about": about, "title": f"{about.attention} attention on {corpus_title(about)}", "bleu": known["translation", "bleu"],
        "summaries": summary_tables(own), "examples": examples,
        "matrices": matrices, "known": bool(trace and trace.has("rationale")),
        "pieces": any(marks_words(matrix.source) for matrix in matrices),
        "dictionary": pl.read_parquet(words).head(WORDS).to_dicts() if words.exists() else [],
        "traced": trace is not None, "settings": settings(about), "left_out": (),
        "bibtex": [paper.bibtex for paper in (SNELL2020, LUONG2015)],
    }  # fmt: skip
    path = page or folder / "translation.html"
    write_text(path, environment().get_template("translation.html.j2").render(**content))
    return path


def sentence_matrices(trace: Trace) -> list[Matrix]:
    """The first sentences of a fit length; of several heads the first."""
    lengths = trace.alpha.lengths
    first_head = trace.array("head") == 0 if trace.has("head") else np.ones(len(trace), bool)
    fit = trace.instance[first_head & (lengths >= LENGTHS[0]) & (lengths <= LENGTHS[1])]
    chosen = list(dict.fromkeys((fit if len(fit) else trace.instance).tolist()))[:MATRICES]
    return [_matrix(trace, np.flatnonzero(first_head & (trace.instance == instance)), instance) for instance in chosen]


def _matrix(trace: Trace, rows: np.ndarray, instance: int) -> Matrix:
    part = trace.take(rows)
    gold: list[str] = part.table.column("gold").to_pylist()
    marks: list[Any] = part.table.column("rationale").to_pylist() if part.has("rationale") else [None] * len(part)

    def cells(shades: list[np.ndarray], values: list[np.ndarray]) -> list[tuple[str, list[Cell]]]:
        return [
            (token, [Cell(round(float(w), 4), float(v), k) for w, v, k in zip(shade, value, known or [False] * len(value), strict=True)])
            for token, shade, value, known in zip(gold, shades, values, marks, strict=True)
        ]

    alpha, relevance = list(part.alpha), list(part.ragged("importance_relevance"))
    probability = [np.exp(row) for row in relevance]
    return Matrix(f"Pair {instance}", part.tokens(0), cells(alpha, alpha), cells([share(row) for row in relevance], probability))


def share(relevance: Float[np.ndarray, " S"]) -> Float[np.ndarray, " S"]:
    """Probabilities of which these are the logarithms, scaled to sum to 1: what is likely everywhere is told by no position."""
    raised = np.exp(relevance - relevance.max())
    return raised / raised.sum()
