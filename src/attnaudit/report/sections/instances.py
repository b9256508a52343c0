"""The instances of a page: heatmaps of the striking and of random ones, and the list that can be searched."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from attnaudit.report.sections.displayed_trace import rows_shown
from attnaudit.report.sections.heatmaps import Heatmap, heatmap
from attnaudit.report.sections.rows import read_instances
from attnaudit.report.sections.selection import select
from attnaudit.results.record import RunRecord
from attnaudit.trace import Trace

STATIC_TOKENS, LISTED_TOKENS = 120, 75
SNIPPET = 14  # tokens that the list shows of each text


@dataclass(frozen=True)
class ListedInstance:
    """A row of the list: ``snippet`` begins the text."""

    picture: Heatmap
    snippet: str


@dataclass(frozen=True)
class InstanceSection:
    """``data`` is what the page's script draws a row's heatmap from, one entry for each of ``listed``; ``total`` counts the trace.

    ``pictured`` are the trace rows of the striking and the random instances.
    """

    striking: list[Heatmap]
    random: list[Heatmap]
    listed: list[ListedInstance]
    data: list[dict[str, Any]]
    total: int
    rule: str
    classes: list[str]
    has_rationale: bool
    has_adversary: bool
    pictured: np.ndarray


def instance_section(trace: Trace | str | Path, seen: pl.DataFrame, rows: pl.DataFrame, record: RunRecord) -> InstanceSection:
    """Choose, read and draw the instances of a page; ``seen`` is the trace's overview, ``rows`` the tables of ``record`` side by side."""
    chosen = select(rows, seen, record.about.seed or 0)
    picks = np.unique(np.concatenate([chosen.listed, chosen.striking, chosen.random]))
    instances = dict(zip(picks.tolist(), read_instances(rows_shown(trace, picks), record.rows(picks)), strict=True))
    pictures = [heatmap(instances[row], LISTED_TOKENS) for row in chosen.listed.tolist()]
    return InstanceSection(
        striking=[heatmap(instances[row], STATIC_TOKENS) for row in chosen.striking.tolist()],
        random=[heatmap(instances[row], STATIC_TOKENS) for row in chosen.random.tolist()],
        listed=[ListedInstance(picture, _snippet(picture)) for picture in pictures],
        data=[picture.as_json() for picture in pictures],
        total=seen.height,
        rule=chosen.rule,
        classes=sorted({picture.instance.predicted for picture in pictures}),
        has_rationale=any(any(picture.known) for picture in pictures),
        has_adversary="emax_jsd" in rows.columns,
        pictured=np.unique(np.concatenate([chosen.striking, chosen.random])),
    )


def _snippet(picture: Heatmap) -> str:
    """How the text begins; the question stands before it, since questions about one text would look alike."""
    words = [piece if isinstance(piece, str) else "…" for piece in picture.pieces[: SNIPPET + 1]]
    question = f"{picture.instance.question} · " if picture.instance.question else ""
    return question + " ".join(words[:SNIPPET]) + (" …" if len(words) > SNIPPET else "")
