"""The held-out half: each new rule says what it plants, each new transform keeps the function."""

from itertools import pairwise
from typing import Any, get_args

import numpy as np
import pytest

from attnaudit.calibration import CONSTRUCTIONS
from attnaudit.calibration.construction import training_of
from attnaudit.calibration.transform import contributed, drawn, sharpened, shifted
from attnaudit.corpora.planted import BAD, GOOD
from attnaudit.corpora.prepare.planting import (
    DECOY_WORDS,
    MODIFIERS,
    TRIGGER_WORDS,
    masked,
    reworded,
    swapped,
    with_planted,
)
from attnaudit.corpora.prepare.vocabulary import Vocabulary
from attnaudit.corpora.read import read_corpus
from attnaudit.corpora.spec import PlantedRule
from attnaudit.models.classifier import build_model
from attnaudit.plans.spec import RunSpec
from attnaudit.training.settings import Guided
from attnaudit.training.texts import predict, train
from tests.calibration.test_planted_words import planted as words_planted
from tests.traces import make_trace

HELD = {name: one for name, one in CONSTRUCTIONS.items() if one.half == "held"}
NEW = ("first", "negation", "same", "unique", "noisy", "uneven")
CLASS = {**dict.fromkeys(BAD, 0), **dict.fromkeys(GOOD, 1)}
TURNS = {word: turn for turn in (0, 1) for word in MODIFIERS[turn]}


@pytest.fixture(scope="module")
def corpus():
    return read_corpus("planted-prior", size=400, length=(12, 24))


def planted(corpus, rule, **settings):
    return words_planted(corpus, rule, **{"length": 20, **settings})


def decision(rule, words):
    """The class by the rule, worked out from the words alone; None without words that decide."""
    if rule == "first":
        return CLASS.get(words[0])
    if rule == "negation":
        found = [
            CLASS[word] ^ TURNS[before]
            for before, word in pairwise(words)
            if word in CLASS and before in TURNS
        ]
    else:
        found = [CLASS[word] for word in words if word in CLASS]
    assert len(set(found)) < 2
    return found[0] if found else None


def test_two_halves_of_twelve_and_no_name_is_of_both():
    truths = [one.truth for one in HELD.values()]
    assert (truths.count("faithful"), truths.count("unfaithful"), len(truths)) == (12, 12, 24)
    fit = CONSTRUCTIONS.keys() - HELD.keys()
    stems = {name.partition("_")[2] for name in fit} | fit
    assert not stems & {name.partition("_")[2] for name in HELD}
    assert {name.partition("_")[0] for name in HELD} == {"marks", "misses"}
    assert all(one.base in HELD or not one.base for one in HELD.values())


def test_every_rule_is_of_one_half():
    fit = {one.rule for one in CONSTRUCTIONS.values() if one.half == "fit"}
    assert set(NEW) == set(get_args(PlantedRule)) - fit
    assert set(NEW) <= {one.rule for one in HELD.values()}


@pytest.mark.parametrize("rule", NEW)
def test_the_marked_words_decide_by_the_new_rules_too(corpus, rule):
    words = {"same": 3, "negation": 2}.get(rule, 1)
    split = planted(corpus, rule, words=words).splits["test"]
    label = split.label.tolist()
    assert [decision(rule, text) for text in split.tokens] == label
    assert [decision(rule, text) for text in swapped(split)] == [1 - one for one in label]
    assert [decision(rule, text) for text in reworded(split)] == label
    assert {decision(rule, text) for text in masked(split)} == {None}
    assert {sum(row) for row in split.rationale or []} == {words}
    assert {sum(word in DECOY_WORDS for word in text) for text in split.tokens} == {words}
    assert set(map(len, split.tokens)) == {20}


def changed_words(split, texts, marked):
    """Count the changes of words that are marked, or not."""
    rows = zip(split.tokens, texts, split.rationale or [], strict=True)
    return sum(
        one != other and mark == marked
        for own, changed, marks in rows
        for one, other, mark in zip(own, changed, marks, strict=True)
    )


@pytest.mark.parametrize("rule", NEW)
def test_a_change_of_deciding_words_leaves_the_others(corpus, rule):
    split = planted(corpus, rule).splits["test"]
    for change, marked in ((swapped, True), (masked, True), (reworded, False)):
        assert changed_words(split, change(split), marked) > 0
        assert changed_words(split, change(split), not marked) == 0


def test_by_first_words_elsewhere_say_nothing_and_stay_in_neutral_texts(corpus):
    made = planted(corpus, "first", neutral=0.5).splits["train"]
    elsewhere = [[CLASS[word] for word in text[1:] if word in CLASS] for text in made.tokens]
    assert {len(row) for row in elsewhere} == {1}
    agree = np.mean([row[0] == label for row, label in zip(elsewhere, made.label, strict=True)])
    assert abs(agree - 0.5) < 0.1
    neutral = [text for text in made.tokens if text[0] not in CLASS]
    assert 0.2 < len(neutral) / len(made) < 0.5


def test_by_negation_neither_word_alone_says_anything(corpus):
    split = planted(corpus, "negation", neutral=0.5).splits["train"]
    for of in (CLASS, TURNS):
        pairs = [
            (of[word], label)
            for text, label in zip(split.tokens, split.label.tolist(), strict=True)
            for word in text
            if word in of
        ]
        assert abs(np.mean([one == label for one, label in pairs]) - 0.5) < 0.1
    plain = planted(corpus, "negation").splits["train"]
    added = split.tokens[len(plain) :]
    assert sum(any(word in TRIGGER_WORDS for word in text) for text in added) == len(added) / 2


def test_each_other_rule_does_what_it_is_named_for(corpus):
    same = planted(corpus, "same", words=3).splits["test"]
    single = planted(corpus, "unique").splits["test"]
    types = [{word for word in text if word in CLASS} for text in same.tokens]
    assert {len(row) for row in types} == {1}
    assert len(set.union(*types)) == len(CLASS)
    assert len({word for text in single.tokens for word in text if word in CLASS}) == 2
    noisy = planted(corpus, "noisy").splits
    right = {
        name: np.mean([decision("noisy", text) for text in split.tokens] == split.label)
        for name, split in noisy.items()
    }
    assert right["test"] == 1.0
    assert right["train"] == pytest.approx(0.85, abs=0.06)
    uneven = planted(corpus, "uneven").splits
    assert [split.label.mean() for split in uneven.values()] == pytest.approx([0.85] * 3, abs=0.03)


TRANSFORMS = (shifted, drawn, sharpened, contributed)


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("outputs", [1, 3])
def test_a_transform_changes_the_weights_and_no_contribution(transform, outputs):
    trace = make_trace(40, (4, 9), outputs, seed=1)
    other = transform(trace, 0)
    contributions = [
        one.ragged("alpha").values[:, None] * one.ragged("readout").values for one in (trace, other)
    ]
    assert np.allclose(*contributions, atol=1e-4)
    for name in set(trace.table.columns) - {"alpha", "readout"}:
        assert other.table[name].equals(trace.table[name])
    assert np.allclose(other.alpha.sum(), 1.0, atol=1e-5)
    moved = [np.abs(a - b).max() for a, b in zip(other.alpha, trace.alpha, strict=True)]
    assert np.median(moved) > 0.01
    order = np.random.default_rng(0).permutation(len(trace))
    assert transform(trace.take(order), 0).table.equals(other.take(order).table)


def test_weights_are_those_that_the_transforms_name():
    trace = make_trace(20, (4, 9), seed=3)
    rows = zip(
        trace.alpha, trace.ragged("readout"), shifted(trace, 0).alpha,
        sharpened(trace, 0).alpha, contributed(trace, 0).alpha, strict=True,
    )  # fmt: skip
    for alpha, readout, after, sharp, by_effect in rows:
        assert np.allclose(after[1:], alpha[:-1], atol=2e-3)
        assert np.allclose(sharp, alpha**2 / (alpha**2).sum(), atol=2e-3)
        effect = np.abs(alpha * (readout[:, 0] - np.median(readout[:, 0])))
        assert np.allclose(by_effect, effect / effect.sum(), atol=2e-3)
    first, second = (drawn(trace, seed).alpha.values for seed in (0, 1))
    assert np.abs(first - second).max() > 0.1


def test_a_model_learns_the_first_word_and_attends_a_decoy(corpus):
    base = RunSpec.of("planted-prior")
    spec: Any = training_of(CONSTRUCTIONS["misses_first"], base, "planted-prior", "bilstm", 0).spec
    texts = with_planted(corpus, spec.corpus, 0)
    vocabulary = Vocabulary.build(texts.splits["train"].tokens, 1)
    vectors = np.random.default_rng(0).standard_normal((len(vocabulary), 16)).astype(np.float32)
    model = build_model(spec.model, vocabulary, vectors, texts.class_names, 0)
    train(model, texts, spec.training, spec.objective, seed=0)
    split = texts.splits["test"]
    right = (predict(model, model.inputs(split))[:, 0] > 0.5) == split.label
    assert right.mean() > 0.9


def test_guidance_to_the_next_word_targets_the_word_after_the_rationale(corpus):
    from attnaudit.training.texts import _target

    split = planted(corpus, "decisive").splits["test"]
    for target, marks in zip(
        _target(Guided(1.0, "next"), split), split.rationale or [], strict=True
    ):
        assert int(np.argmax(target)) == marks.index(True) + 1
