"""What a page that lets a reader move attention has of a row, whether the page computes its output or has points computed before."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
from jaxtyping import Int64

from attnaudit.report.page import Section
from attnaudit.report.sections.heatmaps import (
    full_name,
    head_of_row,
    row_name,
    shown_positions,
    visible,
)
from attnaudit.trace import Trace

READ = (
    "instance", "tokens", "question", "alpha", "readout", "offset", "prediction", "candidates", "label", "layer", "head", "query",
)  # fmt: skip
STYLES = ("playground.css",)
LINK = (("Playground", "#playground"),)
FEWEST = 5  # tokens that are worth a playground


def without_playground(reason: str, unit: str) -> Section:
    """A sentence in place of the playground."""
    return Section("playground", {"reason": reason, "unit": unit}, LINK, styles=STYLES)


def described(rows: Trace, k: int, positions: Int64[np.ndarray, " s"]) -> dict[str, Any]:
    """What a row is called, what was predicted, and the tokens at ``positions``; ``gaps`` are those before which tokens are skipped."""
    chosen, label = int(rows.predicted[k]), int(rows.array("label")[k]) if rows.has("label") else -1
    question = rows.cell("question", k) if rows.has("question") else None
    tokens = rows.tokens(k)
    return {
        "title": row_name(str(rows.instance[k]), head_of_row(rows, k)), "id": full_name(rows, k).replace(" ", "-"),
        "predicted": visible(rows.class_names[chosen]), "label": visible(rows.class_names[label]) if label >= 0 else None,
        "question": " ".join(map(visible, question or ())), "tokens": [visible(tokens[t]) for t in positions.tolist()],
        "gaps": np.flatnonzero(np.diff(positions, prepend=-1) > 1).tolist(),
    }  # fmt: skip


def first_positions(marked: list[np.ndarray], room: int) -> Int64[np.ndarray, " s"]:
    """The positions with the largest of these weights, with their neighbours where there is room."""
    length = len(marked[0])
    if length <= room:
        return np.arange(length)
    positions, _ = shown_positions(marked, room)
    needed = (
        np.flatnonzero(np.max(marked[1:], axis=0) >= 0.5)
        if len(marked) > 1
        else np.zeros(0, np.int64)
    )
    missing = np.setdiff1d(needed, positions)
    if len(missing) or not len(positions) or len(positions) > room:
        relative = np.max([row / (row.max() or 1.0) for row in marked], axis=0)
        positions = np.argsort(-relative, kind="stable")[:room]
    return np.sort(positions)


def packed(values: np.ndarray) -> str:
    """Numbers as base64 of little-endian float32, row by row."""
    return base64.b64encode(np.ascontiguousarray(values, "<f4").tobytes()).decode()
