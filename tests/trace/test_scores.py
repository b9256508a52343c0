"""Traces of scores: no attention, and the experiments that need none."""

import numpy as np
import pytest

import attnaudit as aa
from attnaudit.core import TraceError
from attnaudit.recipes.audit import audit_into
from attnaudit.recipes.compare import compare_runs
from attnaudit.trace import Trace
from tests.traces import make_trace, trace_of_scores

JUDGED = ["prediction", "replacement", "surrogate", "plausibility"]


def test_a_heatmap_gets_the_figures_that_it_would_get_as_attention(tmp_path):
    trace = trace_of_scores()
    trace.write(tmp_path)
    assert Trace.read(tmp_path).table.equals(trace.table)
    found = aa.audit(tmp_path)
    assert list(found) == [*JUDGED, "agreement"]
    with pytest.raises(KeyError, match="no result of adversary: the trace has scores only, no att"):
        found["adversary"]
    with pytest.raises(KeyError, match="no result of advers: there are prediction, "):
        found["advers"]
    same = aa.audit(make_trace(40, (2, 12), importance=("lime",), copies=60), JUDGED)
    for name in JUDGED:
        table = same[name].table
        for column in (one for one in table.columns if "gradient" not in one and one != "weights"):
            ours = found[name].table[column.replace("attention", "shown")]
            if ours.dtype.is_float():
                assert ours.to_numpy() == pytest.approx(table[column].to_numpy(), abs=1e-4, nan_ok=True)  # fmt: skip
            else:
                assert ours.alias(column).equals(table[column])
    assert found.verdict.score == pytest.approx(same.verdict.score, abs=1e-4)


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"alpha": [[0.5, 0.5]]}, ("also readout, offset",)),
        ({"importance_shown": [[0.9, 0.9]]}, ("column importance_shown", "1.8", "a sum of 1")),
        ({"importance_shown": [[1.5, -0.5]]}, ("column importance_shown", "-0.5", "0 or more")),
        ({"loo": [[0.1]]}, ("column loo", "1;", "as many entries as tokens")),
        ({"tokens": [[]]}, ("column tokens", "at least one position")),
    ],
)
def test_faults_are_refused(change, parts):
    good = {"instance": [0], "tokens": [["a", "b"]], "prediction": [[0.4]], "loo": [[0.1, 0.2]]}
    with pytest.raises(TraceError) as error:
        Trace.from_arrays(activation="sigmoid", class_names=["n", "y"], **good | change)
    assert all(part in str(error.value) for part in parts), str(error.value)


def test_an_experiment_of_attention_is_refused_by_name():
    with pytest.raises(TraceError, match="permutation: the trace has scores only, no attention"):
        aa.audit(trace_of_scores(5), "permutation")


@pytest.mark.slow
def test_it_has_a_page_pictures_and_comparisons(tmp_path):
    trace = trace_of_scores(60)
    trace.write(tmp_path / "trace")
    for name in ("a", "b"):
        audit_into(tmp_path / name, tmp_path / "trace")
    page = (tmp_path / "a/report.html").read_text()
    assert all(part in page for part in ("The heatmap", "Lime", "Leave-one-out"))
    assert "attention α" not in page.partition('id="heatmaps"')[2].partition("<table")[0]
    (compared,) = compare_runs([tmp_path / "a", tmp_path / "b"])
    assert "replacement_shown" in compared.differences["measure"].to_list()
    assert np.all(compared.instances["jsd"].to_numpy() == 0.0)
    assert "Lime" in trace.heatmap(0)._repr_html_()
    assert "data" not in trace.playground(0)._repr_html_().partition("playground-data")[1]
