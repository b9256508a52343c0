"""What may be claimed: an end of an interval decides, and an absence of evidence decides nothing."""

from functools import partial
from typing import Any

import pytest

from attnaudit.experiments.findings import (
    AGAINST,
    BOTH,
    FOR,
    NEITHER,
    UNCLEAR,
    agreement,
    comprehensiveness,
    decide,
    furthest,
    shuffling,
    side_of,
)
from attnaudit.results import SummaryRows
from tests.report.runs import summary_of

ENDS = ("low", "value", "high")
with_gradient, with_loo = (partial(agreement, score=score) for score in ("gradient", "loo"))
EXPERIMENT = {
    shuffling: "permutation", with_gradient: "correlation", with_loo: "correlation", furthest: "adversary",
    comprehensiveness: "comprehensiveness",
}  # fmt: skip


def sure(value):
    return value, value, value


SURE = sure(0.6)
GAP = "matched_comprehensiveness_attention_minus_matched_comprehensiveness_random"
TAU, SAME, TAU_GAP = "tau_gradient", "tau_gradient_loo", "tau_gradient_loo_minus_tau_gradient"
FURTHEST, BEYOND = "matched_emax_jsd", "matched_emax_jsd_minus_exchange_jsd"
WEAK = {"tau_loo": sure(0.1), "tau_gradient_loo": (0.05, 0.3, 0.5), "tau_gradient_loo_minus_tau_loo": sure(0.2)}  # fmt: skip


def change(*ends, **more):
    return {"matched_delta_y": ends, **more}


def tau(value, *gap, reference=SURE):
    return {TAU: sure(value), SAME: reference, TAU_GAP: gap}


@pytest.mark.parametrize(("rule", "figures", "side", "fact"), [
    (shuffling, change(0.2, 0.25, 0.3), FOR, "high"),
    (shuffling, change(0.199, 0.25, 0.3), NEITHER, UNCLEAR),
    (shuffling, change(0.15, 0.19, 0.2), NEITHER, UNCLEAR),
    (shuffling, change(0.15, 0.19, 0.199), AGAINST, "low"),
    # Attention that is close to uniform proves nothing.
    (shuffling, change(0.05, 0.05, 0.05, alpha_from_uniform=sure(0.9)), AGAINST, "low"),
    (shuffling, change(0.05, 0.05, 0.05, alpha_from_uniform=(0.2, 0.3, 0.4)), NEITHER, "flat"),
    # A difference that is not significant is no agreement: as well as the reference means at least 0.85 of it, here a gap of at most 0.09.
    (with_gradient, tau(0.3, -0.1, 0.3, 0.7), NEITHER, ""),
    (with_gradient, tau(0.58, -0.04, 0.02, 0.08), FOR, ""),
    (with_gradient, tau(0.58, -0.04, 0.02, 0.1), NEITHER, ""),
    (with_gradient, tau(0.58, -0.04, 0.02, 0.08, reference=(0.4, 0.6, 0.8)), NEITHER, ""),
    (with_gradient, tau(0.3, 0.2, 0.3, 0.4), AGAINST, "high"),
    (with_gradient, tau(0.0, 0.5, 0.6, 0.7), AGAINST, "none"),
    (with_gradient, tau(0.3, 0.05, 0.3, 0.55), NEITHER, ""),
    # A reference that is not shown to agree sets no standard.
    (with_gradient, tau(0.04, 0.0, 0.0, 0.0, reference=sure(0.04)), NEITHER, ""),
    (with_loo, WEAK, NEITHER, "weak_reference"),
    # Tokens no better than random ones need evidence: falls that do not differ significantly speak neither for nor against.
    (comprehensiveness, {GAP: (-0.1, 0.05, 0.2)}, NEITHER, UNCLEAR),
    (comprehensiveness, {GAP: (0.01, 0.05, 0.1)}, NEITHER, "small"),
    (comprehensiveness, {GAP: sure(0.0)}, NEITHER, "small"),
    (comprehensiveness, {GAP: (-0.2, -0.1, -0.01)}, AGAINST, "low"),
    (comprehensiveness, {GAP: (0.2, 0.3, 0.4)}, FOR, GAP),
    # Attention that is close must be so in itself, and what is far must be beyond an exchange of attended words.
    (furthest, {FURTHEST: sure(0.1), BEYOND: sure(0.05)}, FOR, FURTHEST),
    (furthest, {FURTHEST: sure(0.5), BEYOND: sure(0.1)}, NEITHER, "low"),
    (furthest, {FURTHEST: sure(0.5), BEYOND: (0.1, 0.2, 0.3)}, NEITHER, UNCLEAR),
    (furthest, {FURTHEST: sure(0.5), BEYOND: (0.18, 0.2, 0.3)}, AGAINST, BEYOND),
])  # fmt: skip
def test_an_end_of_the_interval_of_the_figure_that_is_named_decides(rule, figures, side, fact):
    """Figures are (low, value, high) of 100 instances; a fact is the code or the measure of the finding."""
    rows = {
        f"{EXPERIMENT[rule]}__{measure}": dict[str, Any](zip(ENDS, ends, strict=True))
        for measure, ends in figures.items()
    }
    found = rule(SummaryRows.of(summary_of(**rows)))
    assert found.side == side
    assert fact in ("", found.code, found.measure)


@pytest.mark.parametrize(
    "row",
    [
        {"low": None, "high": None, "n": 100},
        {"low": 0.3, "high": 0.5, "n": 19},
        {"low": 0.3, "high": 0.5, "n": 400, "texts": 19},
    ],
)
def test_a_figure_without_an_interval_or_of_few_texts_decides_nothing(row):
    row |= {"experiment": "permutation", "measure": "median_delta_y", "value": 0.4}
    found = decide(row, 0.15, FOR, AGAINST)
    assert (found.side, found.code) == (NEITHER, "few")


def test_how_many_texts_would_decide_follows_from_the_width():
    """Half of the interval is 0.04 and 0.02 is wanted, with 100 texts: 400."""
    row = {"experiment": "e", "measure": "m", "value": 0.17, "low": 0.13, "high": 0.21, "n": 100}
    assert decide(row, 0.15, FOR, AGAINST).needed == 400
    assert decide(row | {"value": 0.15}, 0.15, FOR, AGAINST).needed is None
    assert decide(row | {"value": 0.1500001}, 0.15, FOR, AGAINST).needed is None, "too many to say"


def test_findings_take_a_side_together():
    assert side_of([FOR, NEITHER, FOR]) == FOR
    assert side_of([FOR, AGAINST]) == BOTH
    assert side_of([NEITHER]) == side_of([]) == NEITHER
