"""Runs whose texts are read with a question: settings by task, a trace with a tail, a report that shows the question."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

import attnaudit
from attnaudit.corpora import planted_corpus
from attnaudit.plans.spec import RunSpec
from attnaudit.recipes.audit import audit_into
from attnaudit.recipes.trained import run
from attnaudit.trace import TAIL_FILE, Trace

SMALL = {
    "corpus.size": 80,
    "corpus.length": (10, 14),
    "model.embedding": 8,
    "model.hidden": 4,
    "permutation.permutations": 5,
}


def small(**options) -> RunSpec:
    settings = SMALL | {"training.epochs": 2} | options.pop("settings", {})
    return RunSpec.of(
        "planted-question", vectors="random", device="cpu", settings=settings, **options
    )


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(small(), tmp_path_factory.mktemp("questions") / "run")


def test_the_task_decides_what_nobody_said() -> None:
    asked, told = RunSpec.of("planted-question"), RunSpec.of("planted-decisive")
    assert (asked.training.epochs, told.training.epochs) == (25, 8)
    for name in ("adversary", "ranges"):
        assert (asked.experiments[name]["epsilon"], told.experiments[name]["epsilon"]) == (
            0.05,
            0.01,
        )
    assert (asked.collect.gradient_of, told.collect.gradient_of) == ("predicted", "all")
    own = RunSpec.of(
        "planted-question",
        settings={"adversary.epsilon": 0.02, "training.epochs": 3, "collect.gradient_of": "all"},
    )
    assert (
        own.experiments["adversary"]["epsilon"],
        own.training.epochs,
        own.collect.gradient_of,
    ) == (0.02, 3, "all")


def test_a_column_of_questions_makes_it_question_answering() -> None:
    assert RunSpec.of("mine.csv", question="asked").training.epochs == 25
    assert RunSpec.of("mine.csv").training.epochs == 8


@pytest.mark.slow
def test_the_trace_has_questions_and_a_tail(finished: Path) -> None:
    trace = Trace.read(finished)
    assert (finished / "trace" / TAIL_FILE).exists()
    assert trace.task == "question_answering"
    split = planted_corpus("question", size=80, length=(10, 14)).splits["test"]
    assert trace.table["question"].to_list() == split.question
    assert trace.class_names == ["attic", "cellar", "kitchen", "office", "pantry", "studio"]


@pytest.mark.slow
def test_every_experiment_runs(finished: Path) -> None:
    assert {path.stem for path in (finished / "results").glob("*.parquet")} == {
        "prediction", "correlation", "permutation", "maximal_change", "adversary", "ranges", "identifiability", "erasure",
        "comprehensiveness", "plausibility",
    }  # fmt: skip
    table = pl.read_parquet(finished / "results" / "adversary.parquet")
    assert (table["delta_y"] <= 0.05 + 1e-6).all()


def test_the_page_shows_what_was_asked(finished: Path) -> None:
    page = (finished / "report.html").read_text(encoding="utf-8")
    assert "Read with: <q>where is " in page
    assert '"question": "where is ' in page.replace('":"', '": "')


@pytest.mark.slow
def test_an_audit_of_its_trace_takes_the_tasks_settings(finished: Path, tmp_path: Path) -> None:
    out = audit_into(tmp_path / "audit", finished, ["permutation", "adversary"])
    assert (
        json.loads((out / "spec.json").read_text())["experiments"]["adversary"]["epsilon"] == 0.05
    )
    results = attnaudit.audit(finished / "trace", ["adversary"])
    assert (
        results["adversary"].table["emax_jsd"].to_list()
        == pl.read_parquet(out / "results/adversary.parquet")["emax_jsd"].to_list()
    )


def test_a_model_read_from_disk_asks_too(finished: Path) -> None:
    model = attnaudit.load_model(finished / "model")
    trace = attnaudit.collect(model, planted_corpus("question", size=80, length=(10, 14)))
    assert trace.prediction == pytest.approx(Trace.read(finished).prediction, abs=1e-6)


@pytest.mark.slow
def test_a_users_own_questions(tmp_path: Path) -> None:
    """One jsonl file with a text, a question, an answer and the characters that matter."""
    rows = []
    corpus = planted_corpus("question", size=80, length=(10, 14))
    for split in corpus.splits.values():
        assert split.question is not None
        for tokens, question, label in zip(split.tokens, split.question, split.label, strict=True):
            start = len(" ".join([*tokens[: tokens.index(question[2])], ""]))
            why = [[start, start + len(question[2])]]
            rows.append(
                {
                    "story": " ".join(tokens),
                    "asked": " ".join(question),
                    "room": corpus.class_names[label],
                    "why": why,
                }
            )
    (tmp_path / "mine.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    spec = RunSpec.of(
        tmp_path / "mine.jsonl", text="story", question="asked", label="room", rationale="why", vectors="random", device="cpu",
        settings={key: value for key, value in SMALL.items() if not key.startswith("corpus.")} | {"training.epochs": 1},
    )  # fmt: skip
    trace = Trace.read(run(spec, tmp_path / "run"))
    assert trace.task == "question_answering"
    first = trace.cell("rationale", 0)
    assert [word for word, mark in zip(trace.tokens(0), first, strict=True) if mark] == [
        trace.cell("question", 0)[2]
    ]
