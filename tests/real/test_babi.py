"""On bAbI's first task: question answering against the algorithms as the paper writes them, and the facts that support an answer."""

import numpy as np
import pytest

from attnaudit.models.batch import Inputs
from attnaudit.models.classifier import load_model
from attnaudit.trace import Trace
from tests.oracles.importance import naive_gradient, naive_leave_one_out
from tests.report.test_playground_model import (
    test_the_page_computes_what_the_readout_does as assert_computed,
)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def trace(babi_run):
    return Trace.read(babi_run)


@pytest.fixture(scope="module")
def model(babi_run):
    return load_model(babi_run / "model")


@pytest.fixture(scope="module")
def rows(trace):
    return np.random.default_rng(0).choice(len(trace), 8, replace=False).tolist()


def test_all_test_questions_are_there(trace):
    assert len(trace) == 1000
    assert trace.task == "question_answering"
    assert len(trace.class_names) == 6


def test_the_rationale_is_the_sentence_that_supports_the_answer(trace):
    """It says where somebody went: it holds who is asked about and the answer, and ends where a sentence ends."""
    rationales = trace.table["rationale"].to_list()
    questions = trace.table["question"].to_list()
    for row, (marks, question) in enumerate(zip(rationales, questions, strict=True)):
        sentence = [word for word, mark in zip(trace.tokens(row), marks, strict=True) if mark]
        assert sentence[0] == question[2]
        assert sentence[-2:] == [trace.class_names[trace.array("label")[row]], "."]


def test_leave_one_out_and_gradients(model, trace, rows):
    questions = trace.table["question"].to_list()
    for row in rows:
        inputs = Inputs(
            model.vocabulary.ids([trace.tokens(row)]), model.vocabulary.ids([questions[row]])
        )
        np.testing.assert_allclose(
            trace.ragged("loo")[row], naive_leave_one_out(model, inputs), atol=1e-5
        )
        for name, detach in (("gradient", True), ("importance_full_gradient", False)):
            naive = naive_gradient(model, inputs, detach_attention=detach, outputs="predicted")
            np.testing.assert_allclose(
                trace.ragged(name)[row], naive, rtol=2e-3, atol=1e-6, err_msg=name
            )


def test_the_playground_computes_what_the_readout_does(trace, rows):
    short = [row for row in rows if 1 < trace.alpha.lengths[row] <= 80]
    assert_computed(trace.take(np.array(short[:1])))  # which waits for five bounds of six classes
