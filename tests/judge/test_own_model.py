"""A model of this package behind a function gets the figures of its own audit."""

import numpy as np
import pytest

import attnaudit as aa
from attnaudit.corpora.corpus import Split
from attnaudit.tracing.settings import ReplacementSettings
from attnaudit.training.texts import predict as predict_inputs
from tests.models.tiny import tiny_model, tiny_split, trace_of

SETTINGS = ReplacementSettings(copies=40)


@pytest.mark.parametrize("classes", [2, 3])
def test_attention_gets_the_figures_of_its_audit(classes):
    model = tiny_model("bilstm", "additive", classes)
    split = tiny_split(np.random.default_rng(0).integers(2, 9, 25).tolist(), classes)
    trace = trace_of(model, split, replacement=SETTINGS)

    def predict(texts):
        tokens = [text.split() for text in texts]
        rows, labels = np.arange(len(tokens)), np.zeros(len(tokens), np.int32)
        return predict_inputs(model, model.inputs(Split(rows, tokens, labels)))

    scores = {"attention": list(trace.alpha), "other": list(trace.ragged("gradient"))}
    judged = aa.judge(predict, split.tokens, scores, replacement=SETTINGS)
    assert judged.trace.table["replaced"].equals(trace.table["replaced"])
    for row in range(len(trace)):
        assert judged.trace.ragged("loo")[row] == pytest.approx(trace.ragged("loo")[row], abs=1e-5)  # fmt: skip
    rows = {row["score"]: row for row in judged.table().iter_rows(named=True)}
    own = aa.audit(trace, "replacement").summary.filter(group="all")
    values = dict(own.select("measure", "value").iter_rows())
    for ours, theirs in (("attention", "attention"), ("other", "gradient"), ("loo", "loo")):
        # A tiny model changes so little that ranks of copies depend on the last digits of float32.
        assert rows[ours]["replacement"] == pytest.approx(values[f"replacement_{theirs}"], abs=0.02)
