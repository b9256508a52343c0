"""The documentation builds without a warning, so that every link and anchor leads somewhere, and loads nothing from elsewhere."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOADS = re.compile(r'<(?:script|link|img|iframe|source)\b[^>]*?(?:src|href)=["\']?(https?:)?//')


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    out = tmp_path_factory.mktemp("site")
    environment = os.environ | {
        "NO_MKDOCS_2_WARNING": "1",
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
    }
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(out)]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return out


@pytest.mark.slow
def test_the_site_has_its_parts(site):
    parts = (
        "index",
        "gallery",
        "python",
        "cli",
        "changelog",
        "tutorials/audit_a_dataframe",
        "experiments/adversary",
        "runs",
    )
    assert [name for name in parts if not (site / f"{name}.html").exists()] == []
    assert (site / "tutorials/own_torch_model.ipynb").exists()
    assert not list(site.rglob("*.py"))
    assert (site / "research/mutants.jsonl").exists(), "pages link to it"
    assert list((site / "research/records").rglob("*.json"))
    reference = (site / "python.html").read_text()
    assert all(
        f"attnaudit.{name}" in reference
        for name in ("trace.Trace.heatmap", "experiments.audit", "torch.collect")
    )


@pytest.mark.slow
def test_the_site_loads_nothing_from_elsewhere(site):
    pages = [page for page in site.rglob("*.html") if page.parent.name != "gallery"]
    assert len(pages) > 30
    assert [page.name for page in pages if LOADS.search(page.read_text())] == []
    styles = "".join(path.read_text() for path in site.rglob("*.css"))
    assert not re.search(r"url\([\"']?(https?:)?//", styles)
    assert not any(
        'class="mermaid"' in page.read_text() for page in pages
    )  # whose library is on a CDN


@pytest.mark.parametrize(
    "code",
    ['<script src="https://unpkg.com/x.js">', "<link rel=stylesheet href=//fonts.example/x>"],
)
def test_a_page_that_loads_something_would_be_found(code):
    assert LOADS.search(code)
