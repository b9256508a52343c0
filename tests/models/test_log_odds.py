"""Attention fixed to the log-odds of words: against the numpy oracle, under deletion, and in a run."""

import numpy as np
import pytest
import torch

from attnaudit.core import InputError, silent
from attnaudit.core.ragged import Ragged
from attnaudit.corpora.prepare.vocabulary import SPECIAL
from attnaudit.models.attention import LogOdds
from attnaudit.models.classifier import load_model
from attnaudit.models.log_odds import UNKNOWN, word_log_odds
from attnaudit.plans.spec import RunSpec
from attnaudit.recipes.classifier import Classifier
from attnaudit.recipes.trained import train_into
from attnaudit.trace import Trace
from tests.oracles.forward import softmax
from tests.oracles.log_odds import log_odds

WORDS = len(SPECIAL) + 8


def labelled_texts(classes=2):
    """Texts in which word `k` of class `k` is frequent, one word is never seen, and words repeat."""
    random = np.random.default_rng(0)
    label = np.arange(60) % classes
    texts = [
        [len(SPECIAL) + k, *random.integers(len(SPECIAL) + classes, WORDS - 1, 4).tolist()] * 2
        for k in label
    ]
    return texts, label


@pytest.mark.parametrize("classes", [2, 3])
def test_log_odds_are_those_of_the_oracle(classes):
    texts, label = labelled_texts(classes)
    ours = word_log_odds(Ragged.from_rows(texts, np.int64), label, WORDS, classes)
    expected = np.mean(
        [
            np.abs(log_odds(texts, list(label == c), WORDS))
            for c in ([1] if classes == 2 else range(classes))
        ],
        axis=0,
    )
    np.testing.assert_allclose(ours[len(SPECIAL) : -1], expected[len(SPECIAL) : -1], atol=2e-2)
    assert (ours[[*range(len(SPECIAL)), -1]] == UNKNOWN).all()
    assert np.argmax(ours) < len(SPECIAL) + classes  # a word that tells the class


@pytest.mark.parametrize("encoder", ["bilstm", "cnn", "average"])
def test_attention_of_a_run_is_fixed_by_the_words(encoder, tmp_path):
    """Before and after training alpha is the softmax of the odds; leave-one-out is that of a text without the token."""
    settings = {
        "corpus.size": 60, "corpus.length": (10, 12), "model.hidden": 4, "model.embedding": 8, "training.epochs": 1,
    }  # fmt: skip
    spec = RunSpec.of(
        "planted-decisive",
        encoder=encoder,
        attention="log_odds",
        vectors="random",
        settings=settings,
    )
    train_into(spec, tmp_path / "run")
    model, trace, corpus = (
        load_model(tmp_path / "run/model"),
        Trace.read(tmp_path / "run/trace"),
        Classifier.read(spec, silent),
    )
    assert isinstance(model.attention, LogOdds)
    odds = model.attention.odds.numpy()
    assert odds.max() > 0
    for row in range(5):
        ids = model.vocabulary.ids([trace.tokens(row)]).values
        np.testing.assert_allclose(
            trace.ragged("alpha")[row], softmax(odds[ids].astype(float)), atol=1e-6
        )
    with torch.no_grad():
        split = corpus.splits["test"].take(np.arange(1))
        whole = model.probabilities(
            model(model.eval().inputs(split).batch(np.arange(1))).logits
        ).item()
        split.tokens[0] = split.tokens[0][1:]
        without = model.probabilities(model(model.inputs(split).batch(np.arange(1))).logits).item()
    assert trace.ragged("loo")[0][0] == pytest.approx(abs(whole - without), abs=1e-6)


@pytest.mark.parametrize(
    ("source", "options"),
    [("babi1", {}), ("sst", {"preset": "han"}), ("sst", {"settings": {"model.heads": 2}})],
)
def test_a_model_whose_positions_are_not_the_words_of_one_text_is_refused_before_a_corpus_is_read(
    source, options
):
    with pytest.raises(
        InputError,
        match="attention log_odds: a model that reads questions, of sentences, or of several heads",
    ):
        RunSpec.of(source, attention="log_odds", data_dir="nowhere", **options)
