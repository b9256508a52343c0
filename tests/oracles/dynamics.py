"""The timing ξ of Snell et al. 2020, seed by seed and step by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Means = Mapping[tuple[int, int], Sequence[float]]


def naive_timing(
    seeds: Sequence[int], steps: Sequence[int], alpha: Means, even: Sequence[float], right: Means
) -> dict[str, float | None]:  # fmt: skip
    """Means over the seeds that get there of ξ and its step; ``alpha`` and ``right`` hold a number per instance by (seed, step)."""
    found = []
    for seed in seeds:
        for step in steps:
            if _mean(alpha[seed, step]) > _mean(even):
                found.append((_mean(right[seed, step]), step, max(_mean(right[seed, other]) for other in steps)))
                break
    xi, step, gap = ([one[0] for one in found], [float(one[1]) for one in found], [one[2] - one[0] for one in found])
    told = {"xi": xi, "xi_step": step, "best_accuracy_minus_xi": gap}
    return {name: _mean(values) if values else None for name, values in told.items()}


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
