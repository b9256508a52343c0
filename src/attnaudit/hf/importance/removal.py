"""Leave-one-out: how much the prediction changes when a word is deleted from the text, or replaced by a token that says nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from attnaudit.core.ragged import Ragged
from attnaudit.hf.capture import without_padding
from attnaudit.hf.encoded import Encoded
from attnaudit.hf.importance.case import Case, predictions

Word = tuple[int, Bool[np.ndarray, "..."]]  # the row of a text, and the tokens of one of its words


def loo(case: Case) -> Float[Tensor, "B T"]:
    """TVD between the predictions with and without the word, all of whose tokens have the value; 0 for special tokens.

    The tokens are deleted and the whole model is run again. In a text that has no other token the word is replaced, as by `loo_mask`.
    """
    return _changes(case, deleted=True)


def loo_mask(case: Case) -> Float[Tensor, "B T"]:
    """As `loo`, but every token of the word is replaced: by the mask token, else by that of unknown words, else by padding."""
    return _changes(case, deleted=False)


def _changes(case: Case, deleted: bool) -> Float[Tensor, "B T"]:
    out = torch.zeros(case.mask.shape)
    words = list(_words(case.texts))
    if words:
        changed = _changed(case.texts, words, deleted)
        case.forget_graph()
        batching, kept = case.gate.batching, nullcontext()
        if _hides_the_end(case):
            batching, kept = (
                "none" if batching == "none" else "of one length",
                without_padding(case.model),
            )
        with kept:
            for numbers, prediction in predictions(case.model, changed, case.budget, batching):
                for number, tvd in zip(
                    numbers.tolist(),
                    _tvd(case, prediction, [words[number][0] for number in numbers]),
                    strict=True,
                ):
                    row, chosen = words[number]
                    out[row, : len(chosen)][torch.from_numpy(chosen)] = tvd
    return out.to(case.mask.device)


def _hides_the_end(case: Case) -> bool:
    """Whether the token in place of a word is padding to a classifier that reads the last token before padding."""
    reads_last = case.ends is None and case.gate.reads is not None and case.gate.reads < 0
    return reads_last and case.texts.nothing == case.model.config.get_text_config().pad_token_id


def _tvd(case: Case, prediction: Float[Tensor, "m C"], rows: list[int]) -> list[float]:
    return (0.5 * (prediction - case.prediction[rows]).abs().sum(dim=-1)).tolist()


def _words(texts: Encoded) -> Iterator[Word]:
    for row, ids in enumerate(texts.word_id):
        for word in range(int(ids.max(initial=-1)) + 1):
            yield row, ids == word


def _changed(texts: Encoded, words: list[Word], deleted: bool) -> Encoded:
    """A text for every word, without it."""
    rows = np.array([row for row, _ in words], dtype=np.int64)
    every = texts.take(rows)
    chosen = np.concatenate([mask for _, mask in words])
    alone = np.repeat([mask.all() for _, mask in words], every.ids.lengths)
    kept = ~chosen | alone if deleted else np.ones_like(chosen)
    ids = np.where(chosen & kept, texts.nothing, every.ids.values)
    types = None if every.type_ids is None else _kept(every.type_ids, kept)
    return replace(every, ids=_kept(every.ids.with_values(ids), kept), type_ids=types)


def _kept(values: Ragged, kept: Bool[np.ndarray, " N"]) -> Ragged:
    lengths: Int64[np.ndarray, " n"] = np.bincount(values.row_of_value[kept], minlength=len(values))
    return Ragged.from_lengths(values.values[kept], lengths)
