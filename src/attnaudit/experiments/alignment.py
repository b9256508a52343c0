"""Does attention find the source words that a target word translates? Scores of every gold token against known alignments."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from attnaudit.core.papers import SNELL2020
from attnaudit.corpora.prepare.vocabulary import UNKNOWN
from attnaudit.experiments.rows import keys
from attnaudit.results import SUMMARY_SCHEMA, summary_row
from attnaudit.results.groups import text_of
from attnaudit.results.measures import Measure
from attnaudit.stats.bootstrap import bootstrap_ratios
from attnaudit.stats.inference import wilson_interval
from attnaudit.trace import Trace

TRANSLATES = 0.5  # a pair of the dictionary that is aligned in this share of its occurrences, or more, counts as a translation
SCORES = {
    "alpha": "alpha",
    "relevance": "importance_relevance",
    "gradient": "gradient",
    "loo": "loo",
}


@dataclass(frozen=True)
class Alignment:
    """The position of a row's largest score compared with its ``rationale``, the source units aligned with the gold token.

    The table has, for every score of the trace, ``hit_<score>``: the share of the positions of the largest score that are aligned (1 or 0
    where one is the largest), ``aligned``, how many positions are, and ``chance``, their share of all; null where the alignment is not
    known. The summary has ``precision_at_1_<score>`` and the alignment error rate (Och & Ney 2003) of one link a row,
    ``aer_<score> = 1 − 2 Σ hit / (Σ 1 + Σ aligned)``. Intervals draw whole instances.
    """

    name = "alignment"
    needs = ("query", "rationale")
    scope = "traces of translations with reference alignments"
    papers = (SNELL2020,)
    measures = (
        Measure(
            "precision_at_1_alpha_minus_precision_at_1_{score}",
            "precision at 1, attention minus {score}, paired",
            "How much more often the largest attention is on an aligned unit than another score's largest value.",
            "higher",
        ),
        Measure(
            "aer_alpha_minus_aer_{score}",
            "alignment error rate, attention minus {score}, paired",
            "How much larger the alignment error rate of attention is than that of another score, over the same gold tokens.",
            "lower",
        ),
        Measure(
            "precision_at_1_{score}",
            "share whose largest score is on an aligned unit, {score}",
            "Share of gold tokens whose source unit of largest score is aligned with them, ties counted in part, 0 to 1.",
            "higher",
        ),
        Measure(
            "aer_{score}",
            "alignment error rate of the largest score, {score}",
            "Alignment error rate (Och & Ney 2003) of one link per gold token, to the source unit of largest score, 0 to 1.",
            "lower",
        ),
        Measure(
            "dictionary_{score}",
            "R-precision of the dictionary, {score}",
            "With n pairs known to be translations: their share among the n strongest pairs.",
            "higher",
        ),
    )
    seed = (
        0  # no setting: a run records the settings of its experiments, and alignment never had any
    )

    def refuses(self, trace: Trace) -> str | None:
        """Return the reason why a trace cannot be used, or None."""
        return (
            None
            if trace.task == "translation"
            else "the rows are not the gold tokens of a translator"
        )

    def __call__(self, trace: Trace) -> pl.DataFrame:
        """Compute the table, one row per row of the trace."""
        all_marks = trace.ragged("rationale")
        rows = np.flatnonzero(all_marks.lengths)
        marks = all_marks.take(rows)
        aligned = marks.with_values(marks.values.astype(np.float64)).sum()
        columns = {"aligned": aligned, "chance": aligned / marks.lengths}
        for name, column in SCORES.items():
            if trace.has(column):
                score = trace.ragged(column).take(rows)
                largest = score.values == score.spread(score.max())
                hits = score.with_values((largest & marks.values).astype(np.float64)).sum()
                columns[f"hit_{name}"] = hits / score.with_values(largest.astype(np.float64)).sum()
        table = np.full((len(trace), len(columns)), np.nan)
        table[rows] = np.column_stack(list(columns.values()))
        return keys(trace).with_columns(
            pl.Series(name, table[:, k], nan_to_null=True) for k, name in enumerate(columns)
        )

    def summarise(self, table: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame:
        """Summarise the table with intervals."""
        table = table.lazy().collect()
        known = table.drop_nulls("aligned").with_columns(text_of(table.columns).alias("text"))
        by_text = known.sort("text", maintain_order=True).group_by("text", maintain_order=True)
        sums = by_text.agg(pl.len().alias("rows"), pl.col("^hit_.*$", "aligned", "chance").sum())
        rows = (
            list(_rows(self.name, sums, len(known), len(table) - len(known), self.seed))
            if len(sums)
            else []
        )
        return pl.DataFrame(rows, schema=SUMMARY_SCHEMA)

    @staticmethod
    def of_rows(table: pl.LazyFrame) -> pl.LazyFrame:
        """Precision at 1 of every row with known alignments."""
        return table.select(
            pl.col("chance").alias("precision_at_1_chance"),
            pl.col("^hit_.*$").name.map(lambda name: name.replace("hit", "precision_at_1", 1)),
        )


def _rows(
    experiment: str, sums: pl.DataFrame, n: int, undefined: int, seed: int
) -> Iterator[dict[str, Any]]:
    rows, aligned = (sums[name].to_numpy().astype(np.float64) for name in ("rows", "aligned"))
    figures = {"precision_at_1_chance": (sums["chance"].to_numpy(), rows)}
    for column in (name for name in sums.columns if name.startswith("hit_")):
        score, hits = column.removeprefix("hit_"), sums[column].to_numpy()
        figures |= {
            f"precision_at_1_{score}": (hits, rows),
            f"aer_{score}": (rows + aligned - 2.0 * hits, rows + aligned),
        }
    for kind in ("precision_at_1", "aer"):  # of the same rows, so that numerators may be subtracted
        ours, others = (
            figures[f"{kind}_alpha"],
            [name for name in figures if name.startswith(kind) and name != f"{kind}_alpha"],
        )
        figures |= {
            f"{kind}_alpha_minus_{name}": (ours[0] - figures[name][0], ours[1]) for name in others
        }
    top, bottom = (np.stack([pair[k] for pair in figures.values()], axis=1) for k in (0, 1))
    low, high = bootstrap_ratios(top, bottom, seed=seed)
    for k, measure in enumerate(figures):
        yield summary_row(
            experiment,
            measure,
            top[:, k].sum() / bottom[:, k].sum(),
            low[k],
            high[k],
            n=n,
            undefined=undefined,
        )


def dictionary(trace: Trace, least: int = 5) -> pl.DataFrame:
    """What the model has learned that words mean, by output relevance: {source, target, count, relevance, alpha, aligned}.

    A row for each pair of a source unit and a gold token of the same pair of texts, in at least ``least`` of them, the strongest
    first: ``relevance`` is the mean, over all positions and heads, of how far the source unit's output relevance for the token is above the
    mean of its sentence (nats), ``alpha`` the mean attention, ``aligned`` the share of the token's occurrences in which it is aligned with
    such a unit, at any position (null where alignments are not known). Gold tokens that the vocabulary lacks are excluded.
    """
    relevance, alpha = trace.ragged("importance_relevance"), trace.ragged("alpha")
    above = relevance.values - relevance.spread(relevance.sum() / relevance.lengths)
    frame = pl.DataFrame(
        {
            "row": np.repeat(np.arange(len(trace)), relevance.lengths),
            "instance": np.repeat(trace.instance, relevance.lengths),
            "source": [token for row in trace.table.column("tokens").to_pylist() for token in row],
            "target": np.repeat(
                np.array(trace.table.column("gold").to_pylist(), dtype=object), relevance.lengths
            ),
            "relevance": above,
            "alpha": alpha.values,
            "aligned": _marks(trace, relevance.lengths),
        }
    )
    known = frame.filter(pl.col("target") != UNKNOWN)
    in_row = known.group_by("row", "source", "target", maintain_order=True).agg(
        pl.col("instance").first(),
        pl.len().alias("places"),
        pl.col("relevance", "alpha").sum(),
        pl.col("aligned").max(),
    )
    pairs = in_row.group_by("source", "target", maintain_order=True).agg(
        pl.col("instance").n_unique().alias("count"),
        pl.col("relevance", "alpha").sum() / pl.col("places").sum(),
        pl.col("aligned").mean(),
    )
    return pairs.filter(pl.col("count") >= least).sort(
        ["relevance", "source", "target"], descending=[True, False, False]
    )


def dictionary_rows(pairs: pl.DataFrame) -> list[dict[str, Any]]:
    """How many of the strongest pairs of a `dictionary` are translations, by relevance and by attention, as rows of a summary.

    Of n pairs that are aligned in half of the token's occurrences or more, how many are among the n strongest (R-precision, with a Wilson
    interval); no rows where there is no such pair. Pairs without known alignments are excluded.
    """
    known = pairs.drop_nulls("aligned").with_columns(right=pl.col("aligned") >= TRANSLATES)
    n = int(known["right"].sum())
    top = {
        name: known.sort(name, descending=True, maintain_order=True).head(n)["right"]
        for name in ("relevance", "alpha")
    }
    found = {name: int(right.sum()) for name, right in top.items()}
    rows = [
        summary_row(
            Alignment.name, f"dictionary_{name}", right / max(n, 1), *wilson_interval(right, n), n=n
        )
        for name, right in found.items()
    ]
    return pl.DataFrame(rows, schema=SUMMARY_SCHEMA).to_dicts() if n else []


def _marks(trace: Trace, lengths: np.ndarray) -> pl.Series:
    rows = (
        trace.table.column("rationale").to_pylist()
        if trace.has("rationale")
        else [None] * len(lengths)
    )
    return pl.Series(
        [
            mark
            for row, size in zip(rows, lengths.tolist(), strict=True)
            for mark in (row or [None] * size)
        ]
    ).cast(pl.Float64)
