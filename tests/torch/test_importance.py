"""Gradient and leave-one-out of a torch module: those of our own classifier, or left out with a reason."""

import re

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from attnaudit.corpora.prepare.vocabulary import BOS, EOS, PAD
from attnaudit.torch import Batch, collect
from attnaudit.tracing.settings import ReplacementSettings
from tests.models.tiny import tiny_model, tiny_split, trace_of
from tests.torch.test_pooling import Heads, of_heads
from tests.traces import assert_same_copies, gaps

LENGTHS = [5, 1, 7, 3, 7, 2]
COLUMNS = ("alpha", "gradient", "loo")


class Pool(nn.Module):
    def __init__(self, attention):
        super().__init__()
        self.attention = attention

    def forward(self, hidden, mask):
        scores = self.attention(hidden, None).masked_fill(~mask, -torch.inf)
        return (scores.softmax(dim=1)[..., None] * hidden).sum(dim=1)


class Wrapped(nn.Module):
    """One of our classifiers in code of a user's own: words, lengths."""

    def __init__(self, model, vectors=False):
        super().__init__()
        self.model, self.pool, self.vectors = model, Pool(model.attention), vectors

    def forward(self, words, lengths, mask):
        own = words if self.vectors else self.model.embedding(words)
        begin, end, nothing = self.model.embedding(torch.tensor([BOS, EOS, PAD]))
        rows, size = own.shape[:2]
        place = torch.arange(size + 2)[None]
        hidden = torch.where(mask[..., None], own, nothing)
        hidden = torch.cat([begin.expand(rows, 1, -1), hidden, nothing.expand(rows, 1, -1)], dim=1)
        hidden = torch.where((place == lengths[:, None] + 1)[..., None], end, hidden)
        hidden = self.model.encoder(hidden, lengths + 2)[:, 1:-1]
        return self.model.head.output(self.pool(hidden, mask))


def batches(model, texts, parts, vectors=False, pad=0):
    """Batches of ids, lengths and masks; or of word vectors instead of ids."""
    ids = model.vocabulary.ids(texts)
    for part in parts:
        lengths = torch.tensor([len(texts[k]) for k in part])
        words = torch.full((len(part), int(lengths.max()) + pad), PAD)
        for row, k in enumerate(part):
            words[row, : len(texts[k])] = torch.from_numpy(ids[k])
        given = model.embedding(words).detach() if vectors else words
        yield (given, lengths, words != PAD), [texts[k] for k in part]


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("vectors", [False, True])
@pytest.mark.parametrize("encoder", ["bilstm", "cnn"])
def test_our_own_classifier_as_a_module_of_a_user_has_the_same_columns(encoder, vectors, classes):
    model, split = tiny_model(encoder, "additive", classes), tiny_split(LENGTHS, classes)
    replacement = ReplacementSettings(copies=10)
    known = trace_of(model, split, replacement=replacement)
    every = list(batches(model, split.tokens, [range(len(LENGTHS))], vectors))
    trace = collect(Wrapped(model, vectors), every, attention="pool", replacement=replacement)
    assert "notes" not in trace.metadata
    assert max(gaps(trace, known, COLUMNS)) <= 1e-5
    assert max(known.ragged("loo").values) > 0.05
    assert_same_copies(trace, known, 1e-5)


def test_batches_and_padding_do_not_matter():
    model, split = tiny_model("bilstm", "additive"), tiny_split(LENGTHS)
    how = {"attention": "pool", "replacement": ReplacementSettings(copies=10)}
    apart = ([[k] for k in range(6)], 0), ([[0, 1], [2, 3, 4, 5]], 3)
    whole, *others = (
        collect(Wrapped(model), batches(model, split.tokens, parts, pad=pad), **how)
        for parts, pad in (([range(6)], 0), *apart)
    )
    for other in others:
        assert max(gaps(whole, other, COLUMNS)) <= 1e-6
        assert_same_copies(whole, other)


class Positions(nn.Module):
    """Words and positions with weights that depend on both; ``two`` embeddings of each word."""

    def __init__(self, packed=False):
        super().__init__()
        self.words, self.more, self.place = (nn.Embedding(50, 4) for _ in range(3))
        self.rnn, self.packed = nn.GRU(8, 3, batch_first=True), packed
        self.score, self.output = nn.Linear(3, 1), nn.Linear(3, 3)

    def forward(self, ids, mask, place):
        hidden = torch.cat([self.words(ids), self.more(ids) * self.place(place)], dim=2)
        if self.packed:
            lengths = mask.sum(dim=1).cpu()
            packed = pack_padded_sequence(hidden, lengths, True, enforce_sorted=False)
            hidden = pad_packed_sequence(self.rnn(packed)[0], True)[0]
        else:
            hidden = self.rnn(hidden)[0]
        alpha = self.score(hidden)[..., 0].masked_fill(~mask, -torch.inf).softmax(dim=1)
        return {"logits": self.output((alpha[..., None] * hidden).sum(dim=1)), "alpha": alpha}

    def naive(self, ids, activation="softmax"):
        text = torch.tensor([ids])
        logits = self(text, text >= 0, torch.arange(len(ids))[None])["logits"][0].double()
        given = logits.sigmoid() if activation == "sigmoid" else logits.softmax(dim=0)
        return given.detach().numpy()


def given(texts, pad=0):
    size = max(map(len, texts)) + pad
    ids = torch.tensor([[*text, *[0] * (size - len(text))] for text in texts])
    mask = torch.arange(size) < torch.tensor([[len(text)] for text in texts])
    place = torch.arange(size).expand(len(texts), -1)
    return Batch((ids, mask, place), [[f"w{word}" for word in text] for text in texts])


TEXTS = [[3, 5, 3, 9], [7, 2], [5, 9, 9, 1, 2], [4, 8, 6, 3, 5]]


@pytest.mark.parametrize(
    ("packed", "shape"),
    [(True, "one batch"), (True, "unpadded"), (False, "one batch"), (False, "padded")],
)
def test_positions_stay_in_order_without_a_token(packed, shape):
    net = Positions(packed)
    parts = [TEXTS] if shape == "one batch" else [TEXTS[2:], TEXTS[:1], TEXTS[1:2]]
    trace = collect(
        net,
        [given(part, 2 if shape == "padded" else 0) for part in parts],
        attention="",
        output="logits",
        replacement=None,
    )
    assert "notes" not in trace.metadata
    texts = [text for part in parts for text in part]
    for text, found in zip(texts, trace.ragged("loo"), strict=True):
        own = net.naive(text)
        for place, value in enumerate(found):
            without = net.naive(text[:place] + text[place + 1 :])
            assert value == pytest.approx(0.5 * np.abs(without - own).sum(), abs=1e-6)


def test_the_gradient_has_attention_fixed_and_every_embedding_of_a_word():
    net, text = Positions(), TEXTS[0]
    trace = collect(net, given([text, *TEXTS[1:]]), attention="", output="logits", replacement=None)
    ids, place = torch.tensor([text]), torch.arange(len(text))[None]
    alpha = torch.from_numpy(trace.alpha[0].copy()).float()
    first, second = (each(ids).detach().requires_grad_() for each in (net.words, net.more))
    hidden = net.rnn(torch.cat([first, second * net.place(place)], dim=2))[0]
    prediction = net.output(alpha @ hidden[0]).softmax(dim=0)
    expected = torch.zeros(len(text))
    for value in prediction:
        slopes = torch.autograd.grad(value, (first, second), retain_graph=True)
        expected += (slopes[0] * first + slopes[1] * second).sum(dim=2)[0].abs()
    np.testing.assert_allclose(trace.ragged("gradient")[0], expected.detach().numpy(), atol=1e-6)


def test_independent_labels_have_both_scores_and_no_copies():
    net = Positions()
    trace = collect(net, given(TEXTS), attention="", output="logits", activation="sigmoid")
    assert trace.has("gradient")
    assert not trace.has("replaced")
    for text, found in zip(TEXTS, trace.ragged("loo"), strict=True):
        gap = net.naive(text[1:], "sigmoid") - net.naive(text, "sigmoid")
        assert found[0] == pytest.approx(0.5 * np.abs(gap).sum(), abs=1e-6)


@pytest.mark.parametrize("batch_first", [False, True])
def test_a_multihead_attention_has_both_scores(batch_first):
    net = Heads(batch_first=batch_first)
    ids, mask, _ = given(TEXTS).inputs
    batch = Batch((ids % 30, mask), given(TEXTS).tokens)
    trace = collect(net, batch, attention="pool", replacement=None)
    for row, text in enumerate(TEXTS):
        alpha = {head: trace.alpha[2 * row + head] for head in (0, 1)}
        hidden = net.embedding(torch.tensor(text)).detach().requires_grad_()
        expected = torch.zeros(len(text))
        for value in of_heads(net, hidden, alpha):
            (slope,) = torch.autograd.grad(value, hidden, retain_graph=True)
            expected += (slope * hidden).sum(dim=1).abs().detach()
        own = of_heads(net, hidden, {})
        for head in (0, 1):
            gradient, loo = (trace.ragged(name)[2 * row + head] for name in ("gradient", "loo"))
            np.testing.assert_allclose(gradient, expected.numpy(), atol=1e-6)
            for place, found in enumerate(loo):
                rest = [word for k, word in enumerate(text) if k != place]
                gap = of_heads(net, net.embedding(torch.tensor(rest)), {}) - own
                assert found == pytest.approx(0.5 * gap.abs().sum().item(), abs=1e-6)


class Stale(nn.Module):
    """Reads what no deletion can change."""

    def __init__(self, form):
        super().__init__()
        self.form, self.words, self.output = form, nn.Embedding(50, 4), nn.Linear(4, 2)

    def forward(self, ids, share):
        if self.form == "one hot":
            hidden = nn.functional.one_hot(ids, 50).float() @ self.words.weight
        else:
            hidden = self.words(ids)
        mask = torch.arange(ids.shape[1]) < (share * 10).round()[:, None]
        alpha = hidden.sum(dim=2).masked_fill(~mask, -torch.inf).softmax(dim=1)
        return self.output(torch.bmm(alpha[:, None], hidden)[:, 0])


@pytest.mark.parametrize(
    ("form", "missing", "note"),
    [
        ("share", ["loo"], "warning: without loo: .* gives padding weight"),
        (
            "one hot",
            ["gradient", "loo"],
            "warning: without gradient: .*no embedding has the argument ids",
        ),
    ],
)
def test_what_cannot_be_done_is_left_out_with_a_reason(form, missing, note):
    batch = given(TEXTS)
    share = torch.tensor([len(text) / 10 for text in TEXTS])
    trace = collect(
        Stale(form), Batch((batch.inputs[0], share), batch.tokens), attention="", replacement=None
    )
    assert [name for name in ("gradient", "loo") if not trace.has(name)] == missing
    assert any(re.match(note, line) for line in trace.metadata["notes"])
