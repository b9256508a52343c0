"""Random numbers that do not depend on order, sharding or batch, because each is keyed by its use.

A key names a stream. Draw number ``counter`` of the stream is splitmix64 (Steele, Lea & Flood 2014)
at that position, computed without drawing the ones before it. Keys and counters are integer arrays
that broadcast against each other.
"""

from __future__ import annotations

import hashlib

import numpy as np

from attnaudit.core.ragged import Ragged

_STEP = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


def stream_keys(seed: int, purpose: str, *columns: np.ndarray) -> np.ndarray:
    """Derive a stream per row from the seed, the purpose and the integers that name the row.

    Args:
        seed: Seed of the run.
        purpose: Use of the numbers: another purpose gives unrelated streams.
        *columns: Integers ``(n,)`` that name each row; without any there is one row.

    Returns:
        Keys, uint64 ``(n,)``.
    """
    digest = hashlib.blake2b(f"{seed}/{purpose}".encode(), digest_size=8).digest()
    length = len(columns[0]) if columns else 1
    keys = np.full(length, int.from_bytes(digest, "little"), dtype=np.uint64)
    for column in columns:
        keys = _mixed((keys ^ _mixed(column.astype(np.int64).view(np.uint64) + _STEP)) + _STEP)
    return keys


def _mixed(x: np.ndarray) -> np.ndarray:
    x = (x ^ (x >> np.uint64(30))) * _MIX_1
    x = (x ^ (x >> np.uint64(27))) * _MIX_2
    return x ^ (x >> np.uint64(31))


def bits(keys: np.ndarray, counters: np.ndarray | int) -> np.ndarray:
    """Draw 64 random bits each, uint64."""
    position = np.asarray(counters).astype(np.uint64) + np.uint64(1)
    return _mixed(np.atleast_1d(keys) + position * _STEP)


def below(keys: np.ndarray, counters: np.ndarray | int, bounds: np.ndarray | int) -> np.ndarray:
    """Draw integers in ``0 … bounds - 1``, int64; the bias is below ``bounds / 2³²``.

    Args:
        keys: Streams.
        counters: Number of the draw in its stream.
        bounds: At least 1 and below 2³².
    """
    # 32 bits times a bound below 2³² fit into 64, so the upper half of the product is the integer.
    product = (bits(keys, counters) >> np.uint64(32)) * np.asarray(bounds).astype(np.uint64)
    return (product >> np.uint64(32)).astype(np.int64)


def uniform(keys: np.ndarray, counters: np.ndarray | int) -> np.ndarray:
    """Draw floats from the open interval ``(0, 1)``."""
    # Half a step keeps both ends out; 52 bits and the half fit into a float64 without rounding.
    return ((bits(keys, counters) >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52


def normal(keys: np.ndarray, counters: np.ndarray | int) -> np.ndarray:
    """Draw standard normal numbers (Box & Muller 1958); each uses two draws of its stream."""
    first = 2 * np.asarray(counters)
    radius = np.sqrt(-2.0 * np.log(uniform(keys, first)))
    return radius * np.cos(2.0 * np.pi * uniform(keys, first + 1))


def shuffled(rows: Ragged, keys: np.ndarray, number: int | np.ndarray) -> Ragged:
    """Shuffle the values within every row (Fisher & Yates), independently of the other rows.

    A shuffle of a shuffled row is as random as one of the original.

    Args:
        rows: ``n`` rows of values.
        keys: A stream per row, uint64 ``(n,)``.
        number: Number of the shuffle in these streams, or in each, ``(n,)``.

    Returns:
        The same rows with their values in another order.
    """
    values, lengths = rows.values.copy(), rows.lengths
    within = np.arange(len(values)) - rows.spread(rows.offsets[:-1])
    counters = rows.spread(number * lengths) + within
    others = below(rows.spread(keys), counters, within + 1)
    # Longest rows first: the rows that have a position ``t`` are then the first of ``starts``.
    order = np.argsort(-lengths, kind="stable")
    starts, longer = rows.offsets[:-1][order], len(rows) - np.cumsum(np.bincount(lengths))
    for t in range(len(longer) - 2, 0, -1):
        one = starts[: longer[t]] + t
        other = starts[: longer[t]] + others[one]
        values[one], values[other] = values[other], values[one]
    return rows.with_values(values)
