"""Figures as inline SVG, rendered once: a page needs no script and no network to show them."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import altair as alt

from attnaudit.core.elsewhere import convert
from attnaudit.core.escapes import data_without_controls

Drawing = alt.Chart | alt.LayerChart | alt.FacetChart | alt.HConcatChart
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', Arial, sans-serif"
_INK = "currentColor"
_CONFIG: dict[str, Any] = {
    "background": "transparent",
    "aria": False,  # the chart has one label; its hundreds of marks need none each
    "font": FONT,
    # At the right there is room for fonts wider than those measured here.
    "padding": {"left": 4, "right": 14, "top": 4, "bottom": 4},
    "view": {"stroke": None},
    "axis": {
        **dict.fromkeys(
            ("labelColor", "titleColor", "domainColor", "tickColor", "gridColor"), _INK
        ),
        "gridOpacity": 0.12,
        "domainOpacity": 0.45,
        "tickOpacity": 0.45,
        "labelFontSize": 12,
        "titleFontSize": 12.5,
        "titleFontWeight": "normal",
        "tickSize": 4,
    },
    "axisY": {"titlePadding": 9},  # beyond labels in fonts wider than those measured here
    "text": {"color": _INK, "fontSize": 12},
    "legend": {
        "orient": "bottom",
        "direction": "vertical",
        "labelColor": _INK,
        "labelFontSize": 12,
        "labelLimit": 285,
        "symbolOpacity": 1,
        "symbolSize": 220,
    },
}


@dataclass(frozen=True)
class Panel:
    """One drawing, or a note why there is none.

    ``numbers`` is HTML of the tables behind it.
    """

    title: str
    svg: str = ""
    note: str = ""
    numbers: str = ""


@dataclass(frozen=True)
class Figure:
    """Panels with a title and a caption, which says what was measured and how to read it."""

    name: str
    title: str
    caption: str
    panels: tuple[Panel, ...]


def drawn(title: str, chart: Drawing, name: str, label: str, note: str = "") -> Panel:
    """Draw ``chart`` as an ``<svg>`` with the page's ink, with the numbers behind it.

    Args:
        title: Title of the panel.
        chart: The chart.
        name: Keeps ids apart on a page.
        label: What a screen reader says.
        note: A note below it.
    """
    # Altair put the chart together: checking it takes as long as drawing it.
    spec = data_without_controls(chart.to_dict(validate=False))
    try:
        svg = convert("vegalite_to_svg", spec | {"config": _CONFIG}).decode()
    except ValueError as error:  # such as for a long name of emoji, cut within one of them
        said = f"This chart could not be drawn ({error}); its numbers are below."
        return Panel(title, note=" ".join(filter(None, (note, said))), numbers=tables_behind(spec))
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', svg)
    svg = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", svg)
    # These parts have no label of their own.
    svg = re.sub(r' (?:role="graphics-\w+"|aria-roledescription="[^"]*")', "", svg)
    # The style sheet shrinks a chart by a fifth at most.
    wide = re.search(r'\bwidth="([\d.]+)"', svg)
    style = f"--wide: {wide.group(1) if wide else 600}px"
    head = f'<svg role="img" aria-labelledby="{name}-title" style="{style}"'
    named = f'><title id="{name}-title">{escape(label, quote=False)}</title>'
    svg = svg.replace("<svg", head, 1).replace(">", named, 1)
    return Panel(title, svg, note, tables_behind(spec))


MOST = 100  # rows of one table
_NAMES = {
    "low": "lower end",
    "high": "upper end",
    "q25": "lower quartile",
    "q50": "median",
    "q75": "upper quartile",
    "right": "to",
}


def tables_behind(spec: Mapping[str, Any]) -> str:
    """Return HTML of a collapsed list of the tables behind a chart; empty if none.

    Columns have the titles of their axes. Long tables show only evenly spaced rows.
    """
    titles = dict(_titles([part for key, part in spec.items() if key != "datasets"]))
    data = spec.get("datasets", {}).values()
    tables = "".join(_table(rows, titles) for rows in data if any(rows))
    summary = "<summary>Numbers of this chart</summary>"
    return f'<details class="behind">{summary}{tables}</details>' if tables else ""


def _titles(part: Any) -> Iterator[tuple[str, str]]:
    """Yield the fields that a part of a specification draws, with their titles."""
    if isinstance(part, Mapping):
        if part.get("field") and part.get("title"):
            yield part["field"], part["title"]
        part = list(part.values())
    if isinstance(part, list):
        for one in part:
            yield from _titles(one)


def _table(rows: Sequence[Mapping[str, Any]], titles: Mapping[str, str]) -> str:
    each = -(-len(rows) // MOST)
    heads = [_NAMES.get(field) or titles.get(field) or field.replace("_", " ") for field in rows[0]]
    head = "".join(f'<th scope="col">{escape(title)}</th>' for title in heads)
    cells = ("".join(f"<td>{_text(value)}</td>" for value in row.values()) for row in rows[::each])
    body = "".join(f"<tr>{line}</tr>" for line in cells)
    some = f", one of every {each} rows" if each > 1 else ""
    caption = f'<caption class="unseen">Numbers of this chart{some}</caption>'
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _text(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:.4g}".replace("-", "−") if isinstance(value, float) else escape(str(value))
