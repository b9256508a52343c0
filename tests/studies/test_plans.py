"""Studies done: trainings shared and never done twice, killed and resumed, refused where a folder holds another."""

import html
import re
import shutil
from pathlib import Path

import polars as pl
import pytest

from attnaudit.core import InputError, RunError, read_json
from attnaudit.corpora.read import read_corpus
from attnaudit.plans.spec import RunSpec
from attnaudit.plans.training import strength_text, usual
from attnaudit.recipes.study import AUDIT, TRAININGS, StudySpec, key_of, run_study
from attnaudit.studies import STUDIES
from attnaudit.studies.deceive import MODELS
from attnaudit.studies.dynamics.study import Dynamics
from attnaudit.studies.transfer import DONORS
from attnaudit.trace import Trace
from tests import killed
from tests.forked import apart
from tests.steps.calls import made as digests
from tests.studies.identity import assert_order_is_nothing
from tests.studies.identity import training_of as trained

TINY = {
    "corpus.size": 60, "corpus.length": (10, 12), "model.embedding": 8, "model.hidden": 4, "training.epochs": 3, "training.patience": 3,
    "uniform.seeds": 3, "need.seeds": 1, "transfer.seeds": 1,
    "seeds.seeds": 2, "guide.seeds": 2, "guide.epochs": 3, "adversary.strengths": (0.001, 0.1), "adversary.controls": 1,
    "adversary.epochs": 3, "deceive.epochs": 2, "deceive.seeds": 1, "deceive.strengths": (0.0, 1.0),
    "dynamics.seeds": 2, "dynamics.steps": (0, 2, 5), "dynamics.probe": 4,
    "encoder.models": ("none", "average", "cnn3", "bilstm"), "encoder.seeds": 1,
    "complexity.hidden": (2,), "complexity.seeds": 3,
}  # fmt: skip


@pytest.fixture
def copy(folder, tmp_path):
    """A copy that a test may change."""
    return shutil.copytree(folder, tmp_path / "out")


def tiny(study, **settings):
    return StudySpec.of(
        study,
        "planted-decisive",
        full=True,
        vectors="random",
        device="cpu",
        settings=known_to(study) | settings,
    )


def known_to(study):
    """The settings that have an effect on a study: dynamics trains for a number of steps, the models of deceive have their own sizes."""
    without = {"dynamics": "training", "deceive": "model"}.get(study)
    sections = {"corpus", "model", "training", study} - {without}
    return {key: value for key, value in TINY.items() if key.partition(".")[0] in sections}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """All studies of one tiny model, with their pages."""
    out = tmp_path_factory.mktemp("studies") / "all"
    for study in STUDIES:
        run_study(tiny(study), out)
    return out


@pytest.mark.slow
def test_studies_share_their_trainings(folder):
    names = sorted(path.name.rpartition("-")[0] for path in (folder / TRAININGS).iterdir())
    guides = ("adversary", "base", "gradient", "learned", "rationale", "uniform")
    assert names == sorted([
        *(f"deceive-{model}-{strength}-s0" for model in MODELS for strength in (0, 1)), *(f"removed-{model}-s0" for model in MODELS),
        *(f"base-s{k}" for k in range(3)), *(f"uniform-s{k}" for k in range(3)), "adversary-0.001-s1",
        "adversary-0.1-s1", *(f"guide-{name}-s{k}" for name in guides for k in (0, 1)), "watched-s0", "watched-s1",
        "watched-uniform-s2", "embedding-s0", "base-none-s0", "base-average-s0", "base-cnn3-s0", "base-hard-s0",
        *(f"{role}-hidden2{strength}-s{k}" for role, strength in (("base", ""), ("adversary", "-0.001")) for k in range(3)),
        "adversary-0.001-s0", "adversary-0.001-s2",
        "adversary-0.001-s0", "guide-learned-s1", "guide-uniform-s0", *(f"guide-{name}{how}-s0" for name in DONORS for how in ("", "_shuffled")),
    ])  # fmt: skip
    assert {path.name for path in folder.iterdir()} == {TRAININGS, AUDIT, *STUDIES, "index.html"}
    page = (folder / "index.html").read_text()
    assert "Claim nothing" in page, "these models are no better than chance, on 6 instances"
    assert 'href="audit/report.html"' in page


@pytest.mark.slow
@pytest.mark.parametrize("study", STUDIES)
def test_a_study_has_the_promised_layout(folder, study):
    names = {
        path.relative_to(folder / study).as_posix()
        for path in (folder / study).rglob("*")
        if path.is_file()
    }
    fixed = {"spec.json", "summary.json", "report.html", "manifest.json"}
    assert names == fixed | {f"results/{study}.parquet"}
    page = (folder / study / "report.html").read_text()
    assert "<svg" in page
    assert "undefined" not in page.partition("<main")[2].partition('id="numbers"')[0]


def test_a_finished_study_trains_nothing_again_nor_one_that_was_moved(folder, copy, monkeypatch):
    before = digests(folder / TRAININGS)
    said = []
    run_study(tiny("uniform"), folder, say=said.append)
    monkeypatch.chdir(copy.parent)
    run_study(tiny("guide"), copy.name, say=said.append)
    assert said == []
    assert digests(folder / TRAININGS) == digests(copy / TRAININGS) == before


def test_a_training_s_key_follows_from_what_it_is_made_of():
    base = tiny("seeds").base
    key = key_of(usual(base, 1))
    assert key == key_of(usual(tiny("uniform").base, 1))
    assert key != key_of(usual(base, 2))
    assert key != key_of(usual(tiny("seeds", **{"training.epochs": 4}).base, 1))
    assert key == key_of(usual(tiny("seeds", **{"permutation.permutations": 7}).base, 1))


@pytest.mark.usefixtures("no_pages")
@pytest.mark.parametrize("manifest", ['{"files": {', "[]"])
def test_a_training_with_a_damaged_manifest_is_made_again_and_said(folder, copy, manifest):
    (trained(copy, "uniform-s1") / "manifest.json").write_text(manifest)
    said = []
    run_study(tiny("uniform"), copy, say=said.append)
    assert [line.partition(":")[0] for line in said] == ["uniform-s1"]
    for part in (TRAININGS, "uniform"):
        assert digests(copy / part) == digests(folder / part)


@pytest.mark.parametrize(
    ("place", "spec"), [("uniform-s1", "[]"), ("uniform-s1", None), ("seeds", '{"schema":')]
)
def test_what_cannot_be_told_is_refused_with_its_folder(copy, place, spec):
    damaged = copy / place if place == "seeds" else trained(copy, place)
    (damaged / "spec.json").unlink() if spec is None else (damaged / "spec.json").write_text(spec)
    with pytest.raises(RunError, match=rf"; remove \S*{damaged.name}(:| to rebuild) what it held"):
        run_study(tiny("uniform"), copy)


@pytest.mark.slow
@pytest.mark.usefixtures("no_pages")
def test_a_study_that_could_not_be_analysed_leaves_its_trainings_alone(tmp_path, monkeypatch):
    def fail(study, table):
        raise InputError("compare", "traces", "of different instances", "the same split")

    with monkeypatch.context() as patch:
        patch.setattr("attnaudit.studies.uniform.Uniform.summarise", fail)
        with pytest.raises(InputError, match="of different instances"):
            run_study(tiny("uniform", **{"uniform.seeds": 1}), tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == [TRAININGS]
    done = run_study(tiny("uniform", **{"uniform.seeds": 2}), tmp_path / "out")
    assert (done / "manifest.json").exists()


@pytest.mark.parametrize("study", STUDIES)
def test_the_order_of_a_plan_changes_nothing(folder, study):
    assert_order_is_nothing(tiny(study), folder)


@pytest.mark.parametrize("study", [pytest.param("uniform", marks=pytest.mark.slow), "dynamics"])
def test_a_study_killed_at_random_points_ends_with_the_same_bytes(folder, tmp_path, study):
    """SIGKILL before a random one of the next renames, again and again, until a call gets to the end."""
    out = tmp_path / "killed"
    assert apart(killed.at_random_renames, tiny(study), out) >= 8
    ours, theirs = out / study, folder / study
    assert digests(ours / "results") == digests(theirs / "results")
    assert (ours / "summary.json").read_bytes() == (theirs / "summary.json").read_bytes()
    for training in (out / TRAININGS).iterdir():
        whole = folder / TRAININGS / training.name
        for part in ("trace", "steps", "model", "teacher"):
            if part != "teacher" or (training / part).exists():
                assert digests(training / part) == digests(whole / part)
    assert not list(out.rglob(".*"))


def test_a_watched_training_leaves_a_trace_of_the_same_instances_at_every_step(folder):
    for name, scores in (("watched-s0", True), ("watched-s1", True), ("watched-uniform-s2", False)):
        training = trained(folder, name)
        parts = sorted((training / "steps").iterdir())
        assert [part.name for part in parts] == ["00000", "00002", "00005"]
        probes = [Trace.read(part) for part in parts]
        whole = Trace.read(training / "trace")
        assert [probe.metadata["step"] for probe in probes] == [0, 2, 5]
        assert {tuple(probe.instance) for probe in probes} == {tuple(probes[0].instance)}
        assert set(probes[0].instance) < set(whole.instance)
        assert [probe.has("loo") for probe in (*probes, whole)] == [scores] * 4
        assert len({probe.prediction.tobytes() for probe in probes}) == 3
        assert read_json(training / "spec.json")["training"]["steps"] == 5
    assert read_json(trained(folder, "base-s0") / "spec.json")["training"]["steps"] is None


def test_the_seeds_of_dynamics():
    base = RunSpec.of("planted-decisive", seed=13)
    corpus = read_corpus(base.corpus)
    planned = Dynamics(seeds=2, steps=(0, 7)).plan(base, corpus)
    names = [one.name for one in planned]
    assert names == ["watched-s13", "watched-s14", "watched-uniform-s15", "embedding-s13"]
    assert [training.spec.training.steps for training in planned] == [7] * 4
    assert [training.spec.corpus.seed for training in planned] == [13] * 4


@pytest.mark.parametrize(
    ("study", "settings", "got"),
    [
        (
            "adversary",
            {"adversary.strengths": (-0.1,)},
            r"strengths \(λ\): \[-0\.1\]; expected one or more, each a λ of 0 or more",
        ),
        ("deceive", {"model.hidden": 8}, r"setting model\.hidden: 8, which has no effect"),
        ("deceive", {"training.weight_decay": "0.5"}, r"weight_decay: 0\.5, which has no effect"),
        ("seeds", {"seeds.sedes": 1}, r"seeds\.sedes: no such setting"),
        (
            "dynamics",
            {"dynamics.steps": "0,10,10"},
            "steps: .0, 10, 10.; expected whole numbers from 0 up",
        ),
    ],
)
def test_settings_that_make_no_sense(study, settings, got):
    with pytest.raises(InputError, match=got):
        tiny(study, **settings)


def test_texts_of_nothing_but_impermissible_words_are_counted(tmp_path):
    rows = ["good,yes", "bad,no"] * 20
    rows += [
        f"a {word} thing {k},{label}"
        for k in range(40)
        for word, label in (("good", "yes"), ("bad", "no"))
    ]
    (tmp_path / "mine.csv").write_text("\n".join(["text,label", *rows]))
    settings = {"words": ("good", "bad"), "seeds": 1, "epochs": 5, "models": ("embedding",)}
    spec = StudySpec.of(
        "deceive",
        tmp_path / "mine.csv",
        device="cpu",
        settings={f"deceive.{name}": value for name, value in settings.items()},
    )
    said = []
    out = run_study(spec, tmp_path / "out", say=said.append)
    table = pl.read_parquet(out / "results/deceive.parquet").filter(strength=1.0)
    assert (table.filter(~pl.col("covered"))["mass"] < 1.0).all()
    told = said[0].removeprefix("note: ")
    assert told in html.unescape((out / "report.html").read_text())
    assert read_json(out / "manifest.json")["notes"] == [told]
    counts = {split: int(number) for number, split in re.findall(r"(\d+) of (\w+)", told)}
    assert sum(counts.values()) == 40
    assert counts["test"] == table["covered"].sum() > 0


def test_a_folder_holds_studies_of_one_model_and_corpus(folder):
    before = digests(folder)
    with pytest.raises(RunError, match=r"of another model or corpus: .*model\.hidden = 5, there 4"):
        run_study(tiny("seeds", **{"model.hidden": 5, "seeds.seeds": 1}), folder)
    with pytest.raises(RunError, match=r"remove .*uniform \(the trainings stay\)"):
        run_study(tiny("uniform", **{"uniform.seeds": 2}), folder)
    assert digests(folder) == before


OWN_FILE, PLANTED = "mine.csv", "planted-decisive"


@pytest.mark.parametrize(
    ("study", "source", "options", "message"),
    [
        *(
            (name, PLANTED, {"attention": "log_odds"}, f"{name} of a model: log_odds attention")
            for name in ("need", "uniform", "seeds", "transfer", "guide", "adversary", "dynamics")
        ),
        *(
            (name, PLANTED, {"preset": "han"}, "not --preset han")
            for name in ("dynamics", "deceive", "transfer")
        ),
        ("dynamics", "planted-question", {}, "of planted-question: question_answering; expected"),
        ("deceive", "planted-question", {}, "deceive of planted-question: .*without questions"),
        ("seeds", PLANTED, {"settings": {"model.heads": 2}}, "2 heads.*one attention a text"),
        ("seeds", PLANTED, {"settings": {"collect.scores": ("gradient",)}}, "without loo"),
        (
            "deceive",
            PLANTED,
            {"attention": "uniform", "settings": {"deceive.models": "embedding,transformer"}},
            "deceive of a model: uniform attention",
        ),
        ("deceive", PLANTED, {"settings": {"deceive.words": "Foo,BAR"}}, "Foo, BAR: none in train"),
        ("deceive", OWN_FILE, {}, r"no rationale of instance 0 of train.*--set deceive\.words="),
        (
            "guide",
            OWN_FILE,
            {"settings": {"guide.weights": "uniform,rationale"}},
            r"guide\.weights: rationale, which not every text of .* has; .*; leave out rationale",
        ),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_trained(
    study, source, options, message, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    Path(OWN_FILE).write_text("text,label\n" + "a b,yes\nc d,no\n" * 30)
    spec = StudySpec.of(study, source, device="cpu", **options)
    with pytest.raises(InputError, match=message):
        run_study(spec, "out")
    assert not Path("out").exists()


def test_strengths_that_are_nearly_the_same_keep_their_names_apart():
    texts = [strength_text(strength) for strength in (0.12345678, 0.12345679, 1e-4, 1.0, 1e6)]
    assert texts == ["0.12345678", "0.12345679", "0.0001", "1", "1e+06"]
