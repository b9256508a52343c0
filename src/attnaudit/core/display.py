"""How values show themselves in a notebook: they name what is to be drawn, and the top of the package names the module that draws it.

So a trace has a heatmap though its layer knows nothing of pages, and nothing of pages is imported before one is shown.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib import import_module
from typing import Any

_drawn_by: list[str] = []


@dataclass(frozen=True, repr=False)
class Shown:
    """What a notebook shows as ``html`` and a terminal as ``text``."""

    html: str
    text: str

    def _repr_html_(self) -> str:
        return self.html

    def __repr__(self) -> str:
        return self.text


def draw_by(module: str) -> None:
    """Let the functions of ``module`` draw values; it is imported when the first is drawn."""
    _drawn_by[:] = [module]


def drawn(what: str, *arguments: Any) -> Any:
    """What the function ``what`` of the module that draws gives for these arguments."""
    return getattr(import_module(_drawn_by[0]), what)(*arguments)


def in_notebook() -> bool:
    """Whether the program runs in a kernel that shows HTML: Jupyter, VS Code, Colab."""
    interactive = sys.modules.get("IPython")
    shell = interactive.get_ipython() if interactive is not None else None
    return shell is not None and hasattr(shell, "kernel")


def show(value: object) -> None:
    """Show a value below the cell of a notebook that is running."""
    import_module("IPython.display").display(value)
