"""Dry runs: what would be trained, what exists, an estimate of the rest, and nothing written."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from attnaudit.cli import main
from attnaudit.core.errors import InputError, RunError
from attnaudit.runner import (
    RunSpec,
    StudySpec,
    copying_study,
    plan_run,
    plan_study,
    run_copying,
    run_study,
)
from attnaudit.runner.copying import seconds_a_step
from attnaudit.runner.pipeline import train_into
from attnaudit.runner.studies import TRAININGS, prepared
from attnaudit.runner.timing import Speed
from attnaudit.training.probe import Probe

SMALL = {
    "corpus.size": 60,
    "corpus.length": (10, 12),
    "model.embedding": 8,
    "model.hidden": 4,
    "collect.scores": ("gradient",),
}
OPTIONS: dict[str, Any] = {"vectors": "random", "device": "cpu"}
TINY = SMALL | {"training.epochs": 3, "training.select": "loss", "uniform.seeds": 2}
GIVEN = [
    part
    for key, value in SMALL.items()
    for part in (
        "--set",
        f"{key}={','.join(map(str, value)) if isinstance(value, tuple) else value}",
    )
]


def no_page(*arguments: object) -> None:
    """In place of the real pages, whose charts take seconds."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished study; its trainings alone matter here."""
    out = tmp_path_factory.mktemp("planning") / "study"
    spec = StudySpec.of("uniform", "planted-decisive", settings=TINY, **OPTIONS)
    for training in prepared(spec, out, no_page).trainings:
        train_into(training.spec, prepared(spec, out, no_page).folders[training.id])
    return out


def planned(out: Path, study: str = "uniform", settings: dict | None = None) -> dict:
    """The plan as JSON, by the name of the training."""
    plan = plan_study(
        study, "planted-decisive", out, settings=TINY if settings is None else settings, **OPTIONS
    ).to_json()
    return {one["name"]: one for one in plan["trainings"]} | {"seconds": plan["seconds"]}


def test_a_study_that_is_not_begun_is_timed_and_nothing_is_written(tmp_path: Path) -> None:
    plan = planned(tmp_path / "out")
    seconds = plan.pop("seconds")
    assert list(plan) == ["base-s0", "uniform-s0", "base-s1", "uniform-s1"]
    assert {(one["state"], one["source"], one["length"], one["done"]) for one in plan.values()} == {
        ("missing", "timed", "3 epochs", 0)
    }
    assert seconds == pytest.approx(sum(one["seconds"] for one in plan.values()))
    assert all(one["seconds"] > 0 for one in plan.values())
    assert plan["base-s0"]["seconds"] == plan["base-s1"]["seconds"]
    assert list(tmp_path.iterdir()) == []


def test_what_is_finished_has_its_recorded_seconds_and_stands_for_its_kind(
    folder: Path, tmp_path: Path
) -> None:
    plan = planned(folder)
    assert plan.pop("seconds") == 0
    assert {one["state"] for one in plan.values()} == {"finished"}
    shutil.copytree(folder, tmp_path / "out")
    removed = next((tmp_path / "out" / TRAININGS).glob("base-s1-*"))
    recorded = json.loads((Path(plan["base-s0"]["folder"]) / "manifest.json").read_text())[
        "timings"
    ]
    shutil.rmtree(removed)
    again = planned(tmp_path / "out")
    assert (again["base-s1"]["state"], again["base-s1"]["source"]) == ("missing", "recorded")
    assert (
        again["seconds"]
        == again["base-s1"]["seconds"]
        == pytest.approx(recorded["train"] + recorded["collect"])
    )
    assert not removed.exists()


@pytest.mark.parametrize("manifest", ['{"files": {', "[]"])
def test_a_training_with_a_damaged_manifest_is_made_again(
    folder: Path, tmp_path: Path, manifest: str
) -> None:
    shutil.copytree(folder, tmp_path / "out")
    (next((tmp_path / "out" / TRAININGS).glob("base-s1-*")) / "manifest.json").write_text(manifest)
    plan = planned(tmp_path / "out")
    assert (plan["base-s1"]["state"], plan["base-s1"]["source"]) == ("unfinished", "recorded")


def test_the_epochs_of_a_checkpoint_are_not_counted_again(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "out")
    training = next((tmp_path / "out" / TRAININGS).glob("base-s1-*"))
    shutil.rmtree(training)

    def stop(what: str, done: int, total: int) -> None:
        if what == "train, epoch 3 of 3":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_into(
            RunSpec.of(
                "planted-decisive",
                seed=1,
                settings={k: v for k, v in TINY.items() if "uniform" not in k} | {"corpus.seed": 0},
                **OPTIONS,
            ),
            training,
            stop,
        )
    plan = planned(tmp_path / "out")
    assert (plan["base-s1"]["state"], plan["base-s1"]["done"]) == ("unfinished", 2)
    assert plan["base-s1"]["seconds"] == pytest.approx(plan["base-s0"]["seconds"] / 3)


@pytest.mark.parametrize(
    ("study", "longest"),
    [
        ("adversary", "30 epochs"),
        ("guide", "30 epochs"),
        ("dynamics", "4 steps"),
        ("deceive", "15 epochs"),
    ],
)
def test_trainings_whose_teacher_does_not_exist_yet_are_timed(
    tmp_path: Path, study: str, longest: str
) -> None:
    own = {"dynamics": {"dynamics.steps": (0, 4), "dynamics.probe": 3}}.get(study, {})
    refused = (
        "collect.scores",
        *(["model.embedding", "model.hidden"] if study == "deceive" else []),
    )
    small = {key: value for key, value in SMALL.items() if key not in refused}
    plan = planned(tmp_path / "out", study, small | own)
    assert plan.pop("seconds") > 0
    assert any(one["length"].endswith(longest) for one in plan.values())
    assert {one["source"] for one in plan.values()} == {"timed"}
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_refuses_what_the_run_refuses(folder: Path, tmp_path: Path) -> None:
    spec = RunSpec.of("planted-decisive", settings=SMALL, **OPTIONS)
    with pytest.raises(RunError, match="a folder that is not empty and holds no run"):
        plan_run(spec, folder)
    (tmp_path / "mine.csv").write_text("text,label\n" + "a good text,yes\na bad text,no\n" * 30)
    with pytest.raises(InputError, match=r"no word of train is in so many texts"):
        plan_run(
            RunSpec.of(tmp_path / "mine.csv", settings={"corpus.min_df": 900}, **OPTIONS),
            tmp_path / "out",
        )
    with pytest.raises(InputError, match="none in train"):
        planned(tmp_path / "out", "deceive", {"corpus.size": 60, "deceive.words": ("zebra",)})
    assert [path.name for path in tmp_path.iterdir()] == ["mine.csv"]


def test_epochs_steps_and_probes_are_counted() -> None:
    speed = Speed(build=3.0, step=0.5, steps=10, dev=1.0, row=0.1, rows=50)
    spec = RunSpec.of("planted-decisive", settings={"training.epochs": 4})
    assert speed.seconds(spec) == pytest.approx(3 + 40 * 0.5 + 4 * 1 + 50 * 0.1)
    steps = replace(
        spec, training=replace(spec.training, steps=15), probe=Probe((0, 5, 15), size=20)
    )
    assert speed.seconds(steps) == pytest.approx(3 + 15 * 0.5 + 2 * 1 + (50 + 3 * 20) * 0.1)


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (
            ["run", "planted-decisive", "--epochs", "2", "--vectors", "random", *GIVEN],
            ["planted-decisive-bilstm-additive-s0"],
        ),
        (
            [
                "study",
                "uniform",
                "planted-decisive",
                "--epochs",
                "2",
                "--vectors",
                "random",
                "--set",
                "uniform.seeds=1",
                *GIVEN,
            ],
            ["base-s0", "uniform-s0"],
        ),
        (
            [
                "translate",
                "planted-copy",
                "--epochs",
                "2",
                "--set",
                "corpus.size=60",
                "--set",
                "model.hidden=8",
            ],
            ["planted-copy-bilinear-s0"],
        ),
    ],
)
def test_the_command_line(
    arguments: list[str],
    names: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([*arguments, "--device", "cpu", "--dry-run", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in told["trainings"]] == names
    assert {one["length"] for one in told["trainings"]} <= {"2 epochs", "up to 2 epochs"}
    assert list(tmp_path.iterdir()) == []


def test_the_plan_of_a_sweep_says_what_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert (
        main(
            [
                "reproduce",
                "jain2019",
                "--quick",
                "--corpus",
                "sst",
                "--data-dir",
                str(tmp_path),
                "--dry-run",
            ]
        )
        == 2
    )
    said = " ".join(capsys.readouterr().out.split())
    assert "cannot be estimated: read corpus sst:" in said
    assert "4 of 4 trainings missing: 4 of unknown time" in said
    assert list(tmp_path.iterdir()) == []


def test_a_study_says_after_its_first_epoch_and_after_each_training_how_long_the_rest_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "attnaudit.report.study_page.write_study",
        lambda folder, metadata, notes, page: page.write_text("page"),
    )
    monkeypatch.setattr("attnaudit.report.study_page.write_studies", no_page)
    monkeypatch.setattr("attnaudit.runner.studies._audit", no_page)
    said: list[str] = []
    spec = StudySpec.of(
        "uniform", "planted-decisive", settings=TINY | {"uniform.seeds": 1}, **OPTIONS
    )
    run_study(spec, tmp_path / "out", say=said.append)
    first, *each = said
    assert re.fullmatch(
        r"an epoch takes \d+\.\d s: 2 trainings missing, about \d+ s left, without their traces",
        first,
    )
    assert re.fullmatch(r"base-s0: \d+ s \(1 of 2, about \d+ s left\)", each[0])
    assert re.fullmatch(r"uniform-s0: \d+ s \(2 of 2\)", each[1])


COPIED = {
    "copying.length": 5, "copying.symbols": 5, "copying.hidden": 8, "copying.embedding": 8, "copying.batch": 8, "copying.steps": 6,
    "copying.pretraining": 2, "copying.seeds": 3, "copying.every": 2, "copying.probe": 4, "copying.test": 8,
}  # fmt: skip


def copied(out: Path) -> list[dict]:
    return plan_study("copying", "iid", out, settings=COPIED).to_json()["trainings"]


def test_a_copying_study_is_timed_while_it_is_missing_and_recorded_when_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "copying"
    monkeypatch.setattr("attnaudit.runner.planning.seconds_a_step", lambda study: 3.0)
    before = copied(out)
    assert [one["name"] for one in before] == ["iid-s0", "iid-s1", "iid-s2"]
    assert {(one["state"], one["length"], one["done"], one["seconds"]) for one in before} == {
        ("missing", "8 steps", 0, 8.0)
    }
    assert not out.exists()
    monkeypatch.setattr(
        "attnaudit.report.copying_page.write_copying", lambda folder, page: page.touch()
    )
    monkeypatch.setattr("attnaudit.copying.training.PAUSE", 0.0)
    study = copying_study("iid", settings=COPIED)
    with monkeypatch.context() as patch:
        patch.setattr("attnaudit.copying.training.Training.finish", _interrupted)
        with pytest.raises(KeyboardInterrupt):
            run_copying(study, out, threads=1)
    assert {(one["state"], one["done"], one["seconds"]) for one in copied(out)} == {
        ("unfinished", 8, 0.0)
    }
    run_copying(study, out, threads=1)
    after = copied(out)
    assert {(one["state"], one["source"]) for one in after} == {("finished", "recorded")}
    assert sum(one["seconds"] for one in after) == pytest.approx(
        json.loads((out / "manifest.json").read_text())["steps"]["train"]["seconds"]
    )


def _interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_step_of_copying_is_timed_for_all_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two seeds at once of three take two rounds; what a training takes besides its steps does not count."""
    clock = iter([0, 100, 200, 307, 400, 516])
    monkeypatch.setattr("attnaudit.runner.copying.cores", lambda: 2)
    monkeypatch.setattr("attnaudit.runner.copying.time.perf_counter", lambda: next(clock))
    trained: list[Any] = []
    monkeypatch.setattr(
        "attnaudit.copying.training.train",
        lambda config, threads: trained.append((config.steps, config.seeds, threads)),
    )
    assert seconds_a_step(copying_study("iid", settings=COPIED)) == pytest.approx(
        (116 - 107) / 3 * 2
    )
    assert trained == [(1, (0, 1), 2), (1, (0, 1), 2), (4, (0, 1), 2)]
