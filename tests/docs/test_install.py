"""The table of extras in the docs is that of pyproject.toml."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
ROW = re.compile(r"^\| `pip install '?attnaudit\[(\w+)\]'?` \| (.+) \| (.+) \|$", re.MULTILINE)


def packages(extra):
    """What an extra installs by name, with the extras that it names."""
    found = set()
    for requirement in EXTRAS[extra]:
        name, others = re.match(r"([\w-]+)(?:\[([\w,-]+)\])?", requirement).groups()  # type: ignore[union-attr]
        found |= set().union(*map(packages, others.split(","))) if name == "attnaudit" else {name}
    return found


def named(text):
    """The packages of any extra that a text names."""
    every = set().union(*map(packages, EXTRAS))
    return {
        name
        for name in every
        if re.search(rf"(?<![\w-]){name.replace('-', '[- ]')}(?![\w-])", text, re.IGNORECASE)
    }


def test_every_extra_has_its_row_with_what_it_adds():
    rows = ROW.findall((ROOT / "docs/install.md").read_text())
    assert sorted(extra for extra, _, _ in rows) == sorted(EXTRAS)
    for extra, purpose, adds in rows:
        assert purpose.strip()
        assert named(adds), extra
        assert named(adds) <= packages(extra), extra
        assert "torch" not in packages(extra) or re.search("torch|`train`", adds), extra
