"""A few texts whose attention and relevance a reader can follow during training, step by step."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from attnaudit.report.page import Section
from attnaudit.report.sections.heatmaps import (
    Gap,
    full_colour,
    marks_words,
    shown_positions,
    visible,
)
from attnaudit.studies.dynamics.relevance import followed

BUDGET = 90  # tokens of a text that are shown


def growth_section(table: pl.DataFrame) -> Section | None:
    """The instances whose tokens a table of dynamics keeps; None without any."""
    texts = list(followed(table))
    if not texts:
        return None
    instances = [_entry(*text) for text in texts]
    content = {
        "names": [f"{one['name']} ({one['gold']})" for one in instances], "last": len(texts[0][1]) - 1,
        "translates": "query" in table.columns, "pieces": any(marks_words(rows["tokens"][0]) for _, rows, _ in texts),
    }  # fmt: skip
    data = {"growth-data": {"steps": texts[0][1]["step"].to_list(), "instances": instances}}
    return Section(
        "growth",
        content,
        (("During training", "#growth"),),
        ("heatmap.js", "sections/growth.js"),
        data,
    )


def _entry(
    number: tuple[Any, ...], rows: pl.DataFrame, scores: dict[str, np.ndarray]
) -> dict[str, Any]:
    """One instance, or gold token: a row of shades for each step, in thousandths of the deepest colour that the score has at any."""
    positions, pieces = shown_positions(
        [np.abs(values).max(axis=0) for values in scores.values()], BUDGET
    )
    tokens = rows["tokens"][0].to_list()
    full = {
        kind: max(map(full_colour, values)) if kind == "alpha" else float(np.abs(values).max())
        for kind, values in scores.items()
    }
    shades = {
        kind: np.rint(1000 * values[:, positions] / (full[kind] or 1.0)).astype(int).tolist()
        for kind, values in scores.items()
    }
    return {
        "name": ", token ".join(map(str, number)), "gold": rows["gold"][0], "probability": [float(f"{p:.3g}") for p in rows["probability"]],
        "tokens": [piece.size if isinstance(piece, Gap) else visible(tokens[piece]) for piece in pieces],
        "full": {kind: float(f"{value:.4g}") for kind, value in full.items()}, "shades": shades,
    }  # fmt: skip
