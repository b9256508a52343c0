"""Models in the summaries of studies: their names, their scores and their seeds."""

import re
from collections.abc import Iterable, Iterator, Mapping

import polars as pl

from attnaudit.core import count
from attnaudit.report.cards.card import StudyFigures
from attnaudit.report.charts.marks import interval_chart
from attnaudit.report.charts.svg import Figure, drawn
from attnaudit.results import Measure
from attnaudit.studies import Study

_LABELS = {
    "base": "base model's attention",
    "uniform": "uniform attention",
    "hard": "attention to one position",
    "words": "attention to single words",
    "learned": "learned with the model",
    "gradient": "the base's gradients",
    "adversary": "an adversary's attention",
    "rationale": "the rationale",
    "seed": "another seed",
    "own": "a similar model's attention",
}
# Patterns of other names, tried in order.
_PATTERNS = {
    r"uniform_layer(\d+)": r"uniform attention in layer \1",
    r"cnn(\d+)": r"kernels of \1 words",
    r"mixed(\d+)": r"\1 % of a BiLSTM",
    r"hidden(\d+)": r"\1 hidden units",
    r"train([\d.]+)": r"\1 of the train rows",
    r"length(\d+)": r"at most \1 words",
    r"classes(\d+)": r"\1 classes",
    r"frozen_(\d[\d.e+-]*)": r"each text separately, ε = \1",
    r"(.+)_(\d[\d.e+-]*)": r"\1, λ = \2",
    r"trace(\d+)": r"trace \1 that was given",
    r"(.+)_removed": r"\1, tokens removed",
}


def figure_and_model(measure: str, known: Iterable[Measure]) -> tuple[str, str]:
    """Split ``f1_base`` into F1 and the base.

    Args:
        measure: Measure of a summary.
        known: Measures of models.

    Returns:
        Names of measure and model; the latter is empty for a measure of no model.
    """
    names = (one.name for one in known if measure.startswith(f"{one.name}_"))
    figure = max(names, key=len, default=measure)
    return figure, measure.removeprefix(figure).removeprefix("_")


def model_label(model: str) -> str:
    """Return the label of a model: ``bilstm_0.1`` is ``bilstm, λ = 0.1``."""
    for pattern, label in _PATTERNS.items():
        if re.fullmatch(pattern, model):
            return re.sub(pattern, label, model)
    return _LABELS.get(model, model)


def of_models(summary: pl.DataFrame, figure: str, known: Iterable[Measure]) -> pl.DataFrame:
    """Return {name, value, low, high} of every model that has a figure."""
    rows = summary.filter(pl.col("value").is_not_null())
    pairs = [figure_and_model(measure, known) for measure in rows["measure"]]
    names = [model_label(model) if name == figure else None for name, model in pairs]
    named = rows.select(pl.Series("name", names, pl.String), "value", "low", "high")
    return named.drop_nulls("name")


def score_figure(
    study: type[Study], title: str, caption: str, titles: Mapping[str, str]
) -> StudyFigures:
    """Return a function that draws scores of every model with their intervals, a panel each.

    Args:
        study: The study.
        title: Title of the figure.
        caption: Its caption, where ``{seeds}`` says how many seeds each model has, and what the
            intervals are over.
        titles: Title of each score; one that no model has is not drawn.
    """

    def figures(table: pl.DataFrame, summary: pl.DataFrame) -> Iterator[Figure]:
        charts = (
            (name, label, of_models(summary, name, study.measures))
            for name, label in titles.items()
        )
        panels = tuple(
            drawn(
                label,
                interval_chart(rows, label),
                f"{study.name}-{name}",
                f"{label} of every model",
            )
            for name, label, rows in charts
            if rows.height
        )
        _, most = seeds_of_models(table)
        spread = "means over seeds, intervals over seeds and texts"
        seeds = f"{count(most, 'seed')}: {spread if most > 1 else 'intervals over texts only'}"
        yield Figure(study.name, title, caption.format(seeds=seeds), panels)

    return figures


def seeds_of_models(table: pl.DataFrame) -> tuple[int, int]:
    """Return the fewest and the most seeds that a model of a study's table has."""
    models = [name for name in ("model", "kind", "strength") if name in table.columns]
    seeds = table.group_by(models).agg(pl.col("seed").n_unique())["seed"].to_list()
    return min(seeds), max(seeds)
