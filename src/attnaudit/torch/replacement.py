"""Run a torch module on copies of its texts, with tokens replaced by those of other texts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int64

from attnaudit.models.classifier import probabilities
from attnaudit.torch.arguments import TokenArguments, named
from attnaudit.torch.pooling import PoolingNetwork
from attnaudit.tracing.replacement import Donors, Predicted, TextReplacement
from attnaudit.tracing.settings import ReplacementSettings


@dataclass(frozen=True, kw_only=True)
class TokenReplacement(TextReplacement):
    """Replacement of tokens in the batches of a module.

    Attributes:
        network: The module with its batches.
        arguments: The arguments that say what their tokens are. Others, such as masks and
            positions, stay as they are.
    """

    network: PoolingNetwork
    arguments: TokenArguments

    @classmethod
    def of(
        cls,
        network: PoolingNetwork,
        arguments: TokenArguments,
        settings: ReplacementSettings,
        outputs: int,
    ) -> TokenReplacement:
        """Prepare texts."""
        words, instance = arguments.words, np.arange(len(arguments.words))
        return cls(
            keys=(instance,),
            lengths=words.lengths,
            donors=Donors(words, instance),
            outputs=outputs,
            settings=settings,
            network=network,
            arguments=arguments,
        )

    def run(self, rows: Int64[np.ndarray, " b"], copies: int) -> Iterator[Predicted]:
        """Run the whole batch of some texts, with one copy of each at a time."""
        if not len(rows):
            return
        part, first = self.network.texts[int(rows[0])]
        places, logits = rows - rows[0] + first, []
        lost, words = zip(*(self.copies(row, copies) for row in rows.tolist()), strict=True)
        for copy in zip(*words, strict=True):
            inputs = named(self.network.net, part.batch.inputs)
            for name, table in self.arguments.tables.items():
                inputs[name] = inputs[name].clone()
                for place, own in zip(places, copy, strict=True):
                    inputs[name][place, : len(own)] = table[own].to(inputs[name].device)
            logits.append(self.network.run(inputs).output[places])
        activation = "sigmoid" if self.outputs == 1 else "softmax"
        found = probabilities(torch.stack(logits, dim=1).double(), activation)
        yield lost, found.flatten(0, 1).numpy()
