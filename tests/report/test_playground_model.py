"""The mathematics of the playground, run by node: the page computes what the Python readout does."""

import json
import shutil
import subprocess
from importlib.resources import files
from itertools import pairwise

import numpy as np
import polars as pl
import pytest

from attnaudit.experiments.adversary.exact import unconstrained_bound
from attnaudit.experiments.adversary.experiment import Adversary
from attnaudit.experiments.adversary.frontier import EPSILONS, frontier, frontier_epsilons
from attnaudit.report.fragment import facts_of
from attnaudit.report.sections.playground import (
    MOST_NUMBERS,
    MOST_TOKENS,
    listed_positions,
    playground_data,
)
from attnaudit.stats.measures import jsd, tvd
from tests.traces import make_trace

SCRIPTS = files("attnaudit").joinpath("report/scripts")
MODEL = "".join(SCRIPTS.joinpath(name).read_text("utf-8") for name in ("dom.js", "model.js"))
PROGRAM = """
const { data, asked } = JSON.parse(require("fs").readFileSync(0, "utf-8"));
const m = model;
console.log(JSON.stringify(data.instances.map((entry, k) => {
  const one = m.row(entry, data.model), target = m.prediction(one, one.own), { own } = one;
  const measured = (weights) => {
    const p = Array.from(m.prediction(one, weights));
    return { weights: Array.from(weights), p, tvd: m.tvd(p, target), jsd: m.jsd(weights, own) };
  };
  const given = (asked[k] || []).map((weights) => Float64Array.from(weights));
  return {
    own: measured(own), moved: measured(m.moved(own, one.listed - 1, 0.4, own)),
    cases: [...given, m.uniform(one), m.shuffled(one, own, () => 0.4), m.without(own, [0])].map(measured),
    adversary: entry.adversary && measured(m.numbers(entry.adversary)),
  };
})));
"""


def computed(data, asked=None):
    """What the page's script says of every instance of ``data``."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node on the PATH: the browser's tests compute the same")
    given = json.dumps({"data": data, "asked": asked or []})
    done = subprocess.run(
        [node, "-e", MODEL + PROGRAM], input=given, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def of_trace(trace):
    return playground_data(trace, facts_of(trace, 0.01), 0.01)


def assert_as_readout(trace, row, case, weights=None):
    """Prediction, TVD and JSD of a ``case`` are those of the Python readout."""
    weights = np.array(case["weights"] if weights is None else weights, float)
    assert weights.sum() == pytest.approx(1, abs=1e-6)
    one = trace.take(np.array([row]))
    there, own = one.readout(one.alpha.with_values(weights)), one.readout(one.alpha)
    np.testing.assert_allclose(case["p"], there[0], atol=1e-6)
    assert case["tvd"] == pytest.approx(float(tvd(there, own)[0]), abs=1e-6)
    expected = float(jsd(weights[None], one.alpha.values[None])[0])
    assert case["jsd"] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    "trace",
    [
        make_trace(5, (2, 14), seed=3),
        make_trace(4, (2, 12), 2, seed=4, zeros=0.3),
        make_trace(4, (2, 12), 4, seed=5, candidates=True),
        make_trace(4, (2, 12), 3, seed=6, hidden=6),
        make_trace(3, (2, 12), seed=7, hidden=5),
    ],
    ids=["sigmoid", "two classes", "candidates", "tanh", "tanh, sigmoid"],
)
def test_the_page_computes_what_the_readout_does(trace):
    rng = np.random.default_rng(0)
    drawn = [rng.dirichlet(np.full(length, 0.3), 3).tolist() for length in trace.alpha.lengths]
    found = computed(of_trace(trace), drawn)
    assert len(found) == len(trace)
    for row, one in enumerate(found):
        for case in (*one["cases"], one["own"], one["moved"]):
            assert_as_readout(trace, row, case)


def test_the_page_has_the_exact_adversary():
    trace = make_trace(6, (3, 12), seed=11)
    table = Adversary()(trace)
    for row, one in enumerate(computed(of_trace(trace))):
        assert one["adversary"]["jsd"] == pytest.approx(table["emax_jsd"][row], abs=1e-6)
        assert one["adversary"]["tvd"] <= 0.01 + 1e-6


def test_the_frontier_is_the_adversary_at_every_epsilon():
    trace = make_trace(5, (2, 12), seed=13)
    epsilons = frontier_epsilons(trace, 0.01)
    found, upper = frontier(trace, epsilons)
    assert (upper - found < 1e-9).all()
    for epsilon in (0.01, EPSILONS[12]):
        reached = Adversary(epsilon=epsilon)(trace)["emax_jsd"].to_numpy()
        np.testing.assert_allclose(found[:, epsilons.index(epsilon)], reached, atol=1e-9)


@pytest.mark.parametrize("outputs", [1, 3])
def test_the_frontier_rises_to_the_largest_jsd_that_there_is(outputs):
    trace = make_trace(2, (2, 6), outputs, seed=13)
    epsilons = frontier_epsilons(trace, 0.03)
    assert all(low < high for low, high in pairwise(epsilons))
    assert 0.0 <= epsilons[0] < 0.01
    assert 0.03 in epsilons
    assert epsilons[-1] == 1.0
    found, upper = frontier(trace, epsilons)
    assert (np.diff(found, axis=1) >= 0).all()
    assert (np.diff(upper, axis=1) >= 0).all()
    assert (found <= upper).all()
    any_output = unconstrained_bound(trace.alpha)
    np.testing.assert_allclose([found[:, -1], upper[:, -1]], [any_output] * 2, atol=1e-9)


def test_a_long_text_has_one_bar_for_the_rest_and_stays_exact():
    trace = make_trace(2, [700, 90], seed=14)
    data = of_trace(trace)
    entry, short = data["instances"]
    assert len(entry["tokens"]) == MOST_TOKENS - 1
    assert (entry["rest"], short["rest"]) == (700 - len(entry["tokens"]), 0)
    table, one = Adversary()(trace), computed(data)[0]
    assert one["adversary"]["jsd"] == pytest.approx(table["emax_jsd"][0], abs=1e-6)
    np.testing.assert_allclose(one["own"]["p"], trace.prediction[0], atol=1e-4)
    # All tokens' weights: those of the rest are in proportion to the model's own.
    own, bars = trace.alpha[0], one["moved"]["weights"]
    listed = listed_positions(trace, 0, facts_of(trace, 0.01).to_dicts()[0], MOST_TOKENS)
    assert [trace.tokens(0)[t] for t in listed] == entry["tokens"]
    weights = own * bars[-1] / np.delete(own, listed).sum()
    weights[listed] = bars[:-1]
    assert_as_readout(trace, 0, one["moved"], weights)


def test_wide_readouts_are_bounded_and_the_widest_has_none():
    wide = make_trace(2, [600, 40], 3, seed=15, hidden=300, loo=False)
    entries = playground_data(wide, pl.DataFrame(), 0.01)["instances"]
    assert max(len(entry["readout"]) * 3 // 16 for entry in entries) <= MOST_NUMBERS
    assert entries[0]["rest"] > 500
    widest = make_trace(1, [8], 3, seed=15, hidden=MOST_NUMBERS // 2, loo=False)
    assert playground_data(widest, pl.DataFrame(), 0.01)["instances"] == []
