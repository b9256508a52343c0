"""Can attention be trained to hide what it uses? (Pruthi et al. 2020)."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import polars as pl

from attnaudit.experiments.findings import AGAINST, HIGH, NEITHER, POLICY, UNCLEAR, Finding
from attnaudit.report.cards.card import CardRows, StudyCard, card_row
from attnaudit.report.charts.svg import Figure
from attnaudit.report.models import score_figure
from attnaudit.report.words import percent
from attnaudit.results import About, Row, SummaryRows
from attnaudit.studies.base import PREFERRED
from attnaudit.studies.deceive import Deceive

_TITLES = {
    "accuracy": "accuracy",
    "bleu": "BLEU",
    "mass": "attention on impermissible tokens",
    "tau_loo": "τ to leave-one-out",
    "found_attention": "an impermissible token has the most attention",
    "found_loo": "the most importance by leave-one-out",
}


def card_rows(rows: SummaryRows, about: About) -> CardRows:
    """Word what the largest penalty does to attention, accuracy and the audit of a model."""
    named = [
        name.rpartition("_")
        for name in rows.family("deceive", "mass_")
        if not name.startswith("max_")
    ]
    if not named:
        return
    models = [model for model, _, _ in named]
    model = PREFERRED if PREFERRED in models else models[0]
    strengths = sorted((strength for one, _, strength in named if one == model), key=float)
    ends = least, most = strengths[0], strengths[-1]
    masses, accuracies = (
        [rows.rows["deceive", f"{name}_{model}_{strength}"] for strength in ends]
        for name in ("mass", "accuracy")
    )
    before, after = (percent(row["value"]) for row in masses)
    honest, accuracy = (percent(row["value"]) for row in accuracies)
    without, name = "without these tokens", f"accuracy_{model}_removed"
    if about.translates:
        without, name = "with uniform attention", "accuracy_uniform"
    bare = rows.get("deceive", name)
    how = "without the penalty" if float(least) == 0 else f"when trained with λ = {least}"
    others = "" if bare is None else f"; {percent(bare['value'])} {without}"
    hides, finding = "", None
    if least != most and bare is not None:
        hides, finding = _deceived(masses, accuracies, bare, without)
    yield card_row(
        Deceive.question,
        f"attention on impermissible tokens, λ = {most}",
        masses[1],
        f"{before} {how}",
        f"A model of this study ({model}) trained to keep attention off the impermissible tokens "
        f"(λ = {most}) puts {after} of its attention on them, {before} {how}. Its accuracy is "
        f"{accuracy}{' of the gold tokens' if about.translates else ''} ({honest} {how}{others})."
        f"{hides}",
        finding=finding,
        clause="attention can be trained to hide what a model uses",
    )


def _deceived(
    masses: Sequence[Row],
    accuracies: Sequence[Row],
    bare: Row,
    without: str,
) -> tuple[str, Finding | None]:
    """Say whether attention hides what the model uses, and what that decides.

    Attention hides something if it is shown to have left these tokens while the model is shown to
    be right more often than without them, whatever that costs.
    """
    if any(row["low"] is None for row in (*masses, *accuracies, bare)):
        return "", None
    (before, after), (honest, accuracy) = masses, accuracies
    finding = Finding("deceive", after["measure"], NEITHER, UNCLEAR, after["low"], after["high"])
    if after["high"] >= before["low"]:
        text = "Its attention does not avoid these tokens, within the intervals: it hides nothing."
        return f" {text}", finding
    as_good, better = accuracy["high"] >= honest["low"], accuracy["low"] > bare["high"]
    text = f" That is {'no lower' if as_good else 'lower'}, within the intervals, "
    if not better:
        none = "no evidence that its attention hides anything that it uses."
        return f"{text}and no higher than {without}: {none}", finding
    text += f"and higher than {without}: its attention hides what it uses"
    if not as_good:
        little = honest["high"] - accuracy["low"] < POLICY.hardly
        text += ", at little cost" if little else ", at a cost"
    # It uses hidden tokens whether or not hiding them has a cost.
    return f"{text}.", replace(finding, side=AGAINST, code=HIGH)


def figures(table: pl.DataFrame, summary: pl.DataFrame) -> Iterable[Figure]:
    """Draw scores, attention and what an audit finds, of every model by λ."""
    needed = "the tokens are needed (removed)"
    if "bleu" in table.columns:
        needed = "attention is needed (uniform attention does worse)"
    caption = (
        "Models trained with a penalty λ on attention to the impermissible tokens, {seeds}. Where "
        f"accuracy stays, attention falls and {needed}, attention hides what the model uses; what "
        "follows is what an audit of that model says."
    )
    title = "Does attention hide what the model uses?"
    return score_figure(Deceive, title, caption, _TITLES)(table, summary)


CARD = StudyCard(card_rows, figures)
