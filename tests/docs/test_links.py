"""Every relative link of the checkout leads to a file, and every anchor to a heading."""

import json
import re
from functools import cache
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).parents[2]
PLACES = (ROOT.glob("*.md"), (ROOT / "docs").rglob("*.md"), (ROOT / "docs").rglob("*.ipynb"))
SOURCES = {".py", ".js", ".j2", ".toml", ".css"}
LINK = re.compile(r"\]\((?!\w+:|//)([^)\s]+)\)")


def text_of(path):
    """Return what a reader sees as Markdown, without blocks of code."""
    text = path.read_text()
    if path.suffix == ".ipynb":
        cells = (cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "markdown")
        text = "\n\n".join("".join(cell["source"]) for cell in cells)
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


@cache
def anchors(path):
    """Return the anchors that GitHub and the site give to the headings of a page."""
    titles = re.findall(r"^#+ (.*?)\s*$", text_of(path), flags=re.MULTILINE)
    plain = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title).lower() for title in titles]
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in plain}


def broken(path):
    """Return the links of a page that lead nowhere."""
    found = []
    for link in LINK.findall(text_of(path)):
        name, _, anchor = unquote(link).partition("#")
        target = (path.parent / name).resolve() if name else path
        missing = not target.exists()
        if missing or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            found.append(f"{path.name}: {link}")
    return found


def test_every_link_leads_somewhere():
    pages = [page for place in PLACES for page in place]
    assert len(pages) > 30
    assert [link for page in pages for link in broken(page)] == []


def test_a_link_that_leads_nowhere_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# A `b`, c\n\n[x](page.md#a-b-c) [y](page.md#d) [z](no.md)\n", "utf-8")
    assert [link.rpartition(" ")[2] for link in broken(page)] == ["page.md#d", "no.md"]


def test_pages_that_messages_and_docstrings_name_are_there():
    files = (path for path in (ROOT / "src").rglob("*") if path.suffix in SOURCES)
    named = {
        (path.name, page)
        for path in files
        for page in re.findall(r"\bdocs/[\w/]+\.md\b", path.read_text())
    }
    assert len(named) > 5
    assert [one for one in sorted(named) if not (ROOT / one[1]).exists()] == []
