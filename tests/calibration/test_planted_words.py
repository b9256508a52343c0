"""Words planted into texts: which decide, what replacing them does, and that nothing else depends on the label."""

from __future__ import annotations

import numpy as np
import pytest

from attnaudit.corpora.corpus import Corpus, Split
from attnaudit.corpora.planted import BAD, GOOD
from attnaudit.corpora.prepare.planting import (
    DECOYS,
    RULES,
    masked,
    reworded,
    swapped,
    with_planted,
)
from attnaudit.corpora.read import read_corpus
from attnaudit.corpora.spec import PlantedRule

DECIDES = {**dict.fromkeys(BAD, -1), **dict.fromkeys(GOOD, 1)}
OF_DECOY = {word: (-1, 1)[k] for k in (0, 1) for word in DECOYS[k]}


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return read_corpus("planted-prior", size=200, length=(12, 24))


def vote(tokens: list[list[str]], classes: dict[str, int]) -> list[int]:
    """The class that most of the words of each text name."""
    return [int(sum(classes.get(word, 0) for word in text) > 0) for text in tokens]


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule not in ("random", "decoy")])
def test_the_marked_words_decide_and_no_other_does(corpus: Corpus, rule: PlantedRule) -> None:
    split = with_planted(corpus, rule, 0).splits["test"]
    assert vote(split.tokens, DECIDES) == split.label.tolist()
    assert vote(swapped(split), DECIDES) == (1 - split.label).tolist()
    assert vote(reworded(split), DECIDES) == split.label.tolist()
    assert not any(word in DECIDES for text in masked(split) for word in text)
    assert split.rationale == [[word in DECIDES for word in text] for text in split.tokens]


def test_every_rule_marks_as_many_words_as_it_says(corpus: Corpus) -> None:
    def marked(rule: PlantedRule) -> set[int]:
        return {sum(row) for row in with_planted(corpus, rule, 0).splits["test"].rationale or []}

    assert (marked("decisive"), marked("twice"), marked("majority"), marked("decoy")) == (
        {1},
        {2},
        {3},
        {1},
    )
    assert all(
        row[-1] and sum(row) == 1
        for row in with_planted(corpus, "last", 0).splits["test"].rationale or []
    )
    assert min(marked("many")) >= 4


def test_rewording_replaces_every_filler_and_turns_the_decoy(corpus: Corpus) -> None:
    split = with_planted(corpus, "decisive", 0).splits["test"]
    changed = reworded(split)
    assert vote(changed, OF_DECOY) == [1 - one for one in vote(split.tokens, OF_DECOY)]
    same = np.mean(
        [
            a == b
            for one, other in zip(split.tokens, changed, strict=True)
            for a, b in zip(one, other, strict=True)
        ]
    )
    assert same < 0.2
    assert list(map(len, changed)) == list(map(len, split.tokens))


def test_rewording_turns_the_word_of_the_task_that_does_not_decide(corpus: Corpus) -> None:
    """A model that reads both words would otherwise seem to read one."""
    split = with_planted(corpus, "decoy", 0).splits["test"]
    changed = reworded(split)
    assert vote(changed, OF_DECOY) == split.label.tolist()
    assert vote(changed, DECIDES) == [1 - one for one in vote(split.tokens, DECIDES)]


def test_two_tasks_have_the_same_texts_and_random_labels_too(corpus: Corpus) -> None:
    decisive, decoy, random = (
        with_planted(corpus, rule, 3).splits["train"] for rule in ("decisive", "decoy", "random")
    )
    assert decisive.tokens == decoy.tokens == random.tokens
    assert decoy.label.tolist() == vote(decoy.tokens, OF_DECOY)
    assert abs(np.mean(decisive.label == decoy.label) - 0.5) < 0.15
    assert abs(np.mean(decisive.label == random.label) - 0.5) < 0.15
    assert abs(decisive.label.mean() - 0.5) < 0.01


def test_what_is_planted_into_a_text_does_not_depend_on_the_other_texts(corpus: Corpus) -> None:
    fewer = Corpus(
        **{
            **corpus.__dict__,
            "splits": {
                name: split.take(np.arange(len(split))[1:]) for name, split in corpus.splits.items()
            },
        }
    )
    whole, part = (with_planted(one, "decoy", 0).splits["test"] for one in (corpus, fewer))
    places = {
        instance: [word for word in text if word in OF_DECOY]
        for instance, text in zip(whole.instance, whole.tokens, strict=True)
    }
    assert [[word for word in text if word in OF_DECOY] for text in part.tokens] == [
        places[one] for one in part.instance
    ]


def test_words_that_are_planted_are_first_removed_and_the_marked_place_is_taken(
    corpus: Corpus,
) -> None:
    words = [f"w{k}" for k in range(60)]
    words[5], words[45] = "excellent", "proof"
    marks = [word == "proof" for word in words]
    split = Split(np.arange(1), [words], np.zeros(1, np.int32), [marks])
    planted = with_planted(
        Corpus(**{**corpus.__dict__, "splits": dict.fromkeys(("train", "dev", "test"), split)}),
        "decisive",
        0,
    )
    text, row = planted.splits["test"].tokens[0], (planted.splits["test"].rationale or [])[0]
    assert len(text) == 24
    assert "proof" not in text
    assert text[row.index(True) - 1] == "w44"
    assert sum(word in DECIDES for word in text) == 1
