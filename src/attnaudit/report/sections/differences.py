"""Differences of runs on their shared instances, on a terminal, in a page and in a site."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
from rich.console import Console

from attnaudit.core import count, printable, thousands
from attnaudit.experiments import measure_label
from attnaudit.report.answer import ADVICE, LABELS, SIGNS
from attnaudit.report.meanings import measure_meaning
from attnaudit.report.page import Section, write_page
from attnaudit.report.sections.heatmaps import visible
from attnaudit.report.terminal import print_table
from attnaudit.report.words import figure, interval
from attnaudit.results import ROW, Row
from attnaudit.results.paired import HIGHER, LOWER, MOST, B, PairedRuns
from attnaudit.trace import SEVERAL

TOP = 3  # tokens of largest weight that are shown
_SNIPPET = 24  # tokens of a text
SHOWN = 5e-4  # what three places show as more than 0
_CHANCE = 0.05  # of an interval to exclude 0 if there is no difference
COLUMNS = ("measure", "a", "b", "b − a", "95 % interval", "n", "undefined", "conclusion")
DECIDING = ("measure", "better", "a", "b", "b − a", "95 % interval", "speaks for")
# Measures of a card, and whether a higher value speaks for the model, or for its heatmaps.
_MEASURES = {
    "prediction.accuracy": True,
    "replacement.replacement_attention": True,
    "replacement.replacement_shown": True,
    "correlation.tau_gradient": True,
    "correlation.tau_loo": True,
    "permutation.matched_delta_y": True,
    "adversary.matched_emax_jsd": False,
}
_FIRST = 3  # rows that differ most, on a terminal
# Titles with the class of the columns.
_COLUMNS = [(name, "" if name in ("measure", "conclusion") else "num") for name in COLUMNS]
_MOST_COLUMNS = (
    "JSD",
    "predicted by a",
    "predicted by b",
    "most attention in a",
    "most attention in b",
    "text",
)


def print_differences(
    compared: Sequence[PairedRuns], console: Console, every: bool = False
) -> None:
    """Print what may be claimed of each pair of runs, and what their differences speak for.

    Args:
        compared: Runs compared with the first of them.
        console: Where to print.
        every: Prints every measure too.
    """

    def say(line, style=""):
        console.print(printable(line), style=style, markup=False, highlight=False, soft_wrap=True)

    for pair in compared:
        say(f"attnaudit compare · {_title(pair)}", "bold")
        say(f"  {lead(pair)}")
        for side, claim in statements(pair):
            say(f"  {side}  {claim}", "bold")
        for note in pair.notes:
            say(f"  note: {note}")
        print_table(console, "", [(name, "") for name in DECIDING], deciding(pair))
        for name, jsd, *_, of_a, of_b, text in most_different(pair)[:_FIRST]:
            say(f"  {pair.unit} {name}, JSD {jsd}: {text}")
            say(f"    most attention in a: {of_a}; in b: {of_b}")
        if every:
            known = pair.differences.filter(pl.col("n") > 0).iter_rows(named=True)
            print_table(console, "every measure", _COLUMNS, map(texts_of, known))
            say(f"  {chance(pair)}")
        say(f"  {intervals(pair)}", "dim")


def statements(pair: PairedRuns) -> list[tuple[str, str]]:
    """Return the side and what may be claimed of each of the two runs."""
    sides = zip("ab", pair.verdicts, strict=True)
    return [
        (side, f"{SIGNS[code]} {ADVICE.get(code, LABELS[code])}") for side, code in sides if code
    ]


def deciding(pair: PairedRuns) -> list[tuple[str, ...]]:
    """Return what `DECIDING` show of the measures of a card that both runs have."""
    rows = {
        f"{row['experiment']}.{row['measure']}": row
        for row in pair.differences.iter_rows(named=True)
        if row["n"]
    }
    lines = []
    for name, is_for in _MEASURES.items():
        row = rows.get(name)
        if row is None:
            continue
        speaks = {HIGHER: "b" if is_for else "a", LOWER: "a" if is_for else "b"}
        label, a, b, difference, ends, *_, conclusion = texts_of(row)
        said = speaks.get(row["conclusion"], conclusion)
        lines.append((label, "higher" if is_for else "lower", a, b, difference, ends, said))
    return lines


def write_comparison(page: Path, compared: Sequence[PairedRuns]) -> Path:
    """Write the page of comparisons with one run and return it.

    Raises:
        RunError: If it cannot be written.
    """
    sections = [_section(pair, number) for number, pair in enumerate(compared, start=1)]
    subtitle = f"paired differences from run a: {compared[0].a}"
    return write_page(page, sections, "Runs compared", subtitle)


def lead(pair: PairedRuns) -> str:
    """Say what is shared, and how far the attentions differ."""
    counts = pair.differences.select("shared", "only_a", "only_b").row(0)
    shared, only_a, only_b = map(thousands, counts)
    rows = f"{shared} {pair.unit}s"
    if pair.unit == ROW:
        rows += f" of {count(pair.texts, 'text')}"
    more = [
        f"{side} has {only} more" for side, only in (("a", only_a), ("b", only_b)) if only != "0"
    ]
    text = "; ".join([f"Both runs share {rows}", *more])
    if pair.changed:
        text += f" ({thousands(pair.changed)} of each with an id of the other and another text)"
    return (
        f"{text}. On the shared {pair.unit}s their attentions differ by a mean JSD of "
        f"{figure(pair.instances['jsd'].to_numpy().mean(), 3)} (0: equal; ln 2 = 0.693: no token "
        "in common)."
    )


def chance(pair: PairedRuns) -> str:
    """Say how many intervals of all measures exclude 0 if the runs do not differ."""
    judged = pair.differences["low"].count()
    expected = max(round(_CHANCE * judged), 1)
    return f"If the runs did not differ, about {expected} of {judged} intervals would exclude 0."


def intervals(pair: PairedRuns) -> str:
    """Say what the intervals are of."""
    drawn = "texts" if pair.unit == ROW else f"{pair.unit}s"
    return (
        f"Intervals are 95 % bootstrap intervals over shared {drawn}: they compare these two "
        f"trained models, not models of other seeds. A {pair.unit} where a "
        "measure is undefined in one run is excluded from both means."
    )


def most_different(pair: PairedRuns) -> list[tuple[str, ...]]:
    """Return name, JSD, predictions, heaviest tokens and text of the rows that differ most."""

    def top(tokens, alpha):
        order = np.argsort(-np.array(alpha), kind="stable")[:TOP].tolist()
        return ", ".join(f"{visible(tokens[k])} {figure(alpha[k])}" for k in order)

    def keys(row):
        return [f"{key} {row[key]}" for key in SEVERAL if row.get(key) is not None]

    rows = pair.instances.filter(pl.col("jsd") >= SHOWN).head(MOST)
    return [
        (
            " ".join([str(row["instance"]), *keys(row)]),
            figure(row["jsd"], 3),
            row["predicted"],
            row["predicted" + B],
            top(row["tokens"], row["alpha"]),
            top(row["tokens"], row["alpha" + B]),
            " ".join(map(visible, row["tokens"][:_SNIPPET]))
            + (" …" if len(row["tokens"]) > _SNIPPET else ""),
        )
        for row in rows.iter_rows(named=True)
    ]


def _section(pair: PairedRuns, number: int) -> Section:
    def explained(row):
        return row["measure"], measure_meaning(row["measure"], row["experiment"]), texts_of(row)

    parts = pair.differences.group_by("experiment", maintain_order=True)
    content = {
        "number": number,
        "title": _title(pair),
        "statements": statements(pair),
        "lead": lead(pair),
        "intervals": intervals(pair),
        "notes": pair.notes,
        "deciding": deciding(pair),
        "deciding_columns": DECIDING,
        "chance": chance(pair),
        "tables": [
            (name, list(map(explained, part.iter_rows(named=True)))) for (name,), part in parts
        ],
        "columns": _COLUMNS,
        "most": most_different(pair),
        "most_columns": (pair.unit, *_MOST_COLUMNS),
        "unit": pair.unit,
    }
    return Section("differences", content, links=((f"a and {pair.b}", f"#differences-{number}"),))


def _title(pair: PairedRuns) -> str:
    return f"a: {pair.a}, b: {pair.b}"


def texts_of(row: Row) -> tuple[str, ...]:
    """Return what `COLUMNS` show of a row of differences."""
    # Six places for a difference that three would show as none.
    places = 6 if 0 < abs(row["difference"] or 0) < SHOWN else 3
    a, b, difference = (
        "–" if row[name] is None else figure(row[name], digits)
        for name, digits in (("a", 3), ("b", 3), ("difference", places))
    )
    label = measure_label(row["measure"], row["experiment"])
    counts = (thousands(row["n"]), thousands(row["undefined"]))
    return (label, a, b, difference, interval(row, places) or "–", *counts, row["conclusion"])
