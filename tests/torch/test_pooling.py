"""Any torch module with a pooling attention: its trace is the module under any weights, or it is refused."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import attnaudit
from attnaudit.core.errors import InputError
from attnaudit.experiments.joint import groups_of
from attnaudit.torch import Batch, collect
from attnaudit.trace.joint import JointReadout

TOKENS = [["a", "good", "film"], ["bad"], ["not", "so", "bad", "at", "all"]]


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
        if self.form == "fused":
            query = self.score.weight.expand(len(hidden), 1, -1)
            return functional.scaled_dot_product_attention(query, hidden, value, mask[:, None])[
                :, 0
            ]
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
        self.head = (
            nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, outputs))
            if deep
            else nn.Linear(4, outputs)
        )

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        return self.head(self.pool(self.embedding(ids), mask))


def made(**settings: Any) -> tuple[Net, list[tuple[Any, ...]]]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = Net(**settings)
        ids = torch.randint(30, (3, 5))
    mask = torch.arange(5)[None] < torch.tensor([len(row) for row in TOKENS])[:, None]
    return net, [
        ((ids, mask), TOKENS, [0, 1, 0]),
        ({"ids": ids.flip(0), "mask": mask.flip(0)}, TOKENS[::-1]),
    ]


def naive(net: Net, batches: list[Any], alpha: Any) -> np.ndarray:
    """The module's own classes with its softmax replaced by hand."""
    found: list[np.ndarray] = []
    for inputs, tokens, *_ in batches:
        for text, words in zip(
            inputs["ids"] if "ids" in inputs else inputs[0], tokens, strict=True
        ):
            weights = torch.from_numpy(alpha[len(found)]).float()
            logits = net.head(weights @ net.pool.value(net.embedding(text[: len(words)])))
            classes = logits.softmax(dim=-1) if len(logits) > 1 else logits.sigmoid()
            found.append(classes.detach().double().numpy())
    return np.stack(found)


@pytest.mark.parametrize("form", ["sum", "bmm", "einsum", "column", "fused"])
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
    assert trace.table["label"].to_list() == [0, 1, 0, None, None, None]


@pytest.mark.parametrize(
    ("form", "message"),
    [
        (
            "squares",
            "batch 0: Pool: an output that differs by .* from the weighted sum",
        ),
        ("two", "batch 0: 2 softmaxes in Pool; expected one, of the weights over the tokens"),
        ("ignores padding", "batch 0: weight .* behind the tokens; expected none on padding"),
    ],
)
def test_what_is_no_pooling_is_refused(form: str, message: str) -> None:
    net, batches = made(form=form)
    with pytest.raises(InputError, match=message):
        collect(net, batches, attention="pool")
    assert not net.pool._forward_hooks


@pytest.mark.parametrize("deep", [False, True])
def test_texts_that_influence_each_other_are_refused(deep: bool) -> None:
    net, batches = made(deep=deep)
    net.head = nn.Sequential(_WithoutMean(), net.head)
    expected = "batch 0: logits of a text that differ by .* under other attention of another text; expected texts that do not influence"
    with pytest.raises(InputError, match=expected):
        collect(net, batches, attention="pool")
    one = ((batches[0][0][0][:1], batches[0][0][1][:1]), TOKENS[:1])
    collect(net, [one], attention="pool")


class _WithoutMean(nn.Module):
    """Subtracts the mean over a batch."""

    def forward(self, pooled: Tensor) -> Tensor:
        return pooled - pooled.mean(dim=0)


class Masked(nn.Module):
    """A net of which one class is masked, with a ``fill``."""

    def __init__(self, net: Net, fill: float) -> None:
        super().__init__()
        self.net, self.pool, self.fill = net, net.pool, fill

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        return self.net(ids, mask).masked_fill(torch.tensor([False, False, True]), self.fill)


@pytest.mark.parametrize("fill", [-torch.inf, -1e9])
@pytest.mark.parametrize("deep", [False, True])
def test_a_masked_class_hides_nothing_of_the_others(deep: bool, fill: float) -> None:
    net, batches = made(deep=deep)
    trace = collect(Masked(net, fill), batches[:1], attention="pool")
    assert trace.metadata["tail"] == ("replay" if deep or fill == -torch.inf else "identity")
    alpha = trace.alpha.with_values(1 / trace.alpha.spread(trace.alpha.lengths.astype(float)))
    expected = naive(net, batches[:1], alpha)[:, :2]
    expected /= expected.sum(axis=1, keepdims=True)
    assert np.abs(trace.readout(alpha)[:, :2] - expected).max() <= 1e-6


class ReadsWeights(nn.Module):
    """A net that uses the weights of its pool elsewhere too, of which one class is masked."""

    def __init__(self, fill: float) -> None:
        super().__init__()
        self.embedding, self.head, self.fill = nn.Embedding(30, 6), nn.Linear(6, 3), fill
        self.pool = _Given()

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        pooled, weights = self.pool(self.embedding(ids), mask)
        logits = self.head(pooled) + 5 * weights[:, :1] ** 2 * torch.tensor([1.0, -1.0, 0.0])
        return logits.masked_fill(torch.tensor([False, False, True]), self.fill)


class _Given(nn.Module):
    """A pooling of some heads, each with a weight of each token, whose output ``give`` puts in a form."""

    def __init__(
        self, heads: int = 1, give: Callable[..., Any] = lambda pooled, weights: (pooled, weights)
    ) -> None:
        super().__init__()
        self.score, self.give = nn.Linear(6, heads), give

    def forward(self, hidden: Tensor, mask: Tensor) -> Any:
        weights = (
            self.score(hidden)
            .transpose(1, 2)
            .masked_fill(~mask[:, None], -torch.inf)
            .softmax(dim=2)
        )
        pooled = (weights @ hidden).flatten(1)
        return self.give(pooled, weights[:, 0] if weights.shape[1] == 1 else weights)


@pytest.mark.parametrize("fill", [-torch.inf, 0.0])
def test_weights_that_are_read_elsewhere_are_noticed_beside_a_masked_class(fill: float) -> None:
    batches = made()[1]
    with pytest.raises(
        InputError,
        match=r"logits that differ by .* from those that follow from its output; .*read elsewhere",
    ):
        collect(ReadsWeights(fill), batches[:1], attention="pool")


class Around(nn.Module):
    """A classifier around a `_Given`, of whose output it takes the pooled vectors by ``take``."""

    def __init__(
        self, pool: nn.Module, take: Callable[[Any], Tensor] = lambda given: given, width: int = 6
    ) -> None:
        super().__init__()
        self.embedding, self.pool, self.take = nn.Embedding(30, 6), pool, take
        self.head = nn.Sequential(nn.Linear(width, 8), nn.GELU(), nn.Linear(8, 3))

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        return self.head(self.take(self.pool(self.embedding(ids), mask)))


def test_several_heads_written_by_hand_pool_texts_of_any_length() -> None:
    """Also a batch of fewer tokens than heads."""
    net = Around(_Given(3, lambda pooled, weights: pooled), width=18)
    (ids, mask), *_ = made()[1][0]
    batches = [Batch((ids, mask), TOKENS), ((ids[1:2, :1], mask[1:2, :1]), TOKENS[1:2])]
    trace = collect(net, batches, attention="pool")
    assert trace.table["head"].to_list() == [0, 1, 2] * 4
    assert np.abs(trace.readout(trace.alpha) - trace.prediction).max() <= 1e-6


class SelfAttention(nn.Module):
    """A query for each token, and the mean of what they receive: no pooling by one query."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key = nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, hidden: Tensor, mask: Tensor) -> Tensor:
        scores = (self.query(hidden) @ self.key(hidden).mT).masked_fill(~mask[:, None], -torch.inf)
        return (scores.softmax(dim=2) @ hidden).mean(dim=1)


def of_lengths(*lengths: int) -> list[tuple[Any, ...]]:
    """A batch of two texts of each length."""
    draw = torch.Generator().manual_seed(0)
    ids = [torch.randint(30, (2, length), generator=draw) for length in lengths]
    return [
        ((one, torch.ones_like(one, dtype=torch.bool)), [["w"] * one.shape[1]] * 2) for one in ids
    ]


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        ((4,), "as many rows of weights as tokens, 4"),
        ((4, 4), "as many rows of weights as tokens, 4"),
        ((4, 3), "batch 1: weights: 3 rows of weights for each text, 4 in batch 0"),
    ],
)
def test_a_self_attention_written_by_hand_has_no_heads(
    lengths: tuple[int, ...], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        collect(Around(SelfAttention()), of_lengths(*lengths), attention="pool")


class Pooled(NamedTuple):
    vectors: Tensor
    weights: Tensor


def test_a_pooling_may_return_more_than_its_vectors() -> None:
    batches = made()[1]
    trace = collect(
        Around(_Given(1, Pooled), lambda given: given.vectors), batches, attention="pool"
    )
    assert np.abs(trace.readout(trace.alpha) - trace.prediction).max() <= 1e-6
    net = Around(_Given(1, lambda *both: None), lambda given: torch.zeros(3, 6))
    with pytest.raises(InputError, match="an output of class NoneType"):
        collect(net, batches[:1], attention="pool")


@pytest.mark.parametrize("deep", [False, True])
def test_how_texts_are_batched_decides_nothing(deep: bool) -> None:
    net, [((ids, mask), tokens, _), _] = made(deep=deep, outputs=1)
    alone = [((ids[k : k + 1], mask[k : k + 1]), tokens[k : k + 1]) for k in range(len(tokens))]
    together = collect(net, [((ids, mask), tokens)], attention="pool")
    apart = collect(net, alone, attention="pool")
    assert together.metadata["tail"] == apart.metadata["tail"]
    for name in ("alpha", "readout"):
        first, second = (trace.ragged(name).values for trace in (together, apart))
        assert np.abs(first - second).max() <= 1e-6


class Heads(nn.Module):
    """A classifier around an `nn.MultiheadAttention` with a query of its own; ``reads`` has it use the weights too."""

    def __init__(
        self,
        deep: bool = False,
        reads: bool = False,
        queries: int = 1,
        call: Any = None,
        **options: Any,
    ) -> None:
        super().__init__()
        self.embedding, self.query = nn.Embedding(30, 6), nn.Parameter(torch.randn(1, queries, 6))
        self.pool = nn.MultiheadAttention(6, 2, **options)
        self.head = (
            nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 3)) if deep else nn.Linear(6, 3)
        )
        self.reads, self.call = reads, call or {}

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        hidden, query = self.embedding(ids), self.query.expand(len(ids), -1, -1)
        first = self.pool.batch_first
        query, hidden = (
            (query, hidden) if first else (query.transpose(0, 1), hidden.transpose(0, 1))
        )
        padding = None if bool(mask.all()) else ~mask
        pooled, weights = self.pool(query, hidden, hidden, key_padding_mask=padding, **self.call)
        logits = self.head(pooled[:, 0] if first else pooled[0])
        return logits + (weights.reshape(len(ids), -1)[:, :3] ** 2 if self.reads else 0.0)


def heads(**settings: Any) -> tuple[Heads, list[Any]]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = Heads(**settings)
        ids = torch.randint(30, (3, 5))
        for bias in (net.pool.in_proj_bias, net.pool.out_proj.bias):
            nn.init.normal_(bias)
    mask = torch.arange(5)[None] < torch.tensor([len(row) for row in TOKENS])[:, None]
    return net, [
        ((ids, mask), TOKENS, [0, 1, 0]),
        ((ids[2:], mask[2:]), TOKENS[2:]),
    ]  # the second without padding


def naive_heads(net: Heads, ids: Tensor, alpha: dict[int, Any]) -> np.ndarray:
    """A text's output with the weights ``alpha`` of some of its heads, by a loop over heads."""
    pool, hidden, pooled = net.pool, net.embedding(ids), []
    query, key, value = (
        (x @ w.T + b).reshape(-1, 2, 3)
        for x, w, b in zip(
            (net.query[0], hidden, hidden),
            pool.in_proj_weight.chunk(3),
            pool.in_proj_bias.chunk(3),
            strict=True,
        )
    )
    for head in range(2):
        own = (key[:, head] @ query[0, head] / 3**0.5).softmax(dim=0)
        pooled.append(
            (torch.from_numpy(alpha[head]).float() if head in alpha else own) @ value[:, head]
        )
    return net.head(pool.out_proj(torch.cat(pooled))).softmax(dim=-1).detach().double().numpy()


CALLS: list[dict[str, Any]] = [{}, {"average_attn_weights": False}, {"need_weights": False}]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(("batch_first", "deep"), [(True, False), (False, False), (True, True)])
def test_a_multihead_attention_has_a_row_for_each_head(
    call: dict[str, Any], batch_first: bool, deep: bool
) -> None:
    """Under any weights of one head, and of both at once, whatever form the module returns its weights in."""
    net, batches = heads(call=call, batch_first=batch_first, deep=deep)
    trace = collect(net, batches, attention="pool")
    assert trace.table["head"].to_list() == [0, 1] * 4
    assert trace.instance.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    drawn = trace.alpha.with_values(np.random.default_rng(0).random(len(trace.alpha.values)))
    drawn = drawn.with_values(drawn.values / drawn.spread(drawn.sum()))
    texts = [
        text[: len(tokens)]
        for (ids, _), given, *_ in batches
        for text, tokens in zip(ids, given, strict=True)
    ]
    alone = trace.readout(drawn)
    together = JointReadout(trace.readout, trace.alpha, groups_of(trace, ("instance",)))
    for row, text in enumerate(trace.instance.tolist()):
        assert alone[row] == pytest.approx(
            naive_heads(net, texts[text], {row % 2: drawn[row]}), abs=1e-5
        )
    found = together.predict(np.arange(4), together.sums(drawn)[together.groups.values])
    for text, ids in enumerate(texts):
        assert found[text] == pytest.approx(
            naive_heads(net, ids, {0: drawn[2 * text], 1: drawn[2 * text + 1]}), abs=1e-5
        )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"queries": 2, "batch_first": True},
            "MultiheadAttention: 2 queries for each text; expected one query for each text",
        ),
        ({"add_zero_attn": True}, r"MultiheadAttention: keys of its own \(add_zero_attn\)"),
        ({"add_bias_kv": True}, r"MultiheadAttention: keys of its own \(bias_k, bias_v\)"),
        (
            {"reads": True},
            "logits that differ by .* from those that follow from its output; .*read elsewhere",
        ),
    ],
)
def test_what_a_multihead_attention_must_not_do(settings: dict[str, Any], message: str) -> None:
    net, batches = heads(**settings)
    with pytest.raises(InputError, match=message):
        collect(net, batches, attention="pool")


def test_a_path_that_is_no_module_is_refused() -> None:
    net, batches = made()
    with pytest.raises(
        InputError, match="attention 'pol': no such submodule; expected one of embedding, pool"
    ):
        collect(net, batches, attention="pol")


def test_dropout_is_off_and_every_module_keeps_its_mode() -> None:
    net, batches = made(deep=True)
    net.head = nn.Sequential(nn.BatchNorm1d(4), nn.Dropout(0.5), net.head)
    net.train()
    net.head[1].eval()
    trace = collect(net, batches, attention="pool")
    first, again = (
        attnaudit.audit(trace, ["maximal_change"])["maximal_change"].table for _ in range(2)
    )
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
        with pytest.raises(
            InputError, match="the model that the trace holds: a model with the fingerprint"
        ):
            attnaudit.audit(trace, ["permutation"], replay=replay)


class Wrapped(nn.Module):
    """A net that gives something else than its logits."""

    def __init__(self, net: Net, give: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.net, self.pool, self.give, self.never = net, net.pool, give, nn.Linear(1, 1)

    def forward(self, ids: Tensor, mask: Tensor) -> Any:
        return self.give(self.net(ids, mask))


BATCHES: dict[str, tuple[Callable[[tuple[Any, ...]], Any], str]] = {
    "a tuple of one": (lambda batch: batch[:1], "batch 0: "),
    "a tensor": (lambda batch: (batch[0][0], TOKENS), "batch 0: inputs: Tensor"),
    "not split": (lambda batch: (batch[0], ["a b", *TOKENS[1:]]), "batch 0: tokens: "),
    "no tokens": (lambda batch: (batch[0], None), "batch 0: tokens: "),
    "a label too few": (lambda batch: (*batch[:2], [0, 1]), "label: 2 labels of 3 texts"),
    "half a label": (lambda batch: (*batch[:2], [0, 1, 1.5]), "label: 1.5"),
    "a text too few": (lambda batch: (batch[0], TOKENS[:2]), "for 2 texts"),
}


@pytest.mark.parametrize("case", BATCHES)
def test_a_batch_whose_parts_do_not_fit_is_refused(case: str) -> None:
    change, message = BATCHES[case]
    net, batches = made()
    with pytest.raises(InputError, match=message):
        collect(net, [change(batches[0])], attention="pool")


@pytest.mark.parametrize(
    ("give", "path", "message"),
    [
        (lambda logits: {"logits": logits}, "pool", "batch 0: output: dict; expected logits"),
        (lambda logits: logits.half(), "pool", "torch.float16; expected float32 or float64"),
        (lambda logits: logits[:, 0], "pool", r"a tensor \(3,\) for 3 texts"),
        (lambda logits: logits / 0, "pool", "output: NaN or an infinite logit; expected numbers"),
        (lambda logits: logits, "never", "Linear: not called by Wrapped"),
    ],
)
def test_what_gives_no_logits_is_refused(
    give: Callable[[Tensor], Any], path: str, message: str
) -> None:
    net, batches = made()
    with pytest.raises(InputError, match=message):
        collect(Wrapped(net, give), batches[:1], attention=path)


@pytest.mark.parametrize(
    ("give", "outputs", "function"),
    [
        (torch.sigmoid, 1, "sigmoid"),
        (lambda logits: logits.sigmoid_(), 3, "sigmoid"),
        (nn.Hardsigmoid(), 1, "hardsigmoid"),
        (lambda logits: logits.softmax(dim=1).detach().data, 3, "softmax"),
        (lambda logits: logits.softmax(dim=1).chunk(2, dim=1)[1], 2, "softmax"),
        (lambda logits: logits.sigmoid().squeeze(-1).unsqueeze(1).T.mT, 1, "sigmoid"),
    ],
)
def test_probabilities_are_no_logits(give: Any, outputs: int, function: str) -> None:
    net, batches = made(outputs=outputs)
    with pytest.raises(InputError, match=f"probabilities.* what goes into the {function}"):
        collect(Wrapped(net, give), batches[:1], attention="pool")


@pytest.mark.parametrize(
    "give",
    [lambda logits: logits.sigmoid().logit(), lambda logits: logits.softmax(dim=1).log_()],
)
def test_what_follows_from_probabilities_may_be_logits(give: Callable[[Tensor], Tensor]) -> None:
    net, batches = made()
    assert len(collect(Wrapped(net, give), batches[:1], attention="pool")) == len(TOKENS)


@pytest.mark.slow
def test_it_needs_no_transformers(tmp_path: Path) -> None:
    """As after ``pip install 'attnaudit[train]'``: torch is what it works on."""
    program = f"""
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("transformers", "onnx", "onnxruntime", "onnxscript", "captum"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Missing())
import torch
import attnaudit
class Pool(torch.nn.Module):
    def forward(self, hidden):
        return (hidden.sum(2, keepdim=True).softmax(1) * hidden).sum(1)
net = torch.nn.Sequential(torch.nn.Embedding(9, 4), Pool(), torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 3))
batch = attnaudit.torch.Batch((torch.arange(6).reshape(2, 3),), [["a", "b", "c"]] * 2)
trace = attnaudit.torch.collect(net, batch, attention="1")
attnaudit.write_report(attnaudit.audit(trace, ["permutation", "adversary"]).save({str(tmp_path)!r}), trace)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "report.html").exists()
