"""What one experiment finds, no other may rule out, and none that asks for more may miss: found ≥ found, found ≤ bound."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from attnaudit.experiments import audit, make_experiment, refusal
from attnaudit.experiments.adversary import search
from attnaudit.experiments.identifiability.null_space import RANGES, Movements, movements
from attnaudit.hf.gate import check_model
from attnaudit.hf.network import Replay
from attnaudit.report.card import verdict
from attnaudit.results import Results
from attnaudit.results.summary import SummaryRows
from attnaudit.stats.measures import jsd
from attnaudit.trace import Trace
from tests.hf.classes import tiny
from tests.hf.encoding import random_texts
from tests.hf.test_trace import collected
from tests.tails import layer_trace, opaque
from tests.traces import make_trace

ROUNDING, SEARCHED = 1e-6, 1e-5  # a search ends where steps gain less
EVERY_ROW = {"ranges": {"share": 1.0}}
KINDS: dict[str, Any] = {
    "one sigmoid": lambda: make_trace(12, (1, 9), seed=3, outputs=1),
    "three classes": lambda: make_trace(12, (1, 9), seed=3, outputs=3, candidates=True),
    "tanh tail": lambda: make_trace(12, (1, 9), seed=3, outputs=3, hidden=4),
    "unknown tail": lambda: opaque(make_trace(12, (1, 9), seed=3, outputs=3, hidden=4)),
    "a transformer's layer": lambda: layer_trace(20, (1, 9), 3, seed=2, width=3),
}
NAMES = (
    "adversary",
    "identifiability",
    "maximal_change",
    "permutation",
    "erasure",
    "comprehensiveness",
    "ranges",
    "joint",
)


def audited(trace: Trace) -> Results:
    """Of each of these experiments that applies."""
    return audit(
        trace, [name for name in NAMES if refusal(make_experiment(name), trace) is None], EVERY_ROW
    )


def columns(table: pl.DataFrame) -> dict[str, Any]:
    """As arrays."""
    return {
        column: table[column].to_numpy() if table[column].dtype.is_numeric() else table[column]
        for column in table.columns
    }


def same_sum(trace: Trace) -> np.ndarray:
    """The largest JSD of the attentions that `identifiability` finds to have the same output."""
    return np.array(
        [
            jsd(ends, np.tile(own, (len(ends), 1))).max()
            for ends, own in zip(moved(trace).ends, trace.alpha, strict=True)
        ]
    )


def moved(trace: Trace) -> Movements:
    return movements(trace.readout.contribution, trace.alpha, RANGES)


def least_jsd(distance: np.ndarray) -> np.ndarray:
    """The smallest JSD that two attentions at a total variation distance have."""
    up, down = 1.0 + distance, np.maximum(1.0 - distance, 1e-12)
    return 0.5 * (up * np.log(up) + down * np.log(down))


def of_one_weight(weight: np.ndarray, own: np.ndarray) -> np.ndarray:
    """JSD of two attentions that differ so much in one weight, at least."""
    return jsd(np.stack([weight, 1.0 - weight], -1), np.stack([own, 1.0 - own], -1))


def assert_agreement(trace: Trace, results: Results) -> None:
    found = {name: columns(result.table) for name, result in results.items()}
    adversary, same, change = (
        found[name] for name in ("adversary", "identifiability", "maximal_change")
    )
    emax, largest = adversary["emax_jsd"], np.array([own.max() for own in trace.alpha])
    assert (emax >= same_sum(trace) - ROUNDING).all()
    assert (emax >= least_jsd(same["max_tvd_alpha"]) - ROUNDING).all()
    for end in ("least", "most"):
        assert (emax >= of_one_weight(same[f"largest_weight_{end}"], largest) - ROUNDING).all()
    assert (adversary["emax_jsd_upper"] >= emax).all()
    assert (same["max_tvd_alpha_upper"] >= same["max_tvd_alpha"]).all()
    for other in (adversary["delta_y"], found["permutation"]["median_delta_y"]):
        assert (change["max_delta_y"] >= other - ROUNDING).all()
    flipped = found["erasure"]["removed_minimum"]
    assert not (~np.isnan(flipped.astype(float)) & ~change["flips"].to_numpy()).any()
    assert (change["max_delta_y_upper"] >= change["max_delta_y"]).all()
    if "joint" in found:
        assert (found["joint"]["joint_max_delta_y"] >= change["max_delta_y"] - ROUNDING).all()
        assert not (change["flips"] & ~found["joint"]["joint_flips"]).any()
    if "ranges" in found:
        assert_ranges(trace, found)


def assert_ranges(trace: Trace, found: dict[str, Any]) -> None:
    """The adversary's weights, and the weights with the same sum, are among those found; what these found, the adversary exceeds."""
    ranges, adversary, same = (found[name] for name in ("ranges", "adversary", "identifiability"))
    for row, own in enumerate(trace.alpha):
        if ranges["possible"][row] is None:
            continue
        weights, top = adversary["alpha"][row].to_numpy(), int(own.argmax())
        possible, necessary = (ranges[name][row].to_numpy() for name in ("possible", "necessary"))
        assert (possible >= weights - ROUNDING).all()
        assert (necessary <= weights + ROUNDING).all()
        assert possible[top] >= same["largest_weight_most"][row] - ROUNDING
        assert necessary[top] <= same["largest_weight_least"][row] + ROUNDING
        assert (
            adversary["emax_jsd"][row]
            >= max(of_one_weight(possible, own).max(), of_one_weight(necessary, own).max())
            - SEARCHED
        )


@pytest.mark.parametrize("kind", KINDS)
def test_experiments_agree(kind: str):
    trace = KINDS[kind]()
    assert_agreement(trace, audited(trace))


@pytest.fixture(scope="module")
def replayed(
    one_registry: None, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[Trace, Results]]:
    """Traces of tiny models, whose attended sums leave some weights open, and what the experiments find."""
    made = {}
    for name in ("LlamaForCausalLM", "BartForConditionalGeneration"):
        model = tiny(name)
        gate = check_model(model)
        texts = random_texts(model, 2)
        folder = collected(
            model,
            gate,
            texts,
            tmp_path_factory.mktemp(name),
            "last",
            name.startswith("Bart"),
            scores=(),
        )
        trace = Trace.read(folder, Replay(model, gate))
        made[name] = trace, audited(trace)
    return made


@pytest.mark.parametrize("name", ["LlamaForCausalLM", "BartForConditionalGeneration"])
def test_experiments_agree_about_a_transformer(
    name: str, replayed: dict[str, tuple[Trace, Results]]
):
    trace, results = replayed[name]
    several = trace.alpha.lengths > 1
    assert_agreement(trace, results)
    assert (
        results["adversary"].table["emax_jsd"].to_numpy()[several] > 1e-3
    ).all()  # any row can move a little
    assert (same_sum(trace) > 1e-3).sum() > 1


def test_the_card_of_a_transformer_does_not_contradict_itself(
    replayed: dict[str, tuple[Trace, Results]],
):
    """In every head the divergence found is at least that of the weights with the same output: both lines may be said of it."""
    _, results = replayed["LlamaForCausalLM"]
    summary = pl.concat([results[name].summary for name in ("adversary", "identifiability")])
    rows = SummaryRows.of(summary)
    emax, same = (
        rows.heads("adversary", "emax_jsd"),
        rows.heads("identifiability", "max_tvd_alpha"),
    )
    assert same
    for head, row in same.items():
        assert (
            emax[head]["value"] >= least_jsd(np.array(row["value"])) - ROUNDING
        )  # which is convex
    nearly, exactly = (
        row.sentence for row in verdict(summary.with_columns(n=pl.lit(100), texts=pl.lit(100))).rows
    )
    assert (
        "those with exactly the same output included" in nearly
        or "the weights found differ" in nearly
    )
    assert "give exactly the same prediction" in exactly


def test_a_search_that_starts_at_single_tokens_alone_is_found(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(
        search, "_same_sum", lambda state, rows: state.to_best(rows, state.alpha.take(rows))
    )
    monkeypatch.setattr(search, "CLIMBS", 0)
    trace = KINDS["a transformer's layer"]()
    emax = make_experiment("adversary")(trace)["emax_jsd"].to_numpy()
    assert (emax < same_sum(trace) - ROUNDING).any()
