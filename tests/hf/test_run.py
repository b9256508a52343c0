"""``attnaudit audit MODEL_DIR CORPUS``: from a folder and a table of texts to a report."""

import json
import shutil
from pathlib import Path

import numpy as np
import onnx
import polars as pl
import pytest

from attnaudit.core.errors import TraceError
from attnaudit.core.files import read_json, sha256
from attnaudit.trace import Trace
from attnaudit.trace.tails import GRAPH_FILE, GraphTail
from tests.hf.command import CLASSIFIER, LEAST, LITTLE, WRITER, audit, refused, write
from tests.hf.tokenizing import texts, tokenizer
from tests.report.test_heads import data, statements

THREE = ("--sample", "3", "--set", "collect.scores=gradient,loo")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    rows = [f'"{text}",{k % 3}' for k, text in enumerate(sorted(set(texts()))[:40])]
    return write(tmp_path_factory.mktemp("corpus") / "texts.csv", "text,label", *rows)


@pytest.fixture(scope="module")
def run(models, corpus, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "bert"
    assert audit(models / CLASSIFIER, corpus, *THREE, out=out) == 0
    return out


def results(out):
    return pl.read_parquet(out / "results/permutation.parquet")


@pytest.mark.slow
def test_a_run_has_a_report_with_heads_and_checks(run, models):
    page = (run / "report.html").read_text()
    assert 'id="heads"' in page
    summary = read_json(run / "summary.json")
    assert {row["group"] for row in summary} >= {"all", *(f"head:1.{head}" for head in range(4))}
    assert {row["n"] for row in summary if row["experiment"] == "prediction"} == {3}
    assert read_json(run / "manifest.json")["kind"] == "transformer"
    assert "3 texts, 4 heads of layer 1: 12 rows" in statements(page)


@pytest.mark.slow
def test_pieces_of_words_are_shown_as_words(run):
    page, trace = (run / "report.html").read_text(), Trace.read(run / "trace")
    counts = [int((np.diff(ids, prepend=-2) != 0).sum()) for ids in trace.ragged("word_id")]
    assert any(counts < trace.alpha.lengths)
    words = dict(zip(trace.instance.tolist(), counts, strict=True))
    shown = [text for own in data(page, "head-texts-data").values() for text in own]
    assert len(shown) >= 4
    for text in shown:
        tokens = text["tokens"]
        assert len(tokens) == words[text["text"]]
        assert text["special"] == [0, len(tokens) - 1]


@pytest.mark.slow
@pytest.mark.usefixtures("quick_pages")
def test_another_tokenizer_or_other_names_of_outputs_are_another_run(
    models, corpus, tmp_path, capsys
):
    model, out = shutil.copytree(models / CLASSIFIER, tmp_path / "model"), tmp_path / "out"
    command = (model, corpus, *LEAST)
    assert audit(*command, out=out) == 0
    tokenizer("bytes").save_pretrained(model)
    assert "it holds another run: fingerprint" in refused(capsys, *command, out=out)
    shutil.copytree(models / CLASSIFIER, model, dirs_exist_ok=True)
    assert audit(*command, out=out) == 0
    config = read_json(model / "config.json") | {"id2label": {"0": "2", "1": "1", "2": "0"}}
    (model / "config.json").write_text(json.dumps(config))
    assert "it holds another run: fingerprint" in refused(capsys, *command, out=out)


def test_all_rows_of_a_text_have_the_heatmap_that_is_shown(run):
    trace = Trace.read(run / "trace")
    assert trace.metadata["heatmap"] == "mean-last"
    shown = trace.ragged("importance_shown")
    for text in np.unique(trace.instance):
        rows = np.flatnonzero(trace.instance == text).tolist()
        weights = np.mean([trace.alpha[row] for row in rows], axis=0)
        for row in rows:
            assert shown[row] == pytest.approx(weights, abs=1e-6)


def test_an_unknown_heatmap_is_refused_before_the_model_is_read(models, corpus, tmp_path, capsys):
    model = shutil.copytree(models / CLASSIFIER, tmp_path / "model")
    (model / "model.safetensors").write_bytes(b"")
    line = refused(capsys, model, corpus, "--heatmap", "rolout", out=tmp_path / "out")
    assert "--heatmap: 'rolout'; expected one of gradient" in line
    assert line.endswith("did you mean rollout?")


def test_an_audit_of_the_trace_needs_no_model(run, tmp_path):
    assert audit(run, "--experiment", "permutation", out=tmp_path / "audit") == 0
    assert results(tmp_path / "audit").equals(results(run))


@pytest.mark.usefixtures("quick_pages")
def test_prompts_of_a_language_model_are_replayed(models, tmp_path, capsys):
    prompts, out = (
        write(tmp_path / "prompts.txt", "the baker", "", "   ", "a mill"),
        tmp_path / "lm",
    )
    assert audit(models / WRITER, prompts, *LEAST, out=out) == 0
    assert sorted(results(out)["instance"].unique()) == [0, 1]
    again, other = (out, "--experiment", "permutation"), tmp_path / "audit"
    assert "tail 'replay' and no model" in refused(capsys, *again, out=other)
    assert audit(*again, "--replay", models / WRITER, out=other) == 0
    mine, theirs = (results(one)["median_delta_y"].to_numpy() for one in (other, out))
    assert mine == pytest.approx(theirs, abs=1e-6)


@pytest.mark.usefixtures("quick_pages")
def test_names_of_outputs_can_be_stated(models, tmp_path):
    corpus, out = (
        write(tmp_path / "mine.csv", "text,label", "the baker,x", "a mill,z"),
        tmp_path / "o",
    )
    stated = ("--set", "collect.classes=z,y,x")
    assert audit(models / CLASSIFIER, corpus, *LEAST, *stated, out=out) == 0
    first = Trace.first(out / "trace")
    outputs = {"LABEL_0": "z", "LABEL_1": "y", "LABEL_2": "x"}
    model = first.metadata["model"]
    assert (model["outputs"], model["matched"]) == (outputs, "name")
    assert first.array("label").tolist()[::2] == [2, 0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--layers", "7"), "layer 7: no such layer; expected all, last or"),
        (("--heads", "x"), "collect.heads: x; expected all or numbers, as 0,3"),
        (("--set", "collect.cross=true"), "no cross-attention"),
        (("--set", "collect.scores=gradiant"), "measure: 'gradiant'; expected one of gradient"),
        (("--set", "collect.classes=a,b"), "a, b (2); expected 3 different names"),
        (("--set", "collect.positions=one"), "positions one: a model for classification; expected"),
        (("--heatmap", "head:1.4"), "head:1.4: no such head; expected a head of 0.0 to 0.3, 1.0"),
    ],
)
def test_bad_options_are_one_line(options, message, models, corpus, tmp_path, capsys):
    out = tmp_path / "out"
    assert message in refused(capsys, models / CLASSIFIER, corpus, *LITTLE, *options, out=out)


def _foreign(graph):
    model = onnx.load(str(graph))
    model.graph.node[0].domain = "org.example"
    onnx.save(model, str(graph))


def _outside(graph):
    options = {"save_as_external_data": True, "size_threshold": 0}
    onnx.save(onnx.load(str(graph)), str(graph), location="weights.bin", **options)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("damage", "digest", "message"),
    [
        (lambda graph: graph.write_bytes(graph.read_bytes() + b"\0"), False, "was changed"),
        (_foreign, True, r"operators org.example.\w+; expected the operators of a feed-forward"),
        (_outside, True, "in another file; expected all weights in the graph"),
    ],
)
def test_a_graph_that_is_not_the_traces_is_refused(run, tmp_path, damage, digest, message):
    graph = Path(shutil.copy(run / "trace" / GRAPH_FILE, tmp_path))
    known = sha256(graph)
    damage(graph)
    tail = GraphTail(graph, sha256(graph) if digest else known)
    with pytest.raises(TraceError, match=message):
        tail(np.zeros((1, 64)), np.zeros(1, np.int64))
