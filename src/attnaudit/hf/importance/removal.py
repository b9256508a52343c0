"""Importance by what changes without a token: without its word, or without its value."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from attnaudit.hf.encoded import Encoded
from attnaudit.hf.importance.case import Case, ends_of, read_logits
from attnaudit.hf.model import positions_per_pass, without_padding
from attnaudit.torch.capture import Attention, Exchange, forward


def loo(case: Case) -> Float[Tensor, "B T"]:
    """Compute the TVD between predictions with and without the word of a token.

    The word is deleted, and the whole model runs again. In a text without another word it is
    replaced, as by `loo_mask`. Special tokens have 0.
    """
    return _without_words(case, deleted=True)


def loo_mask(case: Case) -> Float[Tensor, "B T"]:
    """Do as `loo`, but replace every token of the word by one that says nothing.

    That is the mask token, else that of unknown words, else padding.
    """
    return _without_words(case, deleted=False)


def _without_words(case: Case, deleted: bool) -> Float[Tensor, "B T"]:
    model, texts = case.model, case.texts
    words = [
        (row, ids == word)
        for row, ids in enumerate(texts.word_id)
        for word in range(int(ids.max(initial=-1)) + 1)
    ]
    out = torch.zeros_like(case.mask, dtype=torch.float32)
    if not words:
        return out
    changed = _changed(texts, words, deleted)
    case.forget_graph()
    batching, padding = case.gate.batching, nullcontext()
    reads_last = case.ends is None and (case.gate.reads or 0) < 0
    if reads_last and texts.nothing == model.config.get_text_config().pad_token_id:
        # What replaces a word would hide the end of the text.
        batching = "none" if batching == "none" else "of one length"
        padding = without_padding(model)
    with padding, torch.no_grad():
        for batch in changed.batches(positions_per_pass(model, case.budget), batching):
            part = changed.take(batch)
            inputs = part.batch(range(len(part)), model.device)
            prediction = read_logits(model, inputs, ends_of(model, part)).float().softmax(dim=-1)
            rows, chosen = zip(*(words[number] for number in batch), strict=True)
            tvds = 0.5 * (prediction - case.prediction[list(rows)]).abs().sum(dim=-1)
            for row, tokens, tvd in zip(rows, chosen, tvds, strict=True):
                out[row, np.flatnonzero(tokens)] = tvd
    return out


def _changed(texts: Encoded, words: list[tuple[int, np.ndarray]], deleted: bool) -> Encoded:
    """Return a text for every word, without it."""
    every = texts.take(np.array([row for row, _ in words], dtype=np.int64))
    chosen = np.concatenate([mask for _, mask in words])
    alone = np.repeat([mask.all() for _, mask in words], every.ids.lengths)
    kept = ~chosen | alone if deleted else np.ones_like(chosen)
    ids = every.ids.with_values(np.where(chosen & kept, texts.nothing, every.ids.values))
    types = every.type_ids and every.type_ids.where(kept)
    words_left = every.word_id.where(kept)
    return replace(every, ids=ids.where(kept), word_id=words_left, type_ids=types)


def value_zeroing(case: Case) -> Float[Tensor, "B T"]:
    """Compute how far the query's last hidden state turns without the value of a token.

    That is 1 minus the cosine of the states with and without it. All heads of the last attention
    lose the value; no other token gets its weight. The last hidden state is the one that the
    prediction reads, after the last normalisation if there is one.

    References:
        Mohebbi et al. 2023.
    """
    usual = _last_state(case, torch.arange(len(case.texts)))
    texts, tokens = case.mask.shape
    out = torch.zeros(texts, tokens, device=case.mask.device)
    last = len(case.attentions) - 1
    for part in torch.cartesian_prod(torch.arange(texts), torch.arange(tokens)).split(
        case.rows_per_pass
    ):
        rows, zeroed = part.to(case.mask.device).unbind(dim=1)

        def exchange(attention: Attention, zeroed: Tensor = zeroed) -> Tensor | None:
            if attention.index != last:
                return None
            weights = attention.weights.clone()
            # A weight of 0 and a value of 0 are the same.
            weights[torch.arange(len(zeroed), device=zeroed.device), :, :, zeroed] = 0
            return weights

        state = _last_state(case, rows, exchange)
        out[rows, zeroed] = 1 - torch.cosine_similarity(usual[rows], state, dim=-1)
    return (out * case.mask).clamp(min=0)


def _last_state(case: Case, rows: Tensor, exchange: Exchange | None = None) -> Float[Tensor, "m E"]:
    """Return the last hidden states of rows at the query: of the decoder if there is one."""
    inputs: dict[str, Any] = {name: value[rows] for name, value in case.inputs.items()}
    output = forward(case.model, inputs | {"output_hidden_states": True}, exchange).output
    states = getattr(output, "decoder_hidden_states", None) or output.hidden_states
    return states[-1][torch.arange(len(rows), device=rows.device), case.query[rows]].float()
