"""How far can attention move while a retrained model predicts the same?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import nan

import polars as pl

from attnaudit.experiments.verdict import AGAINST, NEITHER, POLICY, Finding, decide
from attnaudit.report.cards.adversary import furthest_trained, trained_adversaries
from attnaudit.report.cards.card import CardRow, Claim, StudyCard, card_row
from attnaudit.report.charts.specs import Distances, StudyFigure, StudyPanel
from attnaudit.report.words import figure
from attnaudit.results.about import About
from attnaudit.results.summary import SummaryRows
from attnaudit.studies.adversary import ModelAdversary

_KINDS = {
    "adversary": "trained adversaries",
    "frozen": "each instance separately, model frozen",
    "seed": "another seed",
    "uniform": "uniform attention",
}
_CAPTION = (
    "Each point is a model, or a set of single-instance adversaries: how far its predictions are "
    "from the base model's (mean TVD) and how far its attention is (mean JSD, at most ln 2). The "
    "curve joins models trained to predict the same and attend elsewhere, from the smallest λ to "
    "the largest. The closer to the upper left corner, the more the attention can change at the "
    "same predictions. A point no further right than another seed predicts as similarly to the "
    "base as a retrained model."
)


def different_model(rows: SummaryRows) -> Finding | None:
    """Find a trained model with quite different attention and the same predictions.

    It predicts the same if its TVD is shown to be below `POLICY.trained`, or at most another
    seed's. Without such a model nothing is claimed: a longer search might find one.
    """
    seed, found = rows.get("adversary", "tvd_seed"), None
    for change, jsd in trained_adversaries(rows):
        one = decide(jsd, POLICY.different, AGAINST)
        same = change["high"] is not None and (
            change["high"] < POLICY.trained
            or (seed is not None and change["high"] <= seed["value"])
        )
        if same and one.side:
            return one
        found = found or replace(one, side=NEITHER)
    return found


def card_rows(rows: SummaryRows, about: About) -> Iterator[CardRow]:
    """Word the model that differs most in attention and predicts the same."""
    row, finding = rows.get("adversary", "area"), different_model(rows)
    if row is None:
        return
    reached = furthest_trained(rows)
    trained = [(change["value"], jsd["value"]) for change, jsd in trained_adversaries(rows)]
    frozen, seed = (rows.value("adversary", name) for name in ("jsd_frozen_0.01", "tvd_seed"))
    if reached:
        best = f"JSD {figure(reached[1])} at TVD {figure(reached[0], 3)}"
        sentence = f"Models trained to predict the same and attend elsewhere reach a mean {best}. "
    else:
        best = f"none within TVD {POLICY.trained}"
        change, jsd = min(trained, default=(nan, nan))
        sentence = (
            "No model trained to predict the same and attend elsewhere stays within a mean TVD of "
            f"{POLICY.trained}; the closest has {figure(change, 3)}, at a JSD of attention of "
            f"{figure(jsd)}. "
        )
    near = [jsd for change, jsd in trained if seed is not None and change <= seed]
    if near:
        sentence += (
            f"Another seed changes the predictions by {figure(seed, 3)}; within that, attention "
            f"reaches a JSD of {figure(max(near))}. "
        )
    if finding is not None and finding.side:
        same = "the same predictions" if reached else "predictions as similar as those of two seeds"
        sentence += f"So {same} are possible with a very different attention."
    else:
        sentence += (
            "No model was shown to predict the same with a very different attention; a longer "
            "search might find one."
        )
    if frozen is not None:
        sentence += (
            " For each instance separately, with the model frozen, attention reaches a JSD of "
            f"{figure(frozen)} within a TVD of 0.01."
        )
    yield card_row(
        ModelAdversary.question,
        "area under the curve of JSD within TVD, share of the maximum",
        row,
        best,
        sentence,
        claim=Claim(finding, "a model with very different attention predicts the same"),
    )


def figures(table: pl.DataFrame, summary: pl.DataFrame) -> Iterator[StudyFigure]:
    """Draw mean TVD against mean JSD: trained adversaries as a curve, others as points."""
    points = table.group_by("kind", "strength", "seed", maintain_order=True).agg(
        pl.col("tvd").mean(), pl.col("jsd").mean()
    )
    kind = pl.col("kind").replace(_KINDS).alias("group")
    chart = Distances(points.select(kind, "strength", "tvd", "jsd"))
    label = "Mean JSD of attention against mean TVD of predictions of every model"
    panel = StudyPanel("", chart, "adversary-curve", label)
    title = "How far can attention move while the predictions stay the same?"
    yield StudyFigure("adversary", title, _CAPTION, (panel,))


CARD = StudyCard(card_rows, figures)
