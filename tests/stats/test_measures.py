import jaxtyping
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import jensenshannon

from attnaudit.calibration import score
from attnaudit.stats.measures import LN2, activate, jsd, predicted_class, tvd
from tests.oracles.readout import naive_jsd, naive_tvd


@st.composite
def two_distributions(draw):
    """Any two of the same length, exact zeros among their entries."""
    length = draw(st.integers(1, 12))
    weights = st.lists(
        st.one_of(st.just(0.0), st.floats(1e-12, 1.0)), min_size=length, max_size=length
    ).filter(lambda w: sum(w) > 1e-6)
    p, q = np.array(draw(weights)), np.array(draw(weights))
    return p / p.sum(), q / q.sum()


def one(measure, p, q):
    return float(measure(p[None], q[None])[0])


@given(two_distributions())
def test_jsd_is_a_bounded_symmetric_distance(pair):
    p, q = pair
    value = one(jsd, p, q)
    assert -1e-15 <= value <= LN2 + 1e-12
    assert value == pytest.approx(one(jsd, q, p), abs=1e-15)
    assert one(jsd, p, p) == 0
    if np.abs(p - q).max() > 1e-3:
        assert value > 1e-8
    assert value == pytest.approx(naive_jsd(p, q), abs=1e-12)
    assert value == pytest.approx(float(jensenshannon(p, q)) ** 2, abs=1e-7)


def test_measures_are_of_the_last_axis():
    p, q = np.random.default_rng(0).dirichlet(np.ones(4), (2, 3, 1))
    for measure, naive in ((jsd, naive_jsd), (tvd, naive_tvd)):
        expected = [
            [naive(a, b) for a, b in zip(*rows, strict=True)] for rows in zip(p, q, strict=True)
        ]
        np.testing.assert_allclose(measure(p, q), expected, atol=1e-12)


@given(two_distributions())
def test_tvd_is_a_bounded_symmetric_distance(pair):
    p, q = pair
    value = one(tvd, p, q)
    assert 0 <= value <= 1 + 1e-12
    assert value == one(tvd, q, p)
    assert (value == 0) == bool((p == q).all())
    assert value == pytest.approx(naive_tvd(p.tolist(), q.tolist()))


def test_one_sigmoid_output_counts_both_classes():
    assert one(tvd, np.array([0.3]), np.array([0.8])) == pytest.approx(0.5)
    assert one(tvd, np.array([0.7, 0.3]), np.array([0.2, 0.8])) == pytest.approx(0.5)


def test_answers_that_are_no_candidates_get_exactly_nothing():
    prediction = activate(np.array([[9.0, 1.0, 1.0]]), "softmax", np.array([[False, True, True]]))
    assert prediction.tolist() == [[0.0, 0.5, 0.5]]


def test_large_logits_stay_finite():
    assert activate(np.array([[800.0], [-800.0]]), "sigmoid").tolist() == [[1.0], [0.0]]
    assert activate(np.array([[800.0, -800.0]]), "softmax").tolist() == [[1.0, 0.0]]


def test_one_half_predicts_class_1():
    assert predicted_class(np.array([[0.5], [0.49]])).tolist() == [1, 0]
    assert predicted_class(np.array([[0.2, 0.5, 0.3]])).tolist() == [1]


def test_shapes_are_checked_while_testing_by_a_name_for_them_too():
    with pytest.raises(jaxtyping.TypeCheckError):
        tvd(np.zeros((2, 3)), np.zeros((2, 4)))
    with pytest.raises(jaxtyping.TypeCheckError):
        score.auc_interval(np.zeros(3))
    assert not hasattr(score.scores, "__wrapped__"), "no shape is stated"
