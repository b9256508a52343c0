"""Write docs/cli.md from the help of every command: ``python docs/cli_reference.py``."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command

from attnaudit.cli.app import app

PAGE = Path(__file__).with_name("cli.md")
HEAD = """# The command line

Generated from `--help` by `python docs/cli_reference.py`; a test checks that it is current.

Exit status: 0 if everything requested was done; 2 for a usage or input error, reported in one line on stderr that names the operation, the
location, the value found, the value expected and what to do; 130 if interrupted by Ctrl-C.
"""


def render() -> str:
    """Return the page as Markdown."""
    commands = [(), *commands_of(get_command(app))]
    parts = [
        f"## {' '.join(('attnaudit', *names))}\n\n```text\n{help_of(names)}```\n"
        for names in commands
    ]
    return "\n".join([HEAD, *parts])


def commands_of(command: Any, names: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the names that lead to each command below this one, in order."""
    for name, below in getattr(command, "commands", {}).items():
        yield (*names, name)
        yield from commands_of(below, (*names, name))


def help_of(names: tuple[str, ...]) -> str:
    """Return the output of ``attnaudit NAME… --help`` at 110 columns."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        get_command(app).main(
            args=[*names, "--help"],
            prog_name="attnaudit",
            standalone_mode=False,
            terminal_width=110,
            color=False,
        )
    return "\n".join(line.rstrip() for line in said.getvalue().splitlines()) + "\n"


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
