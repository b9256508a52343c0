"""The probe: a few instances that are traced again and again while a model trains."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from jaxtyping import Int64

from attnaudit.core.errors import InputError
from attnaudit.core.random import stream_keys

STEPS = (0, 10, 50, 100, 150, 200, *range(250, 4001, 250))  # those of Snell et al. 2020
STEP_FOLDER = "steps"


@dataclass(frozen=True)
class Probe:
    """Some instances of the test split, traced after chosen optimizer steps.

    Attributes:
        steps: Numbers of updates, 0 for the untrained model, each larger than the one before.
        size: Largest number of instances.
        seed: Seed of their choice.

    Raises:
        InputError: For steps that do not go up from 0 or more, and for a probe of nothing.
    """

    steps: tuple[int, ...] = STEPS
    size: int = 500
    seed: int = 0

    def __post_init__(self) -> None:
        expected = "whole numbers from 0 up, each above the one before"
        if not self.steps:
            raise InputError("watch training", "steps", "none", expected)
        if self.steps[0] < 0:
            raise InputError("watch training", "steps", f"{self.steps[0]}, below 0", expected)
        for before, after in pairwise(self.steps):
            if after <= before:
                fault = "twice" if after == before else f"after {before}"
                raise InputError("watch training", "steps", f"{after} {fault}", expected)
        if self.size < 1:
            raise InputError("watch training", "probe", f"{self.size} instances", "1 or more")

    def rows(self, instance: Int64[np.ndarray, " n"]) -> Int64[np.ndarray, " m"]:
        """Choose rows of a split by their ids, whatever their order; return them in order."""
        order = np.argsort(stream_keys(self.seed, "probe", instance), kind="stable")
        return np.sort(order[: self.size])


def step_part(step: int) -> str:
    """Return the place of a step's trace within the folder of its training."""
    return f"{STEP_FOLDER}/{step:05d}"
