"""The study of Snell et al. 2020, seed by seed, step by step and row by row."""

from collections.abc import Mapping, Sequence

from tests.oracles.agreement import naive_agreement

Means = Mapping[tuple[int, int], Sequence[float]]


def naive_timing(
    seeds, steps, alpha, even, right
):  # fmt: skip
    """Means over the seeds that get there of ξ and its step; ``alpha`` and ``right`` hold a number per instance by (seed, step)."""
    found = []
    for seed in seeds:
        for step in steps:
            if _mean(alpha[seed, step]) > _mean(even):
                found.append(
                    (
                        _mean(right[seed, step]),
                        step,
                        max(_mean(right[seed, other]) for other in steps),
                    )
                )
                break
    xi, step, gap = (
        [one[0] for one in found],
        [float(one[1]) for one in found],
        [one[2] - one[0] for one in found],
    )
    early = [
        float(all(other in (0, one[1]) for other in steps if other <= one[1])) for one in found
    ]
    told = {"xi": xi, "xi_step": step, "xi_early": early, "best_accuracy_minus_xi": gap}
    return {name: _mean(values) if values else None for name, values in told.items()}


def _mean(values):
    return sum(values) / len(values)


def naive_elsewhere(
    alpha, score, place, others
):  # fmt: skip
    """Each row's agreement with the score of the next ``others`` rows like it; ``place`` says its instance and its target position."""
    found = []
    for row, (instance, query) in enumerate(place):
        alike = sorted(
            (i, k)
            for k, (i, q) in enumerate(place)
            if q == query and len(alpha[k]) == len(alpha[row])
        )
        at = alike.index((instance, row))
        after = [k for _, k in (alike[at + 1 :] + alike[:at])[:others]]
        values = [naive_agreement(alpha[row], score[k]) for k in after]
        found.append(_mean(values) if values else None)
    return found
