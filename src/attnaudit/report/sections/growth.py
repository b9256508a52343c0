"""A few texts whose attention and relevance a reader can follow during training, step by step."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from attnaudit.report.page import Section
from attnaudit.report.sections.heatmaps import densest, full_colour, marks_words, visible
from attnaudit.studies.dynamics.relevance import followed

BUDGET = 90  # tokens of a text that are shown


def growth_section(table: pl.DataFrame) -> Section | None:
    """Make the section of the texts that a table of dynamics follows; None without any."""
    texts = list(followed(table))
    if not texts:
        return None
    instances, steps = [_entry(*text) for text in texts], texts[0][1]["step"].to_list()
    content = {
        "names": [f"{one['name']} ({one['gold']})" for one in instances],
        "last": len(steps) - 1,
        "translates": "query" in table.columns,
        "pieces": any(marks_words(rows["tokens"][0]) for _, rows, _ in texts),
    }
    data = {"growth-data": {"steps": steps, "instances": instances}}
    links, scripts = (("During training", "#growth"),), ("heatmap.js", "sections/growth.js")
    return Section("growth", content, links, scripts, data)


def _entry(
    number: tuple[Any, ...], rows: pl.DataFrame, scores: dict[str, np.ndarray]
) -> dict[str, Any]:
    """Describe one instance, or gold token.

    Of each score it has a row of shades for each step, in thousandths of the deepest colour that
    the score has at any step.
    """
    part, full, shades = densest(scores["alpha"].max(axis=0), BUDGET), {}, {}
    for kind, values in scores.items():
        deepest = max(map(full_colour, values)) if kind == "alpha" else np.abs(values).max()
        full[kind] = float(f"{deepest:.4g}")
        shades[kind] = np.rint(1000 * values[:, part] / (deepest or 1.0)).astype(int).tolist()
    return {
        "name": ", token ".join(map(str, number)),
        "gold": rows["gold"][0],
        "probability": [float(f"{p:.3g}") for p in rows["probability"]],
        "tokens": list(map(visible, rows["tokens"][0].to_list()[part])),
        "full": full,
        "shades": shades,
    }
