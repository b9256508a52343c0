"""A picture of every experiment for its page: ``python -m benchmarks.docs_pictures [--heads RUN]`` writes docs/images/experiments/.

It draws what the report draws, of the planted runs of the gallery (`benchmarks/docs_gallery.py`); an experiment without a figure has its
measures with their intervals. ``joint`` and ``agreement`` need an audit of a transformer: RUN, else their pictures are left as they are.
"""

from __future__ import annotations

import argparse
import re
from html import escape
from pathlib import Path

import altair as alt
import polars as pl

from attnaudit.core.files import write_text
from attnaudit.experiments import EXPERIMENTS, measure_label
from attnaudit.report.cards import columns_of_figures
from attnaudit.report.charts.instances import draw_figures, draw_summaries
from attnaudit.report.charts.marks import name_axis
from attnaudit.report.charts.svg import drawn
from attnaudit.results.record import RunRecord, read_record
from attnaudit.results.summary import ROW, TEXT
from benchmarks.docs_gallery import make

IMAGES = Path(__file__).parents[1] / "docs" / "images" / "experiments"
INK, PAPER, MARGIN, TITLE = "#1d1f24", "#ffffff", 16, 22
MOST = 9  # measures of an experiment without a figure
_SIZE = re.compile(r'<svg [^>]*?width="([\d.]+)" height="([\d.]+)"')


def picture(experiment: str, record: RunRecord) -> str:
    """The first figure of an experiment, its panels side by side, on paper of its own."""
    unit = ROW if record.summary["group"].str.starts_with("head:").any() else TEXT
    figures, _ = draw_figures(
        record.columns(columns_of_figures()), record.about.class_names, unit, (experiment,)
    )
    figures += draw_summaries(record.summary, unit, (experiment,))
    panels = (
        [(panel.title, panel.svg) for panel in figures[0].panels if panel.svg]
        if figures
        else [("", measures(experiment, record))]
    )
    return side_by_side(panels)


def measures(experiment: str, record: RunRecord) -> str:
    """The first measures with an interval, as points with their 95 % intervals."""
    rows = record.summary.filter(
        pl.col("group") == "all", pl.col("experiment") == experiment, pl.col("low").is_not_null()
    )
    rows = rows.filter(pl.col("value").abs() <= 1, ~pl.col("measure").str.contains("_minus_")).head(
        MOST
    )
    names = [measure_label(name, experiment) for name in rows["measure"]]
    chart = alt.Chart(rows.select("value", "low", "high", name=pl.Series(names)))
    y = alt.Y("name:N", sort=None, title=None, axis=name_axis(names, 480))
    ends = alt.Scale(domain=[min(0.0, float(rows["low"].min() or 0)), 1])  # type: ignore[arg-type]
    spans = chart.mark_rule(strokeWidth=4, opacity=0.4, color="#0072B2").encode(
        x=alt.X("low:Q", scale=ends, title=None, axis=alt.Axis(tickCount=5)), x2="high", y=y
    )
    points = chart.mark_point(filled=True, size=70, color="#0072B2", opacity=1).encode(
        x=alt.X("value:Q", title="mean and 95 % interval"), y=y
    )
    chart = alt.layer(spans, points).properties(width=300, height=24 * rows.height)
    return drawn("", chart, experiment, f"Measures of {experiment}").svg


def side_by_side(panels: list[tuple[str, str]]) -> str:
    """Drawings with their titles next to each other, as one file that needs no page."""
    sizes = [
        tuple(map(float, found.groups())) for _, panel in panels if (found := _SIZE.search(panel))
    ]
    left, top, parts = MARGIN, MARGIN + (TITLE if any(title for title, _ in panels) else 0), []
    for (title, panel), (width, _) in zip(panels, sizes, strict=True):
        parts.append(
            f'<text x="{left}" y="{MARGIN + 10}" font-family="sans-serif" font-size="13" fill="{INK}">{escape(title)}</text>'
        )
        parts.append(panel.replace("<svg ", f'<svg x="{left}" y="{top}" overflow="visible" ', 1))
        left += int(width) + MARGIN
    height = int(max(height for _, height in sizes)) + top + MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left}" height="{height}" viewBox="0 0 {left} {height}" color="{INK}">'
        f'<rect width="{left}" height="{height}" rx="6" fill="{PAPER}"/>{"".join(parts)}</svg>\n'
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])  # type: ignore[union-attr]
    parser.add_argument("--heads", help="an audit of a transformer, for joint and agreement")
    arguments = parser.parse_args()
    runs = {
        name: folder
        for name in ("planted", "planted-copy")
        if (folder := make(name, None)) is not None
    }
    sources = dict.fromkeys(EXPERIMENTS, runs["planted"]) | {
        "alignment": runs["planted-copy"],
        "joint": arguments.heads,
        "agreement": arguments.heads,
    }
    for experiment, folder in sources.items():
        if folder is not None:
            write_text(IMAGES / f"{experiment}.svg", picture(experiment, read_record(folder)))


if __name__ == "__main__":
    main()
