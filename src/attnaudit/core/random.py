"""Counter-based random numbers, which do not depend on order, sharding or batch.

A key identifies a stream. Draw number ``counter`` of a stream is the output of splitmix64 (Steele,
Lea & Flood 2014) at that position, computed without the draws before it. Keys and counters are
integer arrays that broadcast against each other.
"""

import hashlib

import numpy as np
from numba import njit

from attnaudit.core.ragged import Ragged

# Constants of splitmix64; other values would change every draw and so every stored result.
_STEP = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


def stream_keys(seed: int, purpose: str, *columns: np.ndarray) -> np.ndarray:
    """Derive one stream per row from the seed, the purpose and the integers that identify the row.

    Args:
        seed: Seed of the run.
        purpose: Use of the numbers. Another purpose gives unrelated streams.
        *columns: Integers ``(n,)`` that identify each row; without any there is one row.

    Returns:
        Keys, uint64 ``(n,)``.
    """
    digest = hashlib.blake2b(f"{seed}/{purpose}".encode(), digest_size=8).digest()
    length = len(columns[0]) if columns else 1
    keys = np.full(length, int.from_bytes(digest, "little"), dtype=np.uint64)
    for column in columns:
        # `_mixed(0)` is 0: without the step, xor with a 0 would leave the key as it is.
        keys = _mixed((keys ^ _mixed(column.astype(np.int64).view(np.uint64) + _STEP)) + _STEP)
    return keys


def _mixed(x: np.ndarray) -> np.ndarray:
    x = (x ^ (x >> np.uint64(30))) * _MIX_1
    x = (x ^ (x >> np.uint64(27))) * _MIX_2
    return x ^ (x >> np.uint64(31))


def bits(keys: np.ndarray, counters: np.ndarray | int) -> np.ndarray:
    """Draw 64 random bits for each key and counter.

    Args:
        keys: Streams.
        counters: Number of each draw in its stream.

    Returns:
        Bits, uint64, in the common shape of the arguments.
    """
    # splitmix64 adds the step before it mixes, so draw 0 is at position 1.
    position = np.asarray(counters).astype(np.uint64) + np.uint64(1)
    return _mixed(np.atleast_1d(keys) + position * _STEP)


def below(keys: np.ndarray, counters: np.ndarray | int, bounds: np.ndarray | int) -> np.ndarray:
    """Draw integers from ``0`` to ``bounds - 1``; the bias is below ``bounds / 2³²``.

    Args:
        keys: Streams.
        counters: Number of each draw in its stream.
        bounds: Number of possible values, at least 1 and below 2³².

    Returns:
        Integers, int64, in the common shape of the arguments.
    """
    # A product instead of a remainder: 32 bits times a bound below 2³² fit into 64, and the upper
    # half of the product is the integer.
    product = (bits(keys, counters) >> np.uint64(32)) * np.asarray(bounds).astype(np.uint64)
    return (product >> np.uint64(32)).astype(np.int64)


def uniform(keys: np.ndarray, counters: np.ndarray | int) -> np.ndarray:
    """Draw floats from the open interval ``(0, 1)``.

    Args:
        keys: Streams.
        counters: Number of each draw in its stream.
    """
    # Half a step excludes both ends, as `normal` takes a logarithm. 52 bits and the half fit into
    # a float64 without rounding.
    return ((bits(keys, counters) >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52


def shuffled(rows: Ragged, keys: np.ndarray, number: int | np.ndarray) -> Ragged:
    """Shuffle the values within every row (Fisher & Yates), independently of the other rows.

    A shuffle of a shuffled row is as random as one of the original.

    Args:
        rows: ``n`` rows of values.
        keys: One stream per row, uint64 ``(n,)``.
        number: Number of the shuffle in all streams, or in each, ``(n,)``.

    Returns:
        The same rows with their values in another order.
    """
    values = rows.values.copy()
    _shuffle(rows.offsets, keys, np.broadcast_to(number, keys.shape), values)
    return rows.with_values(values)


_compiled_mixed = njit(cache=True, nogil=True)(_mixed)


@njit(cache=True, nogil=True)
def _shuffle(offsets, keys, numbers, values):
    """Let every position of a row, from its last, change places with one drawn by `below`."""
    for row in range(len(keys)):
        start, size = offsets[row], offsets[row + 1] - offsets[row]
        for t in range(size - 1, 0, -1):
            x = _compiled_mixed(keys[row] + np.uint64(numbers[row] * size + t + 1) * _STEP)
            other = start + np.int64(((x >> np.uint64(32)) * np.uint64(t + 1)) >> np.uint64(32))
            values[start + t], values[other] = values[other], values[start + t]
