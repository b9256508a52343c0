"""Every command and option that a message or a page names is there."""

import ast
import re
from pathlib import Path

import pytest
from typer.main import get_command

from attnaudit.cli.app import app

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src/attnaudit"
PAGES = [
    ROOT / "README.md",
    # The log tells what commands were called when it was written.
    *(page for page in (ROOT / "docs").rglob("*.md") if page.name != "log.md"),
]
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
# Commands are named in code only: `attnaudit run`, or a line that starts with it.
COMMAND = re.compile(r"(?:`|^    |^\$ )attnaudit ([a-z]+)(?: ([a-z]+))?", re.MULTILINE)
OF_OTHERS = {"--help", "--head", "--port"}  # of click; of Ray


def commands():
    """Return the names of all commands, those of groups in full, and all options."""
    names, options = set(), set(OF_OTHERS)

    def walk(command, path):
        names.add(path)
        for parameter in command.params:
            options.update([*parameter.opts, *parameter.secondary_opts])
        for name, part in getattr(command, "commands", {}).items():
            walk(part, f"{path} {name}".strip())

    walk(get_command(app), "")
    return names, options


NAMES, OPTIONS = commands()


def strings(path):
    """Yield the strings of a module."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: path.stem)
def test_options_that_messages_name_are_there(path):
    if path.name in ("records.py", "svg.py"):  # options of git; variables of CSS
        return
    named = {option for text in strings(path) for option in OPTION.findall(text)}
    assert named <= OPTIONS


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_commands_and_options_that_pages_name_are_there(path):
    text = path.read_text()
    for first, second in COMMAND.findall(text):
        assert first in NAMES
        assert first != "corpora" or not second or f"corpora {second}" in NAMES
    lines = [line for line in text.splitlines() if re.match(r" {4}attnaudit |\$ attnaudit ", line)]
    assert {option for line in lines for option in OPTION.findall(line)} <= OPTIONS


def test_pages_in_a_browser_name_commands_that_are_there():
    for path in [*SOURCE.rglob("*.js"), *SOURCE.rglob("*.j2")]:
        named = re.findall(r"attnaudit ([a-z]+)", path.read_text())
        assert set(named) <= {name.split(" ")[0] for name in NAMES}, path.name
