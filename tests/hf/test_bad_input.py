"""What cannot be audited is one line with status 2, whatever it is, and leaves nothing behind; what is killed goes on where it was."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch

from attnaudit.cli import main
from attnaudit.core.files import sha256
from attnaudit.hf.load import load_pretrained
from tests import killed, pages
from tests.forked import apart
from tests.hf.classes import tiny
from tests.hf.tokenizing import SIZE, tokenizer

CLASSIFIER, WRITER = "BertForSequenceClassification", "GPT2LMHeadModel"
LITTLE = ("--experiment", "permutation", "--set", "collect.scores=gradient", "--sample", "4")
LEAST = (*LITTLE, "--layers", "all", "--heads", "0")  # behind no graph, whose export takes a second
ROWS = [(f"the baker {number}", "abc"[number % 3]) for number in range(30)]

pytestmark = pytest.mark.usefixtures("quick_pages")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders of a classifier and of a language model."""
    place = tmp_path_factory.mktemp("models")
    for name, kind in ((CLASSIFIER, "wordpiece"), (WRITER, "bytes")):
        tiny(name, vocab_size=SIZE).save_pretrained(place / name)
        tokenizer(kind, "[CLS] $A [SEP]" if name == CLASSIFIER else "").save_pretrained(
            place / name
        )
    return place


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return write(tmp_path / "texts.csv", ROWS)


def write(path: Path, rows: list[tuple[str, ...]], header: str = "text,label") -> Path:
    path.write_text("\n".join([header, *(",".join(row) for row in rows)]) + "\n", encoding="utf-8")
    return path


def refused(capsys: Any, *arguments: str | Path) -> str:
    """The one line of a command that fails with status 2."""
    capsys.readouterr()
    assert main([str(argument) for argument in arguments]) == 2
    captured = capsys.readouterr()
    lines = [
        line for line in captured.err.splitlines() if line[:1].strip() and not line[0].isdigit()
    ]  # a number begins a step of progress
    assert len(lines) == 1, captured.err
    assert lines[0].startswith("attnaudit: ")
    assert captured.out == ""
    return lines[0]


def copied(model: Path, place: Path, damage: Callable[[Path], object]) -> Path:
    shutil.copytree(model, place)
    damage(place)
    return place


def configured(**values: object) -> Callable[[Path], object]:
    def change(folder: Path) -> None:
        path = folder / "config.json"
        path.write_text(
            json.dumps(json.loads(path.read_text(encoding="utf-8")) | values), encoding="utf-8"
        )

    return change


def without(*names: str) -> Callable[[Path], object]:
    return lambda folder: [(folder / name).unlink() for name in names]


def weighted(change: Callable[[Any], object]) -> Callable[[Path], object]:
    """The model saved again after a change."""

    def damage(folder: Path) -> None:
        model = load_pretrained(folder)
        with torch.no_grad():
            change(model)
        model.save_pretrained(folder)

    return damage


def in_parts(folder: Path) -> None:
    model = load_pretrained(folder)
    (folder / "model.safetensors").unlink()
    model.save_pretrained(folder, max_shard_size="20KB")
    min(folder.glob("model-*")).unlink()


def with_code(folder: Path) -> None:
    (folder / "own.py").write_text(f"open({str(folder / 'ran')!r}, 'w')\nclass Own: pass\n")
    configured(auto_map={"AutoModelForSequenceClassification": "own.Own"})(folder)


def as_adapter(folder: Path) -> None:
    without("config.json", "model.safetensors")(folder)
    (folder / "adapter_config.json").write_text('{"peft_type": "LORA"}')


def of_embedding(value: float) -> Callable[[Any], object]:
    return lambda model: model.get_input_embeddings().weight[SIZE - 1].fill_(value)


MODELS: dict[str, tuple[Callable[[Path], object], str]] = {
    "no configuration": (without("config.json"), "no config.json; expected the folder of a saved model; save it with"),
    "a configuration that is no JSON": (
        lambda folder: (folder / "config.json").write_bytes(b"\xff\xfe"), "config.json: UnicodeDecodeError",
    ),
    "no weights": (without("model.safetensors"), "no weights; expected model.safetensors"),
    "pickled weights": (
        lambda folder: (folder / "model.safetensors").rename(folder / "pytorch_model.bin"),
        "weights in pytorch_model.bin alone; expected model.safetensors, as no pickle is ever read; save it with",
    ),
    "weights that are cut": (
        lambda folder: os.truncate(folder / "model.safetensors", 30_000),
        "model.safetensors: damaged (Error while deserializing header: incomplete metadata, file not fully covered); expected whole",
    ),
    "no bytes of weights": (lambda folder: os.truncate(folder / "model.safetensors", 0), "model.safetensors: damaged ("),
    "a missing file of weights": (in_parts, "model-00001-of-"),
    "code of its own": (with_code, "a class of its own code (auto_map); expected a class of transformers; code of a model folder is never"),
    "an unknown class": (configured(architectures=["OwnNet"]), "architectures: 'OwnNet'; expected a model class of transformers"),
    "an unknown model_type": (configured(model_type="own"), "config.json: model_type 'own'; expected 'bert', that of Bert"),
    "another model_type": (configured(model_type="gpt2"), "config.json: model_type 'gpt2'; expected 'bert', that of Bert"),
    "sizes of another kind": (configured(num_attention_heads="x"), "StrictDataclassFieldValidationError"),
    "an attention that is not installed": (configured(_attn_implementation="flash_attention_2"), "; expected a model of class Bert"),
    "an adapter alone": (
        as_adapter,
        "an adapter of PEFT alone (adapter_config.json); expected a whole model; merge it in Python: model.merge_and_unload().save_pret",
    ),
    "no heads": (configured(num_attention_heads=0), "ZeroDivisionError"),
    "other sizes": (configured(vocab_size=SIZE + 1), f"of shape {SIZE} × 32; expected {SIZE + 1} × 32, by the sizes in config.json"),
    "float16": (
        weighted(lambda model: model.half()),
        "weights in torch.float16 on a CPU; expected float32; save it so in Python: model.float().save_pretrained(DIR)",
    ),
    "bfloat16": (weighted(lambda model: model.bfloat16()), "weights in torch.bfloat16 on a CPU; expected float32; save it so in Python"),
    "NaN in a weight that few texts need": (
        weighted(of_embedding(float("nan"))), "weights bert.embeddings.word_embeddings.weight that are no finite numbers; expected finite",
    ),
    "NaN logits": (
        weighted(lambda model: model.classifier.weight.fill_(3e38)), "logits that are no finite numbers; expected finite logits; check",
    ),
    "several classes for a text": (
        configured(problem_type="multi_label_classification"),
        "num_labels 3, problem_type multi_label_classification; expected a classifier with one class for each text, of two or more",
    ),
    "a regression": (
        configured(problem_type="regression"), "num_labels 3, problem_type regression; expected a classifier with one class for each text",
    ),
}  # fmt: skip


@pytest.mark.parametrize("damage", MODELS)
def test_a_model_that_cannot_be_read(
    damage: str, models: Path, corpus: Path, tmp_path: Path, capsys: Any
) -> None:
    change, message = MODELS[damage]
    model = copied(models / CLASSIFIER, tmp_path / "model", change)
    for command in (["check", model], [model, corpus, *LITTLE, "--out", tmp_path / "out"]):
        line = refused(capsys, "audit", *command)
        assert message in line
        assert ".;" not in line
    assert not (tmp_path / "out").exists()
    assert not (model / "ran").exists()


def test_a_mistyped_command_is_no_folder(
    models: Path, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = refused(capsys, "audit", "chekc", models / CLASSIFIER)
    assert (
        "hf: chekc: no such command, and no such folder; expected one of audit, check, train, or the folder of a model"
        in line
    )
    assert line.endswith("; did you mean check?")
    monkeypatch.chdir(tmp_path)
    shutil.copytree(models / CLASSIFIER, "chekc")
    corpus = write(tmp_path / "texts.csv", ROWS)
    assert main(["audit", "chekc", str(corpus), *LEAST, "--out", "out"]) == 0


def test_a_model_without_attention_to_be_had(tmp_path: Path, capsys: Any) -> None:
    tiny("MambaForCausalLM").save_pretrained(tmp_path / "model")
    got = "MambaForCausalLM: no attention: nothing after a softmax is multiplied with values; expected a model with softmax attention"
    assert got in refused(capsys, "audit", tmp_path / "model", "--check")


@pytest.mark.parametrize(
    ("name", "message"),
    [("nowhere", "no such folder"), ("texts.csv", "a file"), (".", "no config.json")],
)
def test_a_path_without_a_model(
    name: str, message: str, corpus: Path, tmp_path: Path, capsys: Any
) -> None:
    for command in (
        ["audit", tmp_path / name, "--check"],
        ["audit", tmp_path / name, corpus, "--out", tmp_path / "out"],
    ):
        assert f"{tmp_path / name}: {message}; expected the folder of a saved model" in refused(
            capsys, *command
        )
    assert not (tmp_path / "out").exists()


def slow(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.json").write_text('{"<unk>": 0}')
    (folder / "merges.txt").write_text("#version: 0.2\n")
    (folder / "tokenizer_config.json").write_text(
        '{"tokenizer_class": "CTRLTokenizer", "unk_token": "<unk>"}'
    )


def with_more_words(folder: Path) -> None:
    more = tokenizer("wordpiece", "[CLS] $A [SEP]")
    more.add_tokens([*(f"word{number}word" for number in range(SIZE)), "bake"])
    more.save_pretrained(folder)


def without_vocabulary(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()


TOKENIZERS: dict[str, tuple[Callable[[Path], object], str]] = {
    "none": (
        without("tokenizer.json", "tokenizer_config.json"),
        "no tokenizer.json; expected the fast tokenizer of the model; save it",
    ),
    "no vocabulary": (
        without_vocabulary,
        "a slow tokenizer: no tokenizer.json; expected the fast tokenizer of the model; AutoTokenizer.from",
    ),
    "damaged": (lambda folder: os.truncate(folder / "tokenizer.json", 100), "read tokenizer: "),
    "a slow one": (slow, "a slow tokenizer (CTRLTokenizer); expected a fast tokenizer"),
    "of more tokens than the model": (
        with_more_words,
        "of the tokenizer; expected one below 400, the model's vocabulary; use the",
    ),
}


@pytest.mark.parametrize("damage", TOKENIZERS)
def test_a_tokenizer_that_is_not_the_models(
    damage: str, models: Path, corpus: Path, tmp_path: Path, capsys: Any
) -> None:
    change, message = TOKENIZERS[damage]
    model = copied(models / CLASSIFIER, tmp_path / "model", change)
    assert message in refused(capsys, "audit", model, corpus, *LITTLE, "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_code_of_a_tokenizer_is_not_run(models: Path, tmp_path: Path) -> None:
    model = copied(models / CLASSIFIER, tmp_path / "model", with_code)
    path = model / "tokenizer_config.json"
    own = {"auto_map": {"AutoTokenizer": ["own.Own", "own.Own"]}, "tokenizer_class": "Own"}
    path.write_text(json.dumps(json.loads(path.read_text()) | own))
    (model / "config.json").write_text((models / CLASSIFIER / "config.json").read_text())
    corpus = write(tmp_path / "texts.csv", ROWS)
    assert main(["audit", str(model), str(corpus), *LEAST, "--out", str(tmp_path / "out")]) == 0
    assert not (model / "ran").exists()


def lines_of(*rows: tuple[str, ...], header: str = "text,label") -> Callable[[Path], Path]:
    return lambda place: write(place / "mine.csv", list(rows), header)


def bytes_of(content: bytes, name: str) -> Callable[[Path], Path]:
    def made(place: Path) -> Path:
        (place / name).write_bytes(content)
        return place / name

    return made


QUESTIONS = [(text, "a mill", label) for text, label in ROWS]
CORPORA: dict[str, tuple[str, Callable[[Path], Path], tuple[str, ...], str]] = {
    "empty": (CLASSIFIER, bytes_of(b"", "mine.csv"), (), "mine.csv: an empty file; expected a file with rows"),
    "a header alone": (CLASSIFIER, lines_of(), (), "mine.csv: no row; expected at least one row"),
    "an empty text": (CLASSIFIER, lines_of(*ROWS, ("", "a")), (), "mine.csv: row 30 (line 32): an empty text; expected a text; correct"),
    "other numbers of classes": (
        CLASSIFIER, lines_of(*ROWS[::3], *ROWS[1::3]), (), "3 classes without names where the corpus has 2: a, b; expected as many classes",
    ),
    "no text with a token": (
        CLASSIFIER, lines_of(*(("\u200b", label) for _, label in ROWS)), (), "mine.csv: no text with a token among 4; expected one or more",
    ),
    "texts that spell special tokens": (CLASSIFIER, lines_of(*(("[SEP]", label) for _, label in ROWS)), (), "no text with a token among 4"),
    "a second text that is missing": (
        CLASSIFIER, lines_of(*QUESTIONS, ("the end", "", "a"), header="text,other,label"), ("--column", "question=other"),
        "mine.csv: row 30 (line 32): an empty question; expected a text and a question; correct the row, or skip such rows: --on",
    ),
    "a row that ends early": (
        CLASSIFIER, lines_of(*QUESTIONS, ("the end",), header="text,other,label"), ("--column", "question=other"),
        "mine.csv: row 30 (line 32): 1 field where the header has 3; expected a text and a question; correct the row, or skip",
    ),
    "no such column": (CLASSIFIER, lines_of(*ROWS), ("--column", "question=other"), "mine.csv"),
    "blank prompts": (WRITER, bytes_of(b"\n\n  \n", "mine.txt"), (), "mine.txt: no row; expected at least one row"),
    "no prompt": (WRITER, bytes_of(b"", "mine.txt"), (), "mine.txt: an empty file; expected a file with rows"),
    "prompts in another encoding": (
        WRITER, bytes_of("the café\nmill\n".encode("latin-1"), "mine.txt"), (),
        "mine.txt: row 0 (line 1): invalid UTF-8 (byte 0xe9 at character 7); expected a text; name the encoding in which it was saved",
    ),
    "prompts in UTF-16": (
        WRITER, bytes_of("the mill\n".encode("utf-16"), "mine.txt"), (), "mine.txt: NUL bytes, as in UTF-16 or an archive",
    ),
    "positions of a classifier": (CLASSIFIER, lines_of(*ROWS), ("--set", "collect.positions=one"), "positions one: a classifier; expected a model"),
}  # fmt: skip


@pytest.mark.parametrize("case", CORPORA)
def test_a_corpus_that_cannot_be_read(case: str, models: Path, tmp_path: Path, capsys: Any) -> None:
    model, make, options, message = CORPORA[case]
    assert message in refused(
        capsys,
        "audit",
        models / model,
        make(tmp_path),
        *LITTLE,
        *options,
        "--out",
        tmp_path / "out",
    )
    assert not (tmp_path / "out").exists()


def test_classes_of_other_names(models: Path, corpus: Path, tmp_path: Path, capsys: Any) -> None:
    names = ("good", "bad", "ugly")
    change = configured(
        id2label=dict(enumerate(names)),
        label2id={name: number for number, name in enumerate(names)},
    )
    model = copied(models / CLASSIFIER, tmp_path / "model", change)
    line = refused(capsys, "audit", model, corpus, *LITTLE, "--out", tmp_path / "out")
    assert (
        "classes bad, good, ugly where the corpus has a, b, c; expected the same names; rename the labels of the corpus, or name the"
        in line
    )
    assert not (tmp_path / "out").exists()


def notes(out: Path) -> list[str]:
    return json.loads((out / "manifest.json").read_text())["notes"]


def test_what_is_cut_or_skipped_is_counted(models: Path, tmp_path: Path, capsys: Any) -> None:
    rows = [("the baker " * (60 if number % 2 else 1), "abc"[number % 3]) for number in range(30)]
    corpus = write(tmp_path / "texts.csv", [*rows, *[("\u200b", "a")] * 10])
    assert (
        main(
            [
                "audit",
                str(models / CLASSIFIER),
                str(corpus),
                *LEAST,
                "--sample",
                "99",
                "--out",
                str(tmp_path / "out"),
            ]
        )
        == 0
    )
    found = (
        pl.read_parquet(tmp_path / "out" / "results" / "permutation.parquet")["instance"]
        .unique()
        .to_list()
    )
    long = sum(number % 2 for number in found)
    assert notes(tmp_path / "out")[-3:-1] == [
        f"{long} of 40 texts are longer than 64 tokens, the limit of the model, and cut", "10 texts without a token skipped",
    ]  # fmt: skip
    assert "the limit of the model, and cut" in capsys.readouterr().out


def test_blank_lines_between_prompts_are_none(models: Path, tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("the baker\n\n   \na mill\n\n")
    assert (
        main(["audit", str(models / WRITER), str(prompts), *LEAST, "--out", str(tmp_path / "out")])
        == 0
    )
    found = pl.read_parquet(tmp_path / "out" / "results" / "permutation.parquet")
    assert sorted(found["instance"].unique().to_list()) == [0, 1]


UNUSABLE = {
    "ranges": "ranges: does not apply: the attended sum goes through the rest of the model",
    "alignment": "alignment: for traces of translations with reference alignments only",
    "plausibility": "plausibility: the trace has no column rationale",
    "correlation": "correlation: the trace has no column loo",
    "prediction": "prediction: the trace has no column label",
    "joint": "joint: a layer of one head is what the other experiments are about",
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_an_experiment_that_no_such_trace_allows_is_refused_before_texts_are_collected(
    name: str, models: Path, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts, out = (
        write(tmp_path / "texts.csv", [(text,) for text, _ in ROWS], "text"),
        tmp_path / "out",
    )
    monkeypatch.setattr("attnaudit.trace.write_shards", None)
    command = [
        "audit",
        models / CLASSIFIER,
        texts,
        "--set",
        "collect.scores=gradient",
        "--heads",
        "0",
        "--out",
        out,
    ]
    assert UNUSABLE[name] in refused(
        capsys, *command, "--experiment", "permutation", "--experiment", name
    )
    assert not out.exists()


def test_an_experiment_that_some_texts_allow_is_not_refused(models: Path, tmp_path: Path) -> None:
    """The shortest text has neither a label nor marked words."""
    rows = [
        {"text": "the baker", "label": None, "rationale": None},
        {"text": "the old baker", "label": "a", "rationale": [[0, 3]]},
    ]
    texts, out = tmp_path / "texts.jsonl", tmp_path / "out"
    texts.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    command = [
        "audit",
        models / CLASSIFIER,
        texts,
        *LEAST,
        "--column",
        "rationale=rationale",
        "--set",
        "collect.classes=a,b,c",
        "--out",
        out,
    ]
    assert (
        main([*map(str, command), "--experiment", "prediction", "--experiment", "plausibility"])
        == 0
    )
    assert (out / "manifest.json").exists()


def test_a_folder_that_cannot_be_written(
    models: Path, corpus: Path, tmp_path: Path, capsys: Any
) -> None:
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "mine").touch()
    command = ["audit", models / CLASSIFIER, corpus, *LITTLE, "--out"]
    assert "taken: a folder that holds something else; expected a new or empty folder" in refused(
        capsys, *command, taken
    )
    assert [path.name for path in taken.iterdir()] == ["mine"]
    assert "texts.csv: a file; expected a folder to write into; choose another --out" in refused(
        capsys, *command, corpus
    )
    assert "Not a directory; expected a place that can be written; free some space or" in refused(
        capsys, *command, corpus / "run"
    )


@contextmanager
def full_disk(after: int) -> Iterator[None]:
    """Within, the file number ``after`` that is written does not fit."""
    own, written = os.fsync, [0]

    def sync(handle: int) -> None:
        written[0] += 1
        if written[0] > after:
            raise OSError(errno.ENOSPC, "No space left on device")
        own(handle)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("attnaudit.core.files.os.fsync", sync)
        yield


def test_a_full_disk_leaves_finished_steps_alone(
    models: Path, corpus: Path, tmp_path: Path, capsys: Any
) -> None:
    out = tmp_path / "out"
    command = ["audit", models / CLASSIFIER, corpus, *LEAST, "--out", out]
    for after, given in (
        (0, command),
        (1, [*command, "--layers", "last"]),
        (1, command),
    ):  # the spec, the graph, the first shard
        with full_disk(after):
            assert (
                "No space left on device; expected a place that can be written; free some space"
                in refused(capsys, *given)
            )
        assert not out.exists()
    with full_disk(4):
        refused(capsys, *command)
    assert (out / "trace" / "part-00000.parquet").exists()
    assert not (out / "manifest.json").exists()
    assert main([str(argument) for argument in command]) == 0


@pytest.fixture(scope="module")
def runs(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose tail is a graph and one that is replayed."""
    place = tmp_path_factory.mktemp("runs")
    corpus, prompts = write(place / "texts.csv", ROWS), place / "prompts.txt"
    prompts.write_text("the baker\na mill\n")
    with pages.summaries_as_pages():
        assert (
            main(
                [
                    "audit",
                    str(models / CLASSIFIER),
                    str(corpus),
                    *LITTLE,
                    "--out",
                    str(place / "graph"),
                ]
            )
            == 0
        )
        assert (
            main(
                [
                    "audit",
                    str(models / WRITER),
                    str(prompts),
                    *LEAST,
                    "--out",
                    str(place / "replayed"),
                ]
            )
            == 0
        )
    return place


AUDIT = ("--experiment", "permutation", "--out")


def test_an_audit_of_replayed_rows_needs_their_own_model(
    models: Path, runs: Path, tmp_path: Path, capsys: Any
) -> None:
    audit, out = ["audit", runs / "replayed", *AUDIT], tmp_path / "out"
    assert (
        "part-00000.parquet: tail 'replay' and no model; expected its model, which is run again"
        in refused(capsys, *audit, out)
    )
    assert "a model with the fingerprint" in refused(
        capsys, *audit, out, "--replay", models / CLASSIFIER
    )
    other = copied(
        models / WRITER,
        tmp_path / "other",
        weighted(lambda model: model.get_input_embeddings().weight[5].add_(0.1)),
    )
    line = refused(capsys, *audit, out, "--replay", other)
    assert "a model with the fingerprint" in line
    assert "that the trace was collected from" in line
    assert "nowhere: no such folder" in refused(
        capsys, *audit, out, "--replay", tmp_path / "nowhere"
    )
    assert not out.exists()


def test_a_model_that_a_stored_graph_does_not_need_must_be_the_traces_all_the_same(
    models: Path, runs: Path, tmp_path: Path, capsys: Any
) -> None:
    audit, out = ["audit", runs / "graph", *AUDIT], tmp_path / "out"
    assert "replay: a model with the fingerprint" in refused(
        capsys, *audit, out, "--replay", models / WRITER
    )
    assert not out.exists()
    assert main([*map(str, audit), str(out), "--replay", str(models / CLASSIFIER)]) == 0


TRACES: dict[str, tuple[Callable[[Path], object], str]] = {
    "a changed graph": (
        lambda run: (run / "trace" / "tail.onnx").write_bytes(b"0"),
        "tail.onnx: a file that was changed; expected sha256",
    ),
    "no graph": (
        without("trace/tail.onnx"),
        "tail.onnx: no such file; expected the graph of the tail of part-00000.parquet; copy it with the shards",
    ),
    "a shard that is cut": (
        lambda run: os.truncate(run / "trace" / "part-00000.parquet", 3000),
        "part-00000.parquet: ",
    ),
}


@pytest.mark.parametrize("damage", TRACES)
def test_a_trace_that_was_changed(damage: str, runs: Path, tmp_path: Path, capsys: Any) -> None:
    change, message = TRACES[damage]
    run = copied(runs / "graph", tmp_path / "run", change)
    assert message in refused(capsys, "audit", run, *AUDIT, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_killed_run_ends_with_the_same_bytes(models: Path, runs: Path, tmp_path: Path) -> None:
    command = [
        "audit",
        str(models / CLASSIFIER),
        str(runs / "texts.csv"),
        *LITTLE,
        "--out",
        str(tmp_path / "out"),
    ]
    assert (
        apart(killed.of_command, command, (2, 5)) == 2
    )  # within collect, and within the audit of the resumed run
    assert main(command) == 0
    for folder in ("trace", "results"):
        mine, theirs = (
            {
                path.relative_to(run): sha256(path)
                for path in sorted((run / folder).rglob("*"))
                if path.is_file()
            }
            for run in (tmp_path / "out", runs / "graph")
        )
        assert mine == theirs
        assert mine
