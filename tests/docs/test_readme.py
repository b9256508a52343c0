"""The documentation cannot drift: commands and programs in it run, links lead somewhere, the generated page is current."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from attnaudit.cli import main
from attnaudit.corpora.planted import planted_corpus
from attnaudit.plans.spec import demo_spec
from tests.pages import FEW, experiments, summaries_as_pages

ROOT = Path(__file__).parents[2]
MARKED = re.compile(r"<!-- run -->\n```(?P<language>sh|python)\n(?P<body>.*?)```", re.DOTALL)
LINK = re.compile(r"\]\((?!https?://)([^)#]+)\)")
OF_THE_SITE = {
    f"docs/{name}.md"
    for name in (
        "gallery",
        "changelog",
        "contributing",
        "tutorials/audit_a_dataframe",
        "tutorials/own_torch_model",
    )
}
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]


def reviews(path: Path) -> None:
    """A file such as a user of the second example has."""
    words = {"good": ("lovely", "superb", "moving"), "bad": ("dull", "awful", "tedious")}
    rows = [
        f'"this film, number {k} of many, is {words[label][k % 3]}",{label}'
        for k in range(60)
        for label in words
    ]
    path.write_text("text,label\n" + "\n".join(rows) + "\n", encoding="utf-8")


def marked(page: Path) -> list[dict[str, str]]:
    return [match.groupdict() for match in MARKED.finditer(page.read_text(encoding="utf-8"))]


@pytest.mark.slow
def test_what_the_tour_and_the_readme_show_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All marked blocks of the tour, one after another, in one folder, as a reader would try them; the last command by the shell, with its
    script. The README begins some of them. Planted corpora, that of the demo too, have 100 texts here, and the demo alone has charts and
    every experiment."""
    reviews(tmp_path / "reviews.csv")
    monkeypatch.chdir(tmp_path)
    demo = demo_spec()
    monkeypatch.setattr(
        "attnaudit.plans.spec.demo_spec",
        lambda: replace(demo, corpus=replace(demo.corpus, size=100)),
    )
    defaults: Any = getattr(planted_corpus, "__wrapped__", planted_corpus).__kwdefaults__
    monkeypatch.setitem(defaults, "size", 100)
    blocks = marked(ROOT / "docs" / "index.md")
    for block in marked(ROOT / "README.md"):
        assert any(
            shown["language"] == block["language"] and shown["body"].startswith(block["body"])
            for shown in blocks
        ), block["body"]
    assert [block["language"] for block in blocks] == ["sh"] * 6 + ["python"]
    *commands, last, program = (block["body"] for block in blocks)
    for number, command in enumerate(commands):
        name, *arguments = shlex.split(
            command
        )  # a block is one command: `main` refuses more arguments than it takes
        assert name == "attnaudit"
        with ExitStack() as quick:
            if number:
                quick.enter_context(summaries_as_pages())
                quick.enter_context(experiments(*FEW, "ranges"))
            assert main(arguments) == 0, f"{command}\n{capsys.readouterr().err}"
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    }
    done = subprocess.run(
        ["bash", "-euc", last], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{last}\n{done.stderr}"
    exec(program, {})
    runs = ("runs/demo/report.html", "runs/reviews/manifest.json", "runs/questions/report.html")
    made = (*runs, "runs/reviews-audit/summary.json", "site/index.html")
    assert all((tmp_path / name).stat().st_size > 0 for name in made)


@pytest.mark.slow
def test_the_writers_of_traces_write_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    smallest, of_torch = re.findall(
        r"```python\n(.*?)```", (ROOT / "docs" / "trace.md").read_text(encoding="utf-8"), re.DOTALL
    )
    monkeypatch.chdir(tmp_path)
    exec(smallest, {})
    assert main(["audit", "mine"]) == 0
    said = capsys.readouterr().out
    assert "ε-max JSD" in " ".join(said.split())
    assert "skipped: correlation: the trace has no column gradient, loo" in said
    assert {"erasure", "comprehensiveness"} <= {
        path.stem for path in (tmp_path / "mine-audit" / "results").iterdir()
    }
    assert len([line for line in of_torch.splitlines() if line.strip()]) <= 30
    exec(of_torch, {})
    assert main(["audit", "reviews"]) == 0
    assert "Three reviews: an untrained BiGRU" in capsys.readouterr().out
    assert (
        "<h1>Three reviews: an untrained BiGRU</h1>"
        in (tmp_path / "reviews-audit" / "report.html").read_text()
    )
    assert {"correlation", "prediction"} <= {
        path.stem for path in (tmp_path / "reviews-audit" / "results").iterdir()
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    found = [page.parent / link for link in LINK.findall(page.read_text(encoding="utf-8"))]
    missing = [
        str(path)
        for path in found
        if not (path.exists() or path.resolve().relative_to(ROOT).as_posix() in OF_THE_SITE)
    ]
    assert missing == []


def test_every_experiment_has_its_page_and_picture() -> None:
    from attnaudit.experiments import EXPERIMENTS

    for name in EXPERIMENTS:
        page = (ROOT / "docs" / "experiments" / f"{name}.md").read_text(encoding="utf-8")
        assert f"images/experiments/{name}.svg" in page
        assert (ROOT / "docs" / "images" / "experiments" / f"{name}.svg").exists()


@pytest.mark.parametrize(
    "script", ["cli_reference", "measures_reference", "settings_reference", "log_odds_table"]
)
def test_generated_pages_are_current(script: str) -> None:
    place = importlib.util.spec_from_file_location(script, ROOT / "docs" / f"{script}.py")
    assert place is not None
    assert place.loader is not None
    module = importlib.util.module_from_spec(place)
    place.loader.exec_module(module)
    assert module.PAGE.read_text(encoding="utf-8") == module.render(), "run `make docs`"
