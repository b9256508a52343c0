"""Random numbers keyed by what they are for, so that results never depend on order, sharding or batch.

A key names a stream; draw number ``counter`` of the stream is splitmix64 (Steele, Lea & Flood 2014) at that position, found
without drawing the ones before it.
"""

from __future__ import annotations

import hashlib
import math

import numpy as np
from numba import uint64

from attnaudit.core.kernels import subroutine

_STEP = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


def stream_keys(seed: int, purpose: str, *columns: np.ndarray) -> np.ndarray:
    """A key per row, uint64 ``(n,)``, from the seed, the purpose and the integers that name the row."""
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


@subroutine
def draw_bits(key, counter):
    """64 random bits: number ``counter`` of the stream ``key``."""
    x = uint64(key) + uint64(counter + 1) * uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> uint64(30))) * uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> uint64(27))) * uint64(0x94D049BB133111EB)
    return x ^ (x >> uint64(31))


@subroutine
def draw_below(key, counter, bound):
    """An integer in ``0 … bound − 1`` for ``bound < 2³²``; its bias is below ``bound / 2³²``."""
    return ((draw_bits(key, counter) >> uint64(32)) * uint64(bound)) >> uint64(32)


@subroutine
def draw_uniform(key, counter):
    """A float in ``(0, 1)``, never an end."""
    return (float(draw_bits(key, counter) >> uint64(12)) + 0.5) * 2.0**-52


@subroutine
def draw_normal(key, counter):
    """A standard normal number (Box & Muller 1958); takes draws ``2 · counter`` and ``2 · counter + 1`` of the stream."""
    radius = math.sqrt(-2.0 * math.log(draw_uniform(key, 2 * counter)))
    return radius * math.cos(2.0 * math.pi * draw_uniform(key, 2 * counter + 1))


@subroutine
def shuffle(values, key, number):
    """Shuffle ``number`` of the stream ``key``, in place (Fisher & Yates); a shuffle of a shuffle is as random as one of the original."""
    drawn = np.empty(len(values), np.uint64)
    draw_shuffle(drawn, key, number)
    apply_shuffle(values, drawn)


@subroutine
def draw_shuffle(drawn, key, number):
    """The positions that `apply_shuffle` exchanges with each position; in a loop of their own the processor finds several at a time."""
    size = len(drawn)
    for t in range(size):
        drawn[t] = draw_below(key, number * size + t, t + 1)


@subroutine
def apply_shuffle(values, drawn):
    """`shuffle` by positions that were drawn for it."""
    for t in range(len(values) - 1, 0, -1):
        other = drawn[t]
        values[t], values[other] = values[other], values[t]
