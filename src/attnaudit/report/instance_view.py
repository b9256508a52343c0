"""The instances of a page: heatmaps of the striking and of random ones, and the list that can be searched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from attnaudit.report.heatmaps import Heatmap, heatmap
from attnaudit.report.instances import read_instances
from attnaudit.report.selection import select
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
    """``data`` is what the page's script draws a row's heatmap from, one entry for each of ``listed``; ``total`` counts the trace."""

    striking: list[Heatmap]
    random: list[Heatmap]
    listed: list[ListedInstance]
    data: list[dict[str, Any]]
    total: int
    rule: str
    classes: list[str]
    has_rationale: bool
    has_adversary: bool


def instance_section(trace: Trace, rows: pl.DataFrame, seed: int) -> InstanceSection:
    """Choose, read and draw the instances of a page."""
    chosen = select(rows, trace, seed)
    pictures = [heatmap(instance, LISTED_TOKENS) for instance in read_instances(trace, rows, chosen.listed)]
    return InstanceSection(
        striking=[heatmap(instance, STATIC_TOKENS) for instance in read_instances(trace, rows, chosen.striking)],
        random=[heatmap(instance, STATIC_TOKENS) for instance in read_instances(trace, rows, chosen.random)],
        listed=[ListedInstance(picture, _snippet(picture)) for picture in pictures],
        data=[picture.as_json() for picture in pictures],
        total=len(trace),
        rule=chosen.rule,
        classes=sorted({picture.instance.predicted for picture in pictures}),
        has_rationale=any(any(picture.known) for picture in pictures),
        has_adversary="emax_jsd" in rows.columns,
    )


def _snippet(picture: Heatmap) -> str:
    """How the text begins; the question stands before it, since questions about one text would look alike."""
    words = [piece if isinstance(piece, str) else "…" for piece in picture.pieces[: SNIPPET + 1]]
    question = f"{picture.instance.question} · " if picture.instance.question else ""
    return question + " ".join(words[:SNIPPET]) + (" …" if len(words) > SNIPPET else "")
