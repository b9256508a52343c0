"""The sweep: what it leaves, that it goes on where it was stopped, and what the command says."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from attnaudit.calibration import CONSTRUCTIONS, construction
from attnaudit.cli import main
from attnaudit.core.errors import InputError, RunError
from attnaudit.corpora.prepare import planting
from attnaudit.recipes import calibration
from attnaudit.recipes.calibration import Calibration, calibrate
from attnaudit.trace import Trace
from docs import calibration_tables
from tests.cli.test_cli import answers, fails

# One with a teacher, one that is a transformation of the same teacher.
TWO = ("taught", "permuted")


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Few texts, and little training: nothing here asks what is learned."""
    monkeypatch.setattr(planting, "ROWS", {"train": 40, "dev": 10, "test": 12})
    monkeypatch.setitem(construction.SMALL, "training.epochs", 2)
    monkeypatch.setitem(
        calibration.SOURCES, "planted-prior", {"corpus.size": 120, "corpus.length": (12, 14)}
    )


def sweep(out, constructions=TWO, seeds=1):
    corpora = ("planted-prior",)
    return Calibration(out, corpora, seeds=seeds, encoders=1, constructions=constructions)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A finished sweep."""
    with pytest.MonkeyPatch.context() as patch:
        small.__wrapped__(patch)  # type: ignore[attr-defined]
        out = tmp_path_factory.mktemp("calibration") / "out"
        calibrate(sweep(out))
    return out


def test_every_cell_is_checked_audited_and_scored(done):
    place = done / "calibration"
    values, checks = (pl.read_parquet(place / f"{name}.parquet") for name in ("values", "checks"))
    assert checks["cell"].to_list() == [cell.name for cell in sweep(done).cells]
    assert set(values["construction"]) == set(TWO)
    assert {"permutation", "erasure", "ranges", "correlation"} <= set(values["experiment"])
    assert "plausibility" not in set(
        values["experiment"]
    )  # the words that decide are not in the trace that is audited
    assert "attention of another text of the same length" in (place / "report.html").read_text()
    assert not Trace.read(next((done / "audits").iterdir()) / "trace").has("rationale")


def test_one_teacher_is_trained_for_all_that_need_it(done):
    assert sorted(path.name.rpartition("-")[0] for path in (done / "trainings").iterdir()) == [
        "guided_mixing-planted-prior-bilstm-s0", "taught-planted-prior-bilstm-s0",
    ]  # fmt: skip


def times(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def test_the_same_call_does_nothing_again_and_other_options_are_refused(done):
    before, again = times(done), []
    calibrate(sweep(done), say=again.append)
    assert (times(done), again) == (before, [])
    with pytest.raises(RunError, match="trainings and audits stay"):
        calibrate(sweep(done, seeds=2))


@pytest.mark.slow
def test_a_sweep_that_was_stopped_ends_like_one_that_was_not(done, tmp_path):
    class StoppedError(Exception):
        pass

    def stop(line):
        if line.startswith("taught"):
            raise StoppedError

    with pytest.raises(StoppedError):
        calibrate(sweep(tmp_path / "out"), say=stop)
    assert not (tmp_path / "out/calibration").exists()
    calibrate(sweep(tmp_path / "out"))
    for name in ("values", "checks", "scores", "verdicts"):
        one, other = (
            pl.read_parquet(out / "calibration" / f"{name}.parquet")
            for out in (done, tmp_path / "out")
        )
        assert one.equals(other), name
    assert [path.name for path in sorted((tmp_path / "out").iterdir())] == [
        "audits",
        "calibration",
        "trainings",
    ]


def test_the_command_shows_scores_and_a_dry_run_writes_nothing(done, tmp_path, capsys, monkeypatch):
    given = ["study", "calibration", "planted-prior", "--set=calibration.seeds=1"]
    given += ["--set=calibration.encoders=1", f"--set=calibration.constructions={','.join(TWO)}"]
    found = json.loads(answers(capsys, *given, "--out", done, "--json"))
    assert set(found) == {"verdicts", "scores"}
    monkeypatch.chdir(tmp_path)
    assert "0 of 2 missing" in answers(capsys, *given, "--out", done, "--dry-run")
    assert "guided_single" in fails(capsys, *given, "--set=calibration.constructions=guided")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_transformers_have_a_group_of_their_own(tmp_path, capsys):
    given = ["study", "calibration", "planted-prior", "--model", "tiny-bert", "--out"]
    given += [str(tmp_path), "--set=calibration.constructions="]
    assert "guided_single" in fails(capsys, *given[:-1], f"{given[-1]}on_one,guided_single")
    assert main([*given[:-1], f"{given[-1]}on_one,off_one,deceived"]) == 0
    place = tmp_path / "calibration"
    checks, verdicts = (pl.read_parquet(place / f"{one}.parquet") for one in ("checks", "verdicts"))
    assert set(verdicts["half"]) == {"transformer"}
    assert set(checks["encoder"]) == {"tiny-bert"}
    # Nothing is learned from 40 texts, so none is what its construction says.
    assert not checks["confirmed"].any()
    trace = Trace.read(tmp_path / "audits/on_one-planted-prior-tiny-bert-s0/trace")
    assert trace.heatmap_column == "importance_shown"
    assert not trace.has("rationale")


def test_confidence_scales_the_trained_logits_and_changes_no_decision(tmp_path):
    made = sweep(tmp_path / "out", constructions=("on_one", "on_sure"))
    calibrate(made)
    traces = (Trace.read(audit / "trace") for audit in made.audits.values())
    plain, sure = (trace.prediction[:, 0] for trace in traces)
    odds, more = (np.log(one / (1.0 - one)) for one in (plain, sure))
    assert np.allclose(more, 4.0 * odds, rtol=1e-2)


def test_one_command_counts_the_answers_of_both_halves(tmp_path, capsys, monkeypatch):
    plain = calibration.checked
    monkeypatch.setattr(calibration, "checked", lambda *given: {**plain(*given), "confirmed": True})
    given = ["study", "calibration", "planted-prior", "--out", str(tmp_path)]
    given += ["--set=calibration.constructions=guided_single,leak_last,marks_table,misses_shifted"]
    assert "4 of 4 missing" in answers(capsys, *given, "--dry-run")
    assert main([*given, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {row["half"] for row in found["scores"]} == {"fit", "held"}
    assert [(row["half"], row["truth"], row["models"]) for row in found["verdicts"]] == [
        ("fit", "faithful", 1),
        ("fit", "unfaithful", 1),
        ("held", "faithful", 1),
        ("held", "unfaithful", 1),
    ]
    out = answers(capsys, *given)
    assert out.index("verdicts of confirmed models") < out.index("best measures of the half held")
    assert (tmp_path / "calibration/report.html").exists()


def test_bad_options_are_refused():
    with pytest.raises(InputError, match="did you mean sst"):
        Calibration(Path("out"), corpora=("ssst",))
    with pytest.raises(InputError, match="CORPUS: none; expected 1 or more"):
        Calibration(Path("out"), corpora=())
    for encoders in (0, -1):
        with pytest.raises(InputError, match="1 or more"):
            Calibration.of("planted-prior", settings={"calibration.encoders": encoders})


def test_all_constructions_are_planned_and_the_page_of_the_docs_is_current():
    cells = Calibration(Path("out"), corpora=("planted-prior",), seeds=1).cells
    assert {cell.construction.name for cell in cells} == set(CONSTRUCTIONS)
    for place in calibration_tables.PAGES:
        page = place.read_text()
        assert page == calibration_tables.with_table(page)
    assert calibration_tables.LIST.read_text() == calibration_tables.listed()
