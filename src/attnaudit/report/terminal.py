"""The answer on a terminal, in at most 25 lines."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from attnaudit.core.printable import printable
from attnaudit.report.answer import Answer, Example, outstanding
from attnaudit.report.sections.heatmaps import visible
from attnaudit.report.words import figure

MOST_CLASSES = 4  # with a column, or a line, of their own
NAME, CLAIM = 14, 48  # cells of a class's name, and of a claim
_COLUMN, _FIGURE = 12, 7  # cells of a figure with its sign, and of the figure
_MOST_WARNINGS, _MOST_LINES = 2, 2
_STYLES = {"✔": "green", "✘": "red"}
_LEGEND = "✔ for  ✘ against  – no conclusion"


def print_answer(answer: Answer, console: Console, ending: Sequence[tuple[str, str]] = ()) -> None:
    """Print an answer.

    Args:
        answer: The answer.
        console: Where to print.
        ending: Further lines: a word in capitals and what it names, such as the report's path.
    """
    lines = [Text(f"attnaudit · {answer.title}", "bold"), Text(f"  {answer.subtitle}", "dim")]
    lines += ["", _headed("VERDICT", answer.sign, answer.advice), *_by_class(answer)]
    if answer.evidence:
        lines += ["", *_why(answer)]
    if answer.example is not None:
        lines += ["", *_pictured(answer.example, console.width)]
    warnings = list(answer.warnings)
    if more := warnings[_MOST_WARNINGS:]:
        warnings = [*warnings[: _MOST_WARNINGS - 1], f"{len(more) + 1} more, listed in the report"]
    rest = [("WARNINGS" if k == 0 else "", one) for k, one in enumerate(warnings)]
    lines += ["", *(_headed(head, "", said) for head, said in (*rest, *ending))]
    for line in lines:
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def _headed(head: str, sign: str, said: str) -> Text:
    line = Text(f"  {head:<9} ", "bold")
    if sign:
        line.append(f"{sign} ", _STYLES.get(sign, ""))
    return line.append(printable(said), "bold" if sign else "")


def _by_class(answer: Answer) -> list[Text]:
    """Return a line for each class, or of many for each answer; none if all agree."""
    if all(one.code == answer.code for one in answer.classes):
        return []
    if len(answer.classes) <= MOST_CLASSES:
        rows = [(_fit(one.name, NAME), one.sign, one.advice) for one in answer.classes]
    else:
        by_label: dict[tuple[str, str], list[str]] = {}
        for one in answer.classes:
            by_label.setdefault((one.sign, one.label), []).append(one.name)
        rows = [
            (
                _fit(f"{len(names)} of them", NAME),
                sign,
                f"{label}: {_fit(', '.join(names), CLAIM)}",
            )
            for (sign, label), names in by_label.items()
        ]
    lines = []
    for head, sign, said in rows:
        line = Text(f"   {head} ").append(sign, _STYLES.get(sign, ""))
        lines.append(line.append(f" {printable(said).rstrip()}"))
    return lines


def _why(answer: Answer) -> list[Text]:
    """Return the table of the measures that decide."""
    names = [one.name for one in answer.classes] if len(answer.classes) <= MOST_CLASSES else []
    head = Text(f"  {_fit('WHY', CLAIM)}", "bold")
    for name in ("all", *names):
        head.append(f" {_fit(f'{name:>{_FIGURE}}', _COLUMN)}", "dim")
    lines = [head]
    for row in answer.evidence:
        claim = f"{row.claim} ({row.row.measure})" if row.row.of_model else row.claim
        line = Text(f"   {_fit(claim, CLAIM - 1)}")
        cells = [(row.row.figure, row.sign), *(row.classes.get(name, ("", "")) for name in names)]
        for shown, sign in cells:
            line.append(f" {shown:>{_FIGURE}} ").append(sign or " ", _STYLES.get(sign, ""))
            line.append(" " * (_COLUMN - _FIGURE - 2))
        lines.append(line)
    return [*lines, Text(f"   {_fit(_LEGEND, CLAIM - 1)} intervals: in the report", "dim")]


def _pictured(example: Example, width: int) -> list[Text]:
    """Draw the text, the words that stand out in brackets, and say what another heatmap shows."""
    one = example.instance
    predicted = f"predicted {printable(one.predicted)}, {figure(one.probability)}"
    lines = [_headed("EXAMPLE", "", predicted), _marked(example, one.main, width)]
    if example.other:
        lines.append(Text(f"   {example.other}", "dim"))
    if not example.differs:
        return lines
    return [*lines, _marked(example, one.weights[example.kind], width)]


def _marked(example: Example, weights: np.ndarray, width: int) -> Text:
    """Draw as many words as fit on one line, around the one with the largest weight."""
    marked = set(outstanding(weights))
    words = [printable(visible(token)) for token in example.instance.tokens]
    words = [f"[{word}]" if k in marked else word for k, word in enumerate(words)]
    first, last = _window([cell_len(word) for word in words], int(np.argmax(weights)), width - 9)
    line = Text("   … " if first else "   ")
    for k in range(first, last):
        line.append(words[k], "reverse" if k in marked else "").append(" ")
    if not marked:
        line.append("(no word stands out)", "dim")
    return line.append("…") if last < len(words) else line


def _window(widths: Sequence[int], centre: int, room: int) -> tuple[int, int]:
    """Return the ends of the longest run of words around ``centre`` that fits."""
    first, last, used = centre, centre + 1, widths[centre] + 1
    while True:
        left = first > 0 and used + widths[first - 1] < room
        right = last < len(widths) and used + widths[last] < room
        if not (left or right):
            return first, last
        if left and (not right or centre - first <= last - 1 - centre):
            first -= 1
            used += widths[first] + 1
        else:
            used += widths[last] + 1
            last += 1


def _fit(text: str, cells: int) -> str:
    """Cut or pad a text to a number of cells."""
    text = printable(text)
    cut = text if cell_len(text) <= cells else f"{set_cell_size(text, cells - 1).rstrip()}…"
    return set_cell_size(cut, cells)
