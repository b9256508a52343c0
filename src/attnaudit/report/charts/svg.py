"""Figures as inline SVG: rendered once, so that a page needs no script and no network to show them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import escape
from typing import Any

import altair as alt
import vl_convert

from attnaudit.report.charts.behind import tables_behind

Drawing = alt.Chart | alt.LayerChart | alt.FacetChart | alt.HConcatChart
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', Arial, sans-serif"
_INK = "currentColor"
_CONFIG: dict[str, Any] = {
    "background": "transparent",
    "aria": False,  # the chart has one label; its hundreds of marks need none each
    "font": FONT,
    "padding": {"left": 4, "right": 14, "top": 4, "bottom": 4},  # at the right for fonts wider than those measured here
    "view": {"stroke": None},
    "axis": {
        "labelColor": _INK, "titleColor": _INK, "domainColor": _INK, "tickColor": _INK, "gridColor": _INK, "gridOpacity": 0.12,
        "domainOpacity": 0.45, "tickOpacity": 0.45, "labelFontSize": 12, "titleFontSize": 12.5, "titleFontWeight": "normal", "tickSize": 4,
    },
    "axisY": {"titlePadding": 9},  # beyond labels in fonts wider than those measured here
    "text": {"color": _INK, "fontSize": 12},
}  # fmt: skip


@dataclass(frozen=True)
class Panel:
    """One drawing, or the reason why there is none; ``legend`` has (name, colour, sign) of what it draws, where it needs its own, and
    ``numbers`` is HTML of the tables behind it.
    """

    title: str
    svg: str = ""
    note: str = ""
    legend: tuple[tuple[str, str, str], ...] = ()
    numbers: str = ""


@dataclass(frozen=True)
class Figure:
    """``caption`` says what was measured and what is read from it."""

    name: str
    title: str
    caption: str
    panels: tuple[Panel, ...]


def drawn(
    title: str,
    chart: Drawing,
    name: str,
    label: str,
    note: str = "",
    legend: tuple[tuple[str, str, str], ...] = (),
) -> Panel:
    """A panel of ``chart``, as `render` draws it, with the numbers behind it."""
    spec = chart.to_dict(validate=False)
    return Panel(title, _svg(spec, name, label), note, legend, tables_behind(spec))


def render(chart: Drawing, name: str, label: str) -> str:
    """``chart`` as an ``<svg>`` with the page's ink; ``name`` keeps ids apart on a page, ``label`` is what a screen reader says."""
    return _svg(
        chart.to_dict(validate=False), name, label
    )  # what altair itself put together: checking it takes as long as drawing it


def _svg(spec: dict[str, Any], name: str, label: str) -> str:
    svg = re.sub(
        r'\bid="([^"]+)"',
        rf'id="{name}-\1"',
        vl_convert.vegalite_to_svg(spec | {"config": _CONFIG}),
    )
    svg = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", svg)
    svg = re.sub(
        r' (?:role="graphics-\w+"|aria-roledescription="[^"]*")', "", svg
    )  # of parts that have no label of their own
    wide = re.search(r'\bwidth="([\d.]+)"', svg)  # which the style sheet shrinks by a fifth at most
    head = f'<svg role="img" aria-labelledby="{name}-title" style="--wide: {wide.group(1) if wide else 600}px"'
    return svg.replace("<svg", head, 1).replace(
        ">", f'><title id="{name}-title">{escape(label, quote=False)}</title>', 1
    )
