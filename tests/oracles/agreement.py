"""Agreement of Snell et al. 2020, and of Krishna et al. 2024, by every way to break its ties."""

from fractions import Fraction
from itertools import pairwise, permutations, product
from math import ceil, nan


def naive_agreement(u, v, percent=5):
    """The share, over all orders that sort ``v`` downwards and all largest ``u``, in which the one is among the first of the other."""
    count = ceil(Fraction(percent * len(v), 100))
    first = [t for t in range(len(u)) if u[t] == max(u)]
    orders = [
        order
        for order in permutations(range(len(v)))
        if all(v[a] >= v[b] for a, b in pairwise(order))
    ]
    found = [t in order[:count] for order in orders for t in first]
    return sum(found) / len(found)


def naive_chance(u, v, percent=5):
    """Agreement with ``v`` shuffled, over every shuffle."""
    shuffled = [
        naive_agreement(u, [v[t] for t in order], percent) for order in permutations(range(len(v)))
    ]
    return sum(shuffled) / len(shuffled)


def naive_overlap(u, v, percent):
    """The share that the first of both have in common, over all pairs of orders that sort ``u`` and ``v`` downwards."""
    if len(u) < 2:
        return nan
    count, tops = ceil(Fraction(percent * len(u), 100)), []
    for values in (u, v):
        orders = permutations(range(len(values)))
        tops.append(
            [
                set(order[:count])
                for order in orders
                if all(values[a] >= values[b] for a, b in pairwise(order))
            ]
        )
    found = [len(one & other) for one, other in product(*tops)]
    return sum(found) / len(found) / count


def plain_overlap(u, v, percent):
    """The same where no two values are equal, by sets."""
    if len(u) < 2:
        return nan
    count = ceil(Fraction(percent * len(u), 100))
    one, other = (
        set(sorted(range(len(values)), key=lambda t: -values[t])[:count]) for values in (u, v)
    )
    return len(one & other) / count
