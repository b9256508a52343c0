"""The models of the copying study: as released with Snell et al. 2021, and one whose output is tied to the embeddings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Kind = Literal["tanh", "tied"]
Name = Literal["snell2021", "tied"]


@dataclass(frozen=True)
class Preset:
    """The ``output`` layer, and whether both sides share their symbols and end with one more (`Sequences.shared`).

    ``words`` describe both.
    """

    output: Kind
    shared: bool
    words: str


PRESETS: Mapping[Name, Preset] = {
    "snell2021": Preset("tanh", True, "the released model"),
    "tied": Preset("tied", False, "the tied model"),
}
