"""Runs: whole, killed and resumed, refused; settings by dotted name."""

import contextlib
import json
import shutil

import pytest

from attnaudit.core import InputError, RunError, sha256
from attnaudit.core.settings import parse_assignments
from attnaudit.plans.spec import RunSpec
from attnaudit.recipes.audit import audit_into
from attnaudit.recipes.study import StudySpec, run_study
from attnaudit.recipes.trained import run
from attnaudit.recipes.work import write_report
from attnaudit.steps import MANIFEST, read_manifest
from attnaudit.steps.folder import UNFINISHED
from attnaudit.steps.folder import digests as digests_of
from attnaudit.trace import write_shards
from tests.forked import printed
from tests.pages import FEW, experiments, summaries_as_pages
from tests.studies.conftest import no_page
from tests.traces import make_trace

EXPERIMENTS = (
    "prediction", "correlation", "permutation", "maximal_change", "joint", "adversary", "ranges", "identifiability", "erasure",
    "comprehensiveness", "plausibility", "replacement", "surrogate", "class_evidence",
)  # fmt: skip
TINY = {
    "corpus.size": 60, "corpus.length": (10, 12), "model.embedding": 8, "model.hidden": 4, "training.epochs": 3,
    "permutation.permutations": 5,
}  # fmt: skip


def times(folder):
    return {path: (path.stat().st_mtime_ns, path.stat().st_ino) for path in folder.rglob("*")}


def tiny(**options):
    settings = TINY | options.pop("settings", {})
    return RunSpec.of(
        "planted-decisive", vectors="random", device="cpu", settings=settings, **options
    )


def digests(folder):
    return digests_of(folder, ["."])


def results(folder):
    return digests(folder / "results") | {"summary": sha256(folder / "summary.json")}


def run_until(last, out):
    """The signs of progress of a tiny run, which is interrupted at the ``last``."""
    told = []

    def progress(what, done, total):
        told.append(what)
        if len(told) == last:
            raise KeyboardInterrupt

    with contextlib.suppress(KeyboardInterrupt):
        run(tiny(), out, progress)
    return told


@pytest.fixture(autouse=True, scope="module")
def _quick_pages():
    """Few experiments, too: which a run has does not matter to how it is stopped, resumed, locked or refused."""
    with summaries_as_pages(), experiments(*FEW):
        yield


@pytest.fixture(scope="module")
def whole(_quick_pages, tmp_path_factory):
    """A run that nobody interrupted."""
    return run(tiny(), tmp_path_factory.mktemp("runs") / "whole")


@pytest.fixture(scope="module")
def complete(_quick_pages, tmp_path_factory):
    """Such a run with every experiment."""
    with experiments():
        return run(tiny(), tmp_path_factory.mktemp("runs") / "complete")


def test_a_run_has_the_promised_layout(complete):
    tables = {f"results/{name}.parquet" for name in EXPERIMENTS if name != "joint"}  # one head
    fixed = {
        *("spec.json", "summary.json", "verdict.json", "report.html", "trace/part-00000.parquet"),
        *("model/weights.safetensors", "model/vocab.json"),
    }
    manifest, found = read_manifest(complete), digests(complete)
    assert found.keys() == fixed | tables | {MANIFEST}
    found.pop(MANIFEST)
    assert manifest["files"] == found
    assert set(manifest["timings"]) == {"train", "collect", "audit", "report"}
    assert manifest["peak_memory_bytes"] > 1 << 20
    assert len(manifest["steps"]["train"]["notes"]["history"]) == 3
    assert {"python", "torch", "attnaudit"} <= set(manifest["versions"])


@pytest.mark.slow
def test_the_spec_holds_every_setting_and_makes_the_same_run_again(complete, tmp_path):
    spec = json.loads((complete / "spec.json").read_text())
    assert spec["training"]["epochs"] == 3
    assert spec["experiments"]["permutation"]["permutations"] == 5
    with experiments():
        assert RunSpec.read(complete) == tiny()
        again = run(RunSpec.read(complete), tmp_path / "again")
    assert results(again) == results(complete)
    assert digests(again / "trace") == digests(complete / "trace")


def test_a_finished_run_is_left_as_it_is(whole):
    before = times(whole)
    assert run(tiny(), whole) == whole
    assert times(whole) == before


@pytest.mark.parametrize("part", [0, *(pytest.param(k, marks=pytest.mark.slow) for k in (1, 2))])
def test_a_run_stopped_anywhere_resumes_to_the_same_bytes(whole, tmp_path, part):
    """At every sign of progress but those amid many of one kind."""
    told = run_until(None, tmp_path / "counted")
    around = zip(["", *told], told, [*told[1:], ""], strict=False)
    places = [
        last for last, (before, what, after) in enumerate(around, 1) if not before == what == after
    ]
    assert len(places) >= 15
    for last in places[part::3]:
        out = tmp_path / f"stopped-{last}"
        run_until(last, out)
        assert not (out / MANIFEST).exists()
        run(tiny(), out)
        assert results(out) == results(whole)
        assert digests(out / "trace") == digests(whole / "trace")
        assert not (out / UNFINISHED).exists()


def a_study(out, stopped=""):
    """A study of 150 texts, of a size at which threads would change results, and the audit of its base; or up to the step ``stopped``."""
    settings = {
        "corpus.size": 150, "corpus.length": (10, 15), "model.hidden": 64, "training.epochs": 2, "uniform.seeds": 1,
        "permutation.permutations": 5,
    }  # fmt: skip

    def stop(what, done, total):
        if what == stopped:
            raise KeyboardInterrupt

    with (
        summaries_as_pages(),
        experiments(),
        pytest.MonkeyPatch.context() as patch,
        contextlib.suppress(KeyboardInterrupt),
    ):
        for name in ("write_study", "write_studies"):
            patch.setattr(f"attnaudit.report.study_page.{name}", no_page)
        run_study(
            StudySpec.of(
                "uniform", "planted-decisive", vectors="random", device="cpu", settings=settings
            ),
            out,
            stop,
        )


@pytest.mark.slow
def test_results_do_not_depend_on_the_threads_of_the_machine(tmp_path):
    """Here one thread, there three: torch adds up a product of matrices in as many parts as it has threads.

    One study is made here; another is stopped here in its first training, and goes on there.
    """
    names = ("OMP", "MKL", "NUMBA", "OPENBLAS")
    threads = {f"{name}_NUM_THREADS": "3" for name in names} | {"POLARS_MAX_THREADS": "3"}
    here, there = tmp_path / "here", tmp_path / "there"
    a_study(here)
    a_study(there, stopped="base-s0 (1 of 2) · train, epoch 2 of 2")
    assert not (there / "uniform").exists()
    printed(
        "import pathlib, sys; from tests.recipes import test_runner;"
        "test_runner.a_study(pathlib.Path(sys.argv[1]))",
        there,
        **threads,
    )
    one, three = (
        {
            path: digest
            for path, digest in digests(folder).items()
            if not path.endswith((MANIFEST, ".json.lock"))
        }
        for folder in (here, there)
    )
    assert any(path.startswith("uniform/results/") for path in one)
    assert one == three


SPOILT = {
    "truncated": lambda text: text[: len(text) // 2], "no steps": lambda text: "{}", "half a record": lambda text: text.replace('"key"', '"kee"'),
    "another sha256": lambda text: text.replace('"model/weights.safetensors": "', '"model/weights.safetensors": "0'),
}  # fmt: skip


@pytest.mark.parametrize("how", SPOILT)
def test_a_run_with_a_damaged_manifest_is_made_again(whole, tmp_path, how):
    out = shutil.copytree(whole, tmp_path / "run")
    (out / MANIFEST).write_text(SPOILT[how]((whole / MANIFEST).read_text()))
    run(tiny(), out)
    assert results(out) == results(whole)
    assert read_manifest(out)["files"] == read_manifest(whole)["files"]
    assert not (out / UNFINISHED).exists()


def test_a_flipped_byte_in_the_spec_of_an_unfinished_run_never_gives_another_spec(whole, tmp_path):
    """There is no manifest that lists the file."""
    path = tmp_path / "spec.json"
    stored = (whole / "spec.json").read_bytes()
    for place in range(len(stored) - 1):
        path.write_bytes(stored[:place] + bytes([stored[place] ^ 2]) + stored[place + 1 :])
        with contextlib.suppress(RunError):
            assert RunSpec.read(tmp_path) == tiny(), place
    path.write_bytes(stored.replace(b'"seed": 0', b'"seed": 1'))
    with pytest.raises(
        RunError,
        match=r"spec\.json: damaged: its content differs from its digest.*; remove .* to rebuild what it held",
    ):
        run(tiny(seed=1), tmp_path)


def test_another_spec_is_refused_with_both_values(whole):
    before = digests(whole)
    with pytest.raises(RunError, match=r"training\.epochs = 4, there 3.*--out"):
        run(tiny(settings={"training.epochs": 4}), whole)
    assert digests(whole) == before


def test_a_corpus_that_changed_is_refused(tmp_path):
    table = tmp_path / "small.csv"
    rows = [f"{word} text {'abcde'[k % 5]},{word}" for k in range(30) for word in ("good", "bad")]
    settings = {name: value for name, value in TINY.items() if not name.startswith("corpus")}
    for more in ([], ["one more row,good"]):
        table.write_text("\n".join(["text,label", *rows, *more]))
        spec = RunSpec.of(table, vectors="random", device="cpu", settings=settings)
        with pytest.raises(RunError, match="fingerprint") if more else contextlib.nullcontext():
            run(spec, tmp_path / "run")


def test_a_place_of_something_else_is_refused(whole, tmp_path):
    (tmp_path / "thesis.txt").write_text("do not lose")
    for command in (run, lambda _, out: audit_into(out, whole / "trace", ["permutation"])):
        with pytest.raises(RunError, match="expected a place that can be written"):
            command(tiny(), tmp_path / "thesis.txt/run")
    for place in (tmp_path, tmp_path / "thesis.txt"):
        with pytest.raises(RunError, match="expected a new or empty folder"):
            run(tiny(), place)
    assert (tmp_path / "thesis.txt").read_text() == "do not lose"


def test_models_of_other_presets_have_folders_of_their_own():
    names = [RunSpec.of("planted-decisive", preset=one).name for one in ("paper", "han", "flan")]
    assert names[0] == "planted-decisive-bilstm-additive-s0"
    assert len({*names}) == 3


def test_an_audit_of_a_run_gives_the_same_numbers(complete, tmp_path):
    with experiments():
        out = audit_into(
            tmp_path / "audit", complete / "trace", settings={"permutation.permutations": 5}
        )
    assert results(out) == results(complete)
    files = json.loads((out / MANIFEST).read_text())["files"]
    assert {name: sha256(out / name) for name in files} == files


def test_an_audit_replaces_an_earlier_one_but_never_a_run(whole, tmp_path):
    audit_into(tmp_path / "audit", whole, ["permutation"])
    audit_into(tmp_path / "audit", whole, ["adversary"])
    assert {path.name for path in (tmp_path / "audit/results").iterdir()} == {
        "adversary.parquet",
        "prediction.parquet",
    }
    before = digests(whole)
    with pytest.raises(
        RunError, match="expected a new or empty folder, or one of an earlier audit"
    ):
        audit_into(whole, whole)
    assert digests(whole) == before


def test_a_later_shard_that_is_broken_leaves_nothing_behind(tmp_path):
    """The tables of the first shard were being written by then."""
    write_shards(tmp_path / "trace", [make_trace(5), make_trace(5, first_instance=5)])
    audit_into(tmp_path / "audit", tmp_path / "trace", ["permutation"])
    before = digests(tmp_path / "audit")
    (tmp_path / "trace/part-00001.parquet").write_bytes(b"PAR1 no parquet")
    for out in (tmp_path / "audit", tmp_path / "new"):
        with pytest.raises(InputError, match=r"part-00001\.parquet"):
            audit_into(out, tmp_path / "trace")
    assert digests(tmp_path / "audit") == before
    assert not (tmp_path / "new").exists()


def test_an_audit_goes_beside_its_trace(whole, tmp_path):
    mine, one = shutil.copytree(whole, tmp_path / "mine"), tmp_path / "one.parquet"
    shutil.copy(mine / "trace/part-00000.parquet", one)
    for place, beside in ((mine / "trace", "mine"), (mine, "mine"), (one, "one")):
        assert audit_into(None, place, ["permutation"]) == tmp_path / f"{beside}-audit"


def test_a_page_written_again_keeps_the_manifest_true(whole, tmp_path, monkeypatch):
    out = shutil.copytree(whole, tmp_path / "run")
    (out / "report.html").write_text("spoilt")
    monkeypatch.setattr("attnaudit.steps.versions._installed", lambda name: "99")
    assert write_report(out).read_text() == (whole / "report.html").read_text()
    manifest = json.loads((out / MANIFEST).read_text())
    assert manifest["files"]["report.html"] == sha256(out / "report.html")
    assert manifest["kind"] == "run"
    assert manifest["versions"] == read_manifest(whole)["versions"]  # of what computed


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("training.epochs=four", "a whole number"),
        ("training.learning_rate=nan", "a number"),
        ("model.activation=rely", "did you mean relu"),
        ("corpus.length=20", "joined by commas|<a whole number>"),
        ("training.epochs", "key=value"),
        ("correlation.significance=5", "0 to 1"),
    ],
)
def test_a_wrong_setting_is_told_in_one_line(setting, message):
    with pytest.raises(InputError, match=message) as told:
        RunSpec.of("sst", settings=parse_assignments([setting]))
    assert "\n" not in str(told.value)
