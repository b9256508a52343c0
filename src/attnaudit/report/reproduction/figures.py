"""The picture of a reproduction: a figure for each measure, in it a panel for each corpus, all on the same axis."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from attnaudit.published.reference import ALL
from attnaudit.report.charts.palette import Palette
from attnaudit.report.charts.svg import render
from attnaudit.report.reproduction.chart import SHAPES, agreement_chart
from attnaudit.report.reproduction.numbers import TAUS, groups_of, models
from attnaudit.report.reproduction.verdict import short_count, tally
from attnaudit.report.sections.numbers import group_label
from attnaudit.results.charts import Scale

_SIGNS = dict(zip(SHAPES, "●■▲▼✚◆", strict=True))
_READ = {
    "tau-gradient": "1: attention and gradient order the tokens alike, 0: unrelated, −1: reversed.",
    "tau-loo": "1: attention and leave-one-out order the tokens alike, 0: unrelated, −1: reversed.",
    "emax-jsd": "How different an attention gives nearly the same output; no two attentions differ by more than ln 2 = 0.693.",
    "score": "F1, or accuracy where the paper tells no F1: each panel says which, and has its own axis.",
}
_SCORES = {"f1": "F1", "roc_auc": "ROC-AUC"}


@dataclass(frozen=True)
class AgreementPanel:
    """One corpus; ``legend`` has (name, colour, sign) of its classes."""

    corpus: str
    legend: tuple[tuple[str, str, str], ...]
    svg: str


@dataclass(frozen=True)
class AgreementFigure:
    """One measure over all corpora that have it."""

    name: str
    title: str
    caption: str
    panels: tuple[AgreementPanel, ...]


def agreement_figures(numbers: pl.DataFrame, titles: Mapping[str, str], scores: Mapping[str, str]) -> list[AgreementFigure]:
    """A figure for each of τ gradient, τ LOO, ε-max JSD and score; ``titles`` are the corpora as they are shown, in that order.

    ``scores`` names each corpus's prediction score.
    """
    same = {name: dict.fromkeys(titles, name) for name in (*TAUS, "emax_jsd")}
    expected = (
        ("tau-gradient", "Kendall τ, attention – gradient", "mean Kendall τ", same[TAUS[0]]),
        ("tau-loo", "Kendall τ, attention – leave-one-out", "mean Kendall τ", same[TAUS[1]]),
        ("emax-jsd", "ε-max JSD", "mean ε-max JSD", same["emax_jsd"]),
        ("score", "Prediction score", "score", scores),
    )
    made = [_figure(numbers, name, title, axis, titles, measures) for name, title, axis, measures in expected]
    return [one for one in made if one.panels]


def _figure(
    numbers: pl.DataFrame, name: str, title: str, axis: str, titles: Mapping[str, str], measures: Mapping[str, str]
) -> AgreementFigure:
    parts = {corpus: _drawn(numbers.filter(corpus=corpus), measures[corpus]) for corpus in titles}
    parts = {corpus: part for corpus, part in parts.items() if part.height}
    drawn = pl.concat(parts.values()) if parts else numbers.clear()
    panels = tuple(
        _panel(part, f"{name}-{k}", titles[corpus], title, _scale(axis, name, part if name == "score" else drawn))
        for k, (corpus, part) in enumerate(parts.items())
    )
    counted = short_count(tally(title, drawn.filter(pl.col("spread").is_not_null())))
    return AgreementFigure(name, title, f"{_READ[name]} {counted}".strip(), panels)


def _drawn(numbers: pl.DataFrame, measure: str) -> pl.DataFrame:
    """The means of one measure: of each predicted class, or of all instances where a model has no others."""
    means = numbers.filter(pl.col("max_alpha").is_null(), statistic="mean", measure=measure)
    by_class = means.filter(pl.col("group") != ALL).select("encoder", "attention").unique()
    whole = means.filter(group=ALL).join(by_class, on=["encoder", "attention"], how="anti")
    drawn = pl.concat([means.filter(pl.col("group") != ALL), whole])
    return drawn.filter(pl.any_horizontal(pl.col("paper", "rerun", "ours").is_not_null()))


def _panel(part: pl.DataFrame, name: str, corpus: str, title: str, scale: Scale) -> AgreementPanel:
    measure = part["measure"][0]
    groups = groups_of(part, measure)
    groups += [group for group in part["group"].unique() if group not in groups]
    named = {group: str(group_label(group)).removeprefix("predicted ") for group in groups}
    names = [_SCORES.get(measure, str(measure))] if name.startswith("score") else [named[group] for group in groups]
    shown = zip(names, Palette.COLOURS, (_SIGNS[shape] for shape in SHAPES), strict=False)
    label = f"{title} on {corpus}: the authors' two values and ours, for {len(models(part))} models"
    svg = render(agreement_chart(part, scale, models(part), groups), name, label)
    return AgreementPanel(corpus, tuple(shown), svg)


def _scale(title: str, name: str, part: pl.DataFrame) -> Scale:
    """An axis that holds every value; intervals may go beyond."""
    if name == "emax-jsd":
        return Scale(title, 0.7, (0.0, 0.2, 0.4, 0.6))
    values = [value for column in ("paper", "rerun", "ours") for value in part[column].drop_nulls().to_list()]
    if name == "score":
        return _around(title, [*values, 0.9, 1.0], 0.1, 0.0)
    return _around(title, [*values, 0.0, 0.6], 0.2, -1.0)


def _around(title: str, values: Sequence[float], step: float, least: float) -> Scale:
    """From the round number below all values, no lower than ``least``, to the one above them, no higher than 1."""
    low, high = math.floor(min(values) / step - 0.1), math.ceil(max(values) / step + 0.1)
    low, high = max(low, round(least / step)), min(high, round(1 / step))
    stride = 1 if high - low <= 5 else 2
    ticks = tuple(round(k * step, 1) for k in range(low, high + 1) if k % stride == 0)
    return Scale(title, round(high * step, 1), ticks, round(low * step, 1))
