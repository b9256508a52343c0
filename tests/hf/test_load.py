"""Models are read from disk as they were saved, or refused with one line; no code and no pickle of a folder is ever read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

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


def change_config(folder: Path, **values: object) -> None:
    path = folder / "config.json"
    path.write_text(
        json.dumps(json.loads(path.read_text(encoding="utf-8")) | values), encoding="utf-8"
    )


def without_head(folder: Path) -> None:
    config = BertConfig(**tiny("BertForSequenceClassification").config.to_dict())
    BertModel(config).save_pretrained(folder)
    change_config(folder, architectures=["BertForSequenceClassification"])


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda folder: (folder / "config.json").write_text("[1]"), "in JSON"),
        (lambda folder: change_config(folder, architectures=[]), "architectures: []"),
        (lambda folder: change_config(folder, architectures=["BertConfig"]), "'BertConfig'"),
        (without_head, "no weights classifier.bias, classifier.weight"),
    ],
)
def test_what_cannot_be_read_is_one_line(
    spoil: Callable[[Path], object], message: str, folder: Path
) -> None:
    spoil(folder)
    with pytest.raises(InputError) as caught:
        load_pretrained(folder)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


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
