"""What a training minimises: the loss on labels, or what Wiegreffe & Pinter 2019 and Pruthi et al. 2020 put in its place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from attnaudit.core.errors import InputError
from attnaudit.core.ragged import Ragged
from attnaudit.corpora.corpus import Split
from attnaudit.corpora.prepare.removal import marks
from attnaudit.models.batch import padded
from attnaudit.models.classifier import AttentionModel, Forward

Loss = Callable[[Forward, np.ndarray], Tensor]
"""What is minimised, a mean over a batch: of a pass forward and of the numbers of its rows in the split."""
LEAST = 1e-30  # what a weight that is 0 in float32 counts as, where its logarithm is taken


@dataclass(frozen=True)
class Adversary:
    """``mean TVD(ŷ, ŷ_base) − strength · mean KL(α ‖ α_base)``: the base model's output, another attention; no labels (Wiegreffe & Pinter).

    ``scaling`` "released" halves the TVD, as the authors' code does; it also sums over the batch, a factor that Adam does not see.
    ``divergence`` "reversed" is ``KL(α_base ‖ α)`` (Snell et al. 2020). The split says what the base model does (`taught_by`).
    """

    strength: float
    scaling: Literal["mean", "released"] = "mean"
    divergence: Literal["forward", "reversed"] = "forward"
    kind: Literal["adversary"] = "adversary"

    def __post_init__(self) -> None:
        _check_strength(self.strength)

    def loss(self, model: AttentionModel, split: Split, labels: Loss) -> Loss:
        """Raises InputError for a split that does not say what the base model does."""
        if model.settings.heads > 1:
            raise InputError("train", "objective adversary", f"a model of {model.settings.heads} heads", "one attention a text")
        if split.attention is None or split.prediction is None:
            raise InputError("train", "objective adversary", "a corpus alone", "one taught by the trace of a base model")
        share = 0.5 if self.scaling == "released" else 1.0
        attention, prediction = split.attention, torch.from_numpy(split.prediction.astype(np.float32))

        def measure(done: Forward, rows: np.ndarray) -> Tensor:
            device = done.alpha.device
            moved = model.distance(model.probabilities(done.logits), prediction[rows].to(device))
            apart = self._apart(done.alpha, padded(attention, rows, device))
            return (share * moved - self.strength * apart).mean()

        return measure

    def _apart(self, alpha: Float[Tensor, "B L"], base: Float[Tensor, "B L"]) -> Float[Tensor, " B"]:
        p, q = (alpha, base) if self.divergence == "forward" else (base, alpha)
        return (p * (p.clamp_min(LEAST).log() - q.clamp_min(LEAST).log())).sum(dim=1)


@dataclass(frozen=True)
class Deceive:
    """The loss on labels ``− strength · mean log(1 − Σ_{t∈I} alpha_t)``: attention keeps off the impermissible tokens (Pruthi et al. 2020).

    I are the tokens among ``words``, or those of the rationale where there are none. A text with nothing else has an infinite penalty: it
    counts by its label alone. Of several ``heads`` the mean of what they keep off counts, or the one that keeps off least ("max": the most
    attention on I).
    """

    strength: float
    words: tuple[str, ...] | None = None
    heads: Literal["mean", "max"] = "mean"
    kind: Literal["deceive"] = "deceive"

    def __post_init__(self) -> None:
        _check_strength(self.strength)

    def loss(self, model: AttentionModel, split: Split, labels: Loss) -> Loss:
        """Raises InputError where the rationale is wanted and not known."""
        marked = Ragged.from_rows(marks(split, self.words or "rationale"), bool)
        free = torch.from_numpy(marked.reduce(np.logical_and) & (marked.lengths > 0))

        def measure(done: Forward, rows: np.ndarray) -> Tensor:
            device = done.alpha.device
            allowed = 1.0 - padded(marked, rows, device)  # 1 at padding too, where no weight is
            kept = (done.alpha * (allowed if done.alpha.ndim == 2 else allowed[:, None])).sum(dim=-1)
            if kept.ndim == 2:
                kept = kept.mean(dim=1) if self.heads == "mean" else kept.amin(dim=1)
            penalty = -kept.clamp_min(LEAST).log()
            return labels(done, rows) + self.strength * penalty.masked_fill(free[rows].to(device), 0.0).mean()

        return measure


Objective = Adversary | Deceive
OBJECTIVES: dict[str, type[Adversary] | type[Deceive]] = {"adversary": Adversary, "deceive": Deceive}


def labels_loss(model: AttentionModel, label: np.ndarray, positive_weight: float) -> Loss:
    """One sigmoid output: binary cross-entropy, positives weighted. A softmax: cross-entropy."""
    gold = torch.from_numpy(label.astype(np.int64))

    def measure(done: Forward, rows: np.ndarray) -> Tensor:
        target = gold[rows].to(done.logits.device)
        if model.activation == "softmax":
            return functional.cross_entropy(done.logits, target)
        weight = torch.tensor(positive_weight, device=done.logits.device)
        return functional.binary_cross_entropy_with_logits(done.logits[:, 0], target.to(done.logits.dtype), pos_weight=weight)

    return measure


def _check_strength(strength: float) -> None:
    if not strength >= 0:
        raise InputError("train", "objective strength (λ)", str(strength), "0 or more")
