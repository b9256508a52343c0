"""What a trace says of a corpus's rows: taken whole, matched by instance and split, refused where it is of other texts."""

from dataclasses import replace

import numpy as np
import pytest

from attnaudit.core import InputError
from attnaudit.core.ragged import Ragged
from attnaudit.corpora.planted import planted_corpus
from attnaudit.corpora.prepare.derived import taught_by
from attnaudit.trace import concatenate
from tests.traces import trace_of


@pytest.fixture(scope="module")
def corpus():
    return planted_corpus("decisive", size=60, length=(10, 12), seed=2)


def other_model(corpus):
    """Some model's trace of all splits, its rows in another order than the corpus's."""
    random = np.random.default_rng(0)
    parts = []
    for name, split in corpus.splits.items():
        order = random.permutation(len(split))
        rows = split.take(order)
        lengths = [len(tokens) for tokens in rows.tokens]
        raw = Ragged.from_lengths(random.random(sum(lengths)), lengths)
        alpha = raw.with_values((raw.values / raw.spread(raw.sum())).astype(np.float32))
        gradient = raw.with_values(random.normal(size=len(raw.values)).astype(np.float32))
        gradient.values[: lengths[0]] = 0.0
        parts.append(trace_of(
            alpha, np.zeros(len(alpha.values)), 0.5, class_names=list(corpus.class_names), instance=rows.instance,
            split=[name] * len(rows), tokens=rows.tokens, label=rows.label, gradient=gradient, rationale=rows.rationale,
        ))  # fmt: skip
    return concatenate(parts)


def test_weights_and_predictions_come_to_their_own_rows(corpus):
    trace = other_model(corpus)
    taught = taught_by(corpus, trace, "alpha", "here")
    for name, split in taught.splits.items():
        assert split.attention is not None
        assert split.prediction is not None
        for row, instance in enumerate(split.instance.tolist()):
            there = list(zip(trace.instance, trace.table["split"], strict=True)).index(
                (instance, name)
            )
            np.testing.assert_array_equal(
                split.attention[row], trace.alpha[there].astype(np.float32)
            )
        assert split.prediction.shape == (len(split), 1)
    assert taught.fingerprint == corpus.fingerprint


def test_importance_and_marks_are_scaled_and_rows_without_any_are_told(corpus):
    taught = taught_by(corpus, other_model(corpus), "gradient", "here")
    for split in taught.splits.values():
        assert split.attention is not None
        np.testing.assert_allclose(split.attention.sum(), 1.0, rtol=1e-5)
        assert (split.attention.values >= 0).all()
    assert [note for note in taught.notes if "without any weight by gradient" in note] == [
        f"1 row of {name} without any weight by gradient: uniform weights there"
        for name in ("train", "dev", "test")
    ]
    marked = taught_by(corpus, other_model(corpus), "rationale", "here").splits["test"]
    assert marked.attention is not None
    assert marked.rationale is not None
    assert [weights.tolist() for weights in marked.attention] == [
        pytest.approx([yes / sum(marks) for yes in marks]) for marks in marked.rationale
    ]


def test_a_trace_of_other_texts_is_refused(corpus):
    trace = other_model(corpus)
    with pytest.raises(InputError, match=r"place: column: 'beta'; expected one of alpha"):
        taught_by(corpus, trace, "beta", "place")
    kept = np.flatnonzero(np.array(trace.table["split"].to_list()) == "test")
    with pytest.raises(InputError, match=r"place: instance \d+ of train: no alpha"):
        taught_by(corpus, trace.take(kept), "alpha", "place")
    other = planted_corpus("decisive", size=60, length=(10, 12), seed=3)
    splits = {
        name: replace(split, instance=corpus.splits[name].instance[: len(split)])
        for name, split in other.splits.items()
    }
    with pytest.raises(InputError, match=r"instance \d+ of train: other tokens"):
        taught_by(replace(other, splits=splits), trace, "alpha", "place")
