"""The documentation cannot drift: commands and programs in it run, links lead somewhere, the generated page is current."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest

from attnaudit.cli import main
from attnaudit.corpora.planted import planted_corpus
from attnaudit.plans.spec import demo_spec
from tests.docs.test_links import anchors
from tests.pages import FEW, experiments, summaries_as_pages

ROOT = Path(__file__).parents[2]
MARKED = re.compile(r"<!-- run -->\n```(?P<language>sh|python)\n(?P<body>.*?)```", re.DOTALL)
LINK = re.compile(r"\]\((?!https?://)([^)#\s]*)(?:#([^)\s]+))?\)")
ACTIVATE = ". .venv/bin/activate"
TOUR = ("README", "docs/index", "docs/studies", "docs/runs")  # pages with marked blocks, in order


def reviews(path):
    """A file such as a user has."""
    words = {"good": ("lovely", "superb", "moving"), "bad": ("dull", "awful", "tedious")}
    rows = [
        f'"this film, number {k} of many, is {words[label][k % 3]}",{label}'
        for k in range(60)
        for label in words
    ]
    path.write_text("text,label\n" + "\n".join(rows) + "\n")


def marked(page):
    return [match.groupdict() for match in MARKED.finditer(page.read_text())]


@pytest.mark.slow
def test_what_pages_show_works(tmp_path, monkeypatch, capsys):
    """Run all marked blocks, page after page, in one folder, as a reader would try them.

    The last command is run by the shell, with its script. Planted corpora have 100 texts here, and
    only the demo has charts and every experiment.
    """
    reviews(tmp_path / "reviews.csv")
    sample = Path("docs", "tutorials", "reviews.csv")
    (tmp_path / sample.parent).mkdir(parents=True)
    shutil.copy(ROOT / sample, tmp_path / sample)
    monkeypatch.chdir(tmp_path)
    demo = demo_spec()
    monkeypatch.setattr(
        "attnaudit.plans.spec.demo_spec",
        lambda: replace(demo, corpus=replace(demo.corpus, size=100)),
    )
    defaults = getattr(planted_corpus, "__wrapped__", planted_corpus).__kwdefaults__
    monkeypatch.setitem(defaults, "size", 100)
    blocks = [block for name in TOUR for block in marked(ROOT / f"{name}.md")]
    commands = [
        line
        for block in blocks
        if block["language"] == "sh"
        for line in block["body"].replace("\\\n", " ").splitlines()
        if line != ACTIVATE
    ]
    programs = [block["body"] for block in blocks if block["language"] == "python"]
    assert len(commands) == 6
    for command in commands[:-1]:
        name, *arguments = shlex.split(command, comments=True)
        assert name == "attnaudit"
        with ExitStack() as quick:
            if arguments != ["demo"]:
                quick.enter_context(summaries_as_pages())
                quick.enter_context(experiments(*FEW, "ranges"))
            assert main(arguments) == 0, f"{command}\n{capsys.readouterr().err}"
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    }
    done = subprocess.run(
        ["bash", "-euc", commands[-1]], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    for program in programs:
        exec(program, {})
    made = (
        "runs/demo/report.html",
        "runs/reviews/manifest.json",
        "runs/reviews-audit/summary.json",
        "runs/reviews-studies/index.html",
        "site/index.html",
    )
    assert [name for name in made if not (tmp_path / name).exists()] == []


def test_the_readme_is_short_and_activates_the_environment_that_make_installs():
    readme = (ROOT / "README.md").read_text()
    assert len(readme.splitlines()) <= 50
    assert "VENV := .venv\n" in (ROOT / "Makefile").read_text()
    (block,) = marked(ROOT / "README.md")
    assert block["body"].startswith(f"{ACTIVATE}\n"), "make demo does not activate it"


@pytest.mark.slow
def test_the_smallest_writer_of_traces_writes_one(tmp_path, monkeypatch):
    page = (ROOT / "docs/trace.md").read_text()
    (program,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(program, {})
    assert main(["audit", "mine"]) == 0
    made = {path.stem for path in (tmp_path / "mine-audit/results").iterdir()}
    assert {"adversary", "erasure", "comprehensiveness"} <= made
    assert made.isdisjoint({"correlation", "prediction", "replacement"})


TASKS = (ROOT / "docs/tasks.md").read_text()
PATHS = re.findall(r"^\| (.+?) \| README → (.+?) \|", TASKS, re.MULTILINE)


def linked(page):
    """Return the files that a page links to."""
    found = LINK.findall(page.read_text())
    return {(page.parent / path).resolve() for path, _ in found}


def test_there_are_ten_tasks():
    assert len(PATHS) == 10


@pytest.mark.parametrize(("task", "path"), PATHS, ids=[task for task, _ in PATHS])
def test_a_task_is_at_most_three_clicks_from_the_readme(task, path):
    """Follow its path: each page is linked from the one before, each anchor is on its page."""
    page, clicks = ROOT / "README.md", LINK.findall(path)
    assert 1 <= len(clicks) <= 3
    for name, anchor in clicks:
        target = ROOT / "docs" / name
        assert target == page or target in linked(page), (task, name)
        assert not anchor or anchor in anchors(target), (task, anchor)
        page = target


@pytest.mark.parametrize("script", ["cli_reference", "measures_reference", "settings_reference"])
def test_generated_pages_are_current(script):
    module = import_module(f"docs.{script}")
    assert module.PAGE.read_text() == module.render(), "run `make docs`"
