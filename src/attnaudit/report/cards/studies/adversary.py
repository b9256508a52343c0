"""Can another attention reach the same predictions? Trained to predict as the base does, and attend elsewhere (Wiegreffe & Pinter 2019)."""

from __future__ import annotations

import math
from collections.abc import Iterator

import polars as pl

from attnaudit.report.cards.adversary import WITHIN, furthest_trained, trained_adversaries
from attnaudit.report.cards.card import StudyCard
from attnaudit.results.about import About
from attnaudit.results.card import CardRow, Claim, SummaryRows, card_row
from attnaudit.results.charts import Distances, StudyFigure, StudyPanel
from attnaudit.results.words import figure
from attnaudit.stats.measures import LN2
from attnaudit.studies.adversary import ModelAdversary

_WORDS = {
    "adversary": "trained adversaries", "frozen": "each instance separately, model frozen", "seed": "another seed",
    "uniform": "uniform attention",
}  # fmt: skip


DIFFERENT = 0.5 * LN2  # of JSD: from here on an attention is called quite different


def card_rows(rows: SummaryRows, about: About) -> Iterator[CardRow]:
    row = rows.get("adversary", "area")
    if row is None:
        return
    reached, trained = furthest_trained(rows), trained_adversaries(rows)
    frozen, seed = (
        rows.value("adversary", "jsd_frozen_0.01"),
        rows.value("adversary", "tvd_seed"),
    )
    best = (
        f"JSD {figure(reached[1])} at TVD {figure(reached[0], 3)}"
        if reached
        else f"none within TVD {WITHIN}"
    )
    moved, apart = min(trained, default=(math.nan, math.nan))
    sentence = f"Models trained to predict the same and attend elsewhere reach a mean {best}. " if reached else (
        f"No model trained to predict the same and attend elsewhere stays within a mean TVD of {WITHIN}; the closest has "
        f"{figure(moved, 3)}, at a JSD of attention of {figure(apart)}. "
    )  # fmt: skip
    near = [apart for moved, apart in trained if seed is not None and moved <= seed]
    if near:
        most = figure(max(near))
        sentence += f"Another seed changes the predictions by {figure(seed, 3)}; within that, attention reaches a JSD of {most}. "
    sentence += (
        "So the same predictions are possible with a very different attention."
        if reached and reached[1] > DIFFERENT
        else "So predictions as similar as those of two seeds are possible with a very different attention."
        if any(apart > DIFFERENT for apart in near)
        else "No model was found that predicts the same with a very different attention; a longer search might find one."
    )
    if frozen is not None:
        sentence += f" For each instance separately, with the model frozen, attention reaches a JSD of {figure(frozen)} within a TVD of 0.01."
    measure = "area under the curve of JSD within TVD, share of the maximum"
    moved_far = (reached and reached[1] > DIFFERENT) or any(apart > DIFFERENT for apart in near)
    claim = (
        Claim(False, "a model with very different attention predicts the same")
        if moved_far
        else None
    )
    yield card_row(ModelAdversary.question, measure, row, best, sentence, claim=claim)


def figures(table: pl.DataFrame, summary: pl.DataFrame) -> Iterator[StudyFigure]:
    """Mean TVD against mean JSD: the trained adversaries as a curve, the others as points."""
    points = table.group_by("kind", "strength", "seed", maintain_order=True).agg(
        pl.col("tvd").mean(), pl.col("jsd").mean()
    )
    chart = Distances(
        points.select(pl.col("kind").replace(_WORDS).alias("group"), "strength", "tvd", "jsd")
    )
    caption = (
        "Each point is a model, or a set of single-instance adversaries: how far its predictions are from the base model's "
        "(mean TVD) and how far its attention is (mean JSD, at most ln 2). The curve joins models trained to predict the same and "
        "attend elsewhere, from the smallest λ to the largest. The closer to the upper left corner, the more the attention can change "
        "at the same predictions. A point no further right than another seed predicts as similarly to the base as a retrained model."
    )
    yield StudyFigure("adversary", "How far can attention move while the predictions stay the same?", caption, (
        StudyPanel("", chart, "adversary-curve", "Mean JSD of attention against mean TVD of predictions of every model"),
    ))  # fmt: skip


CARD = StudyCard(rows=card_rows, figures=figures)
