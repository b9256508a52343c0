"""The positions of a text, or of a target, whose next token is the prediction that is audited: the last, one drawn at random, or all.

A decoder reads what was written so far alone: what it predicts at a position is what it predicts last of the prefix that ends there. So a
row here is such a prefix, and all else treats it as a text of its own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
from jaxtyping import Int64

from attnaudit.core.errors import InputError
from attnaudit.core.numbers import count
from attnaudit.core.ragged import Ragged
from attnaudit.core.random import stream_keys
from attnaudit.hf.encoded import Encoded
from attnaudit.hf.replay import ModelTask

Positions = Literal["one", "all", "last"]


def positions_of(task: ModelTask, chosen: Positions | None = None) -> Positions:
    """The ``chosen`` positions, by default one of a target, and the last of a prompt, which ends where its author wants it to.

    Raises InputError for a classifier, whose prediction is of a whole text.
    """
    if chosen is not None and task == "classification":
        raise InputError(
            "collect",
            f"positions {chosen}",
            "a classifier",
            "a model that predicts tokens",
            "leave them out",
        )
    return chosen or ("one" if task == "seq2seq" else "last")


def at_positions(texts: Encoded, positions: Positions, seed: int = 0) -> Encoded:
    """Every text up to its last token, up to one drawn at random, or once for each: a row for each prefix.

    Positions are those whose next token the model predicts. Of a target these are all but those of tokens that are given, such as a
    language code; of a text without a target, those of its own tokens. The draw is uniform, and keyed by ``seed`` and instance: it is the
    same whatever other texts there are, and in whatever order.
    """
    if texts.class_names:  # a classifier reads whole texts
        return texts
    counts = _counts(texts)
    if positions == "last" and texts.written is None:
        return _without_ends(texts, counts.values[counts.offsets[1:] - 1])
    if positions == "all":
        return texts.take(counts.row_of_value).up_to(counts.values)
    place = counts.lengths - 1
    if positions == "one":
        drawn = stream_keys(seed, "target position", texts.instance) >> np.uint64(32)
        place = ((drawn * counts.lengths.astype(np.uint64)) >> np.uint64(32)).astype(np.int64)
    return texts.up_to(counts.values[counts.offsets[:-1] + place])


def _without_ends(texts: Encoded, counts: Int64[np.ndarray, " n"]) -> Encoded:
    """Texts without what their tokenizer appends, such as [EOS]: a prediction behind it is of what follows the end of the text."""
    ended = int((counts < texts.ids.lengths).sum())
    if not ended:
        return texts
    note = f"special tokens at the end of {count(ended, 'text')} removed: the next token of the text is predicted"
    return replace(texts.up_to(counts), label=texts.label, notes=(*texts.notes, note))


def _counts(texts: Encoded) -> Ragged:
    """The lengths of the prefixes at whose end a token is predicted, in order, of every text."""
    excluded = texts.special if texts.forced is None else texts.forced
    lengths = np.arange(len(excluded.values)) - excluded.spread(excluded.offsets[:-1]) + 1
    return excluded.with_values(lengths).where(~excluded.values.astype(bool))
