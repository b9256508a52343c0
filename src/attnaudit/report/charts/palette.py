"""Colours, dashes and shapes of the groups of a chart, and the legend of the classes of a page."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import altair as alt
import polars as pl

from attnaudit.core import count
from attnaudit.results import TEXT

OTHER = "other classes"
# Okabe and Ito's colours, told apart under the common colour blindnesses; black and yellow do not
# show on both kinds of page.
_CLASSES = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
_DASHES = ((1, 0), (6, 3), (2, 2), (8, 3, 2, 3), (4, 4), (1, 3))
_SHAPES = ("circle", "square", "diamond", "triangle-up", "cross", "triangle-down")


@dataclass(frozen=True)
class Palette:
    """A colour, a dash pattern and a shape for each group, since colour alone tells none apart.

    Attributes:
        groups: The groups; of most charts the predicted classes.
        colours: Colours of the groups, in order.
        COLOURS: The usual colours.
        RANKINGS: Colours of rankings, a random one first; none is of one of two classes.
    """

    groups: tuple[str, ...]
    colours: tuple[str, ...] = _CLASSES

    COLOURS: ClassVar = _CLASSES
    RANKINGS: ClassVar = ("#808080", *_CLASSES[2:])

    def colour(self, legend: alt.Legend | None = None) -> alt.Color:
        """Return the colour channel of ``group``."""
        return alt.Color(**self._options(self.colours, legend))

    def dash(self, legend: alt.Legend | None = None) -> alt.StrokeDash:
        """Return the dash channel of ``group``."""
        return alt.StrokeDash(**self._options(_DASHES, legend))

    def shape(self, legend: alt.Legend | None = None) -> alt.Shape:
        """Return the shape channel of ``group``."""
        return alt.Shape(**self._options(_SHAPES, legend))

    def _options(self, values: Sequence[Any], legend: alt.Legend | None) -> dict[str, Any]:
        scale = alt.Scale(domain=self.groups, range=values[: len(self.groups)])
        return {"shorthand": "group:N", "scale": scale, "title": None, "legend": legend}


@dataclass(frozen=True)
class LegendEntry:
    """A class as charts draw it, with its SVG dash pattern and the number of its instances."""

    name: str
    colour: str
    dash: str
    size: str


def group_rows(rows: pl.DataFrame, class_names: Sequence[str]) -> tuple[pl.DataFrame, Palette]:
    """Add ``group``: the predicted class, the rarer ones together if classes exceed colours."""
    sizes = rows.group_by("predicted").len().sort("len", "predicted", descending=[True, False])
    names, limit = sizes["predicted"].to_list(), len(Palette.COLOURS)
    kept = names if len(names) <= limit else names[: limit - 1]
    order = {name: k for k, name in enumerate(class_names)}
    groups = sorted(kept, key=lambda name: (order.get(name, len(order)), name))
    if len(kept) < len(names):
        groups.append(OTHER)
    named = pl.when(pl.col("predicted").is_in(kept)).then("predicted").otherwise(pl.lit(OTHER))
    return rows.with_columns(group=named), Palette(tuple(groups))


def legend(rows: pl.DataFrame, palette: Palette, unit: str = TEXT) -> tuple[LegendEntry, ...]:
    """Return the entries of a palette, with the number of ``rows`` of each."""
    sizes = dict(rows.group_by("group").len().iter_rows())
    entries = zip(palette.groups, palette.colours, _DASHES, strict=False)
    return tuple(
        LegendEntry(name, hue, " ".join(map(str, dash)), count(sizes.get(name, 0), unit))
        for name, hue, dash in entries
    )
