"""The questions of the verdict card: each turns figures of a summary into one row and one sentence that claims no more than they do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attnaudit.results.about import About
from attnaudit.results.card import CardRow, SummaryRows, card_row
from attnaudit.results.words import (
    LN2,
    count,
    difference,
    figure,
    interval,
    output_change,
    percent,
    share_of_yardstick,
    shuffling_matters,
)

WITHIN = 0.05  # mean TVD up to which a trained model is said to predict the same
SEEN_GAP = 5e-4  # a bound closer than this to what was found has the same three decimals
WEAK_YARDSTICK = 0.1  # below this τ two importance measures hardly agree, and a share of it says nothing


def prediction(figures: SummaryRows, about: About) -> Iterator[CardRow]:
    """How good the model is; without that nothing else is worth much."""
    f1, accuracy, auc = (figures.get("prediction", name) for name in ("f1", "accuracy", "roc_auc"))
    main = accuracy if about.has_question else f1 or accuracy  # as the paper: accuracy where something is asked
    if main is None:
        return
    named = {_f1_name(about.class_names): f1, "accuracy": accuracy, "ROC-AUC": auc}
    others = [f"{name} {figure(row['value'])}" for name, row in named.items() if row and row is not main]
    usual = figures.value("prediction", "majority")
    right = f"It is right on {percent(accuracy['value'])} of {count(accuracy['n'], 'labelled instance')}" if accuracy else ""
    if accuracy:
        right += f" (always the most frequent class: {percent(usual)}). " if usual is not None else ". "
    unranked = auc is not None and (auc["value"] < 0.6 or (auc["low"] is not None and auc["low"] <= 0.5))
    unlearned = accuracy is not None and usual is not None and accuracy["low"] is not None and accuracy["low"] <= usual
    sentence = right + (
        "It ranks the classes hardly better than chance, so what explains its output is of little weight."
        if unranked
        else "It is hardly more often right than by always saying the same, so what explains its output is of little weight."
        if unlearned
        else "Everything below is about this one model; another model on the same texts can give other answers."
    )
    name = "accuracy" if main is accuracy else _f1_name(about.class_names)
    yield card_row("How well does the model predict?", name, main, ", ".join(others) or "–", sentence)


def _f1_name(classes: Sequence[str]) -> str:
    return f"F1 of class {classes[1]}" if len(classes) == 2 else "F1, mean over classes" if classes else "F1"


def attention_gradient(figures: SummaryRows, about: About) -> Iterator[CardRow]:
    """Attention against gradient, beside gradient against leave-one-out."""
    yield from _agreement(figures, "gradient", "gradients")


def attention_loo(figures: SummaryRows, about: About) -> Iterator[CardRow]:
    """Attention against leave-one-out, beside gradient against leave-one-out."""
    yield from _agreement(figures, "loo", "leave-one-out")


def _agreement(figures: SummaryRows, name: str, words: str) -> Iterator[CardRow]:
    row, yardstick = figures.get("correlation", f"tau_{name}"), figures.get("correlation", "tau_gradient_loo")
    if row is None:
        return
    label = f"mean Kendall τ, attention–{'LOO' if name == 'loo' else name}"
    sentence = _agreement_sentence(row, yardstick, figures.get("correlation", f"tau_gradient_loo_minus_tau_{name}"), words)
    sentence += figures.apart("correlation", f"tau_{name}") + _over_seeds(figures, name, words)
    told = "no gradient–LOO τ is defined" if yardstick is None else f"gradient–LOO τ {figure(yardstick['value'])} {interval(yardstick)}"
    mark = None if yardstick is None else float(yardstick["value"])
    yield card_row(f"Does attention rank tokens as {words} do?", label, row, told, sentence, mark=mark, scale=(-1.0, 1.0))


def _over_seeds(figures: SummaryRows, name: str, words: str) -> str:
    """How far scores agree with themselves, where a study of seeds tells."""
    attention, itself = figures.value("seeds", "tau_alpha"), figures.value("seeds", f"tau_{name}")
    if attention is None or itself is None:
        return ""
    return f" Trained with another seed, attention agrees with itself at τ {figure(attention)}, {words} at {figure(itself)}."


def _agreement_sentence(row: Mapping[str, Any], yardstick: Mapping[str, Any] | None, gap: Mapping[str, Any] | None, words: str) -> str:
    undefined = f" {count(row['undefined'], 'instance')} of undefined τ left out." if row["undefined"] else ""
    if yardstick is None:
        return f"Attention and {words} agree at τ {figure(row['value'])}; there is nothing to hold that against.{undefined}"
    value, against = float(row["value"]), float(yardstick["value"])
    if against < WEAK_YARDSTICK:
        said = f"The two importance measures hardly agree with each other (τ {figure(against)}), so they give no firm standard here."
    elif value <= 0 or (row["low"] is not None and row["low"] <= 0):
        said = f"No agreement of attention with {words} is seen on average, where the two importance measures agree with each other."
    elif gap and gap["low"] is not None and gap["low"] <= 0 <= gap["high"]:
        said = f"Attention agrees with {words} about as well as the two importance measures agree with each other."
    else:
        said = f"Attention agrees with {words} {share_of_yardstick(value, against)} the two importance measures agree with each other."
    return said + undefined


def permutation(figures: SummaryRows, about: About) -> Iterator[CardRow]:
    """What shuffling the weights does to the output."""
    row = figures.get("permutation", "median_delta_y")
    if row is None:
        return
    peak = figures.value("permutation", "max_alpha")
    sentence = (
        f"With its attention weights shuffled among the tokens, the output {output_change(row['value'])} "
        f"(by {figure(row['value'], 3)} of probability for the average instance); {shuffling_matters(row['value'], peak)}."
        f"{figures.apart('permutation', 'median_delta_y', 3)}{_trained_evenly(figures)}{_kept_words(figures)}"
    )
    peaked = "" if peak is None else f"mean largest weight {figure(peak)}; "
    yield card_row(
        "How much does shuffling attention change the output?", "mean of the median Δŷ", row,
        f"{peaked}0: no change, 1: from one certain answer to another", sentence, places=3,
    )  # fmt: skip


def _trained_evenly(figures: SummaryRows) -> str:
    """What a model loses that never had any other weights, where a study tells."""
    row = figures.get("uniform", "difference_f1_uniform")
    return "" if row is None else f" Trained with even attention, F1 differs by {figure(row['value'])} {interval(row)} from this model's."


def adversary(figures: SummaryRows, about: About) -> Iterator[CardRow]:
    """How different an attention can be that gives nearly the same output."""
    row = figures.get("adversary", "emax_jsd")
    if row is None:
        return
    upper, certified = figures.value("adversary", "emax_jsd_upper"), figures.value("adversary", "certified")
    epsilon = about.setting("adversary", "epsilon")
    within = f"within ε = {epsilon:g}" if isinstance(epsilon, int | float) else "within ε"
    proven = "" if certified is None else f" The best found is proven to be the largest there is for {percent(certified)} of instances."
    gap = upper is not None and upper - row["value"] > SEEN_GAP
    found = "a search found" if gap else "there are"
    more = "; what exists may differ more" if gap else ""
    sentence = (
        f"On average {found} attention weights that differ {difference(row['value'])} from the model's own and keep the output {within} "
        f"of what it was{more}; that they exist does not mean that training would find them (Wiegreffe & Pinter 2019)"
        f"{_by_training(figures)}.{proven}{figures.apart('adversary', 'emax_jsd', 3)}{_over_all_words(figures)}"
    )
    bound = "" if not gap else f"at most {figure(upper, 3)} (upper bound), "
    yield card_row(
        "How different an attention gives nearly the same output?", "mean ε-max JSD, found", row,
        f"{bound}ln 2 = 0.693 (the most that two attentions can differ)", sentence, mark=upper if gap else LN2, scale=(0.0, LN2), places=3,
    )  # fmt: skip


def _kept_words(figures: SummaryRows) -> str:
    """Of a translator: its output here is not that over its vocabulary."""
    covered = figures.value("translation", "covered")
    return "" if covered is None else (
        f" The output here is the odds among the few words kept of each row; they hold {percent(covered)} of the model's probability."
    )  # fmt: skip


def _over_all_words(figures: SummaryRows) -> str:
    """Of a translator: what these weights do to the rest of its vocabulary."""
    change, within = (figures.get("translation", f"adversary_{name}") for name in ("change", "within"))
    if change is None or within is None:
        return _kept_words(figures)
    return (
        f"{_kept_words(figures)} Over all words the weights found change the output by {figure(change['value'])} {interval(change)} on "
        f"average, and by no more than ε in {percent(within['value'])} of the rows."
    )


def _by_training(figures: SummaryRows) -> str:
    """What training did find, and another seed alone, where studies tell."""
    reached, seed = furthest_trained(figures), figures.value("seeds", "jsd")
    parts = [f"trained to, models reached JSD {figure(reached[1])} at TVD {figure(reached[0], 3)}"] if reached else []
    parts += [f"another seed alone gives JSD {figure(seed)}"] if seed is not None else []
    return f" ({'; '.join(parts)})" if parts else ""


def furthest_trained(figures: SummaryRows) -> tuple[float, float] | None:
    """Mean TVD and mean JSD of the model, of those trained to attend elsewhere, that went furthest within a TVD of `WITHIN`."""
    return max((point for point in trained_adversaries(figures) if point[0] < WITHIN), key=lambda point: point[1], default=None)


def trained_adversaries(figures: SummaryRows) -> list[tuple[float, float]]:
    """Mean TVD and mean JSD of every λ."""
    return [
        (float(figures.rows["adversary", f"tvd_{name}"]["value"]), float(found["value"]))
        for (study, measure), found in figures.rows.items()
        if study == "adversary" and measure.startswith("jsd_adversary_") and (name := measure.removeprefix("jsd_"))
    ]


def erasure(figures: SummaryRows, about: About) -> Iterator[CardRow]:
    """How many tokens must go before the decision flips, by attention and at least."""
    row, least = figures.get("erasure", "removed_attention"), figures.get("erasure", "removed_minimum")
    if row is None or least is None:
        return
    times, chance, never = (figures.value("erasure", name) for name in ("times_minimum_attention", "removed_random", "never_attention"))
    beside = "" if times is None else f" That is {figure(times, 1)} times as many as the smallest set that flips it, on average"
    proven = figures.value("erasure", "minimum_proven")
    beside += "" if times is None else f" (proven smallest for {percent(proven)})." if proven is not None else "."
    rest = f" {percent(never)} never flip that way and are left out." if never else ""
    rest += _kept_words(figures)
    sentence = (
        f"Taken away in the order of attention, {percent(row['value'])} of the tokens are gone when the decision first flips.{beside}{rest}"
    )
    random = "" if chance is None else f", in random order {figure(chance)}"
    yield card_row(
        "How many tokens must go before the decision flips?", "share of the tokens, by attention", row,
        f"smallest set {figure(least['value'])} {interval(least)}{random}", sentence, mark=float(least["value"]),
    )  # fmt: skip


def plausibility(figures: SummaryRows, about: About) -> Iterator[CardRow]:
    """How well attention finds the tokens that are known, or annotated, to matter."""
    for kind, measure in (("precision", "precision at the number of known tokens"), ("auprc", "AUPRC")):
        row = figures.get("plausibility", f"{kind}_attention")
        if row is None:
            continue
        others = {name: figures.value("plausibility", f"{kind}_{name}") for name in ("gradient", "loo")}
        chance = figures.value("plausibility", f"{kind}_chance")
        told = [f"{'LOO' if name == 'loo' else name} {figure(value)}" for name, value in others.items() if value is not None]
        told += [f"random order {figure(chance)}"] if chance is not None else []
        question = "Does attention find the tokens known to matter?" if kind == "precision" else "Does it rank them first?"
        sentence = _found(kind, row, others, chance) + figures.apart("plausibility", f"{kind}_attention")
        yield card_row(question, measure, row, ", ".join(told) or "–", sentence, mark=_best(others))


def _best(others: Mapping[str, float | None]) -> float | None:
    return max((value for value in others.values() if value is not None), default=None)


def _found(kind: str, row: Mapping[str, Any], others: Mapping[str, float | None], chance: float | None) -> str:
    best = _best(others)
    what = f"{percent(row['value'])} of attention's top tokens are known to matter" if kind == "precision" else (
        f"Ranked by attention, the known tokens reach an average precision of {figure(row['value'])}"
    )  # fmt: skip
    against = "" if chance is None else f", where a random order would give {percent(chance) if kind == 'precision' else figure(chance)}"
    if best is None:
        return f"{what}{against}."
    low, high = row["low"], row["high"]
    less, more = (row["value"], row["value"]) if low is None or high is None else (low, high)
    than = "about as well as" if less <= best <= more else "less well than" if more < best else "better than"
    name = next(name for name, value in others.items() if value == best)
    return f"{what}{against}: it finds them {than} {'leave-one-out' if name == 'loo' else 'gradients'} ({figure(best)})."
