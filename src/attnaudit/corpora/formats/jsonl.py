"""Files with one JSON object a line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from attnaudit.corpora.formats.lines import invalid_utf8, numbered_lines
from attnaudit.corpora.formats.rows import BadCell, Columns, Row, require_columns

Fields = dict[str, Any]  # of Row


def jsonl_rows(path: Path, columns: Columns) -> Iterator[Row]:
    """Rows of a jsonl file; empty lines are none. Raises InputError when the first object lacks a column."""

    def fields(found: dict[str, Any]) -> Fields:
        cells: Fields = {option: found.get(name) for option, name in columns}
        if "rationale" in cells:
            cells["evidence"] = cells.pop("rationale")
        return cells

    return object_rows(path, columns, fields)


def object_rows(path: Path, needed: Columns, fields: Callable[[dict[str, Any]], Fields]) -> Iterator[Row]:
    """A row for each object, with the ``fields`` that are made of it; where that raises BadCell the row is bad.

    Raises InputError when the first object lacks a needed column.
    """
    checked = False
    for row, line, found in objects(path):
        if isinstance(found, str):
            yield Row(row, line, problem=found)
            continue
        if not checked:
            require_columns(path, list(found), needed)
            checked = True
        yield _row(row, line, found, fields)


def objects(path: Path, lines: Iterator[tuple[int, str]] | None = None) -> Iterator[tuple[int, int, dict[str, Any] | str]]:
    """Row, line and object, or what is wrong with it, of each line that is not empty, of a file or of ``lines`` from elsewhere."""
    row = 0
    for number, line in numbered_lines(path) if lines is None else lines:
        if line.strip():
            yield row, number, _object(line)
            row += 1


def _row(row: int, number: int, found: dict[str, Any], fields: Callable[[dict[str, Any]], Fields]) -> Row:
    try:
        return Row(row, number, **fields(found))
    except BadCell as error:
        return Row(row, number, problem=str(error))


def _object(line: str) -> dict | str:
    if wrong := invalid_utf8(line):
        return wrong
    try:
        found = json.loads(line)
    except json.JSONDecodeError as error:
        return f"no JSON ({error.msg} at column {error.colno})"
    except (ValueError, RecursionError) as error:
        return f"no usable JSON ({error})"
    return found if isinstance(found, dict) else f"a JSON {type(found).__name__} where an object was expected"
