"""The numbers behind a chart, as a table for those who cannot see it.

They are what a drawing's marks encode, read from its specification. A histogram has a row for each
bin. More rows than can be read are binned: points by the quartiles of y in intervals of x, lines by
their values at equal steps of x.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

MOST = 100  # rows of one table
BINS = 10  # of a table of more
_CHANNELS = ("facet", "row", "column", "color", "shape", "detail", "x", "x2", "y", "y2", "text")
_NAMES = {
    "group": "group",
    "x": "value",
    "low": "lower end",
    "high": "upper end",
    "mean": "mean",
    "q25": "lower quartile",
    "q50": "median",
    "q75": "upper quartile",
    "name": "name",
}
_STATISTICS = ("low", "high", "q25", "q50", "q75")  # named so whatever axis they are drawn on
_COORDINATES = ("centre", "top", "bottom", "base")  # of the drawing, no numbers


def tables_behind(spec: Mapping[str, Any]) -> str:
    """Return HTML of a closed list of the tables that the chart ``spec`` draws; empty if none.

    Areas alone, as of densities, have none: the quartiles that are drawn with them have.
    """
    found = "".join(
        _behind(spec, name, rows) for name, rows in spec.get("datasets", {}).items() if rows
    )
    return (
        f'<details class="behind"><summary>Numbers of this chart</summary>{found}</details>'
        if found
        else ""
    )


def _behind(spec: Mapping[str, Any], name: str, rows: Sequence[Mapping[str, Any]]) -> str:
    fields = _fields(spec, name)
    if len(fields) == 1 and fields.keys() <= {"x", "y"}:  # a line across the chart
        return ""
    if "right" in rows[0]:
        return _histogram(rows, fields["x"])
    if len(rows) <= MOST:
        return _table(rows, fields)
    marks = set(_marks(spec, name))
    groups = {
        field: title
        for field, title in fields.items()
        if not isinstance(rows[0].get(field), int | float)
    }
    parts = _parts(rows, groups)
    if "x" not in fields or "x" in groups or not 0 < len(parts) <= MOST:
        return ""
    bins = min(BINS, MOST // len(parts))
    ends = min(row["x"] for row in rows), max(row["x"] for row in rows)
    if "line" in marks:
        held = {field: title for field, title in fields.items() if field not in groups}
        return _table(
            [
                dict(groups_of) | row
                for groups_of, part in parts.items()
                for row in _steps(part, ends, bins)
            ],
            groups | held,
        )
    if marks & {"point", "circle", "square"} and "y" in fields:
        read = {
            "x": fields["x"],
            "n": "number",
            "q25": f"{fields['y']}: lower quartile",
            "q50": "median",
            "q75": "upper quartile",
        }
        return _table(
            [
                dict(groups_of) | row
                for groups_of, part in parts.items()
                for row in _quartiles(part, ends, bins)
            ],
            groups | read,
        )
    return ""


def _histogram(rows: Sequence[Mapping[str, Any]], title: str) -> str:
    """Count each group in each bin, of an outline whose corners between bins have no count."""
    bins: dict[str, dict[str, Any]] = {}
    counted = [row for row in rows if row["count"] is not None]
    for row in counted:
        interval = f"{_text(row['x'])} to {_text(row['right'])}"
        bins.setdefault(interval, {"x": interval})[f"of {row['group']}"] = row["count"]
    return _table(
        list(bins.values()),
        {"x": title} | {f"of {row['group']}": f"number of {row['group']}" for row in counted},
    )


def _parts(
    rows: Sequence[Mapping[str, Any]], groups: Mapping[str, str]
) -> dict[tuple[tuple[str, Any], ...], list[Mapping[str, Any]]]:
    """Return the rows with a place, by what they are grouped by."""
    found: dict[tuple[tuple[str, Any], ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        if row.get("x") is not None:
            found.setdefault(tuple((field, row.get(field)) for field in groups), []).append(row)
    return found


def _steps(
    rows: Sequence[Mapping[str, Any]], ends: tuple[float, float], bins: int
) -> Iterator[dict[str, Any]]:
    """Return a line at equal steps of x: its last value before each."""
    ordered = sorted(rows, key=lambda row: row["x"])
    for x in np.linspace(*ends, bins + 1):
        place = bisect_right([row["x"] for row in ordered], x + 1e-9)
        if place:
            yield dict(ordered[place - 1]) | {"x": float(x)}


def _quartiles(
    rows: Sequence[Mapping[str, Any]], ends: tuple[float, float], bins: int
) -> Iterator[dict[str, Any]]:
    """Points by equal intervals of x: how many, and the quartiles of y."""
    known = [row for row in rows if row.get("y") is not None]
    x, y = (np.array([row[name] for row in known], float) for name in ("x", "y"))
    edges = np.linspace(*ends, bins + 1)
    place = np.clip(np.searchsorted(edges, x, side="right") - 1, 0, bins - 1)
    for k in np.unique(place):
        q25, q50, q75 = (float(value) for value in np.percentile(y[place == k], [25, 50, 75]))
        interval = f"{_text(float(edges[k]))} to {_text(float(edges[k + 1]))}"
        yield {"x": interval, "n": int((place == k).sum()), "q25": q25, "q50": q50, "q75": q75}


def _fields(spec: Mapping[str, Any], dataset: str) -> dict[str, str]:
    """Return the fields of ``dataset`` that marks encode, in order of `_CHANNELS`, with titles."""
    found: dict[tuple[int, str], str] = {}
    for encoding in _encodings(spec, dataset):
        for channel, part in encoding.items():
            field = part.get("field") if isinstance(part, Mapping) else None
            if isinstance(field, str) and channel in _CHANNELS and field not in _COORDINATES:
                place = min([_CHANNELS.index(channel), *(k for k, name in found if name == field)])
                title = found.pop(
                    (next((k for k, name in found if name == field), -1), field), ""
                ) or _title(part)
                found[place, field] = title
    return {
        field: title or _NAMES.get(field, field.replace("_", " "))
        for (_, field), title in sorted(found.items())
    }


def _marks(spec: Mapping[str, Any], dataset: str, inherited: str = "") -> Iterator[str]:
    """Return the marks that draw ``dataset``."""
    data = spec.get("data")
    own = data.get("name", "") if isinstance(data, Mapping) else inherited
    mark = spec.get("mark")
    if own == dataset and mark:
        yield str(mark.get("type")) if isinstance(mark, Mapping) else str(mark)
    for key in ("layer", "hconcat", "vconcat", "concat"):
        for part in spec.get(key, ()):
            yield from _marks(part, dataset, own)
    if isinstance(spec.get("spec"), Mapping):
        yield from _marks(spec["spec"], dataset, own)


def _title(part: Mapping[str, Any]) -> str:
    title = part.get("title")
    return title if isinstance(title, str) and part.get("field") not in _STATISTICS else ""


def _encodings(
    spec: Mapping[str, Any], dataset: str, inherited: str = ""
) -> Iterator[Mapping[str, Any]]:
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


def _table(rows: Sequence[Mapping[str, Any]], fields: Mapping[str, str]) -> str:
    if not fields:
        return ""
    head = "".join(f'<th scope="col">{escape(title)}</th>' for title in fields.values())
    body = "".join(
        f"<tr>{''.join(f'<td>{_text(row.get(field))}</td>' for field in fields)}</tr>"
        for row in rows
    )
    caption = '<caption class="unseen">Numbers of this chart</caption>'
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _text(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.4g}".replace("-", "−")
    return escape(str(value))
