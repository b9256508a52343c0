"""How many documents an interval needs: what is predicted from a few is the width that many have."""

from __future__ import annotations

import numpy as np
import pytest

from attnaudit.report.card import Card
from attnaudit.report.sections.power import WIDTHS, documents_needed, power_section
from attnaudit.results.card import card_row
from attnaudit.stats.bootstrap import bootstrap_clusters


def test_the_number_predicted_from_few_clusters_gives_the_width_asked_for() -> None:
    rng = np.random.default_rng(0)

    def half(documents: int) -> float:
        of = np.repeat(np.arange(documents), 3)
        values = rng.random(documents)[of] + rng.random(len(of))
        low, high = bootstrap_clusters(values[:, None], of, seed=0)
        return float(high[0] - low[0]) / 2

    (needed,) = documents_needed(200, half(200), (0.02,))
    assert half(needed) == pytest.approx(0.02, rel=0.12)


def test_half_the_width_needs_four_times_as_many() -> None:
    assert documents_needed(100, 0.04, (0.04, 0.02, 0.08)) == [100, 400, 25]


def test_a_measure_without_an_interval_is_not_in_the_table() -> None:
    known, unknown = ({"value": 0.5, "low": 0.4, "high": 0.6}, {"value": 0.5})
    section = power_section(Card("", "", (card_row("Is it?", "share", known, "–", ""), card_row("?", "m", unknown, "–", ""))), 50)
    assert section is not None
    (row,) = section.content["rows"]
    assert (row.question, row.measure, row.half, row.drawn, row.needed) == ("Is it?", "share", "± 0.100", "50", ("200", "1250", "5000"))
    assert len(WIDTHS) == len(row.needed)
    narrow = power_section(Card("", "", (card_row("Is it?", "share", known | {"low": 0.49, "high": 0.51}, "–", ""),)), 50)
    assert narrow is not None
    assert narrow.content["rows"][0].needed == ("< 30", "< 30", "50")  # widths shrink otherwise there
    assert power_section(Card("", "", (card_row("?", "m", unknown, "–", ""),)), 50) is None
