"""The numbers behind a chart, as a table for those who cannot see it: what a drawing's marks encode, read from its specification."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

MOST = 100  # rows of one table; more, as of densities and points, are no numbers to read
_CHANNELS = ("facet", "row", "column", "color", "shape", "detail", "x", "x2", "y", "y2", "text")
_NAMES = {
    "group": "group", "x": "value", "low": "low", "high": "high", "mean": "mean", "q25": "lower quartile", "q50": "median",
    "q75": "upper quartile", "name": "name",
}  # fmt: skip


def tables_behind(spec: Mapping[str, Any]) -> str:
    """HTML of a closed list of tables, one for each table that the chart ``spec`` draws; empty where all are too long to read."""
    found = "".join(_table(rows, _fields(spec, name)) for name, rows in spec.get("datasets", {}).items() if 0 < len(rows) <= MOST)
    return f'<details class="behind"><summary>Numbers of this chart</summary>{found}</details>' if found else ""


def _fields(spec: Mapping[str, Any], dataset: str) -> dict[str, str]:
    """The fields of ``dataset`` that marks of a chart encode, in the order of `_CHANNELS`, each with its title."""
    found: dict[tuple[int, str], str] = {}
    for encoding in _encodings(spec, dataset):
        for channel, part in encoding.items():
            field = part.get("field") if isinstance(part, Mapping) else None
            if isinstance(field, str) and channel in _CHANNELS:
                place = min([_CHANNELS.index(channel), *(k for k, name in found if name == field)])
                title = found.pop((next((k for k, name in found if name == field), -1), field), "") or _title(part)
                found[place, field] = title
    return {field: title or _NAMES.get(field, field.replace("_", " ")) for (_, field), title in sorted(found.items())}


def _title(part: Mapping[str, Any]) -> str:
    title = part.get("title")
    return title if isinstance(title, str) else ""


def _encodings(spec: Mapping[str, Any], dataset: str, inherited: str = "") -> Iterator[Mapping[str, Any]]:
    data = spec.get("data")
    own = data.get("name", "") if isinstance(data, Mapping) else inherited
    if own == dataset and isinstance(spec.get("encoding"), Mapping):
        yield spec["encoding"]
    if own == dataset and isinstance(spec.get("facet"), Mapping):
        yield {"facet": spec["facet"]}
    for key in ("layer", "hconcat", "vconcat", "concat"):
        for part in spec.get(key, ()):
            yield from _encodings(part, dataset, own)
    if isinstance(spec.get("spec"), Mapping):
        yield from _encodings(spec["spec"], dataset, own)


def _table(rows: list[Mapping[str, Any]], fields: Mapping[str, str]) -> str:
    if not fields:
        return ""
    head = "".join(f'<th scope="col">{escape(title)}</th>' for title in fields.values())
    body = "".join(f"<tr>{''.join(f'<td>{_text(row.get(field))}</td>' for field in fields)}</tr>" for row in rows)
    return f'<table><caption class="unseen">Numbers of this chart</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def _text(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.4g}".replace("-", "−")
    return escape(str(value))
