"""Runs whose texts are read with a question: settings by task, a trace with a tail, a report that shows the question."""

import pytest

from attnaudit.corpora.planted import planted_corpus
from attnaudit.plans.spec import RunSpec
from attnaudit.recipes.trained import run
from attnaudit.trace import TAIL_FILE, Trace

SMALL = {
    "corpus.size": 80,
    "corpus.length": (10, 14),
    "model.embedding": 8,
    "model.hidden": 4,
    "permutation.permutations": 5,
    "training.epochs": 2,
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    spec = RunSpec.of("planted-question", vectors="random", device="cpu", settings=SMALL)
    return run(spec, tmp_path_factory.mktemp("questions") / "run")


OWN = {"adversary.epsilon": 0.02, "training.epochs": 3, "collect.gradient_of": "all"}


@pytest.mark.parametrize(
    ("spec", "epsilon", "epochs", "gradient_of"),
    [
        (RunSpec.of("planted-question"), 0.05, 25, "predicted"),
        (RunSpec.of("planted-decisive"), 0.01, 8, "all"),
        (RunSpec.of("planted-question", settings=OWN), 0.02, 3, "all"),
    ],
)
def test_the_task_decides_what_nobody_said(spec, epsilon, epochs, gradient_of):
    assert spec.experiments["adversary"]["epsilon"] == epsilon
    assert (spec.training.epochs, spec.collect.gradient_of) == (epochs, gradient_of)


@pytest.mark.slow
def test_the_trace_has_questions_and_a_tail(finished):
    trace = Trace.read(finished)
    assert (finished / "trace" / TAIL_FILE).exists()
    assert trace.task == "question_answering"
    split = planted_corpus("question", size=80, length=(10, 14)).splits["test"]
    assert trace.table["question"].to_list() == split.question
    assert trace.class_names == ["attic", "cellar", "kitchen", "office", "pantry", "studio"]


def test_the_page_shows_what_was_asked(finished):
    page = (finished / "report.html").read_text()
    assert "Read with: <q>where is " in page
    assert '"question": "where is ' in page.replace('":"', '": "')
