"""The card rows of retraining studies: each study's summary as one row and one conclusion."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from attnaudit.experiments.adversary.experiment import WITHIN, furthest_trained, trained_adversaries
from attnaudit.report.words.study_numbers import figure_and_model, model_label, timed_by_chance
from attnaudit.results.about import About
from attnaudit.results.card import CardRow, SummaryRows, card_row
from attnaudit.results.words import LN2, count, difference, figure, interval, percent

DIFFERENT = 0.5 * LN2  # of JSD: from here on an attention is called quite different
HARDLY = 0.03  # of F1: a loss that an interval holds below this is called none


def uniform(figures: SummaryRows, about: About) -> Iterator[CardRow]:
    """Needed?"""
    row, base, even = (figures.get("uniform", name) for name in ("difference_f1_uniform", "f1_base", "f1_uniform"))
    if row is None or base is None or even is None:
        return
    sentence = f"Retrained with uniform attention, the model reaches F1 {figure(even['value'])} instead of {figure(base['value'])}. "
    if row["low"] > -HARDLY:
        sentence += f"This corpus hardly needs attention (a loss of {HARDLY} is outside the interval), and says little about attention."
    elif row["high"] < 0:
        chance = "instances explain, although one seed says nothing about others" if row["std"] is None else "seeds and instances explain"
        sentence += f"The loss is beyond what {chance}: here nothing else replaces attention."
    else:
        sentence += "The interval contains both no loss and a relevant one: more seeds, or more test texts, are needed."
    yardstick = f"F1 {figure(base['value'])} {interval(base)} with attention"
    yield card_row("Is attention needed?", "F1 with uniform attention minus F1 with its own", row, yardstick, sentence, scale=(-1.0, 1.0))


def seeds(figures: SummaryRows, about: About) -> Iterator[CardRow]:
    """Stable?"""
    row = figures.get("seeds", "jsd")
    if row is None:
        return
    taus = {name: figures.get("seeds", f"tau_{name}") for name in ("alpha", "gradient", "loo")}
    told = ", ".join(f"{word} {figure(tau['value'])}" for name, word in _WORDS.items() if (tau := taus[name]))
    sentence = (
        f"With another seed, attention differs {difference(row['value'])} from the first. Only larger differences, by an adversary or any "
        f"other attention, are informative. Across seeds, a score agrees with itself by (τ: {told}): compare its agreement with another "
        "score with that."
    )
    yield card_row("Is attention stable?", "JSD to another seed's attention", row, f"τ with itself: {told}", sentence, scale=(0.0, LN2))


def guide(figures: SummaryRows, about: About) -> Iterator[CardRow]:
    """Transferable? Where the base's attention is not among the weights, what others did, and that it was not asked."""
    even, own = figures.get("guide", "f1_uniform"), figures.get("guide", "f1_learned")
    if even is None:
        return
    names = [measure.removeprefix("f1_") for study, measure in figures.rows if study == "guide" and measure.startswith("f1_")]
    name = min(set(names) - {"uniform"}, key=lambda name: (name != "base", name == "learned", names.index(name)), default="uniform")
    row = figures.get("guide", f"difference_f1_{name}") or even
    f1 = {other: figure(figures.rows["guide", f"f1_{other}"]["value"]) for other in names}
    words = {"base": "this attention", "learned": "its own learned weights"}.get(name, model_label(name))
    led = f"{f1[name]} with {words}, " if name != "uniform" else ""
    said = [f"A token-wise model reaches F1 {led}{f1['uniform']} with uniform weights."]
    said += [_carried(row, even, own)] if name not in ("learned", "uniform") else []
    said += ["The attention of the model under study was not among the weights (guide.weights)."] if name != "base" else []
    others = {"learned": "its own attention", "adversary": "an adversary's"}
    told = "; ".join(f"{words} {f1[other]}" for other, words in others.items() if other in f1 and other != name)
    measure = "F1 with uniform weights" if row is even else f"F1 with {'it' if name == 'base' else words} minus F1 with uniform weights"
    yield card_row("Does attention transfer?", measure, row, told or "–", " ".join(said), scale=(-1.0, 1.0))


def _carried(row: Mapping[str, Any], even: Mapping[str, Any], own: Mapping[str, Any] | None) -> str:
    """What their F1, less that of even weights, says of weights that led another model."""
    if row["low"] > 0:
        return "So the weights tell another model which tokens matter."
    if row["high"] < 0:
        return f"So they do not help another model, which is better without them{_nor_its_own(own, even)}."
    return "The interval contains 0: no evidence that they transfer."


def _nor_its_own(own: Mapping[str, Any] | None, even: Mapping[str, Any]) -> str:
    """Where a model's own weights serve it no better, it is no fault of those it was given."""
    return f"; its own learned weights do not help either (F1 {figure(own['value'])})" if own and own["value"] <= even["value"] else ""


def adversary(figures: SummaryRows, about: About) -> Iterator[CardRow]:
    """Attackable?"""
    row = figures.get("adversary", "area")
    if row is None:
        return
    reached, trained = furthest_trained(figures), trained_adversaries(figures)
    frozen, seed = figures.value("adversary", "jsd_frozen_0.01"), figures.value("adversary", "tvd_seed")
    best = f"JSD {figure(reached[1])} at TVD {figure(reached[0], 3)}" if reached else f"none within TVD {WITHIN}"
    if reached:
        sentence = f"Models trained to predict the same and attend elsewhere reach a mean {best}. "
    else:
        moved, apart = min(trained, default=(math.nan, math.nan))
        sentence = (
            f"No model trained to predict the same and attend elsewhere stays within a mean TVD of {WITHIN}; the closest has "
            f"{figure(moved, 3)}, with attention at a JSD of {figure(apart)} away. "
        )
    near = [apart for moved, apart in trained if seed is not None and moved <= seed]
    if seed is not None and near:
        sentence += (
            f"Another seed changes the predictions by {figure(seed, 3)}; within that, attention reaches a JSD of {figure(max(near))}. "
        )
    sentence += (
        "So the same predictions are possible with a very different attention."
        if reached and reached[1] > DIFFERENT
        else "So predictions as similar as those of two seeds are possible with a very different attention."
        if any(apart > DIFFERENT for apart in near)
        else "No model was found that predicts the same with a very different attention; a longer search might find one."
    )
    if frozen is not None:
        sentence += f" For each instance separately, with the model frozen: a JSD of {figure(frozen)} within 0.01."
    measure = "area under the curve of JSD within TVD, share of the maximum"
    yield card_row("Can attention be moved?", measure, row, best, sentence)


def deceive(figures: SummaryRows, about: About) -> Iterator[CardRow]:
    """Deceivable?"""
    found = [figure_and_model(measure) for study, measure in figures.rows if study == "deceive"]
    names = [model.rpartition("_") for measure, model in found if measure == "mass"]
    if not names:
        return
    models = [model for model, _, _ in names]
    model = "bilstm" if "bilstm" in models else models[0]
    strengths = sorted((float(strength), strength) for name, _, strength in names if name == model)
    (_, least), (_, most) = strengths[0], strengths[-1]
    before, after = (
        {name: figures.rows["deceive", f"{name}_{model}_{strength}"] for name in ("mass", "accuracy")} for strength in (least, most)
    )
    bare = figures.get("deceive", "accuracy_uniform" if about.translates else f"accuracy_{model}_removed")
    without = "with uniform attention" if about.translates else "without these tokens"
    of_what = " of the gold tokens" if about.translates else ""
    honest = "without the penalty" if float(least) == 0 else f"when trained with λ = {least}"
    yardstick = f"{percent(before['mass']['value'])} {honest}"
    beside = f"{percent(before['accuracy']['value'])} {honest}" + (f"; {percent(bare['value'])} {without}" if bare else "")
    sentence = (
        f"A model of this study ({model}) trained to hide it (λ = {most}) puts {percent(after['mass']['value'])} of its attention on "
        f"the impermissible tokens, {yardstick}. Its accuracy is {percent(after['accuracy']['value'])}{of_what} ({beside})."
        f"{_deceived(before, after, bare, without) if least != most else ''}{_of_bleu(figures, model, least, most)}"
    )
    taus = [figure(figures.value("deceive", f"tau_loo_{model}_{strength}")) for strength in (least, most)]
    sentence += f" In an audit, τ with leave-one-out goes from {taus[0]} to {taus[1]}."
    measure, mark = f"attention on impermissible tokens, λ = {most}", before["mass"]["value"]
    yield card_row("Can attention deceive?", measure, after["mass"], yardstick, sentence, mark=mark)


Told = Mapping[str, Any]
"""A row of a summary."""


def _deceived(before: Mapping[str, Told], after: Mapping[str, Told], bare: Told | None, without: str) -> str:
    """Whether attention hides what the model uses: it has left these tokens, and the model is right more often than ``without``."""
    mass, accuracy, honest = after["mass"], after["accuracy"], before["accuracy"]
    if bare is None or any(row["low"] is None for row in (mass, before["mass"], accuracy, honest, bare)):
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
    before, after, even = (figures.value("deceive", f"bleu_{name}") for name in (f"{model}_{least}", f"{model}_{most}", "uniform"))
    if before is None or after is None:
        return ""
    beside = "" if even is None else f"; with uniform attention {even:.1f}"
    return f" BLEU goes from {before:.1f} to {after:.1f}{beside}."


def dynamics(figures: SummaryRows, about: About) -> Iterator[CardRow]:
    """Learned from what?"""
    row, chance = figures.get("dynamics", "agreement_alpha_uniform"), figures.value("dynamics", "chance")
    if row is None or chance is None:
        return
    loo, own, habit = (figures.value("dynamics", f"agreement_alpha_{name}") for name in ("loo", "relevance", "uniform_elsewhere"))
    alike = "pair of the same length at the same position" if about.translates else "text of the same length"
    bar = max(chance, habit or 0.0)
    sentence = (
        f"The token with the most attention is among the top 5 % by relevance in a model with uniform attention in "
        f"{percent(row['value'])} of the {'gold tokens' if about.translates else 'texts'}; by chance in {percent(chance)}"
        f"{'' if habit is None else f', by relevance in another {alike} in {percent(habit)}'}. "
    )
    if loo is not None and own is not None:
        sentence += f"By relevance in the model itself in {percent(own)}, by leave-one-out in {percent(loo)}. "
    sentence += (
        "So attention goes where relevance is learned without it. "
        if row["low"] > bar
        else "So it goes less often than by chance where relevance is learned without it. "
        if row["high"] < chance
        else "The interval contains chance: no evidence that attention follows relevance that is learned without it. "
        if row["low"] <= chance
        else "That is above chance, but not above positional habit: no evidence that it follows the tokens. "
    )
    sentence += _timing(figures)
    measure = "A(α, rᵘ): top position by attention, top 5 % by relevance under uniform attention"
    beside = f"{figure(chance)} by chance" + ("" if habit is None else f", {figure(habit)} by positional habit")
    yield card_row("What is attention learned from?", measure, row, beside, sentence, mark=bar)


def _timing(figures: SummaryRows) -> str:
    """What was known when attention got its own, or why that cannot be said."""
    xi, best, step, gap = (figures.get("dynamics", name) for name in ("xi", "best_accuracy", "xi_step", "best_accuracy_minus_xi"))
    reached, threshold, chance = (figures.get("dynamics", name) for name in ("xi_reached", "xi_threshold", "chance"))
    if best is None or reached is None or threshold is None or chance is None:
        return "Timing needs more than one seed."
    if xi is None or step is None or gap is None:
        return (
            "The timing of attention is undefined: at no step does that of another seed agree with the first seed's "
            f"({figure(reached['value'])} at most) better than that relevance does ({figure(threshold['value'])})."
        )
    if timed_by_chance(threshold, chance):
        return (
            f"That relevance agrees with the first seed's attention ({figure(threshold['value'])}) no better than chance, within its "
            "interval: the step at which attention of other seeds is closer says nothing about which is learned first."
        )
    others = f" {count(xi['undefined'], 'seed')} never reach it." if xi["undefined"] else ""
    early = figures.value("dynamics", "xi_early")
    soon = "" if not early else (
        f" In {percent(early)} of the seeds that do, there is no checkpoint between the start and that step: there it says little about "
        "the order; add steps to dynamics.steps."
    )  # fmt: skip
    return (
        f"Attention of other seeds is closer to the first seed's than that relevance after {step['value']:.0f} steps; by then "
        f"accuracy is {figure(xi['value'])} {interval(xi)}, of {figure(xi['value'] + gap['value'])} at best.{others}{soon}"
    )


_WORDS = {"alpha": "attention", "gradient": "gradient", "loo": "leave-one-out"}
QUESTIONS = (uniform, seeds, guide, adversary, deceive, dynamics)
