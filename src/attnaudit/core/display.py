"""Notebook display of values, by a renderer that the top of the package registers.

A trace can show a heatmap this way although its layer does not import pages, and pages are only
imported when one is shown.
"""

import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

# The name of a module, not the module itself, so that pages are imported on first use.
_renderer: list[str] = []


@dataclass(frozen=True, repr=False)
class Shown:
    """A picture: ``html`` for a notebook, ``text`` for a terminal, ``svg`` for a file."""

    html: str
    text: str
    svg: str = ""

    def _repr_html_(self) -> str:
        return self.html

    def __repr__(self) -> str:
        return self.text

    def save(self, path: str | Path) -> Path:
        """Write the picture into a file and return its path.

        Args:
            path: Its ending is ``.svg`` or ``.png``, which a playground cannot be, or ``.html``.

        Raises:
            InputError: If the ending is another one.
            RunError: If the file cannot be written.
        """
        return render("save_shown", self, path)


def render_by(module: str) -> None:
    """Render values with the functions of ``module``, which is imported on first use."""
    _renderer[:] = [module]


def render(name: str, *arguments: Any) -> Any:
    """Call the renderer's function ``name``."""
    return getattr(import_module(_renderer[0]), name)(*arguments)


def in_notebook() -> bool:
    """Return True in a kernel that shows HTML, such as Jupyter, VS Code or Colab."""
    # A notebook has imported IPython already; importing it here would slow down every script.
    interactive = sys.modules.get("IPython")
    shell = interactive.get_ipython() if interactive is not None else None
    return shell is not None and hasattr(shell, "kernel")


def show(value: object) -> None:
    """Show a value below the running cell of a notebook."""
    import_module("IPython.display").display(value)
