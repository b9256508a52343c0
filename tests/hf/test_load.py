"""Models are read from disk as they were saved, or refused with one line; no code and no pickle of a folder is ever read."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification, BertModel

from attnaudit.cli import main
from attnaudit.core.errors import InputError
from attnaudit.hf.load import load_pretrained
from tests.hf.classes import tiny


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bert")
    tiny("BertForSequenceClassification").save_pretrained(folder)
    return folder


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    """A copy to spoil."""
    place = tmp_path / "bert"
    place.mkdir()
    for path in saved.iterdir():
        (place / path.name).write_bytes(path.read_bytes())
    return place


def test_a_saved_model_is_read_as_it_was(saved: Path) -> None:
    model = load_pretrained(saved)
    assert isinstance(model, BertForSequenceClassification)
    assert not model.training
    for name, weight in tiny("BertForSequenceClassification").state_dict().items():
        torch.testing.assert_close(model.state_dict()[name], weight, rtol=0, atol=0)


def test_the_example_of_the_documentation_runs(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "transformers.md").read_text(encoding="utf-8")
    (example,) = [
        found
        for found in re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
        if "exchange" in found or "uniform" in found
    ]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "bert").symlink_to(saved)
    names: dict[str, Any] = {}
    exec(example, names)
    assert names["gate"].batching == "any"
    assert names["last"].weights.shape == (1, 4, 5, 5)
    assert names["change"].abs().max() > 0.01


def change_config(folder: Path, **values: object) -> None:
    path = folder / "config.json"
    path.write_text(
        json.dumps(json.loads(path.read_text(encoding="utf-8")) | values), encoding="utf-8"
    )


def as_pickle(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def without_head(folder: Path) -> None:
    config = BertConfig(**tiny("BertForSequenceClassification").config.to_dict())
    BertModel(config).save_pretrained(folder)
    change_config(folder, architectures=["BertForSequenceClassification"])


SPOILED: dict[str, tuple[Callable[[Path], object], str]] = {
    "no configuration": (
        lambda folder: (folder / "config.json").unlink(),
        "no config.json; expected the folder of a saved model",
    ),
    "a configuration that is cut": (
        lambda folder: (folder / "config.json").write_text('{"a": 1'),
        "config.json",
    ),
    "a list": (
        lambda folder: (folder / "config.json").write_text("[1]"),
        "a list; expected the configuration of a model",
    ),
    "no weights": (
        lambda folder: (folder / "model.safetensors").unlink(),
        "no weights; expected model.safetensors",
    ),
    "a pickle": (
        as_pickle,
        "weights in pytorch_model.bin alone; expected model.safetensors, as no pickle is ever read",
    ),
    "cut weights": (
        lambda folder: (folder / "model.safetensors").write_bytes(b"\x10" * 40),
        "model.safetensors: damaged (",
    ),
    "code of its own": (
        lambda folder: change_config(folder, auto_map={"AutoModel": "m.M"}),
        "code of a model folder is never run",
    ),
    "no class": (
        lambda folder: change_config(folder, architectures=[]),
        "architectures: []; expected the name of one class",
    ),
    "another class": (
        lambda folder: change_config(folder, architectures=["MyNet"]),
        "architectures: 'MyNet'; expected a model class of",
    ),
    "no model class": (
        lambda folder: change_config(folder, architectures=["BertConfig"]),
        "'BertConfig'; expected a model class",
    ),
    "other sizes": (
        lambda folder: change_config(folder, hidden_size=64),
        "LayerNorm.bias of shape 32; expected 64, by the sizes in",
    ),
    "no head": (
        without_head,
        "no weights classifier.bias, classifier.weight; expected all weights of BertForSequenceClassification",
    ),
}


@pytest.mark.parametrize("spoiled", SPOILED)
def test_what_cannot_be_read_is_one_line(spoiled: str, folder: Path) -> None:
    spoil, message = SPOILED[spoiled]
    spoil(folder)
    with pytest.raises(InputError) as caught:
        load_pretrained(folder)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "message"),
    [("nowhere", "no such folder"), ("file", "a file; expected the folder of a saved model")],
)
def test_what_is_no_folder_is_one_line(name: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=message):
        load_pretrained(tmp_path / name)


def test_the_command_shows_checks_and_layers(
    saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", str(saved), "--check"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(
        "BertForSequenceClassification can be audited: classification, read at position 0; texts in one batch: any"
    )
    assert "reported weights" in shown
    assert "bert.encoder.layer.1.attention.self" in shown


def test_the_command_says_what_else_mixes_tokens(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny("ConvBertForSequenceClassification").save_pretrained(tmp_path)
    capsys.readouterr()
    assert main(["audit", str(tmp_path), "--check"]) == 0
    first, note, *_ = capsys.readouterr().out.splitlines()
    assert first.startswith("ConvBertForSequenceClassification can be audited")
    assert note.startswith(
        "with every token attending to itself alone, other tokens still move the logits, by up to 13% of the largest"
    )


def test_the_command_gives_the_same_as_json(
    saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", str(saved), "--check", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert {check["name"]: check["figure"] for check in shown["checks"]}["same weights"] == 0
    without = ("batched", "padded", "other layers", "other ways")
    assert all(
        check["meaning"] and (check["limit"] or check["name"] in without)
        for check in shown["checks"]
    )
    assert [(layer["stack"], layer["layer"], layer["heads"]) for layer in shown["layers"]] == [
        ("encoder", 0, 4),
        ("encoder", 1, 4),
    ]


def test_a_model_that_predicts_nothing_to_audit_ends_with_status_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny("BertForMaskedLM").save_pretrained(tmp_path)
    capsys.readouterr()
    assert main(["audit", str(tmp_path), "--check"]) == 2
    assert "so no audit" in capsys.readouterr().out


def test_a_model_that_is_refused_ends_with_status_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny("FNetForSequenceClassification").save_pretrained(tmp_path)
    capsys.readouterr()
    assert main(["audit", str(tmp_path), "--check"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(
        "attnaudit: check model: FNetForSequenceClassification: no attention"
    )
    assert captured.err.count("\n") == 1
