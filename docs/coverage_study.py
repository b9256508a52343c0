"""Print the tables of docs/research/coverage.md: how often 95 % intervals contain the truth.

It takes a minute. Each figure comes from `SAMPLES` simulated
samples, so its standard error is at most 0.5 %.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from attnaudit.stats.bootstrap import (
    Units,
    means_over_seeds,
    percentile_interval,
    ratio_intervals,
)
from attnaudit.stats.crossed import crossed_mean, equivalence_p, f1_terms, mediation
from attnaudit.stats.inference import share_interval
from attnaudit.stats.sums import UnitSums

SAMPLES = 2000
SIZES = (10, 20, 50, 100, 200)
SEEDS = (3, 5, 10, 20)
Draw = Callable[[np.random.Generator, tuple[int, int]], np.ndarray]
UNKNOWN, SHARE = (np.nan, np.nan), (0.0, 1.0)


def nonzero(share: float) -> Draw:
    """Return a draw of rows that are uniform with this probability, else 0."""
    return lambda rng, shape: np.where(rng.random(shape) < share, rng.random(shape), 0.0)


MEANS: dict[str, tuple[Draw, float, tuple[float, float]]] = {
    "beta(2, 5)": (lambda rng, shape: rng.beta(2, 5, size=shape), 2 / 7, SHARE),
    "beta(0.1, 3)": (lambda rng, shape: rng.beta(0.1, 3, size=shape), 0.1 / 3.1, SHARE),
    "half at 0, half uniform": (nonzero(0.5), 0.25, SHARE),
    "nine in ten at 0, the rest uniform": (nonzero(0.1), 0.05, SHARE),
    "19 in 20 at 0, the rest uniform": (nonzero(0.05), 0.025, SHARE),
    "2 % ones, the rest 0": (lambda rng, shape: 1.0 * (rng.random(shape) < 0.02), 0.02, SHARE),
    "normal": (lambda rng, shape: rng.normal(size=shape), 0.0, UNKNOWN),
    "exponential": (lambda rng, shape: rng.exponential(size=shape), 1.0, UNKNOWN),
}
for name in ("nine in ten at 0, the rest uniform", "2 % ones, the rest 0"):
    MEANS[f"{name}; range unknown"] = (*MEANS[name][:2], UNKNOWN)


def held(low: np.ndarray, high: np.ndarray, truth: float) -> str:
    """Return the % of samples without a wrong interval, and in brackets of those without any."""
    share, none = 100 * ((low <= truth) & (truth <= high)).mean(), 100 * np.isnan(low).mean()
    return f"{share:.1f}" if none == 0 else f"{share + none:.1f} ({none:.0f})"


def of_means(draw: Draw, truth: float, ranges: tuple[float, float], n: int, clustered: bool) -> str:
    rng, text = np.random.default_rng(n), np.arange(n)
    values = draw(rng, (n, SAMPLES))
    if clustered:
        text = np.repeat(text, 3)
        values = values[text] + rng.normal(size=(3 * n, SAMPLES))
    sums = UnitSums(Units.of_texts(text), SAMPLES)
    sums.add(values)
    return held(*ratio_intervals(sums.total, sums.count, 0, np.array([ranges])), truth)


def of_shares(share: float, n: int, clustered: bool) -> str:
    rng = np.random.default_rng(n)
    of = np.repeat(np.arange(n), 3 if clustered else 1)
    # Half of the rows of a cluster, on average, have the value of the cluster.
    same = rng.random((len(of), SAMPLES)) < 0.5
    drawn = np.where(
        same, (rng.random((n, SAMPLES)) < share)[of], rng.random((len(of), SAMPLES)) < share
    )
    ends = np.array([share_interval(column, of) for column in drawn.T.astype(float)])
    return held(ends[:, 0], ends[:, 1], share)


def of_seeds(spread: float, seeds: int, n: int = 50) -> str:
    rng, samples = np.random.default_rng(seeds), SAMPLES // 4
    values = (
        rng.normal(size=(samples, 1, n))
        + rng.normal(0, spread, size=(samples, seeds, 1))
        + rng.normal(size=(samples, seeds, n))
    )
    return held(*percentile_interval(means_over_seeds(values, 0)), 0.0)


def of_crossed(spread: float, texts: float, seeds: int, n: int = 500) -> str:
    rng = np.random.default_rng(seeds)
    found = [
        crossed_mean(
            rng.normal(0, spread, (seeds, 1))
            + rng.normal(0, texts, n)
            + rng.normal(size=(seeds, n))
        )
        for _ in range(SAMPLES)
    ]
    low, high = np.array([(one.low, one.high) for one in found]).T
    return held(low, high, 0.0)


def of_mediation(seeds: int, part: int, models: int = 8) -> str:
    rng, found = np.random.default_rng(seeds), []
    x = np.tile(np.linspace(0.0, 1.0, models), (seeds, 1))
    for _ in range(SAMPLES):
        a, b, direct = rng.normal([[[-0.8]], [[0.5]], [[-0.2]]], 0.1, (3, seeds, 1))
        m = a * x + rng.normal(0, 0.2, x.shape)
        y = b * m + direct * x + rng.normal(0, 0.1, x.shape)
        mean = crossed_mean(mediation(x, m, y)[part][:, None])
        found.append((mean.low, mean.high))
    low, high = np.array(found).T
    return held(low, high, (-0.6, -0.4, -0.2)[part])


def of_f1(seeds: int, n: int = 500) -> str:
    rng, found = np.random.default_rng(seeds), []
    for _ in range(SAMPLES // 4):
        label = (rng.random(n) < 0.3).astype(int)
        hard = rng.random(n) < 0.25
        wrong = rng.random((2, seeds, n)) < np.where(hard, 0.4, 0.05)
        ours, theirs = f1_terms(label, np.where(wrong, 1 - label, label))
        mean = crossed_mean(ours - theirs)
        found.append((mean.low, mean.high))
    low, high = np.array(found).T
    return held(low, high, 0.0)


def of_equivalence(seeds: int, n: int = 500) -> str:
    rng = np.random.default_rng(seeds)
    cells = (
        0.03 + rng.normal(0, 0.01, (seeds, 1)) + rng.normal(0, 0.3, (seeds, n))
        for _ in range(SAMPLES)
    )
    return f"{100 * np.mean([equivalence_p(one, 0.03) <= 0.05 for one in cells]):.1f}"


def table(head: str, columns: tuple[int, ...], rows: dict[str, list[str]]) -> None:
    print(f"\n| {head} | {' | '.join(map(str, columns))} |\n| --- |{' --- |' * len(columns)}")
    for name, cells in rows.items():
        print(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    means = {name: [of_means(*case, n, False) for n in SIZES] for name, case in MEANS.items()}
    means["normal, in clusters of three"] = [of_means(*MEANS["normal"], n, True) for n in SIZES]
    table("mean of (rows, or clusters)", SIZES, means)
    shares = {f"{share:.0%}{', in clusters of three' * clustered}": [of_shares(share, n, clustered) for n in SIZES]
              for share in (0.3, 0.1, 0.02) for clustered in (False, True)}  # fmt: skip
    table("share of (rows, or clusters)", SIZES, shares)
    table("mean over (seeds)", SEEDS, {
        f"spread of seeds {spread} of that of instances": [of_seeds(spread, seeds) for seeds in SEEDS] for spread in (0.1, 0.3, 1.0)
    })  # fmt: skip
    crossed = {f"mean, spread of seeds {spread}, of texts {texts}": [of_crossed(spread, texts, seeds) for seeds in SEEDS]
               for spread, texts in ((0.0, 0.0), (0.02, 0.0), (0.1, 0.3), (0.1, 3.0), (1.0, 0.0), (0.0, 1.0))}  # fmt: skip
    crossed["difference of macro F1"] = [of_f1(seeds) for seeds in SEEDS]
    for part, effect in enumerate(("total", "indirect", "direct")):
        crossed[f"{effect} effect, blocks of 8 models"] = [
            of_mediation(seeds, part) for seeds in SEEDS
        ]
    table("over (seeds), 500 texts", SEEDS, crossed)
    table(
        "at the margin (seeds)",
        SEEDS,
        {"% found within": [of_equivalence(seeds) for seeds in SEEDS]},
    )
