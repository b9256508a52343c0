"""Values that show themselves in a notebook, by a renderer that the top of the package names.

So a trace has a heatmap although its layer does not know pages, and no page is imported before one
is shown.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib import import_module
from typing import Any

_renderer: list[str] = []


@dataclass(frozen=True, repr=False)
class Shown:
    """A picture: ``html`` for a notebook, ``text`` for a terminal."""

    html: str
    text: str

    def _repr_html_(self) -> str:
        return self.html

    def __repr__(self) -> str:
        return self.text


def render_by(module: str) -> None:
    """Render values by the functions of ``module``; it is imported for the first of them."""
    _renderer[:] = [module]


def render(name: str, *arguments: Any) -> Any:
    """Call the renderer's function ``name``."""
    return getattr(import_module(_renderer[0]), name)(*arguments)


def in_notebook() -> bool:
    """Tell whether the program runs in a kernel that shows HTML: Jupyter, VS Code, Colab."""
    interactive = sys.modules.get("IPython")
    shell = interactive.get_ipython() if interactive is not None else None
    return shell is not None and hasattr(shell, "kernel")


def show(value: object) -> None:
    """Show a value below the cell of a notebook that is running."""
    import_module("IPython.display").display(value)
