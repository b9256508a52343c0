"""Segments: sentences, passages or other groups of tokens as the positions of a trace.

The sum of a segment's weights and the weighted mean of its readouts give the same attended sum. So
every counterfactual that keeps the proportions inside segments is exact.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from jaxtyping import Float, Int64, Shaped

from attnaudit.core import TraceError
from attnaudit.core.ragged import Ragged
from attnaudit.trace.schema import column_of, flat
from attnaudit.trace.table import Trace
from attnaudit.trace.words import join_tokens

COPIES = ("replaced", "replaced_prediction")
# Columns of tokens that segments have not; `first_key` is where a text's tokens begin.
_OF_TOKENS = ("word_id", "first_key", "group", "group_names")


def aggregate(trace: Trace, group: Ragged | None = None) -> Trace:
    """Make segments of tokens the positions of a trace.

    A segment has the sum of its tokens' weights and scores, the weighted mean of their readouts,
    and a mark of the rationale if one of its tokens has. Leave-one-out and copies with words
    replaced do not add up: ``loo`` stays if the tokens of every segment share one value, which then
    is that of the whole segment, and a copy stays if it replaces whole segments.

    Args:
        trace: The trace; T tokens a row.
        group: The segment of each token, T integers a row, numbered from 0 without gaps; by default
            column ``group``, with the names in ``group_names``, if any, in place of words.

    Returns:
        A trace with one position per segment.

    Raises:
        TraceError: The trace has no segments, or their numbers have gaps.

    References:
        Cohen-Wang et al. 2024, whose sources are sentences of a context.
    """
    if group is None and not trace.has("group"):
        do = "collect with segments=…, or give the segment of each token"
        raise TraceError("aggregate", "trace", "no column group", "the segment of each token", do)
    named = group is None and trace.has("group_names")
    segments = _Segments(trace, trace.ragged("group") if group is None else group)
    segments.require_numbers()
    columns: dict[str, Any] = {}
    for name in trace.table.columns:
        column = column_of(name)
        if name == "tokens":
            words = segments.words()
            names = trace.table["group_names"].to_list() if named else words
            columns[name] = [
                [one or text for one, text in zip(own or texts, texts, strict=False)]
                for own, texts in zip(names, words, strict=True)
            ]
        elif name in COPIES or name in _OF_TOKENS or name.startswith("input_"):
            continue
        elif column is None or not column.per_position:
            columns[name] = trace.table[name]
        elif name == "rationale":
            columns[name] = segments.marked(trace.table[name])
        elif name == "loo":
            lowest, highest = (
                segments.reduce(ufunc, trace.ragged(name).values)
                for ufunc in (np.minimum, np.maximum)
            )
            if np.array_equal(lowest.values, highest.values):
                columns[name] = highest
        elif name == "special":
            columns[name] = segments.reduce(np.logical_and, trace.ragged(name).values.astype(bool))
        elif name in ("readout", "alpha_gradient"):
            columns[name] = segments.weighted_mean(trace.ragged(name).values)
        else:
            columns[name] = segments.reduce(np.add, trace.ragged(name).values.astype(np.float64))
    if trace.has(*COPIES):
        columns |= segments.copies()
    return Trace.from_arrays(
        activation=trace.metadata["activation"],
        class_names=trace.class_names,
        metadata={
            **{key: value for key, value in trace.metadata.items() if key != "schema"},
            "segments": True,
        },
        tail=trace.tail,
        origin="aggregate",
        **columns,
    )


@dataclass(frozen=True)
class _Segments:
    """The segments of n rows.

    Attributes:
        trace: The rows.
        group: The segment of each token.
    """

    trace: Trace
    group: Ragged

    def require_numbers(self) -> None:
        """Raise TraceError unless each token has a segment, numbered from 0 without gaps."""
        lengths = self.trace.ragged("tokens").lengths
        first = np.flatnonzero(self.group.lengths != lengths)
        if len(first):
            row = int(first[0])
            got = f"{self.group.lengths[row]} numbers"
            raise TraceError("aggregate", self._place(row), got, f"{lengths[row]}, one a token")
        highest = self.group.max()
        for row, own in enumerate(self.group):
            if not np.array_equal(np.unique(own), np.arange(highest[row] + 1)):
                got = ", ".join(map(str, np.unique(own).tolist()[:9]))
                expected = f"all of 0 to {max(int(highest[row]), 0)}"
                raise TraceError("aggregate", self._place(row), got, expected)

    def _place(self, row: int) -> str:
        return f"column group, instance {self.trace.instance[row]} (row {row})"

    @cached_property
    def _order(self) -> Int64[np.ndarray, " N"]:
        """Flat positions that put the tokens of each segment side by side."""
        return np.lexsort((self.group.values, self.group.row_of_value))

    @cached_property
    def _members(self) -> Ragged:
        """Tokens of each segment, segment after segment."""
        keys = np.stack([self.group.row_of_value, self.group.values])[:, self._order]
        starts = np.flatnonzero(np.diff(keys, prepend=-1).any(axis=0))
        return Ragged(self._order, np.append(starts, len(self._order)))

    @cached_property
    def _rows(self) -> Ragged:
        """Numbers of the segments of each row."""
        lengths = self.group.max() + 1
        return Ragged.from_lengths(np.arange(lengths.sum()), lengths)

    def reduce(self, ufunc: np.ufunc, values: Shaped[np.ndarray, "N ..."]) -> Ragged:
        """Reduce values over the tokens of each segment."""
        return self._rows.with_values(self._members.with_values(values[self._order]).reduce(ufunc))

    def weighted_mean(self, values: Float[np.ndarray, "N ..."]) -> Ragged:
        """Average values over each segment, weighted by attention, or equally if it has none."""
        alpha = self.trace.alpha.values
        total = self.reduce(np.add, alpha).values
        is_zero = total == 0.0
        weight = np.where(self._members.spread(is_zero), 1.0, alpha[self._order])
        weight /= self._members.spread(np.where(is_zero, self._members.lengths, total))
        share = np.empty_like(alpha)
        share[self._order] = weight
        return self.reduce(np.add, values * share.reshape(-1, *[1] * (values.ndim - 1)))

    def words(self) -> list[list[str]]:
        """Return the words of each segment, joined by blanks."""
        pieces = flat(self.trace.table["tokens"]).to_list()
        words = [[pieces[k] for k in segment] for segment in self._members]
        if self.trace.has("word_id"):
            word_id = self.trace.ragged("word_id").values[self._order]
            words = join_tokens(words, self._members.with_values(word_id))
        names = list(map(" ".join, words))
        return [[names[k] for k in row] for row in self._rows]

    def marked(self, rationale: pl.Series) -> list[list[bool] | None]:
        """Mark the segments that have a marked token; None for a row without a rationale."""
        marks = [
            [False] * length if row is None else row
            for row, length in zip(rationale.to_list(), self.group.lengths.tolist(), strict=True)
        ]
        every = self.reduce(np.logical_or, np.concatenate([np.array(row, bool) for row in marks]))
        is_known = rationale.is_not_null().to_list()
        return [row.tolist() if known else None for row, known in zip(every, is_known, strict=True)]

    def copies(self) -> dict[str, list[Any]]:
        """Return the copies of each row that replace whole segments; None for a row without."""
        replaced: list[Any] = []
        predicted: list[Any] = []
        columns = (self.trace.table[name].to_list() for name in COPIES)
        for own, lists, runs in zip(self.group, *columns, strict=True):
            size = np.bincount(own)
            counts = [np.bincount(own[lost], minlength=len(size)) for lost in lists or ()]
            whole = [k for k, one in enumerate(counts) if ((one == 0) | (one == size)).all()]
            replaced.append([np.flatnonzero(counts[k]).tolist() for k in whole] or None)
            predicted.append([runs[k] for k in whole] or None)
        return dict(zip(COPIES, (replaced, predicted), strict=True)) if any(replaced) else {}
