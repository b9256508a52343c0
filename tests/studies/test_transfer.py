"""Whether attention carries decisions: on tables whose answer is known, and on a tiny planted corpus."""

import numpy as np
import polars as pl
import pytest

from attnaudit.core import read_json
from attnaudit.recipes.study import StudySpec, run_study
from attnaudit.studies.guide import Guide
from attnaudit.studies.transfer import DONORS, Transfer
from attnaudit.trace import Trace
from tests.studies.identity import values_of

SEEDS, TEXTS = 5, 400
TINY = {
    "corpus.size": 60, "corpus.length": (10, 12), "model.embedding": 8, "model.hidden": 4, "training.epochs": 2, "transfer.seeds": 2,
    "collect.scores": (),
}  # fmt: skip


def made(carried):
    """Students that agree with the donor on 0.7 of the texts with its shuffled weights, and on ``carried`` more with the weights."""
    random, parts = np.random.default_rng(0), []
    label = np.arange(TEXTS) % 2
    for donor, more in (("uniform", 0.0), *carried.items()):
        for seed in range(SEEDS):
            decided = np.where(random.random(TEXTS) < 0.8, label, 1 - label)
            given, shuffled = (
                np.where(random.random(TEXTS) < share, decided, 1 - decided)
                for share in (0.7 + more, 0.7)
            )
            parts.append(pl.DataFrame({
                "model": donor, "seed": seed, "instance": np.arange(TEXTS), "label": label, "predicted": given,
                "decided": None if donor == "uniform" else decided, "shuffled": None if donor == "uniform" else shuffled,
                "even": None if donor == "uniform" else label,
            }, strict=False))  # fmt: skip
    return pl.concat(parts, how="diagonal_relaxed")


@pytest.fixture(scope="module")
def summary():
    return Transfer().summarise(made({"own": 0.1, "base": 0.15, "adversary": 0.0}))


def test_agreement_beyond_shuffled_weights_is_found_where_it_was_put(summary):
    rows = {row["measure"]: row for row in summary.to_dicts()}
    for donor, more in (("own", 0.1), ("base", 0.15), ("adversary", 0.0)):
        row = rows[f"gain_{donor}"]
        assert row["low"] <= more <= row["high"]
        assert rows[f"agreement_{donor}"]["value"] == pytest.approx(0.7 + more, abs=0.03)
    # Equal weights decide by the label, as the donor does on 0.8 of the texts.
    assert rows["over_uniform_base"]["value"] == pytest.approx(0.85 - 0.8, abs=0.03)
    assert rows["gain_errors_base"]["value"] == pytest.approx(0.15, abs=0.07)
    assert [one.outcome(summary) for one in Transfer.hypotheses] == [
        "supported",
        "supported",
        "supported",
        "open",
    ]


def test_errors_are_those_of_the_donor_in_each_seed():
    table = made(dict.fromkeys(DONORS, 0.1))
    values = values_of(Transfer().summarise(table))
    wrong = table.filter(pl.col("model") == "own", pl.col("decided") != pl.col("label"))
    gain = (pl.col("predicted") == pl.col("decided")).mean() - (
        pl.col("shuffled") == pl.col("decided")
    ).mean()
    each = wrong.group_by("seed").agg(gain=gain)["gain"]
    assert values["gain_errors_own"] == pytest.approx(each.mean())


def test_the_order_of_rows_changes_nothing(summary):
    table = made({"own": 0.1, "base": 0.15, "adversary": 0.0})
    mixed = Transfer().summarise(table.sample(fraction=1.0, shuffle=True, seed=1))
    assert mixed.equals(summary)


@pytest.mark.slow
def test_students_have_the_weights_of_their_seed_s_donors(tmp_path, no_pages):
    spec = StudySpec.of("transfer", "planted-decisive", vectors="random", device="cpu", settings=TINY)  # fmt: skip
    folder = run_study(spec, tmp_path)
    rows = {row["measure"] for row in read_json(folder / "summary.json")}
    assert {
        f"{name}_{donor}" for name in ("gain", "agreement", "f1_macro") for donor in DONORS
    } <= rows
    place = {path.name.rpartition("-")[0]: path for path in (tmp_path / "trainings").iterdir()}
    traces = {name: Trace.read(path / "trace") for name, path in place.items()}
    donors = {"own": "guide-learned-s{1}", "base": "base-s{0}", "adversary": "adversary-0.001-s{2}"}
    for donor, name in donors.items():
        for seed in (0, 1):
            given = traces[name.format(seed, seed + 1, 1 - seed)].alpha
            same, shuffled = (
                traces[f"guide-{donor}{how}-s{seed}"].alpha for how in ("", "_shuffled")
            )
            np.testing.assert_allclose(same.values, given.values, atol=1e-6)
            assert not np.allclose(shuffled.values, given.values, atol=1e-6)
            for one, other in zip(shuffled, given, strict=True):
                np.testing.assert_allclose(np.sort(one), np.sort(other), atol=1e-6)


def test_the_paper_s_form_is_guide():
    assert StudySpec.of("transfer", "sst", paper=True).study == Guide()
