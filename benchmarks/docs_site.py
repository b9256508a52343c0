"""What `make docs` adds to the pages of docs/: hooks that MkDocs calls (mkdocs.yml).

The tutorials as pages, the changelog and CONTRIBUTING.md with their links turned round, and the gallery: every finished run of runs/gallery
with the line on top of its card (`benchmarks/docs_gallery.py`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from attnaudit.report.card import verdict
from attnaudit.results.record import read_record
from benchmarks.docs_gallery import FOLDER, GALLERY

ROOT = Path(__file__).parents[1]
_LINK = re.compile(r"(\]\()(?!https?://|#|mailto:)([^)]+)\)")
_OF_ROOT = re.compile(r"(\]\((?:\.\./)*)\.\./(README|CHANGELOG|CONTRIBUTING)\.md\b")
_NOTEBOOK = re.compile(r"(\]\([\w./-]*tutorials/\w+)\.ipynb\b")


def on_files(files: Files, config: Any) -> Files:
    """Add the generated pages and the files that they link to."""
    for path in sorted((ROOT / "docs" / "tutorials").glob("*.ipynb")):
        files.append(
            File.generated(config, f"tutorials/{path.stem}.md", content=notebook_page(path))
        )
    for name in ("CHANGELOG.md", "CONTRIBUTING.md"):
        text = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, name.lower(), content=from_docs(text)))
    runs = [name for name in GALLERY if (ROOT / FOLDER / name / "manifest.json").exists()]
    files.append(File.generated(config, "gallery.md", content="\n".join(gallery_page(runs))))
    for name in runs:
        files.append(
            File.generated(
                config,
                f"gallery/{name}.html",
                abs_src_path=str(ROOT / FOLDER / name / "report.html"),
            )
        )
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Lead links of the checkout to the pages of the site."""
    names = {"README": "index"}
    here = _OF_ROOT.sub(lambda link: f"{link[1]}{names.get(link[2], link[2].lower())}.md", markdown)
    return _NOTEBOOK.sub(r"\1.md", here)


def notebook_page(path: Path) -> str:
    """A notebook as Markdown, without outputs."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    parts = [_cell(cell["cell_type"], "".join(cell["source"])) for cell in cells]
    return "\n\n".join([*parts[:1], f"[This notebook]({path.name}) runs in the tests.", *parts[1:]])


def _cell(kind: str, source: str) -> str:
    return f"```python\n{source}\n```" if kind == "code" else source


def from_docs(text: str) -> str:
    """A page of the root as one of docs/."""
    return _LINK.sub(lambda link: f"{link[1]}{link[2].removeprefix('docs/')})", text)


def gallery_page(runs: list[str]) -> Iterator[str]:
    """The page of all reports that are there."""
    yield "# Gallery\n\nReports of real runs, each one page that opens without a network. `python -m benchmarks.docs_gallery` makes them.\n"
    if not runs:
        yield "No run is finished here."
    for name in runs:
        record = read_record(ROOT / FOLDER / name)
        card = verdict(record.summary, record.about)
        yield f"## {card.title}\n\n{GALLERY[name].look_at}\n\n> {_first_line(card.lead)}\n\n[Open the report](gallery/{name}.html)\n"


def _first_line(lead: str) -> str:
    return (lead.splitlines() or [""])[0]
