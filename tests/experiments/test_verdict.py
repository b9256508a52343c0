"""What may be claimed: an end of an interval decides, and an absence of evidence decides nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from attnaudit.experiments.verdict import (
    AGAINST,
    BOTH,
    FOR,
    NEITHER,
    POLICY,
    UNCLEAR,
    Finding,
    agreement,
    comprehensiveness,
    decide,
    furthest,
    ranges,
    removal,
    shuffling,
    side_of,
)
from attnaudit.report.card import verdict
from attnaudit.results.about import About
from attnaudit.results.summary import SummaryRows
from tests.report.runs import summary_of


def rows_of(experiment: str, **figures: tuple[float, float, float]) -> SummaryRows:
    """Summary rows of (low, value, high) by measure, of 100 instances."""
    rows: dict[str, dict[str, Any]] = {
        f"{experiment}__{name}": dict(zip(("low", "value", "high"), ends, strict=True))
        for name, ends in figures.items()
    }
    return SummaryRows.of(summary_of(**rows))


def exactly(value: float) -> tuple[float, float, float]:
    return value, value, value


@pytest.mark.parametrize(
    ("low", "value", "high", "side", "code"),
    [
        (0.15, 0.2, 0.25, FOR, "high"),
        (0.149, 0.2, 0.25, NEITHER, UNCLEAR),
        (0.1, 0.14, 0.15, NEITHER, UNCLEAR),
        (0.1, 0.14, 0.149, AGAINST, "low"),
    ],
)
def test_an_end_of_the_interval_decides(
    low: float, value: float, high: float, side: str, code: str
) -> None:
    found = shuffling(rows_of("permutation", median_delta_y=(low, value, high)))
    assert found is not None
    assert (found.side, found.code) == (side, code)


@pytest.mark.parametrize(
    "row",
    [
        {"low": None, "high": None, "n": 100},
        {"low": 0.3, "high": 0.5, "n": 19},
        {"low": 0.3, "high": 0.5, "n": 400, "texts": 19},
    ],
)
def test_a_figure_without_an_interval_or_of_few_texts_decides_nothing(row: dict) -> None:
    row |= {"experiment": "permutation", "measure": "median_delta_y", "value": 0.4}
    found = decide(row, 0.15, FOR, AGAINST)
    assert (found.side, found.code) == (NEITHER, "few")


def test_how_many_texts_would_decide_follows_from_the_width() -> None:
    """Half of the interval is 0.04 and 0.02 is wanted, with 100 texts: 400."""
    row = {"experiment": "e", "measure": "m", "value": 0.17, "low": 0.13, "high": 0.21, "n": 100}
    assert decide(row, 0.15, FOR, AGAINST).needed == 400
    assert decide(row | {"value": 0.15}, 0.15, FOR, AGAINST).needed is None
    assert decide(row | {"value": 0.1500001}, 0.15, FOR, AGAINST).needed is None, "too many to say"
    summary = summary_of(
        permutation__median_delta_y={"value": 0.17, "low": 0.13, "high": 0.21},
        permutation__max_alpha={"value": 0.9},
    )
    (shown,) = verdict(summary, About()).rows
    assert "Not enough texts to tell whether the change is 0.15 or more: about 400 would do." in (
        shown.sentence
    )


def test_true_changes_below_the_threshold_rarely_pass_it() -> None:
    """Of audits of 20 texts with a mean change of 0.12, by a point estimate 17 % would pass."""
    rng, passed = np.random.default_rng(0), 0
    for _ in range(200):
        values = rng.beta(1.2, 8.8, 20)
        resampled = values[rng.integers(0, 20, (400, 20))].mean(axis=1)
        low, high = np.percentile(resampled, [2.5, 97.5])
        row = {"experiment": "e", "measure": "m", "value": values.mean(), "n": 20}
        passed += decide(row | {"low": low, "high": high}, 0.15, FOR).side == FOR
    assert passed <= 10


def agreed(tau: float, gap: tuple[float, float, float], reference: float = 0.6) -> str:
    found = agreement(
        rows_of(
            "correlation",
            tau_gradient=exactly(tau),
            tau_gradient_loo=exactly(reference),
            tau_gradient_loo_minus_tau_gradient=gap,
        ),
        "gradient",
    )
    assert found is not None
    return found.side


def test_a_difference_that_is_not_significant_is_no_agreement() -> None:
    """As well as the reference means at least 0.85 of it: here a gap of at most 0.09."""
    assert agreed(0.3, (-0.1, 0.3, 0.7)) == NEITHER
    assert agreed(0.58, (-0.04, 0.02, 0.08)) == FOR
    assert agreed(0.58, (-0.04, 0.02, 0.1)) == NEITHER
    assert agreed(0.3, (0.2, 0.3, 0.4)) == AGAINST
    assert agreed(0.3, (0.05, 0.3, 0.55)) == NEITHER


def test_a_reference_that_is_not_shown_to_agree_sets_no_standard() -> None:
    assert agreed(0.04, exactly(0.0), reference=0.04) == NEITHER
    weak = rows_of(
        "correlation",
        tau_loo=exactly(0.1),
        tau_gradient_loo=(0.05, 0.3, 0.5),
        tau_gradient_loo_minus_tau_loo=exactly(0.2),
    )
    found = agreement(weak, "loo")
    assert found is not None
    assert found.code == "weak_reference"


def erased(
    gain: tuple[float, float, float], never: float = 0.1, better: float = 0.3
) -> Finding | None:
    return removal(
        rows_of(
            "erasure",
            gain_attention=gain,
            never_minimum=exactly(never),
            area_attention_minus_area_random=exactly(better),
        )
    )


@pytest.mark.parametrize(
    ("gain", "never", "better", "side", "code"),
    [
        ((0.81, 0.85, 0.9), 0.1, 0.3, FOR, "high"),
        ((0.6, 0.7, 0.79), 0.1, 0.3, AGAINST, "low"),
        ((0.6, 0.7, 0.85), 0.1, 0.3, NEITHER, UNCLEAR),
        ((-0.5, -0.3, -0.1), 0.1, -0.2, AGAINST, "no_sooner"),
        ((0.6, 0.7, 0.79), 0.94, 0.3, NEITHER, "few_flip"),
        ((0.85, 0.9, 0.95), 0.5, 0.3, NEITHER, "few_flip"),
    ],
)
def test_removal_concludes_nothing_unless_most_predictions_can_flip(
    gain: tuple[float, float, float], never: float, better: float, side: str, code: str
) -> None:
    found = erased(gain, never, better)
    assert found is not None
    assert (found.side, found.code, found.measure) == (side, code, "gain_attention")


def test_tokens_no_better_than_random_ones_need_evidence() -> None:
    """Their falls do not differ significantly: that speaks neither for nor against."""
    name = "comprehensiveness"
    figures = {
        f"{name}_attention": exactly(0.3),
        f"{name}_gradient": exactly(0.4),
        f"normalised_{name}_attention": exactly(0.5),
    }
    gap = f"{name}_attention_minus_{name}_random"
    for ends, side in (((-0.1, 0.05, 0.2), NEITHER), ((-0.2, -0.1, 0.0), AGAINST)):
        found = comprehensiveness(rows_of(name, **figures, **{gap: ends}))
        assert found is not None
        assert found.side == side
    figures[f"normalised_{name}_attention"] = (0.8, 0.9, 1.0)
    found = comprehensiveness(rows_of(name, **figures, **{gap: exactly(0.2)}))
    assert found is not None
    assert (found.side, found.measure) == (FOR, f"normalised_{name}_attention")


def test_the_figure_that_decides_is_named() -> None:
    """Freedom is shown by weights that were found, need by the bound."""
    free = ranges(rows_of("ranges", mean_possible=exactly(0.9), top_necessary_lower=exactly(0.1)))
    must = ranges(rows_of("ranges", mean_possible=exactly(0.4), top_necessary_lower=exactly(0.6)))
    assert free is not None
    assert must is not None
    assert (free.side, free.measure) == (AGAINST, "mean_possible")
    assert (must.side, must.measure) == (FOR, "top_necessary_lower")
    close = furthest(rows_of("adversary", emax_jsd=exactly(0.1), emax_jsd_upper=exactly(0.12)))
    assert close is not None
    assert (close.side, close.measure) == (FOR, "emax_jsd_upper")


def test_findings_take_a_side_together() -> None:
    assert side_of([FOR, NEITHER, FOR]) == FOR
    assert side_of([FOR, AGAINST]) == BOTH
    assert side_of([NEITHER]) == side_of([]) == NEITHER


def test_attention_that_is_close_to_uniform_proves_nothing() -> None:
    small = exactly(0.05)
    for peak, side in ((exactly(0.9), AGAINST), ((0.2, 0.3, 0.4), NEITHER)):
        found = shuffling(rows_of("permutation", median_delta_y=small, max_alpha=peak))
        assert found is not None
        assert found.side == side
    assert POLICY.flat == 0.25
