"""The checks that a model passed before its attention was recorded, as its trace keeps them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attnaudit.report.page import Section
from attnaudit.results.about import About

_LAYER = ("stack", "layer", "heads", "width", "way")


def gate_section(about: About) -> Section | None:
    """Show the checks in the order in which they were made, and the layers; None without any."""
    gate = about.metadata.get("gate")
    checks, layers = (_listed(gate, name) for name in ("checks", "layers"))
    if not isinstance(gate, Mapping) or not checks:
        return None
    shown = [
        {
            "name": check.get("name", ""),
            "meaning": check.get("meaning", ""),
            "figure": f"{figure:.2g}"
            if isinstance(figure := check.get("figure"), int | float)
            else check.get("reason") or "not measured",
            "limit": check.get("limit") or "–",
        }
        for check in checks
    ]
    told = [{name: layer.get(name, "–") for name in _LAYER} for layer in layers]
    content = {"model": gate.get("model", ""), "checks": shown, "layers": told}
    return Section("gate", content, (("Checks", "#gate"),))


def _listed(gate: Any, name: str) -> list[Mapping[str, Any]]:
    """Return a list of the gate; metadata of a trace may hold anything."""
    found = gate.get(name) if isinstance(gate, Mapping) else None
    return [one for one in found or () if isinstance(one, Mapping)]
