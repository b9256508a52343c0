"""Is the output learned before attention? The timing ξ of Snell et al. 2020."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
from jaxtyping import Float, Int64

from attnaudit.stats.bootstrap import drawn_seeds, resample, resample_keys
from attnaudit.studies.over_seeds import summary_row

RESAMPLES = 1000
NEEDED = ("agreement_reference_alpha", "agreement_reference_uniform", "correct")
MEASURES = ("xi", "xi_step", "xi_early", "best_accuracy", "best_accuracy_minus_xi", "xi_reached", "xi_threshold")


def timing_rows(experiment: str, fresh: pl.DataFrame, seed: int) -> list[Mapping[str, Any]]:
    """The `MEASURES` of rows {seed, step, instance, `NEEDED`} of fresh seeds, as rows of a summary.

    Of each seed the first checkpoint counts whose attention, by the mean agreement with the reference's, is nearer to it than r^u is, the
    relevance that was trained under even attention: ξ is the accuracy there, ``xi_step`` its step, ``xi_early`` 1 where nothing was
    looked at between the start and it. ``best_accuracy`` is that of the seed's best checkpoint. Means over
    the seeds that get there; ``undefined`` counts the others. Where none does the figures are null: ``xi_reached``, the highest agreement
    of any checkpoint, against ``xi_threshold``, that of r^u, says how far it was. Intervals draw seeds and instances, and look for the
    checkpoints anew.
    """
    if fresh.is_empty():
        return []
    values, steps = _by_seed(fresh)
    _, seeds, _, instances = values.shape
    each = _figures(values.mean(axis=3), steps)
    drawn = zip(resample_keys(seed, RESAMPLES), drawn_seeds(seed, RESAMPLES, seeds), strict=True)
    resampled = [_mean_known(_figures(values[:, chosen] @ resample(key, instances) / instances, steps)) for key, chosen in drawn]
    found = zip(MEASURES, each, np.array(resampled).T, strict=True)
    return [_row(experiment, name, of_seed, again, instances) for name, of_seed, again in found]


def timing_of_seeds(fresh: pl.DataFrame) -> pl.DataFrame:
    """The `MEASURES` of every seed of such rows; null where it never gets there."""
    values, steps = _by_seed(fresh)
    figures = dict(zip(MEASURES, _figures(values.mean(axis=3), steps), strict=True))
    return pl.DataFrame({"seed": fresh["seed"].unique().sort(), **figures}).with_columns(pl.col(MEASURES).fill_nan(None))


def _by_seed(fresh: pl.DataFrame) -> tuple[Float[np.ndarray, "3 S K n"], Int64[np.ndarray, " K"]]:
    """What is `NEEDED` by seed, step and instance, and the steps."""
    steps = fresh["step"].unique().sort().to_numpy()
    seeds, instances = fresh["seed"].n_unique(), fresh["instance"].n_unique()
    ordered = fresh.sort("seed", "step", "instance").select(pl.col(NEEDED).cast(pl.Float64)).to_numpy()
    return np.moveaxis(ordered.reshape(seeds, len(steps), instances, len(NEEDED)), 3, 0), steps


def _row(experiment: str, name: str, of_seed: np.ndarray, resampled: np.ndarray, instances: int) -> Mapping[str, Any]:
    """Over the seeds that have the figure; where none has it, no interval says what others might have."""
    known = of_seed[~np.isnan(of_seed)]
    told = (known, resampled) if len(known) else (of_seed[:1], np.full_like(resampled, np.nan))
    return summary_row(experiment, name, *told, instances, len(of_seed) - len(known))


def _figures(means: Float[np.ndarray, "3 S K"], steps: Int64[np.ndarray, " K"]) -> Float[np.ndarray, "M S"]:
    """The measures of every seed from its means at every step, NaN where no checkpoint gets there."""
    alpha, even, right = means
    nearer = alpha > even
    there, seeds = nearer.any(axis=1), np.arange(len(nearer))
    first = nearer.argmax(axis=1)
    xi = np.where(there, right[seeds, first], np.nan)
    best, early = right.max(axis=1), np.where(there, first <= (steps[0] == 0), np.nan)
    return np.array([xi, np.where(there, steps[first], np.nan), early, best, best - xi, alpha.max(axis=1), even[:, 0]])


def _mean_known(values: Float[np.ndarray, "M S"]) -> Float[np.ndarray, " M"]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # no seed gets there: the mean is NaN, as it should be
        return np.nanmean(values, axis=1)
