"""Entries defined outside the package, registered in one call, from the command line to the page: the code of docs/extending.md."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import polars as pl
import pytest

from attnaudit.cli import main
from attnaudit.core.errors import InputError
from attnaudit.core.files import read_json
from attnaudit.experiments import EXPERIMENTS, audit, by_group, facts, keys, measure_label, register_experiment
from attnaudit.report import verdict
from attnaudit.report.charts.instances import draw_figures
from attnaudit.report.sections.provenance import citations
from attnaudit.results import summarise_means
from attnaudit.results.charts import Drawing, FigureSpec
from attnaudit.results.measures import Measure
from attnaudit.results.record import read_record
from attnaudit.trace import Trace
from tests.traces import make_trace

PAGE = (Path(__file__).parents[1] / "docs" / "extending.md").read_text(encoding="utf-8")


def example(heading: str) -> str:
    """The first program below a heading of docs/extending.md."""
    found = re.search(r"```python\n(.*?)```", PAGE.partition(f"\n## {heading}\n")[2], re.DOTALL)
    assert found is not None
    return found.group(1)


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is known to no other."""
    monkeypatch.setattr(EXPERIMENTS, "_entries", dict(EXPERIMENTS.items()))
    monkeypatch.delitem(sys.modules, "concentration", raising=False)


def test_an_experiment_of_an_installed_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The documented experiment, found by its entry point: the table, the card row, the figure, the label and the citation."""
    (tmp_path / "concentration.py").write_text(example("An experiment"), encoding="utf-8")
    package = tmp_path / "concentration-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: concentration\nVersion: 1.0\n", encoding="utf-8")
    (package / "entry_points.txt").write_text("[attnaudit.experiments]\nconcentration = concentration:Concentration\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(EXPERIMENTS, "_complete", False)
    trace, out = make_trace(30, (2, 12), seed=4), tmp_path / "audit"
    trace.write(tmp_path / "trace")
    given = ["audit", str(tmp_path / "trace"), "--out", str(out), "--set", "concentration.most=0.4"]
    assert main([*given, "--experiment", "concentration", "--experiment", "permutation"]) == 0
    assert "entropy_share" in capsys.readouterr().out
    table = pl.read_parquet(out / "results" / "concentration.parquet")
    assert table["peaked"].to_list() == (trace.alpha.max() >= 0.4).tolist()
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "of instances have one dominant token." in page
    assert 'id="figure-concentration"' in page
    assert "entropy of attention over ln T" in page
    assert "@article{shannon1948," in page
    assert {row["measure"] for row in read_json(out / "summary.json")} > {"entropy_share", "peaked"}
    assert main([*given, "--experiment", "concentratoin"]) == 2
    assert "did you mean concentration?" in capsys.readouterr().err
    assert main(["audit", "--help"]) == 0
    assert "How concentrated is attention?" in capsys.readouterr().out


def test_an_experiment_registered_by_the_call_of_its_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = list(EXPERIMENTS)
    (tmp_path / "concentration.py").write_text(example("An experiment"), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    import_module("concentration")
    assert list(EXPERIMENTS) == [*before, "concentration"]
    result = audit(make_trace(10), ["concentration"])
    (row,) = verdict(result.summary).rows
    assert row.question == "How concentrated is attention?"
    assert measure_label("peaked", "concentration") == "share with one dominant token"
    assert any("shannon1948" in entry for entry in citations(["concentration"], ""))


@dataclass(frozen=True)
class Smallest:
    """No more than the protocol asks for."""

    name: ClassVar[str] = "smallest"
    needs: ClassVar[tuple[str, ...]] = ("rationale",)

    def __call__(self, trace: Trace) -> pl.DataFrame:
        return keys(trace).with_columns(pl.Series("length", trace.alpha.lengths))

    def summarise(self, table: Any) -> pl.DataFrame:
        return summarise_means(self.name, by_group(table, lambda rows: rows.select("length")), 0)


def test_an_experiment_that_states_nothing_else(tmp_path: Path) -> None:
    register_experiment(Smallest)
    assert facts("smallest").papers == facts("smallest").figures == ()
    result = audit(make_trace(5), ["smallest", "permutation"])
    assert result["smallest"].table["length"].to_list() == make_trace(5).alpha.lengths.tolist()
    assert [row.measure for row in verdict(result.summary).rows] == ["mean of the median Δŷ"]
    assert audit(make_trace(5, rationale=False)).left_out["smallest"] == "the trace has no column rationale"
    result.save(tmp_path)
    assert "length" not in read_record(tmp_path).columns(()).columns


def test_a_chart_of_ones_own_is_drawn() -> None:
    shown = FigureSpec("own", "Own", (Drawing(("length",), lambda rows: f"<svg>{rows['length'].sum()}</svg>", "Length"),), "Mine.")
    register_experiment(type("Drawn", (Smallest,), {"name": "drawn", "figures": (shown,), "measures": (Measure("length", "T"),)}))
    figures, _ = draw_figures(pl.DataFrame({"instance": [0, 1], "predicted": ["a", "b"], "length": [2, 3]}))
    assert [(figure.name, figure.caption, figure.panels[0].svg) for figure in figures] == [("own", "Mine.", "<svg>5</svg>")]


def test_what_is_no_experiment_is_refused() -> None:
    with pytest.raises(InputError, match="no dataclass"):
        register_experiment(type("Plain", (), {"name": "plain", "needs": (), "summarise": None}))
    with pytest.raises(InputError, match="without needs, summarise"):
        register_experiment(dataclass(frozen=True)(type("Half", (), {"name": "half"})))
    with pytest.raises(InputError, match="a name that is taken"):
        register_experiment(dataclass(frozen=True)(type("Twin", (Smallest,), {"name": "erasure"})))


def test_two_tables_with_a_column_of_one_name_are_refused(tmp_path: Path) -> None:
    """A page would show the numbers of one experiment as those of another."""
    audit(make_trace(5), ["permutation"]).save(tmp_path)
    table = pl.read_parquet(tmp_path / "results" / "permutation.parquet")
    table.select("instance", "max_alpha").write_parquet(tmp_path / "results" / "twin.parquet")
    with pytest.raises(InputError, match=r"twin\.parquet: column max_alpha, which the table of another experiment has too"):
        read_record(tmp_path).columns(("max_alpha",))
