"""Names and random streams of a trace's rows, and facts about a trace that experiments share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import polars as pl
from jaxtyping import Bool, Shaped, UInt64

from attnaudit.core.errors import InputError, did_you_mean
from attnaudit.core.ragged import Ragged
from attnaudit.core.random import stream_keys
from attnaudit.corpora.prepare.vocabulary import UNKNOWN
from attnaudit.results import summarise_means
from attnaudit.results.groups import by_group
from attnaudit.trace import ROW_KEYS, Trace
from attnaudit.trace.schema import list_column, width_of

__all__ = [
    "against_attention",
    "differences",
    "importance_scores",
    "is_correct",
    "keys",
    "list_column",
    "no_single_decision",
    "over_words",
    "require",
    "row_streams",
    "summarise_measures",
    "taken_names",
    "vector_column",
    "words_of",
]


def keys(trace: Trace) -> pl.DataFrame:
    """Return the columns that name a row, and ``predicted``, the name of the predicted class."""
    classes = np.array(trace.class_names, dtype=object)
    predicted = pl.Series("predicted", classes[trace.predicted].tolist(), dtype=pl.String)
    names = [name for name in (*ROW_KEYS, "predicted") if trace.has(name)]
    return trace.table.select(names).with_columns(predicted)


def is_correct(trace: Trace) -> Bool[np.ndarray, " n"]:
    """Tell whether each row's prediction is its label.

    A gold token that the vocabulary lacks cannot be written, and is never correct.
    """
    correct = trace.predicted == trace.array("label")
    return correct & (trace.table["gold"].to_numpy() != UNKNOWN) if trace.has("gold") else correct


def row_streams(trace: Trace, seed: int, experiment: str) -> UInt64[np.ndarray, " n"]:
    """Return the random stream of every row, by seed, experiment and the numbers that name it."""
    unnamed = np.full(len(trace), -1)
    names = ("instance", "layer", "head", "query")
    numbers = [trace.array(name) if trace.has(name) else unnamed for name in names]
    return stream_keys(seed, experiment, *numbers)


def importance_scores(trace: Trace) -> dict[str, Ragged]:
    """Return gradient, leave-one-out and every ``importance_<name>`` of a trace, by name."""
    more = [name for name in trace.table.columns if name.startswith("importance_")]
    names = [name for name in ("gradient", "loo", *more) if trace.has(name)]
    return {name.removeprefix("importance_"): trace.ragged(name) for name in names}


def over_words(trace: Trace, scores: Mapping[str, Ragged]) -> dict[str, Ragged]:
    """Leave out ``special`` tokens from scores: a [CLS] is no word that could matter."""
    if not trace.has("special"):
        return dict(scores)
    words = ~trace.ragged("special").values.astype(bool)
    return {name: score.where(words) for name, score in scores.items()}


def words_of(trace: Trace) -> tuple[Ragged, Bool[np.ndarray, " n"]]:
    """Mark the tokens that are not ``special``.

    Returns:
        A mark per token, and the rows that have both words and special tokens.
    """
    words = trace.alpha.with_values(~trace.ragged("special").values.astype(bool))
    return words, words.reduce(np.logical_or) & ~words.reduce(np.logical_and)


def taken_names(trace: Trace, names: Iterable[str], by: str) -> str | None:
    """Explain why columns ``importance_<name>`` of some names, taken ``by`` others, are refused."""
    columns = [f"importance_{name}" for name in names if trace.has(f"importance_{name}")]
    return f"the name of column {', '.join(columns)} is taken by {by}" if columns else None


def require(
    experiment: Any, name: str, valid: bool, expected: str, choices: Iterable[str] = ()
) -> None:
    """Raise InputError if a setting of an experiment is not ``valid``."""
    if not valid:
        value = getattr(experiment, name)
        hint = did_you_mean(value, choices) if choices else ""
        raise InputError("audit", f"setting {experiment.name}.{name}", repr(value), expected, hint)


def no_single_decision(trace: Trace) -> str | None:
    """Explain why the outputs of a trace give no single predicted class; None if they do."""
    if trace.metadata["activation"] == "sigmoid" and width_of(trace.table, "prediction") > 1:
        return (
            "several sigmoid outputs are not a distribution and make no single decision; it needs "
            "one sigmoid output or a softmax"
        )
    return None


def differences(*pairs: tuple[str, str]) -> list[pl.Expr]:
    """Make ``<a>_minus_<b>`` of each pair of columns, row by row; null where either is null."""
    return [
        (pl.col(a).cast(pl.Float64) - pl.col(b).cast(pl.Float64)).alias(f"{a}_minus_{b}")
        for a, b in pairs
    ]


def against_attention(columns: Iterable[str], families: Iterable[str]) -> list[tuple[str, str]]:
    """Pair attention's column of each family ``<family>_<score>`` with every other score's."""
    known = list(columns)
    pairs = [
        (f"{family}_attention", name)
        for family in families
        for name in known
        if name.startswith(f"{family}_")
    ]
    return [(ours, other) for ours, other in pairs if ours in known and other != ours]


def vector_column(name: str, values: Shaped[np.ndarray, "n C"]) -> pl.Series:
    """Make a column with a list of C values per row."""
    rows = Ragged.from_lengths(values.reshape(-1), np.full(len(values), values.shape[1]))
    return list_column(name, rows)


def summarise_measures(experiment: Any, table: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame:
    """Average the measures that a table has, over all rows and by predicted class.

    Experiments that need no other summary take it as their method ``summarise``.
    """
    columns = table.lazy().collect_schema().names()
    names = [measure.name for measure in experiment.measures if measure.name in columns]
    return summarise_means(
        experiment.name, by_group(table, lambda rows: rows.select(names)), experiment.seed
    )
