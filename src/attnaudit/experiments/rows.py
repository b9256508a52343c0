"""Keys and random streams of a trace's rows, and what several experiments say of a trace."""

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
from attnaudit.trace.schema import list_column


def keys(trace: Trace) -> pl.DataFrame:
    """The columns that name a row: ``instance``, those of split, layer, head and query that are there, ``predicted``."""
    names = [name for name in (*ROW_KEYS, "predicted") if trace.has(name)]
    classes = np.array(trace.class_names, dtype=object)
    predicted = pl.Series("predicted", classes[trace.predicted].tolist(), dtype=pl.String)
    return trace.table.select(names).with_columns(predicted)


def is_correct(trace: Trace) -> Bool[np.ndarray, " n"]:
    """Whether each row's prediction is its label; a gold token that the vocabulary lacks cannot be written, and is never correct."""
    right = trace.predicted == trace.array("label")
    return (
        right & (np.array(trace.table["gold"].to_list(), dtype=object) != UNKNOWN)
        if trace.has("gold")
        else right
    )


def row_streams(trace: Trace, seed: int, experiment: str) -> UInt64[np.ndarray, " n"]:
    """The random stream of every row, by seed, experiment and the numbers that name the row."""
    unnamed = np.full(len(trace), -1)
    names = [
        trace.array(name) if trace.has(name) else unnamed
        for name in ("instance", "layer", "head", "query")
    ]
    return stream_keys(seed, experiment, *names)


def importance_scores(trace: Trace) -> dict[str, Ragged]:
    """Gradient, leave-one-out and every ``importance_<name>`` that a trace has, by name."""
    columns = (
        "gradient",
        "loo",
        *(name for name in trace.table.columns if name.startswith("importance_")),
    )
    return {
        name.removeprefix("importance_"): trace.ragged(name) for name in columns if trace.has(name)
    }


def over_words(trace: Trace, scores: Mapping[str, Ragged]) -> dict[str, Ragged]:
    """Scores of the tokens that are not ``special``: a [CLS] is no word that could matter. Without such a column all are kept."""
    if not trace.has("special"):
        return dict(scores)
    words = ~trace.ragged("special").values.astype(bool)
    return {name: score.where(words) for name, score in scores.items()}


def words_of(trace: Trace) -> tuple[Ragged, Bool[np.ndarray, " n"]]:
    """Which tokens of a trace with a column ``special`` are words, and which rows have words and special tokens."""
    words = trace.alpha.with_values(~trace.ragged("special").values.astype(bool))
    return words, words.reduce(np.logical_or) & ~words.reduce(np.logical_and)


def taken_names(trace: Trace, names: Iterable[str], by: str) -> str | None:
    """Why columns ``importance_<name>`` of these ``names`` cannot be used; None where the trace has none."""
    taken = ", ".join(f"importance_{name}" for name in names if trace.has(f"importance_{name}"))
    return f"the name of column {taken} is taken by {by}" if taken else None


def require(
    experiment: Any, name: str, valid: bool, expected: str, choices: Iterable[str] = ()
) -> None:
    """Raise InputError where a setting of an experiment is not ``valid``."""
    if not valid:
        value = getattr(experiment, name)
        hint = did_you_mean(value, choices) if choices else ""
        raise InputError("audit", f"setting {experiment.name}.{name}", repr(value), expected, hint)


def no_single_decision(trace: Trace) -> str | None:
    """Why the outputs of this trace give no single predicted class for a row; None where they do."""
    if trace.metadata["activation"] == "sigmoid" and trace.table.schema["prediction"].size > 1:
        return "several sigmoid outputs are not a distribution and make no single decision; it needs one sigmoid output or a softmax"
    return None


def differences(*pairs: tuple[str, str]) -> list[pl.Expr]:
    """``<a>_minus_<b>`` of each pair of columns: row by row, so that the mean is one of pairs, and null where either is."""
    return [
        (pl.col(a).cast(pl.Float64) - pl.col(b).cast(pl.Float64)).alias(f"{a}_minus_{b}")
        for a, b in pairs
    ]


def against_attention(columns: Iterable[str], families: Iterable[str]) -> list[tuple[str, str]]:
    """Attention's column of each family ``<family>_<score>`` with that of every other score."""
    known = list(columns)
    pairs = [
        (f"{family}_attention", name)
        for family in families
        for name in known
        if name.startswith(f"{family}_")
    ]
    return [(ours, other) for ours, other in pairs if ours in known and other != ours]


def vector_column(name: str, values: Shaped[np.ndarray, "n C"]) -> pl.Series:
    """One list of C values per row."""
    return list_column(
        name, Ragged.from_lengths(values.reshape(-1), np.full(len(values), values.shape[1]))
    )


def summarise_measures(experiment: Any, table: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame:
    """Average the measures that a table has, over all rows and by predicted class.

    Experiments that need no other summary take it as their method ``summarise``.
    """
    columns = table.lazy().collect_schema().names()
    names = [measure.name for measure in experiment.measures if measure.name in columns]
    return summarise_means(
        experiment.name, by_group(table, lambda rows: rows.select(names)), experiment.seed
    )
