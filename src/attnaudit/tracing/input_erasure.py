"""Comprehensiveness and sufficiency in the input: tokens deleted from the text and everything run again (ERASER: DeYoung et al. 2020).

Deleted by number, never by string: what is left goes through the model as a shorter text, its words those it had.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from attnaudit.core.ragged import Ragged
from attnaudit.models.batch import Inputs
from attnaudit.models.classifier import AttentionModel
from attnaudit.stats.measures import ERASED_SHARES, ERASURE_WAYS, predicted_class
from attnaudit.training.texts import predict


def input_falls(model: AttentionModel, inputs: Inputs, scores: Mapping[str, Ragged]) -> dict[str, Float[np.ndarray, "n S"]]:
    """``input_<way>_<score>``: how far the decided class's probability falls at each of the shares of T.

    Without the positions of highest score, and with them alone; NaN for texts of one position.
    """
    before = predict(model, inputs)
    chosen = predicted_class(before)
    found = {}
    for name, score in scores.items():
        rank = _ranks(score)
        for way, keeps_best in zip(ERASURE_WAYS, (False, True), strict=True):
            falls = [_of(before, chosen) - _of(predict(model, kept(inputs, rank, share, keeps_best)), chosen) for share in ERASED_SHARES]
            found[f"input_{way}_{name}"] = np.where(score.lengths[:, None] > 1, np.stack(falls, axis=1), np.nan)
    return found


def kept(inputs: Inputs, rank: Ragged, share: float, keeps_best: bool) -> Inputs:
    """The texts without their best positions of a share of T, one at least, or with these alone."""
    best = rank.values < rank.spread(np.maximum(np.ceil(share * rank.lengths - 1e-9), 1))
    stays = rank.with_values(best if keeps_best else ~best)
    if inputs.sentences is None:
        return replace(inputs, ids=_where(inputs.ids, stays))
    words = inputs.ids.with_values(np.repeat(stays.values, inputs.sentences.values))
    return replace(inputs, ids=_where(inputs.ids, words), sentences=_where(inputs.sentences, stays))


def _where(rows: Ragged, stays: Ragged) -> Ragged:
    """The values that stay."""
    return Ragged.from_lengths(rows.values[stays.values], stays.with_values(stays.values.astype(np.int64)).sum())


def _ranks(score: Ragged) -> Ragged:
    """0 for the position of highest score, 1 for the next, equal ones as they stand."""
    ranks = [np.argsort(np.argsort(-row, kind="stable"), kind="stable") for row in score]
    return score.with_values(np.concatenate(ranks) if ranks else np.zeros(0, np.int64))


def _of(prediction: Float[np.ndarray, "n K"], chosen: np.ndarray) -> Float[np.ndarray, " n"]:
    """The probability of each row's decided class."""
    if prediction.shape[1] == 1:
        return np.where(chosen == 1, prediction[:, 0], 1.0 - prediction[:, 0])
    return prediction[np.arange(len(chosen)), chosen]
