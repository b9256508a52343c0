"""Histograms and densities by class, small tables whatever the number of instances."""

from __future__ import annotations

import numpy as np
import polars as pl
from jaxtyping import Float

_BARS = {"group": pl.String, "left": pl.Float64, "right": pl.Float64, "share": pl.Float64, "count": pl.Int64}
_CURVE = {"band": pl.Int64, "group": pl.String, "x": pl.Float64, "density": pl.Float64}
FEW = 8  # fewer values than this are drawn one by one: a density of them would invent a shape


def histogram(rows: pl.DataFrame, column: str, low: float, high: float, bins: int) -> pl.DataFrame:
    """Share of each ``group``'s defined values per bin: {group, left, right, share, count}; empty where nothing is defined."""
    edges = np.linspace(low, high, bins + 1)
    frames = []
    for group, values in _by_group(rows, column).items():
        counts, _ = np.histogram(np.clip(values, low, high), bins=edges)
        columns = {"left": edges[:-1], "right": edges[1:], "share": counts / len(values), "count": counts}
        frames.append(pl.DataFrame({"group": [group] * bins, **columns}))
    return pl.concat(frames) if frames else pl.DataFrame(schema=_BARS)


def outline(bars: pl.DataFrame) -> pl.DataFrame:
    """The upper edge of a histogram as a step line: {group, x, share}."""
    first = bars.group_by("group", maintain_order=True).first()
    last = bars.group_by("group", maintain_order=True).last()
    starts = first.select("group", x="left", share=pl.lit(0.0), order=pl.lit(-1.0))
    steps = bars.select("group", x="left", share="share", order="left")
    ends = [
        last.select("group", x="right", share="share", order=pl.lit(9.0)),
        last.select("group", x="right", share=pl.lit(0.0), order=pl.lit(10.0)),
    ]
    return pl.concat([starts, steps, *ends])


def means(rows: pl.DataFrame, column: str) -> pl.DataFrame:
    """{group, mean} of the defined values."""
    found = {group: float(values.mean()) for group, values in _by_group(rows, column).items()}
    return pl.DataFrame({"group": list(found), "mean": list(found.values())}, schema={"group": pl.String, "mean": pl.Float64})


def quartiles(rows: pl.DataFrame, column: str) -> pl.DataFrame:
    """{band, group, q25, q50, q75, n} of the defined values of every band and group."""
    defined = rows.filter(pl.col(column).is_not_null() & pl.col(column).is_not_nan())
    middle = [pl.col(column).quantile(q / 100, "linear").alias(f"q{q}") for q in (25, 50, 75)]
    return defined.group_by("band", "group", maintain_order=True).agg(*middle, pl.len().alias("n")).sort("band", "group")


def violins(rows: pl.DataFrame, column: str, high: float) -> pl.DataFrame:
    """The density of every band and group of at least `FEW` values: {band, group, x, density}, the largest density 1.

    Each curve ends at the smallest and the largest value: nothing is drawn where there is nothing.
    """
    frames = []
    for (band, group), part in rows.group_by("band", "group", maintain_order=True):
        values = _defined(part, column)
        if len(values) >= FEW:
            x, density = kernel_density(values, high)
            frames.append(pl.DataFrame({"band": [band] * len(x), "group": [group] * len(x), "x": x, "density": density}))
    return pl.concat(frames) if frames else pl.DataFrame(schema=_CURVE)


def singles(rows: pl.DataFrame, column: str) -> pl.DataFrame:
    """The values of bands and groups too small for a density: {band, group, x}."""
    small = rows.filter(pl.col(column).is_not_null(), pl.len().over("band", "group") < FEW)
    return small.select("band", "group", x=column)


def kernel_density(values: Float[np.ndarray, " n"], high: float, points: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Gaussian kernel density on a grid from the smallest to the largest value, ``(x, density)``, scaled to a maximum of 1.

    Values are counted into 400 cells of [0, high] first, so that the cost does not grow with their number. Bandwidth by Silverman's
    rule, at least a hundredth of the range shown.
    """
    cells = np.linspace(0.0, high, 401)
    counts, _ = np.histogram(np.clip(values, 0.0, high), bins=cells)
    middles = 0.5 * (cells[1:] + cells[:-1])
    scale = min(float(values.std()), float(np.subtract(*np.percentile(values, [75, 25]))) / 1.34) or float(values.std())
    bandwidth = max(0.9 * scale * len(values) ** -0.2, high / 100)
    x = np.linspace(values.min(), values.max(), points) if values.max() > values.min() else values.min() + bandwidth * np.linspace(-1, 1, 9)
    density = np.exp(-0.5 * ((x[:, None] - middles) / bandwidth) ** 2) @ counts
    return x, density / density.max()


def _by_group(rows: pl.DataFrame, column: str) -> dict[str, np.ndarray]:
    found = {str(group): _defined(part, column) for (group,), part in rows.group_by("group", maintain_order=True)}
    return {group: values for group, values in found.items() if len(values)}


def _defined(rows: pl.DataFrame, column: str) -> np.ndarray:
    return rows[column].drop_nulls().drop_nans().to_numpy()
