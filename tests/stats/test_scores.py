"""Classification scores and the false discovery rate against scikit-learn and loops."""

import numpy as np
import pytest
from scipy.stats import false_discovery_control
from sklearn.metrics import f1_score, roc_auc_score

from attnaudit.core import InputError
from attnaudit.core.ragged import Ragged
from attnaudit.stats.agreement import rationale_agreement
from attnaudit.stats.classification import classification_scores, scores_over_seeds
from attnaudit.stats.inference import benjamini_hochberg, wilson_interval
from tests.stats.means import score_intervals


def classifier(classes, n=300):
    """Labels, predictions and scores with many ties."""
    rng = np.random.default_rng(classes)
    label = rng.integers(0, classes, n)
    score = rng.random((n, classes)).round(1) + 0.1 + 0.3 * (np.arange(classes) == label[:, None])
    score /= score.sum(axis=1, keepdims=True)
    return label, score.argmax(axis=1), score


@pytest.mark.parametrize("classes", [2, 3, 6])
def test_scores_are_those_of_sklearn_which_averages_over_more_than_two_classes(classes):
    label, predicted, score = classifier(classes)
    found = classification_scores(label, predicted, score)
    average, chosen = ("binary", score[:, 1]) if classes == 2 else ("macro", score)
    f1 = f1_score(label, predicted, average=average)
    roc_auc = roc_auc_score(label, chosen, multi_class="ovr")
    macro = f1_score(label, predicted, average="macro")
    assert found == pytest.approx(((label == predicted).mean(), f1, roc_auc, macro), abs=1e-12)
    ends = score_intervals(label, predicted, score)
    assert ends.value == found
    assert (np.array(ends.low) < found).all()
    assert (np.array(ends.high) > found).all()
    if classes == 2:
        assert score_intervals(label, predicted, score[:, 1:]) == ends


def test_the_interval_is_that_of_resampled_rows():
    label, predicted, score = classifier(2)
    found = score_intervals(label, predicted, score, resamples=4000)
    rng = np.random.default_rng(0)
    draws = rng.integers(0, len(label), (500, len(label)))
    auc = [roc_auc_score(label[d], score[d, 1]) for d in draws]
    ends = np.percentile(auc, [2.5, 97.5])
    np.testing.assert_allclose([found.low.roc_auc, found.high.roc_auc], ends, atol=0.01)


def test_a_class_that_a_resample_lacks_stays_in_the_mean():
    """A model that never predicts the third of three classes has a mean F1 of 2/3 at most, in every resample and as each reads it."""
    label = np.repeat([0, 1, 2], [1000, 1000, 2])
    predicted = np.where((label == 2) | (np.arange(2002) % 50 == 0), 0, label)
    score = np.where(np.arange(3) == predicted[:, None], 0.9, 0.05)
    whole = score_intervals(label, predicted, score)
    expected = f1_score(label, predicted, average="macro")
    assert whole.value.f1 == pytest.approx(expected, abs=1e-12)
    draws = np.random.default_rng(0).integers(0, len(label), (300, len(label)))
    macro = {"average": "macro", "labels": [0, 1, 2], "zero_division": 0}
    f1 = [f1_score(label[d], predicted[d], **macro) for d in draws]
    ends = np.percentile(f1, [2.5, 97.5])
    np.testing.assert_allclose([whole.low.f1, whole.high.f1], ends, atol=0.002)
    resampled = scores_over_seeds(label, predicted[None, None], score[None, None], 0)[1]
    assert resampled[..., 1].max() <= 2 / 3
    assert not np.isnan(resampled).any()


def test_the_lower_ends_of_perfect_scores():
    """F1 has a lower end of its class's rows alone; a mean over classes lies between the worst class and all; a cluster counts once."""
    label = np.repeat([0, 1], [1000, 6])
    score = np.where(label == 1, 0.9, 0.1)[:, None]
    found = score_intervals(label, label, score)
    share = wilson_interval(6, 6)[0]
    assert found.low.f1 == pytest.approx(2 * share / (1 + share))
    assert 0.5 < found.low.roc_auc < 1.0
    assert found.high == (1.0, 1.0, 1.0, 1.0)
    pairs = score_intervals(label, label, score, text=np.arange(1006) // 2)
    assert pairs.low.f1 < found.low.f1
    assert pairs.low.roc_auc < found.low.roc_auc
    one_text = score_intervals(label, label, score, text=np.zeros(1006, int))
    assert one_text.low[1:] == (0.0, 0.0, 0.0)
    several = np.repeat([0, 1, 2], [50, 50, 4])
    mean = score_intervals(several, several, np.eye(3)[several]).low.f1
    assert wilson_interval(4, 4)[0] < mean < wilson_interval(104, 104)[0]


def test_one_class_alone_has_no_auc():
    found = score_intervals(np.ones(5, int), np.ones(5, int), np.linspace(0.5, 0.9, 5)[:, None])
    assert np.isnan([found.value.roc_auc, found.low.roc_auc, found.high.roc_auc]).all()
    assert found.value.f1 == found.value.accuracy == 1.0


def test_no_row_has_no_scores():
    found = score_intervals(np.zeros(0, int), np.zeros(0, int), np.zeros((0, 3)))
    assert np.isnan([*found.value, *found.low, *found.high]).all()


@pytest.mark.parametrize("score", [np.nan, np.inf])
def test_a_score_that_is_not_finite_is_refused(score):
    label, scores = np.array([0, 1, 0, 1]), np.array([[0.1], [0.9], [0.2], [score]])
    with pytest.raises(InputError, match="1 of 4 rows: scores that are not finite"):
        classification_scores(label, label, scores)


def test_a_position_without_a_score_is_ranked_last():
    score = Ragged.from_rows([[0.5, np.nan, 0.1], [0.5, np.nan, 0.1]])
    marks = Ragged.from_rows([[True, False, False], [False, True, False]], bool)
    found = rationale_agreement(score, marks)
    np.testing.assert_allclose(found.precision, [1.0, 0.0])
    np.testing.assert_allclose(found.average_precision, [1.0, 1 / 3])


@pytest.mark.parametrize("level", [0.001, 0.05, 0.5])
def test_benjamini_hochberg_is_that_of_scipy_and_leaves_undefined_tests_out(level):
    p = np.random.default_rng(0).random(400) ** 4
    adjusted = false_discovery_control(p, method="bh")
    with_unknown = np.insert(p, [3, 90, 400], np.nan)
    np.testing.assert_array_equal(p <= benjamini_hochberg(with_unknown, level), adjusted <= level)
    assert benjamini_hochberg(np.array([np.nan]), level) < 0
