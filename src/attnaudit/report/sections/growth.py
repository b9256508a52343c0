"""A few texts whose attention and relevance a reader can follow during training, step by step."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from jaxtyping import Float

from attnaudit.report.page import Section
from attnaudit.report.sections.heatmaps import Gap, full_colour, marks_words, shown_positions, visible

BUDGET = 90  # tokens of a text that are shown
KINDS = ("alpha", "relevance", "relevance_uniform")


def growth_section(table: pl.DataFrame) -> Section | None:
    """The instances whose tokens a table of dynamics keeps; None without any."""
    if "tokens" not in table.columns:
        return None
    kept = table.filter(pl.col("tokens").is_not_null()).sort("step", "instance", maintain_order=True)
    steps = kept["step"].unique().sort().to_list()
    place = [name for name in ("instance", "query") if name in kept.columns]
    instances = [_entry(place, rows) for place, rows in kept.group_by(place, maintain_order=True)]
    if not instances:
        return None
    pieces = any(marks_words(rows) for rows in kept["tokens"].to_list())
    content = {
        "names": [f"{one['name']} ({one['gold']})" for one in instances], "last": len(steps) - 1, "translates": "query" in place,
        "pieces": pieces,
    }  # fmt: skip
    data = {"growth-data": {"steps": steps, "instances": instances}}
    return Section("growth", content, (("During training", "#growth"),), ("growth.js",), data)


def _entry(place: tuple[Any, ...], rows: pl.DataFrame) -> dict[str, Any]:
    """One instance, or gold token: a row of shades for each step, in thousandths of the deepest colour that the score has at any."""
    scores = {kind: np.array(rows[kind].to_list()) for kind in KINDS}
    if len(place) > 1:  # relevance of a gold token is a log-probability, never above 0: what counts is how it stands to the others'
        scores |= {kind: above_mean(scores[kind]) for kind in KINDS[1:]}
    positions, pieces = shown_positions([np.abs(values).max(axis=0) for values in scores.values()], BUDGET)
    tokens = rows["tokens"][0].to_list()
    full = {"alpha": max(map(full_colour, scores["alpha"])), **{kind: float(np.abs(scores[kind]).max()) for kind in KINDS[1:]}}
    shades = {kind: np.rint(1000 * values[:, positions] / (full[kind] or 1.0)).astype(int).tolist() for kind, values in scores.items()}
    return {
        "name": ", token ".join(map(str, place)), "gold": rows["gold"][0], "probability": [float(f"{p:.3g}") for p in rows["probability"]],
        "tokens": [piece.size if isinstance(piece, Gap) else visible(tokens[piece]) for piece in pieces],
        "full": {kind: float(f"{value:.4g}") for kind, value in full.items()}, "shades": shades,
    }  # fmt: skip


def above_mean(relevance: Float[np.ndarray, "n T"]) -> Float[np.ndarray, "n T"]:
    """Log-probabilities less their mean over the sentence, in nats: above 0 where a position speaks for the token more than most do."""
    return relevance - relevance.mean(axis=1, keepdims=True)
