"""Importance of every token of a text for a transformer's prediction, by several measures."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from jaxtyping import Float
from torch import Tensor

from attnaudit.core.errors import InputError, did_you_mean
from attnaudit.hf.importance.case import OPERATION, Case
from attnaudit.hf.importance.gradients import gradient, gradient_input, integrated_gradients
from attnaudit.hf.importance.removal import loo, loo_mask, value_zeroing
from attnaudit.hf.importance.rollout import rollout

MEASURES: dict[str, Callable[[Case], Float[Tensor, "B T"]]] = {
    "gradient": gradient,
    "loo": loo,
    "loo_mask": loo_mask,
    "gradient_input": gradient_input,
    "integrated_gradients": integrated_gradients,
    "rollout": rollout,
    "value_zeroing": value_zeroing,
}
"""Functions of a batch that return values (B, T), 0 on padding, by name."""
# The others are only computed on request.
USUAL = ("gradient", "loo", "gradient_input", "rollout")


def require_measures(names: str | Iterable[str]) -> tuple[str, ...]:
    """Return the names of measures, or of one.

    Raises:
        InputError: A name is unknown.
    """
    names = (names,) if isinstance(names, str) else tuple(names)
    for name in names:
        if name not in MEASURES:
            expected, do = f"one of {', '.join(MEASURES)}", did_you_mean(name, MEASURES)
            raise InputError(OPERATION, name, "an unknown measure", expected, do)
    return names


def measure(case: Case, names: Iterable[str]) -> dict[str, np.ndarray]:
    """Measure the tokens of one batch, row after row.

    Args:
        case: The batch.
        names: Names of measures. Those that run other texts come last: they free the memory of the
            pass that the others share.

    Raises:
        InputError: A value is not finite.
    """
    found = {}
    for name in sorted(require_measures(names), key=lambda name: name.startswith("loo")):
        values = MEASURES[name](case).float()
        wrong = (~values.isfinite() & case.mask).any(dim=1).cpu().numpy()
        if wrong.any():
            shown = ", ".join(map(str, sorted(case.texts.instance[wrong].tolist())[:3]))
            got = f"{name} that is no finite number, in instances {shown}"
            where, do = type(case.model).__name__, "check the model's weights"
            raise InputError(OPERATION, where, got, "finite numbers", do)
        found[name] = values[case.mask].cpu().numpy()
    return found
