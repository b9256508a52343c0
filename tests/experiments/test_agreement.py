"""What one experiment finds, no other may rule out, and none that asks for more may miss: found ≥ found, found ≤ bound."""

import numpy as np
import polars as pl
import pytest

from attnaudit.experiments import audit, make_experiment, refusal
from attnaudit.experiments.adversary import search
from attnaudit.experiments.adversary.state import Segments
from attnaudit.experiments.identifiability.null_space import movements
from attnaudit.stats.measures import jsd
from tests.hf.classes import tiny
from tests.hf.encoding import random_texts
from tests.hf.test_trace import traced
from tests.tails import layer_trace, opaque
from tests.traces import make_trace

ROUNDING, SEARCHED = 1e-6, 1e-5  # a search ends where steps gain less
KINDS = {
    "one sigmoid": lambda: make_trace(8, (1, 9), seed=3, outputs=1),
    "three classes": lambda: make_trace(8, (1, 9), seed=3, outputs=3, candidates=True),
    "tanh tail": lambda: make_trace(8, (1, 9), seed=3, outputs=3, hidden=4),
    "unknown tail": lambda: opaque(make_trace(8, (1, 9), seed=3, outputs=3, hidden=4)),
    "a transformer's layer": lambda: layer_trace(12, (1, 9), 3, seed=2, width=3),
}
NAMES = (
    "adversary",
    "identifiability",
    "maximal_change",
    "permutation",
    "erasure",
    "ranges",
    "joint",
)


def audited(trace):
    """Of each of these experiments that applies."""
    names = [name for name in NAMES if refusal(make_experiment(name), trace) is None]
    return audit(trace, names)


def same_sum(trace):
    """The largest JSD of the attentions that `identifiability` finds to have the same output."""
    found = movements(trace.readout.contribution, trace.alpha).ends
    pairs = zip(found, trace.alpha, strict=True)
    return np.array([jsd(ends, np.tile(own, (len(ends), 1))).max() for ends, own in pairs])


def least_jsd(distance):
    """The smallest JSD that two attentions at a total variation distance have."""
    up, down = 1.0 + distance, np.maximum(1.0 - distance, 1e-12)
    return 0.5 * (up * np.log(up) + down * np.log(down))


def of_one_weight(weight, own):
    """JSD of two attentions that differ so much in one weight, at least."""
    return jsd(np.stack([weight, 1.0 - weight], -1), np.stack([own, 1.0 - own], -1))


def assert_agreement(trace, results):
    tables = {name: result.table for name, result in results.items()}
    adversary, same, change = (
        tables[name] for name in ("adversary", "identifiability", "maximal_change")
    )
    emax, largest = adversary["emax_jsd"], np.array([own.max() for own in trace.alpha])
    top = [same[f"largest_weight_{end}"].to_numpy() for end in ("least", "most")]
    known = [same_sum(trace), least_jsd(same["max_tvd_alpha"].to_numpy())]
    for least in (*known, *(of_one_weight(end, largest) for end in top)):
        assert (emax >= least - ROUNDING).all()
    for table, measure in (
        (adversary, "emax_jsd"),
        (same, "max_tvd_alpha"),
        (change, "max_delta_y"),
    ):
        assert (table[f"{measure}_upper"] >= table[measure]).all()
    for other in (adversary["delta_y"], tables["permutation"]["median_delta_y"]):
        assert (change["max_delta_y"] >= other - ROUNDING).all()
    assert change["flips"].filter(tables["erasure"]["removed_minimum"].is_not_null()).all()
    if "joint" in tables:
        joint = tables["joint"]
        assert (joint["joint_max_delta_y"] >= change["max_delta_y"] - ROUNDING).all()
        assert joint["joint_flips"].filter(change["flips"]).all()
    ranges = tables.get("ranges", pl.DataFrame({"possible": []}))
    # The adversary's weights, and those with the same sum, are among those found; what these found, the adversary exceeds.
    for row in np.flatnonzero(ranges["possible"].is_not_null()).tolist():
        own, weights = trace.alpha[row], adversary["alpha"][row].to_numpy()
        necessary, possible = (ranges[name][row].to_numpy() for name in ("necessary", "possible"))
        assert (possible >= weights - ROUNDING).all()
        assert (necessary <= weights + ROUNDING).all()
        assert possible[own.argmax()] >= top[1][row] - ROUNDING
        assert necessary[own.argmax()] <= top[0][row] + ROUNDING
        for end in (necessary, possible):
            assert emax[row] >= of_one_weight(end, own).max() - SEARCHED


@pytest.mark.parametrize("kind", KINDS)
def test_experiments_agree(kind):
    trace = KINDS[kind]()
    assert_agreement(trace, audited(trace))


@pytest.mark.slow
@pytest.mark.usefixtures("one_registry")
@pytest.mark.parametrize(
    ("name", "cross"), [("LlamaForCausalLM", False), ("BartForConditionalGeneration", True)]
)
def test_experiments_agree_about_a_transformer(name, cross, tmp_path):
    """Whose attended sums leave some weights open."""
    model = tiny(name)
    trace = traced(model, tmp_path, "last", random_texts(model, 2), cross=cross).trace
    results = audited(trace)
    assert_agreement(trace, results)
    # Any row can move a little.
    several = pl.Series(trace.alpha.lengths > 1)
    assert (results["adversary"].table["emax_jsd"].filter(several) > 1e-3).all()
    assert (same_sum(trace) > 1e-3).sum() > 1


def test_a_search_that_starts_at_single_tokens_alone_is_found(monkeypatch):
    monkeypatch.setattr(
        search,
        "_same_sum",
        lambda state, rows: Segments(rows, state.alpha.take(rows), state.attention.take(rows)),
    )
    monkeypatch.setattr(search, "CLIMBS", 0)
    trace = KINDS["a transformer's layer"]()
    emax = make_experiment("adversary")(trace)["emax_jsd"].to_numpy()
    assert (emax < same_sum(trace) - ROUNDING).any()
