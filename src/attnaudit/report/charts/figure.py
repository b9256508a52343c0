"""A figure of a report: drawings with a caption."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Panel:
    """One drawing, or the reason why there is none."""

    title: str
    svg: str = ""
    note: str = ""


@dataclass(frozen=True)
class Figure:
    """``caption`` says what was measured and what is read from it."""

    name: str
    title: str
    caption: str
    panels: tuple[Panel, ...]
