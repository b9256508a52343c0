"""What studies say, against the formulas worked out instance by instance; and what must not change it."""

from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.stats import kendalltau
from sklearn.metrics import accuracy_score, f1_score, roc_auc_score

from attnaudit.core import InputError
from attnaudit.stats.inference import wilson_interval
from attnaudit.studies.adversary import ModelAdversary
from attnaudit.studies.deceive import Deceive
from attnaudit.studies.over_seeds import means, predictions, scores
from attnaudit.studies.seeds import Seeds
from attnaudit.studies.uniform import Uniform
from tests.oracles.readout import naive_jsd, naive_tvd
from tests.studies.identity import identified, like, values_of
from tests.traces import make_trace

LENGTHS = np.random.default_rng(5).integers(2, 12, 60)


def some(outputs=1, seeds=3):
    base = make_trace(len(LENGTHS), LENGTHS, outputs, seed=0)
    return [base, *(like(base, LENGTHS, seed, outputs) for seed in range(1, seeds + 1))]


def of_seeds(*given, **options):
    return {f"base-s{k}": trace for k, trace in enumerate(some(*given, **options))}


def tau(one, score, other, second, row):
    return np.array(kendalltau(one.ragged(score)[row], other.ragged(second)[row]))[0]


@pytest.mark.parametrize("outputs", [1, 3])
def test_seeds_are_medians_of_each_instance(outputs):
    base, *others = some(outputs)
    table = Seeds(seeds=3)(identified(of_seeds(outputs)))
    for row in range(len(base)):
        expected = {
            "jsd": [naive_jsd(base.alpha[row], other.alpha[row]) for other in others],
            "tvd": [
                naive_tvd(base.prediction[row].tolist(), other.prediction[row].tolist())
                for other in others
            ],
            "tau_alpha_loo": [tau(other, "alpha", other, "loo", row) for other in others],
            **{
                f"tau_{name}": [tau(base, name, other, name, row) for other in others]
                for name in ("alpha", "gradient", "loo")
            },
        }
        for name, values in expected.items():
            assert table[name][row] == pytest.approx(np.median(values), abs=1e-9), name


def test_every_instance_is_in_one_bin_and_all_groups_add_up():
    study = Seeds(seeds=3)
    summary = study.summarise(study(identified(of_seeds())))
    counts = summary.filter(measure="jsd").select("group", pl.col("n") + pl.col("undefined")).rows()
    total = dict(counts)["all"]
    assert sum(n for group, n in counts if group.startswith("max_alpha:")) == total
    assert sum(n for group, n in counts if group.startswith("predicted:")) == total


def test_figures_of_models_are_means_over_seeds_and_differences_are_paired():
    traces = some()
    names: list[str] = ["base-s0", "base-s1", "uniform-s0", "uniform-s1"]
    named = dict(zip(names, traces, strict=True))
    study = Uniform(seeds=2)
    summary = study.summarise(study(identified(named)))
    value = values_of(summary)
    label = traces[0].array("label")
    for figure, score in (
        ("accuracy", accuracy_score), ("f1", f1_score), ("roc_auc", roc_auc_score),
    ):  # fmt: skip
        ours = []
        for model in ("base", "uniform"):
            p = np.array([named[f"{model}-s{seed}"].prediction[:, 0] for seed in (0, 1)])
            ours.append(
                np.mean([score(label, one if figure == "roc_auc" else one >= 0.5) for one in p])
            )
        assert value[f"{figure}_base"] == pytest.approx(ours[0])
        assert value[f"{figure}_uniform"] == pytest.approx(ours[1])
        assert value[f"difference_{figure}_uniform"] == pytest.approx(ours[1] - ours[0])
    for row in summary.iter_rows(named=True):
        assert row["low"] <= row["value"] <= row["high"]


def test_a_model_against_itself_differs_by_no_more_than_instances_cannot_show():
    """No resample differs, and the interval is no point: F1 and ROC-AUC count the instances of the rarer class."""
    base, other = some(seeds=1)
    table = pl.concat(
        [
            predictions(model, seed, trace)
            for model in ("a", "b")
            for seed, trace in enumerate((base, other))
        ]
    )
    rows = pl.DataFrame(list(scores(Uniform(seed=3), table, against="a")))
    same = rows.filter(pl.col("measure").str.starts_with("difference_"))
    rarer = np.bincount(base.array("label")).min()
    unseen = [wilson_interval(0, n)[1] for n in (len(base), rarer, rarer, rarer)]
    assert same["value"].to_list() == [0.0] * 4
    assert same["high"].to_list() == pytest.approx(unseen)
    assert same["low"].to_list() == pytest.approx([-one for one in unseen])


def test_models_without_an_error_have_no_point_for_an_interval():
    base, _ = some(seeds=1)
    label = base.array("label").astype(float)
    right, wrong = (predictions(model, 0, base).with_columns(probabilities=pl.Series(said[:, None].tolist()))
                    for model, said in (("right", label), ("wrong", 1.0 - label)))  # fmt: skip
    rows = {
        row["measure"]: row for row in scores(Uniform(), pl.concat([right, wrong]), against="right")
    }
    unseen = wilson_interval(0, len(base))[1]
    for name, value, low, high in (
        ("accuracy_right", 1.0, 1.0 - unseen, 1.0), ("accuracy_wrong", 0.0, 0.0, unseen),
        ("difference_accuracy_wrong", -1.0, -1.0, -1.0 + 2 * unseen),
    ):  # fmt: skip
        assert [rows[name][end] for end in ("value", "low", "high")] == pytest.approx(
            [value, low, high]
        )


def test_models_of_other_instances_or_seeds_are_refused():
    base, other = some(seeds=1)
    with pytest.raises(InputError, match="the same seeds of every model"):
        list(scores(Uniform(), pl.concat([predictions("a", 0, base), predictions("b", 1, other)])))
    some_rows = predictions("b", 0, other.take(np.arange(30)))
    with pytest.raises(InputError, match="traces of the same test split"):
        list(scores(Uniform(), pl.concat([predictions("a", 0, base), some_rows])))


def adversary_traces() -> dict[str, Any]:
    names = ("base-s0", "base-s1", "uniform-s0", "adversary-0.001-s1", "adversary-0.1-s1")
    return dict(zip(names, some(seeds=4), strict=True))


def test_the_adversary_s_points_are_means_over_instances():
    traces, study = (
        adversary_traces(),
        ModelAdversary(strengths=(0.001, 0.1), controls=1, limit=1.0),
    )
    table = study(identified(traces))
    value = values_of(study.summarise(table))
    base, rows = traces["base-s0"], range(len(LENGTHS))
    labels = {"base-s1": "seed", "uniform-s0": "uniform", "adversary-0.1-s1": "adversary_0.1"}
    for name, label in labels.items():
        other = traces[name]
        probabilities = [[float(p) for p in one.prediction[:, 0]] for one in (base, other)]
        expected = {
            "jsd": np.mean([naive_jsd(base.alpha[row], other.alpha[row]) for row in rows]),
            "tvd": np.mean([naive_tvd([p], [q]) for p, q in zip(*probabilities, strict=True)]),
            "flipped": (base.predicted != other.predicted).mean(),
            "f1": f1_score(base.array("label"), other.predicted),
        }
        for measure, number in expected.items():
            assert value[f"{measure}_{label}"] == pytest.approx(number), measure
    frozen = table.filter(kind="frozen", strength=0.05)
    assert (frozen["tvd"] <= 0.05 + 1e-6).all()
    nearer = table.filter(kind="frozen", strength=0.005)
    assert (frozen.sort("instance")["jsd"] >= nearer.sort("instance")["jsd"] - 1e-9).all()


@pytest.mark.parametrize(
    ("points", "limit", "expected"),
    [
        ([(0.0, np.log(2))], 0.1, 1.0),
        ([(0.2, 0.6)], 0.1, 0.0),
        ([(0.05, 0.5 * np.log(2))], 0.1, 0.25),
        ([(0.05, 0.5 * np.log(2)), (0.08, 0.1)], 0.1, 0.25),
        ([(0.08, np.log(2)), (0.05, 0.5 * np.log(2))], 0.1, 0.35),
    ],
)
def test_the_area_is_that_of_steps(points, limit, expected):
    assert ModelAdversary(limit=limit).area(np.array(points)) == pytest.approx(expected)


def shuffled(trace):
    return trace.take(np.random.default_rng(9).permutation(len(trace)))


@pytest.mark.parametrize(
    ("study", "traces"),
    [
        (Seeds(seeds=2), lambda: of_seeds(seeds=2)),
        (
            Uniform(seeds=1),
            lambda: dict(zip(("base-s0", "uniform-s0"), some(seeds=1), strict=True)),
        ),
        (ModelAdversary(strengths=(0.001, 0.1), controls=1), adversary_traces),
    ],
)
def test_the_order_of_rows_changes_no_number(study, traces):
    found = traces()
    straight = study.summarise(study(identified(found)))
    turned = study.summarise(
        study(identified({name: shuffled(trace) for name, trace in found.items()}))
    )
    assert straight.select("measure", "group", "n").equals(turned.select("measure", "group", "n"))
    for column in ("value", "low", "high"):
        np.testing.assert_allclose(
            straight[column].to_numpy(), turned[column].to_numpy(), atol=1e-12, equal_nan=True
        )


DECEIVE = Deceive(models=("bilstm",), strengths=(0.0, 1.0), seeds=1)


def deceiving(*traces):
    names = ("deceive-bilstm-0-s0", "deceive-bilstm-1-s0", "removed-bilstm-s0")
    return identified(dict(zip(names, traces, strict=True)))


def test_deceiving_models_are_measured_row_by_row():
    base, other, removed = some(seeds=2)
    table = DECEIVE(deceiving(base, other, removed))
    one = table.filter(strength=1.0)
    assert one["instance"].to_list() == base.instance.tolist()
    assert one["accuracy"].to_list() == (other.predicted == base.array("label")).tolist()
    for row, marks in enumerate(base.table["rationale"].to_list()):
        mass = float(other.alpha[row][np.array(marks)].sum())
        assert one["mass"][row] == pytest.approx(mass, abs=1e-6)
        assert one["covered"][row] == all(marks)
        assert one["jsd"][row] == pytest.approx(naive_jsd(base.alpha[row], other.alpha[row]))
    summary = {row["measure"]: row for row in DECEIVE.summarise(table).iter_rows(named=True)}
    assert summary["mass_bilstm_1"]["value"] == pytest.approx(one["mass"].mean())
    assert summary["jsd_bilstm_0"]["value"] == 0.0
    assert "mass_bilstm_removed" not in summary
    assert summary["tau_loo_bilstm_1"]["undefined"] == one["tau_loo"].is_nan().sum()


def test_accuracies_of_deceiving_models_are_of_the_same_texts():
    """A text of impermissible tokens alone is none of the texts without them."""
    base, other, removed = some(seeds=2)
    kept = np.arange(len(base))[::2]
    table = DECEIVE(deceiving(base, other, removed.take(kept)))
    for strength in (0.0, 1.0, None):
        rows = table.filter(
            pl.col("strength").eq_missing(strength), pl.col("accuracy").is_not_null()
        )
        assert sorted(rows["instance"]) == sorted(base.instance[kept].tolist())


def test_an_accuracy_without_an_error_has_an_interval_in_tables_of_means():
    """Resamples of 40 correct texts do not differ: the interval is Wilson's. A distance of 0 is one to the model itself, and a point."""
    table = pl.DataFrame(
        {
            "seed": np.repeat([0, 1], 40),
            "instance": [*range(40)] * 2,
            "accuracy": [1.0] * 80,
            "jsd": [0.0] * 80,
        }
    )
    accuracy, jsd = means(Deceive(), table, {"accuracy_x": "accuracy", "jsd_x": "jsd"})
    assert (accuracy["low"], accuracy["high"]) == pytest.approx(wilson_interval(40, 40))
    assert (jsd["value"], jsd["low"], jsd["high"]) == (0.0, 0.0, 0.0)
