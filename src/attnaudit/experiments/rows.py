"""Row keys, random streams and checks that experiments share."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np
import polars as pl
from jaxtyping import Shaped

from attnaudit.core.ragged import Ragged
from attnaudit.core.random import stream_keys
from attnaudit.core.shapes import Indices, PerRow, RowMask, Streams
from attnaudit.corpora.prepare.vocabulary import UNKNOWN
from attnaudit.experiments.registry import measures_of_rows
from attnaudit.results import OF_HEAD, by_group, summarise_means
from attnaudit.trace import ROW_KEYS, SHOWN, Trace, list_column
from attnaudit.trace.schema import width_of


def keys(trace: Trace) -> pl.DataFrame:
    """Return the columns that identify a row, and ``predicted``, the predicted class's name."""
    classes = np.array(trace.class_names, dtype=object)
    predicted = pl.Series("predicted", classes[trace.predicted].tolist(), dtype=pl.String)
    names = [name for name in (*ROW_KEYS, "predicted") if trace.has(name)]
    return trace.table.select(names).with_columns(predicted)


def make_table(trace: Trace, columns: Mapping[str, Any]) -> pl.DataFrame:
    """Create a table with the keys of each row of a trace, and ``one_word``.

    A single word has all weight by definition: `measures_of_rows` leaves such rows out of means.

    Args:
        trace: The rows.
        columns: One value, one vector, or one list (a `Ragged`) per row; NaN becomes null.
    """
    words = words_of(trace)
    return keys(trace).with_columns(
        pl.Series("one_word", words.where(words.values).lengths <= 1),
        *(
            list_column(name, values)
            if isinstance(values, Ragged)
            else vector_column(name, values)
            if isinstance(values, np.ndarray) and values.ndim == 2
            else pl.Series(name, values, nan_to_null=True)
            for name, values in columns.items()
        ),
    )


def is_correct(trace: Trace) -> RowMask:
    """Return whether each row's prediction equals its label.

    A model cannot write a gold token outside its vocabulary, so such a row is never correct.
    """
    correct = trace.predicted == trace.array("label")
    return correct & (trace.table["gold"].to_numpy() != UNKNOWN) if trace.has("gold") else correct


def row_streams(trace: Trace, seed: int, experiment: str) -> Streams:
    """Return the random stream of each row.

    It depends only on the arguments and the numbers that identify the row. Draws are therefore the
    same in any batch, shard or thread.

    Args:
        trace: The rows.
        seed: Seed of the experiment.
        experiment: Name of the experiment, so that no two share their draws.
    """
    # All streams have the same four numbers; -1 stands for a column that the trace lacks.
    unnamed = np.full(len(trace), -1)
    names = ("instance", "layer", "head", "query")
    numbers = [trace.array(name) if trace.has(name) else unnamed for name in names]
    return stream_keys(seed, experiment, *numbers)


def heatmap_name(columns: Iterable[str], family: str = "") -> str:
    """Return the score that the verdict is about: ``shown`` if there is one, else ``attention``.

    Args:
        columns: Columns of a table with one for each score.
        family: Prefix of these columns, such as "replacement".
    """
    return SHOWN if f"{family}_{SHOWN}" in columns else "attention"


def judged_scores(trace: Trace) -> dict[str, Ragged]:
    """Return attention, if the trace has it, and all importance scores by name."""
    attention = {"attention": trace.alpha} if trace.has("alpha") else {}
    return attention | importance_scores(trace)


def importance_scores(trace: Trace) -> dict[str, Ragged]:
    """Return importance scores by name: gradient, leave-one-out and ``importance_<name>``."""
    more = [name for name in trace.table.columns if name.startswith("importance_")]
    names = [name for name in ("gradient", "loo", *more) if trace.has(name)]
    return {name.removeprefix("importance_"): trace.ragged(name) for name in names}


def over_words(trace: Trace, scores: Mapping[str, Ragged]) -> dict[str, Ragged]:
    """Drop ``special`` tokens from scores: tokens such as [CLS] are no words of the text."""
    words = words_of(trace).values
    return {name: score.where(words) for name, score in scores.items()}


def words_of(trace: Trace) -> Ragged:
    """Mark the tokens that are not ``special``; without that column every token is a word."""
    if not trace.has("special"):
        return Ragged.from_lengths(np.ones(trace.lengths.sum(), bool), trace.lengths)
    special = trace.ragged("special")
    return special.with_values(~special.values.astype(bool))


def mixed_rows(words: Ragged) -> Indices:
    """Return the rows that have both words and special tokens, given the marks of `words_of`."""
    # A row of words only has the same result as all of its tokens; a row without any has none.
    return np.flatnonzero(words.reduce(np.logical_or) & ~words.reduce(np.logical_and))


def attention_on(alpha: Ragged, score: Ragged) -> PerRow:
    """Return the mean share of a score at attended words, less that under uniform attention.

    Σ α_t |s_t| / (Σ α_t Σ |s_t|) − 1/T, between −1/T and 1 − 1/T. Attention has no sign and may
    mark evidence against a class, so signed scores count by their size, as gradient and
    leave-one-out do by definition. Signed sums could also cancel to 0.

    Returns:
        One number per row; NaN for one word, or if attention or score is 0 at every word.
    """
    size = np.abs(score.values.astype(np.float64))
    total = alpha.sum() * score.with_values(size).sum()
    defined = (total > 0.0) & (alpha.lengths > 1)
    share = alpha.with_values(alpha.values * size).sum() / np.where(defined, total, np.nan)
    return share - 1.0 / np.maximum(alpha.lengths, 1)


def no_copies(trace: Trace) -> str | None:
    """Return a message if a trace has no copies with replaced words, else None."""
    if trace.table["replaced"].null_count() < len(trace):
        return None
    return "no text of the trace has copies with words replaced"


def no_single_decision(trace: Trace) -> str | None:
    """Explain why a trace has no single predicted class; None if it has one."""
    if trace.metadata["activation"] == "sigmoid" and width_of(trace.table, "prediction") > 1:
        return (
            "several sigmoid outputs are not a distribution and make no single decision; it needs "
            "one sigmoid output or a softmax"
        )
    return None


def differences(*pairs: tuple[str, str]) -> list[pl.Expr]:
    """Subtract each pair of columns as ``<a>_minus_<b>``; null if either is null."""
    # The cast lets shares of boolean columns, such as flips, be subtracted too.
    return [
        (pl.col(a).cast(pl.Float64) - pl.col(b).cast(pl.Float64)).alias(f"{a}_minus_{b}")
        for a, b in pairs
    ]


def against_heatmap(columns: Iterable[str], families: Iterable[str]) -> list[tuple[str, str]]:
    """Pair the heatmap's column of each family ``<family>_<score>`` with every other score's.

    Args:
        columns: Names of columns.
        families: Prefixes, such as "precision".

    Returns:
        Pairs of names, that of the heatmap that is judged first.
    """
    known = list(columns)
    pairs = [
        (f"{family}_{heatmap_name(known, family)}", name)
        for family in families
        for name in known
        if name.startswith(f"{family}_")
    ]
    return [(ours, other) for ours, other in pairs if ours in known and other != ours]


def of_one_head(summary: pl.DataFrame, measures: pl.Expr) -> pl.DataFrame:
    """Drop the rows of heads whose measures do not meet a condition.

    All heads of a text share what is measured without their weights, which tells nothing of one.
    """
    return summary.filter(~pl.col("group").str.starts_with(OF_HEAD) | measures)


def vector_column(name: str, values: Shaped[np.ndarray, "n C"]) -> pl.Series:
    """Create a column with a list of C values per row."""
    rows = Ragged.from_lengths(values.reshape(-1), np.full(len(values), values.shape[1]))
    return list_column(name, rows)


def summarise_measures(experiment: Any, table: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame:
    """Average the measures of a table over each group of rows, with intervals.

    An experiment that needs nothing but means uses it as its method ``summarise``.

    Args:
        experiment: Experiment with ``name``, ``measures`` and ``seed``.
        table: Its table.
    """
    groups = by_group(table, partial(measures_of_rows, experiment))
    measures = getattr(experiment, "measures", ())
    return summarise_means(experiment.name, groups, experiment.seed, measures)
