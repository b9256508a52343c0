"""Importance of every token of a text for a transformer's prediction, by several measures."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from torch import Tensor

from attnaudit.core.errors import InputError, did_you_mean
from attnaudit.core.papers import JAIN2019, Paper
from attnaudit.hf.importance.case import OPERATION, Case
from attnaudit.hf.importance.gradients import gradient, gradient_input, integrated_gradients
from attnaudit.hf.importance.removal import loo, loo_mask, value_zeroing
from attnaudit.hf.importance.rollout import rollout

ABNAR2020 = Paper(
    "abnar2020",
    "Abnar, Samira and Zuidema, Willem",
    "Quantifying Attention Flow in Transformers",
    "Proceedings of ACL 2020",
    2020,
    pages="4190--4197",
    doi="10.18653/v1/2020.acl-main.385",
)
MOHEBBI2023 = Paper(
    "mohebbi2023",
    "Mohebbi, Hosein and Zuidema, Willem and Chrupa{\\l}a, Grzegorz and Alishahi, Afra",
    "Quantifying Context Mixing in Transformers",
    "Proceedings of EACL 2023",
    2023,
    pages="3378--3400",
    doi="10.18653/v1/2023.eacl-main.245",
)
SUNDARARAJAN2017 = Paper(
    "sundararajan2017",
    "Sundararajan, Mukund and Taly, Ankur and Yan, Qiqi",
    "Axiomatic Attribution for Deep Networks",
    "Proceedings of ICML 2017",
    2017,
    pages="3319--3328",
)


@dataclass(frozen=True)
class Measure:
    """A measure of importance.

    Attributes:
        name: Short name.
        title: Description.
        compute: Function of a batch that returns values (B, T), 0 on padding.
        paper: Source.
        costly: True if it is only computed on request.
    """

    name: str
    title: str
    compute: Callable[[Case], Float[Tensor, "B T"]]
    paper: Paper
    costly: bool = False


_KNOWN = (
    Measure("gradient", "gradient × input, attention held fixed", gradient, JAIN2019),
    Measure("loo", "leave-one-out: the word deleted", loo, JAIN2019),
    Measure("loo_mask", "leave-one-out: the word masked", loo_mask, JAIN2019, costly=True),
    Measure("gradient_input", "gradient × input", gradient_input, JAIN2019),
    Measure(
        "integrated_gradients",
        "integrated gradients",
        integrated_gradients,
        SUNDARARAJAN2017,
        costly=True,
    ),
    Measure("rollout", "attention rollout", rollout, ABNAR2020),
    Measure("value_zeroing", "value zeroing", value_zeroing, MOHEBBI2023, costly=True),
)
MEASURES: dict[str, Measure] = {measure.name: measure for measure in _KNOWN}
USUAL = tuple(name for name, measure in MEASURES.items() if not measure.costly)


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
        values = MEASURES[name].compute(case).float()
        wrong = (~values.isfinite() & case.mask).any(dim=1).cpu().numpy()
        if wrong.any():
            shown = ", ".join(map(str, sorted(case.texts.instance[wrong].tolist())[:3]))
            got = f"{name} that is no finite number, in instances {shown}"
            where, do = type(case.model).__name__, "check the model's weights"
            raise InputError(OPERATION, where, got, "finite numbers", do)
        found[name] = values[case.mask].cpu().numpy()
    return found
