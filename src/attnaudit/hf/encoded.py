"""Texts as a model reads them: batches of token ids, with the words that tokens are pieces of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from hashlib import sha256
from typing import Any

import numpy as np
import torch
from jaxtyping import Int, Int32, Int64
from torch import Tensor

from attnaudit.core.files import content_key
from attnaudit.core.ragged import Ragged
from attnaudit.trace.words import begins_word

FEW, MOST_PADDED = (
    8,
    1.2,
)  # a batch of more texts than these is not padded to more than so many times its tokens


@dataclass(frozen=True)
class Encoded:
    """``n`` texts as a model reads them, row by row; a row has T tokens.

    ``ids`` (int64), ``type_ids`` (int64; None where the model takes none), ``special`` (bool: tokens that are no part of the text) and
    ``word_id`` (int32; −1 for special tokens, counted on through the second text of a pair) have a value for each token. ``tokens`` are the
    characters of the text that each stands for (special tokens by their names), ``words`` the characters of each word, with a word of its
    own for each special token (`attnaudit.trace.words`). ``rationale`` marks tokens as `Split.rationale` does; ``label`` counts
    ``class_names``, the outputs of the model. ``pad`` is the id of padding, ``nothing`` that which stands for a hidden word: the mask
    token, or that of unknown words, or padding. ``cut`` is the number of texts, or targets, that were longer than the model; ``empty``
    that of skipped texts without a token.

    Of an encoder–decoder, ``written`` are the tokens that the decoder is given, its start token first, ``next_ids`` those that follow each
    of them in the target, ``forced`` whether these are given to the model rather than predicted by it, as a language code is,
    ``written_tokens`` the pieces of ``written``, and ``written_word_id`` the words of these as ``word_id``. ``notes`` are remarks on the
    tokenizer.
    """

    ids: Ragged
    type_ids: Ragged | None
    special: Ragged
    word_id: Ragged
    tokens: list[list[str]]
    words: list[list[str]]
    instance: Int64[np.ndarray, " n"]
    label: Int32[np.ndarray, " n"] | None
    split: list[str]
    cut: int
    pad: int
    nothing: int
    class_names: tuple[str, ...] = ()
    rationale: list[list[bool]] | None = None
    written: Ragged | None = None
    next_ids: Ragged | None = None
    forced: Ragged | None = None
    written_tokens: list[list[str]] | None = None
    written_word_id: Ragged | None = None
    empty: int = 0
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of all of it: another tokenizer, and other names of the outputs, give another."""
        return content_key({one.name: _digest(getattr(self, one.name)) for one in fields(self)})

    def take(self, rows: Int[np.ndarray, " m"]) -> Encoded:
        """The chosen rows, in the order given; a row may be chosen more than once. ``cut`` and ``empty`` are those of all rows."""
        return replace(self, **{name: of_rows(getattr(self, name), rows) for name in _COLUMNS})

    def up_to(self, count: Int[np.ndarray, " n"]) -> Encoded:
        """The rows with only the first ``count`` tokens (1 or more): of what the decoder is given, else of the text itself.

        The ``label`` of a text is then the token that follows, −1 where there is none.
        """
        if self.written is not None:
            return replace(
                self, **{name: _first(getattr(self, name), count) for name in _OF_TARGETS}
            )
        label = [
            int(ids[size]) if size < len(ids) else -1
            for ids, size in zip(self.ids, count.tolist(), strict=True)
        ]
        rows = zip(self.tokens, self.word_id, self.words, count.tolist(), strict=True)
        words = [_words_up_to(*row) for row in rows]
        part = {name: _first(getattr(self, name), count) for name in _OF_TOKENS}
        return replace(self, **part, words=words, label=np.array(label, dtype=np.int32))

    def batch(
        self, rows: Int[np.ndarray, " m"] | Sequence[int], device: torch.device | str = "cpu"
    ) -> dict[str, Tensor]:
        """The inputs of the model for some rows, padded on the right: (m, T) of the longest.

        Padding is on the right whatever the tokenizer says: that is how `check_model` tries a model, and on the left a model that counts
        positions would read a text at others than it has alone.
        """
        rows = np.asarray(rows, dtype=np.int64)
        batch = {
            "input_ids": _padded(self.ids, rows, self.pad),
            "attention_mask": _padded(self.ids.with_values(np.ones_like(self.ids.values)), rows),
        }
        if self.type_ids is not None:
            batch["token_type_ids"] = _padded(self.type_ids, rows)
        if self.written is not None:
            batch["decoder_input_ids"] = _padded(self.written, rows, self.pad)
        return {name: value.to(device) for name, value in batch.items()}

    def batches(
        self, budget: int = 4096, batching: str = "any"
    ) -> Iterator[Int64[np.ndarray, " m"]]:
        """All rows, in batches of similar length with at most ``budget`` positions, padding included; a longer text is a batch of its own.

        ``batching`` is that of the `Gate`: which texts may share a batch. Texts with other numbers of special tokens, as where one spells
        an end token, never do: a class that reads the last end token refuses such batches.
        """
        size = self.ids.lengths
        target = np.zeros_like(size) if self.written is None else self.written.lengths
        order = np.lexsort((self._marks, target, size))
        start = 0
        while start < len(order):
            stop = start + 1
            while stop < len(order) and self._fits(
                order[start : stop + 1], size, target, budget, batching
            ):
                stop += 1
            yield order[start:stop]
            start = stop

    @cached_property
    def _marks(self) -> Int64[np.ndarray, " n"]:
        """The number of special tokens of every text."""
        return self.special.with_values(self.special.values.astype(np.int64)).sum()

    def _fits(
        self, rows: np.ndarray, size: np.ndarray, target: np.ndarray, budget: int, batching: str
    ) -> bool:
        padded = len(rows) * int(size[rows].max() + target[rows].max())
        if (
            batching == "none"
            or padded > budget
            or (len(rows) > FEW and padded > MOST_PADDED * int((size + target)[rows].sum()))
        ):
            return False
        if len(set(self._marks[rows].tolist())) > 1:
            return False
        return (
            batching == "any"
            or len(set(zip(size[rows].tolist(), target[rows].tolist(), strict=True))) == 1
        )


_OF_TOKENS = ("ids", "type_ids", "special", "word_id", "tokens", "rationale")
_OF_TARGETS = ("written", "next_ids", "forced", "written_tokens", "written_word_id")
_COLUMNS = (*_OF_TOKENS, "words", "instance", "label", "split", *_OF_TARGETS)


def of_rows(column: Any, rows: Int[np.ndarray, " m"]) -> Any:
    """The chosen rows of a column of any form."""
    if isinstance(column, Ragged):
        return column.take(rows)
    if isinstance(column, list):
        return [column[row] for row in rows.tolist()]
    return None if column is None else column[rows]


def _digest(column: Any) -> Any:
    """What stands for an array in JSON; anything else is its own."""
    if isinstance(column, Ragged):
        return [_digest(column.values), _digest(column.offsets)]
    return sha256(column.tobytes()).hexdigest() if isinstance(column, np.ndarray) else column


def _first(column: Any, count: Int[np.ndarray, " n"]) -> Any:
    """The first ``count`` values of every row of a column with a value for each token."""
    if isinstance(column, Ragged):
        place = np.arange(len(column.values)) - column.spread(column.offsets[:-1])
        return column.where(place < column.spread(count))
    return (
        None
        if column is None
        else [row[:size] for row, size in zip(column, count.tolist(), strict=True)]
    )


def _words_up_to(tokens: list[str], word_id: np.ndarray, words: list[str], count: int) -> list[str]:
    """The words of the first ``count`` tokens, the last of them perhaps a part."""
    first = begins_word(word_id)
    starts = np.flatnonzero(first[:count])
    whole = count >= len(first) or first[count]
    return (
        words[: len(starts)]
        if whole
        else [*words[: len(starts) - 1], "".join(tokens[starts[-1] : count])]
    )


def _padded(values: Ragged, rows: np.ndarray, pad: int = 0) -> Tensor:
    chosen = values.take(rows)
    out = np.full((len(rows), int(chosen.lengths.max(initial=0))), pad, dtype=np.int64)
    out[np.arange(out.shape[1]) < chosen.lengths[:, None]] = chosen.values
    return torch.from_numpy(out)
