"""Count the words of the documentation: ``python docs/words.py`` prints them and exits 1 over a limit.

Counted are the pages, the notebooks, README, CONTRIBUTING, the changelog, and the docstrings and
comments of the scripts of docs/; the generated lists of commands, settings and measures are not.
"""

from __future__ import annotations

import ast
import io
import json
import sys
import tokenize
from pathlib import Path

ROOT = Path(__file__).parents[1]
GENERATED = {"cli.md", "settings.md", "measures.md"}
LIMITS = {"for readers": 30_000, "research": 40_000}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef)


def prose(path: Path) -> str:
    """Return what a page, a notebook or a script says to readers."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        return "\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"])
    if path.suffix == ".md":
        return text
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    comments = [token.string[1:] for token in tokens if token.type == tokenize.COMMENT]
    nodes = (node for node in ast.walk(ast.parse(text)) if isinstance(node, DOCUMENTED))
    return "\n".join([*comments, *(ast.get_docstring(node) or "" for node in nodes)])


def counts(root: Path = ROOT) -> dict[str, dict[str, int]]:
    """Return the number of words of each file, by the part that it belongs to."""
    found: dict[str, dict[str, int]] = {part: {} for part in LIMITS}
    docs = (path for path in (root / "docs").rglob("*") if path.suffix in (".md", ".ipynb", ".py"))
    for path in sorted([*root.glob("*.md"), *docs]):
        if path.parent != root / "docs" or path.name not in GENERATED:
            part = "research" if root / "docs" / "research" in path.parents else "for readers"
            found[part][str(path.relative_to(root))] = len(prose(path).split())
    return found


def main() -> int:
    """Print the number of words of each file and part; return 1 if a part is over its limit."""
    over = 0
    for part, words in counts().items():
        total, limit = sum(words.values()), LIMITS[part]
        over |= total > limit
        for name, number in sorted(words.items(), key=lambda item: -item[1]):
            print(f"{number:7,}  {name}")
        print(f"{total:7,}  {part}, at most {limit:,}\n")
    return over


if __name__ == "__main__":
    sys.exit(main())
