"""Can attention be trained to hide what it uses? (Pruthi et al. 2020)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import polars as pl

from attnaudit.experiments.verdict import AGAINST, HIGH, NEITHER, POLICY, UNCLEAR, Finding
from attnaudit.report.cards.card import Axis, CardRow, Claim, StudyCard, card_row
from attnaudit.report.charts.specs import Intervals, StudyFigure, StudyPanel
from attnaudit.report.words import figure, percent
from attnaudit.results.about import About
from attnaudit.results.summary import SummaryRows
from attnaudit.studies.deceive import Deceive
from attnaudit.studies.over_seeds import of_models, seeds_and_spread
from attnaudit.studies.uncovering import RANKED

_TITLES = {
    "accuracy": "accuracy",
    "bleu": "BLEU",
    "mass": "attention on impermissible tokens",
    "tau_loo": "τ to leave-one-out",
    "found_attention": "an impermissible token has the most attention",
    "found_loo": "the most importance by leave-one-out",
}


class Compared(NamedTuple):
    """Summary rows of a model trained to hide, and of those that it is compared with.

    Attributes:
        before: Attention on the tokens, with the least penalty.
        after: The same with the largest penalty.
        honest: Accuracy with the least penalty.
        accuracy: Accuracy with the largest penalty.
        bare: Accuracy without these tokens, or with uniform attention.
    """

    before: Mapping[str, Any]
    after: Mapping[str, Any]
    honest: Mapping[str, Any]
    accuracy: Mapping[str, Any]
    bare: Mapping[str, Any] | None


def card_rows(rows: SummaryRows, about: About) -> Iterator[CardRow]:
    """Word what the largest penalty does to attention, accuracy and the audit of a model."""
    named = [
        measure.removeprefix("mass_").rpartition("_")
        for study, measure in rows.rows
        if study == "deceive" and measure.startswith("mass_") and "mass_max_" not in measure
    ]
    if not named:
        return
    models = [model for model, _, _ in named]
    # The card tells of one model: the usual one, which published numbers are of.
    model = "bilstm" if "bilstm" in models else models[0]
    strengths = sorted((strength for one, _, strength in named if one == model), key=float)
    least, most = strengths[0], strengths[-1]
    bare = "accuracy_uniform" if about.translates else f"accuracy_{model}_removed"
    before, after, honest, accuracy = (
        rows.rows["deceive", f"{name}_{model}_{strength}"]
        for name in ("mass", "accuracy")
        for strength in (least, most)
    )
    compared = Compared(before, after, honest, accuracy, rows.get("deceive", bare))
    without = "with uniform attention" if about.translates else "without these tokens"
    how = "without the penalty" if float(least) == 0 else f"when trained with λ = {least}"
    reference = f"{percent(before['value'])} {how}"
    others = f"{percent(honest['value'])} {how}"
    if compared.bare is not None:
        others += f"; {percent(compared.bare['value'])} {without}"
    hides, finding = ("", None) if least == most else _deceived(compared, without)
    taus = (
        figure(rows.value("deceive", f"tau_loo_{model}_{strength}")) for strength in (least, most)
    )
    yield card_row(
        Deceive.question,
        f"attention on impermissible tokens, λ = {most}",
        after,
        reference,
        f"A model of this study ({model}) trained to keep attention off the impermissible tokens "
        f"(λ = {most}) puts {percent(after['value'])} of its attention on them, "
        f"{reference}. Its accuracy is {percent(accuracy['value'])}"
        f"{' of the gold tokens' if about.translates else ''} ({others}).{hides}"
        f"{_of_bleu(rows, model, least, most)} In an audit, τ with leave-one-out goes from "
        f"{' to '.join(taus)}.{_uncovered(rows, f'{model}_{most}')}",
        axis=Axis(mark=before["value"]),
        claim=Claim(finding, "attention can be trained to hide what a model uses"),
    )


def _deceived(rows: Compared, without: str) -> tuple[str, Finding | None]:
    """Say whether attention hides what the model uses, and what that decides.

    Attention hides something if it is shown to have left these tokens while the model is shown to
    be right more often than without them, whatever that costs.
    """
    before, after, honest, accuracy, bare = rows
    if bare is None or any(row["low"] is None for row in (before, after, honest, accuracy, bare)):
        return "", None
    finding = Finding("deceive", after["measure"], NEITHER, UNCLEAR, after["low"], after["high"])
    if after["high"] >= before["low"]:
        return (
            " Its attention does not avoid these tokens, within the intervals: it hides nothing.",
            finding,
        )
    as_good, better = accuracy["high"] >= honest["low"], accuracy["low"] > bare["high"]
    if not better:
        text = (
            f" That is no higher than {without}: it hides nothing, since it no longer seems to use "
            "what it attended to."
        )
        if as_good:
            text = (
                f" That is no lower, but no higher than {without} either: no evidence that there "
                "is anything to hide."
            )
        return text, finding
    # It uses hidden tokens whether or not hiding them has a cost.
    finding = replace(finding, side=AGAINST, code=HIGH)
    if as_good:
        text = (
            f" That is no lower, within the intervals, and higher than {without}: its attention "
            "hides what it uses."
        )
    elif honest["high"] - accuracy["low"] < POLICY.hardly:
        text = (
            f" That is lower by less than {100 * POLICY.hardly:.0f} points, and higher than "
            f"{without}: its attention hides what it uses, at little cost."
        )
    else:
        text = (
            f" That is lower, yet higher than {without}: its attention hides part of what it uses, "
            "at a cost."
        )
    return text, finding


def _of_bleu(rows: SummaryRows, model: str, least: str, most: str) -> str:
    """Say what became of translations, where there are any."""
    before, after, uniform = (
        rows.value("deceive", f"bleu_{name}")
        for name in (f"{model}_{least}", f"{model}_{most}", "uniform")
    )
    if before is None or after is None:
        return ""
    compared = "" if uniform is None else f"; with uniform attention {uniform:.1f}"
    return f" BLEU goes from {before:.1f} to {after:.1f}{compared}."


def _uncovered(rows: SummaryRows, model: str) -> str:
    """Say what names the hidden tokens of a model; nothing if that was not asked."""
    shares = {
        name: rows.value("deceive", f"found_{name}_{model}")
        for name in (*RANKED, "change", "random")
    }
    if None in shares.values():
        return ""
    attention, gradient, loo, change, chance = (
        percent(share) for share in shares.values() if share is not None
    )
    return (
        f" The most important token is an impermissible one in {loo} of the texts by leave-one-out,"
        f" in {gradient} by gradients, in {attention} by attention, and by the largest change that "
        f"attention can make in {change}; a token drawn at random is in {chance}."
    )


def figures(table: pl.DataFrame, summary: pl.DataFrame) -> Iterator[StudyFigure]:
    """Draw scores, attention and what an audit finds, of every model by λ."""
    shown = {
        title: rows
        for measure, title in _TITLES.items()
        if (rows := of_models(summary, measure, Deceive.measures)).height
    }
    panels = tuple(
        StudyPanel(
            title, Intervals(rows, title), f"deceive-{number}", f"{title} of every model by λ"
        )
        for number, (title, rows) in enumerate(shown.items())
    )
    needed = "the tokens are needed (removed)"
    if "BLEU" in shown:
        needed = "attention is needed (uniform attention does worse)"
    caption = (
        "Models trained with a penalty λ on attention to the impermissible tokens, "
        f"{seeds_and_spread(table)}. Where accuracy stays, attention falls and {needed}, attention "
        "hides what the model uses; what follows is what an audit of that model says."
    )
    yield StudyFigure("deceive", "Does attention hide what the model uses?", caption, panels)


CARD = StudyCard(card_rows, figures)
