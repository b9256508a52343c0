"""The tables of docs/dynamics.md, from minimal studies: every cell is a number of the study that it names."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from types import ModuleType

import polars as pl
import pytest

from attnaudit.core.files import read_json

DOCS = Path(__file__).parents[1] / "docs"
CORPUS, COPIED = "planted-decisive", "iid-tiny"
TINY = {
    "corpus.size": 60, "corpus.length": (10, 12), "model.embedding": 8, "model.hidden": 4, "dynamics.seeds": 2,
    "dynamics.steps": (0, 2, 5), "dynamics.probe": 4,
}  # fmt: skip
COPYING = {
    "copying.length": 5, "copying.symbols": 5, "copying.hidden": 16, "copying.embedding": 16, "copying.batch": 16, "copying.steps": 9,
    "copying.seeds": 3, "copying.every": 4, "copying.probe": 4, "copying.test": 8,
}  # fmt: skip
PAGE = (
    "Written text.\n\n<!-- tables -->\nold\n<!-- end of tables -->\n\n"
    "<!-- tables of copying -->\nold\n<!-- end of tables of copying -->\n\nMore of it.\n"
)
COMMIT = "0123abcde"


def script() -> ModuleType:
    """docs/dynamics_tables.py with a page, a corpus and a kind of sequences of the test's own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(DOCS)
        return importlib.import_module("dynamics_tables")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """The folder of the studies, the page after running them, and the page from the finished studies."""
    folder, module = tmp_path_factory.mktemp("tables"), script()
    page = folder / "dynamics.md"
    page.write_text(PAGE, encoding="utf-8")
    command = ["dynamics_tables.py", "--out", str(folder / "out"), "--copying", str(folder / "copying")]
    with pytest.MonkeyPatch.context() as patch:
        settings = {
            "PAGE": page,
            "CORPORA": {CORPUS: TINY},
            "COPIED": {COPIED: COPYING},
            "RECORDS": folder / "records",
            "OF_CORPORA": folder / "records" / "dynamics",
        }
        for name, value in settings.items():
            patch.setattr(module, name, value)
        patch.setattr("records.commit", lambda: COMMIT)
        patch.setattr("sys.argv", [*command, "--data-dir", str(folder), "--vectors", "random"])
        module.main()
        first = page.read_text(encoding="utf-8")
        patch.setattr("sys.argv", [*command, "--done"])
        module.main()
    return folder, first, page.read_text(encoding="utf-8")


def rows(page: str, corpus: str, columns: str) -> list[list[str]]:
    """The rows of a corpus in the table whose header starts with ``columns``."""
    table = page[page.index(f"| {columns}") :].partition("\n\n")[0].splitlines()
    found = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    assert len({len(cells) for cells in found}) == 1
    return [cells for cells in found if cells[0] == corpus]


def test_finished_studies_are_not_rerun(made: tuple[Path, str, str]) -> None:
    _, first, again = made
    assert first == again
    assert first.startswith("Written text.\n\n<!-- tables -->\n\n### Final models")
    assert first.endswith("<!-- end of tables of copying -->\n\nMore of it.\n")
    assert "old" not in first


def test_every_cell_is_a_number_of_the_study(made: tuple[Path, str, str]) -> None:
    folder, page, _ = made
    module = script()
    found = module.groups(read_json(folder / "out" / CORPUS / "dynamics" / "summary.json"))
    for columns in (module.AGREEMENT, module.TAU, module.ACCURACY):
        (cells,) = rows(page, CORPUS, f"corpus | {' | '.join(columns.values())}")
        assert cells == [CORPUS, *(module.cell(found["all"][name]) for name in columns), COMMIT]
        assert "–" not in cells
    (timing,) = rows(page, CORPUS, "corpus | ξ")
    (step,) = timing[-2].split(", ")
    assert (step == "never") == (found["all"]["xi"]["undefined"] == 1)
    assert step in ("never", f"{found['all']['xi_step']['value'] or 0:.0f}")
    assert timing[2] == module.cell(found["all"]["best_accuracy"])
    steps = rows(page, CORPUS, "corpus | step")
    assert [step[1] for step in steps] == ["0", "2", "5"]
    assert [step[2] for step in steps] == [module.cell(found[f"step:{step}"]["agreement_alpha_uniform"]) for step in (0, 2, 5)]


def test_the_row_of_copying_counts_every_seed_once(made: tuple[Path, str, str]) -> None:
    folder, page, _ = made
    settings = (f"{name.removeprefix('copying.')}={value}" for name, value in COPYING.items())
    (cells,) = rows(page, ", ".join(["iid", *settings]), "sequences")
    columns = dict(zip(script().OF_COPYING, cells, strict=True))
    assert (columns["products"], columns["seeds"], columns["commit"]) == ("float32", "3", COMMIT)
    summary = {row["measure"]: row for row in read_json(folder / "copying" / COPIED / "summary.json") if row["group"] == "all"}
    assert columns["token"].startswith(f"{summary['token_accuracy']['value']:.2f}")
    final = pl.read_parquet(folder / "copying" / COPIED / "results" / "seeds.parquet")
    stopped = final.filter(pl.col("token") <= 0.95)["token"]
    for column, count in {
        "succeeded": 3 - len(stopped), "come to attend": (final["attention"] > 0.5).sum(),
        "upside down": (final["relevance_least"] > 0.5).sum(),
    }.items():  # fmt: skip
        assert re.fullmatch(rf"{count} \(\d+ % to \d+ %\)", columns[column])
    assert columns["token accuracy of the others"] == f"{stopped.min():.2f} to {stopped.max():.2f}, median {stopped.median():.2f}"


def test_a_record_has_the_command_of_its_study(made: tuple[Path, str, str]) -> None:
    folder, _, _ = made
    record = read_json(folder / "records" / f"{COPIED}.json")
    assert record["commit"] == COMMIT
    assert record["command"].startswith("attnaudit study copying iid --full --set copying.length=5 --set copying.symbols=5")
    assert record["command"].endswith(f"--set copying.precision=float32 --out runs/copying/{COPIED}")
    assert record["summary"] == read_json(folder / "copying" / COPIED / "summary.json")


def test_a_record_of_a_corpus_has_what_the_tables_have(made: tuple[Path, str, str]) -> None:
    folder, _, _ = made
    record = read_json(folder / "records" / "dynamics" / f"{CORPUS}.json")
    assert record["command"].startswith(f"attnaudit study dynamics {CORPUS} --full --data-dir DATA --vectors VECTORS --set corpus.size=60")
    assert "--set dynamics.steps=0,2,5" in record["command"]
    whole = read_json(folder / "out" / CORPUS / "dynamics" / "summary.json")
    assert record["summary"] == [row for row in whole if row["group"] == "all" or row["group"].startswith("step:")]


def test_rows_outlive_their_folders_and_records(made: tuple[Path, str, str]) -> None:
    """Neither `--only`, a folder that is missing nor a record that is missing takes a row of other studies from the page."""
    folder, page, _ = made
    module, empty = script(), folder / "empty"
    (folder / "again.md").write_text(page, encoding="utf-8")
    for records in (folder / "records" / "dynamics", empty):
        with pytest.MonkeyPatch.context() as patch:
            settings = {
                "PAGE": folder / "again.md",
                "CORPORA": {CORPUS: TINY},
                "COPIED": {COPIED: COPYING},
                "RECORDS": folder / "records",
                "OF_CORPORA": records,
            }
            for name, value in settings.items():
                patch.setattr(module, name, value)
            patch.setattr("sys.argv", ["dynamics_tables.py", "--out", str(empty), "--copying", str(empty), "--only", COPIED, "--done"])
            module.main()
        assert (folder / "again.md").read_text(encoding="utf-8") == page


def test_a_record_keeps_its_commit_until_its_numbers_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script()
    records = importlib.import_module("records")
    place, found = tmp_path / "copying" / "iid.json", []
    for commit, summary in (("one", [{"value": 1}]), ("two", [{"value": 1}]), ("three", [{"value": 2}])):
        monkeypatch.setattr(records, "commit", lambda commit=commit: commit)
        records.save(place, "attnaudit study copying iid", summary)
        found.append(records.load(place)["commit"])
    assert found == ["one", "one", "three"]


def test_every_record_of_the_page_is_of_the_study_that_it_names() -> None:
    module = script()
    for record in module.RECORDS.glob("*.json"):
        ours, today = module.load(record)["command"], module.command_of(record.stem)
        assert ours.replace(" --full", "") == today.replace(" --full", "")  # the full scale was once the default
        assert re.fullmatch(r"[0-9a-f]{9}", module.load(record)["commit"])


@pytest.mark.parametrize(
    ("steps", "shown"),
    [
        ([0, 10, 50, 100, 150, 200, *range(250, 4001, 250)], [0, 10, 50, 250, 1000, 4000]),
        ([0, 10, 50, 100, 150, 200, *range(250, 1001, 250)], [0, 10, 50, 250, 1000]),
        ([0, 5], [0, 5]),
        ([7], [7]),
    ],
)
def test_the_steps_that_are_shown(steps: list[int], shown: list[int]) -> None:
    assert script().steps_shown(steps) == shown


def test_the_settings_are_the_corpus_share_of_the_other_studies_and_its_own(tmp_path: Path) -> None:
    from argparse import Namespace

    module = script()
    options = Namespace(data_dir=tmp_path, vectors=tmp_path / "glove.txt")
    spec = module.spec_of("imdb", options)
    assert (spec.base.corpus.train_kept, spec.base.corpus.test_kept) == (0.1, 0.05)
    assert (spec.study.seeds, spec.study.probe, spec.study.steps[-1]) == (3, 100, 1000)
    assert module.spec_of("sst", options).study.probe == 500
