"""``audit.budget``: what of an audit that runs layers again is left out before it starts."""

import shutil

import numpy as np
import pytest

from attnaudit.core.files import read_json
from attnaudit.recipes import budget
from attnaudit.trace import Trace
from tests.hf.command import CLASSIFIER, LITTLE, audit, refused, write
from tests.hf.tokenizing import texts

# Two layers of four heads and 50 shuffles of a row: 100 s for a text and a head of each layer.
COSTS = (0.0, [(1.0, False), (1.0, False)], 10)


@pytest.fixture
def corpus(tmp_path):
    return write(tmp_path / "texts.txt", *sorted(set(texts()))[:12])


def command(models, corpus, limit):
    asked = (*LITTLE, "--layers", "all", "--set", "replacement.texts=0")
    return models / CLASSIFIER, corpus, *asked, "--set", f"audit.budget={limit}"


@pytest.mark.usefixtures("quick_pages")
@pytest.mark.parametrize(
    ("limit", "number", "heads"), [("30m", 4, 4), ("850s", 4, 2), ("250", 2, 1)]
)
def test_a_budget_becomes_a_number_of_texts_and_heads(
    limit, number, heads, models, corpus, tmp_path, monkeypatch
):
    monkeypatch.setattr(budget, "pass_seconds", lambda *_: COSTS)
    asked, out = command(models, corpus, limit), tmp_path / "out"
    assert audit(*asked, out=out) == 0
    stored, trace = read_json(out / "spec.json")["allotted"], Trace.first(out / "trace")
    assert (stored["texts"], len(stored["heads"])) == (number, heads)
    assert (len(np.unique(trace.instance)), len(trace)) == (number, 2 * number * heads)
    assert sorted(set(trace.array("head").tolist())) == stored["heads"]
    left_out = [note for note in trace.metadata["corpus"]["notes"] if "audit.budget" in note]
    told = f"{number} of 4 texts and {heads} of 4 heads of each layer"
    assert [note.startswith(told) for note in left_out] == [True] * ((number, heads) != (4, 4))
    # The clock is not asked again.
    monkeypatch.setattr(budget, "pass_seconds", None)
    assert audit(*asked, out=out) == 0


def test_a_budget_that_is_too_small_for_one_text_is_refused(
    models, corpus, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(budget, "pass_seconds", lambda *_: COSTS)
    line = refused(capsys, *command(models, corpus, "1m"), out=tmp_path / "out")
    assert "audit.budget: 1m, where one text and one head of each layer take 100 s" in line


@pytest.mark.parametrize("limit", ["soon", "0m", "-5m"])
def test_a_budget_that_is_no_time_is_refused_before_the_model_is_read(
    limit, models, corpus, tmp_path, capsys
):
    shutil.copytree(models / CLASSIFIER, tmp_path / CLASSIFIER)
    (tmp_path / CLASSIFIER / "model.safetensors").write_bytes(b"")
    line = refused(capsys, *command(tmp_path, corpus, limit), out=tmp_path / "out")
    assert f"audit.budget: {limit}; expected a time, as 90s, 5m or 2h" in line
