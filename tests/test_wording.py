"""User-facing text uses the field's terms: none of those that the table of docs/glossary.md says to avoid."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "attnaudit"
GLOSSARY = ROOT / "docs" / "glossary.md"
HEADING = "## Terms to use, and to avoid"
CODE = re.compile(r"`([^`]+)`")
HISTORY = {ROOT / "docs" / "log.md"}
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted({*(ROOT / "docs").rglob("*.md")} - HISTORY),
]  # cli.md is the help


def avoided() -> dict[str, re.Pattern[str]]:
    """Each avoided term of the glossary with the expression that finds it."""
    rows = [
        re.split(r"(?<!\\)\|", line)
        for line in GLOSSARY.read_text(encoding="utf-8").partition(HEADING)[2].splitlines()
        if line[:1] == "|"
    ]
    terms = [term.replace("\\|", "|") for row in rows[2:] for term in CODE.findall(row[2])]
    return {term: expression(term) for term in terms}


def expression(term: str) -> re.Pattern[str]:
    """Whole words, in any case; a space matches any white space; ``/…/`` holds a regular expression."""
    text = (
        term[1:-1]
        if term[0] == term[-1] == "/"
        else re.escape(term).replace("\\ ", " ").replace("\\-", "-")
    )
    return re.compile(rf"\b{text}(?!\w)".replace(" ", r"\s+"), re.IGNORECASE)


TERMS = avoided()


def violations(text: str) -> list[str]:
    """``term: …where it appears…`` for every avoided term of a text."""
    found = [(term, match) for term, pattern in TERMS.items() for match in pattern.finditer(text)]
    return [
        f"{term}: …{' '.join(text[max(match.start() - 40, 0) : match.end() + 40].split())}…"
        for term, match in found
    ]


def texts_of(code: str) -> Iterator[tuple[int, str]]:
    """Line and text of the string constants with a space in them and of the docstrings of public objects."""
    tree = ast.parse(code)
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    skipped = set()
    for node in ast.walk(tree):
        if (
            isinstance(node, documented)
            and ast.get_docstring(node)
            and getattr(node, "name", "").startswith("_")
        ):
            skipped.add(id(node.body[0].value))  # type: ignore[attr-defined]
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and " " in node.value
            and id(node) not in skipped
        ):
            yield node.lineno, node.value


def test_the_table_is_read() -> None:
    assert {"even attention", "left out", "beside"} <= set(TERMS)
    assert len(TERMS) > 30


@pytest.mark.parametrize(
    ("planted", "term"),
    [
        ("Trained with even\n  attention, F1 falls.", "even attention"),
        ("Rows left out of the mean.", "left out"),
        ("Beside it, τ is 0.3.", "beside"),
        ("These models are trained again.", "trained again"),
        ("There is nothing to hold that against.", "/h[eo]ld (?:\\w+ )?against/"),
    ],
)
def test_an_avoided_term_is_found(planted: str, term: str) -> None:
    assert [found.partition(": …")[0] for found in violations(planted)] == [term]


@pytest.mark.parametrize(
    "innocent",
    [
        "leave-one-out",
        "even if attention is uniform",
        "placeholder",
        "besides",
        "a hand-written network",
    ],
)
def test_other_words_are_not(innocent: str) -> None:
    assert violations(f"What {innocent} says.") == []


def test_strings_and_docstrings_are_read() -> None:
    code = (
        '"""Of a module."""\n\n'
        'def shown(x):\n    """Of a public function."""\n    return f"left out: {x}" + "key"\n\n'
        'def _own():\n    """Private text."""\n'
    )
    assert [text for _, text in texts_of(code)] == [
        "Of a module.",
        "Of a public function.",
        "left out: ",
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_pages(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert violations(text.partition(HEADING)[0] if page == GLOSSARY else text) == []


def test_sources() -> None:
    """Messages, labels, help and public docstrings."""
    texts = (
        (path, *text)
        for path in sorted(SOURCE.rglob("*.py"))
        for text in texts_of(path.read_text(encoding="utf-8"))
    )
    assert [
        f"{path.relative_to(SOURCE)}:{line}: {found}"
        for path, line, text in texts
        for found in violations(text)
    ] == []


def test_templates() -> None:
    files = sorted(path for path in SOURCE.rglob("*") if path.suffix in (".html", ".j2", ".js"))
    assert [
        f"{path.relative_to(SOURCE)}: {found}"
        for path in files
        for found in violations(path.read_text(encoding="utf-8"))
    ] == []
