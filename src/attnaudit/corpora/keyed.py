"""Random numbers that depend on a seed and a purpose, on nothing else."""

from __future__ import annotations

import hashlib

import numpy as np


def keyed(seed: int, *purpose: str) -> np.random.Generator:
    """A generator of its own for every seed and purpose, the same in every process."""
    return np.random.default_rng(key_number(seed, *purpose))


def key_number(seed: int, *purpose: str) -> int:
    """128 bits that stand for a seed and a purpose."""
    return int.from_bytes(hashlib.sha256("\x1f".join([str(seed), *purpose]).encode()).digest()[:16], "little")
