"""attnaudit hf MODEL_DIR CORPUS: from a folder and a table of texts to a report; bad input is one line and leaves nothing behind."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import polars as pl
import pytest

from attnaudit.cli import main
from attnaudit.core.errors import TraceError
from attnaudit.core.files import sha256
from attnaudit.experiments import EXPERIMENTS
from attnaudit.hf.gate import check_model
from attnaudit.hf.load import load_pretrained
from attnaudit.trace import Trace
from attnaudit.trace.tails import GRAPH_FILE, GraphTail
from tests.hf.classes import tiny
from tests.hf.tokenizing import SIZE, texts, tokenizer
from tests.report.test_heads import data, statements

CLASSIFIER, WRITER = "BertForSequenceClassification", "GPT2LMHeadModel"
LITTLE = (
    "--experiment",
    "permutation",
    "--set",
    "collect.scores=gradient",
    "--layers",
    "all",
)  # behind no graph, whose export takes a second


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders of a classifier and of a language model."""
    place = tmp_path_factory.mktemp("models")
    for name, kind in ((CLASSIFIER, "wordpiece"), (WRITER, "bytes")):
        model = tiny(name, vocab_size=SIZE)
        model.save_pretrained(place / name)
        tokenizer(kind, "[CLS] $A [SEP]" if name == CLASSIFIER else "").save_pretrained(
            place / name
        )
    return place


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("corpus") / "texts.csv"
    rows = sorted(set(texts()))[:40]
    pl.DataFrame({"text": rows, "label": [str(k % 3) for k in range(len(rows))]}).write_csv(place)
    return place


@pytest.fixture(scope="module")
def run(models: Path, corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "bert"
    assert (
        main(
            [
                "audit",
                str(models / CLASSIFIER),
                str(corpus),
                "--sample",
                "3",
                "--set",
                "collect.scores=gradient",
                "--set",
                "collect.scores=loo",
                "--out",
                str(out),
            ]
        )
        == 0
    )
    return out


def refused(capsys: Any, *arguments: str) -> str:
    """The one line of a command that fails with status 2."""
    assert main(list(arguments)) == 2
    error = capsys.readouterr().err.strip().splitlines()
    lines = [line for line in error if line.startswith("attnaudit:")]
    assert len(lines) == 1
    return lines[0]


def test_a_run_has_a_report_with_heads_and_checks(run: Path) -> None:
    page = (run / "report.html").read_text()
    assert 'id="heads"' in page
    assert 'id="gate"' in page
    summary = pl.DataFrame(json.loads((run / "summary.json").read_text()), infer_schema_length=None)
    assert set(summary["group"].unique()) >= {"all", *(f"head:1.{head}" for head in range(4))}
    experiments = {
        "permutation",
        "maximal_change",
        "joint",
        "adversary",
        "identifiability",
        "erasure",
        "comprehensiveness",
        "correlation",
    }
    assert set(summary["experiment"].unique()) >= experiments
    manifest = json.loads((run / "manifest.json").read_text())
    assert manifest["kind"] == "transformer"
    assert {"transformers", "tokenizers", "onnxruntime"} <= set(manifest["versions"])


def test_the_page_and_an_audit_say_alike_why_ranges_do_not_apply(
    run: Path, tmp_path: Path, capsys: Any
) -> None:
    """The reason does not follow from whether the tail was read; neither side names a class of this package."""
    reason = "does not apply: the attended sum goes through the rest of the model before the output"
    assert reason in statements((run / "report.html").read_text())
    line = refused(
        capsys, "audit", str(run), "--experiment", "ranges", "--out", str(tmp_path / "audit")
    )
    assert reason in line


def test_a_report_counts_texts_and_explains_the_checks(
    run: Path, models: Path, corpus: Path, capsys: Any
) -> None:
    page = statements((run / "report.html").read_text())
    assert "3 texts, 4 heads of layer 1: 12 rows" in page
    assert "Nothing here is about the other 4 heads of the model." in page
    assert re.findall(r"\binstances?\b", page) == []
    gate = page[page.index("Checks of the model") :]
    order = [
        gate.index(f" {check.name} ")
        for check in check_model(load_pretrained(models / CLASSIFIER)).checks
    ]
    assert order == sorted(order)
    assert (
        "least change of the logits when the weights of one layer are replaced by uniform ones"
        in gate
    )
    assert "at least 1e-06" in gate
    command = [
        "audit",
        str(models / CLASSIFIER),
        str(corpus),
        "--sample",
        "3",
        "--set",
        "collect.scores=gradient",
        "--set",
        "collect.scores=loo",
        "--out",
        str(run),
    ]
    capsys.readouterr()
    assert main([*command, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["card"]["audited"] == {
        "names": [[1, head] for head in range(4)],
        "texts": 3,
        "rows": 12,
    }
    assert {row["n"] for row in shown["summary"] if row["experiment"] == "prediction"} == {3}


def test_pieces_of_words_are_shown_as_words(run: Path) -> None:
    page = (run / "report.html").read_text()
    trace = Trace.read(run / "trace")
    lengths = {
        int(instance): int((np.diff(words, prepend=-2) != 0).sum())
        for instance, words in zip(trace.instance, trace.ragged("word_id"), strict=True)
    }
    texts = [text for head in data(page, "head-data").values() for text in head["texts"]]
    assert len(texts) >= 4
    assert all(len(text["tokens"]) == lengths[text["text"]] for text in texts)
    assert any(
        lengths[int(instance)] < len(words)
        for instance, words in zip(trace.instance, trace.ragged("word_id"), strict=True)
    )
    assert all((text["tokens"][0], text["tokens"][-1]) == ("[CLS]", "[SEP]") for text in texts)
    assert all(text["special"] == [0, len(text["tokens"]) - 1] for text in texts)
    assert not any(token.startswith("##") for text in texts for token in text["tokens"])


def test_a_finished_run_is_left_as_it_is(
    run: Path, models: Path, corpus: Path, capsys: Any
) -> None:
    before = {path: sha256(path) for path in run.rglob("*") if path.is_file()}
    command = [
        "audit",
        str(models / CLASSIFIER),
        str(corpus),
        "--sample",
        "3",
        "--set",
        "collect.scores=gradient",
        "--set",
        "collect.scores=loo",
        "--out",
        str(run),
    ]
    assert main(command) == 0
    assert {path: sha256(path) for path in run.rglob("*") if path.is_file()}.items() >= {
        path: digest
        for path, digest in before.items()
        if path.name not in ("manifest.json", "report.html")
    }.items()
    assert "it holds another run: " in refused(capsys, *command, "--seed", "3")


@pytest.mark.usefixtures("quick_pages")
def test_another_tokenizer_or_other_names_of_outputs_are_another_run(
    models: Path, corpus: Path, tmp_path: Path, capsys: Any
) -> None:
    model = shutil.copytree(models / CLASSIFIER, tmp_path / "model")
    command = [
        "audit",
        str(model),
        str(corpus),
        *LITTLE,
        "--sample",
        "3",
        "--heads",
        "0",
        "--out",
        str(tmp_path / "out"),
    ]
    assert main(command) == 0
    tokenizer("bytes").save_pretrained(model)
    assert "it holds another run: fingerprint" in refused(capsys, *command)
    shutil.copytree(models / CLASSIFIER, model, dirs_exist_ok=True)
    assert main(command) == 0
    config = json.loads((model / "config.json").read_text())
    config["id2label"] = {str(number): name for number, name in enumerate("210")}
    config["label2id"] = {name: number for number, name in enumerate("210")}
    (model / "config.json").write_text(json.dumps(config))
    assert "it holds another run: fingerprint" in refused(capsys, *command)


@pytest.mark.usefixtures("quick_pages")
def test_a_stopped_audit_resumes_with_the_tables_that_are_whole(
    run: Path, models: Path, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, done = tmp_path / "stopped", Counter[str]()

    def counted(name: str, made: Any) -> Any:
        def call(experiment: Any, trace: Trace) -> pl.DataFrame:
            done[name] += 1
            if name == "erasure" and done[name] <= 2:
                raise KeyboardInterrupt
            return made(experiment, trace)

        return call

    for name in ("maximal_change", "joint", "adversary", "erasure"):
        kind = EXPERIMENTS[name]
        monkeypatch.setattr(kind, "__call__", counted(name, kind.__call__))
    command = [
        "audit",
        str(models / CLASSIFIER),
        str(corpus),
        "--sample",
        "3",
        "--set",
        "collect.scores=gradient",
        "--set",
        "collect.scores=loo",
        "--out",
        str(out),
    ]
    assert main(command) == 130
    (table,) = (out / ".unfinished").rglob("joint.arrow")
    content = bytearray(table.read_bytes())
    content[len(content) // 2] ^= 1
    table.write_bytes(content)
    assert main(command) == 130
    assert main(command) == 0
    assert done == {"maximal_change": 1, "joint": 2, "adversary": 1, "erasure": 3}
    assert not (out / ".unfinished").exists()
    for file in (run / "results").iterdir():
        assert (out / "results" / file.name).read_bytes() == file.read_bytes()


def test_an_audit_of_the_trace_needs_no_model(run: Path, tmp_path: Path) -> None:
    assert (
        main(["audit", str(run), "--experiment", "permutation", "--out", str(tmp_path / "audit")])
        == 0
    )
    mine = pl.read_parquet(tmp_path / "audit" / "results" / "permutation.parquet")
    assert mine.equals(pl.read_parquet(run / "results" / "permutation.parquet"))
    manifest = json.loads((tmp_path / "audit" / "manifest.json").read_text())
    assert "onnxruntime" in manifest["versions"]
    assert "transformers" not in manifest["versions"]


@pytest.mark.usefixtures("quick_pages")
def test_prompts_of_a_language_model_are_replayed(
    models: Path, tmp_path: Path, capsys: Any
) -> None:
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("the baker\na mill\n")
    out = tmp_path / "lm"
    command = [
        "audit",
        str(models / WRITER),
        str(prompts),
        *LITTLE,
        "--heads",
        "0,1",
        "--experiment",
        "joint",
    ]
    assert main([*command, "--out", str(out)]) == 0
    audit = ["audit", str(out), "--experiment", "permutation", "--out", str(tmp_path / "audit")]
    assert "tail 'replay' and no model" in refused(capsys, *audit)
    assert "a model with the fingerprint" in refused(
        capsys, *audit, "--replay", str(models / CLASSIFIER)
    )
    assert not (tmp_path / "audit").exists()
    assert main([*audit, "--replay", str(models / WRITER)]) == 0
    mine, theirs = (
        pl.read_parquet(place / "results" / "permutation.parquet")
        for place in (tmp_path / "audit", out)
    )
    assert np.allclose(mine["median_delta_y"], theirs["median_delta_y"], atol=1e-6)


@pytest.mark.usefixtures("quick_pages")
def test_texts_alone_are_audited(models: Path, tmp_path: Path, capsys: Any) -> None:
    """A folder with a test split alone, with no label, in which no row of train is read."""
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "test.txt").write_text("the baker\na mill\n")
    (folder / "train.csv").write_text("text,label\n,\n")
    assert (
        main(
            [
                "audit",
                str(models / CLASSIFIER),
                str(folder),
                "--set",
                "collect.scores=gradient",
                "--heads",
                "0,1",
                "--out",
                str(tmp_path / "out"),
            ]
        )
        == 0
    )
    shown = capsys.readouterr().out
    assert "2 texts, 2 heads of layer 1: 4 rows" in shown
    assert "skipped: prediction: the trace has no column label" in shown
    assert (
        "note: no labels (column 'label'), so how well the model predicts is not measured" in shown
    )


@pytest.mark.usefixtures("quick_pages")
def test_the_seed_of_a_generated_corpus_is_its_own(models: Path, tmp_path: Path) -> None:
    found = []
    for number in (0, 1):
        generated = [
            "planted-prior",
            "--set",
            "corpus.size=40",
            "--set",
            f"corpus.seed={number}",
            "--sample",
            "2",
        ]
        out = tmp_path / str(number)
        assert (
            main(
                [
                    "audit",
                    str(models / WRITER),
                    *generated,
                    *LITTLE,
                    "--heads",
                    "0",
                    "--out",
                    str(out),
                ]
            )
            == 0
        )
        found.append(Trace.first(out / "trace").tokens(0))
    assert found[0] != found[1]


def test_names_of_outputs_are_shown_and_can_be_stated(
    models: Path, tmp_path: Path, capsys: Any
) -> None:
    corpus = tmp_path / "mine.csv"
    pl.DataFrame({"text": ["the baker", "a mill", "one"], "label": ["x", "y", "z"]}).write_csv(
        corpus
    )
    for options, names, matched in (
        ((), ("x", "y", "z"), "order"),
        (("--set", "collect.classes=z,y,x"), ("z", "y", "x"), "name"),
    ):
        out = tmp_path / matched
        assert (
            main(
                [
                    "audit",
                    str(models / CLASSIFIER),
                    str(corpus),
                    *LITTLE,
                    "--heads",
                    "0",
                    *options,
                    "--out",
                    str(out),
                ]
            )
            == 0
        )
        outputs = {f"LABEL_{number}": name for number, name in enumerate(names)}
        assert json.loads((out / "manifest.json").read_text())["classes"] == {
            "outputs": outputs,
            "matched": matched,
        }
        assert (
            "LABEL_0 is x, LABEL_1 is y, LABEL_2 is z" in " ".join(capsys.readouterr().out.split())
        ) is (matched == "order")
        page = statements((out / "report.html").read_text())
        assert "model.outputs.LABEL_0" in page
        assert ("classes assumed: LABEL_0 is x, LABEL_1 is y, LABEL_2 is z" in page) is (
            matched == "order"
        )
        assert Trace.first(out / "trace").array("label").tolist()[::2] == (
            [0, 1, 2] if matched == "order" else [2, 1, 0]
        )


def test_positions_are_no_texts(models: Path, tmp_path: Path, capsys: Any) -> None:
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("the baker\na mill\n")
    command = [
        "audit",
        str(models / WRITER),
        str(prompts),
        "--set",
        "collect.positions=all",
        "--heads",
        "0",
        "--experiment",
        "prediction",
        *LITTLE,
    ]
    assert main([*command, "--out", str(tmp_path / "out")]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    rows = len(Trace.first(tmp_path / "out" / "trace"))
    assert f"2 texts at {rows // 2} positions, 2 heads of 2 layers: {rows} rows" in shown
    assert f"of {rows // 2 - 2} labelled positions of 2 texts" in shown.replace("│ ", "")
    assert "A row is a position of a text under one head." in statements(
        (tmp_path / "out" / "report.html").read_text()
    )


def _damages(model: Path, folder: Path) -> Iterator[tuple[list[str], str]]:
    """Arguments that cannot be audited, and what is said of them."""
    yield [str(folder / "nothing")], "no such folder"
    yield (
        [str(model), "--layers", "7"],
        "layer 7: no such layer of encoder attention; expected 0 to 1, last or all",
    )
    yield [str(model), "--heads", "x"], "--heads: x; expected all or numbers, as 0,3"
    yield (
        [
            str(model),
        ],
        "--task causal-lm: BertForSequenceClassification, a model for classification",
    )
    yield (
        [
            str(model),
        ],
        "--task causal_lm: no such task; expected one of classification, causal-lm, seq2seq; did you",
    )
    yield [str(model), "--set", "collect.cross=true"], "no cross-attention"
    yield [str(model), "--set", "collect.scores=gradiant"], "--score gradiant: no such measure"
    yield (
        [str(model), "--split", "tost"],
        "--split tost: a file without splits; expected all, or train, dev or test",
    )
    yield (
        [str(model), "--set", "collect.classes=a,b"],
        "--classes: a, b (2); expected 3 different names, one for each output",
    )


def test_bad_input_is_one_line_and_leaves_nothing(
    models: Path, corpus: Path, tmp_path: Path, capsys: Any
) -> None:
    for (model, *options), message in _damages(models / CLASSIFIER, tmp_path):
        assert message in refused(
            capsys, "audit", model, str(corpus), *options, "--out", str(tmp_path / "out")
        )
        assert not (tmp_path / "out").exists()


def _changed(graph: Path) -> None:
    graph.write_bytes(graph.read_bytes() + b"\0")


def _foreign(graph: Path) -> None:
    model = onnx.load(str(graph))
    model.graph.node[0].domain = "org.example"
    onnx.save(model, str(graph))


def _outside(graph: Path) -> None:
    onnx.save(
        onnx.load(str(graph)),
        str(graph),
        save_as_external_data=True,
        location="weights.bin",
        size_threshold=0,
    )


@pytest.mark.parametrize(
    ("damage", "digest", "message"),
    [
        (_changed, False, "a file that was changed; expected sha256"),
        (_foreign, True, "operators of org.example; expected operators of ONNX itself"),
        (_outside, True, "in another file; expected all weights within the graph"),
    ],
)
def test_a_graph_that_is_not_the_traces_is_refused(
    run: Path, tmp_path: Path, damage: Any, digest: bool, message: str
) -> None:
    graph = tmp_path / GRAPH_FILE
    graph.write_bytes((run / "trace" / GRAPH_FILE).read_bytes())
    known = sha256(graph)
    damage(graph)

    def call() -> None:
        tail = GraphTail(graph, sha256(graph) if digest else known)
        tail(np.zeros((1, 64)), np.zeros(1, np.int64))

    with pytest.raises(TraceError, match=message):
        call()


def test_a_trace_without_its_graph_is_refused(run: Path, tmp_path: Path) -> None:
    part = tmp_path / "part-00000.parquet"
    part.write_bytes((run / "trace" / "part-00000.parquet").read_bytes())
    with pytest.raises(TraceError, match=f"{GRAPH_FILE}: no such file"):
        Trace.read(tmp_path)
