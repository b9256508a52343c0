"""The numbers behind a chart, as a table for those who cannot see it.

They are what a drawing's marks encode, read from its specification. A histogram has a row for each
bin. More rows than can be read are summarised by their medians in intervals of x.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl

MOST = 100  # rows of one table
BINS = 10  # of a table of more
_GROUPING = ("facet", "row", "column", "color", "shape", "detail")
_CHANNELS = (*_GROUPING, "x", "x2", "y", "y2", "text")
_NAMES = {
    "x": "value",
    "low": "lower end",
    "high": "upper end",
    "q25": "lower quartile",
    "q50": "median",
    "q75": "upper quartile",
}
_STATISTICS = ("low", "high", "q25", "q50", "q75")  # named so whatever axis they are drawn on
_COORDINATES = ("centre", "top", "bottom", "base")  # of the drawing, no numbers

Rows = Sequence[Mapping[str, Any]]
Layer = tuple[str, str, Mapping[str, Any]]


def tables_behind(spec: Mapping[str, Any]) -> str:
    """Return HTML of a closed list of the tables that the chart ``spec`` draws; empty if none.

    Areas alone, as of densities, have none: the quartiles that are drawn with them have.
    """
    layers = list(_layers(spec, ""))
    tables = "".join(
        _behind([layer for layer in layers if layer[0] == name], rows)
        for name, rows in spec.get("datasets", {}).items()
        if rows
    )
    summary = "<summary>Numbers of this chart</summary>"
    return f'<details class="behind">{summary}{tables}</details>' if tables else ""


def _layers(spec: Mapping[str, Any], dataset: str) -> Iterator[Layer]:
    """Yield the name of the data, the mark and the encoding of each layer."""
    dataset = (spec.get("data") or {}).get("name", dataset)
    mark, facet = spec.get("mark", ""), spec.get("facet")
    yield dataset, mark["type"] if isinstance(mark, Mapping) else mark, spec.get("encoding", {})
    if isinstance(facet, Mapping):
        yield dataset, "", {"facet": facet}
    parts = [spec["spec"]] if "spec" in spec else []
    for key in ("layer", "hconcat", "vconcat", "concat"):
        parts += spec.get(key, ())
    for part in parts:
        yield from _layers(part, dataset)


def _behind(layers: Sequence[Layer], rows: Rows) -> str:
    fields: dict[str, str] = {}
    places: dict[str, str] = {}  # the channel of each field
    for channel in _CHANNELS:
        for _, _, encoding in layers:
            part = encoding.get(channel)
            field = part.get("field") if isinstance(part, Mapping) else None
            if field and field not in _COORDINATES:
                title = "" if field in _STATISTICS else (part or {}).get("title") or ""
                fields[field] = fields.get(field) or title
                places.setdefault(field, channel)
    for field in fields:
        fields[field] = fields[field] or _NAMES.get(field, field.replace("_", " "))
    if len(fields) == 1 and fields.keys() <= {"x", "y"}:  # a line across the chart
        return ""
    if "right" in rows[0]:
        return _histogram(rows, fields["x"])
    if len(rows) <= MOST:
        return _table(rows, fields)
    frame = pl.DataFrame(rows, infer_schema_length=None)
    groups = [field for field, channel in places.items() if channel in _GROUPING]
    x = next((field for field, channel in places.items() if channel == "x"), None)
    drawn = {mark for _, mark, _ in layers} & {"line", "point", "circle", "square"}
    if x is None or not drawn or not frame[x].dtype.is_numeric():
        return ""
    return _binned(frame.drop_nulls(x), x, groups, fields)


def _binned(frame: pl.DataFrame, x: str, groups: Sequence[str], fields: Mapping[str, str]) -> str:
    """Describe groups by equal intervals of x: the number of rows, and the medians of the rest."""
    bins = min(BINS, MOST // max(frame.select(groups).unique().height, 1))
    if not bins:
        return ""
    values = frame[x].cast(pl.Float64).to_numpy()
    edges = np.linspace(values.min(), values.max(), bins + 1)
    place = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, bins - 1)
    names = [f"{low} to {high}" for low, high in pairwise(map(_text, edges.tolist()))]
    numbers = [field for field in fields if field not in (*groups, x)]
    keys = [*groups, x]
    table = frame.with_columns(pl.Series(x, place)).group_by(keys)
    medians = table.agg(pl.col(numbers).median(), n=pl.len()).sort(keys)
    rows = [row | {x: names[row[x]]} for row in medians.to_dicts()]
    titles = {field: f"{fields[field]}, median" for field in numbers}
    return _table(rows, {key: fields[key] for key in keys} | {"n": "number"} | titles)


def _histogram(rows: Rows, title: str) -> str:
    """Count each group in each bin, of an outline whose corners between bins have no count."""
    bins: dict[str, dict[str, Any]] = {}
    counted = [row for row in rows if row["count"] is not None]
    for row in counted:
        interval = f"{_text(row['x'])} to {_text(row['right'])}"
        bins.setdefault(interval, {"x": interval})[f"of {row['group']}"] = row["count"]
    numbers = {f"of {row['group']}": f"number of {row['group']}" for row in counted}
    return _table(list(bins.values()), {"x": title} | numbers)


def _table(rows: Rows, fields: Mapping[str, str]) -> str:
    if not fields:
        return ""
    head = "".join(f'<th scope="col">{escape(title)}</th>' for title in fields.values())
    cells = ("".join(f"<td>{_text(row.get(field))}</td>" for field in fields) for row in rows)
    body = "".join(f"<tr>{line}</tr>" for line in cells)
    caption = '<caption class="unseen">Numbers of this chart</caption>'
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _text(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:.4g}".replace("-", "−") if isinstance(value, float) else escape(str(value))
