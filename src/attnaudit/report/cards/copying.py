"""Words and figures of the copying study."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import polars as pl

from attnaudit.copying.study import (
    NAME,
    OUTCOMES,
    PASSED,
    PRESETS,
    SUCCESS,
    Copying,
    outcomes,
    passing,
)
from attnaudit.core.numbers import count
from attnaudit.results.card import CardRow, Claim, SummaryRows, card_row
from attnaudit.results.charts import FirstSteps, Matrix, SeedLines, StudyFigure, StudyPanel
from attnaudit.results.words import figure, interval, percent
from attnaudit.stats.agreement import TOP, chance_agreement

QUESTION = "How is attention learned? The copying task"
_SEQUENCES = {
    "permutations": "permutations of {symbols} symbols",
    "distinct": "{length} distinct symbols of {symbols}",
    "iid": "{length} symbols drawn independently from {symbols}",
}
_PAPER = {
    "permutations": "Snell et al.: about half of the seeds fail",
    "distinct": "no share is known of the paper",
    "iid": "Snell et al.: 40 drawn independently are always learned",
}
GROUPS = {
    "all": "all seeds",
    "succeeded": "seeds that succeeded",
    "failed": "seeds that did not succeed",
}
SPREAD = (
    "Shares of seeds with 95 % Wilson intervals; medians over seeds with distribution-free 95 % "
    "intervals, which fewer than six seeds do "
    "not have."
)


def headings(study: Copying) -> tuple[str, str]:
    """Return title and subtitle of the card: the sequences, and the model."""
    title = "Copying " + _SEQUENCES[study.kind].format(
        symbols=study.sequences.symbols, length=study.length
    )
    before = (
        f" after {count(study.pretraining, 'step')} with uniform attention"
        if study.pretraining
        else ""
    )
    encoder = "bidirectional encoder" if study.encoder == "bilstm" else "unidirectional encoder"
    model = (
        f"{PRESETS[study.preset].words}, {encoder}, {count(study.heads, 'head')}, products in "
        f"{study.precision}"
    )
    return (
        title,
        f"{count(study.steps, 'step')} of training{before}, {model}; brackets: 95 % interval",
    )


def card_rows(rows: SummaryRows, study: Copying) -> Iterator[CardRow]:
    """Say if copying is learned, what is learned first, and where attention looks."""
    yield from _learned(rows, study)
    yield from _first(rows, study)
    yield from _looks(rows, study)


def _learned(rows: SummaryRows, study: Copying) -> Iterator[CardRow]:
    won = rows.get(NAME, "succeeded")
    if won is None:
        return
    succeeded = round(won["value"] * won["n"])
    sentence = (
        f"Of {count(won['n'], 'seed')} {succeeded} learned to copy ({percent(won['value'])}, "
        f"{_range(won)}): more than {percent(SUCCESS)} "
        "of the symbols are right, given the right ones before."
    )
    sentence += _stopped(rows) + _attending(rows, succeeded)
    claim = None if none_learned(rows) else _claim(rows)
    yield card_row(
        "Is copying learned?",
        "share of seeds that succeeded",
        won,
        _published(study),
        sentence,
        claim=claim,
        of_model=True,
    )


def none_learned(rows: SummaryRows) -> str:
    """Return a notice that nothing may be concluded if no seed learned to copy, else nothing."""
    won, reached = rows.get(NAME, "succeeded"), rows.get(NAME, "token_accuracy")
    if won is None or reached is None or won["value"] > 0:
        return ""
    accuracy = (
        f"token accuracy {figure(reached['value'])}, median over {count(reached['n'], 'seed')}"
    )
    return (
        f"Claim nothing: no seed learned to copy ({accuracy}; more than {figure(SUCCESS)} counts "
        f"as learned). Numbers are shown, "
        "conclusions are withheld."
    )


def _claim(rows: SummaryRows) -> Claim | None:
    """Claim that attention of most seeds finds the position that a symbol comes from."""
    row = rows.get(NAME, "attending")
    if row is None:
        return None
    return Claim(
        row["low"] > 0.5,
        f"attention finds the position that a symbol comes from in "
        f"{round(row['value'] * row['n'])} of {count(row['n'], 'seed')}",
    )


def _stopped(rows: SummaryRows) -> str:
    """Say where the seeds end that fail, if some do."""
    median, least, most = (
        rows.get(NAME, name) for name in ("stopped", "stopped_least", "stopped_most")
    )
    if median is None or least is None or most is None:
        return ""
    value = figure(median["value"])
    if median["n"] == 1:
        return f" The other one ends at a token accuracy of {value}."
    return (
        f" The other {median['n']} end at a token accuracy of {figure(least['value'])} to "
        f"{figure(most['value'])}, median {value}."
    )


def _range(row: Mapping[str, Any]) -> str:
    return f"{percent(row['low'])} to {percent(row['high'])}"


def _attending(rows: SummaryRows, won: int) -> str:
    """Say in how many seeds attention comes to the right position."""
    row, inverted = rows.get(NAME, "attending"), rows.get(NAME, "upside_down")
    if row is None:
        return ""
    attending = round(row["value"] * row["n"])
    sentence = (
        f" {attending} of {row['n']} learn to attend ({_range(row)}): in the end their attention "
        f"is at the right position more often than "
        f"not.{' Token accuracy is possible without that.' if attending < won else ''}"
    )
    if inverted is None or not inverted["value"]:
        return sentence
    return (
        f"{sentence} In {round(inverted['value'] * inverted['n'])} of {inverted['n']} "
        f"({_range(inverted)}) the dictionary is upside "
        "down: all attention of every head on the right position would make its symbol less "
        "likely than on any other, for most of what is "
        "written."
    )


def _published(study: Copying) -> str:
    """Return the paper's finding, and in which settings the study differs from it."""
    paper = _PAPER[study.kind]
    pairs = zip(_settings(Copying(study.kind)), _settings(study), strict=True)
    other = [(theirs, ours) for theirs, ours in pairs if theirs != ours]
    if not other:
        return paper
    theirs, ours = (", ".join(filter(None, part)) for part in zip(*other, strict=True))
    return f"{paper}, with {theirs}; here {ours}" if theirs else f"{paper}; here {ours}"


def _settings(study: Copying) -> list[str]:
    """Describe the settings of a study; those with the default of `Copying` are empty."""
    known = [
        count(number, noun)
        for number, noun in (
            (study.length, "position"),
            (study.sequences.symbols, "symbol"),
            (study.steps, "step"),
            (study.heads, "head"),
        )
    ]
    encoder = f"a {'bidirectional' if study.encoder == 'bilstm' else 'unidirectional'} encoder"
    others = {
        "hidden": f"states of width {study.hidden}",
        "embedding": f"embeddings of width {study.embedding}",
        "embedding_scale": f"embeddings of scale {study.embedding_scale:g}",
        "batch": f"batches of {study.batch}",
        "learning_rate": f"learning rate {study.learning_rate:g}",
        "pretraining": f"{count(study.pretraining, 'step')} of uniform attention before",
    }
    changed = [
        "" if getattr(study, name) == getattr(Copying, name) else words
        for name, words in others.items()
    ]
    return [PRESETS[study.preset].words, *known, encoder, *changed]


def _first(rows: SummaryRows, study: Copying) -> Iterator[CardRow]:
    """Say if relevance is learned before attention."""
    row, other, lead = (
        rows.get(NAME, name) for name in ("relevance_first", "attention_first", "lead")
    )
    if row is None or other is None:
        return
    first, second = (round(part["value"] * row["n"]) for part in (row, other))
    sentence = (
        f"Of {count(row['n'], 'run')} that succeeded, and in which both came to be right more "
        f"often than not, output relevance was first "
        f"in {first}, attention in {second}, and both at one measurement in "
        f"{row['n'] - first - second}."
    )
    if lead is not None:
        over = ", ".join(
            filter(None, [f"median over {count(lead['n'], 'seed')}", interval(lead, 0)])
        )
        sentence += f" Relevance was earlier by {figure(lead['value'], 0)} steps ({over})."
    entropy = rows.get(NAME, "relevance_entropy")
    if entropy is not None:
        value, uniform = figure(entropy["value"]), figure(np.log(study.sequences.positions))
        sentence += (
            f" At the step at which relevance is first right, the entropy of attention is {value} "
            f"nats; {uniform} is uniform."
        )
    yield card_row(
        "What is learned first?",
        "share of successes with relevance first",
        row,
        "one half: neither goes first",
        sentence,
        mark=0.5,
    )


def _looks(rows: SummaryRows, study: Copying) -> Iterator[CardRow]:
    """Say if attention looks at the symbol that is written, or elsewhere."""
    row, right, attended = (
        rows.get(NAME, name) for name in ("agreement", "attention_accuracy", "attended")
    )
    if row is None or right is None or attended is None:
        return
    # Random weights have a median near the right position too.
    nowhere = right["value"] < PASSED and abs(attended["value"]) < 1
    says = (
        "says nothing: random weights have a median near the right position too"
        if nowhere
        else f"is {_at(attended['value'])}"
    )
    sentence = (
        f"Medians over {count(row['n'], 'seed')}: the largest weight is at the position that the "
        f"symbol comes from for "
        f"{percent(right['value'])} of those written, and for {percent(row['value'])} where "
        f"output relevance is in its top {TOP} %. "
        f"Its median position {says}. The states that hold a symbol can be at other positions "
        f"than the symbol."
    )
    chance = float(chance_agreement(np.array([study.sequences.positions]))[0])
    measure = f"attention where output relevance is in its top {TOP} %"
    yield card_row(
        "Where does attention look?",
        measure,
        row,
        f"{percent(chance)}: any position alike",
        sentence,
        mark=chance,
    )


def _at(attended: float) -> str:
    """Return ``1 position before the right one``."""
    if attended == 0:
        return "the right one"
    return (
        f"{abs(attended):g} position{'' if abs(attended) == 1 else 's'} "
        f"{'before' if attended < 0 else 'after'} the right one"
    )


def figures(
    curves: pl.DataFrame, final: pl.DataFrame, attention: pl.DataFrame, study: Copying
) -> Iterator[StudyFigure]:
    """Draw what every seed learns, what comes first, and where attention looks."""
    by_outcome = outcomes(final)
    yield _curves(curves, by_outcome, study)
    yield _order(curves, by_outcome)
    yield _matrices(by_outcome, attention)


def _curves(curves: pl.DataFrame, final: pl.DataFrame, study: Copying) -> StudyFigure:
    """Draw accuracies and agreement of every seed over the steps with attention free."""
    free = curves.filter(pl.col("stage") == pl.col("stage").max()).join(
        final.select("seed", "outcome"), on="seed", maintain_order="left"
    )
    titles = {
        "token": "token accuracy",
        "attention": "attention accuracy",
        "relevance": "output-relevance accuracy",
        "agreement": "agreement of attention with output relevance",
    }
    caption = (
        f"One line per seed, on {count(study.probe, 'sequence')} never trained on. Token: the "
        f"right symbol is the likeliest, given "
        "the right ones before. Attention: the largest weight (mean over heads) is at the "
        "position that the symbol comes from. Output "
        "relevance: the position that would make the right symbol likeliest, had it all the "
        "attention, is that one. Agreement: attention's "
        f"largest weight is at one of the top {TOP} % of the positions by output relevance, "
        f"wherever these are."
    )
    return StudyFigure(
        "curves",
        "What every seed learns",
        caption,
        tuple(
            StudyPanel(
                title.capitalize(),
                SeedLines(free.select("seed", "step", "outcome", value=name)),
                f"copying-{name}",
                f"{title} of every seed over the steps of training",
            )
            for name, title in titles.items()
        ),
    )


def _order(curves: pl.DataFrame, final: pl.DataFrame) -> StudyFigure:
    steps = passing(curves).join(final.select("seed", "outcome"), on="seed", maintain_order="left")
    some = steps.filter(
        pl.col("relevance_step").is_not_null() | pl.col("attention_step").is_not_null()
    )
    caption = (
        "When output relevance (circle) and attention (diamond) were first right for more than "
        "half of the positions, seed by seed. The "
        "account of Snell et al. is that relevance comes first, under attention that is still "
        "nearly uniform, and attention follows it. "
        "Seeds in which neither got there have no line."
    )
    label = "First step at which relevance and attention were right more often than not, by seed"
    drawn = "In no seed did either get there." if some.is_empty() else FirstSteps(some)
    return StudyFigure(
        "order", "What comes first", caption, (StudyPanel("", drawn, "copying-order", label),)
    )


def _matrices(final: pl.DataFrame, attention: pl.DataFrame) -> StudyFigure:
    """Draw the attention of the median seed of each outcome on one test sequence."""
    parts = {
        outcome: final.filter(outcome=outcome).sort("token", "seed")
        for outcome in OUTCOMES
        if outcome in final["outcome"]
    }
    panels = [
        _matrix(outcome, part.row((part.height - 1) // 2, named=True), attention)
        for outcome, part in parts.items()
    ]
    caption = (
        f"Attention on one test sequence, mean over heads, of the seed with the median token "
        f"accuracy of each outcome; weights of "
        f"{Matrix.full} and more are darkest. On the diagonal each symbol is written from where "
        f"it stands; states after it may know it "
        "too, and where the encoder reads from both ends states before it. In the titles, the "
        "median position of the largest weight over "
        "all test sequences."
    )
    return StudyFigure("alpha", "Where attention looks", caption, tuple(panels))


def _matrix(outcome: str, chosen: Mapping[str, Any], attention: pl.DataFrame) -> StudyPanel:
    weights = np.array(attention.filter(seed=chosen["seed"]).sort("target")["alpha"].to_list())
    scores = (
        f"{chosen['seed']}; token accuracy {figure(chosen['token'])}; attention accuracy "
        f"{figure(chosen['attention'])}"
    )
    if chosen["attention"] >= PASSED or abs(chosen["attended"]) >= 1:
        scores += f"; median position {_at(chosen['attended'])}"
    title, label = f"One of the {GROUPS[outcome]} ({scores})", f"Attention of a seed that {outcome}"
    return StudyPanel(title, Matrix(weights), f"copying-alpha-{outcome}", label)
