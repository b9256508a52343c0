"""Random draws whose distribution is known exactly: resamples of two rows or seeds, orders of three tokens, streams of gold tokens."""

from collections import Counter

import numpy as np
import pytest
from scipy.stats import chisquare

from attnaudit.experiments.rows import row_streams
from attnaudit.stats.bootstrap import means_over_seeds, resampled
from attnaudit.stats.classification import classification_scores, scores_over_seeds
from tests.traces import trace_of

RESAMPLES = 4000
LIKELY = 1e-4  # the p-value below which frequencies do not follow their distribution


def assert_as_often(values, expected):
    """The values are those expected, as often as expected."""
    found = Counter(np.round(values, 9).tolist())
    assert set(found) == set(expected)
    counts, shares = [found[value] for value in expected], np.array(list(expected.values()))
    assert chisquare(counts, shares * len(values)).pvalue > LIKELY


def test_the_mean_of_two_rows_is_each_of_them_in_a_quarter_of_the_resamples():
    rows = np.array([0.0, 1.0])
    means = resampled(lambda weights: weights @ rows / 2, 2, seed=3, resamples=RESAMPLES)
    assert_as_often(means, {0.0: 0.25, 0.5: 0.5, 1.0: 0.25})


@pytest.mark.parametrize(
    "values", [[[[0.0], [1.0]]], [[[0.0, 1.0]]]], ids=["two seeds", "two rows"]
)
def test_a_resample_over_seeds_draws_seeds_and_rows_with_replacement(values):
    means = means_over_seeds(np.array(values), seed=1, resamples=RESAMPLES)[:, 0]
    assert_as_often(means, {0.0: 0.25, 0.5: 0.5, 1.0: 0.25})


def test_what_is_undefined_counts_in_no_mean():
    """One seed; of three rows one has no value, and what is left are the means of the other two."""
    means = means_over_seeds(np.array([[[1.0, np.nan, 3.0]]]), seed=1, resamples=400)[:, 0]
    assert np.isnan(means).any()
    assert {1.0, 2.0, 3.0} <= set(means[~np.isnan(means)].tolist())
    assert ((means >= 1.0) & (means <= 3.0) | np.isnan(means)).all()


@pytest.mark.parametrize("classes", [2, 3])
def test_scores_of_several_models_and_seeds_are_those_of_each(classes):
    rng = np.random.default_rng(classes)
    label, predicted = rng.integers(0, classes, 50), rng.integers(0, classes, (3, 2, 50))
    score = rng.dirichlet(np.ones(classes), (3, 2, 50))
    values, _ = scores_over_seeds(label, predicted, score, seed=0, resamples=2)
    for model, seed in np.ndindex(3, 2):
        one = classification_scores(label, predicted[model, seed], score[model, seed])
        np.testing.assert_allclose(values[model, seed], one)


def test_scores_over_seeds_draw_seeds_with_replacement():
    """One seed is always right and one always wrong, so that only the draw of seeds moves the mean."""
    label = np.array([0, 1] * 10)
    predicted = np.stack([label, 1 - label])[None]
    values, drawn = scores_over_seeds(
        label, predicted, predicted[..., None].astype(float), seed=2, resamples=RESAMPLES
    )
    np.testing.assert_array_equal(values[0, :, 0], [1.0, 0.0])
    assert_as_often(drawn[:, 0, 0], {0.0: 0.25, 0.5: 0.5, 1.0: 0.25})


def test_rows_of_one_instance_have_streams_of_their_own():
    """Heads, layers and gold tokens of one text are shuffled apart from each other."""
    places = np.indices((2, 3, 2), np.int32).reshape(3, -1)
    columns = dict(zip(("layer", "head", "query"), places, strict=True))
    trace = trace_of([[0.5, 0.5]] * 12, np.zeros(24), instance=np.zeros(12, np.int64), **columns)
    assert len(set(row_streams(trace, 0, "permutation").tolist())) == 12
