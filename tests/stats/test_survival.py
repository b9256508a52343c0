"""Curves of events that some rows never reach, against scipy's Kaplan–Meier and against weights changed one at a time."""

import numpy as np
import pytest
from scipy.stats import CensoredData, ecdf

from attnaudit.stats.inference import wilson_interval
from attnaudit.stats.survival import EventSteps, event_curve


def some(n: int, seed: int = 0, early: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """Flips and losses at whole tenths, so that there are ties; without ``early`` losses rows are lost at 1 alone."""
    rng = np.random.default_rng(seed)
    flip, lost = rng.integers(1, 15, n) / 10, rng.integers(1, 12, n) / 10 if early else np.ones(n)
    lost = np.minimum(lost, 1.0)
    return np.minimum(flip, lost), flip < lost


def event_area(time: np.ndarray, event: np.ndarray) -> float:
    return EventSteps.of_rows(time, event).area()


def area_contributions(time: np.ndarray, event: np.ndarray) -> np.ndarray:
    return EventSteps.of_rows(time, event).area_contributions(time, event)


def left_after(time: np.ndarray, event: np.ndarray, until: float) -> float:
    return float(ecdf(CensoredData(uncensored=time[event], right=time[~event])).sf.evaluate(until))


@pytest.mark.parametrize("seed", range(4))
def test_where_rows_are_lost_at_1_alone_the_curve_is_the_plain_share(seed: int):
    time, event = some(60, seed, early=False)
    assert event_area(time, event) == pytest.approx((1 - time).mean(), abs=1e-14)
    np.testing.assert_array_equal(area_contributions(time, event), 1 - time)
    general = EventSteps.of_rows(time, event)._replace(lost=True)  # the way of rows lost early
    np.testing.assert_allclose(general.area_contributions(time, event), 1 - time, atol=1e-12)
    curve = event_curve(time, event, np.arange(60), np.array([0.05, 0.5, 1.0]))
    flipped = [int((event & (time <= until)).sum()) for until in (0.05, 0.5, 1.0)]
    np.testing.assert_allclose(curve.share, np.array(flipped) / 60)
    np.testing.assert_allclose(
        np.stack([curve.low, curve.high], 1), [wilson_interval(count, 60) for count in flipped]
    )


@pytest.mark.parametrize("seed", range(4))
def test_contributions_average_to_the_estimate_of_kaplan_and_meier(seed: int):
    time, event = some(50, seed)
    # Constant within every tenth.
    area = np.mean([1.0 - left_after(time, event, until) for until in np.arange(0.05, 1.0, 0.1)])
    assert event_area(time, event) == pytest.approx(area, abs=1e-12)
    assert area_contributions(time, event).mean() == pytest.approx(area, abs=1e-12)
    steps = EventSteps.of_rows(time, event)
    for until in (0.0, 0.1, 0.45, 0.65, 1.0):
        share = steps.share_contributions(time, event, until).mean()
        assert share == pytest.approx(1.0 - left_after(time, event, until), abs=1e-12)


def test_a_contribution_says_what_a_little_more_weight_of_its_row_changes():
    time, event = some(25, 5)
    many = 400
    whole = event_area(np.repeat(time, many), np.repeat(event, many))
    for row in range(len(time)):
        more = event_area(
            np.append(np.repeat(time, many), time[row]),
            np.append(np.repeat(event, many), event[row]),
        )
        assert area_contributions(time, event)[row] == pytest.approx(
            whole + (more - whole) * many * len(time), abs=0.01
        )


@pytest.mark.parametrize(("event", "area"), [([False, False], 0.0), ([True, True], 0.7)])
def test_none_and_all(event: list[bool], area: float):
    assert event_area(np.array([0.3, 0.3]), np.array(event)) == pytest.approx(area)
    assert area_contributions(np.array([0.3, 0.3]), np.array(event)).mean() == pytest.approx(area)


def test_no_rows_have_no_area():
    assert np.isnan(event_area(np.zeros(0), np.zeros(0, bool)))


def test_rows_that_occur_several_times_count_as_often():
    random = np.random.default_rng(3)
    time, event = random.random(50) ** 3, random.random(50) < 0.7
    count = random.integers(1, 9, 50)
    found = EventSteps.of_rows(time, event, count.astype(float)).area_contributions(time, event)
    expected = area_contributions(np.repeat(time, count), np.repeat(event, count))
    np.testing.assert_allclose(np.repeat(found, count), expected, atol=1e-12)
