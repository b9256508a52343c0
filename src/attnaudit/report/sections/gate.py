"""The checks that a model passed before its attention was recorded, as its trace keeps them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from attnaudit.report.page import Section
from attnaudit.results.about import About


class Checked(NamedTuple):
    """A check in words: its name, what its figure measures, the figure or why there is none, and the limit."""

    name: str
    meaning: str
    figure: str
    limit: str


def gate_section(about: About) -> Section | None:
    """The checks of the model, in the order in which they were made, and its layers; None where the trace has none."""
    gate = about.metadata.get("gate")
    if not isinstance(gate, Mapping):
        return None
    checks, layers = list(_checks(gate.get("checks"))), list(_layers(gate.get("layers")))
    if not checks:
        return None
    return Section(
        "gate",
        {"model": str(gate.get("model", "")), "checks": checks, "layers": layers},
        (("Checks", "#gate"),),
    )


def _checks(checks: Any) -> Iterator[Checked]:
    """The checks; of a trace from before these had their meanings with them, the figures alone."""
    if isinstance(checks, Mapping):
        checks = [
            {"name": name, "figure": value, "reason": value} for name, value in checks.items()
        ]
    for check in checks if isinstance(checks, list) else ():
        if isinstance(check, Mapping):
            figure, reason = check.get("figure"), str(check.get("reason") or "not measured")
            measured = f"{figure:.2g}" if isinstance(figure, int | float) else reason
            limit = str(check.get("limit") or "–")
            yield Checked(
                str(check.get("name", "")), str(check.get("meaning", "")), measured, limit
            )


def _layers(layers: Any) -> Iterator[dict[str, str]]:
    for layer in layers if isinstance(layers, list) else ():
        if isinstance(layer, Mapping):
            yield {
                name: str(layer.get(name, "")) or "–"
                for name in ("stack", "layer", "heads", "width", "way")
            }
