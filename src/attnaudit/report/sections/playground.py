"""The playground: a reader moves the attention of an instance and sees the output.

The page computes it from the trace's readout, which it has as base64 float32. In a long text the
tokens with weight are listed one by one, and the rest is one bar: its tokens move in proportion, so
that output and divergence stay exact. If a page cannot compute the output it has points that were
computed beforehand, of attention that is moved step by step to one token. The attention of a point is
``(1 - share) · alpha + share · e_t``; between points nothing is known.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from jaxtyping import Float, Int64

from attnaudit.core.errors import RunError
from attnaudit.core.extras import require
from attnaudit.core.ragged import Ragged
from attnaudit.experiments import settings_for_task
from attnaudit.experiments.adversary.exact import one_logit_decides
from attnaudit.experiments.adversary.frontier import frontier, frontier_epsilons
from attnaudit.experiments.erasure.experiment import MINIMUM
from attnaudit.experiments.ranges.experiment import Ranges
from attnaudit.experiments.ranges.half_spaces import most_half_spaces
from attnaudit.report.page import Section
from attnaudit.report.sections.heatmaps import (
    full_name,
    head_of_row,
    row_name,
    shown_positions,
    visible,
)
from attnaudit.results.about import About
from attnaudit.results.summary import INSTANCE
from attnaudit.stats.measures import jsd, tvd
from attnaudit.trace import Trace
from attnaudit.trace.tails import Network, TanhTail

READ = (
    "instance",
    "tokens",
    "question",
    "alpha",
    "readout",
    "offset",
    "prediction",
    "candidates",
    "label",
    "layer",
    "head",
    "query",
)
SCRIPTS = ("heatmap.js", "save.js", "chart.js", "model.js", "sections/playground.js")
STYLES = ("playground.css",)
LINKS = (("Playground", "#playground"),)
FEWEST = 5  # tokens that are worth a playground
MOST_TOKENS = 120
MOST_NUMBERS = 24_000  # of the readout of one instance, 128 kB of a page
MOST_OF_TAIL = 60_000
MOST_OF_LISTED = 4_000  # numbers of an instance without a heatmap
MOST_OF_LIST = 150_000  # numbers of all of these together, 800 kB of a page
MOST_SEARCHED = 1_500  # positions times numbers of a row whose frontier is searched
MOST_PROGRAMS = 40_000  # T² · half-spaces of a row whose ranges are computed, about 40 ms
COMPUTED = ("identity", "tanh_mlp")  # tails
SHARES = (0.1, 0.25, 0.5, 0.75, 1.0)  # of the points
MOST_TOKENS_OF_POINTS = 40
MOST_NUMBERS_OF_POINTS = 20_000  # of an instance, 107 kB of a page


def epsilon_of(about: About, task: str | None) -> float:
    """Return the change of the output that a run's adversary was allowed."""
    usual = settings_for_task(task).get("adversary", {}).get("epsilon", 0.01)
    return float(about.setting("adversary", "epsilon", usual))


def refusal(trace: Trace) -> str | None:
    """Say why a page cannot compute the output of this trace; None if it can."""
    if trace.metadata["tail"] not in COMPUTED:
        return "Behind the attended sum this model has further layers, which a page cannot compute."
    if isinstance(trace.tail, TanhTail) and trace.tail.weight.size > MOST_OF_TAIL:
        weights = f"{trace.tail.weight.size:,} weights"
        return f"The last layer of this model has {weights}, too many for a page."
    return None


def playground_section(
    rows: Trace,
    facts: pl.DataFrame,
    epsilon: float,
    unit: str = INSTANCE,
    listed: tuple[Trace, pl.DataFrame] | None = None,
) -> Section | None:
    """Make the playground of ``rows``; None if all have a single token.

    Args:
        rows: Rows of a trace with a heatmap.
        facts: Tables of the experiments side by side, a row per row, or empty.
        epsilon: Change of the output within which attention is sought.
        unit: What a row is called.
        listed: Further rows with their facts; they have no frontier, and as many are given as there
            is room for.
    """
    if not (rows.alpha.lengths > 1).any():
        return None
    reason = refusal(rows)
    if reason is not None:
        return _section_of_points(rows, facts, reason, epsilon, unit)
    data = playground_data(rows, facts, epsilon)
    if not data["instances"]:
        width = rows.readout.contribution.values.shape[1]
        numbers = f"{width:,} numbers to the output"
        return _refused(f"Each position contributes {numbers}, too many for a page.")
    further, skipped = (listed_entries(*listed), len(listed[0])) if listed is not None else ([], 0)
    data["instances"] += further
    content = moving(epsilon, any(one["rest"] for one in data["instances"]), unit)
    content |= {"left_out": data.pop("left_out") + skipped - len(further), "further": len(further)}
    content |= {"most": MOST_OF_LISTED, "most_together": MOST_OF_LIST}
    return _section(content, data)


def moving(epsilon: float, rest: bool, unit: str = INSTANCE) -> dict[str, Any]:
    """Return the content of a playground whose output the page computes."""
    content = {"reason": None, "computes": True, "epsilon": epsilon, "rest": rest, "unit": unit}
    return content | {"left_out": 0, "further": 0}


def _section(content: Mapping[str, Any], data: Mapping[str, Any]) -> Section:
    read = {"playground-data": data}
    return Section("playground", content, LINKS, SCRIPTS, read, STYLES)


def _refused(reason: str) -> Section:
    return Section("playground", {"reason": reason}, LINKS, styles=STYLES)


def listed_entries(rows: Trace, facts: pl.DataFrame) -> list[dict[str, Any]]:
    """Return entries of rows without a heatmap, as many as `MOST_OF_LIST` holds, in their order."""
    known = _facts(rows, facts)
    lengths, width = rows.alpha.lengths, rows.readout.contribution.values.shape[1]
    numbers = lengths * (width + 4)  # with attention of four kinds
    numbers = np.where((lengths > 1) & (numbers <= MOST_OF_LISTED), numbers, 0)
    fit = np.flatnonzero((numbers > 0) & (np.cumsum(numbers) <= MOST_OF_LIST))
    return [_entry(rows, k, known[k], MOST_TOKENS, None) | {"listed": True} for k in fit.tolist()]


def playground_data(rows: Trace, facts: pl.DataFrame, epsilon: float) -> dict[str, Any]:
    """Return what the page's script computes with, and ``left_out``, rows without an entry."""
    known = _with_ranges(rows, _facts(rows, facts), epsilon)
    budget = min(MOST_TOKENS, MOST_NUMBERS // rows.readout.contribution.values.shape[1])
    several = np.flatnonzero(rows.alpha.lengths > 1)
    fit = several[np.minimum(rows.alpha.lengths[several], FEWEST) <= budget]
    curves = _frontiers(rows, fit, epsilon)
    tail = rows.tail if isinstance(rows.tail, TanhTail) else None
    return {
        "instances": [_entry(rows, k, known[k], budget, curves.get(k)) for k in fit.tolist()],
        "classes": [visible(name) for name in rows.class_names],
        "model": {
            "activation": rows.metadata["activation"],
            "tail": tail and {"weight": _packed(tail.weight), "bias": _packed(tail.bias)},
        },
        "epsilon": epsilon,
        "left_out": len(several) - len(fit),
    }


def _facts(rows: Trace, facts: pl.DataFrame) -> list[dict[str, Any]]:
    return facts.to_dicts() if facts.height == len(rows) else [{} for _ in range(len(rows))]


def _with_ranges(rows: Trace, known: list[dict[str, Any]], epsilon: float) -> list[dict[str, Any]]:
    """Add the ranges of short rows that the draw of `Ranges` passed over."""
    programs = rows.alpha.lengths**2 * most_half_spaces(max(rows.prediction.shape[1], 2))
    lacking = ["possible" in one and one["possible"] is None for one in known]
    chosen = np.flatnonzero(np.array(lacking, bool) & (programs <= MOST_PROGRAMS))
    if len(chosen):
        table = Ranges(epsilon=epsilon, share=1.0)(rows.take(chosen))
        ends = table.select("necessary", "possible").to_dicts()
        for row, found in zip(chosen.tolist(), ends, strict=True):
            known[row] |= found
    return known


def _frontiers(
    rows: Trace, fit: Int64[np.ndarray, " k"], epsilon: float
) -> dict[int, list[list[float]]]:
    """Return ε, the JSD found and what none exceeds, of every row that can be afforded."""
    sizes = rows.alpha.lengths[fit] * rows.readout.contribution.values.shape[1]
    chosen = fit if one_logit_decides(rows.readout) else fit[sizes <= MOST_SEARCHED]
    if not len(chosen):
        return {}
    epsilons = frontier_epsilons(rows, epsilon)
    found, upper = frontier(rows.take(chosen), epsilons)
    points = np.stack([np.broadcast_to(epsilons, found.shape), found, upper], axis=2)
    return dict(zip(chosen.tolist(), np.round(points, 6).tolist(), strict=True))


def _entry(
    rows: Trace, k: int, facts: Mapping[str, Any], budget: int, curve: list[list[float]] | None
) -> dict[str, Any]:
    """Return one row with what experiments measured of it."""
    alpha, readout = rows.alpha[k], rows.readout
    positions = listed_positions(rows, k, facts, budget)
    hidden = np.ones(len(alpha), bool)
    hidden[positions] = False
    values = readout.contribution[k]
    share = alpha[hidden] if alpha[hidden].sum() > 0 else np.ones(hidden.sum())
    # The readout of the rest is the mean by the model's own weights.
    rest = [share / share.sum() @ values[hidden]] if hidden.any() else []
    adversary, limits = facts.get("alpha"), [facts.get(m) for m in ("emax_jsd", "emax_jsd_upper")]

    def folded(weights: Float[np.ndarray, " T"]) -> str:
        return _packed(np.append(weights[positions], [weights[hidden].sum()] * len(rest)))

    def listed(name: str) -> str | None:
        weights = facts.get(name)
        known = weights is not None and len(weights) == len(alpha)
        return _packed(np.asarray(weights)[positions]) if known else None

    moved = adversary is not None and len(adversary) == len(alpha)
    moved = moved and np.asarray(adversary)[hidden].sum() < 1e-9  # the rest has none of it
    places, minimum = {p: place for place, p in enumerate(positions.tolist())}, facts.get(MINIMUM)
    return _described(rows, k, positions) | {
        "rest": int(hidden.sum()),
        "alpha": folded(alpha),
        "readout": _packed(np.vstack([values[positions], *rest])),
        "offset": _packed(readout.offset[k]),
        "allowed": None if readout.candidates is None else readout.candidates[k].tolist(),
        "adversary": folded(np.asarray(adversary)) if moved else None,
        "emax": None if None in limits else limits,
        "minimum": [places[p] for p in minimum]
        if minimum and places.keys() >= {*minimum}
        else None,
        "least": listed("necessary"),
        "most": listed("possible"),
        "frontier": curve,
    }


def listed_positions(
    rows: Trace, k: int, facts: Mapping[str, Any], budget: int
) -> Int64[np.ndarray, " s"]:
    """Choose the tokens of a row that have a bar of their own."""
    length = len(rows.alpha[k])
    room = budget if length <= budget else budget - 1  # a place for the rest
    values, adversary = rows.readout.contribution[k], facts.get("alpha")
    ends = np.unique([values.argmin(axis=0)[:2], values.argmax(axis=0)[:2]])
    marked = [np.asarray(adversary)] if adversary is not None else []
    for positions in (ends, facts.get(MINIMUM) or []):
        if 0 < len(positions) <= room // 2:
            marked.append(np.isin(np.arange(length), positions).astype(float))
    return _heaviest([rows.alpha[k], *(row for row in marked if len(row) == length)], room)


def _heaviest(marked: Sequence[np.ndarray], room: int) -> Int64[np.ndarray, " s"]:
    """Return the positions with the largest weights, with their neighbours if there is room."""
    length = len(marked[0])
    if length <= room:
        return np.arange(length)
    positions, _ = shown_positions(marked, room)
    needed = np.flatnonzero(np.max([np.zeros(length), *marked[1:]], axis=0) >= 0.5)
    if len(np.setdiff1d(needed, positions)) or not 0 < len(positions) <= room:
        relative = np.max([row / (row.max() or 1.0) for row in marked], axis=0)
        positions = np.argsort(-relative, kind="stable")[:room]
    return np.sort(positions)


def _described(rows: Trace, k: int, positions: Int64[np.ndarray, " s"]) -> dict[str, Any]:
    """Name a row, its prediction and its tokens; ``gaps`` are those before which some are skipped."""
    tokens = rows.tokens(k)
    question = rows.cell("question", k) if rows.has("question") else None
    return {
        "title": row_name(str(rows.instance[k]), head_of_row(rows, k)),
        "id": full_name(rows, k).replace(" ", "-"),
        "predicted": visible(rows.class_names[int(rows.predicted[k])]),
        "question": " ".join(map(visible, question or ())),
        "tokens": [visible(tokens[t]) for t in positions.tolist()],
        "gaps": np.flatnonzero(np.diff(positions, prepend=-1) > 1).tolist(),
    }


def _packed(values: np.ndarray) -> str:
    """Return numbers as base64 of little-endian float32, row by row."""
    return base64.b64encode(np.ascontiguousarray(values, "<f4").tobytes()).decode()


def _section_of_points(
    rows: Trace, facts: pl.DataFrame, reason: str, epsilon: float, unit: str
) -> Section:
    """Make the playground of points; a sentence if the output cannot be computed here either."""
    missing, outputs = _why_no_points(rows), rows.prediction.shape[1]
    room = min(MOST_TOKENS_OF_POINTS, MOST_NUMBERS_OF_POINTS // (len(SHARES) * (outputs + 2)))
    if not missing and room < FEWEST:
        missing = f"It has {outputs:,} outputs, too many for points on a page."
    if missing:
        return _refused(f"{reason} {missing}")
    known, entries = _facts(rows, facts), []
    for k in np.flatnonzero(rows.alpha.lengths > 1).tolist():
        own, adversary = rows.alpha[k], known[k].get("alpha")
        marked = [np.asarray(weights) for weights in (own, adversary) if weights is not None]
        positions = _heaviest([row for row in marked if len(row) == len(own)], room)
        weights = {"alpha": _packed(own[positions]), "points": _packed(points(rows, k, positions))}
        entries.append(_described(rows, k, positions) | {"rest": 0} | weights)
    data = {"instances": entries, "classes": list(map(visible, rows.class_names))}
    content = {"reason": None, "computes": False, "lead": reason, "unit": unit, "shares": SHARES}
    content |= {"cut": bool((rows.alpha.lengths > room).any()), "most": room}
    return _section(
        content | {"further": 0, "left_out": 0}, data | {"shares": SHARES, "epsilon": epsilon}
    )


def _why_no_points(rows: Trace) -> str:
    """Say why no readout of these rows can be asked; empty if one can."""
    if rows.metadata["tail"] == "replay" and not isinstance(rows.tail, Network):
        return (
            "Its trace has none of these layers, so that no point could be computed without the "
            "model."
        )
    if rows.metadata["tail"] == "onnx":
        try:
            require("onnx", "compute points")
        except RunError as error:
            return f"Points are computed with the extra onnx: {error.do}."
    return ""


def points(rows: Trace, k: int, positions: Int64[np.ndarray, " s"]) -> Float[np.ndarray, "m K"]:
    """Compute TVD, JSD and prediction of row ``k`` under attention moved to single tokens.

    The first row is the model's own attention; the others have each of `SHARES` at each of
    ``positions`` in turn: m = 1 + s · len(SHARES), K = 2 + C.
    """
    own = rows.alpha[k]
    at, share = np.repeat(positions, len(SHARES)), np.tile(SHARES, len(positions))
    weights = np.vstack([own, (1.0 - share[:, None]) * own])
    weights[np.arange(1, len(weights)), at] += share
    count = len(weights)
    prediction = rows.readout.take(np.full(count, k))(Ragged.from_rows(list(weights)))
    changes = tvd(prediction, np.tile(prediction[:1], (count, 1)))
    return np.column_stack([changes, jsd(weights, np.tile(own, (count, 1))), prediction])
