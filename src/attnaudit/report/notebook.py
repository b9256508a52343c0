"""Traces and results in a notebook: fragments of HTML without scripts that bring their own style and load nothing.

Text takes the notebook's colour, lines and shades are mixtures with it, and no background is drawn: so a fragment follows the theme of
Jupyter, VS Code and Colab without asking which it is.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from attnaudit.core.display import Shown
from attnaudit.core.errors import InputError, did_you_mean
from attnaudit.core.numbers import thousands
from attnaudit.core.printable import printable
from attnaudit.experiments import measure_label
from attnaudit.report.card import VerdictCard, verdict
from attnaudit.report.cards import columns_of_figures
from attnaudit.report.charts.instances import draw_figures, draw_summaries
from attnaudit.report.charts.svg import Figure
from attnaudit.report.fragment import playground, rows_of
from attnaudit.report.meanings import measure_meaning
from attnaudit.report.page import rendered, style_of
from attnaudit.report.sections.heatmaps import Heatmap, heatmap, read_instances
from attnaudit.report.words import figure, interval
from attnaudit.results import Result, Results, counted
from attnaudit.results.about import About
from attnaudit.results.record import RunRecord
from attnaudit.results.summary import INSTANCE, ROW, Heads
from attnaudit.trace import Trace

FIRST, BRIEF = 6, 40  # rows of a trace that are shown, tokens of each
WHOLE, LINES = 2000, 300  # tokens of one text, in a notebook and in a terminal
MOST_ROWS = 12  # of one text, which may have many heads
MOST_CLASSES = 8
SHOWN = ("instance", "tokens", "alpha", "prediction")  # columns without which a row has no picture
_BARS = " ▁▂▃▄▅▆▇█"


def trace_html(trace: Trace) -> str:
    """The first rows of a trace, each shaded by its attention, however many rows there are."""
    rows = replace(trace, table=trace.table.head(FIRST)) if trace.has(*SHOWN) else None
    pictures = (
        []
        if rows is None
        else [_attention_alone(picture) for picture in _pictures(rows, pl.DataFrame(), BRIEF)]
    )
    names = trace.class_names if trace.has("prediction") else []
    classes = ", ".join(names[:MOST_CLASSES]) + (
        f" and {thousands(len(names) - MOST_CLASSES)} more" if len(names) > MOST_CLASSES else ""
    )
    return _fragment(
        "trace", title=About.of(None, trace.metadata).name or _origin(trace), rows=len(trace), classes=classes, pictures=pictures,
        columns=", ".join(trace.table.columns),
    )  # fmt: skip


def results_card(results: Results) -> VerdictCard:
    """The verdict card."""
    return verdict(results.summary, About.of(None, results.metadata))


def results_html(results: Results) -> str:
    """The verdict card."""
    card = results_card(results)
    return _fragment(
        "card",
        card=card,
        left_out=list(results.left_out.items()),
        meaning_of=partial(measure_meaning, unit=card.unit),
    )


def result_html(result: Result) -> str:
    """The figures of one experiment, and its summary over all instances."""
    figures, legend = _figures(
        result.experiment, {result.experiment: result.rows}, result.summary, {}
    )
    return _fragment("figures", figures=figures, legend=legend, table=_table(result))


def figures_of(results: Results, experiment: str) -> Shown:
    """The figures of one experiment of several, which may read what others measured. Raises InputError."""
    if experiment not in results:
        names = ", ".join(results) or "none: no experiment was run"
        reason = results.left_out.get(experiment)
        got = f"skipped: {reason}" if reason else "no such result"
        raise InputError(
            "show figure",
            f"experiment {experiment!r}",
            got,
            f"one of {names}",
            did_you_mean(experiment, results),
        )
    tables = {name: result.rows for name, result in results.items()}
    figures, legend = _figures(experiment, tables, results.summary, results.metadata)
    html = _fragment(
        "figures",
        figures=figures,
        legend=legend,
        table=() if figures else _table(results[experiment]),
    )
    titles = "; ".join(figure.title for figure in figures) or "no figure"
    return Shown(html, f"{experiment}: {titles} (drawn in a notebook)\n{results[experiment]!r}")


def heatmap_of(trace: Trace, instance: int, results: Results | None = None) -> Shown:
    """Every row of a text, shaded by each set of weights. Raises InputError and TypeError."""
    rows, facts = _rows_of(trace, instance, results, "show heatmap")
    pictures, brief = _pictures(rows, facts, WHOLE), _pictures(rows, facts, LINES)
    return Shown(_fragment("heatmaps", pictures=pictures), "\n\n".join(map(_as_text, brief)))


def playground_of(trace: Trace, instance: int, results: Results | None = None) -> Shown:
    """The playground of a text in a frame of its own. Raises InputError and TypeError."""
    _rows_of(trace, instance, results, "playground")
    frame = playground(trace, instance, results)
    return Shown(
        _fragment("frame", frame=frame),
        f"Playground of instance {instance}: open it in a notebook, or in the report of a run",
    )


def _figures(
    experiment: str,
    tables: Mapping[str, pl.LazyFrame],
    summary: pl.DataFrame,
    metadata: Mapping[str, Any],
) -> tuple[Any, Any]:
    about = About.of(None, metadata)
    rows = RunRecord("", summary, about, tables).columns(columns_of_figures())
    unit = INSTANCE if Heads.of(summary) is None else ROW
    figures, legend = draw_figures(rows, about.class_names, unit, (experiment,))
    return [
        _apart(figure) for figure in (*figures, *draw_summaries(summary, unit, (experiment,)))
    ], legend if figures else ()


def _apart(figure: Figure) -> Figure:
    """A figure whose ids are of its drawings alone: a notebook shows many, perhaps the same twice."""
    return replace(
        figure, panels=tuple(replace(panel, svg=_with_ids(panel.svg)) for panel in figure.panels)
    )


def _with_ids(svg: str) -> str:
    prefix = f"a{hashlib.sha256(svg.encode()).hexdigest()[:10]}-"
    return re.sub(r'(\bid="|\burl\(#|\baria-labelledby=")', rf"\g<1>{prefix}", svg)


def _table(result: Result) -> list[tuple[str, ...]]:
    """Label and meaning of each measure over all instances, its value, interval and number."""
    return [
        (
            measure_label(row["measure"], result.experiment), measure_meaning(row["measure"], result.experiment),
            "undefined" if row["value"] is None else figure(row["value"], 3), interval(row, 3), counted(row),
        )
        for row in result.summary.filter(pl.col("group") == "all").iter_rows(named=True)
    ]  # fmt: skip


def _rows_of(
    trace: Trace, instance: int, results: Results | None, operation: str
) -> tuple[Trace, pl.DataFrame]:
    """The rows of a text, and what experiments found of each. Raises InputError and TypeError."""
    missing = [name for name in SHOWN if not trace.has(name)]
    if missing:
        raise InputError(
            operation,
            f"instance {instance}",
            f"a trace without {', '.join(missing)}",
            "a trace with these columns",
        )
    picks = rows_of(operation, trace, instance, results)[:MOST_ROWS]
    return trace.take(picks), pl.DataFrame() if results is None else _facts(
        results, trace, picks, operation
    )


def _facts(results: Results, trace: Trace, picks: np.ndarray, operation: str) -> pl.DataFrame:
    record = RunRecord(
        "", results.summary, tables={name: result.rows for name, result in results.items()}
    )
    rows = record.rows(picks)
    heights = {table.select(pl.len()).collect().item() for table in record.tables.values()}
    if not np.array_equal(rows["instance"].to_numpy(), trace.instance[picks]) or heights - {
        len(trace)
    }:
        raise InputError(
            operation,
            "results",
            "other instances than those of the trace",
            "results of this trace",
            "audit the trace",
        )
    return rows


def _pictures(rows: Trace, facts: pl.DataFrame, budget: int) -> list[Heatmap]:
    pictures = [heatmap(instance, budget) for instance in read_instances(rows, facts)]
    return [
        replace(picture, strips=tuple(strip for strip in picture.strips if not strip.spans))
        for picture in pictures
    ]


def _attention_alone(picture: Heatmap) -> Heatmap:
    return replace(picture, strips=picture.strips[:1])


def _as_text(picture: Heatmap) -> str:
    """A picture in plain text: behind each token a bar, as high as its weight compared with the deepest colour's."""
    lines = [f"{picture.instance.title}: predicted {picture.instance.predicted}"]
    for strip in picture.strips:
        bars = iter(strip.shades)
        tokens = [
            piece + _BARS[_level(next(bars))]
            if isinstance(piece, str)
            else f"… {piece.size} tokens …"
            for piece in picture.pieces
        ]
        lines += [f"{strip.caption} (top {strip.top:.3g})", "  " + " ".join(tokens)]
    return "\n".join(map(printable, [*lines, *([picture.left_out] if picture.left_out else [])]))


def _level(shade: int) -> int:
    return min(round(shade * (len(_BARS) - 1) / 1000), len(_BARS) - 1)


def _origin(trace: Trace) -> str:
    corpus = About.of(None, trace.metadata).corpus
    return "Trace" if corpus == "unknown" else f"Trace of {corpus}"


def _fragment(template: str, **content: Any) -> str:
    """A fragment with its style."""
    inner = rendered(f"notebook_{template}", content)
    return f'<div class="attnaudit-shown"><style>{style_of("notebook.css")}</style>{inner}</div>'
