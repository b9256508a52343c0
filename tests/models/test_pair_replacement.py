"""Copies of a translator's sources with words replaced: each gold token is predicted after the same target."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import attnaudit as aa
from attnaudit.core.ragged import Ragged
from attnaudit.experiments.copies import copies_of, log_odds
from attnaudit.experiments.verdict import decide_verdict
from attnaudit.models.seq2seq import Additive
from attnaudit.stats.measures import tvd
from attnaudit.trace import concatenate
from attnaudit.tracing.pairs import PairReplacement, collect_pairs
from attnaudit.tracing.replacement import Donors
from attnaudit.tracing.settings import PairCollectSettings, ReplacementSettings
from tests.pairs import reversed_pairs, small_translator
from tests.traces import assert_copies, assert_same_copies

SETTINGS = ReplacementSettings(texts=9, copies=20)


def traced(translator, pairs, **options):
    options = {"replacement": SETTINGS, **options}
    settings = PairCollectSettings(scores=("loo",))
    return concatenate([*collect_pairs(translator, pairs, "test", settings, **options)])


def naive(translator, pairs, row, number):
    """Positions that the copies of a gold token's source lose, and predictions of one copy at a time."""
    replacement = PairReplacement.of(translator, pairs, "test", settings=SETTINGS)
    lost, ids = replacement.copies(row, number)
    pair, at = int(replacement.pair[row]), int(replacement.keys[1][row])
    own = translator.inputs(pairs)
    for place, words in enumerate(ids.T):
        others = [
            text[place] for k, text in enumerate(own.source) if len(text) > place and k != pair
        ]
        assert (words == own.source[pair][place])[~lost[:, place]].all()
        assert {*words[lost[:, place]].tolist()} <= {*(others or own.source.values.tolist())}
    before = own.batch(np.array([pair])).before
    model = translator.model
    with torch.no_grad():
        read = [model.follow(torch.from_numpy(copy[None]), before).combined[0, at] for copy in ids]
        return lost, model.logits(torch.stack(read)).double().softmax(dim=-1).numpy()


@pytest.mark.parametrize("heads", [1, 2])
def test_copies_are_the_translator_on_words_of_other_sources(heads):
    pairs = reversed_pairs(6, seed=5)
    translator = small_translator(reversed_pairs(60), heads=heads)
    trace = traced(translator, pairs)
    copied = np.flatnonzero(trace.table["replaced"].is_not_null().to_numpy())
    assert len(copied) == 9 * heads
    for row in copied.tolist():
        assert_copies(trace.table[row], *naive(translator, pairs, row // heads, 240))


def test_nothing_but_the_pairs_matters(monkeypatch):
    pairs, translator = reversed_pairs(7, seed=5), small_translator(reversed_pairs(60))
    whole = traced(translator, pairs)
    monkeypatch.setattr("attnaudit.tracing.pairs.SHARD_PAIRS", 2)
    monkeypatch.setattr("attnaudit.tracing.pairs.BUDGET", 3)
    plain = replace(pairs, links=None)  # links are in the order of their pairs
    split = [traced(translator, pairs, part=part) for part in np.split(np.arange(7), [3])]
    others = [
        traced(translator, pairs),
        concatenate(split),
        traced(translator, plain.take(np.random.default_rng(0).permutation(7))),
    ]
    for other in others:
        same = other.take(np.lexsort((other.array("query"), other.instance)))
        assert_same_copies(same, whole)


def test_three_of_many_outputs_have_the_log_odds_of_all(monkeypatch):
    """As in a vocabulary of more than 1,000 words."""
    for module in ("tracing.replacement", "trace.check"):
        monkeypatch.setattr(f"attnaudit.{module}.MOST_OUTPUTS", 10)
    pairs, translator = reversed_pairs(6, seed=5), small_translator(reversed_pairs(60))
    trace = traced(translator, pairs)
    copied = trace.table["replaced"].is_not_null().to_numpy()
    for row, copies in copies_of(trace, copied):
        lost, full = naive(translator, pairs, row, 241)
        assert (copies.lost == lost[1:]).all()
        own, predicted = full[0], int(trace.predicted[row])
        few = trace.table["replaced_prediction"][row].to_numpy()
        assert few.shape == (240, 3)
        np.testing.assert_allclose(few.sum(axis=1), 1.0)
        odds = log_odds(full, np.full(len(full), predicted))
        falls = odds[0] - odds[1:]
        np.testing.assert_allclose(copies.fall, falls, atol=2e-4)
        p, q = few[:, :1], np.full((240, 1), own[predicted])
        assert (np.abs(p - q)[:, 0] <= tvd(full[1:], np.tile(own, (240, 1))) + 1e-6).all()


def test_positions_of_a_text_are_no_other_text():
    rows = [(0, 3), (0, 5), (1, 2), (1, 7), (2, 6)]  # number and length
    words = Ragged.from_rows([np.arange(length) + 100 * number for number, length in rows])
    donors = Donors(words, np.array([number for number, _ in rows]))
    for row, (number, length) in enumerate(rows):
        drawn = donors.draw(row, 400, np.random.default_rng(0))
        assert {*(drawn // 100).ravel().tolist()} == {0, 1, 2} - {number}
        assert length == 7 or (drawn % 100 == np.arange(length)).all()


@pytest.mark.parametrize("code", ["show", "where"])
def test_the_answer_for_attention_that_is_faithful_by_construction_and_not(code):
    """Attention over embedded words that alone decide the output, and over states that add nothing."""
    pairs = reversed_pairs(80)
    if code == "show":
        sizes = {"embedding": 16, "hidden": 16, "recurrent": False, "attention": "uniform"}
        translator = small_translator(pairs, **sizes)
        torch.manual_seed(0)
        translator.model.attention = attention = Additive(16, 1).double()
        attention.score.weight.data *= 9.0  # peaked
    else:
        translator = small_translator(pairs, attention="additive")
        translator.model.of_context.weight.data *= 0.0
    trace = traced(translator, pairs, replacement=ReplacementSettings())
    assert decide_verdict(aa.audit(trace, "replacement").summary).code == code
