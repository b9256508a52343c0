"""The mathematics of the playground, run by node: the page computes what the Python readout does."""

from __future__ import annotations

import json
import shutil
import subprocess
from importlib.resources import files
from itertools import pairwise, product
from typing import Any

import numpy as np
import polars as pl
import pytest

from attnaudit.experiments.adversary.exact import slab_within, unconstrained_bound
from attnaudit.experiments.adversary.experiment import Adversary
from attnaudit.experiments.adversary.frontier import EPSILONS, frontier, frontier_epsilons
from attnaudit.experiments.erasure.experiment import Erasure
from attnaudit.experiments.ranges.line import ranges_in_slab
from attnaudit.report.fragment import facts_of
from attnaudit.report.sections.playground import (
    MOST_NUMBERS,
    MOST_OF_LIST,
    MOST_TOKENS,
    SHARES,
    listed_entries,
    listed_positions,
    playground_data,
    points,
)
from attnaudit.stats.measures import jsd, tvd
from attnaudit.trace import Trace
from tests.tails import layer_trace
from tests.traces import make_trace

SCRIPTS = files("attnaudit").joinpath("report/scripts")
MODEL = "".join(
    SCRIPTS.joinpath(name).read_text(encoding="utf-8") for name in ("dom.js", "model.js")
)
PROGRAM = """
const { data, asked } = JSON.parse(require("fs").readFileSync(0, "utf-8"));
const m = model;
console.log(JSON.stringify(data.instances.map((entry, k) => {
  const one = m.row(entry, data.model);
  const target = m.prediction(one, one.own);
  const measured = (weights) => {
    const p = m.prediction(one, weights);
    return { weights: Array.from(weights), p: Array.from(p), tvd: m.tvd(p, target), jsd: m.jsd(weights, one.own) };
  };
  const drawn = (asked[k] || []).map((weights) => measured(Float64Array.from(weights)));
  const last = one.listed - 1;
  const least = entry.least && m.numbers(entry.least), most = entry.most && m.numbers(entry.most);
  return {
    drawn, own: measured(one.own), moved: measured(m.moved(one.own, last, 0.4, one.own)), uniform: measured(m.uniform(one)),
    shuffled: measured(m.shuffled(one, one.own, () => 0.4)), without: measured(m.without(one.own, new Set([0]))),
    link: Array.from(m.fromText(m.toText(one.own), one.own.length)),
    bad: [m.fromText("%3Cimg", 3), m.fromText("AAAA", 3), m.fromText(m.toText([NaN]), 1), m.fromText(m.toText([-1]), 1)],
    least: least && Array.from(least), most: most && Array.from(most),
    adversary: entry.adversary && measured(m.numbers(entry.adversary)),
    flips: ["attention", "gradient", "product", "minimum"].map((ranking) => {
      const gone = new Set(), order = m.removals(one, ranking, entry.minimum || []);
      const flipped = (t) => {
        const left = m.without(one.own, gone.add(t));
        return left !== null && m.decided(m.prediction(one, left)) !== m.decided(target);
      };
      return order.findIndex(flipped) + 1;
    }),
  };
})));
"""


def computed(
    data: dict[str, Any], asked: list[list[list[float]]] | None = None
) -> list[dict[str, Any]]:
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


def of_trace(trace: Trace, epsilon: float = 0.01) -> dict[str, Any]:
    return playground_data(trace, facts_of(trace, epsilon), epsilon)


def in_python(trace: Trace, row: int, weights: np.ndarray) -> tuple[np.ndarray, float, float]:
    """Prediction, TVD and JSD of any weights."""
    one = trace.take(np.array([row]))
    there, own = one.readout(one.alpha.with_values(weights)), one.readout(one.alpha)
    return there[0], float(tvd(there, own)[0]), float(jsd(weights[None], one.alpha.values[None])[0])


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
def test_the_page_computes_what_the_readout_does(trace: Trace):
    assert_computed(trace)


def assert_computed(trace: Trace):
    """Prediction, TVD and JSD of drawn weights and of the buttons' agree with the Python readout."""
    drawn = [
        np.random.default_rng(k).dirichlet(np.full(length, 0.3), 3)
        for k, length in enumerate(trace.alpha.lengths)
    ]
    found = computed(of_trace(trace), [weights.tolist() for weights in drawn])
    assert len(found) == len(trace)
    for row, one in enumerate(found):
        cases = [
            *one["drawn"],
            *(one[name] for name in ("own", "moved", "uniform", "shuffled", "without")),
        ]
        for case in cases:
            weights = np.array(case["weights"], float)
            prediction, change, divergence = in_python(trace, row, weights)
            np.testing.assert_allclose(case["p"], prediction, atol=1e-6)
            assert case["tvd"] == pytest.approx(change, abs=1e-6)
            assert case["jsd"] == pytest.approx(divergence, abs=1e-6)
        for name in ("moved", "uniform", "shuffled", "without"):
            assert sum(one[name]["weights"]) == pytest.approx(1, abs=1e-12)
        np.testing.assert_allclose(one["link"], trace.alpha[row], atol=1e-7)
        assert one["bad"] == [None] * 4


@pytest.mark.parametrize(
    "trace",
    [
        make_trace(8, (2, 14), seed=3),
        make_trace(8, (2, 12), 3, seed=4, candidates=True),
        make_trace(8, (2, 12), 3, seed=6, hidden=6),
    ],
    ids=["sigmoid", "candidates", "tanh"],
)
def test_removals_in_every_order_flip_as_in_the_table(trace: Trace):
    rankings, table = ("attention", "gradient", "gradient_attention", "minimum"), Erasure()(trace)
    for row, one in enumerate(computed(of_trace(trace))):
        shares = [table[f"removed_{ranking}"][row] for ranking in rankings]
        lengths = trace.alpha.lengths[row]
        counts = [0 if share is None else round(share * lengths) for share in shares]
        if table["minimum"][row] is None:
            counts[3] = one["flips"][3]
        assert one["flips"] == counts
    assert any(table["removed_gradient"].is_not_null())


def test_the_page_has_the_exact_adversary_and_both_ends_of_a_range():
    trace = make_trace(6, (3, 12), seed=11)
    table = Adversary()(trace)
    exact = ranges_in_slab(trace.alpha, slab_within(trace.readout, trace.alpha, 0.01))
    for row, one in enumerate(computed(of_trace(trace))):
        assert one["adversary"]["jsd"] == pytest.approx(table["emax_jsd"][row], abs=1e-6)
        assert one["adversary"]["tvd"] <= 0.01 + 1e-6
        for name, flat in (("least", exact.necessary), ("most", exact.possible)):
            assert one[name] == pytest.approx(trace.alpha.with_values(flat)[row], abs=1e-6)


def test_the_frontier_is_the_adversary_at_every_epsilon_and_rises():
    trace = make_trace(5, (2, 12), seed=13)
    epsilons = frontier_epsilons(trace, 0.01)
    found, upper = frontier(trace, epsilons)
    assert (np.diff(found, axis=1) >= 0).all()
    assert (upper - found < 1e-9).all()
    for epsilon in (0.01, EPSILONS[12]):
        reached = Adversary(epsilon=epsilon)(trace)["emax_jsd"].to_numpy()
        np.testing.assert_allclose(found[:, epsilons.index(epsilon)], reached, atol=1e-9)
    several = make_trace(2, (2, 6), 3, seed=13)
    found, upper = frontier(several, (0.01, 0.2, 1.0))
    assert (np.diff(found, axis=1) >= 0).all()
    assert (np.diff(upper, axis=1) >= 0).all()
    assert (found <= upper).all()


@pytest.mark.parametrize("outputs", [1, 3])
def test_the_frontier_is_drawn_from_small_changes_to_any_change(outputs: int):
    """At the last of its ε any output is allowed, and the frontier is at the largest JSD that there is."""
    trace = make_trace(2, (2, 6), outputs, seed=13)
    epsilons = frontier_epsilons(trace, 0.03)
    assert 0.03 in epsilons
    assert all(low < high for low, high in pairwise(epsilons))
    assert 0.0 <= epsilons[0] < 0.01
    assert epsilons[-1] == 1.0
    np.testing.assert_allclose(
        frontier(trace, epsilons[-1:]),
        np.tile(unconstrained_bound(trace.alpha)[:, None], (2, 1, 1)),
        atol=1e-9,
    )


def test_a_long_text_has_one_bar_for_the_rest_and_stays_exact():
    trace = make_trace(2, [700, 90], seed=14)
    data = of_trace(trace)
    entry = data["instances"][0]
    assert len(entry["tokens"]) == MOST_TOKENS - 1
    assert entry["rest"] == 700 - len(entry["tokens"])
    assert data["instances"][1]["rest"] == 0
    assert entry["adversary"] is not None
    table, one = Adversary()(trace), computed(data)[0]
    assert one["adversary"]["jsd"] == pytest.approx(table["emax_jsd"][0], abs=1e-6)
    np.testing.assert_allclose(one["own"]["p"], trace.prediction[0], atol=1e-4)
    whole = expanded(trace, entry, one["moved"]["weights"])
    prediction, change, divergence = in_python(trace, 0, whole)
    np.testing.assert_allclose(one["moved"]["p"], prediction, atol=1e-6)
    assert one["moved"]["tvd"] == pytest.approx(change, abs=1e-6)
    assert one["moved"]["jsd"] == pytest.approx(divergence, abs=1e-6)


def expanded(trace: Trace, entry: dict[str, Any], bars: list[float]) -> np.ndarray:
    """The weights of all tokens of the first row, those of the rest in proportion to the model's own."""
    own, tokens = trace.alpha[0], trace.tokens(0)
    listed = listed_positions(trace, 0, facts_of(trace, 0.01).to_dicts()[0], MOST_TOKENS)
    assert [tokens[t] for t in listed] == entry["tokens"]
    weights = own * bars[-1] / np.delete(own, listed).sum()
    weights[listed] = bars[:-1]
    return weights


def test_wide_readouts_are_bounded_and_the_widest_has_none():
    data = playground_data(
        make_trace(2, [600, 40], 3, seed=15, hidden=300, loo=False), pl.DataFrame(), 0.01
    )
    sizes = [len(entry["readout"]) * 3 // 4 // 4 for entry in data["instances"]]
    assert max(sizes) <= MOST_NUMBERS
    assert data["instances"][0]["rest"] > 500
    wide = playground_data(
        make_trace(1, [8], 3, seed=15, hidden=MOST_NUMBERS // 2, loo=False), pl.DataFrame(), 0.01
    )
    assert wide["instances"] == []
    assert wide["left_out"] == 1


def test_the_list_has_what_fits_and_its_entries_compute_the_same():
    trace = make_trace(4, [9, 900, 12, 1], seed=16)
    entries = listed_entries(trace, pl.DataFrame())
    assert [entry["id"] for entry in entries] == ["0", "2"], "one too long, one of a single token"
    found = computed({**of_trace(trace), "instances": entries})
    np.testing.assert_allclose(found[1]["own"]["p"], trace.prediction[2], atol=1e-4)
    room = MOST_OF_LIST // (5 * 600)
    many = make_trace(room + 3, [600] * (room + 3), seed=17, loo=False)
    assert len(listed_entries(many, pl.DataFrame())) == room


def test_points_are_the_readout_of_attention_moved_to_one_token():
    trace = layer_trace(3, (3, 60), outputs=2, seed=18)
    for k, length in enumerate(trace.alpha.lengths):
        positions = np.arange(length)[:: max(length // 7, 1)]
        found, own = points(trace, k, positions), trace.alpha[k]
        np.testing.assert_allclose(found[0, 2:], trace.prediction[k], atol=1e-4)
        for row, (t, share) in enumerate(product(positions, SHARES), start=1):
            weights = np.array(
                [(1 - share) * weight + share * (s == t) for s, weight in enumerate(own)]
            )
            prediction, change, divergence = in_python(trace, k, weights)
            np.testing.assert_allclose(found[row], [change, divergence, *prediction], atol=1e-6)
