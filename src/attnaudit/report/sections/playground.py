"""The playground: a reader moves the attention of an instance and sees the output, which the page computes from the trace's readout.

A page has the readout of the instances that it shows, as base64 float32. Of a long text the tokens with weight are listed one by one, and
the rest is one bar: its tokens move in proportion, so that output and divergence stay exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from jaxtyping import Bool, Float, Int64

from attnaudit.experiments import settings_for_task
from attnaudit.experiments.adversary.exact import one_logit_decides
from attnaudit.experiments.adversary.frontier import frontier, frontier_epsilons
from attnaudit.experiments.erasure.experiment import MINIMUM
from attnaudit.experiments.ranges.experiment import Ranges
from attnaudit.experiments.ranges.half_spaces import most_half_spaces
from attnaudit.report.page import Section
from attnaudit.report.sections.curves import curves_section
from attnaudit.report.sections.heatmaps import visible
from attnaudit.report.sections.played import (
    FEWEST,
    LINK,
    STYLES,
    described,
    first_positions,
    packed,
    without_playground,
)
from attnaudit.results.about import About
from attnaudit.results.summary import INSTANCE
from attnaudit.trace import Trace
from attnaudit.trace.tails import TanhTail

SCRIPTS = (
    "colours.js",
    "playground_model.js",
    "playground_plane.js",
    "playground_links.js",
    "playground.js",
    "playground_save.js",
)
MOST_TOKENS = 120
MOST_NUMBERS = 24_000  # of the readout of one instance, 128 kB of a page
MOST_OF_TAIL = 60_000
MOST_OF_LISTED, MOST_OF_LIST = (
    4_000,
    150_000,
)  # numbers of an instance without a picture, and of all of them, 800 kB of a page
MOST_SEARCHED = 1_500  # positions times numbers of a row whose frontier is searched
COMPUTED = ("identity", "tanh_mlp")  # tails
MOST_PROGRAMS = (
    40_000  # T² · half-spaces of a row whose ranges are computed for the page, about 40 ms
)
MEASURES = ("emax_jsd", "emax_jsd_upper")


def epsilon_of(about: About, task: str | None) -> float:
    """The change of output that a run's adversary was allowed."""
    usual = settings_for_task(task).get("adversary", {}).get("epsilon", 0.01)
    return float(about.setting("adversary", "epsilon", usual))


def refusal(trace: Trace) -> str | None:
    """Why a page cannot compute the output of this trace; None where it can."""
    if trace.metadata["tail"] not in COMPUTED:
        return "Behind the attended sum this model has further layers, which a page cannot compute."
    if isinstance(trace.tail, TanhTail) and trace.tail.weight.size > MOST_OF_TAIL:
        return f"The last layer of this model has {trace.tail.weight.size:,} weights, too many for a page."
    return None


def playground_section(
    rows: Trace,
    facts: pl.DataFrame,
    epsilon: float,
    unit: str = INSTANCE,
    listed: tuple[Trace, pl.DataFrame] | None = None,
) -> Section | None:
    """The playground of ``rows``; ``facts`` are the experiments' tables side by side, a row per row, or empty. None where all are short.

    ``listed`` are further rows with their facts, which are given as far as there is room, without a frontier.
    """
    if not (rows.alpha.lengths > 1).any():
        return None
    reason = refusal(rows)
    if reason is not None:
        return curves_section(rows, facts, reason, epsilon, unit)
    data = playground_data(rows, facts, epsilon)
    if not data["instances"]:
        width = rows.readout.contribution.values.shape[1]
        return without_playground(
            f"Each position contributes {width:,} numbers to the output, too many for a page.", unit
        )
    further, skipped = (listed_entries(*listed), len(listed[0])) if listed is not None else ([], 0)
    data["instances"] += further
    content = {
        "reason": None, "unit": unit, "epsilon": epsilon, "rest": any(one["rest"] for one in data["instances"]),
        "left_out": data.pop("left_out") + skipped - len(further), "further": len(further),
        "most": MOST_OF_LISTED, "most_together": MOST_OF_LIST,
    }  # fmt: skip
    return Section("playground", content, LINK, SCRIPTS, {"playground-data": data}, STYLES)


def listed_entries(rows: Trace, facts: pl.DataFrame) -> list[dict[str, Any]]:
    """Entries of rows without a picture: those of at most `MOST_OF_LISTED` numbers, as many as `MOST_OF_LIST` holds, the first first."""
    known = facts.to_dicts() if facts.height == len(rows) else [{} for _ in range(len(rows))]
    lengths, width = rows.alpha.lengths, rows.readout.contribution.values.shape[1]
    numbers = np.where(
        (lengths > 1) & (lengths * (width + 4) <= MOST_OF_LISTED), lengths * (width + 4), 0
    )  # attention of four kinds
    fit = np.flatnonzero((numbers > 0) & (np.cumsum(numbers) <= MOST_OF_LIST))
    return [
        _Entry.of(rows, k, known[k], MOST_TOKENS).as_json(None) | {"listed": True}
        for k in fit.tolist()
    ]


def playground_data(rows: Trace, facts: pl.DataFrame, epsilon: float) -> dict[str, Any]:
    """What the page's script computes with: ``instances``, ``classes``, ``model``, ``epsilon``; and ``left_out``, rows without an entry."""
    known = facts.to_dicts() if facts.height == len(rows) else [{} for _ in range(len(rows))]
    lists = [one | found for one, found in zip(known, _ranges(rows, known, epsilon), strict=True)]
    budget = min(MOST_TOKENS, MOST_NUMBERS // rows.readout.contribution.values.shape[1])
    several = np.flatnonzero(rows.alpha.lengths > 1)
    fit = several[np.minimum(rows.alpha.lengths[several], FEWEST) <= budget]
    curves = _frontiers(rows, fit, epsilon)
    tail = rows.tail if isinstance(rows.tail, TanhTail) else None
    return {
        "instances": [_Entry.of(rows, k, lists[k], budget).as_json(curves.get(k)) for k in fit.tolist()],
        "classes": [visible(name) for name in rows.class_names],
        "model": {
            "activation": rows.metadata["activation"],
            "tail": tail and {"weight": packed(np.asarray(tail.weight)), "bias": packed(np.asarray(tail.bias))},
        },
        "epsilon": epsilon,
        "left_out": len(several) - len(fit),
    }  # fmt: skip


def _ranges(rows: Trace, known: list[dict[str, Any]], epsilon: float) -> list[dict[str, Any]]:
    """What `ranges` says of short rows for which it was asked and which its draw passed over."""
    classes = max(rows.prediction.shape[1], 2)
    lacking = np.array(["possible" in one and one["possible"] is None for one in known], bool)
    chosen = np.flatnonzero(
        lacking & (rows.alpha.lengths**2 * most_half_spaces(classes) <= MOST_PROGRAMS)
    )
    found: list[dict[str, Any]] = [{} for _ in known]
    if len(chosen):
        table = Ranges(epsilon=epsilon, share=1.0)(rows.take(chosen)).select(
            "necessary", "possible"
        )
        for row, ends in zip(chosen.tolist(), table.to_dicts(), strict=True):
            found[row] = ends
    return found


def _frontiers(
    rows: Trace, fit: Int64[np.ndarray, " k"], epsilon: float
) -> dict[int, list[list[float]]]:
    """For every row that can be afforded: ε, JSD found, and what none exceeds."""
    sizes = rows.alpha.lengths[fit] * rows.readout.contribution.values.shape[1]
    chosen = fit if one_logit_decides(rows.readout) else fit[sizes <= MOST_SEARCHED]
    if not len(chosen):
        return {}
    epsilons = frontier_epsilons(rows, epsilon)
    found, upper = frontier(rows.take(chosen), epsilons)
    points = np.stack([np.broadcast_to(epsilons, found.shape), found, upper], axis=2)
    return {row: np.round(points[k], 6).tolist() for k, row in enumerate(chosen.tolist())}


@dataclass(frozen=True)
class _Entry:
    """One row with what experiments found of it; ``positions`` are listed one by one."""

    rows: Trace
    k: int
    facts: Mapping[str, Any]
    positions: Int64[np.ndarray, " s"]

    @classmethod
    def of(cls, rows: Trace, k: int, facts: Mapping[str, Any], budget: int) -> _Entry:
        alpha, length = rows.alpha[k], len(rows.alpha[k])
        room = budget if length <= budget else budget - 1  # a place for the rest
        marked = [alpha]
        adversary = facts.get("alpha")
        if adversary is not None and len(adversary) == length:
            marked.append(np.asarray(adversary))
        relevance = rows.readout.contribution[k]
        ends = np.unique([relevance.argmin(axis=0)[:2], relevance.argmax(axis=0)[:2]])
        for positions in (ends, facts.get(MINIMUM) or []):
            if 0 < len(positions) <= room // 2:
                marked.append(np.isin(np.arange(length), positions).astype(float))
        return cls(rows, k, facts, first_positions(marked, room))

    @property
    def _rest(self) -> Bool[np.ndarray, " T"]:
        hidden = np.ones(len(self.rows.alpha[self.k]), bool)
        hidden[self.positions] = False
        return hidden

    def as_json(self, curve: list[list[float]] | None) -> dict[str, Any]:
        rows, k, facts = self.rows, self.k, self.facts
        alpha, readout, hidden = rows.alpha[k], rows.readout, self._rest
        upper = [facts.get(measure) for measure in MEASURES]
        return {
            **described(rows, k, self.positions), "rest": int(hidden.sum()),
            "alpha": packed(self._folded(alpha)), "readout": packed(self._contributions()), "offset": packed(readout.offset[k]),
            "allowed": None if readout.candidates is None else readout.candidates[k].tolist(),
            "adversary": self._adversary(), "emax": None if None in upper else upper,
            "minimum": self._places(facts.get(MINIMUM)), "proven": facts.get("minimum_proven"),
            "least": self._weights("necessary"), "most": self._weights("possible"), "frontier": curve,
        }  # fmt: skip

    def _folded(self, weights: Float[np.ndarray, " T"]) -> Float[np.ndarray, " b"]:
        hidden = self._rest
        return (
            np.append(weights[self.positions], weights[hidden].sum()) if hidden.any() else weights
        )

    def _contributions(self) -> Float[np.ndarray, "b P"]:
        """The readout of the bars; that of the rest is the mean by the model's own weights."""
        values, alpha, hidden = (
            self.rows.readout.contribution[self.k],
            self.rows.alpha[self.k],
            self._rest,
        )
        if not hidden.any():
            return values
        share = alpha[hidden] if alpha[hidden].sum() > 0 else np.ones(hidden.sum())
        return np.vstack([values[self.positions], (share / share.sum()) @ values[hidden]])

    def _adversary(self) -> str | None:
        """Its weights, where the rest has none of them."""
        found = self.facts.get("alpha")
        if found is None or len(found) != len(self.rows.alpha[self.k]):
            return None
        weights = np.asarray(found, np.float64)
        return packed(self._folded(weights)) if weights[self._rest].sum() < 1e-9 else None

    def _places(self, positions: list[int] | None) -> list[int] | None:
        """Where these positions are listed; None where one is not."""
        where = {position: place for place, position in enumerate(self.positions.tolist())}
        return (
            None
            if positions is None or not set(positions) <= where.keys()
            else [where[position] for position in positions]
        )

    def _weights(self, name: str) -> str | None:
        found = self.facts.get(name)
        return (
            None
            if found is None or len(found) != len(self.rows.alpha[self.k])
            else packed(np.asarray(found)[self.positions])
        )
