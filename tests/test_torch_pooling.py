"""Any torch module with a pooling attention: its trace is the module under any weights, or it is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import attnaudit
from attnaudit.core.errors import InputError
from attnaudit.torch import collect

TOKENS = [["a", "good", "film"], ["bad"], ["not", "so", "bad", "at", "all"]]
FORMS = ("sum", "bmm", "einsum", "column", "squares", "two", "ignores padding")


class Pool(nn.Module):
    """A pooling written in one of several ways."""

    def __init__(self, form: str) -> None:
        super().__init__()
        self.form, self.score, self.value = form, nn.Linear(6, 1), nn.Linear(6, 4)

    def forward(self, hidden: Tensor, mask: Tensor) -> Tensor:
        scores = self.score(torch.tanh(hidden))
        if self.form != "ignores padding":
            scores = scores.masked_fill(~mask[..., None], -torch.inf)
        value = self.value(hidden)
        if self.form == "column":
            return (scores.softmax(dim=1) * value).sum(dim=1)
        weights = torch.softmax(scores[..., 0], dim=-1)
        if self.form == "two":
            weights = torch.softmax(weights.log(), dim=-1)
        if self.form == "bmm":
            return torch.bmm(weights[:, None], value)[:, 0]
        if self.form == "einsum":
            return torch.einsum("bt,btd->bd", weights, value)
        return ((weights**2 if self.form == "squares" else weights)[..., None] * value).sum(dim=1)


class Net(nn.Module):
    """A classifier of padded texts around a `Pool`; ``deep`` puts a nonlinear layer above it."""

    def __init__(self, form: str = "sum", deep: bool = False, outputs: int = 3) -> None:
        super().__init__()
        self.embedding, self.pool = nn.Embedding(30, 6), Pool(form)
        self.head = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, outputs)) if deep else nn.Linear(4, outputs)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        return self.head(self.pool(self.embedding(ids), mask))


def made(**settings: Any) -> tuple[Net, list[tuple[Any, ...]]]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = Net(**settings)
        ids = torch.randint(30, (3, 5))
    mask = torch.arange(5)[None] < torch.tensor([len(row) for row in TOKENS])[:, None]
    return net, [((ids, mask), TOKENS, [0, 1, 0]), ({"ids": ids.flip(0), "mask": mask.flip(0)}, TOKENS[::-1])]


def naive(net: Net, batches: list[Any], alpha: Any) -> np.ndarray:
    """The module's own classes with its softmax replaced by hand."""
    found, row = [], 0
    for inputs, tokens, *_ in batches:
        ids, mask = inputs.values() if isinstance(inputs, dict) else inputs
        for k in range(len(tokens)):
            weights = torch.zeros(mask.shape[1])
            weights[: len(alpha[row])] = torch.from_numpy(alpha[row]).float()
            pooled = (weights[:, None] * net.pool.value(net.embedding(ids[k]))).sum(dim=0)
            logits = net.head(pooled)
            found.append((logits.softmax(dim=-1) if len(logits) > 1 else logits.sigmoid()).detach().double().numpy())
            row += 1
    return np.stack(found)


@pytest.mark.parametrize("form", ["sum", "bmm", "einsum", "column"])
@pytest.mark.parametrize(("deep", "outputs"), [(False, 3), (True, 3), (False, 1)])
def test_the_trace_is_the_module_under_any_attention(form: str, deep: bool, outputs: int) -> None:
    net, batches = made(form=form, deep=deep, outputs=outputs)
    net.train()
    trace = collect(net, batches, attention="pool", class_names=["x", "y", "z"][: max(outputs, 2)])
    assert net.training
    assert trace.metadata["tail"] == ("replay" if deep else "identity")
    drawn = trace.alpha.with_values(np.random.default_rng(0).random(len(trace.alpha.values)))
    drawn = drawn.with_values(drawn.values / drawn.spread(drawn.sum()))
    for alpha in (trace.alpha, drawn):
        assert np.abs(trace.readout(alpha) - naive(net, batches, alpha)).max() <= 1e-6
    assert trace.table.column("label").to_pylist() == [0, 1, 0, None, None, None]


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ("squares", "batch 0: Pool: an output that differs by .* from the weighted sum of what its tokens give"),
        ("two", "batch 0: 2 softmaxes in Pool; expected one, of the weights over the tokens"),
        ("ignores padding", "batch 0: weight .* behind the tokens; expected none on padding"),
    ],
)
def test_what_is_no_pooling_is_refused(form: str, message: str) -> None:
    net, batches = made(form=form)
    with pytest.raises(InputError, match=message):
        collect(net, batches, attention="pool")
    assert not net.pool._forward_hooks


def test_a_path_that_is_no_module_is_refused() -> None:
    net, batches = made()
    with pytest.raises(InputError, match="attention 'pol': no such submodule; expected one of embedding, pool"):
        collect(net, batches, attention="pol")


def test_an_audit_of_it() -> None:
    net, batches = made(deep=True)
    results = attnaudit.audit(attnaudit.torch.collect(net, batches, attention="pool"), ["permutation", "maximal_change", "adversary"])
    assert float(results["maximal_change"].table["max_delta_y"].to_numpy().max()) > 1e-3


def test_dropout_is_off_and_every_module_keeps_its_mode() -> None:
    net, batches = made(deep=True)
    net.head = nn.Sequential(nn.BatchNorm1d(4), nn.Dropout(0.5), net.head)
    net.train()
    net.head[1].eval()
    trace = collect(net, batches, attention="pool")
    first, again = (attnaudit.audit(trace, ["maximal_change"])["maximal_change"].table for _ in range(2))
    assert first.equals(again)
    assert torch.equal(net.get_buffer("head.0.running_mean"), torch.zeros(4))
    assert net.head[0].training
    assert not net.head[1].training


def test_a_module_that_was_trained_further_is_noticed() -> None:
    net, batches = made(deep=True)
    trace = collect(net, batches, attention="pool", metadata={"model": {"name": "mine"}})
    assert trace.metadata["model"]["name"] == "mine"
    attnaudit.audit(trace, ["permutation"], replay=net)
    with torch.no_grad():
        net.embedding.weight += 0.01
    for replay in (None, net):
        with pytest.raises(InputError, match="the model that the trace holds: a model with the fingerprint"):
            attnaudit.audit(trace, ["permutation"], replay=replay)
