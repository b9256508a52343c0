"""Any torch module with a pooling attention: its trace is the module under any weights, or it is refused."""

from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import attnaudit
from attnaudit.core import InputError
from attnaudit.experiments.joint import groups_of
from attnaudit.report.card import verdict
from attnaudit.results import About
from attnaudit.torch import Batch, collect
from attnaudit.trace.joint import JointReadout
from tests.forked import printed
from tests.traces import gaps, random_attention

TOKENS = [["a", "good", "film"], ["bad"], ["not", "so", "bad", "at", "all"]]
IDS = torch.randint(30, (3, 5), generator=torch.Generator().manual_seed(0))
MASK = torch.arange(5)[None] < torch.tensor([[len(row)] for row in TOKENS])
BATCHES = [
    ((IDS, MASK), TOKENS, [0, 1, 0]),
    ({"ids": IDS.flip(0), "mask": MASK.flip(0)}, TOKENS[::-1]),
]


class Pool(nn.Module):
    """A pooling written in one of several ways."""

    def __init__(self, form):
        super().__init__()
        self.form, self.score, self.value = form, nn.Linear(6, 1), nn.Linear(6, 4)

    def forward(self, hidden, mask):
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
        if self.form == "mean":
            return (weights[..., None] * value).mean(dim=1)
        return ((weights**2 if self.form == "squares" else weights)[..., None] * value).sum(dim=1)


class Inlined(nn.Module):
    """A network that pools in its own forward, before a head."""

    def __init__(self, pool, head):
        super().__init__()
        self.embedding, self.head = nn.Embedding(30, 6), head
        self.score, self.value = pool.score, pool.value
        self.pooling = [pool]  # in a list, so that it is no submodule

    def forward(self, ids, mask):
        return self.head(self.pooling[0].forward(self.embedding(ids), mask))


class Applied(nn.Module):
    """A function as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, given):
        return self.function(given)


def layers(width, deep=True, outputs=3):
    if deep:
        return nn.Sequential(nn.Linear(width, 8), nn.GELU(), nn.Linear(8, outputs))
    return nn.Linear(width, outputs)


class Net(nn.Module):
    """A classifier of padded texts: ``pool`` gives what ``head`` makes logits of."""

    def __init__(self, pool, head):
        super().__init__()
        self.embedding, self.pool, self.head = nn.Embedding(30, 6), pool, head

    def forward(self, ids, mask):
        return self.head(self.pool(self.embedding(ids), mask))


def made(form="sum", deep=False, outputs=3):
    return Net(Pool(form), layers(4, deep, outputs))


def giving(change, **settings):
    """A net that gives something else than its logits."""
    net = made(**settings)
    net.head = nn.Sequential(net.head, Applied(change))
    return net


def collected(net, batches=BATCHES, **options):
    return collect(net, batches, attention="pool", **options)


def refuses(net, message, batches=BATCHES[:1], path: Any = "pool"):
    with pytest.raises(InputError, match=message):
        collect(net, batches, attention=path)


def naive(net, batches, alpha):
    """The module's own classes with its softmax replaced by hand."""
    found = []
    for inputs, tokens, *_ in batches:
        ids = inputs["ids"] if "ids" in inputs else inputs[0]
        for text, words in zip(ids, tokens, strict=True):
            weights = torch.from_numpy(alpha[len(found)]).float()
            logits = net.head(weights @ net.pool.value(net.embedding(text[: len(words)])))
            classes = logits.softmax(dim=-1) if len(logits) > 1 else logits.sigmoid()
            found.append(classes.detach().double().numpy())
    return np.stack(found)


FORMS = pytest.mark.parametrize("form", ["sum", "bmm", "einsum", "column", "fused"])
DEEP = pytest.mark.parametrize("deep", [False, True])


@FORMS
@pytest.mark.parametrize(("deep", "outputs"), [(False, 3), (True, 3), (False, 1)])
def test_the_trace_is_the_module_under_any_attention(form, deep, outputs):
    net = made(form, deep, outputs).train()
    trace = collected(net, class_names=["x", "y", "z"][: max(outputs, 2)])
    assert net.training
    assert trace.metadata["tail"] == ("replay" if deep else "identity")
    for alpha in (trace.alpha, random_attention(trace.alpha)):
        assert np.abs(trace.readout(alpha) - naive(net, BATCHES, alpha)).max() <= 1e-6
    assert trace.table["label"].to_list() == [0, 1, 0, None, None, None]


@FORMS
@DEEP
def test_an_attention_inlined_in_forward_is_found(form, deep):
    pool, head = Pool(form), layers(4, deep)
    net, known = Inlined(pool, head), Net(pool, head)
    known.embedding = net.embedding
    for attention in ("", net):
        trace, expected = collect(net, BATCHES, attention=attention), collected(known)
        assert max(gaps(trace, expected, ("alpha", "readout"))) <= 1e-6
        drawn = random_attention(trace.alpha)
        assert np.abs(trace.readout(drawn) - expected.readout(drawn)).max() <= 1e-6


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ("squares", "Inlined: an output that differs by"),
        ("two", "2 softmaxes in Inlined"),
        ("mean", "Inlined: no sum of what its weights multiply"),
    ],
)
def test_an_inlined_attention_that_is_not_found_says_which_lines_to_move(form, message):
    refuses(
        Inlined(Pool(form), layers(4)), f"{message}.*class Pool.nn.Module.*def forward", path=""
    )


def test_the_attention_may_be_the_module_itself():
    net = made(deep=True)
    found, known = collect(net, BATCHES, attention=net.pool), collected(net)
    assert found.table.equals(known.table)
    refuses(net, "attention Linear: no such submodule; expected one of", path=nn.Linear(1, 1))


class Answer(NamedTuple):
    scores: Tensor
    weights: Tensor


@pytest.mark.parametrize(
    ("give", "output"),
    [
        (lambda logits: (None, logits), 1),
        (lambda logits: {"loss": None, "logits": logits}, "logits"),
        (lambda logits: Answer(logits, logits), "scores"),
    ],
)
def test_logits_are_picked_by_name_or_position(give, output):
    last = Applied(lambda logits: logits)
    net = Net(Pool("sum"), nn.Sequential(layers(4), last))
    plain = collected(net)
    drawn = random_attention(plain.alpha)
    expected, last.function = plain.readout(drawn), give
    trace = collected(net, output=output)
    assert trace.table.equals(plain.table)
    assert np.array_equal(trace.readout(drawn), expected)
    with pytest.raises(InputError, match=r"without 'x'; expected the logits, one of"):
        collected(net, output="x")
    with pytest.raises(InputError, match=r"a Tensor without .*leave output= out"):
        collected(made(), output=output)


def test_the_card_has_the_name_of_the_model():
    for options, name in (({}, "Net"), ({"name": "BiGRU"}, "BiGRU")):
        results = attnaudit.audit(collected(made(), **options), "permutation")
        assert (
            verdict(results.summary, About.of(None, results.metadata)).title
            == f"{name} on this trace"
        )


def test_padding_among_the_tokens_is_left_out_with_a_note():
    net = made()
    own = collected(net, BATCHES[:1])
    padded = [[*row, *["<pad>"] * (5 - len(row))] for row in TOKENS]
    trace = collected(net, [((IDS, MASK), padded, [0, 1, 0])])
    assert trace.table.drop("readout").equals(own.table.drop("readout"))
    assert "6 tokens that the module masks, as padding, left out" in trace.metadata["notes"]
    first = torch.arange(5)[None] > 0
    refuses(
        net, "weight 0 for token 0 of text 0, 'a', as of a mask", [((IDS, first), [["a"] * 5] * 3)]
    )


def test_names_of_classes_may_be_a_mapping():
    for names in ({"neg": 0, "mid": 1, "pos": 2}, {2: "pos", 0: "neg", 1: "mid"}):
        assert collected(made(), BATCHES[:1], class_names=names).class_names == [
            "neg",
            "mid",
            "pos",
        ]
    with pytest.raises(InputError, match="metadata made"):
        collected(made(), metadata={"made": {1}})


def test_outputs_may_be_independent_labels():
    net = made()
    trace = collected(net, activation="sigmoid")
    expected = net(*BATCHES[0][0]).sigmoid().detach().numpy()
    np.testing.assert_allclose(trace.prediction[:3], expected, atol=1e-6)
    attnaudit.audit(trace, "permutation")
    with pytest.raises(InputError, match="activation: softmax of one output; expected sigmoid"):
        collected(made(outputs=1), activation="softmax")
    with pytest.raises(InputError, match="activation: 'relu'; expected softmax or sigmoid"):
        collected(made(), activation="relu")


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ("squares", "batch 0: Pool: an output that differs by .* from the weighted sum"),
        ("two", "batch 0: 2 softmaxes in Pool; expected one, of the weights over the tokens"),
        ("ignores padding", "batch 0: weight .* behind the tokens; expected none on padding"),
    ],
)
def test_what_is_no_pooling_is_refused(form, message):
    net = made(form)
    refuses(net, message)
    assert not net.pool._forward_hooks


@DEEP
def test_texts_that_influence_each_other_are_refused(deep):
    net = made(deep=deep)
    net.head = nn.Sequential(Applied(lambda pooled: pooled - pooled.mean(dim=0)), net.head)
    refuses(net, "batch 0: logits of a text that differ by .* under other attention of another")
    collected(net, [((IDS[:1], MASK[:1]), TOKENS[:1])])


@pytest.mark.parametrize("fill", [-torch.inf, -1e9])
@DEEP
def test_a_masked_class_hides_nothing_of_the_others(deep, fill):
    net = giving(lambda logits: logits.masked_fill(THIRD, fill), deep=deep)
    trace = collected(net)
    assert trace.metadata["tail"] == ("replay" if deep or fill == -torch.inf else "identity")
    alpha = random_attention(trace.alpha)
    assert np.abs(trace.readout(alpha) - naive(net, BATCHES, alpha)).max() <= 1e-6


THIRD = torch.tensor([False, False, True])


class ByHand(nn.Module):
    """A pooling of some heads, each with a weight of each token; ``give`` puts both in a form."""

    def __init__(self, heads=1, give=lambda *both: both):
        super().__init__()
        self.score, self.give = nn.Linear(6, heads), give

    def forward(self, hidden, mask):
        scores = self.score(hidden).transpose(1, 2).masked_fill(~mask[:, None], -torch.inf)
        weights = scores.softmax(dim=2)
        return self.give((weights @ hidden).flatten(1), weights)


@pytest.mark.parametrize("fill", [-torch.inf, 0.0])
def test_weights_that_are_read_elsewhere_are_noticed_beside_a_masked_class(fill):
    linear = nn.Linear(6, 3)

    def reads_weights(given):
        pooled, weights = given
        logits = linear(pooled) + 5 * weights[:, 0, :1] ** 2 * torch.tensor([1.0, -1.0, 0.0])
        return logits.masked_fill(THIRD, fill)

    refuses(Net(ByHand(), Applied(reads_weights)), "logits that differ by .*read elsewhere")


def test_several_heads_written_by_hand_pool_texts_of_any_length():
    """Also a batch of fewer tokens than heads."""
    net = Net(ByHand(3, lambda pooled, weights: pooled), layers(18))
    trace = collected(
        net, [Batch((IDS, MASK), TOKENS), ((IDS[1:2, :1], MASK[1:2, :1]), TOKENS[1:2])]
    )
    assert trace.table["head"].to_list() == [0, 1, 2] * 4
    assert np.abs(trace.readout(trace.alpha) - trace.prediction).max() <= 1e-6


class SelfAttention(nn.Module):
    """A query for each token, and the mean of what they receive: no pooling by one query."""

    def __init__(self):
        super().__init__()
        self.query, self.key = nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, hidden, mask):
        scores = (self.query(hidden) @ self.key(hidden).mT).masked_fill(~mask[:, None], -torch.inf)
        return (scores.softmax(dim=2) @ hidden).mean(dim=1)


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        ((4, 4), "as many rows of weights as tokens, 4"),
        ((4, 3), "batch 1: weights: 3 rows of weights for each text, 4 in batch 0"),
    ],
)
def test_a_self_attention_written_by_hand_has_no_heads(lengths, message):
    batches = [
        ((IDS[:2, :length], torch.ones(2, length, dtype=torch.bool)), [["w"] * length] * 2)
        for length in lengths
    ]
    refuses(Net(SelfAttention(), layers(6)), message, batches)


class Pooled(NamedTuple):
    vectors: Tensor
    weights: Tensor


def test_a_pooling_may_return_more_than_its_vectors():
    head = nn.Sequential(Applied(lambda given: given.vectors), layers(6))
    trace = collected(Net(ByHand(1, Pooled), head))
    assert np.abs(trace.readout(trace.alpha) - trace.prediction).max() <= 1e-6
    nothing = Net(ByHand(1, lambda *both: None), Applied(lambda given: torch.zeros(3, 3)))
    refuses(nothing, "an output of class NoneType")


@DEEP
def test_how_texts_are_batched_decides_nothing(deep):
    net = made(deep=deep, outputs=1)
    alone = [((IDS[k : k + 1], MASK[k : k + 1]), TOKENS[k : k + 1]) for k in range(3)]
    together, apart = collected(net, BATCHES[:1]), collected(net, alone)
    assert together.metadata["tail"] == apart.metadata["tail"]
    assert max(gaps(together, apart, ("alpha", "readout"))) <= 1e-6


class Heads(nn.Module):
    """A classifier around an `nn.MultiheadAttention` with a query of its own; ``reads`` has it use the weights too."""

    def __init__(self, deep=False, reads=False, queries=1, call=None, **options):
        super().__init__()
        self.embedding, self.query = nn.Embedding(30, 6), nn.Parameter(torch.randn(1, queries, 6))
        self.pool, self.head = nn.MultiheadAttention(6, 2, **options), layers(6, deep)
        for bias in (self.pool.in_proj_bias, self.pool.out_proj.bias):
            nn.init.normal_(bias)
        self.reads, self.call = reads, call or {}

    def forward(self, ids, mask):
        hidden, query = self.embedding(ids), self.query.expand(len(ids), -1, -1)
        first = self.pool.batch_first
        if not first:
            query, hidden = query.transpose(0, 1), hidden.transpose(0, 1)
        padding = None if bool(mask.all()) else ~mask
        pooled, weights = self.pool(query, hidden, hidden, key_padding_mask=padding, **self.call)
        logits = self.head(pooled[:, 0] if first else pooled[0])
        return logits + (weights.reshape(len(ids), -1)[:, :3] ** 2 if self.reads else 0.0)


def naive_heads(net, ids, alpha):
    """A text's output with the weights ``alpha`` of some of its heads."""
    return of_heads(net, net.embedding(ids), alpha).detach().double().numpy()


def of_heads(net, hidden, alpha):
    """The same from word vectors, by a loop over heads."""
    pool, pooled = net.pool, []
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
        weights = (key[:, head] @ query[0, head] / 3**0.5).softmax(dim=0)
        if head in alpha:
            weights = torch.from_numpy(alpha[head]).float()
        pooled.append(weights @ value[:, head])
    return net.head(pool.out_proj(torch.cat(pooled))).softmax(dim=-1)


CALLS = [{}, {"average_attn_weights": False}, {"need_weights": False}]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(("batch_first", "deep"), [(True, False), (False, False), (True, True)])
def test_a_multihead_attention_has_a_row_for_each_head(call, batch_first, deep):
    """Under any weights of one head, and of both at once, whatever form the module returns its weights in."""
    net = Heads(call=call, batch_first=batch_first, deep=deep)
    without_padding = ((IDS[2:], MASK[2:]), TOKENS[2:])
    trace = collected(net, [BATCHES[0], without_padding])
    assert trace.table["head"].to_list() == [0, 1] * 4
    assert trace.instance.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    drawn = random_attention(trace.alpha)
    alone = trace.readout(drawn)
    joint = JointReadout(trace.readout, trace.alpha, groups_of(trace, ("instance",)))
    together = joint.predict(np.arange(4), trace.readout.weighted_sums(drawn)[joint.groups.values])
    for text, place in enumerate((0, 1, 2, 2)):
        ids, heads = IDS[place, : len(TOKENS[place])], {k: drawn[2 * text + k] for k in (0, 1)}
        assert together[text] == pytest.approx(naive_heads(net, ids, heads), abs=1e-5)
        for head, weights in heads.items():
            expected = naive_heads(net, ids, {head: weights})
            assert alone[2 * text + head] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"queries": 2, "batch_first": True}, "MultiheadAttention: 2 queries for each text"),
        ({"add_zero_attn": True}, r"MultiheadAttention: keys of its own \(add_zero_attn\)"),
        ({"add_bias_kv": True}, r"MultiheadAttention: keys of its own \(bias_k, bias_v\)"),
        ({"reads": True}, "logits that differ by .*read elsewhere"),
    ],
)
def test_what_a_multihead_attention_must_not_do(settings, message):
    refuses(Heads(**settings), message)


def test_dropout_is_off_and_every_module_keeps_its_mode():
    net = made(deep=True)
    norm, dropout = nn.BatchNorm1d(4), nn.Dropout(0.5)
    net.head = nn.Sequential(norm, dropout, net.head)
    net.train()
    dropout.eval()
    trace = collected(net)
    first, again = (
        attnaudit.audit(trace, ["maximal_change"])["maximal_change"].table for _ in range(2)
    )
    assert first.equals(again)
    assert torch.equal(norm.get_buffer("running_mean"), torch.zeros(4))
    assert (norm.training, dropout.training) == (True, False)


def test_a_module_that_was_trained_further_is_noticed():
    net = made(deep=True)
    trace = collected(net, metadata={"model": {"name": "mine"}})
    assert trace.metadata["model"]["name"] == "mine"
    attnaudit.audit(trace, ["permutation"], replay=net)
    with torch.no_grad():
        net.embedding.weight += 0.01
    for replay in (None, net):
        with pytest.raises(InputError, match="the model that the trace holds: a model with the"):
            attnaudit.audit(trace, ["permutation"], replay=replay)


INPUTS = BATCHES[0][0]


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ((INPUTS,), "batch 0: "),
        ((IDS, TOKENS), "batch 0: inputs: Tensor"),
        ((INPUTS, ["a b", *TOKENS[1:]]), "batch 0: tokens: "),
        ((INPUTS, None), "batch 0: tokens: "),
        ((INPUTS, TOKENS, [0, 1]), "label: 2 labels of 3 texts"),
        ((INPUTS, TOKENS, [0, 1, 1.5]), "label: 1.5"),
        ((INPUTS, TOKENS[:2]), "for 2 texts"),
    ],
)
def test_a_batch_whose_parts_do_not_fit_is_refused(batch, message):
    refuses(made(), message, [batch])


@pytest.mark.parametrize(
    ("give", "path", "message"),
    [
        (lambda logits: "logits", "pool", "batch 0: output: str; expected logits"),
        (
            lambda logits: {"x": 1, "y": logits},
            "pool",
            r"a dict; .* one of 'x', 'y'; .* as output=",
        ),
        (
            lambda logits: (logits, 1),
            "pool",
            "a tuple; expected the logits, one of 0, 1; .* as output=",
        ),
        (lambda logits: logits.half(), "pool", "torch.float16; expected float32 or float64"),
        (lambda logits: logits[:, 0], "pool", r"a tensor \(3,\) for 3 texts"),
        (lambda logits: logits / 0, "pool", "output: NaN or an infinite logit; expected numbers"),
        (lambda logits: logits, "never", "Linear: not called by Net"),
        (lambda logits: logits, "pol", "'pol': no such submodule; expected one of embedding, pool"),
    ],
)
def test_what_gives_no_logits_or_weights_is_refused(give, path, message):
    net = giving(give)
    net.never = nn.Linear(1, 1)
    refuses(net, message, path=path)


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
def test_probabilities_are_no_logits(give, outputs, function):
    net = giving(give, outputs=outputs)
    refuses(net, f"probabilities.* what goes into the {function}")


@pytest.mark.parametrize(
    "give", [lambda logits: logits.sigmoid().logit(), lambda logits: logits.softmax(dim=1).log_()]
)
def test_what_follows_from_probabilities_may_be_logits(give):
    assert len(collected(giving(give), BATCHES[:1])) == len(TOKENS)


@pytest.mark.slow
def test_it_needs_no_transformers(tmp_path):
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
    printed(program)
    assert (tmp_path / "report.html").exists()
