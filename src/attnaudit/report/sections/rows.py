"""Single instances: what a trace row and the experiments' tables say of one text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from jaxtyping import Float

from attnaudit.trace import ROW_KEYS, Trace

MEASURES = ("max_alpha", "tau_gradient", "tau_loo", "median_delta_y", "emax_jsd")


@dataclass(frozen=True)
class Instance:
    """One row of a trace, T positions, with its figures.

    ``weights`` maps ``alpha``, ``adversary``, ``gradient`` and ``loo`` to T numbers, those that are known. ``probability`` is that of
    the predicted class, ``adversarial_probability`` the same under the adversary's attention; ``question`` is what the text was read with.
    """

    name: str
    tokens: Sequence[str]
    weights: dict[str, Float[np.ndarray, " T"]]
    rationale: Sequence[bool] | None
    predicted: str
    probability: float
    label: str | None
    adversarial_probability: float | None
    delta_y: float | None
    figures: dict[str, float | None]
    question: str = ""

    @property
    def correct(self) -> bool | None:
        return None if self.label is None else self.label == self.predicted


def read_instances(trace: Trace, rows: pl.DataFrame) -> list[Instance]:
    """The rows of a trace as instances; ``rows`` are the experiments' tables side by side, a row per trace row, or empty."""
    columns = {name: trace.ragged(name) for name in ("alpha", "gradient", "loo") if trace.has(name)}
    shown = rows.select(name for name in (*MEASURES, "alpha", "prediction", "delta_y") if name in rows.columns)
    facts = shown.to_dicts() if shown.height else [{} for _ in range(len(trace))]
    return [_instance(trace, k, {name: column[k] for name, column in columns.items()}, facts[k]) for k in range(len(trace))]


def _instance(trace: Trace, k: int, weights: dict[str, np.ndarray], facts: dict[str, Any]) -> Instance:
    prediction, label = trace.array("prediction")[k], trace.array("label")[k] if trace.has("label") else -1
    chosen = int(trace.predicted[k])
    adversarial = facts.get("alpha")
    if adversarial is not None and len(adversarial) == len(weights["alpha"]):
        weights = {"alpha": weights["alpha"], "adversary": np.asarray(adversarial), **weights}
    rationale = trace.table.column("rationale")[k].as_py() if trace.has("rationale") else None
    figures = {name: facts.get(name) for name in MEASURES}
    figures["max_alpha"] = float(weights["alpha"].max())
    return Instance(
        name=_name(trace, k), tokens=trace.tokens(k), weights=weights, rationale=rationale,
        predicted=trace.class_names[chosen], probability=_probability(prediction, chosen),
        label=trace.class_names[label] if label >= 0 else None,
        adversarial_probability=_probability(np.asarray(facts["prediction"]), chosen) if "adversary" in weights else None,
        delta_y=facts.get("delta_y"), figures=figures, question=_question(trace, k),
    )  # fmt: skip


def _question(trace: Trace, k: int) -> str:
    words = trace.table.column("question")[k].as_py() if trace.has("question") else None
    return " ".join(words or ())


def _probability(prediction: Float[np.ndarray, " C"], chosen: int) -> float:
    if len(prediction) == 1:
        return float(prediction[0] if chosen == 1 else 1.0 - prediction[0])
    return float(prediction[chosen])


def _name(trace: Trace, k: int) -> str:
    """The instance's number, with layer, head and query where the trace tells them."""
    known = {key: trace.array(key)[k] for key in ROW_KEYS if key not in ("split", "instance") and trace.has(key)}
    return " ".join([str(trace.instance[k]), *(f"{key} {value}" for key, value in known.items() if value >= 0)])
