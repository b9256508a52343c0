"""Labels of tokens: the positions of texts that are audited, and the ends of extracted answers."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import wraps
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers.modeling_outputs import TokenClassifierOutput

from attnaudit.core import InputError
from attnaudit.core.ragged import Ragged
from attnaudit.hf.encoded import Encoded, Positions, at_positions, drawn_place
from attnaudit.hf.model import OF_TOKENS, positions_per_pass, reading, require_task

ENDS = ("start", "end")


class OneOutput:
    """A model that `with_logits` has made."""


def require_end(model: str, name: str | None) -> None:
    """Check that an output is an end of an answer. Raises InputError."""
    if name not in ENDS:
        do = f"choose one: --set collect.output={ENDS[0]}"
        raise InputError("check model", model, f"output {name}", "start or end of an answer", do)


def with_logits(
    model: Any, classes: tuple[str, str], change: Callable[[Any, Mapping[str, Tensor]], Tensor]
) -> Any:
    """Return a copy of a model that decides between two classes.

    Args:
        model: The model.
        classes: Names of the classes.
        change: Makes their logits of the model's output and its inputs.
    """
    kind = type(model)

    @wraps(kind.forward)
    def forward(self, **inputs):
        output = kind.forward(self, **inputs)
        logits = change(output, inputs)
        return TokenClassifierOutput(None, logits, output.hidden_states, output.attentions)

    copied = copy.deepcopy(model)
    copied.__class__ = type(kind.__name__, (OneOutput, kind), {"forward": forward})
    copied.config.id2label = dict(enumerate(classes))
    copied.config.label2id = {name: k for k, name in enumerate(classes)}
    copied.config.problem_type = None
    return copied


def one_end(model: Any, name: str | None) -> Any:
    """Return a copy of a model for extractive question answering that only finds one end.

    The copy labels every token: the answer starts (or ends) there, or elsewhere. The probability is
    the model's own, a softmax over all tokens of question and text. The logits of a token are its
    own score, and the log-sum-exp of the scores of the others.

    Args:
        model: The model.
        name: ``start`` or ``end``.

    Raises:
        InputError: It is another name, or none.
    """
    require_end(type(model).__name__, name)

    def logits(output, inputs):
        own = output[f"{name}_logits"]
        hidden = inputs["attention_mask"] == 0
        itself = torch.eye(own.shape[1], dtype=torch.bool, device=own.device)
        scores = own.masked_fill(hidden, -torch.inf)[:, None].masked_fill(itself, -torch.inf)
        return torch.stack([scores.logsumexp(dim=-1), own], dim=-1)

    return with_logits(model, ("elsewhere", str(name)), logits)


def labelled(
    model: Any, texts: Encoded, positions: Positions, seed: int = 0, batching: str = "any"
) -> Encoded:
    """Choose the positions that are audited, a row for each.

    For a classifier of tokens these are first tokens of words: ``one`` that is drawn, the ``last``,
    or ``all``. For extractive question answering it is the position that is predicted. For other
    models see `at_positions`.

    Args:
        model: The model.
        texts: The texts.
        positions: The choice (`positions_of`).
        seed: Seed of the draw.
        batching: Texts that may share a batch, as in `Gate.batching`.

    Raises:
        InputError: Tokens of segments are to be labelled.
    """
    task = require_task(model)
    if texts.segment is not None and task in OF_TOKENS:
        got, do = "segments for a model that labels tokens", "leave out collect.segments"
        raise InputError("collect", type(model).__name__, got, "tokens", do)
    if task == "question-answering":
        at = np.zeros(len(texts), np.int64)
        with reading(model), torch.no_grad():
            for rows in texts.batches(positions_per_pass(model, 4096), batching):
                inputs = texts.batch(rows, model.device)
                scores = model(**inputs).logits[..., 1].float()
                scores = scores.masked_fill(inputs["attention_mask"] == 0, -torch.inf)
                at[rows] = scores.argmax(dim=1).cpu().numpy()
        return replace(texts, at=at)
    if task != "token-classification":
        return at_positions(texts, positions, seed)
    words = texts.word_id.values
    begins = (words != np.roll(words, 1)) | (texts.word_id.places == 0)
    spots: Ragged = texts.word_id.with_values(texts.word_id.places)
    spots = spots.where(begins & ~texts.special.values)
    if positions == "all":
        return replace(texts.take(spots.row_of_value), at=spots.values)
    place = drawn_place(texts, spots.lengths, seed) if positions == "one" else spots.lengths - 1
    return replace(texts, at=spots.values[spots.offsets[:-1] + place])
