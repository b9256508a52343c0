"""Models are read from disk as they were saved, and checked."""

import json

import pytest

from tests.cli.test_cli import answers
from tests.hf.classes import tiny
from tests.hf.command import audit


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bert")
    tiny("BertForSequenceClassification").save_pretrained(folder)
    return folder


def test_the_command_gives_the_same_as_json(saved, capsys):
    shown = json.loads(answers(capsys, "audit", saved, "--check", "--json"))
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


def test_a_model_that_predicts_nothing_to_audit_ends_with_status_2(tmp_path, capsys):
    tiny("BertForMaskedLM").save_pretrained(tmp_path)
    capsys.readouterr()
    assert audit(tmp_path, "--check") == 2
    assert "so no audit" in capsys.readouterr().out
