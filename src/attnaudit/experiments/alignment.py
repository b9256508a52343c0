"""Does attention find the source words that a target word translates?

Scores of every gold token are compared with known alignments.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from attnaudit.core.papers import SNELL2020
from attnaudit.corpora.prepare.vocabulary import UNKNOWN
from attnaudit.experiments.rows import (
    make_table,
)
from attnaudit.results import SUMMARY_SCHEMA, Measure, summary_row, text_number
from attnaudit.results.measures import ranges_of
from attnaudit.stats.bootstrap import ratio_intervals
from attnaudit.stats.inference import wilson_interval
from attnaudit.trace import Trace

# A pair is a translation if it is aligned in at least this share of its occurrences.
TRANSLATES = 0.5
SCORES = {
    "alpha": "alpha",
    "relevance": "importance_relevance",
    "gradient": "gradient",
    "loo": "loo",
}


@dataclass(frozen=True)
class Alignment:
    """Agreement of each score's largest position with the known alignment of the gold token.

    The table has these columns, null if the alignment is unknown:

    - ``hit_<score>``: share of the positions of largest score that are aligned; 1 or 0 unless
      several positions tie;
    - ``aligned``: number of aligned positions, from the column ``rationale``;
    - ``chance``: their share of all positions.

    The summary has ``precision_at_1_<score>``, and the alignment error rate with one link per row,
    ``aer_<score> = 1 − 2 Σ hit / (Σ 1 + Σ aligned)`` (Och & Ney 2003). Intervals resample whole
    instances.
    """

    name = "alignment"
    needs = ("query", "rationale")
    scope = "traces of translations with reference alignments"
    papers = (SNELL2020,)
    measures = (
        Measure(
            "precision_at_1_alpha_minus_precision_at_1_{score}",
            "precision at 1, attention minus {score}, paired",
            "How much more often the largest attention is on an aligned unit than another "
            "score's largest value.",
            "higher",
        ),
        Measure(
            "aer_alpha_minus_aer_{score}",
            "alignment error rate, attention minus {score}, paired",
            "How much larger the alignment error rate of attention is than that of another "
            "score, over the same gold tokens.",
            "lower",
        ),
        Measure(
            "precision_at_1_{score}",
            "share whose largest score is on an aligned unit, {score}",
            "Share of gold tokens whose source unit of largest score is aligned with them, "
            "ties counted in part, 0 to 1.",
            "higher",
        ),
        Measure(
            "aer_{score}",
            "alignment error rate of the largest score, {score}",
            "Alignment error rate (Och & Ney 2003) of one link per gold token, to the source "
            "unit of largest score, 0 to 1.",
            "lower",
        ),
        Measure(
            "dictionary_{score}",
            "R-precision of the dictionary, {score}",
            "With n pairs known to be translations: their share among the n strongest pairs.",
            "higher",
        ),
    )
    seed = 0  # no setting, so specifications of runs made before this experiment stay valid

    def refuses(self, trace: Trace) -> str | None:
        """Explain why the experiment does not apply to a trace; None if it does."""
        if trace.task == "translation":
            return None
        return "the rows are not the gold tokens of a translator"

    def __call__(self, trace: Trace) -> pl.DataFrame:
        """Compute the table, one row per row of the trace."""
        marks = trace.ragged("rationale")
        rows = np.flatnonzero(marks.lengths)
        marks = marks.take(rows)
        aligned = marks.with_values(marks.values.astype(np.float64)).sum()
        columns = {"aligned": aligned, "chance": aligned / marks.lengths}
        for name, column in SCORES.items():
            if trace.has(column):
                score = trace.ragged(column).take(rows)
                largest = (score.values == score.spread(score.max())).astype(np.float64)
                hits = score.with_values(largest * marks.values).sum()
                columns[f"hit_{name}"] = hits / score.with_values(largest).sum()
        table = np.full((len(columns), len(trace)), np.nan)
        table[:, rows] = list(columns.values())
        return make_table(trace, dict(zip(columns, table, strict=True)))

    def summarise(self, table: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame:
        """Summarise the table with intervals."""
        table = table.lazy().collect()
        # Rows of one text depend on each other, so its sums are resampled as a whole.
        known = table.drop_nulls("aligned").with_columns(text_number(table.columns).alias("text"))
        by_text = known.sort("text", maintain_order=True).group_by("text", maintain_order=True)
        sums = by_text.agg(pl.len().alias("rows"), pl.col("^hit_.*$", "aligned", "chance").sum())
        if not len(sums):
            return pl.DataFrame([], schema=SUMMARY_SCHEMA)
        ratios = _ratios(sums)
        top, bottom = (np.stack(parts) for parts in zip(*ratios.values(), strict=True))
        low, high = ratio_intervals(top, bottom, self.seed, ranges_of(self.measures, ratios))
        values, counts = top.sum(axis=1) / bottom.sum(axis=1), (len(known), len(table) - len(known))
        rows = [
            summary_row(self.name, *row, n=counts[0], undefined=counts[1])
            for row in zip(ratios, values, low, high, strict=True)
        ]
        return pl.DataFrame(rows, schema=SUMMARY_SCHEMA)

    @staticmethod
    def of_rows(table: pl.LazyFrame) -> pl.LazyFrame:
        """Select the precision at 1 of each row with known alignments."""
        return table.select(
            pl.col("chance").alias("precision_at_1_chance"),
            pl.col("^hit_.*$").name.map(lambda name: name.replace("hit", "precision_at_1", 1)),
        )


def _ratios(sums: pl.DataFrame) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Express each measure as numerators and denominators, one of each per text."""
    rows, aligned = (sums[name].to_numpy().astype(np.float64) for name in ("rows", "aligned"))
    ratios = {"precision_at_1_chance": (sums["chance"].to_numpy(), rows)}
    for column in (name for name in sums.columns if name.startswith("hit_")):
        score, hits = column.removeprefix("hit_"), sums[column].to_numpy()
        ratios[f"precision_at_1_{score}"] = hits, rows
        ratios[f"aer_{score}"] = rows + aligned - 2.0 * hits, rows + aligned
    for kind in ("precision_at_1", "aer"):
        own = f"{kind}_alpha"
        # Both ratios have the same denominators, so only their numerators are subtracted.
        ratios |= {
            f"{own}_minus_{name}": (ratios[own][0] - top, bottom)
            for name, (top, bottom) in ratios.items()
            if name.startswith(kind) and name != own
        }
    return ratios


def dictionary(trace: Trace, least: int = 5) -> pl.DataFrame:
    """Extract the dictionary that a translator has learned, by output relevance.

    Args:
        trace: Trace of a translator.
        least: Number of texts in which a source unit and a gold token must occur together.

    Returns:
        One row per pair {source, target, count, relevance, alpha, aligned}, the strongest first.
        ``relevance`` is the source unit's output relevance for the token minus the mean of its
        sentence, in nats, and ``alpha`` is its attention; both are means over positions and heads.
        ``aligned`` is the share of the token's occurrences that are aligned with such a unit, at
        any position; null if alignments are unknown. Tokens outside the vocabulary are excluded.
    """
    relevance, alpha = trace.ragged("importance_relevance"), trace.ragged("alpha")
    above = relevance.values - relevance.spread(relevance.sum() / relevance.lengths)
    aligned = np.full(len(relevance.values), np.nan)
    if trace.has("rationale"):
        marks = trace.ragged("rationale")
        known = np.flatnonzero(marks.lengths)
        aligned[relevance.positions(known)] = marks.take(known).values
    frame = pl.DataFrame(
        {
            "row": np.repeat(np.arange(len(trace)), relevance.lengths),
            "instance": np.repeat(trace.instance, relevance.lengths),
            "source": [token for row in trace.table["tokens"].to_list() for token in row],
            "target": np.repeat(
                np.array(trace.table["gold"].to_list(), dtype=object), relevance.lengths
            ),
            "relevance": above,
            "alpha": alpha.values,
            "aligned": pl.Series(aligned, nan_to_null=True),
        }
    ).filter(pl.col("target") != UNKNOWN)
    # A unit may stand at several positions of a sentence. It is aligned if one of them is.
    in_row = frame.group_by("row", "source", "target", maintain_order=True).agg(
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
    """Score a `dictionary` by R-precision, as rows of a summary.

    If n pairs are translations, aligned in at least half of the token's occurrences, the score is
    their share among the n strongest pairs, by relevance and by attention, with a Wilson interval.
    Pairs without known alignments are excluded.
    """
    known = pairs.drop_nulls("aligned").with_columns(right=pl.col("aligned") >= TRANSLATES)
    n = int(known["right"].sum())
    rows = []
    for name in ("relevance", "alpha") if n else ():
        strongest = known.sort(name, descending=True, maintain_order=True).head(n)
        right = int(strongest["right"].sum())
        interval = wilson_interval(right, n)
        rows.append(summary_row(Alignment.name, f"dictionary_{name}", right / n, *interval, n=n))
    return pl.DataFrame(rows, schema=SUMMARY_SCHEMA).to_dicts()
