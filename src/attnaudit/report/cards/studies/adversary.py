"""How far can attention move while a retrained model predicts the same?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import nan
from typing import Any

import polars as pl

from attnaudit.experiments.verdict import AGAINST, NEITHER, POLICY, decide
from attnaudit.report.cards.card import CardRow, Claim, StudyCard, card_row
from attnaudit.report.charts.studies import curve_chart
from attnaudit.report.charts.svg import Figure, drawn
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


def card_rows(rows: SummaryRows, about: About) -> Iterator[CardRow]:
    """Word the model that differs most in attention and predicts the same.

    Without such a model nothing is claimed: a longer search might find one.
    """
    row = rows.get("adversary", "area")
    if row is None:
        return
    frozen, seed = (rows.value("adversary", name) for name in ("jsd_frozen_0.01", "tvd_seed"))
    trained = [
        (rows.rows["adversary", measure.replace("jsd", "tvd", 1)], jsd)
        for (study, measure), jsd in rows.rows.items()
        if study == "adversary" and measure.startswith("jsd_adversary_")
    ]

    def same(change: Mapping[str, Any]) -> bool:
        """Say whether a TVD is shown to be small, or at most another seed's."""
        high = nan if change["high"] is None else change["high"]
        return high < POLICY.trained or (seed is not None and high <= seed)

    found = [(decide(jsd, POLICY.different, AGAINST), same(change)) for change, jsd in trained]
    shown = [finding for finding, alike in found if alike and finding.side]
    none = [replace(finding, side=NEITHER) for finding, _ in found]
    points = [(change["value"], jsd["value"]) for change, jsd in trained]
    reached = [point for point in points if point[0] < POLICY.trained]
    if reached:
        change, jsd = max(reached, key=lambda point: point[1])
        best = f"JSD {figure(jsd)} at TVD {figure(change, 3)}"
        sentence = f"Models trained to predict the same and attend elsewhere reach a mean {best}. "
    else:
        best = f"none within TVD {POLICY.trained}"
        change, jsd = min(points, default=(nan, nan))
        sentence = (
            "No model trained to predict the same and attend elsewhere stays within a mean TVD of "
            f"{POLICY.trained}; the closest has {figure(change, 3)}, at a JSD of attention of "
            f"{figure(jsd)}. "
        )
    near = [jsd for change, jsd in points if seed is not None and change <= seed]
    if near:
        sentence += (
            f"Another seed changes the predictions by {figure(seed, 3)}; within that, attention "
            f"reaches a JSD of {figure(max(near))}. "
        )
    if shown:
        alike = (
            "the same predictions" if reached else "predictions as similar as those of two seeds"
        )
        sentence += f"So {alike} are possible with a very different attention."
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
    measure = "area under the curve of JSD within TVD, share of the maximum"
    claim = Claim(
        next(iter(shown or none), None), "a model with very different attention predicts the same"
    )
    yield card_row(ModelAdversary.question, measure, row, best, sentence, claim=claim)


def figures(table: pl.DataFrame, summary: pl.DataFrame) -> Iterator[Figure]:
    """Draw mean TVD against mean JSD: trained adversaries as a curve, others as points."""
    models = table.group_by("kind", "strength", "seed", maintain_order=True)
    points = models.agg(pl.col("tvd", "jsd").mean()).with_columns(
        group=pl.col("kind").replace(_KINDS)
    )
    label = "Mean JSD of attention against mean TVD of predictions of every model"
    panel = drawn("", curve_chart(points), "adversary-curve", label)
    title = "How far can attention move while the predictions stay the same?"
    yield Figure("adversary", title, _CAPTION, (panel,))


CARD = StudyCard(card_rows, figures)
