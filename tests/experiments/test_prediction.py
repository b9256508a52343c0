import numpy as np
import polars as pl
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.metrics import accuracy_score, f1_score, roc_auc_score

from attnaudit.experiments.prediction import MOST_SCORED, Prediction
from attnaudit.stats.measures import predicted_class
from tests.traces import make_trace, with_columns


@pytest.mark.parametrize("outputs", [1, 2, 4])
def test_the_figures_are_those_of_sklearn(outputs):
    trace = make_trace(200, outputs=outputs, seed=1)
    summary = Prediction().summarise(Prediction()(trace))
    label, score = trace.array("label"), trace.prediction
    predicted = predicted_class(score)
    two = outputs < 3
    expected = {
        "accuracy": accuracy_score(label, predicted),
        "f1": f1_score(label, predicted, average="binary" if two else "macro"),
        "f1_macro": f1_score(label, predicted, average="macro"),
        "roc_auc": roc_auc_score(
            label,
            score[:, -1] if two else score / score.sum(axis=1, keepdims=True),
            multi_class="ovr",
        ),
        "majority": accuracy_score(label, DummyClassifier().fit(score, label).predict(score)),
    }
    assert dict(zip(summary["measure"], summary["value"], strict=True)) == pytest.approx(
        expected, abs=1e-9
    )
    estimated = summary.filter(pl.col("measure") != "majority")
    assert (estimated["low"] < estimated["value"]).all()
    assert (estimated["high"] > estimated["value"]).all()
    assert summary["group"].unique().to_list() == ["all"]


@pytest.mark.parametrize("known", [40, 0])
def test_rows_without_a_label_are_counted(known):
    trace = make_trace(50, seed=2)
    correct = Prediction()(trace)["correct"]
    label = [*trace.table["label"][:known], *[None] * (50 - known)]
    table = Prediction()(with_columns(trace, label=pl.Series(label, dtype=pl.Int32)))
    summary = Prediction().summarise(table)
    assert set(summary["undefined"]) == {50 - known}
    value = summary.filter(measure="accuracy")["value"].item()
    assert value == (pytest.approx(correct[:known].mean()) if known else None)
    assert summary["value"].null_count() == (0 if known else 5)


def test_heads_of_a_text_count_once_and_positions_of_a_text_are_drawn_together():
    trace = make_trace(60, outputs=3, seed=6)
    table = Prediction()(trace).with_columns(query=pl.lit(0))
    once = Prediction().summarise(table)
    heads = pl.concat([table.with_columns(layer=pl.lit(1), head=pl.lit(head)) for head in range(4)])
    assert Prediction().summarise(heads.sample(fraction=1, shuffle=True, seed=0)).equals(once)
    for column in ("layer", "head"):
        assert Prediction().summarise(heads.drop(column)).equals(once)
    positions = Prediction().summarise(
        pl.concat([table.with_columns(query=pl.lit(query)) for query in range(4)])
    )
    assert positions["n"].to_list() == [240] * 5
    np.testing.assert_allclose(
        positions["value"].to_numpy(), once["value"].to_numpy(), equal_nan=True
    )
    for name in (
        "low",
        "high",
    ):  # of clusters Wilson's interval of the accuracy takes a quantile of t
        np.testing.assert_allclose(
            positions[name].to_numpy()[1:], once[name].to_numpy()[1:], equal_nan=True
        )
        assert abs(positions[name][0] - once[name][0]) < 0.005


def test_of_a_vocabulary_accuracy_alone_is_measured():
    trace = make_trace(20, outputs=MOST_SCORED + 1, seed=7)
    table = Prediction()(trace)
    assert "probabilities" not in table.columns
    summary = Prediction().summarise(table)
    found = dict(zip(summary["measure"], summary["value"], strict=True))
    assert found["accuracy"] == table["correct"].mean()
    assert (found["f1"], found["roc_auc"]) == (None, None)


def test_which_class_comes_last_changes_f1_but_not_its_mean_over_classes():
    trace = make_trace(80, outputs=2, seed=3)
    label = pl.Series("label", 1 - trace.array("label"), dtype=pl.Int32)
    swapped = with_columns(
        trace,
        label=label,
        prediction=pl.Series(trace.prediction[:, ::-1].tolist(), dtype=pl.Array(pl.Float32, 2)),
    )
    one, other = (
        dict(Prediction().summarise(Prediction()(case)).select("measure", "value").iter_rows())
        for case in (trace, swapped)
    )
    assert one["f1_macro"] == pytest.approx(other["f1_macro"], abs=1e-12)
    assert one["f1"] != pytest.approx(other["f1"], abs=1e-3)
