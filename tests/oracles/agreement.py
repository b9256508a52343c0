"""Agreement of Snell et al. 2020 by every way to break its ties."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise, permutations
from math import ceil


def naive_agreement(u: Sequence[float], v: Sequence[float], percent: int = 5) -> float:
    """The share, over all orders that sort ``v`` downwards and all largest ``u``, in which the one is among the first of the other."""
    count = ceil(Fraction(percent * len(v), 100))
    first = [t for t in range(len(u)) if u[t] == max(u)]
    orders = [order for order in permutations(range(len(v))) if all(v[a] >= v[b] for a, b in pairwise(order))]
    found = [t in order[:count] for order in orders for t in first]
    return sum(found) / len(found)


def naive_chance(u: Sequence[float], v: Sequence[float], percent: int = 5) -> float:
    """Agreement with ``v`` shuffled, over every shuffle."""
    shuffled = [naive_agreement(u, [v[t] for t in order], percent) for order in permutations(range(len(v)))]
    return sum(shuffled) / len(shuffled)
