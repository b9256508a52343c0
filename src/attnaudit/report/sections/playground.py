"""The playground: a reader moves the attention of an instance and sees the output.

The page computes it from the trace's readout, which it has as base64 float32. In a long text the
tokens with weight are listed one by one, and the rest is one bar: its tokens move in proportion, so
that output and divergence stay exact.
"""

import base64
from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
from jaxtyping import Float, Int64

from attnaudit.experiments import settings_for_task
from attnaudit.experiments.adversary.exact import one_logit_decides
from attnaudit.experiments.adversary.frontier import frontier, frontier_epsilons
from attnaudit.experiments.erasure.experiment import MINIMUM
from attnaudit.report.page import Section
from attnaudit.report.sections.heatmaps import as_address, full_names, visible
from attnaudit.results import TEXT, About
from attnaudit.trace import TanhTail, Trace

READ = (
    *("instance", "tokens", "question", "alpha", "readout", "offset", "prediction", "candidates"),
    *("label", "layer", "head", "query"),
)
SCRIPTS = ("chart.js", "model.js", "sections/playground.js")
STYLES = ("playground.css",)
FEWEST = 5  # tokens that are worth a playground
MOST_TOKENS = 120
MOST_NUMBERS = 24_000  # of the readout of one instance, 128 kB of a page
MOST_OF_TAIL = 60_000
MOST_SEARCHED = 1_500  # positions times numbers of a row whose frontier is searched


def epsilon_of(about: About, task: str | None) -> float:
    """Return the change of the output that a run's adversary was allowed."""
    usual = settings_for_task(task).get("adversary", {}).get("epsilon", 0.01)
    return float(about.setting("adversary", "epsilon", usual))


def refusal(trace: Trace) -> str | None:
    """Say why a page cannot compute the output of this trace; None if it can."""
    if trace.metadata["tail"] not in ("identity", "tanh_mlp"):
        return "Behind the attended sum this model has further layers, which a page cannot compute."
    if isinstance(trace.tail, TanhTail) and trace.tail.weight.size > MOST_OF_TAIL:
        weights = f"{trace.tail.weight.size:,} weights"
        return f"The last layer of this model has {weights}, too many for a page."
    return None


def playground_section(
    rows: Trace, facts: pl.DataFrame, epsilon: float, unit: str = TEXT
) -> Section | None:
    """Make the playground of ``rows``; None without attention, or if all have a single token.

    Args:
        rows: Rows of a trace.
        facts: Tables of the experiments side by side, a row per row, or empty.
        epsilon: Change of the output within which attention is sought.
        unit: What a row is called.
    """
    if not rows.has("alpha") or not (rows.alpha.lengths > 1).any():
        return None
    reason, data = refusal(rows), {}
    if reason is None:
        data = {"playground-data": playground_data(rows, facts, epsilon)}
        if not data["playground-data"]["instances"]:
            width = f"{rows.readout.contribution.values.shape[1]:,} numbers to the output"
            reason, data = f"Each position contributes {width}, too many for a page.", {}
    content = {"reason": reason, "epsilon": epsilon, "unit": unit}
    return Section("playground", content, "Playground", SCRIPTS if data else (), data, STYLES)


def playground_addresses(section: Section | None) -> dict[str, str]:
    """Return the address within the page of each row that the playground has, by its name."""
    data = {} if section is None else section.data.get("playground-data", {})
    return {one["title"]: f"play-{one['id']}" for one in data.get("instances", ())}


def playground_data(rows: Trace, facts: pl.DataFrame, epsilon: float) -> dict[str, Any]:
    """Return what the page's script computes with."""
    width = rows.readout.contribution.values.shape[1]
    budget = min(MOST_TOKENS, MOST_NUMBERS // width)
    lengths = rows.alpha.lengths
    fit = np.flatnonzero((lengths > 1) & (np.minimum(lengths, FEWEST) <= budget))
    # One logit has an exact frontier; any other is searched, row by row.
    drawn = fit if one_logit_decides(rows.readout) else fit[lengths[fit] * width <= MOST_SEARCHED]
    curves = {}
    if len(drawn):
        epsilons = frontier_epsilons(rows, epsilon)
        found, upper = frontier(rows.take(drawn), epsilons)
        points = np.stack([np.broadcast_to(epsilons, found.shape), found, upper], axis=2)
        curves = dict(zip(drawn.tolist(), np.round(points, 6).tolist(), strict=True))
    tail = rows.tail if isinstance(rows.tail, TanhTail) else None
    known, names = facts.to_dicts() or [{}] * len(rows), full_names(rows)
    return {
        "instances": [
            {"title": names[k], "id": as_address(names[k])}
            | _entry(rows, k, known[k], budget)
            | {"frontier": curves.get(k)}
            for k in fit.tolist()
        ],
        "classes": [visible(name) for name in rows.class_names],
        "model": {
            "activation": rows.metadata["activation"],
            "tail": tail and {"weight": _packed(tail.weight), "bias": _packed(tail.bias)},
        },
        "epsilon": epsilon,
    }


def _entry(rows: Trace, k: int, facts: Mapping[str, Any], budget: int) -> dict[str, Any]:
    """Return one row with what experiments measured of it.

    ``gaps`` are the listed tokens before which some are skipped.
    """
    alpha, tokens, values = rows.alpha[k], rows.tokens(k), rows.readout.contribution[k]
    positions = listed_positions(rows, k, facts, budget)
    hidden = np.setdiff1d(np.arange(len(alpha)), positions)
    share = alpha[hidden] if alpha[hidden].sum() > 0 else np.ones(len(hidden))
    # The readout of the rest is the mean by the model's own weights.
    rest = [share / share.sum() @ values[hidden]] if len(hidden) else []

    adversary, emax = facts.get("alpha"), [facts.get(m) for m in ("emax_jsd", "emax_jsd_upper")]
    moved = None if adversary is None else np.asarray(adversary)[positions]
    minimum, places = facts.get(MINIMUM), {p: place for place, p in enumerate(positions.tolist())}
    candidates = rows.readout.candidates
    question = rows.cell("question", k) if rows.has("question") else None
    return {
        "predicted": visible(rows.class_names[int(rows.predicted[k])]),
        "question": " ".join(map(visible, question or ())),
        "tokens": [visible(tokens[t]) for t in positions.tolist()],
        "gaps": np.flatnonzero(np.diff(positions, prepend=-1) > 1).tolist(),
        "rest": len(hidden),
        "alpha": _packed(np.append(alpha[positions], [alpha[hidden].sum()] * len(rest))),
        "readout": _packed(np.vstack([values[positions], *rest])),
        "offset": _packed(rows.readout.offset[k]),
        "allowed": None if candidates is None else candidates[k].tolist(),
        "adversary": _packed(np.append(moved, [0.0] * len(rest)))
        if moved is not None and np.isclose(moved.sum(), 1)
        else None,
        "emax": None if None in emax else emax,
        "minimum": [places[p] for p in minimum]
        if minimum and {*minimum} <= places.keys()
        else None,
    }


def listed_positions(
    rows: Trace, k: int, facts: Mapping[str, Any], budget: int
) -> Int64[np.ndarray, " s"]:
    """Choose the tokens of a row that have a bar of their own: those that can matter most."""
    alpha, values = rows.alpha[k], rows.readout.contribution[k]
    if len(alpha) <= budget:
        return np.arange(len(alpha))
    adversary, room = facts.get("alpha"), budget - 1  # a place for the rest
    score = alpha / alpha.max()
    if adversary is not None:
        score = np.maximum(score, np.asarray(adversary) / max(adversary))
    # Without the extremes of the readout no reader could reach the largest changes.
    score[np.unique([values.argmin(axis=0)[:2], values.argmax(axis=0)[:2]])] = 1.0
    score[facts.get(MINIMUM) or []] = 1.0
    return np.sort(np.argsort(-score, kind="stable")[:room])


def _packed(values: Float[np.ndarray, "..."]) -> str:
    """Return numbers as base64 of little-endian float32, row by row."""
    return base64.b64encode(np.ascontiguousarray(values, "<f4").tobytes()).decode()
