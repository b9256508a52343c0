"""Steps are done once, resume after a kill, and leave what was there if they fail."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from attnaudit.core import InputError, RunError, write_json
from attnaudit.plans.spec import RunSpec
from attnaudit.recipes.audit import audit_into
from attnaudit.recipes.trained import run
from attnaudit.steps import MANIFEST, Folder, Recipe, Step, execute, held, plan
from attnaudit.steps.claim import NAME, BusyError, claimed
from attnaudit.steps.folder import RECORDS, UNFINISHED
from tests.forked import survived
from tests.killed import dying_at
from tests.pages import FEW, experiments
from tests.steps.calls import SMALL, made
from tests.traces import make_trace


def step(name, given, after="", done=None):
    """A step that writes what it is given, and what the step before it wrote."""

    def inputs(folder):
        return [given, folder.records[after].files if after else None]

    def work(folder, made):
        if given == "bad":
            (made / f"{name}.json").write_text("half")
            raise InputError("test", name, "bad", "good")
        before = (folder.out / f"{after}.json").read_text() if after else ""
        write_json(made / f"{name}.json", [before, given])
        if done is not None:
            done.append(name)
        return {"given": given}

    return Step(name, inputs, (f"{name}.json",), work)


def recipe(first: Any = 1, last: Any = 3, done=None):
    steps = [step("a", first, done=done), step("b", 2, "a", done), step("c", last, "b", done)]
    return Recipe({"kind": "test"}, steps, lambda folder: {"kind": "test"})


def test_what_follows_from_another_input_or_from_a_damaged_file_is_done_again(tmp_path):
    out, done = tmp_path / "out", []
    execute(recipe(), out)
    execute(recipe(last=4, done=done), out)
    assert done == ["c"]
    (out / "b.json").write_text("damaged")
    assert [one.is_done for one in plan(recipe(last=4), out)] == [True, False, False]
    execute(recipe(last=4, done=done), out)
    assert done == ["c", "b"]  # b is what it was, so c follows from the same
    execute(recipe(first=0, last=4, done=done), out)
    assert done == ["c", "b", "a", "b", "c"]


def test_a_process_killed_at_any_rename_resumes_to_the_same_bytes(tmp_path):
    execute(recipe(), tmp_path / "whole")
    kills = 0
    for call in range(1, 100):
        out = tmp_path / f"{call}"

        def work(out=out, call=call):
            Path.replace = dying_at(call, Path.replace)  # type: ignore[method-assign]
            execute(recipe(), out)

        if survived(work):
            break
        kills += 1
        assert not (out / MANIFEST).exists()
        execute(recipe(), out)
        assert made(out) == made(tmp_path / "whole")
        assert not (out / UNFINISHED).exists()
    assert kills >= 8  # spec, manifest, and a file and a record of each step


def test_a_step_that_fails_changes_nothing(tmp_path):
    execute(recipe(), tmp_path / "out")
    before = made(tmp_path / "out")
    with pytest.raises(InputError):
        execute(recipe(last="bad"), tmp_path / "out")
    assert made(tmp_path / "out") == before


def test_a_new_folder_in_which_the_first_step_fails_stays_free(tmp_path):
    with pytest.raises(InputError):
        execute(recipe(first="bad"), tmp_path / "deep/out")
    assert not list(tmp_path.iterdir())


def test_a_damaged_record_counts_for_nothing(tmp_path):
    """Whichever bit flips, a record is the same or none."""
    with held(tmp_path / "out", {"kind": "test"}) as folder:
        folder.do(step("a", [0.25, 1e-7, "é"]))
        path = folder.scratch / RECORDS
        stored, known = path.read_bytes(), Folder(folder.out).records["a"]
        for place in range(0, len(stored) - 1, 3):
            path.write_bytes(stored[:place] + bytes([stored[place] ^ 2]) + stored[place + 1 :])
            assert Folder(folder.out).records in ({}, {"a": known}), place


def test_what_is_half_written_is_swept_by_the_process_that_holds_the_folder(tmp_path, monkeypatch):
    monkeypatch.setattr("attnaudit.steps.claim.BEAT", 0.01)
    out = execute(recipe(), tmp_path / "out")
    half, inner = out / ".c.json.abcd_123", out / "inner"
    with claimed(out):
        half.write_text("half")
        with pytest.raises(BusyError):
            execute(recipe(), out)
        assert half.exists()
    with claimed(inner):
        (inner / half.name).write_text("half of what another process writes")
        execute(recipe(), out)
        assert not half.exists()
        assert (inner / half.name).exists()


def test_a_step_of_a_process_that_was_taken_for_dead_is_not_kept(tmp_path):
    out = tmp_path / "out"

    def work(folder, made):
        (made / "a.json").write_text("late")
        (folder.out / NAME).write_text('{"owner": "another", "host": "n2", "pid": 7}')

    with pytest.raises(BusyError, match="process 7 of n2"), held(out, {"kind": "test"}) as folder:
        folder.do(Step("a", lambda folder: [], ("a.json",), work))
    assert not (out / "a.json").exists()


WORK = {
    "run": lambda out: run(RunSpec.of("planted-decisive", encoder="average", settings=SMALL), out),
    "audit": lambda out: audit_into(out, out.parent / "trace", ["permutation"]),
}


@pytest.mark.usefixtures("quick_pages")
@pytest.mark.parametrize("work", WORK.values(), ids=WORK)
def test_work_is_refused_where_a_process_is_alive(work, tmp_path, monkeypatch):
    """And nothing there changes; it is done once that process has ended, or is dead."""
    monkeypatch.setattr("attnaudit.steps.claim.BEAT", 0.01)
    monkeypatch.setattr("attnaudit.steps.claim.SILENT", 0.5)
    make_trace(5, (2, 4), seed=0).write(tmp_path / "trace")
    out = tmp_path / "out"
    with claimed(out) as check:
        with pytest.raises(BusyError, match="is at work there; expected one process at a time"):
            work(out)
        check()
        # A beat may be half-written.
        assert {path.name[: len(NAME)] for path in out.iterdir()} == {NAME}
    out.mkdir()
    (out / NAME).write_text('{"owner": "dead", "beats": 3}')
    with experiments(*FEW):
        work(out)
    assert (out / MANIFEST).exists()
    assert not (out / NAME).exists()


@pytest.mark.parametrize("finished", [False, True])
@pytest.mark.parametrize("kind", ["link", "other"])
def test_a_link_or_a_folder_in_the_place_of_an_output_is_refused_before_any_work(
    kind, finished, tmp_path
):
    out, done = tmp_path / "out", []
    execute(recipe(), out)
    if not finished:
        (out / MANIFEST).unlink()
        shutil.rmtree(out / UNFINISHED, ignore_errors=True)
    (out / "c.json").unlink()
    elsewhere = tmp_path / "elsewhere.json"
    elsewhere.write_text("kept")
    (out / "c.json").symlink_to(elsewhere) if kind == "link" else (out / "c.json").mkdir()
    with pytest.raises(RunError, match=r"c\.json: a (link|folder); expected a file of this run"):
        execute(recipe(done=done), out)
    assert done == []
    assert (out / "c.json").is_dir() or elsewhere.read_text() == "kept"


@pytest.mark.parametrize("name", ["results", "summary.json", "report.html", UNFINISHED])
def test_an_audit_into_a_folder_with_a_link_is_refused_at_once(name, tmp_path, monkeypatch):
    make_trace(5).write(tmp_path / "trace")
    out = tmp_path / "out"
    out.mkdir()
    (tmp_path / "elsewhere").mkdir()
    (out / name).symlink_to(tmp_path / "elsewhere")
    monkeypatch.setattr("attnaudit.recipes.audit.run_audit", None)  # nothing is computed
    with pytest.raises(RunError, match="expected a new or empty folder"):
        audit_into(out, tmp_path / "trace", FEW[:1])
    shutil.rmtree(out)
    monkeypatch.undo()
    audit_into(out, tmp_path / "trace", FEW[:1])
    if name not in ("results", "summary.json"):
        return  # of a later step, or none: what was audited is kept
    shutil.rmtree(out / name) if (out / name).is_dir() else (out / name).unlink()
    (out / name).symlink_to(tmp_path / "elsewhere")
    monkeypatch.setattr("attnaudit.recipes.audit.run_audit", None)
    with pytest.raises(RunError, match=f"{name}: a link; expected"):
        audit_into(out, tmp_path / "trace", FEW)
