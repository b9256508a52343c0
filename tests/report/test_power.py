"""How many documents an interval needs: what is predicted from a few is the width that many have."""

from __future__ import annotations

import numpy as np
import pytest

from attnaudit.report.card import VerdictCard
from attnaudit.report.cards.card import card_row
from attnaudit.report.sections.power import WIDTHS, documents_needed, power_section
from attnaudit.results.summary import SummaryRows
from tests.report.runs import summary_of
from tests.stats.means import mean_intervals

NONE = SummaryRows({})


def test_the_number_predicted_from_few_clusters_gives_the_width_asked_for() -> None:
    rng = np.random.default_rng(0)

    def half(documents: int) -> float:
        of = np.repeat(np.arange(documents), 3)
        values = rng.random(documents)[of] + rng.random(len(of))
        low, high = mean_intervals(values[:, None], seed=0, texts=of)
        return float(high[0] - low[0]) / 2

    (needed,) = documents_needed(200, half(200), (0.02,))
    assert half(needed) == pytest.approx(0.02, rel=0.12)


def test_half_the_width_needs_four_times_as_many() -> None:
    assert documents_needed(100, 0.04, (0.04, 0.02, 0.08)) == [100, 400, 25]


def test_a_measure_without_an_interval_is_not_in_the_table() -> None:
    known, unknown = ({"value": 0.5, "low": 0.4, "high": 0.6}, {"value": 0.5})
    section = power_section(
        VerdictCard(
            "",
            "",
            (card_row("Is it?", "share", known, "–", ""), card_row("?", "m", unknown, "–", "")),
        ),
        50,
        NONE,
    )
    assert section is not None
    (row,) = section.content["rows"]
    assert (row.question, row.measure, row.half, row.drawn, row.needed) == (
        "Is it?",
        "share",
        "± 0.100",
        "50",
        ("200", "1250", "5000"),
    )
    assert len(WIDTHS) == len(row.needed)
    narrow = power_section(
        VerdictCard(
            "", "", (card_row("Is it?", "share", known | {"low": 0.49, "high": 0.51}, "–", ""),)
        ),
        50,
        NONE,
    )
    assert narrow is not None
    assert narrow.content["rows"][0].needed == (
        "< 30",
        "< 30",
        "50",
    )  # widths shrink otherwise there
    assert (
        power_section(VerdictCard("", "", (card_row("?", "m", unknown, "–", ""),)), 50, NONE)
        is None
    )


def test_a_measure_of_some_instances_counts_these() -> None:
    """As ranges of weights, which take long, and are computed of a part of the instances."""
    summary = summary_of(
        weight_ranges__mean_possible={"value": 0.5, "low": 0.4, "high": 0.6, "n": 45}
    )
    found = SummaryRows.of(summary)
    row = card_row(
        "Could it?", "possible weight", found.rows["weight_ranges", "mean_possible"], "–", ""
    )
    section = power_section(VerdictCard("", "", (row,)), 500, found)
    assert section is not None
    assert (section.content["rows"][0].drawn, section.content["rows"][0].needed) == (
        "45",
        ("180", "1125", "4500"),
    )
