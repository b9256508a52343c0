"""Can attention be trained to hide what it uses? Of classifiers, and of translators (Pruthi et al. 2020)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from attnaudit.report.cards.card import StudyCard
from attnaudit.results.about import About
from attnaudit.results.card import CardRow, Claim, SummaryRows, card_row
from attnaudit.results.charts import Intervals, StudyFigure, StudyPanel
from attnaudit.results.words import figure, percent
from attnaudit.studies.deceive import Deceive
from attnaudit.studies.over_seeds import (
    HARDLY,
    of_models,
    seeds_and_spread,
)
from attnaudit.studies.uncovering import uncovered

SummaryRow = Mapping[str, Any]  # a row of a summary


def _deceived(
    before: Mapping[str, SummaryRow],
    after: Mapping[str, SummaryRow],
    bare: SummaryRow | None,
    without: str,
) -> str:
    """Whether attention hides what the model uses: it has left these tokens, and the model is right more often than ``without``."""
    mass, accuracy, honest = after["mass"], after["accuracy"], before["accuracy"]
    if bare is None or any(
        row["low"] is None for row in (mass, before["mass"], accuracy, honest, bare)
    ):
        return ""
    if mass["high"] >= before["mass"]["low"]:
        return " Its attention does not avoid these tokens, within the intervals: it hides nothing."
    as_good, better = accuracy["high"] >= honest["low"], accuracy["low"] > bare["high"]
    if as_good and better:
        return f" That is no lower, within the intervals, and higher than {without}: its attention hides what it uses."
    if as_good:
        return f" That is no lower, but no higher than {without} either: no evidence that there is anything to hide."
    if not better:
        return f" That is no higher than {without}: it hides nothing, since it no longer seems to use what it attended to."
    if honest["high"] - accuracy["low"] < HARDLY:
        points = f"{100 * HARDLY:.0f} points"
        return f" That is lower by less than {points}, and higher than {without}: its attention hides what it uses, at little cost."
    return f" That is lower, yet higher than {without}: its attention hides part of what it uses, at a cost."


def _of_bleu(figures: SummaryRows, model: str, least: str, most: str) -> str:
    """What became of the translations, where there are any."""
    before, after, uniform = (
        figures.value("deceive", f"bleu_{name}")
        for name in (f"{model}_{least}", f"{model}_{most}", "uniform")
    )
    if before is None or after is None:
        return ""
    compared = "" if uniform is None else f"; with uniform attention {uniform:.1f}"
    return f" BLEU goes from {before:.1f} to {after:.1f}{compared}."


def card_rows(rows: SummaryRows, about: About) -> Iterator[CardRow]:
    measured = [
        measure
        for study, measure in rows.rows
        if study == "deceive" and not measure.startswith("mass_max_")
    ]
    names = [
        measure.removeprefix("mass_").rpartition("_")
        for measure in measured
        if measure.startswith("mass_")
    ]
    if not names:
        return
    models = [model for model, _, _ in names]
    model = "bilstm" if "bilstm" in models else models[0]
    strengths = sorted((float(strength), strength) for name, _, strength in names if name == model)
    (_, least), (_, most) = strengths[0], strengths[-1]
    before, after = (
        {name: rows.rows["deceive", f"{name}_{model}_{strength}"] for name in ("mass", "accuracy")}
        for strength in (least, most)
    )
    bare = rows.get(
        "deceive", "accuracy_uniform" if about.translates else f"accuracy_{model}_removed"
    )
    without = "with uniform attention" if about.translates else "without these tokens"
    of_what = " of the gold tokens" if about.translates else ""
    honest = "without the penalty" if float(least) == 0 else f"when trained with λ = {least}"
    reference = f"{percent(before['mass']['value'])} {honest}"
    compared = f"{percent(before['accuracy']['value'])} {honest}" + (
        f"; {percent(bare['value'])} {without}" if bare else ""
    )
    hides = _deceived(before, after, bare, without) if least != most else ""
    sentence = (
        f"A model of this study ({model}) trained to keep attention off the impermissible tokens (λ = {most}) puts "
        f"{percent(after['mass']['value'])} of its attention on them, {reference}. Its accuracy is "
        f"{percent(after['accuracy']['value'])}{of_what} ({compared})."
        f"{hides}{_of_bleu(rows, model, least, most)}"
    )
    taus = [
        figure(rows.value("deceive", f"tau_loo_{model}_{strength}")) for strength in (least, most)
    ]
    sentence += f" In an audit, τ with leave-one-out goes from {taus[0]} to {taus[1]}.{uncovered(rows, f'{model}_{most}')}"
    measure, mark = f"attention on impermissible tokens, λ = {most}", before["mass"]["value"]
    claim = (
        Claim(False, "attention can be trained to hide what a model uses")
        if "attention hides" in hides
        else None
    )
    yield card_row(
        Deceive.question, measure, after["mass"], reference, sentence, mark=mark, claim=claim
    )


def figures(table: pl.DataFrame, summary: pl.DataFrame) -> Iterator[StudyFigure]:
    titles = {
        "accuracy": "accuracy", "bleu": "BLEU", "mass": "attention on impermissible tokens", "tau_loo": "τ to leave-one-out",
        "found_attention": "an impermissible token has the most attention", "found_loo": "the most importance by leave-one-out",
    }  # fmt: skip
    shown = {
        title: rows
        for measure, title in titles.items()
        if (rows := of_models(summary, measure, Deceive.measures)).height
    }
    panels = [
        StudyPanel(
            title, Intervals(rows, title), f"deceive-{number}", f"{title} of every model by λ"
        )
        for number, (title, rows) in enumerate(shown.items())
    ]
    needed = (
        "attention is needed (uniform attention does worse)"
        if "BLEU" in shown
        else "the tokens are needed (removed)"
    )
    caption = (
        f"Models trained with a penalty λ on attention to the impermissible tokens, {seeds_and_spread(table)}. Where accuracy stays, "
        f"attention falls and {needed}, attention hides what the model uses; what follows is what an audit of that model says."
    )
    yield StudyFigure("deceive", "Does attention hide what the model uses?", caption, tuple(panels))


CARD = StudyCard(rows=card_rows, figures=figures)
