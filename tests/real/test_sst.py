"""On the test set of SST: every fast path against the algorithm as its paper writes it."""

import numpy as np
import polars as pl
import pytest

from attnaudit.experiments.adversary.experiment import Adversary
from attnaudit.experiments.erasure.experiment import Erasure
from attnaudit.models.batch import Inputs
from attnaudit.models.classifier import load_model
from tests.oracles.adversary import brute_force_adversary
from tests.oracles.identifiability import weight_range
from tests.oracles.importance import naive_gradient, naive_leave_one_out
from tests.oracles.maximal_change import sampled_change, single_changes, single_flips
from tests.oracles.permutation import surprise
from tests.oracles.ranges import ranges_by_programs
from tests.oracles.relaxed_adversary import searched_jsd
from tests.real.smallest import assert_smallest
from tests.report.test_playground_model import (
    test_the_page_computes_what_the_readout_does as assert_computed,
)
from tests.tails import opaque

pytestmark = pytest.mark.slow

SAMPLE = 12


@pytest.fixture(scope="module")
def model(sst_run):
    return load_model(sst_run / "model")


@pytest.fixture(scope="module")
def rows(sst_trace):
    return np.random.default_rng(0).choice(len(sst_trace), SAMPLE, replace=False).tolist()


def column(run, experiment, name):
    return pl.read_parquet(run / "results" / f"{experiment}.parquet")[name].to_numpy()


def test_every_instance_of_the_filtered_test_set_is_there(sst_trace):
    assert len(sst_trace) == 1726
    assert np.bincount(sst_trace.array("label")).tolist() == [863, 863]


def test_leave_one_out_and_gradients(model, sst_trace, rows):
    for row in rows:
        inputs = Inputs(model.vocabulary.ids([sst_trace.tokens(row)]))
        np.testing.assert_allclose(
            sst_trace.ragged("loo")[row], naive_leave_one_out(model, inputs), atol=1e-6
        )
        for name, detach in (("gradient", True), ("importance_full_gradient", False)):
            naive = naive_gradient(model, inputs, detach_attention=detach)
            np.testing.assert_allclose(
                sst_trace.ragged(name)[row], naive, rtol=1e-3, atol=1e-6, err_msg=name
            )


def test_permutation_medians_are_those_of_the_plain_loop(sst_run, sst_trace, rows):
    ours = column(sst_run, "permutation", "median_delta_y")
    random = np.random.default_rng(1)
    surprises = [surprise(sst_trace, row, ours[row], random) for row in rows]
    assert max(map(abs, surprises)) < 6  # of Student's t with 14 degrees of freedom: 3 in 100,000
    assert abs(sum(surprises)) < 4 * len(rows) ** 0.5


def test_no_instance_on_which_the_search_beats_the_exact_adversary(sst_run, sst_trace):
    exact, delta = column(sst_run, "adversary", "emax_jsd"), column(sst_run, "adversary", "delta_y")
    some = np.arange(0, len(sst_trace), 6)
    searched = searched_jsd(sst_trace.take(some))
    assert (exact[some] - searched).min() >= -1e-6
    assert (exact[some] - searched).mean() > 0.01, "the search should fall short somewhere"
    assert delta.max() <= 0.01 + 1e-9


def test_exact_adversary_is_brute_force(sst_run, sst_trace):
    exact = column(sst_run, "adversary", "emax_jsd")
    short = np.flatnonzero(sst_trace.alpha.lengths <= 9)[:15].tolist()
    for row in short:
        assert exact[row] == pytest.approx(brute_force_adversary(sst_trace, row, 0.01)[0], abs=1e-9)


def test_the_smallest_flipping_set_is_that_of_exhaustive_search(sst_run, sst_trace):
    assert_smallest(sst_trace, pl.read_parquet(sst_run / "results/erasure.parquet"), flipped=50)


def test_the_largest_change_is_that_of_a_single_token(sst_run, sst_trace, rows):
    found, flips = (
        column(sst_run, "maximal_change", "max_delta_y"),
        column(sst_run, "maximal_change", "flips"),
    )
    for row in rows:
        assert found[row] == pytest.approx(max(single_changes(sst_trace, row)), abs=1e-9)
        assert flips[row] == single_flips(sst_trace, row)
        assert sampled_change(sst_trace, row, 100) <= found[row] + 1e-12
    assert (found >= column(sst_run, "permutation", "median_delta_y") - 1e-9).all()
    assert (found >= column(sst_run, "adversary", "delta_y") - 1e-9).all()


def test_attentions_with_the_same_sum(sst_run, sst_trace, rows):
    """One number a position: T − 2 dimensions, and the ranges of linear programs."""
    dimension, width = (
        column(sst_run, "identifiability", "null_dimension"),
        column(sst_run, "identifiability", "largest_weight_range"),
    )
    assert (dimension == sst_trace.alpha.lengths - 2).all()
    for row in rows:
        least, most = weight_range(sst_trace, row, int(np.argmax(sst_trace.alpha[row])))
        assert width[row] == pytest.approx(most - least, abs=1e-6)


def test_every_range_is_that_of_linear_programs(sst_run, sst_trace):
    """All tokens of every fourth instance; no weight but those of the programs to 1e-9."""
    possible, necessary = (
        column(sst_run, "ranges", "possible"),
        column(sst_run, "ranges", "necessary"),
    )
    for row in range(0, len(sst_trace), 4):
        least, most = ranges_by_programs(sst_trace, row, 0.01)
        np.testing.assert_allclose(possible[row], most, rtol=0, atol=1e-9)
        np.testing.assert_allclose(necessary[row], least, rtol=0, atol=1e-9)


def test_through_any_tail(sst_run, sst_trace):
    """With the tail hidden from the kernels: removals are the same, and the adversary found is the exact one but for its room for noise."""
    some = np.random.default_rng(3).choice(len(sst_trace), 150, replace=False)
    hidden = opaque(sst_trace.take(some))
    exact, found = (
        column(sst_run, "adversary", "emax_jsd")[some],
        Adversary()(hidden)["emax_jsd"].to_numpy(),
    )
    assert (found <= exact + 1e-9).all()
    assert np.mean(exact - found) < 1e-3
    erased, known = Erasure()(hidden), pl.read_parquet(sst_run / "results/erasure.parquet")
    for name in ("removed_random", "removed_attention", "delta_js"):
        np.testing.assert_allclose(
            erased[name], known[name].to_numpy()[some], atol=1e-9, equal_nan=True, err_msg=name
        )


def test_the_playground_computes_what_the_readout_does(sst_trace, rows):
    short = [row for row in rows if 1 < sst_trace.alpha.lengths[row] <= 80]
    assert_computed(sst_trace.take(np.array(short[:8])))
