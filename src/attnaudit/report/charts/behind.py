"""The numbers behind a chart, as a table for those who cannot see it: the rows that it draws."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

MOST = 100  # rows of one table
_NAMES = {
    "low": "lower end",
    "high": "upper end",
    "q25": "lower quartile",
    "q50": "median",
    "q75": "upper quartile",
    "right": "to",
}


def tables_behind(spec: Mapping[str, Any]) -> str:
    """Return HTML of a closed list of the tables that the chart ``spec`` draws; empty if none.

    Columns are called as the axes that they are drawn on. Of more rows than can be read, those at
    equal distances are shown.
    """
    titles = dict(_titles([part for key, part in spec.items() if key != "datasets"]))
    data = spec.get("datasets", {}).values()
    tables = "".join(_table(rows, titles) for rows in data if any(rows))
    summary = "<summary>Numbers of this chart</summary>"
    return f'<details class="behind">{summary}{tables}</details>' if tables else ""


def _titles(part: Any) -> Iterator[tuple[str, str]]:
    """Yield the fields that a part of a specification draws, with their titles."""
    if isinstance(part, Mapping):
        if part.get("field") and part.get("title"):
            yield part["field"], part["title"]
        part = list(part.values())
    if isinstance(part, list):
        for one in part:
            yield from _titles(one)


def _table(rows: Sequence[Mapping[str, Any]], titles: Mapping[str, str]) -> str:
    each = -(-len(rows) // MOST)
    heads = [_NAMES.get(field) or titles.get(field) or field.replace("_", " ") for field in rows[0]]
    head = "".join(f'<th scope="col">{escape(title)}</th>' for title in heads)
    cells = ("".join(f"<td>{_text(value)}</td>" for value in row.values()) for row in rows[::each])
    body = "".join(f"<tr>{line}</tr>" for line in cells)
    some = f", one of every {each} rows" if each > 1 else ""
    caption = f'<caption class="unseen">Numbers of this chart{some}</caption>'
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _text(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:.4g}".replace("-", "−") if isinstance(value, float) else escape(str(value))
