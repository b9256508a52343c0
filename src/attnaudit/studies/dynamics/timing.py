"""When is attention learned? The timing ξ of Snell et al. 2021."""

import numpy as np
import polars as pl
from jaxtyping import Float, Int

from attnaudit.stats.bootstrap import resampled_over_seeds, weighted_sums
from attnaudit.studies.over_seeds import SummaryRows, by_seed, seeds_row
from attnaudit.studies.study import Study

NEEDED = ("agreement_reference_alpha", "agreement_reference_uniform", "correct")


def timing_rows(study: Study, fresh: pl.DataFrame) -> SummaryRows:
    """Summarise when attention of fresh seeds is closer to the reference's than r^u is.

    - ``xi``: accuracy at a seed's first checkpoint whose attention agrees better with the
      reference's, on average, than r^u does, the relevance trained under uniform attention.
    - ``xi_step``: step of that checkpoint; ``xi_early``: 1 if no checkpoint lies between the start
      and it.
    - ``best_accuracy``: that of the seed's best checkpoint, chosen on these rows of the test split,
      hence too high for other texts.
    - ``xi_reached``: highest agreement of any checkpoint; ``xi_threshold``: agreement of r^u.

    Values are means over the seeds with such a checkpoint; ``undefined`` counts the others.
    Resamples draw seeds and instances, and search the checkpoints again.

    Args:
        study: Study that the rows belong to.
        fresh: {seed, step, instance, `NEEDED`} of all seeds but the reference.
    """
    if fresh.is_empty():
        return
    values = by_seed(fresh, NEEDED, ("seed", "step", "instance"))
    steps = fresh["step"].unique().sort().to_numpy()
    _, seeds, _, instances = values.shape

    def figures(weights: Float[np.ndarray, "b n"]) -> Float[np.ndarray, "b S M"]:
        means = weighted_sums(weights, values) / instances
        return np.stack([np.stack(list(_timing(one, steps).values()), axis=1) for one in means])

    resampled = resampled_over_seeds(figures, instances, seeds, study.seed)
    each = _timing(values.mean(axis=3), steps)
    for (name, of_seed), drawn in zip(each.items(), resampled.T, strict=True):
        known = of_seed[~np.isnan(of_seed)]
        undefined = len(of_seed) - len(known)
        # If no seed has the figure, there is no telling what others might have.
        over = (known, drawn) if len(known) else (of_seed[:1], np.full_like(drawn, np.nan))
        yield seeds_row(study, name, *over, instances, undefined=undefined)


def _timing(
    means: Float[np.ndarray, "3 S K"], steps: Int[np.ndarray, " K"]
) -> dict[str, Float[np.ndarray, " S"]]:
    """Compute the figures of every seed from its means at every step; NaN if undefined."""
    alpha, uniform, right = means
    nearer = alpha > uniform
    reached, first = nearer.any(axis=1), nearer.argmax(axis=1)
    xi = np.where(reached, right[np.arange(len(right)), first], np.nan)
    best = right.max(axis=1)
    return {
        "xi": xi,
        "xi_step": np.where(reached, steps[first], np.nan),
        "xi_early": np.where(reached, first <= (steps[0] == 0), np.nan),
        "best_accuracy": best,
        "best_accuracy_minus_xi": best - xi,
        "xi_reached": alpha.max(axis=1),
        "xi_threshold": uniform[:, 0],
    }
