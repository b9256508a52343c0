"""Files with one JSON object a line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from attnaudit.corpora.lines import invalid_utf8, numbered_lines
from attnaudit.corpora.rows import Row, require_columns


def jsonl_rows(path: Path, text: str, label: str) -> Iterator[Row]:
    """Rows of a jsonl file; empty lines are none. Raises InputError when the first object lacks a column."""
    row, checked = 0, False
    for number, line in numbered_lines(path):
        if not line.strip():
            continue
        found = _object(line)
        if isinstance(found, str):
            yield Row(row, number, problem=found)
        else:
            if not checked:
                require_columns(path, list(found), text, label)
                checked = True
            yield Row(row, number, found.get(text), found.get(label))
        row += 1


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
