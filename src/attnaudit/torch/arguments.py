"""Arguments of a torch module that say what the tokens of its texts are, such as ids."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor, nn

from attnaudit.core.ragged import Ragged


@dataclass(frozen=True)
class TokenArguments:
    """Arguments that identify tokens: each token has its own value, the same at every position.

    Ids and word vectors do. Masks do not, as they are the same for all tokens.

    Attributes:
        net: The module.
        words: Number of each token of each text.
        tables: Values of each such argument, by the number of the token.
        by_position: Arguments that are the same for all texts, such as numbers of positions.
        lengths: Arguments that are the numbers of tokens.
    """

    net: nn.Module
    words: Ragged
    tables: Mapping[str, Tensor]
    by_position: Collection[str]
    lengths: Collection[str]

    @classmethod
    def of(cls, net: nn.Module, batches: Sequence[Any]) -> TokenArguments:
        """Find them in batches by their values."""
        texts = [text for batch in batches for text in batch.tokens]
        _, number = np.unique([token for text in texts for token in text], return_inverse=True)
        place = np.concatenate([np.arange(len(text)) for text in texts])
        tables, by_position, lengths = {}, set[str](), set[str]()
        given = [named(net, batch.inputs) for batch in batches]
        for name in given[0]:
            both = [
                (inputs.get(name), batch.tokens)
                for inputs, batch in zip(given, batches, strict=True)
            ]
            if all(_is_lengths(*one) for one in both):
                lengths.add(name)
            parts = [_of_tokens(*one) for one in both]
            if len({part.shape[1:] for part in parts}) > 1 or sum(map(len, parts)) < len(number):
                continue
            values = torch.cat(parts)
            if _distinct(values, place) is not None:
                by_position.add(name)
            table = _distinct(values, number)
            if table is not None and (table != table[0]).any():
                tables[name] = table
        # In few texts, a token may stand at one position only. Ids then are not the same for all.
        words = {name: table for name, table in tables.items() if name not in by_position}
        return cls(
            net,
            Ragged.from_lengths(number, [len(text) for text in texts]),
            words or tables,
            by_position - (words or tables).keys(),
            lengths,
        )

    def without(self, batch: Any, place: int, shortened: Bool[Tensor, " B"]) -> dict[str, Any]:
        """Return the arguments of a batch with one column less, without the token at a position.

        Masks and whatever else has a value for each token move along. An argument by position loses
        that of the last token, and lengths decrease by one.

        Args:
            batch: The batch.
            place: The position.
            shortened: Texts that lose the token; others lose the last column, their padding.
        """
        inputs = named(self.net, batch.inputs)
        texts, size = inputs[next(iter(self.tables))].shape[:2]

        def index(deleted):
            column = torch.arange(size - 1).expand(texts, -1)
            return column + (shortened & (deleted <= column.T)).T.long()

        along, last = index(torch.full((texts,), place)), index(batch.lengths - 1)
        for name, given in inputs.items():
            if not isinstance(given, Tensor) or not given.dim() or len(given) != texts:
                continue
            if name in self.lengths:
                inputs[name] = given - shortened.to(given)
            for axis in [1] if name in self.tables else range(1, given.dim()):
                if given.shape[axis] == size:
                    shape = [size - 1 if k == axis else 1 for k in range(1, given.dim())]
                    kept = last if name in self.by_position else along
                    kept = kept.reshape(texts, *shape).to(given.device)
                    inputs[name] = inputs[name].take_along_dim(kept, axis)
        return inputs


def named(net: nn.Module, inputs: Any) -> dict[str, Any]:
    """Return the arguments of a module by name."""
    bind = signature(net.forward).bind
    return (bind(**inputs) if isinstance(inputs, Mapping) else bind(*inputs)).arguments


def _of_tokens(argument: Any, texts: Sequence[Sequence[str]]) -> Tensor:
    """Return the values of all tokens of a batch; empty for an argument of another shape."""
    if not isinstance(argument, Tensor) or argument.dim() < 2 or len(argument) != len(texts):
        return torch.empty(0)
    rows = zip(argument.detach().cpu(), texts, strict=True)
    return torch.cat([row[: len(text)] for row, text in rows])


def _is_lengths(argument: Any, texts: Sequence[Sequence[str]]) -> bool:
    lengths = [len(text) for text in texts]
    return isinstance(argument, Tensor) and argument.tolist() == lengths


def _distinct(values: Tensor, key: np.ndarray) -> Tensor | None:
    """Return the value of each key; None if a key has several."""
    _, first, number = np.unique(key, return_index=True, return_inverse=True)
    return values[first] if torch.equal(values[first][number], values) else None
