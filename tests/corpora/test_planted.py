"""The label of a planted text is what its marked words say, and nothing else tells it."""

from collections import Counter, defaultdict
from itertools import compress

import numpy as np
import pytest

from attnaudit.core import InputError
from attnaudit.corpora.planted import (
    AFFIRMING,
    BAD,
    COLD_FIRST,
    COLD_SECOND,
    GOOD,
    KINDS,
    NEGATING,
    PEOPLE,
    WARM_FIRST,
    WARM_SECOND,
    planted_corpus,
)
from tests.corpora.writing import sizes

PLANTED_WORDS = {
    *GOOD,
    *BAD,
    *NEGATING,
    *AFFIRMING,
    *WARM_FIRST,
    *WARM_SECOND,
    *COLD_FIRST,
    *COLD_SECOND,
}
WARM = {*WARM_FIRST, *WARM_SECOND}


def rows(corpus):
    out = []
    for split in corpus.splits.values():
        assert split.rationale is not None
        out += list(zip(split.tokens, split.rationale, split.label.tolist(), strict=True))
    return out


def told(kind, words):
    """The label by the rule in words."""
    if kind == "decisive":
        (word,) = words
        return int(word in GOOD)
    first, second = words
    if kind == "negation":
        return int((second in GOOD) != (first == "not"))
    return int((first in WARM) == (second in WARM))


@pytest.mark.parametrize("kind", ["decisive", "negation", "conjunction"])
@pytest.mark.parametrize("length", [(10, 10), (10, 40), (150, 200)])
def test_the_marked_words_decide(kind, length):
    for tokens, rationale, label in rows(planted_corpus(kind, size=400, length=length, seed=2)):
        assert told(kind, compress(tokens, rationale)) == label
        others = {word for word, mark in zip(tokens, rationale, strict=True) if not mark}
        assert not others & PLANTED_WORDS


@pytest.mark.parametrize("kind", ["negation", "conjunction"])
def test_no_word_alone_tells_anything(kind):
    labels = defaultdict(list)
    for tokens, rationale, label in rows(planted_corpus(kind, size=8000, seed=2)):
        for word in compress(tokens, rationale):
            labels[word].append(label)
    for seen in labels.values():
        assert abs(np.mean(seen) - 0.5) < 4 * 0.5 / np.sqrt(len(seen))


def test_cues_of_a_conjunction_are_far_apart_and_negation_is_beside_its_word():
    for tokens, rationale, _ in rows(
        planted_corpus("conjunction", size=200, length=(10, 60), seed=0)
    ):
        first, second = np.flatnonzero(rationale)
        assert second - first > len(tokens) / 3
    for _, rationale, _ in rows(planted_corpus("negation", size=200, seed=0)):
        first, second = np.flatnonzero(rationale)
        assert second == first + 1


@pytest.mark.parametrize("length", [(10, 10), (10, 40)])
def test_the_fact_asked_for_answers_the_question(length):
    corpus = planted_corpus("question", size=300, length=length, seed=3)
    assert corpus.task == "question_answering"
    for split in corpus.splits.values():
        assert split.question is not None
        assert split.rationale is not None
        for tokens, rationale, label, question in zip(
            split.tokens, split.rationale, split.label, split.question, strict=True
        ):
            person, room = compress(tokens, rationale)
            assert (person, room) == (question[2], corpus.class_names[label])
            assert tokens.count(person) == 1
            assert sum(word in PEOPLE for word in tokens) == 3


def test_prior_has_no_deciding_word():
    corpus = planted_corpus("prior", size=1000, seed=0)
    assert not any(any(rationale) for _, rationale, _ in rows(corpus))
    assert [int(split.label.sum()) for split in corpus.splits.values()] == [560, 70, 70]


@pytest.mark.parametrize("kind", KINDS)
def test_shape_of_every_kind(kind):
    corpus = planted_corpus(kind, size=400, length=(12, 15), seed=4)
    assert sizes(corpus) == [320, 40, 40]
    assert {len(tokens) for tokens, _, _ in rows(corpus)} == {12, 13, 14, 15}
    assert corpus.splits["dev"].instance.tolist() == list(range(40))
    assert corpus.name == f"planted-{kind}"
    if kind != "prior":
        for split in corpus.splits.values():
            count = Counter(split.label.tolist())
            assert len(count) == len(corpus.class_names)
            assert max(count.values()) - min(count.values()) <= (0 if len(count) == 2 else 1)
    again, other = (
        planted_corpus(kind, size=400, length=(12, 15), seed=4),
        planted_corpus(kind, size=400, length=(12, 15), seed=5),
    )
    assert corpus.fingerprint == again.fingerprint != other.fingerprint
    assert corpus.splits["test"].tokens == again.splits["test"].tokens


@pytest.mark.parametrize(
    ("arguments", "got"),
    [
        (
            {"kind": "negaton"},
            "kind: 'negaton'; expected one of decisive, negation, conjunction, prior, question; did you mean negation?",
        ),
        ({"size": 39}, "size: 39; expected at least 40"),
        ({"length": (20, 12)}, "length: 20 to 12"),
    ],
)
def test_settings(arguments, got):
    with pytest.raises(InputError) as caught:
        planted_corpus(**arguments)
    assert str(caught.value).startswith(f"plant corpus: {got}")
