"""Entries defined outside the package, registered in one call, from the command line to the page: the code of docs/extending.md."""

import json
import os
import re
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import polars as pl
import pytest

import attnaudit
from attnaudit.core import InputError, read_json
from attnaudit.corpora import CORPORA
from attnaudit.experiments import EXPERIMENTS, audit, by_group, facts, keys, register_experiment
from attnaudit.models.presets import ENCODERS, EncoderSpec
from attnaudit.report.card import verdict
from attnaudit.report.cards import _CARDS, Card, register_card
from attnaudit.report.charts.instances import draw_figures
from attnaudit.report.charts.specs import Drawing, FigureSpec
from attnaudit.results import Measure, read_record, summarise_means
from tests.cli.test_cli import answers, fails
from tests.forked import printed
from tests.traces import make_trace

PAGE = (Path(__file__).parents[2] / "docs/extending.md").read_text()
SETTINGS = [
    "corpus.size=60",
    "corpus.length=10,12",
    "model.embedding=8",
    "model.hidden=4",
    "training.epochs=1",
]
SET = [part for name in SETTINGS for part in ("--set", name)]
RUN = ["run", "planted-decisive", "--model", "gated", "--vectors", "random", *SET]
TINY_RUN = ["--vectors", "random", "--device", "cpu", *SET[4:]]


def examples(heading):
    """The programs below a heading of docs/extending.md."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return re.findall(r"```python\n(.*?)```", section, re.DOTALL)


def install(folder, heading, group, entry):
    """Make the first program of ``heading`` a package for ``sys.path``, with ``entry`` (``name = module:value``) as its entry point."""
    module = entry.split()[2].split(":")[0]
    (folder / f"{module}.py").write_text(examples(heading)[0])
    package = folder / f"{module}-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text(f"[{group}]\n{entry}\n")


@pytest.fixture(autouse=True)
def _as_before(monkeypatch):
    """What a test registers is known to no other."""
    for registry in (EXPERIMENTS, CORPORA, ENCODERS):
        monkeypatch.setattr(registry, "_entries", dict(registry.items()))
        monkeypatch.setattr(registry, "_complete", True)
    monkeypatch.setattr("attnaudit.report.cards._CARDS", dict(_CARDS))
    for name in ("concentration", "films", "my_encoders"):
        monkeypatch.delitem(sys.modules, name, raising=False)


def test_an_experiment_of_an_installed_package(tmp_path, monkeypatch, capsys):
    """The documented experiment, found by its entry point: the table, the card row, the figure, the label and the citation."""
    install(
        tmp_path,
        "An experiment",
        "attnaudit.experiments",
        "concentration = concentration:Concentration",
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(EXPERIMENTS, "_complete", False)
    trace, out = make_trace(30, (2, 12), seed=4), tmp_path / "audit"
    trace.write(tmp_path / "trace")
    given = ("audit", tmp_path / "trace", "--out", out, "--set", "concentration.most=0.4")
    asked = (*given, "--experiment", "concentration", "--experiment", "permutation")
    assert "concentration" in answers(capsys, *asked, "--details")
    table = pl.read_parquet(out / "results/concentration.parquet")
    assert table["peaked"].to_list() == (trace.alpha.max() >= 0.4).tolist()
    page = (out / "report.html").read_text()
    assert "of texts have one dominant token." in page
    assert 'id="figure-concentration"' in page
    assert "entropy of attention over ln T" in page
    assert "@article{shannon1948," in page
    assert {row["measure"] for row in read_json(out / "summary.json")} > {"entropy_share", "peaked"}
    said = fails(capsys, *given, "--experiment", "concentratoin")
    assert "did you mean concentration?" in said
    assert "How concentrated is attention?" in answers(capsys, "audit", "--help")


@dataclass(frozen=True)
class Smallest:
    """No more than the protocol asks for."""

    name: ClassVar[str] = "smallest"
    needs: ClassVar[tuple[str, ...]] = ("rationale",)

    def __call__(self, trace):
        return keys(trace).with_columns(pl.Series("length", trace.alpha.lengths))

    def summarise(self, table):
        return summarise_means(self.name, by_group(table, lambda rows: rows.select("length")), 0)


def test_an_experiment_that_states_nothing_else(tmp_path):
    register_experiment(Smallest)
    assert facts("smallest").papers == facts("smallest").measures == ()
    result = audit(make_trace(5), ["smallest", "permutation"])
    assert result["smallest"].table["length"].to_list() == make_trace(5).alpha.lengths.tolist()
    (row,) = verdict(result.summary).rows
    assert row.measure == "mean of the median Δŷ, from 90 % confidence"
    left_out = audit(make_trace(5, rationale=False)).left_out
    assert left_out["smallest"] == "the trace has no column rationale"
    result.save(tmp_path)
    assert "length" not in read_record(tmp_path).columns(()).columns


def test_a_chart_of_ones_own_is_drawn():
    shown = FigureSpec(
        "own",
        "Own",
        (
            Drawing(
                ("length",), lambda rows, palette: f"<svg>{rows['length'].sum()}</svg>", "Length"
            ),
        ),
        "Mine.",
    )
    register_experiment(
        type("Drawn", (Smallest,), {"name": "drawn", "measures": (Measure("length", "T"),)})
    )
    register_card("drawn", Card(figures=(shown,)))
    with pytest.raises(InputError, match="an experiment that has a card"):
        register_card("drawn", Card())
    rows = pl.DataFrame({"instance": [0, 1], "predicted": ["a", "b"], "length": [2, 3]})
    ((figure,), _) = draw_figures(rows)
    told = figure.name, figure.caption, figure.panels[0].svg
    assert told == ("own", "Mine.", "<svg>5</svg>")


def test_what_is_no_experiment_is_refused():
    with pytest.raises(InputError, match="no dataclass"):
        register_experiment(type("Plain", (), {"name": "plain", "needs": (), "summarise": None}))
    with pytest.raises(InputError, match="without needs, summarise"):
        register_experiment(dataclass(frozen=True)(type("Half", (), {"name": "half"})))
    with pytest.raises(InputError, match="a name that is taken"):
        register_experiment(dataclass(frozen=True)(type("Twin", (Smallest,), {"name": "erasure"})))


@pytest.mark.slow
def test_an_encoder_of_an_installed_package_is_known_to_every_command(
    tmp_path, monkeypatch, capsys
):
    """To the help of a process that begins, too."""
    install(tmp_path, "An encoder", "attnaudit.encoders", "gated = my_encoders:GATED")
    places = os.pathsep.join([str(tmp_path), *sys.path])
    program = "from attnaudit.cli import main; main(['run', '--help'])"
    assert "gated" in printed(program, PYTHONPATH=places)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(ENCODERS, "_complete", False)
    answers(capsys, *RUN, "--set", "model.attention_units=3", "--out", tmp_path / "run")
    assert "gated + additive" in (tmp_path / "run/report.html").read_text()
    assert "did you mean gated?" in fails(capsys, "run", "planted-decisive", "--model", "gatd")


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"name": "bilstm"}, "register encoder: bilstm: a name that is taken"),
        ({"hidden": 0}, "a width or number of heads below 1"),
        (
            {"hidden_of": {"flann": 3}},
            "hidden_of: 'flann'; expected one of paper, code2019, flan, han; did you mean flan?",
        ),
    ],
)
def test_an_encoder_that_cannot_be_registered_says_why(given, line):
    with pytest.raises(InputError, match=re.escape(line)):
        attnaudit.register_encoder(
            EncoderSpec(**{"name": "mine", "build": "my_encoders:Mine", "hidden": 4, **given})
        )


@pytest.fixture
def data(tmp_path):
    """A data directory with the corpus of the page."""
    lines = (
        f"{'pos' if row % 2 else 'neg'}\ta {'lovely' if row % 2 else 'dull'} film about {row} horses and a train"
        for row in range(60)
    )
    (tmp_path / "data/films").mkdir(parents=True)
    (tmp_path / "data/films/films.txt").write_text("\n".join(lines) + "\n")
    return tmp_path / "data"


@pytest.mark.slow
def test_a_registered_corpus_goes_all_the_way_to_the_page(data, tmp_path, capsys):
    exec("\n".join(examples("A corpus")), {"__name__": "films"})
    listed = json.loads(answers(capsys, "corpora", "list", "--data-dir", data, "--json"))
    (films,) = (row for row in listed if row["name"] == "films")
    assert (films["folder"], films["citation"]) == (str(data / "films"), "Doe 2024")
    check = json.loads(answers(capsys, "corpora", "check", "films", "--data-dir", data, "--json"))
    assert sum(row["rows"] for row in check["classes"]) == 60
    answers(capsys, "run", "films", "--data-dir", data, "--out", tmp_path / "run", *TINY_RUN)
    page = (tmp_path / "run/report.html").read_text()
    assert "on Silent films" in page
    assert "title = {Reviews of Silent Films}" in page


def test_an_entry_is_checked_and_its_name_is_taken_once():
    namespace = {}
    exec(examples("A corpus")[0].replace('"films"', '"sst"'), namespace)
    films = namespace["FILMS"]
    with pytest.raises(InputError, match="register corpus: sst: a name that is taken"):
        attnaudit.register_corpus(films)
    with pytest.raises(InputError, match="a str; expected a CorpusEntry"):
        CORPORA.check("films")  # as an entry point of another package may be
    with pytest.raises(InputError, match="expected layouts, or generate"):
        attnaudit.register_corpus(replace(films, name="films", layouts=()))
