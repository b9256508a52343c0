"""Importance of every token of a text for a transformer's prediction, by many measures of one signature."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from torch import Tensor

from attnaudit.core.errors import InputError, did_you_mean
from attnaudit.core.papers import JAIN2019, Paper
from attnaudit.core.progress import Progress, silent
from attnaudit.core.ragged import Ragged
from attnaudit.hf.encoded import Encoded
from attnaudit.hf.gate import Gate
from attnaudit.hf.importance.case import OPERATION, Case, frozen, positions_within
from attnaudit.hf.importance.gradients import gradient, gradient_input, integrated_gradients
from attnaudit.hf.importance.graph import flow, rollout
from attnaudit.hf.importance.removal import loo, loo_mask
from attnaudit.hf.importance.values import norm, value_zeroing
from attnaudit.hf.products import fast_products

ABNAR2020 = Paper(
    "abnar2020", "Abnar, Samira and Zuidema, Willem", "Quantifying Attention Flow in Transformers",
    "Proceedings of ACL 2020", 2020, pages="4190--4197", doi="10.18653/v1/2020.acl-main.385",
)  # fmt: skip
KOBAYASHI2020 = Paper(
    "kobayashi2020", "Kobayashi, Goro and Kuribayashi, Tatsuki and Yokoi, Sho and Inui, Kentaro",
    "Attention is Not Only a Weight: Analyzing Transformers with Vector Norms",
    "Proceedings of EMNLP 2020", 2020, pages="7057--7075", doi="10.18653/v1/2020.emnlp-main.574",
)  # fmt: skip
MOHEBBI2023 = Paper(
    "mohebbi2023", "Mohebbi, Hosein and Zuidema, Willem and Chrupa{\\l}a, Grzegorz and Alishahi, Afra",
    "Quantifying Context Mixing in Transformers",
    "Proceedings of EACL 2023", 2023, pages="3378--3400", doi="10.18653/v1/2023.eacl-main.245",
)  # fmt: skip
SUNDARARAJAN2017 = Paper(
    "sundararajan2017", "Sundararajan, Mukund and Taly, Ankur and Yan, Qiqi", "Axiomatic Attribution for Deep Networks",
    "Proceedings of ICML 2017", 2017, pages="3319--3328",
)  # fmt: skip


@dataclass(frozen=True)
class Measure:
    """A way to measure importance: ``compute`` gives (B, T) for a batch, 0 on padding. A ``costly`` one is computed on request alone."""

    name: str
    title: str
    compute: Callable[[Case], Float[Tensor, "B T"]]
    paper: Paper
    costly: bool = False


MEASURES: dict[str, Measure] = {
    measure.name: measure
    for measure in (
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
        Measure("flow", "attention flow", flow, ABNAR2020, costly=True),
        Measure("norm", "norm of the vector received", norm, KOBAYASHI2020),
        Measure("value_zeroing", "value zeroing", value_zeroing, MOHEBBI2023, costly=True),
    )
}
USUAL = tuple(name for name, measure in MEASURES.items() if not measure.costly)


def importance(
    model: Any, gate: Gate, texts: Encoded, names: Iterable[str] = USUAL, *, budget: int = 4096, steps: int = 32, longest: int = 64,
    progress: Progress = silent,
) -> dict[str, Ragged]:  # fmt: skip
    """The importance of every token, by measure: float32, a value for each token of ``texts``, 0 or more.

    ``budget`` bounds the positions of a pass of the model, padding included; ``steps`` and ``longest`` are those of `Case`. The model is
    left as it was. Raises InputError for an unknown measure, for one that needs the query that the prediction reads where it reads several,
    and for numbers that are not finite.
    """
    names = known(names)
    out = {name: np.zeros(len(texts.ids.values), dtype=np.float32) for name in names}
    done, products = 0, fast_products(model)
    with frozen(model), products:
        for rows in texts.batches(positions_within(model, budget), gate.batching):
            for name, values in measured(
                Case(model, gate, texts.take(rows), budget, steps, longest), names
            ).items():
                out[name][texts.ids.positions(rows)] = values
            done += len(rows)
            progress("measure importance", done, len(texts))
    return {name: texts.ids.with_values(values) for name, values in out.items()}


def known(names: str | Iterable[str]) -> tuple[str, ...]:
    """The names of measures, or of one. Raises InputError for another name."""
    names = (names,) if isinstance(names, str) else tuple(names)
    for name in names:
        if name not in MEASURES:
            raise InputError(
                OPERATION,
                name,
                "an unknown measure",
                f"one of {', '.join(MEASURES)}",
                did_you_mean(name, MEASURES),
            )
    return names


def measured(case: Case, names: Iterable[str]) -> dict[str, np.ndarray]:
    """The measures of one batch, at the tokens of its texts, row after row; those that need the pass of all texts first."""
    return {
        name: _checked(name, case)
        for name in sorted(names, key=lambda name: name.startswith("loo"))
    }


def _checked(name: str, case: Case) -> np.ndarray:
    """The values of a measure at the tokens of the texts, row after row. Raises InputError where one is not finite."""
    values = MEASURES[name].compute(case).float()
    found = values[case.mask].cpu().numpy()
    if not np.isfinite(found).all():
        wrong = (~values.isfinite() & case.mask).any(dim=1).cpu().numpy()
        shown = ", ".join(map(str, sorted(case.texts.instance[wrong].tolist())[:3]))
        got = f"{name} that is no finite number, in instances {shown}"
        raise InputError(
            OPERATION, type(case.model).__name__, got, "finite numbers", "check the model's weights"
        )
    return found
