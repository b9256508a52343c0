"""What cannot be audited is one line with status 2, and leaves nothing behind."""

import json
import os
import pickle
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch.nn.modules import module as registrations

from attnaudit.core.files import read_json, sha256
from attnaudit.hf.load import load_pretrained
from tests import killed
from tests.forked import apart
from tests.hf.command import CLASSIFIER, LEAST, LITTLE, WRITER, audit, refused, write
from tests.hf.tokenizing import SIZE, tokenizer

Damage = Callable[[Path], object]
ROWS = [f"the baker {number},{'abc'[number % 3]}" for number in range(30)]
ASKED = "text,other,label"
QUESTIONS = [f"the baker,a mill,{'abc'[number % 3]}" for number in range(30)]

pytestmark = pytest.mark.usefixtures("quick_pages")


@pytest.fixture
def corpus(tmp_path):
    return write(tmp_path / "texts.csv", "text,label", *ROWS)


def damaged(model, place, damage):
    shutil.copytree(model, place)
    damage(place)
    return place


def configured(**values):
    path = "config.json"
    return lambda folder: (folder / path).write_text(json.dumps(read_json(folder / path) | values))


def without(*names):
    return lambda folder: [(folder / name).unlink() for name in names]


def weighted(change):
    """Save the model again after a change."""

    def damage(folder):
        model = load_pretrained(folder)
        with torch.no_grad():
            change(model)
        model.save_pretrained(folder)

    return damage


def in_parts(folder):
    model = load_pretrained(folder)
    (folder / "model.safetensors").unlink()
    model.save_pretrained(folder, max_shard_size="20KB")
    min(folder.glob("model-*")).unlink()


def weights_in(name, content=None):
    """Weights in a file that an index names."""

    def damage(folder):
        own = folder / "model.safetensors"
        (folder / name).write_bytes(own.read_bytes() if content is None else content(folder))
        by_weight = dict.fromkeys(load_file(own), str(name))
        own.unlink()
        index = {"metadata": {}, "weight_map": by_weight}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))

    return damage


class Touching:
    """Runs code where it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def linked(folder):
    (folder / "model.safetensors").rename(folder.parent / "outside.safetensors")
    (folder / "model.safetensors").symlink_to(folder.parent / "outside.safetensors")


def with_adapter(folder):
    (folder / "adapter_config.json").write_text('{"base_model_name_or_path": "org/other"}')


def brackets(name):
    return lambda folder: (folder / name).write_text('{"a": ' + "[" * 100_000)


def lying(length):
    def damage(folder):
        path = folder / "model.safetensors"
        path.write_bytes(length.to_bytes(8, "little") + path.read_bytes()[8:])

    return damage


def without_head(folder):
    model: Any = load_pretrained(folder)
    model.base_model.save_pretrained(folder)
    configured(architectures=["BertForSequenceClassification"])(folder)


def with_code(folder):
    (folder / "own.py").write_text(f"open({str(folder / 'ran')!r}, 'w')\nclass Own: pass\n")
    configured(auto_map={"AutoModelForSequenceClassification": "own.Own"})(folder)


def as_adapter(folder):
    without("config.json", "model.safetensors")(folder)
    (folder / "adapter_config.json").write_text('{"peft_type": "LORA"}')


MODELS = {
    "no configuration": (without("config.json"), "no config.json; expected the folder of a saved"),
    "no JSON": (lambda folder: (folder / "config.json").write_bytes(b"\xff"), "UnicodeDecodeError"),
    "no weights": (without("model.safetensors"), "no weights; expected model.safetensors"),
    "pickled weights": (
        lambda folder: (folder / "model.safetensors").rename(folder / "pytorch_model.bin"),
        "weights only in pytorch_model.bin; expected model.safetensors, because pickles are never read",
    ),
    "weights that are cut": (
        lambda folder: os.truncate(folder / "model.safetensors", 30_000),
        "model.safetensors: damaged (",
    ),
    "a missing file of weights": (in_parts, "model-00001-of-"),
    "code of its own": (with_code, "auto_map"),
    "another value": (lambda folder: (folder / "config.json").write_text("[1]"), "in JSON"),
    "no class": (configured(architectures=[]), "architectures: []"),
    "an unknown class": (configured(architectures=["OwnNet"]), "architectures: ['OwnNet']"),
    "a class of no model": (configured(architectures=["BertConfig"]), "'BertConfig'"),
    "no head": (without_head, "no weights classifier.bias, classifier.weight"),
    "pickles in an index": (
        weights_in("x.bin", lambda folder: pickle.dumps(Touching(folder / "ran"))),
        "weights in x.bin; expected *.safetensors files in the folder itself",
    ),
    "an index that leads out": (weights_in("../x.safetensors"), "weights in ../x.safetensors;"),
    "an index without names": (
        lambda folder: (
            weights_in("x.safetensors")(folder),
            (folder / "model.safetensors.index.json").write_text('{"weight_map": {"a": 1}}'),
        ),
        "weights in 1; expected *.safetensors files",
    ),
    "a link that leads out": (linked, "weights in model.safetensors; expected *.safetensors files"),
    "brackets": (brackets("config.json"), "RecursionError"),
    "brackets of an index": (
        lambda folder: (
            (folder / "model.safetensors").unlink(),
            brackets("model.safetensors.index.json")(folder),
        ),
        "RecursionError",
    ),
    "code of a part": (
        configured(text_config=[{"auto_map": {"AutoModel": "o/r--m.M"}}]),
        "auto_map",
    ),
    "other weights": (configured(transformers_weights="x.safetensors"), "transformers_weights"),
    "quantised": (configured(quantization_config={"quant_method": "fp8"}), "a quantised model"),
    "an adapter beside it": (with_adapter, "a PEFT adapter (adapter_config.json)"),
    "too many classes": (
        configured(num_labels=10**12),
        "num_labels: 1000000000000; expected at most",
    ),
    "a header beyond the file": (lying(10**12), "model.safetensors: damaged ("),
    "a header within a header": (lying(9), "model.safetensors: damaged ("),
    "an adapter": (as_adapter, "only a PEFT adapter (adapter_config.json)"),
    "no heads": (configured(num_attention_heads=0), "ZeroDivisionError"),
    "other sizes": (
        configured(vocab_size=SIZE + 1),
        f"shape {SIZE} × 32; expected {SIZE + 1} × 32",
    ),
    "NaN in a weight that few texts need": (
        weighted(lambda model: model.get_input_embeddings().weight[SIZE - 1].fill_(torch.nan)),
        "weights bert.embeddings.word_embeddings.weight that are no finite numbers",
    ),
    "NaN logits": (
        weighted(lambda model: model.classifier.weight.fill_(3e38)),
        "logits that are no finite numbers",
    ),
    "several classes for a text": (
        configured(problem_type="multi_label_classification"),
        "num_labels 3, problem_type multi_label_classification; expected a classifier with one",
    ),
}


AHEAD = {
    "a head that no layer has": (CLASSIFIER, ("--heatmap", "head:9.9"), "head:9.9: no such head"),
    "an answer of a classifier": (
        CLASSIFIER,
        ("--column", "answer=other"),
        "answers: a model for classification; expected a language model",
    ),
    "no class of a head": ("BertModel", (), "no head that an audit knows; expected …ForSequence"),
    "words that are masked": ("BertForMaskedLM", (), "no head that an audit knows"),
    "texts to choose from": ("BertForMultipleChoice", (), "no head that an audit knows"),
    "images too": ("CLIPModel", (), "no head that an audit knows"),
    "an end of two": ("BertForQuestionAnswering", (), "--set collect.output=start"),
    "an answer to nothing": (
        "BertForQuestionAnswering",
        ("--set", "collect.output=end"),
        "expected a question for each: --column question=NAME",
    ),
    "a question to no answer": (
        WRITER,
        ("--column", "question=other"),
        "questions for a language model, and no answers; .* --set collect.generate=20",
    ),
}


@pytest.mark.parametrize("case", AHEAD)
def test_what_the_configuration_shows_is_refused_before_weights_are_read(
    case, models, tmp_path, capsys, monkeypatch
):
    name, options, message = AHEAD[case]
    own = models / (name if name == WRITER else CLASSIFIER)
    model = damaged(own, tmp_path / "model", configured(architectures=[name]))
    if name == "CLIPModel":
        configured(model_type="clip")(model)
    mine = write(tmp_path / "mine.csv", ASKED, *QUESTIONS)
    monkeypatch.setattr("attnaudit.hf.load._read", None)
    assert re.search(message, refused(capsys, model, mine, *LITTLE, *options, out=tmp_path / "out"))


@pytest.mark.parametrize("own", ["flash_attention_2", "org/kernel"])
def test_the_choice_of_attention_in_a_configuration_is_ignored(own, models, tmp_path):
    choice = configured(_attn_implementation=own, attn_implementation=own)
    model = load_pretrained(damaged(models / CLASSIFIER, tmp_path / "model", choice))
    assert model.config._attn_implementation == "sdpa"


SIZES = {
    "num_hidden_layers": 10**6,
    "vocab_size": 10**12,
    "intermediate_size": 10**9,
    "max_position_embeddings": 10**10,
}


@pytest.mark.parametrize("size", SIZES)
def test_sizes_far_beyond_the_weights_end_before_anything_is_built(size, models, tmp_path, capsys):
    """Counted in modules rather than in seconds: no weight gets memory, and few layers are made."""
    model = damaged(models / CLASSIFIER, tmp_path / "model", configured(**{size: SIZES[size]}))
    made = []
    counting = registrations.register_module_parameter_registration_hook(
        lambda _module, _name, weight: made.append(weight is None or weight.is_meta)
    )
    try:
        line = refused(capsys, model, "--check")
    finally:
        counting.remove()
    assert "config.json: sizes of a BertForSequenceClassification far larger than the" in line
    assert all(made)
    assert len(made) < 5000


def test_a_snapshot_of_the_cache_is_read(models, tmp_path):
    """Its files are links to those in a folder beside the snapshots."""
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots/revision"
    blobs.mkdir()
    snapshot.mkdir(parents=True)
    for number, path in enumerate((models / CLASSIFIER).iterdir()):
        shutil.copy(path, blobs / str(number))
        (snapshot / path.name).symlink_to(Path("../../blobs") / str(number))
    assert load_pretrained(snapshot).config.num_labels == 3


def slow(folder):
    (folder / "tokenizer.json").unlink()
    write(folder / "vocab.json", '{"<unk>": 0}')
    write(folder / "merges.txt", "#version: 0.2")
    kind = {"tokenizer_class": "CTRLTokenizer", "unk_token": "<unk>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(kind))


def tokenizing(change):
    def damage(folder):
        path = folder / "tokenizer.json"
        parts = read_json(path)
        change(parts)
        path.write_text(json.dumps(parts))

    return damage


without_token = tokenizing(lambda parts: parts["post_processor"]["special_tokens"].clear())
without_unknown = tokenizing(lambda parts: parts["model"].update(unk_token="[NONE]"))


def with_more_words(folder):
    more = tokenizer("wordpiece")
    more.add_tokens([*(f"word{number}word" for number in range(SIZE)), "bake"])
    more.save_pretrained(folder)


TOKENIZERS = {
    "damaged": (lambda folder: os.truncate(folder / "tokenizer.json", 100), "read tokenizer: "),
    "brackets in it": (brackets("tokenizer.json"), "RecursionError"),
    "a panic of Rust": (without_token, "no entry found for key"),
    "no unknown word": (without_unknown, "Missing [UNK] token"),
    "a slow one": (slow, "a CTRLTokenizer; expected a fast tokenizer"),
    "of more tokens than the model": (with_more_words, "expected one below 400, the model's"),
}


@pytest.mark.parametrize("damage", [*MODELS, *TOKENIZERS])
def test_a_model_or_a_tokenizer_that_cannot_be_read(damage, models, corpus, tmp_path, capsys):
    change, message = (MODELS | TOKENIZERS)[damage]
    model = damaged(models / CLASSIFIER, tmp_path / "model", change)
    if damage in MODELS:
        assert message in refused(capsys, model, "--check")
    assert message in refused(capsys, model, corpus, *LITTLE, out=tmp_path / "out")
    assert not (model / "ran").exists()


def test_code_of_a_tokenizer_is_not_run(models, corpus, tmp_path):
    model = damaged(models / CLASSIFIER, tmp_path / "model", with_code)
    shutil.copy(models / CLASSIFIER / "config.json", model)
    path = model / "tokenizer_config.json"
    own = {"auto_map": {"AutoTokenizer": ["own.Own", "own.Own"]}, "tokenizer_class": "Own"}
    path.write_text(json.dumps(read_json(path) | own))
    assert audit(model, corpus, *LEAST, out=tmp_path / "out") == 0
    assert not (model / "ran").exists()


QUESTION = ("--column", "question=other")
CORPORA = {
    "an empty text": (["text,label", *ROWS, ",a"], (), "row 30 (line 32): an empty text"),
    "no text with a token": (
        ["text,label", *[f"\u200b,{label}" for label in "abc"]],
        (),
        "no text with a token among 3",
    ),
    "texts that spell special tokens": (
        ["text,label", *[f"[SEP],{label}" for label in "abc"]],
        (),
        "no text with a token among 3",
    ),
    "a second text that is missing": (
        [ASKED, *QUESTIONS, "the end,,a"],
        QUESTION,
        "mine.csv: row 30 (line 32): an empty question",
    ),
}


@pytest.mark.parametrize("case", CORPORA)
def test_a_corpus_that_cannot_be_read(case, models, tmp_path, capsys):
    lines, options, message = CORPORA[case]
    mine = write(tmp_path / "mine.csv", *lines)
    command = (models / CLASSIFIER, mine, *LITTLE, *options)
    assert message in refused(capsys, *command, out=tmp_path / "out")


ANSWERED = ("--column", "answer=answer", "--column", "segments=parts")
WHOLE = ["the baker", "slept"]
PARTS = {
    "segments that overlap": ([[0, 5], [3, 15]], "a mill", "that overlaps the one before it"),
    "segments that leave tokens out": (["the", "slept"], "a mill", "after 'baker', which is in no"),
    "segments beyond the text": ([[0, 99]], "a mill", "not in the rest of a text of 15 characters"),
    "an answer without a token": (WHOLE, "\u200b", "row 1: an answer whose tokens are not apart"),
}


@pytest.mark.parametrize("case", PARTS)
def test_segments_and_answers_are_refused_before_the_model_is_read(
    case, models, tmp_path, capsys, monkeypatch
):
    parts, answer, message = PARTS[case]
    rows = [WHOLE, parts], ["a mill", answer]
    table = [
        {"text": "the baker slept", "parts": p, "answer": a} for p, a in zip(*rows, strict=True)
    ]
    mine = write(tmp_path / "mine.jsonl", *map(json.dumps, table))
    monkeypatch.setattr("attnaudit.recipes.saved.load_pretrained", None)
    own = tokenizer("wordpiece", "$A")
    model = damaged(models / WRITER, tmp_path / "model", own.save_pretrained)
    command = (model, mine, *LITTLE, *ANSWERED)
    assert message in refused(capsys, *command, out=tmp_path / "out")


UNUSABLE = {
    "ranges": "ranges: more than two classes, or further layers",
    "joint": "joint: a layer of one head is what the other experiments are about",
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_an_experiment_that_no_such_trace_allows_is_refused_before_texts_are_collected(
    name, models, tmp_path, capsys, monkeypatch
):
    texts = write(tmp_path / "texts.csv", "text", *(row.partition(",")[0] for row in ROWS))
    monkeypatch.setattr("attnaudit.recipes.job.write_shards", None)
    command = (models / CLASSIFIER, texts, *LITTLE, "--heads", "0", "--experiment", name)
    assert UNUSABLE[name] in refused(capsys, *command, out=tmp_path / "out")


@pytest.mark.slow
def test_a_killed_run_ends_with_the_same_bytes(models, corpus, tmp_path):
    once, out = tmp_path / "once", tmp_path / "out"
    assert audit(models / CLASSIFIER, corpus, *LITTLE, out=once) == 0
    parts = ("audit", models / CLASSIFIER, corpus, *LITTLE, "--out", out)
    command = [*map(str, parts)]
    # Within collect, and within the audit of the resumed run.
    assert apart(killed.of_command, command, (2, 5)) == 2
    assert audit(*command[1:]) == 0
    for folder in ("trace", "results"):
        files = sorted(path.name for path in (once / folder).iterdir())
        assert files == sorted(path.name for path in (out / folder).iterdir())
        for name in files:
            assert sha256(out / folder / name) == sha256(once / folder / name)
