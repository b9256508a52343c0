"""The weights of all heads of several layers replaced at once, by passes of the whole model with hooks on its own modules.

The attended sums of one query are put before the output matrix of each attention. They are of the values that this pass computes.
"""

from contextlib import ExitStack

import numpy as np
import torch

from tests.oracles.erasure import decided
from tests.oracles.readout import naive_tvd


class NaiveHeads:
    """A BERT or GPT-2 and one text, whose prediction reads the query ``position``."""

    def __init__(self, model, inputs, position, heads):
        self.model, self.inputs, self.position, self.heads = model, inputs, position, heads
        self.matrices, self.made = (
            [module for path, module in model.named_modules() if path.endswith(ends)]
            for ends in (("attention.output.dense", "attn.c_proj"), ("self.value", "attn.c_attn"))
        )
        self.own = self._prediction()

    def under(self, weights):
        """The prediction with weights (H, K) of the query in every layer; with none in a layer, it is left as it is."""
        seen = []
        with ExitStack() as hooks:
            for matrix, made, own in zip(self.matrices, self.made, weights, strict=True):
                hooks.enter_context(
                    made.register_forward_hook(lambda module, given, output: seen.append(output[0]))
                )
                if own is not None:
                    hooks.enter_context(matrix.register_forward_pre_hook(self._put(own, seen)))
            return self._prediction()

    def change(self, weights):
        return naive_tvd(self.under(weights), self.own)

    def flips(self, weights):
        return decided(self.under(weights)) != decided(self.own)

    def by_turns(self, own, layer, sweeps):
        """The weights of a layer, turned head by head."""

        def change(weights):
            return self.change([weights if k == layer else None for k in range(len(self.made))])

        return turned(own, [*range(len(own))] * sweeps, change)

    def _prediction(self):
        with torch.no_grad():
            logits = self.model(**self.inputs).logits[0]
        return (
            (logits[self.position] if logits.dim() == 2 else logits)
            .double()
            .softmax(dim=-1)
            .tolist()
        )

    def _put(self, weights, seen):
        def put(module, given):
            width = given[0].shape[-1]
            values = seen[-1][:, -width:].unflatten(
                1, (self.heads, -1)
            )  # of this layer, whose values are the last that were made
            mixed = given[0].clone()
            mixed[:, self.position] = torch.einsum(
                "hk,khd->hd", torch.from_numpy(weights).float(), values
            ).flatten()
            return (mixed,)

        return put


def turned(own, heads, change):
    """Weights (H, K) with each of the heads in turn on the token for which ``change`` is largest, the others as they are by then."""
    current, best = own, 0.0
    for head in heads:
        tried = np.repeat(current[None], current.shape[1], axis=0)
        tried[:, head] = np.eye(current.shape[1])
        changes = [change(weights) for weights in tried]
        if max(changes) > best + 1e-9:
            best, current = max(changes), tried[int(np.argmax(changes))]
    return current
