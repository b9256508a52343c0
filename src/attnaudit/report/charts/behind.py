"""The numbers behind a chart, as a table for those who cannot see it.

They are what a drawing's marks encode, read from its specification. A histogram has a row for each
bin. More rows than can be read are binned: points by the quartiles of y in intervals of x, lines by
their values at equal steps of x.
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
_CHANNELS = ("facet", "row", "column", "color", "shape", "detail", "x", "x2", "y", "y2", "text")
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
_SLACK = 1e-9  # of a step that is rounded

Rows = Sequence[Mapping[str, Any]]


def tables_behind(spec: Mapping[str, Any]) -> str:
    """Return HTML of a closed list of the tables that the chart ``spec`` draws; empty if none.

    Areas alone, as of densities, have none: the quartiles that are drawn with them have.
    """
    datasets = spec.get("datasets", {}).items()
    tables = "".join(_behind(list(_layers(spec, name)), rows) for name, rows in datasets if rows)
    summary = "<summary>Numbers of this chart</summary>"
    return f'<details class="behind">{summary}{tables}</details>' if tables else ""


def _layers(
    spec: Mapping[str, Any], dataset: str, inherited: str = ""
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the mark and the encoding of each layer that draws ``dataset``."""
    data = spec.get("data")
    own = data.get("name", "") if isinstance(data, Mapping) else inherited
    if own == dataset:
        mark = spec.get("mark", "")
        yield mark.get("type", "") if isinstance(mark, Mapping) else mark, spec.get("encoding", {})
        if isinstance(spec.get("facet"), Mapping):
            yield "", {"facet": spec["facet"]}
    parts = [
        part for key in ("layer", "hconcat", "vconcat", "concat") for part in spec.get(key, ())
    ]
    for part in [*parts, *([spec["spec"]] if isinstance(spec.get("spec"), Mapping) else [])]:
        yield from _layers(part, dataset, own)


def _behind(layers: Sequence[tuple[str, Mapping[str, Any]]], rows: Rows) -> str:
    fields, marks = _fields([encoding for _, encoding in layers]), {mark for mark, _ in layers}
    if len(fields) == 1 and fields.keys() <= {"x", "y"}:  # a line across the chart
        return ""
    if "right" in rows[0]:
        return _histogram(rows, fields["x"])
    if len(rows) <= MOST:
        return _table(rows, fields)
    frame = pl.DataFrame(rows, infer_schema_length=None)
    groups = [field for field in fields if not frame[field].dtype.is_numeric()]
    if "x" not in fields or "x" in groups:
        return ""
    known = frame.drop_nulls("x").with_columns(pl.col("x").cast(pl.Float64))
    parts = known.select(pl.lit(0).alias("all"), *groups).unique(maintain_order=True)
    parts = parts.with_row_index("part")
    bins = min(BINS, MOST // parts.height) if parts.height <= MOST else 0
    known = known.with_columns(all=0).join(parts, on=["all", *groups], nulls_equal=True)
    if bins and "line" in marks:
        steps = pl.DataFrame({"x": _edges(known, bins)})
        at = steps.with_columns(at=pl.col("x") + _SLACK).join(parts.select("part"), how="cross")
        lines = known.rename({"x": "at"}).sort("at")
        found = (
            at.sort("at")
            .join_asof(lines, on="at", by="part", check_sortedness=False)
            .drop_nulls("all")
        )
        return _table(found.sort("part", "x").to_dicts(), fields)
    if bins and marks & {"point", "circle", "square"} and "y" in fields:
        return _quartiles(known, groups, bins, fields)
    return ""


def _edges(known: pl.DataFrame, bins: int) -> np.ndarray:
    x = known["x"].to_numpy()
    return np.linspace(x.min(), x.max(), bins + 1)


def _quartiles(
    known: pl.DataFrame, groups: Sequence[str], bins: int, fields: Mapping[str, str]
) -> str:
    """Describe points by equal intervals of x: how many, and the quartiles of y."""
    edges = _edges(known, bins)
    place = np.clip(np.searchsorted(edges, known["x"], side="right") - 1, 0, bins - 1)
    ends = [_text(float(edge)) for edge in edges]
    names = [f"{low} to {high}" for low, high in pairwise(ends)]
    middle = [pl.col("y").quantile(q / 100, "linear").alias(f"q{q}") for q in (25, 50, 75)]
    found = known.with_columns(place=pl.Series(place)).drop_nulls("y")
    table = found.group_by("part", *groups, "place").agg(*middle, n=pl.len()).sort("part", "place")
    rows = [row | {"x": names[row["place"]]} for row in table.to_dicts()]
    titles = {"n": "number", "q25": f"{fields['y']}: lower quartile"}
    read = {group: fields[group] for group in groups} | {"x": fields["x"]} | titles
    return _table(rows, read | {name: _NAMES[name] for name in ("q50", "q75")})


def _histogram(rows: Rows, title: str) -> str:
    """Count each group in each bin, of an outline whose corners between bins have no count."""
    bins: dict[str, dict[str, Any]] = {}
    counted = [row for row in rows if row["count"] is not None]
    for row in counted:
        interval = f"{_text(row['x'])} to {_text(row['right'])}"
        bins.setdefault(interval, {"x": interval})[f"of {row['group']}"] = row["count"]
    numbers = {f"of {row['group']}": f"number of {row['group']}" for row in counted}
    return _table(list(bins.values()), {"x": title} | numbers)


def _fields(encodings: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the fields that marks encode, in the order of `_CHANNELS`, with titles."""
    titles: dict[str, str] = {}
    for channel in _CHANNELS:
        parts = (encoding.get(channel) for encoding in encodings)
        for part in (part for part in parts if isinstance(part, Mapping)):
            field = part.get("field")
            if isinstance(field, str) and field not in _COORDINATES:
                title = part.get("title") if field not in _STATISTICS else None
                titles[field] = titles.get(field) or (title if isinstance(title, str) else "")
    return {
        field: title or _NAMES.get(field, field.replace("_", " "))
        for field, title in titles.items()
    }


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
