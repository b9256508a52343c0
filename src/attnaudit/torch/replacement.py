"""Run a torch module on copies of its texts, with tokens replaced by those of other texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from attnaudit.core.ragged import Ragged
from attnaudit.torch.pooling import PoolingNetwork
from attnaudit.tracing.replacement import Donors, Predicted, TextReplacement
from attnaudit.tracing.settings import ReplacementSettings


@dataclass(frozen=True, kw_only=True)
class TokenReplacement(TextReplacement):
    """Replacement of tokens in the batches of a module.

    Attributes:
        network: The module with its batches.
        tables: Values of the arguments that depend only on the token, by its number.
    """

    network: PoolingNetwork
    tables: Mapping[str, Tensor]

    @classmethod
    def of(
        cls,
        network: PoolingNetwork,
        batches: Sequence[Any],
        settings: ReplacementSettings,
        outputs: int,
    ) -> TokenReplacement | None:
        """Prepare batches; return None if no argument of the module identifies the tokens.

        Ids and word vectors do: each token has its own value, the same at every position. Other
        arguments, such as masks and positions, stay as they are.
        """
        texts = [text for batch in batches for text in batch.tokens]
        tokens = [token for text in texts for token in text]
        _, first, number = np.unique(tokens, return_index=True, return_inverse=True)
        given, tables = [_named(network.net, batch.inputs) for batch in batches], {}
        for name in given[0]:
            parts = [
                _of_tokens(inputs.get(name), batch.tokens)
                for inputs, batch in zip(given, batches, strict=True)
            ]
            is_alike = len({part.shape[1:] for part in parts}) == 1
            values = torch.cat(parts) if is_alike else parts[0][:0]
            if len(values) == len(number) and torch.equal(values[first][number], values):
                tables |= {name: values[first]} if (values != values[0]).any() else {}
        instance = np.arange(len(texts))
        donors = Donors(Ragged.from_lengths(number, map(len, texts)), instance)
        made = cls(
            keys=(instance,),
            lengths=donors.words.lengths,
            donors=donors,
            outputs=outputs,
            settings=settings,
            network=network,
            tables=tables,
        )
        return made if tables and settings.texts else None

    def run(self, rows: Int64[np.ndarray, " b"], copies: int) -> Iterator[Predicted]:
        """Run the whole batch of some texts, with one copy of each at a time."""
        if not len(rows):
            return
        part, first = self.network.texts[int(rows[0])]
        places, logits = rows - rows[0] + first, []
        lost, words = zip(*(self.copies(row, copies) for row in rows.tolist()), strict=True)
        for copy in zip(*words, strict=True):
            inputs = _named(self.network.net, part.batch.inputs)
            for name, table in self.tables.items():
                inputs[name] = inputs[name].clone()
                for place, own in zip(places, copy, strict=True):
                    inputs[name][place, : len(own)] = table[own].to(inputs[name].device)
            logits.append(self.network.run(inputs).output[places])
        found = probabilities(torch.stack(logits, dim=1).double())
        yield lost, found.flatten(0, 1).numpy()


def _named(net: nn.Module, inputs: Any) -> dict[str, Any]:
    """Return the arguments of a module by name."""
    bind = signature(net.forward).bind
    return (bind(**inputs) if isinstance(inputs, Mapping) else bind(*inputs)).arguments


def _of_tokens(argument: Any, texts: Sequence[Sequence[str]]) -> Tensor:
    """Return the values of all tokens of a batch; empty for an argument of another shape."""
    if not isinstance(argument, Tensor) or argument.dim() < 2 or len(argument) != len(texts):
        return torch.empty(0)
    rows = zip(argument.detach().cpu(), texts, strict=True)
    return torch.cat([row[: len(text)] for row, text in rows])


def probabilities(logits: Float[Tensor, "... C"]) -> Float[Tensor, "... C"]:
    """Return the probabilities of classes; for a single logit, that of class 1."""
    return logits.sigmoid() if logits.shape[-1] == 1 else logits.softmax(dim=-1)
