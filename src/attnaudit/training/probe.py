"""The probe: a few instances that are traced repeatedly while a model trains."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from jaxtyping import Int64

from attnaudit.core import InputError
from attnaudit.core.random import stream_keys

# Optimizer steps at which Snell et al. 2020 measure.
STEPS = (0, 10, 50, 100, 150, 200, *range(250, 4001, 250))
STEP_FOLDER = "steps"


@dataclass(frozen=True)
class Probe:
    """Instances of the test split that are traced after chosen optimizer steps.

    Attributes:
        steps: Numbers of optimizer steps, in increasing order; 0 is the untrained model.
        size: Largest number of instances.
        seed: Seed of the choice of instances.

    Raises:
        InputError: Steps are negative or do not increase, or there are no steps or instances.
    """

    steps: tuple[int, ...] = STEPS
    size: int = 500
    seed: int = 0

    def __post_init__(self) -> None:
        increases = all(before < after for before, after in pairwise((-1, *self.steps)))
        if not self.steps or not increases:
            expected = "whole numbers from 0 up, each above the one before"
            raise InputError("watch training", "steps", str(list(self.steps)), expected)
        if self.size < 1:
            raise InputError("watch training", "probe", f"{self.size} texts", "1 or more")

    def rows(self, instance: Int64[np.ndarray, " n"]) -> Int64[np.ndarray, " m"]:
        """Choose rows of a split.

        Args:
            instance: Id of each row.

        Returns:
            Row numbers, in increasing order.
        """
        # Keys depend on the ids only, so the choice is the same for any order of the rows.
        order = np.argsort(stream_keys(self.seed, "probe", instance), kind="stable")
        return np.sort(order[: self.size])


def step_part(step: int) -> str:
    """Return the path of a step's trace, relative to the folder of its training."""
    # Five digits let names sort like numbers.
    return f"{STEP_FOLDER}/{step:05d}"
