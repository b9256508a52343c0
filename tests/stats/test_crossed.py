"""Means over seeds and texts, equivalence, F1 as terms, slopes and mediation."""

import numpy as np
import polars as pl
import pytest
from scipy import stats

from attnaudit.stats.classification import classification_scores
from attnaudit.stats.crossed import crossed_mean, equivalence_p, f1_terms, mediation, slope_terms
from attnaudit.studies.study import Hypothesis
from tests.oracles.crossed import crossed_variance

RNG = np.random.default_rng(0)


def test_the_variance_is_that_of_two_crossed_samples():
    for seeds, texts in ((2, 3), (5, 40), (10, 7)):
        shapes = ((seeds, 1), (1, texts), (seeds, texts))
        terms = np.asarray(sum(RNG.normal(size=shape) for shape in shapes))
        mean = crossed_mean(terms)
        assert mean.error**2 == pytest.approx(crossed_variance(terms), rel=1e-9)
        assert mean.value == pytest.approx(terms.mean())


def test_one_column_and_one_row_have_the_t_interval():
    values = RNG.normal(size=8)
    low, high = stats.t.interval(0.95, 7, values.mean(), values.std(ddof=1) / 8**0.5)
    for terms in (values[:, None], values[None]):
        assert crossed_mean(terms)[1:3] == pytest.approx((low, high))


def test_the_order_of_seeds_and_texts_is_nothing_and_copies_of_a_text_are_more_texts():
    terms = RNG.normal(size=(5, 30))
    mean = crossed_mean(terms)
    assert crossed_mean(terms[::-1, ::-1]) == pytest.approx(mean)
    assert crossed_mean(np.tile(terms, 4)).error < mean.error


def test_undefined_terms_are_left_out_and_a_seed_without_any_has_no_mean():
    terms = RNG.normal(size=(5, 30))
    gone = np.concatenate([terms, np.full((5, 9), np.nan)], axis=1)
    assert crossed_mean(gone) == pytest.approx(crossed_mean(terms))
    terms[2] = np.nan
    assert np.isnan(crossed_mean(terms)).all()
    assert np.isnan(equivalence_p(terms, 0.1))


def test_alike_terms_leave_room_for_texts_that_the_sample_lacks():
    alike = np.zeros((5, 300))
    mean = crossed_mean(alike, most=1.0)
    assert mean.low == -mean.high
    assert 0.005 < mean.high < 0.03
    assert equivalence_p(alike, 0.03) == pytest.approx(0.97**300)
    assert equivalence_p(alike[:, :20], 0.03) > 0.05
    assert equivalence_p(alike + 0.05, 0.03) == 1.0


def test_equivalence_is_the_larger_of_two_one_sided_tests():
    values = 0.01 + 0.01 * RNG.normal(size=(8, 1))
    tests = [
        stats.ttest_1samp(values[:, 0], end, alternative=side)
        for end, side in ((-0.03, "greater"), (0.03, "less"))
    ]
    assert equivalence_p(values, 0.03) == pytest.approx(np.array(tests)[:, 1].max())


@pytest.mark.parametrize("classes", [2, 4])
def test_terms_of_f1_average_to_macro_f1_and_have_its_spread(classes):
    label = RNG.integers(0, classes, 400)
    predicted = np.where(RNG.random((6, 400)) < 0.3, RNG.integers(0, classes, (6, 400)), label)
    f1 = [classification_scores(label, one, np.eye(classes)[one]).f1_macro for one in predicted]
    terms = f1_terms(label, predicted)
    assert terms.mean(axis=1) == pytest.approx(f1)
    drawn = RNG.integers(0, 400, (2000, 400))
    resampled = [f1_terms(label[rows], predicted[0, rows]).mean() for rows in drawn]
    assert terms[0].std() / 20 == pytest.approx(np.std(resampled), rel=0.1)


def test_f1_of_a_class_that_nobody_has_or_predicts_is_no_part():
    assert f1_terms(np.array([0, 0, 2]), np.array([0, 0, 2])) == pytest.approx(1.0)
    assert f1_terms(np.array([0, 0, 1]), np.array([[0, 0, 0]])).mean() == pytest.approx(0.4)


def test_slopes_and_effects_are_those_of_least_squares():
    x, y = np.array([1.0, 2.0, 4.0, 8.0]), RNG.normal(size=(4, 3, 5))
    assert slope_terms(x, y)[1, 2] == pytest.approx(np.polyfit(x, y[:, 1, 2], 1)[0])
    m, block = RNG.normal(size=(3, 4)), y[:, :, 0].T
    found = mediation(np.tile(x, (3, 1)), m, block)
    assert found.indirect + found.direct == pytest.approx(found.total)
    assert found.total[0] == pytest.approx(np.polyfit(x, block[0], 1)[0])
    assert np.isnan(mediation(x[None], 2 * x[None], block[:1])).all()


def test_a_mediator_that_carries_all_leaves_no_direct_effect():
    x = np.tile(np.arange(5.0), (4, 1))
    m = -x + RNG.normal(size=x.shape)
    found = mediation(x, m, 3.0 * m)
    assert found.direct == pytest.approx(0.0, abs=1e-9)
    assert found.indirect == pytest.approx(found.total)


@pytest.mark.parametrize(("spread", "texts"), [(0.0, 0.0), (0.1, 0.3), (1.0, 0.0), (0.0, 1.0)])
def test_five_seeds_hold_the_truth_as_often_as_said(spread, texts):
    held, rng = 0, np.random.default_rng(0)  # its own, so that the order of tests does not matter
    for _ in range(600):
        parts = rng.normal(0, spread, (5, 1)), rng.normal(0, texts, 300), rng.normal(size=(5, 300))
        mean = crossed_mean(parts[0] + parts[1] + parts[2])
        held += mean.low <= 0.0 <= mean.high
    assert 0.92 <= held / 600 <= 0.985


ABOVE = Hypothesis("It is above 0.", "loss", low=0.0)
SAME = Hypothesis("It is 0.", "loss", -0.03, 0.03, test="p")


@pytest.mark.parametrize(
    ("hypothesis", "low", "high", "p", "outcome"),
    [
        (ABOVE, 0.1, 0.2, 1.0, "supported"),
        (ABOVE, -0.2, -0.1, 1.0, "contradicted"),
        (ABOVE, -0.1, 0.2, 1.0, "open"),
        (ABOVE, None, None, 1.0, "open"),
        (SAME, -0.01, 0.04, 0.04, "supported"),
        (SAME, -0.01, 0.01, 1.0, "open"),
        (SAME, -0.01, 0.01, np.nan, "open"),
        (SAME, 0.04, 0.09, 1.0, "contradicted"),
        (Hypothesis("It is there.", "absent"), 0.0, 1.0, 1.0, "open"),
    ],
)
def test_a_hypothesis_is_open_unless_the_interval_or_the_test_decides(
    hypothesis, low, high, p, outcome
):
    rows = {"measure": ["loss", "p"], "group": "all", "value": [0.0, p]}
    ends = {"low": [low, None], "high": [high, None]}
    assert hypothesis.outcome(pl.DataFrame(rows | ends)) == outcome
