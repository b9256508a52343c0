"""How far can attention move while a retrained model predicts the same?"""

from collections.abc import Iterator
from dataclasses import replace

import polars as pl

from attnaudit.experiments.findings import AGAINST, NEITHER, POLICY, decide
from attnaudit.report.cards.card import CardRows, StudyCard, card_row
from attnaudit.report.charts.marks import Scale, point_chart
from attnaudit.report.charts.svg import Figure, drawn
from attnaudit.report.words import figure
from attnaudit.results import About, SummaryRows
from attnaudit.studies.adversary import ModelAdversary

_KINDS = {
    "adversary": "trained adversaries",
    "frozen": "each text separately, model frozen",
    "seed": "another seed",
    "uniform": "uniform attention",
}
_CAPTION = (
    "Each point is a model, or a set of single-text adversaries: how far its predictions are "
    "from the base model's (mean TVD) and how far its attention is (mean JSD, at most ln 2). The "
    "curve joins models trained to predict the same and attend elsewhere, from the smallest λ to "
    "the largest. The closer to the upper left corner, the more attention can change with the "
    "same predictions. A point no further right than another seed predicts as similarly to the "
    "base as a retrained model."
)


def card_rows(rows: SummaryRows, about: About) -> CardRows:
    """Word the model that differs most in attention and predicts the same.

    Without such a model nothing is claimed: a longer search might find one.
    """
    row = rows.get("adversary", "area")
    if row is None:
        return
    frozen, seed = (rows.value("adversary", name) for name in ("jsd_frozen_0.01", "tvd_seed"))
    models = [
        (rows.rows["adversary", f"tvd_adversary_{strength}"], jsd)
        for strength, jsd in rows.family("adversary", "jsd_adversary_").items()
    ]
    # A model predicts the same if its TVD is shown to be small, or at most another seed's.
    limit = max(POLICY.trained, seed or 0.0)
    found = [
        (decide(jsd, POLICY.different, AGAINST), tvd["high"] is not None and tvd["high"] <= limit)
        for tvd, jsd in models
    ]
    shown = [finding for finding, alike in found if alike and finding.side]
    none = [replace(finding, side=NEITHER) for finding, _ in found]
    near = [(jsd["value"], tvd["value"]) for tvd, jsd in models if tvd["value"] <= limit]
    reached = f"no model stays within a mean TVD of {figure(limit, 3)}"
    if near:
        jsd, tvd = max(near)
        reached = f"a model reaches a mean JSD of {figure(jsd)} at a mean TVD of {figure(tvd, 3)}"
    conclusion = "a longer search might find one that predicts the same with different attention."
    if shown:
        alike = "the same predictions"
        if limit > POLICY.trained:
            alike = "predictions as similar as those of two seeds"
        conclusion = f"so {alike} are possible with a very different attention."
    sentence = f"Trained to predict the same and attend elsewhere, {reached}; {conclusion}"
    if frozen is not None:
        sentence += (
            " For each text separately, with the model frozen, attention reaches a JSD of "
            f"{figure(frozen)} within a TVD of 0.01."
        )
    yield card_row(
        ModelAdversary.question,
        "area under the curve of JSD within TVD, share of the maximum",
        row,
        "–" if seed is None else f"another seed: TVD {figure(seed, 3)}",
        sentence,
        finding=next(iter(shown or none), None),
        clause="a model with very different attention predicts the same",
    )


def figures(table: pl.DataFrame, summary: pl.DataFrame) -> Iterator[Figure]:
    """Draw mean TVD against mean JSD: trained adversaries as a curve, others as points."""
    models = table.group_by("kind", "strength", "seed", maintain_order=True)
    points = models.agg(x=pl.col("tvd").mean(), y=pl.col("jsd").mean()).with_columns(
        group=pl.col("kind").replace(_KINDS)
    )
    tvd, jsd = Scale("mean TVD of the predictions", None), Scale("mean JSD of attention", 0.7)
    chart = point_chart(points.drop("kind", "seed"), tvd, jsd, order="strength")
    label = "Mean JSD of attention against mean TVD of predictions of every model"
    panel = drawn("", chart, "adversary-curve", label)
    title = "How far can attention move while the predictions stay the same?"
    yield Figure("adversary", title, _CAPTION, (panel,))


CARD = StudyCard(card_rows, figures)
