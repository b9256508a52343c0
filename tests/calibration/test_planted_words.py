"""Words planted into texts: which decide, what replacing them does, and that nothing else depends on the label."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from attnaudit.calibration import CONSTRUCTIONS
from attnaudit.calibration.construction import training_of
from attnaudit.core.ragged import Ragged
from attnaudit.corpora.corpus import Split
from attnaudit.corpora.planted import BAD, GOOD
from attnaudit.corpora.prepare.planting import (
    DECOYS,
    TRIGGERS,
    masked,
    reworded,
    swapped,
    with_planted,
)
from attnaudit.corpora.read import read_corpus
from attnaudit.corpora.spec import CorpusSpec
from attnaudit.models.batch import padded
from attnaudit.plans.spec import RunSpec
from attnaudit.training.settings import Guided
from attnaudit.training.texts import PENALTIES

DECIDES = {**dict.fromkeys(BAD, -1), **dict.fromkeys(GOOD, 1)}
OF_DECOY = {word: (-1, 1)[k] for k in (0, 1) for word in DECOYS[k]}


@pytest.fixture(scope="module")
def corpus():
    return read_corpus("planted-prior", size=200, length=(12, 24))


def planted(corpus, rule, seed=0, **settings):
    settings = {f"planted_{name}": value for name, value in settings.items()}
    return with_planted(corpus, CorpusSpec("planted-prior", planted=rule, **settings), seed)


def vote(tokens, classes):
    """The class that most of the words of each text name."""
    return [int(sum(classes.get(word, 0) for word in text) > 0) for text in tokens]


@pytest.mark.parametrize("rule", ["decisive", "twice", "majority", "last"])
def test_the_marked_words_decide_and_no_other_does(corpus, rule):
    split = planted(corpus, rule, 0).splits["test"]
    assert vote(split.tokens, DECIDES) == split.label.tolist()
    assert vote(swapped(split), DECIDES) == (1 - split.label).tolist()
    assert vote(reworded(split), DECIDES) == split.label.tolist()
    assert not any(word in DECIDES for text in masked(split) for word in text)
    assert split.rationale == [[word in DECIDES for word in text] for text in split.tokens]


def test_every_rule_marks_as_many_words_as_it_says(corpus):
    def marked(rule):
        return {sum(row) for row in planted(corpus, rule, 0).splits["test"].rationale or []}

    rules = {"decisive": {1}, "twice": {2}, "majority": {3}, "decoy": {1}, "last": {1}}
    assert {rule: marked(rule) for rule in rules} == rules
    assert all(row[-1] for row in planted(corpus, "last", 0).splits["test"].rationale or [])


def test_rewording_replaces_every_filler_and_turns_the_decoy(corpus):
    split = planted(corpus, "decisive", 0).splits["test"]
    changed = reworded(split)
    assert vote(changed, OF_DECOY) == [1 - one for one in vote(split.tokens, OF_DECOY)]
    assert list(map(len, changed)) == list(map(len, split.tokens))
    words, others = map(np.concatenate, (split.tokens, changed))
    assert np.mean(words == others) < 0.2


def test_rewording_turns_the_word_of_the_task_that_does_not_decide(corpus):
    """A model that reads both words would otherwise seem to read one."""
    split = planted(corpus, "decoy", 0).splits["test"]
    changed = reworded(split)
    assert vote(changed, OF_DECOY) == split.label.tolist()
    assert vote(changed, DECIDES) == [1 - one for one in vote(split.tokens, DECIDES)]


def test_two_tasks_have_the_same_texts_and_random_labels_too(corpus):
    decisive, decoy, random = (
        planted(corpus, rule, 3).splits["train"] for rule in ("decisive", "decoy", "random")
    )
    assert decisive.tokens == decoy.tokens == random.tokens
    assert decoy.label.tolist() == vote(decoy.tokens, OF_DECOY)
    assert abs(np.mean(decisive.label == decoy.label) - 0.5) < 0.15
    assert abs(np.mean(decisive.label == random.label) - 0.5) < 0.15
    assert abs(decisive.label.mean() - 0.5) < 0.01


def test_what_is_planted_into_a_text_does_not_depend_on_the_other_texts(corpus):
    splits = {name: split.take(np.arange(len(split))[1:]) for name, split in corpus.splits.items()}
    whole, part = (
        {
            instance: [word for word in text if word in OF_DECOY]
            for instance, text in zip(split.instance, split.tokens, strict=True)
        }
        for one in (corpus, replace(corpus, splits=splits))
        for split in [planted(one, "decoy", 0).splits["test"]]
    )
    assert len(part) == len(whole) - 1
    assert part.items() <= whole.items()


def test_words_that_are_planted_are_first_removed_and_the_marked_place_is_taken(corpus):
    words = [f"w{k}" for k in range(60)]
    words[5], words[45] = "excellent", "proof"
    marks = [word == "proof" for word in words]
    split = Split(np.arange(1), [words], np.zeros(1, np.int32), [marks])
    corpus = replace(corpus, splits=dict.fromkeys(corpus.splits, split))
    made = planted(corpus, "decisive", 0).splits["test"]
    text, row = made.tokens[0], (made.rationale or [])[0]
    assert len(text) == 24
    assert "proof" not in text
    assert text[row.index(True) - 1] == "w44"
    assert sum(word in DECIDES for word in text) == 1


@pytest.mark.parametrize(
    ("rule", "classes"),
    [("decisive", 2), ("decisive", 4), ("decoy", 2), ("last", 2), ("majority", 2)],
)
def test_neutral_texts_have_every_label_and_no_word_that_decides(corpus, rule, classes):
    """A model that reads a class from the absence of a word would be wrong on them."""
    plain, made = (
        planted(corpus, rule, classes=classes, neutral=share).splits for share in (0.0, 0.5)
    )
    assert made["test"].tokens == plain["test"].tokens
    for name in ("train", "dev"):
        size, split = len(plain[name]), made[name]
        assert split.tokens[:size] == plain[name].tokens, "the other texts stay as they are"
        added = split.take(np.arange(size, len(split)))
        without = [not any(row) for row in added.rationale or []]
        assert len(added) == 2 * sum(without) == 2 * classes * round(size / 2)
        added, others = (added.take(np.flatnonzero(np.equal(without, k))) for k in (True, False))
        assert len(set(split.instance.tolist())) == len(split)
        decides = OF_DECOY if rule == "decoy" else DECIDES
        assert not any(word in decides for text in added.tokens for word in text)
        if rule != "majority" and classes == 2:
            assert vote(others.tokens, decides) == others.label.tolist()
        labels = {}
        for text, label in zip(added.tokens, added.label.tolist(), strict=True):
            labels.setdefault(" ".join(text), set()).add(label)
        assert set(map(frozenset, labels.values())) == {frozenset(range(classes))}


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize(("words", "counter"), [(1, 0), (2, 0), (4, 0), (1, 1), (2, 2)])
@pytest.mark.parametrize("length", [20, 100])
def test_the_class_with_most_words_decides_and_as_many_decoys_do_not(
    corpus, classes, words, counter, length
):
    shape = {"classes": classes, "words": words, "counter": counter, "length": length}
    made = planted(corpus, "decisive", **shape)
    split = made.splits["test"]
    assert len(made.class_names) == classes
    assert set(split.label.tolist()) == set(range(classes))
    turned = swapped(split)
    for row, (text, label) in enumerate(zip(split.tokens, split.label.tolist(), strict=True)):
        number = [sum(word in names for word in text) for names in TRIGGERS[:classes]]
        assert (number[label], sum(number)) == (words + counter, words + 2 * counter)
        assert int(np.argmax(number)) == label
        assert sum(word in OF_DECOY for word in text) == words + 2 * counter
        assert sum((split.rationale or [])[row]) == words + 2 * counter
        assert len(text) == length
        other = [sum(word in names for word in turned[row]) for names in TRIGGERS[:classes]]
        assert int(np.argmax(other)) == label ^ 1


PAIRS = [name.removeprefix("on_") for name in CONSTRUCTIONS if name.startswith("on_")]


@pytest.mark.parametrize("name", PAIRS)
def test_a_pair_differs_only_in_the_words_that_are_attended(corpus, name):
    base = RunSpec.of("planted-prior")
    on, off = (
        training_of(CONSTRUCTIONS[f"{start}_{name}"], base, "planted-prior", "average", 0).spec
        for start in ("on", "off")
    )
    assert replace(on, objective=None) == replace(off, objective=None)
    assert isinstance(on.corpus, CorpusSpec)
    split = with_planted(corpus, on.corpus, 0).splits["test"]
    model = SimpleNamespace(head=None)
    uniform = Ragged.from_rows([[1.0 / len(text)] * len(text) for text in split.tokens], np.float32)
    rows = np.arange(len(split))
    alpha = padded(uniform, rows, torch.device("cpu"))
    distance = [
        next(PENALTIES[Guided](spec.objective, model, split)(SimpleNamespace(alpha=alpha), rows))[1]
        for spec in (on, off)
    ]
    assert torch.allclose(distance[0], distance[1], atol=1e-5), (
        "the targets are equally far from uniform"
    )
    assert float(distance[0].min()) > 0.5
