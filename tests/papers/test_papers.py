"""Papers as declarations, and the engine on the smallest one: a run, a study and the copying task."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy import stats

from attnaudit.cli import main
from attnaudit.core import InputError, RunError, read_json, silent
from attnaudit.core.papers import SERRANO2019
from attnaudit.corpora import CORPORA as REGISTERED
from attnaudit.corpora.registry import is_parallel
from attnaudit.papers import PAPERS, Cell, Declaration, Table
from attnaudit.papers.published import published as published_numbers
from attnaudit.plans.spec import RunSpec
from attnaudit.recipes.kinds import LastCorpus
from attnaudit.recipes.reproduction.cells import RUNS
from attnaudit.recipes.reproduction.records import load, over_seeds, records_of, save
from attnaudit.recipes.reproduction.sweep import (
    STUDIES,
    Sweep,
    by_delta_alpha,
    command_of,
    plan_sweep,
    reproduce,
)
from attnaudit.report.paper_page import Reproduction
from attnaudit.results import summary_row
from tests.pages import experiments, summaries_as_pages
from tests.papers.markdown import markdown_of
from tests.studies.conftest import no_page

TINY = {
    "corpus.size": 60,
    "corpus.length": (10, 12),
    "model.embedding": 8,
    "model.hidden": 4,
    "training.epochs": 1,
}
COPYING = {
    "copying.length": 5, "copying.symbols": 5, "copying.hidden": 16, "copying.embedding": 16, "copying.batch": 16, "copying.steps": 2,
    "copying.seeds": 2, "copying.every": 2, "copying.probe": 4, "copying.test": 8,
}  # fmt: skip
GRADIENT = {"collect.scores": ("gradient",)}
DOCS = Path(__file__).parents[2] / "docs"
SMALLEST = Declaration(
    SERRANO2019, "Is it so?",
    cells=(
        Cell("planted-decisive", encoder="average", attention="additive", seeds=2, settings=TINY | GRADIENT),
        Cell("planted-decisive", study="uniform", settings=TINY | {"uniform.seeds": 1}),
        Cell("iid", study="copying", settings=COPYING, vectors=False),
    ),
    quick=(Cell("planted-decisive", encoder="average", attention="additive", settings=TINY | GRADIENT),), page="smallest.md",
    tables=(
        Table("Runs", {"prediction/accuracy": "accuracy", "prediction/accuracy#n": "n", "erasure/flip_both": "both flip (%)"}),
        Table("Bands", {"erasure/negative_delta_js": "ΔJS < 0 (%)"}, by="delta_alpha"),
        Table("Uniform", {"f1_base": "F1", "f1_uniform": "F1, uniform"}, "uniform"),
        Table("Copying", {"succeeded#n": "seeds", "token_accuracy": "token"}, "copying"),
    ),
    reasons={"planted-decisive/erasure/flip_both": "a planted corpus"},
)  # fmt: skip
PUBLISHED = pl.DataFrame(
    [
        {"corpus": "planted-decisive", "model": "average additive", "measure": "erasure/flip_both",
         "paper": 0.9, "where": "Table 1"},
        {"corpus": "yahoo", "model": "", "measure": "f1", "paper": 0.5, "where": "", "read_off": True},
    ],
    schema=published_numbers("serrano2019").schema,
).with_columns(study=pl.lit(""), statistic=pl.lit("mean"), group=pl.lit("all"))  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def published():
    """The smallest paper has numbers of its own, records a commit that does not change, and needs two experiments and no pages of runs."""
    with (
        pytest.MonkeyPatch.context() as patch,
        summaries_as_pages(),
        experiments("prediction", "erasure"),
    ):
        patch.setattr("attnaudit.report.study_page.write_study", no_page)
        for place in ("papers.comparison", "papers.published", "recipes.reproduction.sweep"):
            patch.setattr(
                f"attnaudit.{place}.published",
                lambda name: PUBLISHED if name == "serrano2019" else published_numbers(name),
            )
        patch.setattr("attnaudit.recipes.reproduction.records.commit", lambda: "0123abcde")
        yield


def sweep(out, **options):
    return Sweep(out, SMALLEST.plan(**options), None, "random", {}, SMALLEST)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    out = tmp_path_factory.mktemp("paper")
    assert reproduce(sweep(out)).done == 4
    return out


@pytest.mark.parametrize("paper", PAPERS.values(), ids=list(PAPERS))
def test_a_paper_is_whole(paper, tmp_path):
    """Cells have names of their own, a spec, and a command with their settings; quick ones are cells of the paper; studies have a table."""
    keys = [cell.key for cell in paper.cells]
    assert len(set(keys)) == len(keys)
    assert {cell.title for cell in paper.quick} <= set(keys)
    assert f"<!-- reproduce {paper.name} -->" in (DOCS / paper.page).read_text()
    assert {cell.study for cell in paper.cells} == {table.study for table in paper.tables}
    for cell in paper.every_cell:
        assert cell.corpus in REGISTERED or cell.study == "copying" or is_parallel(cell.corpus)
        with experiments():
            assert Sweep(tmp_path, [], str(tmp_path), paper=paper).job(cell).spec is not None
        command = command_of(paper, cell)
        kind = f"study {cell.study} {cell.corpus}" if cell.study else "run "
        assert command.startswith(f"attnaudit {kind}")
        assert all(f"--set {key}=" in command for key in {**paper.settings, **cell.settings})


def test_what_quick_leaves_out_is_counted_by_the_cells_of_a_call():
    cells = tuple(Cell("sst", encoder=encoder) for encoder in ("cnn", "bilstm", "average"))
    paper = replace(PAPERS["jain2019"], cells=(*cells, Cell("imdb")), quick=cells[:1])
    assert "leaves out 3 of 4 cells" in paper.left_out()
    assert "leaves out 2 of 3 cells" in paper.left_out(["sst-*"])


@pytest.mark.slow
def test_a_paper_ends_in_one_page_and_a_record_of_each_cell(finished):
    runs = [f"planted-decisive-average-additive-s{seed}" for seed in (0, 1)]
    assert sorted(path.name for path in (finished / RUNS).iterdir()) == runs
    found = records_of(SMALLEST, finished / "records")
    assert found.keys() == {cell.key for cell in SMALLEST.cells}
    run = found["planted-decisive-average-additive"]
    summaries = pl.concat(pl.read_json(finished / RUNS / name / "summary.json") for name in runs)
    (accuracy,) = (row["value"] for row in run["summary"] if row["measure"] == "accuracy")
    ours = summaries.filter(measure="accuracy", group="all")["value"]
    assert (accuracy, len(ours)) == (pytest.approx(ours.mean()), 2)
    assert (run["seeds"], run["commit"]) == ([0, 1], "0123abcde")
    page = (finished / "index.html").read_text()
    assert all(word in page for word in ("Bands", "F1, uniform", "seeds", "0123abcde"))


def test_published_numbers_are_compared_and_have_a_reason(finished):
    found = Reproduction(SMALLEST, records_of(SMALLEST, finished / "records"))
    assert found.all_numbers().select("corpus", "agreement").rows() == [
        ("planted-decisive", "farther")
    ]
    text = markdown_of(found)
    assert "(90°)" in text
    assert "- ○ planted-decisive, average additive, both flip (%): a planted corpus" in text
    assert "`attnaudit study uniform planted-decisive --full" in text


def test_a_record_of_something_else_is_one_line(tmp_path):
    place = tmp_path / "planted-decisive-uniform.json"
    save(place, "attnaudit study uniform", [])
    place.write_text(json.dumps(read_json(place) | {"summary": [{"value": 1.0}]}))
    with pytest.raises(InputError, match=r"planted-decisive-uniform\.json.*a row that lacks one"):
        records_of(SMALLEST, tmp_path)


def test_a_dry_run_lists_the_cells(finished, tmp_path):
    planned = plan_sweep(sweep(finished))
    assert all(one.is_done for one in planned)
    elsewhere = plan_sweep(replace(sweep(finished), out=tmp_path / "out"))
    assert [one.name for one in elsewhere] == [one.name for one in planned]
    assert not any(one.is_done for one in elsewhere)


def test_the_corpus_read_last_is_given_to_all_that_ask_for_the_same(monkeypatch):
    """Other seeds are read anew; what is done after reading changes nothing; errors are kept too."""
    from attnaudit.recipes import classifier

    read = []

    def counted(spec, real=classifier.read_corpus, **options):
        read.append(spec.source)
        return real(spec, **options)

    monkeypatch.setattr(classifier, "read_corpus", counted)
    last, spec = LastCorpus(), RunSpec.of("planted-decisive", settings=TINY)
    first = last(spec, silent)
    assert last(replace(spec, corpus=replace(spec.corpus, removed=("good",))), silent) is first
    assert last(RunSpec.of("planted-decisive", encoder="cnn", settings=TINY), silent) is first
    assert last(replace(spec, seed=1), silent).fingerprint != first.fingerprint
    missing = RunSpec.of("sst", data_dir="nowhere")
    for _ in range(2):
        with pytest.raises(InputError, match="nowhere"):
            last(missing, silent)
    assert read == ["planted-decisive", "planted-decisive", "sst"]


def test_settings_of_one_study_are_of_its_cells_alone(finished):
    """Those that the studies have do nothing again."""
    own = sweep(finished)
    assert reproduce(replace(own, settings={"uniform.seeds": 1, "copying.seeds": 2})).done == 4
    with pytest.raises(InputError, match=r"--set guide\.seeds: .* of copying, uniform"):
        reproduce(replace(own, settings={"guide.seeds": 1}))
    with pytest.raises(RunError, match="uniform"):
        reproduce(replace(own, settings={"uniform.seeds": 2}))


@pytest.mark.parametrize("damage", ["changed", "missing"])
def test_a_damaged_study_is_analysed_again_by_the_same_call(finished, tmp_path, damage):
    out = Path(shutil.copytree(finished, tmp_path / "out"))
    summary = out / STUDIES / "planted-decisive/uniform/summary.json"
    before = summary.read_bytes()
    summary.unlink()
    if damage == "changed":
        summary.write_bytes(before.replace(b"0.", b"0.1", 1))
    assert reproduce(sweep(out)).done == 4
    assert summary.read_bytes() == before
    assert records_of(SMALLEST, out / "records") == records_of(SMALLEST, finished / "records")


@pytest.mark.slow
def test_what_is_set_for_a_call_is_in_the_command_of_the_record_and_on_the_page(tmp_path):
    """Of a run, a study and the copying task, once each; the seed of a run is no setting."""
    cells = {cell.key: cell for cell in sweep(tmp_path).cells}  # of the runs that with seed 1
    made = {
        "planted-decisive-average-additive": {"training.epochs": 2, "erasure.orders": 2},
        "planted-decisive-uniform": {"training.epochs": 2, "uniform.seeds": 2}, "iid-copying": {"copying.steps": 4},
    }  # fmt: skip
    for key, settings in made.items():  # and with --vectors random
        one = replace(sweep(tmp_path / "out"), cells=[cells[key]], settings=settings)
        assert reproduce(one).done == 1
    for key, record in records_of(SMALLEST, tmp_path / "out/records").items():
        reads_texts = key != "iid-copying"
        assert record["changed"] == made[key] | ({"vectors": "random"} if reads_texts else {})
        command = record["command"]
        assert all(command.count(f" {name}={value}") == 1 for name, value in made[key].items())
        assert ("--vectors random" in command) == reads_texts
    page = (tmp_path / "out/index.html").read_text()
    assert "training.epochs = 2" in page


@pytest.mark.slow
def test_word_vectors_of_a_file_are_those_of_the_paper(tmp_path):
    """Those that a corpus trains are not: the record says so, and the command names them."""
    file = tmp_path / "vectors.txt"
    file.write_text("superb 0.5 0.5 0.5 0.5\nawful -0.5 0.5 -0.5 0.5\n")
    cell = sweep(tmp_path).cells[0]
    for number, (vectors, changed) in enumerate(
        [(str(file), None), ("corpus", {"vectors": "corpus"}), (None, {"vectors": "corpus"})]
    ):
        out = tmp_path / f"out{number}"
        assert reproduce(replace(sweep(out), cells=[cell], vectors=vectors)).done == 1
        (record,) = records_of(SMALLEST, out / "records").values()
        assert record.get("changed") == changed
        assert ("--vectors VECTORS" in record["command"]) == (changed is None)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (
            ["pruthi2020", "--seeds", "3"],
            "--seeds: 3, and every cell of pruthi2020 is a study; expected seeds of a study by its own setting",
        ),
        (["snell2021", "--only", "cnn"], "--only cnn: no such cell; expected a pattern"),
        (["wiegreffe2019", "--only", "sst-uniforn"], "did you mean sst-uniform?"),
        (["jain2019", "--quick", "--only", "imdb-*"], "--dry-run lists them"),
        (["jain2019", "--quick", "--seeds", "5"], "--seeds: 5 together with --quick"),
    ],
)
def test_cells_that_a_paper_lacks_are_refused(command, message, capsys):
    assert main(["reproduce", *command]) == 2
    assert message in capsys.readouterr().err


def test_a_mean_over_seeds_and_its_interval_are_those_of_a_hand_calculation():
    values, stds = np.array([0.1, 0.13, 0.19]), (0.2, 0.3, 0.7)
    rows = [
        [summary_row("x", "tau_loo", value, value, value, n=99 + k, std=stds[k])]
        for k, value in enumerate(values)
    ]
    (row,) = over_seeds(rows)
    low, high = stats.t.interval(0.95, 2, values.mean(), stats.sem(values))
    numbers = [row[name] for name in ("value", "sd", "low", "high", "std", "n")]
    expected = np.array([values.mean(), values.std(ddof=1), low, high, np.mean(stds), 100], float)
    np.testing.assert_allclose(numbers, expected)


def test_intervals_over_seeds_end_where_a_measure_does_and_what_is_left_out_is_averaged():
    def averaged(measure, *values):
        """The first run excludes 2 of 100 instances, the second 12, and so on."""
        left = [2 + 10 * k for k in range(len(values))]
        rows = [
            [summary_row("erasure", measure, value, value, value, n=100 - k, undefined=k)]
            for value, k in zip(values, left, strict=True)
        ]
        return over_seeds(rows)[0]

    share = averaged("flip_both", 0.0, 0.01, 0.02)
    assert (share["low"], share["n"], share["undefined"]) == (0.0, 88, 12)
    assert 0.03 < share["high"] < 0.04
    times = averaged("times_minimum_attention", 1.5, 9.0, 3.0)
    assert times["low"] < 0.0 < 9.0 < times["high"]  # no share: nothing says where it ends


def test_shares_by_band_leave_out_what_is_undefined(tmp_path):
    (tmp_path / "results").mkdir()
    columns = {"delta_js": [-0.5, 0.5, 0.1, None], "delta_alpha": [0.01, 0.02, 0.1, 0.6]}
    pl.DataFrame(columns).write_parquet(tmp_path / "results/erasure.parquet")
    assert list(by_delta_alpha(tmp_path / "elsewhere")) == []
    found = {row["group"].partition(":")[2]: row for row in by_delta_alpha(tmp_path)}
    shares = {band: (row["value"], row["n"]) for band, row in found.items() if row["n"]}
    assert shares == {"0 to 0.05": (0.5, 2), "0.1 to 0.2": (0.0, 1)}
    assert len(found) == 5


def test_a_record_keeps_its_commit_while_nothing_in_it_changes(tmp_path, monkeypatch):
    place = tmp_path / "a.json"
    row = summary_row("x", "f1", 1.0, n=9)
    save(place, "attnaudit run", [row])
    monkeypatch.setattr("attnaudit.recipes.reproduction.records.commit", lambda: "fedcba987")
    save(place, "attnaudit run", [row], seeds=[0])
    assert load(place)["commit"] == "0123abcde"
    save(place, "attnaudit run", [row | {"value": 2.0}])
    assert load(place)["commit"] == "fedcba987"
