"""Positions whose next token is audited: drawn by seed and instance alone, each a prefix that the model reads as it does the whole."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from attnaudit.core.ragged import Ragged
from attnaudit.hf.encode import encode
from attnaudit.hf.encoded import Written, at_positions, positions_of
from attnaudit.hf.texts import Texts
from attnaudit.torch.capture import forward
from tests.hf.classes import tiny
from tests.hf.encoding import random_texts
from tests.hf.test_trace import traced
from tests.hf.tokenizing import small, tokenizer


def pairs(number=12):
    return random_texts(tiny("MarianMTModel"), number)


def drawn(texts, seed=0):
    """The position of every instance."""
    found = at_positions(texts, "one", seed)
    assert found.written is not None
    return dict(zip(found.instance.tolist(), found.written.ids.lengths.tolist(), strict=True))


def test_the_draw_depends_on_seed_and_instance_alone():
    texts = pairs()
    every = drawn(texts)
    order = np.random.default_rng(0).permutation(len(texts))
    assert drawn(texts.take(order)) == every
    assert drawn(texts.take(order[:3])).items() <= every.items()
    assert drawn(texts, seed=1) != every


def test_every_position_is_drawn_equally_often():
    texts = pairs(1).take(np.zeros(6000, np.int64))
    written = Ragged.from_rows([np.arange(4)] * 6000)
    forced = written.with_values(np.zeros(24000, bool))
    target = Written(written, written, [list("abcd")] * 6000, written, forced)
    texts = replace(texts, instance=np.arange(6000), written=target)
    count = Counter(drawn(texts).values())
    assert sorted(count) == [1, 2, 3, 4]
    assert all(abs(number - 1500) < 150 for number in count.values())


def test_tokens_that_are_given_are_never_predicted():
    texts = pairs(40)
    assert texts.written is not None
    own = texts.written.forced
    forced = np.zeros(len(own.values), bool)
    # As the language code that ends a target of mBART.
    forced[own.offsets[1:] - 1] = own.lengths > 1
    texts = replace(texts, written=replace(texts.written, forced=own.with_values(forced)))
    for positions in ("one", "all", "last"):
        found = at_positions(texts, positions).written
        assert found is not None
        assert not found.forced.values[found.forced.offsets[1:] - 1].any()
    last = at_positions(texts, "last").written
    assert last is not None
    assert last.ids.lengths.tolist() == np.maximum(own.lengths - 1, 1).tolist()


def test_all_positions_are_every_prefix_once():
    texts = pairs(5)
    found = at_positions(texts, "all")
    assert texts.written is not None
    assert found.written is not None
    expected = [
        (row, row_ids[: size + 1].tolist())
        for row, row_ids in enumerate(texts.written.ids)
        for size in range(len(row_ids))
    ]
    assert [
        (row, ids.tolist())
        for row, ids in zip(found.instance.tolist(), found.written.ids, strict=True)
    ] == expected


@pytest.mark.parametrize("cross", [False, True])
def test_a_row_has_the_attention_of_its_position_and_says_which_it_is(cross, tmp_path):
    model = tiny("MarianMTModel")
    texts = random_texts(model, 2, lengths=(3, 6))
    case = traced(model, tmp_path, "last", at_positions(texts, "all"), cross=cross)
    trace = case.trace
    assert texts.written is not None
    assert len(trace) == 4 * texts.written.ids.lengths.sum()  # heads
    passes = [forward(model, texts.batch([row])) for row in range(len(texts))]
    stack = "cross" if cross else "decoder"
    number = max(k for k, layer in enumerate(case.gate.layers) if layer.stack == stack)
    places = trace.table.select("instance", "head", "query", "label").rows()
    for row, (instance, head, query, label) in enumerate(places):
        whole = passes[instance].attentions[number].weights[0, head, query]
        np.testing.assert_allclose(trace.alpha[row], whole[: len(trace.alpha[row])], atol=1e-5)
        assert label == texts.written.next_ids[instance][query]
        both = [texts.tokens[instance], texts.written.tokens[instance][: query + 1]]
        shown = [trace.tokens(row), trace.cell("question", row)]
        assert shown == (both if cross else both[::-1])


def test_a_trace_of_drawn_positions_does_not_depend_on_order_batches_or_shards(tmp_path):
    model = tiny("MarianMTModel")
    texts, key = random_texts(model, 4, lengths=(3, 6)), ["instance", "head", "query"]

    def rows(folder, texts, **options):
        options |= {"cross": True, "scores": ("loo",)}
        trace = traced(model, folder, "last", at_positions(texts, "one", 3), **options).trace
        return trace.table.select(*key, "alpha", "loo", "prediction").sort(key)

    together = rows(tmp_path / "a", texts)
    alone = rows(tmp_path / "b", texts.take(np.array([3, 2, 0, 1])), budget=1, shard_texts=2)
    assert together.select(key).equals(alone.select(key))
    for name in ("alpha", "loo", "prediction"):
        first, second = (frame[name].explode().to_numpy() for frame in (together, alone))
        np.testing.assert_allclose(first, second, atol=1e-5)


def prompts(template):
    model, rows = small("GPT2LMHeadModel"), ["the wooden ladder", "a mill"]
    texts = Texts("given", "causal-lm", rows, np.arange(2), ["all"] * 2, "")
    return encode(model, tokenizer("bytes", template), texts)


def test_a_prompt_ends_where_it_ends_unless_positions_are_asked_for():
    texts = prompts("[CLS] $A")
    assert at_positions(texts, positions_of("causal-lm")) is texts
    every = at_positions(texts, "all")
    assert every.ids.lengths.tolist() == [
        size for ids in texts.ids for size in range(2, len(ids) + 1)
    ]  # [CLS] alone is no text
    assert every.label is not None
    for row, label in enumerate(every.label.tolist()):
        ids = texts.ids[int(every.instance[row])]
        size = len(every.ids[row])
        assert label == (ids[size] if size < len(ids) else -1)
        assert every.tokens[row] == texts.tokens[int(every.instance[row])][:size]


def test_a_prompt_ends_before_the_tokens_that_a_tokenizer_appends():
    found, plain = at_positions(prompts("[CLS] $A [SEP]"), "last"), prompts("[CLS] $A")
    assert found.tokens == plain.tokens
    assert_array_equal(found.word_id.values, plain.word_id.values)
    assert found.label is None
    assert "end of 2 texts removed" in found.notes[-1]
    whole = replace(plain, class_names=("a", "b"))
    assert at_positions(whole, "last") is whole
