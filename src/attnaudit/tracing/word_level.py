"""The word level of a hierarchical model's trace: the weights of both levels multiplied."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from attnaudit.core.ragged import Ragged
from attnaudit.models.batch import Inputs, batches_by_length
from attnaudit.models.classifier import AttentionModel
from attnaudit.trace import Trace


def word_level(sentences: Trace, model: AttentionModel, inputs: Inputs, budget: int, **words: Any) -> Trace:
    """The trace of the words in place of that of ``sentences``; ``words`` are its columns ``tokens`` and ``rationale``.

    A word's weight is that of its sentence times its own within the sentence; it contributes what its sentence does, so that the output
    is the same sum. How weight lies within a sentence, then, moves the output only through the sentence's vector, which is fixed here.
    Importance by gradient and by leave-one-out is of sentences, and is missing.
    """
    assert inputs.sentences is not None
    lengths = inputs.sentences.values
    within = word_weights(model, inputs, budget)
    alpha = inputs.ids.with_values(np.repeat(sentences.ragged("alpha").values, lengths) * within)
    readout = inputs.ids.with_values(np.repeat(sentences.ragged("readout").values, lengths, axis=0))
    metadata = {**sentences.metadata, "level": "words"}
    return Trace.from_arrays(
        activation=sentences.metadata["activation"], class_names=sentences.class_names, metadata=metadata, tail=sentences.tail,
        instance=sentences.instance, split=sentences.array("split").tolist(), label=sentences.array("label"),
        offset=sentences.array("offset"), prediction=sentences.array("prediction"), alpha=alpha, readout=readout, **words,
    )  # fmt: skip


def word_weights(model: AttentionModel, inputs: Inputs, budget: int) -> Float[np.ndarray, " W"]:
    """Attention within its sentence of every word, text after text, float32."""
    assert model.sentence is not None
    assert inputs.sentences is not None
    device = next(model.parameters()).device
    words = Ragged.from_lengths(inputs.ids.values, inputs.sentences.values)
    single = Inputs(words)
    out = np.zeros(len(words.values), np.float32)
    with torch.no_grad():
        for rows in batches_by_length(words.lengths, budget):
            batch = single.batch(rows, device)
            hidden = model.sentence.encoder(model.embedding(batch.ids), batch.lengths)
            out[words.positions(rows)] = model.sentence.weights(hidden, batch)[batch.attended].cpu().numpy()
    return out
