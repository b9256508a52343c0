"""Print Markdown tables row by row, and write plots."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path

import altair as alt

from attnaudit.core.files import write_text
from attnaudit.report.charts.svg import drawn

# A file is shown as an image, which does not take its colour from the page.
_INK = "<style>svg{color:#24292f}@media(prefers-color-scheme:dark){svg{color:#d1d7de}}</style>"


def print_header(columns: Sequence[str]) -> None:
    """Print the names of columns."""
    print_row(columns)
    print_row(["---"] * len(columns))


def print_row(cells: Iterable[object]) -> None:
    """Print the cells of a row."""
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def figure(value: float) -> str:
    """Format with three significant digits."""
    return f"{value:.{max(2 - math.floor(math.log10(value)), 0)}f}"


def write_plot(path: Path, chart: alt.LayerChart | alt.FacetChart, label: str) -> None:
    """Write an SVG file that reads on light and on dark pages."""
    svg = drawn("", chart.properties(width=520), path.stem, label).svg
    write_text(path, svg.replace("</title>", f"</title>{_INK}", 1))
