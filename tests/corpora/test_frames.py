"""A table in memory is read as a file with the same rows is: the same corpus, the same errors."""

from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

from attnaudit import run
from attnaudit.core import InputError
from attnaudit.corpora.read import read_corpus

from .writing import ROWS, refused, sizes, write, write_folder

COLUMNS = {"text": [text for text, _ in ROWS], "label": [label for _, label in ROWS]}
HALF = {name: cells[:12] for name, cells in COLUMNS.items()}


def of_pandas(columns):
    frame = pytest.importorskip("pandas").DataFrame(columns)
    return frame.set_index(frame.index + 7)  # rows are known by position, whatever the index


def of_datasets(columns):
    return pytest.importorskip("datasets").Dataset.from_dict(columns)


KINDS = {
    "polars": pl.DataFrame, "lazy": lambda columns: pl.DataFrame(columns).lazy(), "pyarrow": pa.table, "pandas": of_pandas,
    "datasets": of_datasets,
}  # fmt: skip
kinds = pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)


@kinds
def test_a_table_is_read_as_a_file(make, tmp_path):
    corpus = read_corpus(make(COLUMNS))
    assert corpus.fingerprint == read_corpus(write(tmp_path / "a.jsonl")).fingerprint
    assert corpus.name == "frame"


@kinds
def test_a_mapping_is_read_as_a_folder(make, tmp_path):
    write_folder(tmp_path, {"train": ROWS, "test": ROWS[:12]})
    read = read_corpus({"train": make(COLUMNS), "Test": make(HALF), "unlabelled": None})
    assert read.fingerprint == read_corpus(tmp_path).fingerprint


@kinds
def test_bad_rows_and_columns_are_named(make):
    texts = [*COLUMNS["text"][:3], None, "  ", *COLUMNS["text"][5:]]
    table = make({"text": texts, "label": COLUMNS["label"]})
    assert refused(table).where.endswith(": row 3")
    assert refused(table).got == "no text (null)"
    skipped = read_corpus(table, on_bad_row="skip").skipped
    found = [(row.row, row.reason) for row in skipped]
    assert found == [(3, "no text (null)"), (4, "an empty text")]
    error = refused(table, text="Text")
    assert (error.got, error.expected) == ("columns text, label", "one column 'Text'")
    assert refused(table, encoding="latin-1").where == "setting corpus.encoding"


def test_what_pandas_has_for_missing_values_is_null_and_categories_are_their_names():
    pandas = pytest.importorskip("pandas")
    names = ["good" if label else "bad" for label in COLUMNS["label"]]
    gaps = pandas.array([None, *COLUMNS["label"][1:]])
    columns = {"text": COLUMNS["text"], "label": pandas.Categorical(names), "gaps": gaps}
    frame = pandas.DataFrame(columns)
    assert read_corpus(frame).class_names == ("bad", "good")
    assert refused(frame, label="gaps").where == "pandas.DataFrame: row 0"
    dates = frame.assign(label=pandas.Timestamp("2020-01-01"))
    assert refused(dates).where == "pandas.DataFrame: column 'label'"
    twice = pandas.DataFrame([["a", 1, "b"]], columns=["text", "label", "text"])
    assert refused(twice).expected == "each column once"


def test_labels_of_a_data_set_are_its_names():
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["neg", "pos"])}
    )
    train, test = (
        datasets.Dataset.from_dict(columns, features=features) for columns in (COLUMNS, HALF)
    )
    corpus = read_corpus(datasets.DatasetDict(train=train, validation=test, test=test))
    assert corpus.class_names == ("neg", "pos")
    assert sizes(corpus) == [24, 12, 12]
    unlabelled = datasets.Dataset.from_dict(HALF | {"label": [-1] * 12}, features=features)
    error = refused(datasets.DatasetDict(train=train, test=unlabelled))
    assert error.where == "datasets.DatasetDict/test: row 0"
    assert refused(datasets.DatasetDict(train=train)).got == "no test split among train"
    assert "into a Dataset" in refused(train.to_iterable_dataset()).do


@pytest.mark.parametrize("source", [3, None, ["a text"], {"train": 1, "test": 2}, {}])
def test_what_is_no_table_is_refused(source):
    assert refused(source).operation == "read corpus"


def test_a_run_keeps_the_table_in_a_file(tmp_path, monkeypatch):
    sources = []
    monkeypatch.setattr(
        "attnaudit.recipes.trained.run",
        lambda spec, out, progress, **_: sources.append(spec.corpus.source) or out,
    )
    whole, half = pl.DataFrame(COLUMNS), pl.DataFrame(HALF)
    for table in (whole, whole, half, {"train": whole, "test": half}):
        run(table, tmp_path / "mine", model="average")
    assert sources[0] == sources[1] != sources[2]
    for source, table in zip(sources[1:3], (whole, half), strict=True):
        assert read_corpus(source).fingerprint == read_corpus(table).fingerprint
    assert sorted(path.name for path in Path(sources[3]).iterdir()) == ["test.jsonl", "train.jsonl"]
    assert all(Path(source).name.startswith("mine-texts-") for source in sources)
    with pytest.raises(InputError, match="expected one column 'body'"):
        run(whole, tmp_path / "mine", text="body")
