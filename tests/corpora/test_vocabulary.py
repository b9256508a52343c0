"""Words to numbers and back."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnaudit.core import InputError
from attnaudit.corpora.prepare.vocabulary import Vocabulary

SPECIAL = ("<pad>", "<unk>", "<bos>", "<eos>")
TOKEN_LISTS = st.lists(
    st.lists(st.sampled_from([*"abcdefgé", "<pad>", "<unk>", "<eos>"]), max_size=8), max_size=12
)


def test_order_and_min_df():
    lists = [["b", "a", "a", "a"], ["b", "c"], ["c", "z"]]
    assert Vocabulary.build(lists, 1).words == (*SPECIAL, "b", "c", "a", "z")
    assert Vocabulary.build(lists, 2).words == (*SPECIAL, "b", "c")


@given(TOKEN_LISTS, st.integers(1, 3))
def test_words_come_back_or_are_unknown(lists, min_df):
    vocabulary = Vocabulary.build(lists, min_df)
    ids = vocabulary.ids(lists)
    assert ids.lengths.tolist() == [len(tokens) for tokens in lists]
    for tokens, numbers in zip(lists, ids, strict=True):
        for word, number in zip(tokens, numbers.tolist(), strict=True):
            rows = sum(word in other for other in lists)
            known = rows >= min_df and word not in SPECIAL
            assert vocabulary.words[number] == (word if known else "<unk>")
            assert (word in vocabulary) == known


@given(TOKEN_LISTS, st.randoms(use_true_random=False))
def test_order_of_rows_changes_nothing(lists, random):
    assert Vocabulary.build(lists[::-1], 1) == Vocabulary.build(lists, 1)


@given(TOKEN_LISTS)
def test_json_round_trip(lists):
    vocabulary = Vocabulary.build(lists, 1)
    assert Vocabulary.from_json(json.loads(json.dumps(vocabulary.to_json()))) == vocabulary
    assert len(vocabulary) == len(vocabulary.words)


@pytest.mark.parametrize(
    "value", [[], {"words": [1]}, {"words": ["a"]}, {"words": [*SPECIAL, "a", "a"]}]
)
def test_a_damaged_vocabulary_is_refused(value):
    with pytest.raises(InputError, match=r"read vocabulary: vocab\.json: "):
        Vocabulary.from_json(value, "vocab.json")
