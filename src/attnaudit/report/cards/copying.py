"""Words and figures of the copying study."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict

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
from attnaudit.core import count
from attnaudit.experiments.findings import AGAINST, FOR, decide
from attnaudit.report.cards.card import CardRow, CardRows, card_row
from attnaudit.report.charts.marks import Scale, cell_chart, line_chart, point_chart
from attnaudit.report.charts.palette import Palette
from attnaudit.report.charts.svg import Figure, Panel, drawn
from attnaudit.report.words import figure, percent, with_interval
from attnaudit.results import Row, SummaryRows
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
# Settings that change neither the task nor the model.
_OF_NO_MODEL = ("seed", "seeds", "every", "probe", "test", "precision", "pretraining_kind")
_MATRIX = 280  # pixels
DARKEST = 0.3  # weight from which a cell of a matrix has the deepest colour
SPREAD = (
    "Shares of seeds with 95 % Wilson intervals; medians over seeds with distribution-free 95 % "
    "intervals, which fewer than six seeds do not have."
)


def headings(study: Copying) -> tuple[str, str]:
    """Return title and subtitle of the card: the sequences, and the model."""
    sequences = _SEQUENCES[study.kind].format(symbols=study.sequences.symbols, length=study.length)
    before = ""
    if study.pretraining:
        before = f" after {count(study.pretraining, 'step')} with uniform attention"
    return (
        f"Copying {sequences}",
        f"{count(study.steps, 'step')} of training{before}, {PRESETS[study.preset].words}, "
        f"{'bi' if study.encoder == 'bilstm' else 'uni'}directional encoder, "
        f"{count(study.heads, 'head')}; "
        "brackets: 95 % interval",
    )


def none_learned(rows: SummaryRows) -> str:
    """Say that no seed learned to copy, so that nothing is concluded; else nothing."""
    known = rows.all_of(NAME, "succeeded", "token_accuracy")
    if not known or known[0]["value"] > 0:
        return ""
    _, reached = known
    median = f"median over {count(reached['n'], 'seed')}"
    return (
        f"Claim nothing: no seed learned to copy (token accuracy {figure(reached['value'])}, "
        f"{median}; more than {figure(SUCCESS)} counts as learned). Numbers are shown, conclusions "
        "are withheld."
    )


def card_rows(rows: SummaryRows, study: Copying) -> CardRows:
    """Word whether copying is learned, what is learned first, and where attention looks."""
    won = rows.get(NAME, "succeeded")
    if won is not None:
        yield _learned(rows, won, study)
    if first := rows.all_of(NAME, "relevance_first", "attention_first"):
        yield _first(rows, first, study)
    if where := rows.all_of(NAME, "agreement", "attention_accuracy", "attended"):
        yield _looks(where, study)


def _learned(rows: SummaryRows, won: Row, study: Copying) -> CardRow:
    succeeded = _number(won)
    sentence = (
        f"Of {count(won['n'], 'seed')} {succeeded} learned to copy ({percent(won['value'])}, "
        f"{_range(won)}): more than {percent(SUCCESS)} of the symbols are right, given the right "
        "ones before."
    )
    finding, clause = None, ""
    attending, inverted = (rows.get(NAME, name) for name in ("attending", "upside_down"))
    if attending is not None:
        sentence += (
            f" {_number(attending)} of {attending['n']} learn to attend ({_range(attending)}): in "
            "the end their attention is at the right position more often than not."
        )
        if _number(attending) < succeeded:
            sentence += " Token accuracy is possible without that."
        if not none_learned(rows):
            seeds = f"{_number(attending)} of {count(attending['n'], 'seed')}"
            # One seed is enough, since Wilson's interval also holds for few.
            finding = decide(attending, 0.5, FOR, AGAINST, fewest=1)
            clause = f"attention finds the position that a symbol comes from in {seeds}"
    if inverted is not None and inverted["value"]:
        sentence += (
            f" In {_number(inverted)} of {inverted['n']} ({_range(inverted)}) the dictionary is "
            "upside down: all attention of every head on the right position would make its symbol "
            "less likely than on any other, for most of what is written."
        )
    return card_row(
        "Is copying learned?",
        "share of seeds that succeeded",
        won,
        _published(study),
        sentence,
        finding=finding,
        clause=clause,
        of_model=True,
    )


def _number(row: Row) -> int:
    """Return the number of seeds that a share is of."""
    return round(row["value"] * row["n"])


def _range(row: Row) -> str:
    return f"{percent(row['low'])} to {percent(row['high'])}"


def _published(study: Copying) -> str:
    """Say what the paper found, and which settings of task and model differ from its own."""
    theirs = asdict(Copying(study.kind))
    other = ", ".join(
        f"{name} {value}, not {theirs[name]}"
        for name, value in asdict(study).items()
        if name not in _OF_NO_MODEL and value != theirs[name]
    )
    return _PAPER[study.kind] + (f"; here {other}" if other else "")


def _first(rows: SummaryRows, known: Sequence[Row], study: Copying) -> CardRow:
    row, _ = known
    first, second = map(_number, known)
    sentence = (
        f"Of {count(row['n'], 'run')} that succeeded, and in which both came to be right more "
        f"often than not, output relevance was first in {first}, attention in {second}, and both "
        f"at one measurement in {row['n'] - first - second}."
    )
    lead, entropy = rows.get(NAME, "lead"), rows.value(NAME, "relevance_entropy")
    if lead is not None:
        earlier = with_interval(lead, 0)
        sentence += f" Relevance was earlier by {earlier} steps, a median over seeds."
    if entropy is not None:
        sentence += (
            " At the step at which relevance is first right, the entropy of attention is "
            f"{figure(entropy)} nats; {figure(np.log(study.sequences.positions))} is uniform."
        )
    return card_row(
        "What is learned first?",
        "share of successes with relevance first",
        row,
        "one half: neither goes first",
        sentence,
    )


def _looks(known: Sequence[Row], study: Copying) -> CardRow:
    row, accuracy, position = known
    right, attended = accuracy["value"], position["value"]
    says = f"is {_at(attended)}"
    # Weights that are right rarely, and central on average, are those of a random order.
    if right < PASSED and abs(attended) < 1:
        says = "says nothing: random weights have a median near the right position too"
    chance = float(chance_agreement(np.array([study.sequences.positions]))[0])
    return card_row(
        "Where does attention look?",
        f"attention where output relevance is in its top {TOP} %",
        row,
        f"{percent(chance)}: any position alike",
        f"Medians over {count(row['n'], 'seed')}: the largest weight is at the position that the "
        f"symbol comes from for {percent(right)} of those written, and for {percent(row['value'])} "
        f"where output relevance is in its top {TOP} %. Its median position {says}. The states "
        "that hold a symbol can be at other positions than the symbol.",
    )


def _at(attended: float) -> str:
    """Describe a position: ``1 position before the right one``."""
    if attended == 0:
        return "the right one"
    number = f"{abs(attended):g} position{'' if abs(attended) == 1 else 's'}"
    return f"{number} {'before' if attended < 0 else 'after'} the right one"


def figures(
    curves: pl.DataFrame, final: pl.DataFrame, attention: pl.DataFrame, study: Copying
) -> Iterator[Figure]:
    """Draw what every seed learns, what comes first, and where attention looks."""
    by_outcome = outcomes(final)
    yield from _curves(curves, by_outcome, study)
    yield _order(curves, by_outcome)
    yield _matrices(by_outcome, attention)


def _curves(curves: pl.DataFrame, final: pl.DataFrame, study: Copying) -> tuple[Figure, Figure]:
    """Draw three accuracies of every seed, and agreement, over the steps with attention free."""
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
        "right symbol is the likeliest, given the right ones before. Attention: the largest weight "
        "(mean over heads) is at the position that the symbol comes from. Output relevance: the "
        "position that would make the right symbol likeliest, had it all the attention, is that "
        "one."
    )
    agreeing = (
        f"Attention's largest weight is at one of the top {TOP} % of the positions by output "
        "relevance, wherever these are."
    )
    axes, palette = (Scale("step", None), Scale("share of positions")), Palette(OUTCOMES)
    panels = []
    for name, title in titles.items():
        points = free.select("seed", group="outcome", x="step", value=name)
        chart, label = line_chart(points, *axes, palette), f"{title} of every seed over the steps"
        panels.append(drawn(title.capitalize(), chart, f"copying-{name}", label))
    return (
        Figure("curves", "What every seed learns", caption, tuple(panels[:3])),
        Figure("agreement", "Does attention agree with relevance?", agreeing, tuple(panels[3:])),
    )


def _order(curves: pl.DataFrame, final: pl.DataFrame) -> Figure:
    """Draw when relevance and attention were first right."""
    both = (
        passing(curves)
        .drop_nulls(["relevance_step", "attention_step"])
        .join(final.select("seed", "outcome"), on="seed", maintain_order="left")
    )
    caption = (
        "When output relevance and attention were first right for more than half of the positions, "
        "a point for each seed in which both were. The account of Snell et al. is that relevance "
        "comes first, under attention that is still nearly uniform, and attention follows it: "
        "above the line."
    )
    panel = Panel("", note="In no seed were both.")
    if both.height:
        points = both.select("seed", group="outcome", x="relevance_step", y="attention_step")
        high = float(np.max(points.select("x", "y").to_numpy()))
        x, y = (Scale(f"first step of {name}", high) for name in ("output relevance", "attention"))
        chart = point_chart(points, x, y, diagonal=True)
        panel = drawn("", chart, "copying-order", "First steps of attention and output relevance")
    return Figure("order", "What comes first", caption, (panel,))


def _matrices(final: pl.DataFrame, attention: pl.DataFrame) -> Figure:
    """Draw attention of the median seed of each outcome on one test sequence."""
    panels = []
    for outcome in OUTCOMES:
        part = final.filter(outcome=outcome).sort("token", "seed")
        if part.height:
            seed = part["seed"][(part.height - 1) // 2]
            alpha = attention.filter(seed=seed).sort("target").select("target", value="alpha")
            rows = alpha.explode("value").select(
                "value",
                x=pl.int_range(1, pl.len() + 1).over("target"),
                y=pl.col("target").rank("dense"),
            )
            titles = "position in the source", "position written"
            cell = _MATRIX // rows["x"].n_unique(), _MATRIX // alpha.height
            chart = cell_chart(rows, (-DARKEST, 0, DARKEST), titles, cell)
            title = f"One of the {GROUPS[outcome]} ({seed})"
            label = f"Attention of a seed that {outcome}"
            panels.append(drawn(title, chart, f"copying-alpha-{outcome}", label))
    caption = (
        "Attention on one test sequence, mean over heads, of the seed with the median token "
        f"accuracy of each outcome; weights of {DARKEST} and more are darkest. On the diagonal "
        "each symbol is written from where it stands; states after it may know it too, and where "
        "the encoder reads from both ends states before it."
    )
    return Figure("alpha", "Where attention looks", caption, tuple(panels))
