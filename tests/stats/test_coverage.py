"""95 % intervals hold the truth in 93 to 97 % of 1,000 simulated samples, those of means in 93 to 99 %; each column is a sample."""

import numpy as np
import polars as pl
import pytest
from scipy.stats import norm

from attnaudit.results import Group, Measure, summarise_means
from attnaudit.stats.bootstrap import means_over_seeds, percentile_interval, ratio_intervals
from attnaudit.stats.inference import median_interval
from attnaudit.stats.paired import paired_means
from tests.stats.means import score_intervals

SAMPLES = 1000
WITHIN = (0.93, 0.97)
MEANS = (0.93, 0.99)


def coverage(low, high, truth):
    """Share of the samples whose interval holds the truth, or that have none."""
    return float(((low <= truth) & (truth <= high) | np.isnan(low)).mean())


def ends_of(values, cluster=None, ranges=None):
    """Intervals of a summary over samples ``(n, SAMPLES)``."""
    frame = pl.DataFrame({f"{k}": column for k, column in enumerate(values.T)})
    text = None if cluster is None else pl.LazyFrame({"text": cluster})
    rows = Group("all", frame.lazy(), text, several=text is not None)
    measures = (Measure("{score}", "", range=ranges),)
    summary = summarise_means("simulated", [rows], 0, measures)
    low, high = summary.select(pl.col("low", "high").fill_null(float("nan"))).to_numpy().T
    return low, high


def covered(values, truth, cluster=None, ranges=None):
    return coverage(*ends_of(values, cluster, ranges), truth)


def clustered(rng, clusters=40):
    """Rows whose clusters share half of their variance, and whose each is; the clusters differ in size."""
    of = np.repeat(np.arange(clusters), rng.integers(1, 8, clusters))
    return rng.normal(size=(clusters, SAMPLES))[of] + rng.normal(size=(len(of), SAMPLES)), of


def nonzero(share):
    """Draw rows that are uniform, or in all others 0."""
    return lambda rng, shape: np.where(rng.random(shape) < share, rng.random(shape), 0.0)


UNBOUNDED = ("normal", "exponential")
DRAWS = {
    "normal": (lambda rng, shape: rng.normal(size=shape), 0.0),
    "exponential": (lambda rng, shape: rng.exponential(size=shape), 1.0),
    "beta(2, 5)": (lambda rng, shape: rng.beta(2, 5, size=shape), 2 / 7),
    "half": (nonzero(0.5), 0.25),
    "tenth": (nonzero(0.1), 0.05),
    "twentieth": (nonzero(0.05), 0.025),
    "beta(.1, 3)": (lambda rng, shape: rng.beta(0.1, 3, size=shape), 0.1 / 3.1),
    "ones": (lambda rng, shape: (rng.random(shape) < 0.02).astype(float), 0.02),
}


@pytest.mark.parametrize("name", DRAWS)
@pytest.mark.parametrize(
    "n", [20, *(pytest.param(n, marks=pytest.mark.slow) for n in (50, 100, 200))]
)
def test_means_of_independent_rows(n, name):
    """All have an interval if their range is known; else no more than 7 % have one that misses."""
    draw, truth = DRAWS[name]
    values = draw(np.random.default_rng(n), (n, SAMPLES))
    if name not in UNBOUNDED:
        assert covered(values, truth, ranges=(0.0, 1.0)) >= WITHIN[0]
    assert covered(values, truth) >= WITHIN[0]


def test_the_range_of_a_measure_costs_little_width():
    values = np.random.default_rng(0).beta(2, 2, size=(100, SAMPLES))
    low, high = ends_of(values, ranges=(0.0, 1.0))
    assert coverage(low, high, 0.5) <= MEANS[1]
    assert (high - low).mean() < 1.5 * 3.92 * values.std(axis=0).mean() / 10


def test_a_planted_bug_is_found():
    """Rows of clusters taken for independent ones, as means and as shares."""
    values, of = clustered(np.random.default_rng(1))
    assert covered(values, 0.0) < 0.85 < MEANS[0] <= covered(values, 0.0, of) <= MEANS[1]
    assert covered(values > 0, 0.5) < 0.9 < covered(values > 0, 0.5, of)


@pytest.mark.parametrize(("n", "share"), [(20, 0.3), (50, 0.05), (200, 0.02), (1000, 0.99)])
def test_shares_of_independent_rows(n, share):
    drawn = np.random.default_rng(n).random((n, SAMPLES)) < share
    assert (
        WITHIN[0] - 0.005 <= covered(drawn, share) <= 0.98
    )  # counts are whole: no interval is exact


@pytest.mark.parametrize(("clusters", "share"), [(30, 0.3), (60, 0.1), (200, 0.03)])
def test_shares_of_clustered_rows(clusters, share):
    values, of = clustered(np.random.default_rng(clusters), clusters)
    assert WITHIN[0] <= covered(values < np.sqrt(2) * norm.ppf(share), share, of) <= 0.98


def test_paired_differences():
    rng = np.random.default_rng(3)
    common, of = clustered(rng, 30)
    first = common + rng.normal(size=common.shape)
    second = common + rng.normal(0.2, 1.0, size=common.shape)
    found = paired_means(first, second, of)
    assert MEANS[0] <= coverage(found.low, found.high, 0.2) <= MEANS[1]
    # Narrower than of two samples apart.
    apart = np.hypot(first.std(ddof=1, axis=0), second.std(ddof=1, axis=0)) / np.sqrt(len(of))
    assert (found.high - found.low).mean() < 0.9 * 3.92 * apart.mean()


def test_shares_of_what_is_possible():
    """A ratio of differences, as the area of attention between those of a random order and of the smallest set."""
    rng, shape = np.random.default_rng(4), (80, SAMPLES)
    chance, least = rng.beta(1, 8, size=shape), rng.beta(3, 4, size=shape)
    ours = chance + 0.4 * (least - chance) + rng.normal(0, 0.2, size=shape)
    ends = ratio_intervals((ours - chance).T, (least - chance).T, seed=0)
    assert MEANS[0] <= coverage(*ends, 0.4) <= MEANS[1]


@pytest.mark.parametrize("n", [15, 60, 201])
def test_medians(n):
    samples = np.random.default_rng(n).exponential(size=(SAMPLES, n))
    low, high = np.array([median_interval(sample) for sample in samples], float).T
    # Between whole ranks: at least 95 %.
    assert WITHIN[0] <= coverage(low, high, np.log(2)) <= 0.985


def test_ten_seeds_of_the_same_instances():
    """Instances, seeds and both together vary; of few seeds that differ much the interval is too narrow (docs/statistics.md)."""
    rng = np.random.default_rng(7)
    parts = ((1.0, 1, 40), (0.3, 10, 1), (1.0, 10, 40))
    values = np.asarray(sum(rng.normal(0, spread, (SAMPLES, *shape)) for spread, *shape in parts))
    low, high = percentile_interval(means_over_seeds(values, seed=0))
    assert WITHIN[0] <= coverage(low, high, 0.0) <= WITHIN[1]


@pytest.mark.parametrize(("classes", "n", "error"), [(2, 50, 0.03), (6, 60, 0.03)])
def test_scores_of_a_model_that_is_rarely_wrong(classes, n, error):
    """In one sample of four or six no row is wrong, and every resample has an F1 and a ROC-AUC of 1."""
    rng, ends = np.random.default_rng(9), []
    for seed in range(500):
        label = rng.integers(0, classes, n)
        other = (label + rng.integers(1, classes, n)) % classes
        predicted = np.where(rng.random(n) < error, other, label)
        scores = score_intervals(label, predicted, np.eye(classes)[predicted], seed, resamples=200)
        ends.append((scores.low[1:], scores.high[1:]))
    low, high = np.moveaxis(np.array(ends), 0, -1)
    # Of scores 0 and 1 the area is the mean of sensitivity and specificity.
    auc = 1.0 - error * (1.0 + 1.0 / (classes - 1.0)) / 2.0
    for k, truth in enumerate((1.0 - error, auc)):
        assert coverage(low[k], high[k], truth) >= 0.93


@pytest.mark.slow
def test_the_area_under_the_roc_curve():
    """Of scores one standard deviation apart; 300 samples of 80 rows, each resampled by itself."""
    rng, ends = np.random.default_rng(8), []
    for seed in range(300):
        label = (np.arange(80) % 3 == 0).astype(np.int64)
        score = norm.cdf(rng.normal(size=80) + label)[:, None]
        scores = score_intervals(label, (score[:, 0] > 0.5).astype(np.int64), score, seed)
        ends.append((scores.low.roc_auc, scores.high.roc_auc))
    low, high = np.array(ends).T
    assert 0.92 <= coverage(low, high, float(norm.cdf(np.sqrt(0.5)))) <= 0.975
