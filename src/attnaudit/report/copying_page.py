"""The page of the copying study: the card, curves of every seed, what is learned first, attention as a matrix, all numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from attnaudit.copying.study import FAILURE, NAME, OUTCOMES, PASSED, SUCCESS, Copying, outcomes, passing
from attnaudit.core.files import read_json
from attnaudit.core.papers import SNELL2021
from attnaudit.report.card import Card
from attnaudit.report.charts.copying import FULL, curve_chart, matrix_chart, order_chart
from attnaudit.report.charts.svg import Figure, Panel, render
from attnaudit.report.page import card_section, figures_section, write_page
from attnaudit.report.sections.numbers import SummaryTable, numbers_section, summary_cell
from attnaudit.report.sections.provenance import provenance_sections
from attnaudit.results.about import About
from attnaudit.results.card import CardRow, SummaryRows, card_row
from attnaudit.results.record import read_summary
from attnaudit.results.words import count, figure, interval, percent
from attnaudit.stats.agreement import TOP, chance_agreement

HEADING = "How is attention learned? The copying task"
SEQUENCES = {
    "permutations": "permutations of {symbols} symbols", "distinct": "{length} distinct symbols of {symbols}",
    "iid": "{length} symbols drawn one by one from {symbols}",
}  # fmt: skip
PAPER = {
    "permutations": "Snell et al.: about half of the seeds fail", "distinct": "no share is known of the paper",
    "iid": "Snell et al.: 40 drawn one by one are always learned",
}  # fmt: skip
LABELS = {
    "succeeded": f"share of seeds that succeeded (token accuracy above {SUCCESS})", "failed": f"share that failed (below {FAILURE})",
    "between": "share between the two", "attending": "share that learn to attend (attention right more often than not in the end)",
    "upside_down": "share whose dictionary is upside down (the right position has the least output relevance more often than not)",
    "relevance_first": "share of successes whose relevance was right first",
    "attention_first": "share of successes whose attention was right first", "token_accuracy": "token accuracy, median over seeds",
    "attention_accuracy": "attention accuracy, median", "relevance_accuracy": "output-relevance accuracy, median",
    "agreement": f"share with attention where output relevance is in its top {TOP} %, median",
    "attended": "positions by which attention is after the right one (negative: before), median of medians",
    "relevance_least": "share with the least output relevance at the right position, median",
    "attention_symbol": "attention accuracy, any position with the right symbol counting, median",
    "relevance_symbol": "output-relevance accuracy, any position with the right symbol counting, median",
    "entropy": "entropy of attention in nats, median", "relevance_step": "step at which relevance was first right more often than not",
    "attention_step": "step at which attention was first right more often than not", "lead": "steps by which relevance was earlier",
    "best_head_accuracy": "attention accuracy of the best head, median",
}  # fmt: skip
_SEEDS = {"succeeded": "seeds that succeeded", "failed": "seeds that failed", "between": "seeds between"}
_LEAD = (
    "Shares of seeds with 95 % Wilson intervals; medians over seeds with distribution-free 95 % intervals, which fewer than six seeds do "
    "not have."
)


def write_copying(folder: Path, page: Path | None = None) -> Path:
    """Write the page of the copying study in ``folder``, by default its ``report.html``, and return its path. Raises RunError."""
    spec, summary = read_json(folder / "spec.json"), read_summary(folder / "summary.json")
    curves, final, attention = (pl.read_parquet(folder / "results" / f"{name}.parquet") for name in (NAME, "seeds", "attention"))
    about = About.of(spec)
    card = copying_card(summary, spec["study"])
    figures = [_curves(curves, final, spec["study"]), _order(curves, final, summary), *_matrices(final, attention)]
    sections = [
        card_section(card),
        figures_section(figures),
        numbers_section([_table(summary)], _LEAD),
        *provenance_sections(about, [SNELL2021.bibtex]),
    ]
    heading, subtitle = HEADING, f"{card.title}, {card.subtitle}"
    return write_page(page or folder / "report.html", sections, heading, subtitle, title=f"{heading}: {card.title}")


def copying_card(summary: pl.DataFrame, study: Mapping[str, Any]) -> Card:
    """Whether copying is learned, and what first."""
    symbols = study["symbols"] or {"permutations": study["length"], "distinct": 60, "iid": 40}[study["kind"]]
    title = "Copying " + SEQUENCES[study["kind"]].format(symbols=symbols, length=study["length"])
    before = f" after {count(study['pretraining'], 'step')} with uniform attention" if study["pretraining"] else ""
    encoder = "bidirectional encoder" if study["encoder"] == "bilstm" else "unidirectional encoder"
    subtitle = f"{count(study['steps'], 'step')} of training{before}, {encoder}, {count(study['heads'], 'head')}; brackets: 95 % interval"
    figures = SummaryRows.of(summary)
    return Card(title, subtitle, (*_learned(figures, study), *_first(figures), *_looks(figures, study)))


def _learned(figures: SummaryRows, study: Mapping[str, Any]) -> Iterator[CardRow]:
    """Succeeded?"""
    won, lost, between = (figures.get(NAME, name) for name in OUTCOMES)
    if won is None or lost is None or between is None:
        return
    n = won["n"]
    counts = [round(row["value"] * n) for row in (won, lost, between)]
    sentence = (
        f"Of {count(n, 'seed')} {counts[0]} learned to copy ({percent(won['value'])}, {percent(won['low'])} to {percent(won['high'])}): "
        f"more than {percent(SUCCESS)} of the symbols right, given the right ones before. {counts[1]} failed (under {percent(FAILURE)})."
    )
    if counts[2]:
        sentence += f" {counts[2]} {'is' if counts[2] == 1 else 'are'} between, and may need no more than further steps (copying.steps)."
    sentence += _attending(figures, counts[0])
    yield card_row("Is copying learned?", "share of seeds that succeeded", won, _published(study), sentence)


def _attending(figures: SummaryRows, won: int) -> str:
    """In how many seeds attention comes to the right position; empty for a summary of an older version."""
    row = figures.get(NAME, "attending")
    if row is None:
        return ""
    attending = round(row["value"] * row["n"])
    sentence = (
        f" {attending} of {row['n']} learn to attend ({percent(row['low'])} to {percent(row['high'])}): in the end their attention is at "
    )
    sentence += "the right position more often than not."
    sentence += " Token accuracy is possible without that." if attending < won else ""
    return sentence + _upside_down(figures)


def _upside_down(figures: SummaryRows) -> str:
    """In how many seeds relevance has the wrong sign."""
    row = figures.get(NAME, "upside_down")
    if row is None or not row["value"]:
        return ""
    there = round(row["value"] * row["n"])
    return (
        f" In {there} of {row['n']} ({percent(row['low'])} to {percent(row['high'])}) the dictionary is upside down: all attention of "
        "every head on the right position would make its symbol less likely than on any other, for most of what is written."
    )


def _published(study: Mapping[str, Any]) -> str:
    """What the paper found, and in which settings it is not of the same task or model."""
    paper, here = Copying(study["kind"]), Copying(**{key: value for key, value in study.items() if key != "name"})
    settings = [(words(paper), words(here)) for words in _SETTINGS]
    other = [(theirs, ours) for theirs, ours in settings if theirs != ours]
    if not other:
        return PAPER[study["kind"]]
    theirs, ours = (", ".join(filter(None, part)) for part in zip(*other, strict=True))
    return f"{PAPER[study['kind']]}, with {theirs}; here {ours}" if theirs else f"{PAPER[study['kind']]}; here {ours}"


_SETTINGS: tuple[Callable[[Copying], str], ...] = (
    lambda study: count(study.length, "position"),
    lambda study: count(study.sequences.symbols, "symbol"),
    lambda study: count(study.steps, "step"),
    lambda study: count(study.heads, "head"),
    lambda study: "a bidirectional encoder" if study.encoder == "bilstm" else "a unidirectional encoder",
    # reported only where it differs from the default: the paper's value is not known
    lambda study: "" if study.hidden == Copying.hidden else f"states of width {study.hidden}",
    lambda study: "" if study.embedding == Copying.embedding else f"embeddings of width {study.embedding}",
    lambda study: "" if study.embedding_scale == Copying.embedding_scale else f"embeddings of scale {study.embedding_scale:g}",
    lambda study: "" if study.batch == Copying.batch else f"batches of {study.batch}",
    lambda study: "" if study.learning_rate == Copying.learning_rate else f"learning rate {study.learning_rate:g}",
    lambda study: f"{count(study.pretraining, 'step')} of uniform attention before" if study.pretraining else "",
)


def _first(figures: SummaryRows) -> Iterator[CardRow]:
    """Relevance before attention?"""
    row, other, lead = (figures.get(NAME, name) for name in ("relevance_first", "attention_first", "lead"))
    if row is None or other is None:
        return
    first, second = (round(part["value"] * row["n"]) for part in (row, other))
    same = row["n"] - first - second
    sentence = (
        f"Of {count(row['n'], 'run')} that succeeded, and in which both came to be right more often than not, output relevance was first "
        f"in {first}, attention in {second}, and both at one measurement in {same}."
    )
    if lead is not None:
        over = ", ".join(filter(None, [f"median over {count(lead['n'], 'seed')}", interval(lead, 0)]))
        sentence += f" Relevance was earlier by {figure(lead['value'], 0)} steps ({over})."
    yield card_row(
        "What is learned first?", "share of successes with relevance first", row, "one half: neither goes first", sentence, mark=0.5
    )


def _looks(figures: SummaryRows, study: Mapping[str, Any]) -> Iterator[CardRow]:
    """At what it writes, or elsewhere?"""
    row, right, attended = (figures.get(NAME, name) for name in ("agreement", "attention_accuracy", "attended"))
    if row is None or right is None or attended is None:
        return
    sentence = (
        f"Medians over {count(row['n'], 'seed')}: the largest weight is at the position that the symbol comes from for "
        f"{percent(right['value'])} of those written, and for {percent(row['value'])} where output relevance is in its top {TOP} %. "
        f"{_median_place(attended['value'], right['value'])} States that know a symbol may stand elsewhere than the symbol."
    )
    chance = float(chance_agreement(np.array([study["length"]]))[0])
    measure = f"attention where output relevance is in its top {TOP} %"
    yield card_row("Where does attention look?", measure, row, f"{percent(chance)}: any position alike", sentence, mark=chance)


def _median_place(attended: float, right: float) -> str:
    """Where the largest weight is, as a sentence; weights that look anywhere are at the right position in the median too."""
    if right < PASSED and abs(attended) < 1:
        return "Its median position says nothing: weights that look anywhere have one near the right position too."
    return f"Its median position is {_place(attended)}."


def _place(attended: float) -> str:
    """``1 position before the right one``."""
    if attended == 0:
        return "the right one"
    return f"{abs(attended):g} position{'' if abs(attended) == 1 else 's'} {'before' if attended < 0 else 'after'} the right one"


def _curves(curves: pl.DataFrame, final: pl.DataFrame, study: Mapping[str, Any]) -> Figure:
    """Three accuracies of every seed, and agreement, over the steps with attention free."""
    by_seed = outcomes(final).select("seed", "outcome")
    free = curves.filter(pl.col("stage") == pl.col("stage").max()).join(by_seed, on="seed", maintain_order="left")
    present = [name for name in OUTCOMES if name in free["outcome"]]
    titles = {
        "token": "token accuracy", "attention": "attention accuracy", "relevance": "output-relevance accuracy",
        "agreement": "agreement of attention with output relevance",
    }  # fmt: skip
    panels = tuple(
        Panel(
            title.capitalize(),
            render(
                curve_chart(free.select("seed", "step", "outcome", value=name), present), f"copying-{name}",
                f"{title} of every seed over the steps of training",
            ),
        )
        for name, title in titles.items()
    )  # fmt: skip
    caption = (
        f"A line for each seed, on {count(study['probe'], 'sequence')} never trained on. Token: the right symbol is the likeliest, given "
        "the right ones before. Attention: the largest weight (mean over heads) is at the position that the symbol comes from. Output "
        "relevance: the position that would make the right symbol likeliest, had it all the attention, is that one. Agreement: attention's "
        f"largest weight is at one of the top {TOP} % of the positions by output relevance, wherever these are."
    )
    return Figure("curves", "What every seed learns", caption, panels)


def _order(curves: pl.DataFrame, final: pl.DataFrame, summary: pl.DataFrame) -> Figure:
    steps = passing(curves).join(outcomes(final).select("seed", "outcome"), on="seed", maintain_order="left")
    some = steps.filter(pl.col("relevance_step").is_not_null() | pl.col("attention_step").is_not_null())
    caption = (
        "When output relevance (circle) and attention (diamond) were first right for more than half of the positions, seed by seed. The "
        "account of Snell et al. is that relevance comes first, under attention that is still nearly uniform, and attention follows it. "
        "Seeds in which neither got there have no line."
    )
    if some.is_empty():
        return Figure("order", "What comes first", caption, (Panel("", note="In no seed did either get there."),))
    drawn = render(
        order_chart(some), "copying-order", "First step at which relevance and attention were right more often than not, by seed"
    )
    return Figure("order", "What comes first", caption, (Panel("", drawn),))


def _matrices(final: pl.DataFrame, attention: pl.DataFrame) -> Iterator[Figure]:
    """Attention of the median seed of each outcome on one test sequence."""
    seeds, panels = outcomes(final), []
    for outcome in OUTCOMES:
        part = seeds.filter(outcome=outcome).sort("token", "seed")
        if part.height:
            chosen = part.row((part.height - 1) // 2, named=True)
            rows = attention.filter(seed=chosen["seed"]).sort("target")
            drawn = render(
                matrix_chart(np.array(rows["alpha"].to_list())), f"copying-alpha-{outcome}", f"Attention of a seed that {outcome}"
            )
            scores = f"{chosen['seed']}; token accuracy {figure(chosen['token'])}; attention accuracy {figure(chosen['attention'])}"
            if chosen["attention"] >= PASSED or abs(chosen["attended"]) >= 1:
                scores += f"; median position {_place(chosen['attended'])}"
            panels.append(Panel(f"One of the {_SEEDS[outcome]} ({scores})", drawn))
    caption = (
        f"Attention on one test sequence, mean over heads, of the seed with the median token accuracy of each outcome; weights of {FULL} "
        "and more are darkest. On the diagonal each symbol is written from where it stands; states after it may know it too, and where the "
        "encoder reads from both ends states before it. In the titles, the median position of the largest weight over all test sequences."
    )
    yield Figure("alpha", "Where attention looks", caption, tuple(panels))


def _table(summary: pl.DataFrame) -> SummaryTable:
    groups = summary["group"].unique(maintain_order=True).to_list()
    cells = {(row["measure"], row["group"]): summary_cell(row) for row in summary.iter_rows(named=True)}
    measures: list[str] = summary["measure"].unique(maintain_order=True).to_list()
    rows = tuple((name, _label(name), tuple(cells.get((name, group)) for group in groups)) for name in measures)
    return SummaryTable(NAME, tuple("all seeds" if group == "all" else _SEEDS[group] for group in groups), rows)


def _label(measure: str) -> str:
    """``head_3_accuracy``: attention accuracy of head 4."""
    if measure.startswith("head_"):
        return f"attention accuracy of head {int(measure.split('_')[1]) + 1}, median"
    return LABELS[measure]
