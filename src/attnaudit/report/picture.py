"""Figures and heatmaps as files: SVG and PNG with ink on white, for papers and slides."""

import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from pathlib import Path

from rich.cells import cell_len

from attnaudit.core import InputError, RunError, expanded
from attnaudit.core.display import Shown
from attnaudit.core.elsewhere import convert
from attnaudit.core.files import write_bytes
from attnaudit.report.charts.palette import LegendEntry
from attnaudit.report.charts.svg import Figure
from attnaudit.report.sections.heatmaps import Heatmap, Strip

INK, PAPER = "#1b1b1f", "#ffffff"
ATTENTION, IMPORTANCE = "232,89,12", "12,152,172"  # the hues of a page
MARGIN, WIDTH = 16, 760  # pixels
_SIZE, _CELL, _LINE = 14, 8.43, 26  # of monospaced text: height, width of a cell, distance of lines
_TITLE = 22
_SCALE = 2  # pixels of a PNG for each of an SVG


def save_shown(shown: Shown, path: str | Path) -> Path:
    """Write what a notebook shows into a file.

    Args:
        shown: A figure, a heatmap or a playground.
        path: Its ending is ``.svg`` or ``.png``, which a playground cannot be, or ``.html``.

    Raises:
        InputError: If the ending is another one.
        RunError: If the file cannot be written.
    """
    path = expanded(path)
    kinds = [".html", *([".svg", ".png"] if shown.svg else [])]
    if path.suffix.lower() not in kinds:
        raise InputError("save picture", str(path), f"ending {path.suffix!r}", " or ".join(kinds))
    if path.suffix.lower() == ".png":
        try:
            content = convert("svg_to_png", shown.svg, _SCALE)
        except ValueError as error:
            do = "save it as .svg"
            raise RunError("save picture", str(path), str(error), "a drawing", do) from error
    elif path.suffix.lower() == ".svg":
        content = shown.svg.encode()
    else:
        head = '<!doctype html><html lang="en"><meta charset="utf-8"><title>attnaudit</title>'
        content = f"{head}<body>{shown.html}</body></html>".encode()
    write_bytes(path, content)
    return path


def figures_svg(figures: Iterable[Figure], legend: Sequence[LegendEntry] = ()) -> str:
    """Draw the panels of figures below each other, and their legend; empty without a drawing."""
    panels = [panel.svg for one in figures for panel in one.panels if panel.svg]
    return _sheet([*panels, _legend(legend)] if panels and legend else panels)


def heatmaps_svg(pictures: Iterable[Heatmap]) -> str:
    """Draw the shadings of texts below each other."""
    return _sheet([_strip(picture, strip) for picture in pictures for strip in picture.strips])


def _sheet(drawings: Sequence[str]) -> str:
    if not drawings:
        return ""
    top, widest, parts = float(MARGIN), 0.0, list[str]()
    for drawing in drawings:
        lengths = (re.search(rf'\b{name}="([\d.]+)"', drawing) for name in ("width", "height"))
        width, height = (float(one[1]) if one else float(WIDTH) for one in lengths)
        parts.append(drawing.replace("<svg", f'<svg x="{MARGIN}" y="{top:g}"', 1))
        top, widest = top + height + MARGIN, max(widest, width)
    width = widest + 2 * MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{top:g}" '
        f'viewBox="0 0 {width:g} {top:g}" color="{INK}" fill="{INK}">'
        f'<rect width="{width:g}" height="{top:g}" fill="{PAPER}"/>{"".join(parts)}</svg>'
    )


def _legend(entries: Sequence[LegendEntry]) -> str:
    lines = [
        f'<line x1="4" x2="40" y1="{y}" y2="{y}" stroke="{one.colour}" stroke-width="3" '
        f'stroke-dasharray="{one.dash}"/><text x="48" y="{y + 4}">'
        f"{escape(f'{one.name} ({one.size})')}</text>"
        for y, one in zip(range(_LINE // 2, _LINE * len(entries), _LINE), entries, strict=True)
    ]
    longest = max(cell_len(f"{one.name} ({one.size})") for one in entries)
    return _drawing(lines, _LINE * len(entries), 56 + longest * _CELL)


def _strip(picture: Heatmap, strip: Strip) -> str:
    """Draw a text with a box behind each token, as opaque as its weight is large."""
    one = picture.instance
    title = f"{one.name} · {one.predicted} {one.probability:.2f} · {strip.caption}"
    hue = IMPORTANCE if strip.kind in ("gradient", "loo", "score") else ATTENTION
    parts = [f'<text x="0" y="13" font-size="12">{escape(title)}</text>']
    bottom = 0.0
    for token, shade, (x, y) in zip(
        picture.tokens, strip.shades, _places(picture.tokens), strict=True
    ):
        box = f'x="{x:g}" y="{y:g}" width="{_width(token):g}" height="{_LINE - 5}" rx="3"'
        parts.append(f'<rect {box} fill="rgb({hue})" fill-opacity="{0.72 * shade / 1000:.3g}"/>')
        parts.append(f'<text x="{x + 4:g}" y="{y + 15:g}">{escape(token)}</text>')
        bottom = y + _LINE
    return _drawing(parts, bottom + 4)


def _drawing(parts: Iterable[str], height: float, width: float = WIDTH) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
        f'font-family="monospace" font-size="{_SIZE}" fill="{INK}">{"".join(parts)}</svg>'
    )


def _places(tokens: Iterable[str]) -> Iterator[tuple[float, float]]:
    """Yield the left upper corner of each token, in lines that are not longer than `WIDTH`."""
    x, y = 0.0, float(_TITLE)
    for token in tokens:
        if x > 0 and x + _width(token) > WIDTH:
            x, y = 0.0, y + _LINE
        yield x, y
        x += _width(token) + 2


def _width(token: str) -> float:
    return min(cell_len(token) * _CELL, WIDTH - 8) + 8
