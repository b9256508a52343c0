"""Traces and results in a notebook: fragments of HTML without scripts that load nothing.

They bring their own style. Text takes the notebook's colour, lines and shades are mixtures with it,
and no background is drawn: so a fragment follows the theme of Jupyter, VS Code and Colab without
asking which it is.
"""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import polars as pl
from rich.console import Console

from attnaudit.core import InputError, did_you_mean
from attnaudit.core.display import Shown
from attnaudit.experiments import measure_label
from attnaudit.experiments.verdict import decide_verdict as decide_verdict  # the renderer's
from attnaudit.report.answer import Answer, answer
from attnaudit.report.card import verdict
from attnaudit.report.cards import columns_of_figures
from attnaudit.report.charts.instances import draw_figures, draw_summaries
from attnaudit.report.charts.palette import LegendEntry
from attnaudit.report.charts.svg import Figure
from attnaudit.report.fragment import playground, record_of, rows_of
from attnaudit.report.meanings import measure_meaning
from attnaudit.report.page import rendered, style_of
from attnaudit.report.picture import figures_svg, heatmaps_svg
from attnaudit.report.picture import save_shown as save_shown  # the renderer's
from attnaudit.report.sections.heatmaps import Heatmap, heatmap, read_instances
from attnaudit.report.terminal import print_answer
from attnaudit.report.words import figure, interval
from attnaudit.results import ROW, TEXT, About, Heads, Result, Results, counted
from attnaudit.results.about import UNKNOWN
from attnaudit.trace import Trace

FIRST, BRIEF = 6, 40  # rows of a trace that are shown, tokens of each
WHOLE = 2000  # tokens of one text
MOST_CLASSES = 8
SHOWN = ("instance", "tokens", "prediction")  # columns without which a row has no picture


def trace_html(trace: Trace) -> str:
    """Show the first rows of a trace, each shaded by its attention, however many rows there are."""
    pictures: list[Heatmap] = []
    if trace.has(*SHOWN, trace.heatmap_column):
        pictures = _pictures(replace(trace, table=trace.table.head(FIRST)), pl.DataFrame(), BRIEF)
    names = trace.class_names if trace.has("prediction") else []
    about = About.of(None, trace.metadata)
    return _fragment(
        "trace",
        title=about.name or ("Trace" if about.corpus == UNKNOWN else f"Trace of {about.corpus}"),
        rows=len(trace),
        classes=", ".join([*names[:MOST_CLASSES], *(["…"] if names[MOST_CLASSES:] else [])]),
        pictures=[replace(picture, strips=picture.strips[:1]) for picture in pictures],
        columns=", ".join(trace.table.columns),
    )


def print_results(results: Results, console: Console) -> None:
    """Print the answer."""
    print_answer(_answer(results), console)


def results_html(results: Results) -> str:
    """Show the answer, and behind it the verdict card."""
    found, card = _answer(results), verdict(results.summary, About.of(None, results.metadata))
    pictures = [heatmap(found.example.instance, WHOLE)] if found.example else []
    drawn = [replace(one, strips=found.example.strips(one)) for one in pictures if found.example]
    meaning_of = partial(measure_meaning, unit=card.unit)
    missing = list(results.left_out.items())
    content = {"card": card, "pictures": drawn, "left_out": missing, "meaning_of": meaning_of}
    return _fragment("card", answer=found, **content)


def _answer(results: Results) -> Answer:
    return answer(record_of(results), results.trace, results.left_out)


def result_html(result: Result) -> str:
    """Show the figures of one experiment, and its summary over all texts."""
    html, *_ = _figures(Results({result.experiment: result}), result.experiment, with_table=True)
    return html


def figures_of(results: Results, experiment: str) -> Shown:
    """Show the figures of one experiment of several, which may read what others measured.

    Raises:
        InputError: The experiment has no result.
    """
    if experiment not in results:
        names = ", ".join(results) or "none: no experiment was run"
        reason = results.left_out.get(experiment)
        raise InputError(
            "show figure",
            f"experiment {experiment!r}",
            f"skipped: {reason}" if reason else "no such result",
            f"one of {names}",
            did_you_mean(experiment, results),
        )
    html, figures, legend = _figures(results, experiment, with_table=False)
    drawn = "; ".join(figure.title for figure in figures) or "no figure"
    text = f"{experiment}: {drawn} (drawn in a notebook, or .save(…) it)\n{results[experiment]!r}"
    return Shown(html, text, figures_svg(figures, legend))


def heatmap_of(trace: Trace, instance: int | None, results: Results | None = None) -> Shown:
    """Show every row of a text, shaded by each set of weights.

    Raises:
        InputError: The instance is unknown, or the results are of another trace.
    """
    operation = "show heatmap"
    if missing := [name for name in (*SHOWN, trace.heatmap_column) if not trace.has(name)]:
        got = f"a trace without {', '.join(missing)}"
        raise InputError(operation, f"text {instance}", got, "a trace with these columns")
    rows, facts = rows_of(operation, trace, instance, results)
    pictures, number = _pictures(rows, facts, WHOLE), rows.instance[0]
    text = f"Heatmap of text {number}: open it in a notebook, or .save(…) it"
    return Shown(_fragment("heatmaps", pictures=pictures), text, heatmaps_svg(pictures))


def playground_of(trace: Trace, instance: int | None, results: Results | None = None) -> Shown:
    """Show the playground of a text in a frame of its own.

    Raises:
        InputError: The instance is unknown, or the results are of another trace.
    """
    text = "Playground: open it in a notebook, or in the report of a run"
    return Shown(_fragment("frame", frame=playground(trace, instance, results)), text)


def _figures(
    results: Results, experiment: str, with_table: bool
) -> tuple[str, list[Figure], Sequence[LegendEntry]]:
    """Draw the figures of one experiment, and its numbers if asked to or if there is no figure.

    Returns:
        The fragment, the figures, and their legend.
    """
    record = record_of(results)
    unit = TEXT if Heads.of(record.summary) is None else ROW
    rows, names = record.columns(columns_of_figures()), record.about.class_names
    figures, legend = draw_figures(rows, names, unit, (experiment,))
    every = [*figures, *draw_summaries(record.summary, unit, (experiment,))]
    table = _table(results[experiment]) if with_table or not every else ()
    legend = legend if figures else ()
    html = _fragment("figures", figures=every, legend=legend, table=table)
    # A notebook shows many drawings, perhaps the same twice: ids must not meet.
    prefix = f"a{hashlib.sha256(html.encode()).hexdigest()[:10]}-"
    html = re.sub(r'(\bid="|\burl\(#|\baria-labelledby=")', rf"\g<1>{prefix}", html)
    return html, every, legend


def _table(result: Result) -> list[tuple[str, ...]]:
    """Return label and meaning of each measure over all texts, its value, interval and n."""
    name = result.experiment
    return [
        (
            measure_label(row["measure"], name),
            measure_meaning(row["measure"], name),
            figure(row["value"], 3),
            interval(row, 3),
            counted(row),
        )
        for row in result.summary.filter(group="all").iter_rows(named=True)
    ]


def _pictures(rows: Trace, facts: pl.DataFrame, budget: int) -> list[Heatmap]:
    pictures = [heatmap(instance, budget) for instance in read_instances(rows, facts)]
    return [
        replace(picture, strips=tuple(strip for strip in picture.strips if not strip.spans))
        for picture in pictures
    ]


def _fragment(template: str, **content: Any) -> str:
    """Render a fragment with its style."""
    inner = rendered(f"notebook_{template}", content)
    return f'<div class="attnaudit-shown"><style>{style_of("notebook.css")}</style>{inner}</div>'
