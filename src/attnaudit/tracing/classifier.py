"""Run a classifier on copies of its texts in which random words are replaced."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int64

from attnaudit.core.ragged import Ragged
from attnaudit.core.threads import cores
from attnaudit.corpora.corpus import Split
from attnaudit.models.batch import Inputs
from attnaudit.tracing.replacement import Donors, Predicted, TextReplacement
from attnaudit.training.loop import torch_threads

WORDS = 1 << 18  # words of copies that a thread holds at once


@dataclass(frozen=True, kw_only=True)
class Replacement(TextReplacement):
    """Replacement of words in the texts of a classifier.

    Attributes:
        model: The model, an `AttentionModel` with frozen weights.
        inputs: The texts.
        budget: Padded positions of a batch.
    """

    model: Any
    inputs: Inputs
    budget: int

    @classmethod
    def of(cls, model: Any, split: Split, **options: Any) -> Replacement:
        """Prepare the texts of a split; ``options`` are settings, budget and progress."""
        inputs = model.inputs(split)
        return cls(
            model=model,
            inputs=inputs,
            keys=(split.instance,),
            lengths=inputs.ids.lengths,
            donors=Donors(inputs.ids, split.instance, inputs.sentences),
            outputs=model.outputs,
            **options,
        )

    @property
    def threads(self) -> int:
        """Number of threads, each with batches of its own on a CPU."""
        return 1 if next(self.model.parameters()).device.type == "cuda" else cores()

    def run(self, rows: Int64[np.ndarray, " b"], copies: int) -> Iterator[Predicted]:
        """Run the copies of some texts at once."""
        if not len(rows):
            return
        words = self.inputs.ids.take(rows)
        first = len(next(words.blocks(self.budget // copies)))
        rest = rows[first:]
        blocks = [rest[block] for block in self.inputs.ids.take(rest).blocks(WORDS // copies)]
        # Each thread computes one block, because many at once cost memory. Order is kept.
        with torch_threads(1), ThreadPoolExecutor(self.threads) as pool:
            # The time of about one batch tells how long all of them take.
            yield self._run(rows[:first], copies)
            yield from pool.map(lambda own: self._run(own, copies), blocks)

    def _run(self, rows: Int64[np.ndarray, " b"], copies: int) -> Predicted:
        """Return the positions that the copies of some rows lose, and their predictions."""
        inputs = self.inputs
        lost, words = zip(*(self.copies(row, copies) for row in rows.tolist()), strict=True)
        many = np.repeat(rows, copies)
        parts: dict[str, Any] = {
            name: part.take(many) if isinstance(part, Ragged) else part[many]
            for name, part in vars(inputs).items()
            if part is not None and name != "ids"
        }
        ids = Ragged.from_lengths(np.concatenate([*map(np.ravel, words)]), inputs.ids.lengths[many])
        return lost, self._predict(Inputs(ids, **parts))

    def _predict(self, inputs: Inputs) -> Float[np.ndarray, "n C"]:
        """Predict in float64, as probabilities near 1 have few digits in float32."""
        model, found = self.model, np.zeros((len(inputs), self.outputs))
        device = next(model.parameters()).device
        with torch.inference_mode():
            for rows in inputs.batches_by_length(self.budget):
                logits = model(inputs.batch(rows, device)).logits.double()
                found[rows] = model.probabilities(logits).cpu().numpy()
        return found
