"""What a terminal shows: the answer, in at most 25 lines, and tables."""

from collections.abc import Iterable, Sequence

import numpy as np
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.table import Table
from rich.text import Text

from attnaudit.core import printable
from attnaudit.core.escapes import as_markup
from attnaudit.report.answer import Answer, Example, outstanding
from attnaudit.report.sections.heatmaps import visible
from attnaudit.report.words import figure

MOST_CLASSES = 4  # with a column, or a line, of their own
NAME, CLAIM = 14, 48  # cells of a class's name, and of a claim
_COLUMN, _LEAST, _FIGURE = 12, 9, 7  # cells of a figure with its sign, at least, and without
_MOST_WARNINGS = 2
_STYLES = {"✔": "green", "✘": "red"}
_LEGEND = "✔ for  ✘ against  – no conclusion"


def print_answer(answer: Answer, console: Console, ending: Sequence[tuple[str, str]] = ()) -> None:
    """Print an answer.

    Args:
        answer: The answer.
        console: Where to print.
        ending: Further lines: a word in capitals and what it names, such as the report's path.
    """
    lines: list[Text | str] = [
        Text(f"attnaudit · {answer.title}", "bold"),
        Text(f"  {answer.subtitle}", "dim"),
    ]
    lines += ["", *_headed("VERDICT", answer.sign, answer.advice, console)]
    lines += _by_class(answer, console)
    if answer.evidence:
        lines += ["", *_why(answer, console.width)]
    if answer.instead:
        scores = Text(" · ".join(f"{name} {figure}" for name, figure, _ in answer.scores), "dim")
        lines += ["", *_headed("INSTEAD", "", answer.instead, console)]
        lines += _hanging(Text("   "), scores, console)
    if answer.example is not None:
        lines += ["", *_pictured(answer.example, console)]
    warnings = list(answer.warnings)
    if more := warnings[_MOST_WARNINGS:]:
        warnings = [*warnings[: _MOST_WARNINGS - 1], f"{len(more) + 1} more, listed in the report"]
    lines.append("")
    for k, warning in enumerate(warnings):
        lines += _headed("WARNINGS" if k == 0 else "", "", warning, console)
    # Whoever copies a command or a path wants it without line breaks.
    lines += [Text(f"  {head:<9} ", "bold").append(printable(said), "") for head, said in ending]
    for line in lines:
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def _headed(head: str, sign: str, said: str, console: Console) -> list[Text]:
    start = Text(f"  {head:<9} ", "bold")
    if sign:
        start.append(f"{sign} ", _STYLES.get(sign, ""))
    return _hanging(start, Text(printable(said), "bold" if sign else ""), console)


def _hanging(start: Text, said: Text, console: Console) -> list[Text]:
    """Break a sentence between words, each further line below the first word."""
    indent = cell_len(start.plain)
    first, *further = said.wrap(console, max(console.width - indent, NAME)) or [Text()]
    return [start.append_text(first), *(Text(" " * indent).append_text(line) for line in further)]


def _by_class(answer: Answer, console: Console) -> list[Text]:
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
        start = Text(f"   {head} ").append(sign, _STYLES.get(sign, "")).append(" ")
        lines += _hanging(start, Text(printable(said).rstrip()), console)
    return lines


def _why(answer: Answer, width: int) -> list[Text]:
    """Return the table of the measures that decide; of classes only if they fit on a line."""
    names = [one.name for one in answer.classes] if len(answer.classes) <= MOST_CLASSES else []
    column = min((width - CLAIM - 2) // (1 + len(names)) - 1, _COLUMN)
    if column < _LEAST:
        names, column = [], _LEAST
    head = Text(f"  {_fit('WHY', CLAIM)}", "bold")
    for name in ("all", *names):
        head.append(f" {_fit(f'{name:>{_FIGURE}}', column)}", "dim")
    lines = [head]
    for row in answer.evidence:
        claim = f"{row.claim} ({row.row.measure})" if row.row.of_model else row.claim
        line = Text(f"   {_fit(claim, CLAIM - 1)}")
        of_classes = {name: (one.figure, one.sign) for name, one in row.classes.items()}
        cells = [(row.row.figure, row.sign), *(of_classes.get(name, ("", "")) for name in names)]
        for shown, sign in cells:
            line.append(f" {shown:>{_FIGURE}} ").append(sign or " ", _STYLES.get(sign, ""))
            line.append(" " * (column - _LEAST))
        lines.append(line)
    return [*lines, Text(f"   {_fit(_LEGEND, CLAIM - 1)} intervals: in the report", "dim")]


def _pictured(example: Example, console: Console) -> list[Text]:
    """Draw the text, the words that stand out in brackets, and say what another heatmap shows."""
    one, width = example.instance, console.width
    predicted = f"predicted {_fit(one.predicted, CLAIM).rstrip()}, {figure(one.probability)}"
    lines = [*_headed("EXAMPLE", "", predicted, console), _marked(example, one.main, width)]
    if example.other:
        lines += _hanging(Text("   "), Text(example.other, "dim"), console)
    if not example.differs:
        return lines
    return [*lines, _marked(example, one.weights[example.kind], width)]


def _marked(example: Example, weights: np.ndarray, width: int) -> Text:
    """Draw as many words as fit on one line, around the one with the largest weight."""
    marked = set(outstanding(weights))
    remark = "" if marked else "(no word stands out)"
    room = max(width - 9 - len(remark), NAME)
    words = [printable(visible(token)) for token in example.instance.tokens]
    words = [f"[{word}]" if k in marked else word for k, word in enumerate(words)]
    words = [word if cell_len(word) < room else _fit(word, room - 1) for word in words]
    first, last = _window([cell_len(word) for word in words], int(np.argmax(weights)), room)
    line = Text("   … " if first else "   ")
    for k in range(first, last):
        line.append(words[k], "reverse" if k in marked else "").append(" ")
    line.append(remark, "dim")
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


def print_table(
    console: Console,
    title: str,
    columns: Iterable[tuple[str, str]],
    rows: Iterable[Iterable[str]],
) -> None:
    """Print rows of texts below (title, class) of columns; numbers stand on the right."""
    table = Table(title=as_markup(title) or None, title_justify="left")
    for name, kind in columns:
        justify = "right" if kind == "num" else "left"
        table.add_column(as_markup(name), justify=justify, overflow="fold", no_wrap=bool(kind))
    for texts in rows:
        table.add_row(*map(as_markup, texts))
    console.print(table)
