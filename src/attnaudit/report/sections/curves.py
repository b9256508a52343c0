"""Where a page cannot compute the output: points computed beforehand, of attention that is moved step by step to one token.

The attention of a point is ``(1 - share) · alpha + share · e_t``: every weight is scaled, and token t has the share besides. Its prediction
is the trace's own readout; between points nothing is known.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from jaxtyping import Float, Int64

from attnaudit.core.errors import RunError
from attnaudit.core.extras import require
from attnaudit.core.ragged import Ragged
from attnaudit.report.page import Section
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
from attnaudit.stats.measures import jsd, tvd
from attnaudit.trace import Trace
from attnaudit.trace.tails import Network

SHARES = (0.1, 0.25, 0.5, 0.75, 1.0)
MOST_TOKENS = 40  # of an instance
MOST_NUMBERS = 20_000  # of an instance, 107 kB of a page
SCRIPTS = (
    "colours.js",
    "playground_model.js",
    "playground_plane.js",
    "playground_links.js",
    "curves.js",
)


def curves_section(
    rows: Trace, facts: pl.DataFrame, reason: str, epsilon: float, unit: str
) -> Section:
    """The points of ``rows``, ``facts`` are the experiments' tables side by side, or empty; ``reason`` says why the page does not compute.

    Where the output cannot be computed here either, a sentence.
    """
    missing = _missing(rows)
    if missing:
        return without_playground(f"{reason} {missing}", unit)
    several, outputs = np.flatnonzero(rows.alpha.lengths > 1), rows.prediction.shape[1]
    room = min(MOST_TOKENS, MOST_NUMBERS // (len(SHARES) * (outputs + 2)))
    if room < FEWEST:
        return without_playground(
            f"{reason} It has {outputs:,} outputs, too many for points on a page.", unit
        )
    found = (
        facts["alpha"].to_list()
        if "alpha" in facts.columns and facts.height == len(rows)
        else [None] * len(rows)
    )
    data = {
        "instances": [_entry(rows, k, found[k], room) for k in several.tolist()], "classes": list(map(visible, rows.class_names)),
        "shares": SHARES, "epsilon": epsilon,
    }  # fmt: skip
    content = {
        "reason": reason,
        "unit": unit,
        "shares": SHARES,
        "cut": any(one["rest"] for one in data["instances"]),
        "most": room,
    }
    return Section("curves", content, LINK, SCRIPTS, {"curves-data": data}, STYLES)


def points(rows: Trace, k: int, positions: Int64[np.ndarray, " s"]) -> Float[np.ndarray, "m K"]:
    """TVD, JSD and prediction of row ``k`` under its own attention, then under each of `SHARES` at each of ``positions`` in turn.

    The first row is the model's own attention, the others go position by position: m = 1 + s · len(SHARES), K = 2 + C.
    """
    own = rows.alpha[k]
    at, share = np.repeat(positions, len(SHARES)), np.tile(SHARES, len(positions))
    weights = np.vstack([own, (1.0 - share[:, None]) * own])
    weights[np.arange(1, len(weights)), at] += share
    prediction = rows.readout.take(np.full(len(weights), k))(Ragged.from_rows(list(weights)))
    return np.column_stack(
        [
            tvd(prediction, np.tile(prediction[:1], (len(weights), 1))),
            jsd(weights, np.tile(own, (len(weights), 1))),
            prediction,
        ]
    )


def _missing(rows: Trace) -> str:
    """Why no readout of these rows can be asked; empty where it can."""
    if rows.metadata["tail"] == "replay" and not isinstance(rows.tail, Network):
        return "Its trace has none of these layers, so that no point could be computed without the model."
    if rows.metadata["tail"] == "onnx":
        try:
            require("onnx", "compute points")
        except RunError as error:
            return f"Points are computed with the extra onnx: {error.do}."
    return ""


def _entry(rows: Trace, k: int, adversary: list[float] | None, room: int) -> dict[str, Any]:
    own = rows.alpha[k]
    marked = (
        [own] if adversary is None or len(adversary) != len(own) else [own, np.asarray(adversary)]
    )
    positions = first_positions(marked, room)
    return {
        **described(rows, k, positions), "rest": len(own) - len(positions), "alpha": packed(own[positions]),
        "points": packed(points(rows, k, positions)),
    }  # fmt: skip
