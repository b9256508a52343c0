"""Copies of a transformer's texts: whole words give way to words of as many pieces of other texts."""

import numpy as np
import pytest
import torch

from attnaudit.corpora.corpus import keyed
from attnaudit.hf.encode import encode
from attnaudit.hf.encoded import at_positions
from attnaudit.hf.gate import check_model
from attnaudit.hf.replacement import WordDonors
from attnaudit.hf.texts import read_texts
from attnaudit.trace import concatenate
from attnaudit.tracing.settings import ReplacementSettings
from tests.hf.classes import tiny
from tests.hf.encoding import random_texts
from tests.hf.test_trace import shards_of
from tests.hf.tokenizing import small, texts, tokenizer
from tests.traces import assert_copies, assert_same_copies

BERT = "BertForSequenceClassification"
LONE = "unpronounceableincomprehensibility"  # no other word has as many pieces


def traced(model, given, folder, **options):
    options = {"replacement": ReplacementSettings(texts=6), "scores": (), **options}
    return concatenate([*shards_of(model, check_model(model), given, folder, **options)])


def words(given, row):
    """Places of the pieces of each word of a text."""
    ids = given.word_id[row]
    return [np.flatnonzero(ids == word) for word in np.unique(ids[ids >= 0])]


@pytest.mark.parametrize("name", [BERT, "GPT2ForSequenceClassification"])
def test_copies_are_the_text_with_words_of_others(name, tmp_path):
    model = small(name)
    pairs = [(text, "so it is") for text in [*texts()[:5], f"a {LONE}"]]
    given = encode(model, tokenizer("wordpiece"), read_texts(pairs))
    trace, donors = traced(model, given, tmp_path, layers="all"), WordDonors(given)
    stays = max(map(len, words(given, 5)))
    for row in range(6):
        lost, ids = donors.copies(row, 240, keyed(0, "replacement", str(row)))
        rows = trace.table.filter(instance=row)
        assert len(rows) == 8
        assert not lost[:, given.word_id[row] < 0].any()
        assert (ids == given.ids[row])[~lost].all()
        others = {
            tuple(given.ids[other][word])
            for other in {*range(6)} - {row}
            for word in words(given, other)
        }
        for word in words(given, row):
            copies = lost[:, word].any(axis=1)
            assert lost[copies][:, word].all()
            assert copies.any() == (row != 5 or len(word) != stays)
            assert {tuple(one) for one in ids[copies][:, word]} <= others
        with torch.no_grad():
            alone = torch.cat([model(torch.from_numpy(one[None])).logits for one in ids])
        assert_copies(rows, lost, alone.double().softmax(dim=-1))


def test_nothing_but_the_texts_matters(tmp_path):
    model, order = tiny(BERT), np.random.default_rng(0).permutation(7)
    given, few = random_texts(model, 7), {"replacement": ReplacementSettings(texts=2)}
    whole = traced(model, given, tmp_path, shard_texts=3, **few)
    parts = [
        traced(model, given, tmp_path, shard_texts=3, part=part, **few)
        for part in np.split(np.arange(7), [3])
    ]
    assert concatenate(parts).table.equals(whole.table), "calls of a pool make the same bytes"
    assert whole.table["replaced"].null_count() == 5 * 4  # heads of texts that are not chosen
    for other in (
        traced(model, given, tmp_path, budget=1, **few),
        traced(model, given.take(order), tmp_path, **few),
    ):
        same = other.take(np.lexsort((other.array("head"), other.instance)))
        assert_same_copies(same, whole)


def test_rows_of_a_part_of_a_text_have_no_copies(tmp_path):
    model = tiny("MistralForSequenceClassification", sliding_window=8)
    given = random_texts(model, 4, lengths=(6, 12))
    is_null = traced(model, given, tmp_path).table["replaced"].is_null().to_list()
    assert is_null == np.repeat(given.ids.lengths > 8, 4).tolist()
    assert {*is_null} == {True, False}


@pytest.mark.parametrize(("name", "cross"), [("GPT2LMHeadModel", False), ("MarianMTModel", True)])
def test_next_tokens_are_predicted_after_copies_of_the_text(name, cross, tmp_path):
    """Of some positions of every text: what a decoder has written stays."""
    model = tiny(name)
    given = at_positions(random_texts(model, 3), "all")
    options = {"cross": cross, "replacement": ReplacementSettings(texts=4, copies=20)}
    trace, donors = traced(model, given, tmp_path, **options), WordDonors(given)
    sizes, copied = given.read.ids.lengths.tolist(), 0
    for row, (instance, size) in enumerate(zip(given.instance.tolist(), sizes, strict=True)):
        rows = trace.table.filter(instance=instance, query=size - 1)
        if rows["replaced"].null_count():
            continue
        copied += 1
        lost, ids = donors.copies(row, 240, keyed(0, "replacement", str(instance), str(size)))
        assert len(rows) == 4
        assert (ids == given.ids[row])[~lost].all()
        others = given.take(np.flatnonzero(given.instance != instance)).ids.values
        assert {*ids[lost].tolist()} <= {*others.tolist()}
        with torch.no_grad():
            inputs = given.take(np.full(240, row)).batch(range(240))
            logits = model(**inputs | {"input_ids": torch.from_numpy(ids)}).logits[:, -1]
        assert_copies(rows, lost, logits.double().softmax(dim=-1))
    assert copied == 4
    order = np.random.default_rng(0).permutation(len(given))
    other = traced(model, given.take(order), tmp_path, budget=1, **options)
    same = other.take(np.lexsort((other.array("head"), other.array("query"), other.instance)))
    assert_same_copies(same, trace)


def test_words_of_a_target_are_not_replaced(tmp_path):
    model = tiny("MarianMTModel")
    assert not traced(model, random_texts(model, 3), tmp_path).has("replaced")
