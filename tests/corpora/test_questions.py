"""A user's own questions and rationales, in every format."""

import json
from typing import Any

import polars as pl
import pytest

from attnaudit.corpora.read import read_corpus

from .writing import refused, sizes

WHERE = ("in town", "at sea", "on land")
ROWS: list[dict[str, Any]] = [
    {
        "passage": f"Anna is {WHERE[row % 3]} . Bert is {WHERE[(row + 1) % 3]} , {'so ' * (row // 3)}they say .",
        "ask": f"Where is Anna {'now ' * (row // 3)}?",
        "answer": WHERE[row % 3].split()[1],
        "why": [[0, len(f"Anna is {WHERE[row % 3]}")]] if row else None,
    }
    for row in range(30)
]
COLUMNS: dict[str, Any] = {"text": "passage", "label": "answer", "question": "ask"}


def write(path, rows):
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif path.suffix == ".parquet":
        pl.DataFrame(rows).write_parquet(path)
    else:
        table = pl.DataFrame(rows).with_columns(why=pl.lit("[[0, 3]]"))
        table.write_csv(path, separator="," if path.suffix == ".csv" else "\t")
    return path


def changed(row, **cells):
    return [*ROWS[:row], ROWS[row] | cells, *ROWS[row + 1 :]]


def test_every_format_holds_the_same_questions(tmp_path):
    read = {
        kind: read_corpus(write(tmp_path / f"a.{kind}", ROWS), **COLUMNS)
        for kind in ("csv", "tsv", "jsonl", "parquet")
    }
    assert len({corpus.fingerprint for corpus in read.values()}) == 1
    corpus = read["csv"]
    assert corpus.task == "question_answering"
    assert corpus.class_names == ("land", "sea", "town")
    assert sizes(corpus) == [24, 3, 3]
    train = corpus.splits["train"]
    assert train.question is not None
    assert train.rationale is None
    assert all(question[:3] == ["where", "is", "anna"] for question in train.question)
    for tokens, label in zip(train.tokens, train.label, strict=True):
        assert tokens[3] == corpus.class_names[label]
    assert read_corpus(tmp_path / "a.csv", text="passage", label="answer").task == "classification"


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_rationales(tmp_path, kind):
    corpus = read_corpus(write(tmp_path / f"a.{kind}", ROWS), **COLUMNS, rationale="why")
    for split in corpus.splits.values():
        assert split.rationale is not None
        for row, tokens, marks in zip(split.instance, split.tokens, split.rationale, strict=True):
            assert marks == ([True] * 4 + [False] * (len(tokens) - 4) if row else [])
    plain = read_corpus(tmp_path / f"a.{kind}", **COLUMNS)
    assert [plain.splits[name].tokens for name in plain.splits] == [
        corpus.splits[name].tokens for name in corpus.splits
    ]
    assert plain.fingerprint != corpus.fingerprint


@pytest.mark.parametrize("kind", ["csv", "tsv"])
def test_a_table_has_no_rationales(tmp_path, kind):
    path = write(tmp_path / f"a.{kind}", ROWS)
    error = refused(path, **COLUMNS, rationale="why")
    assert (error.where, error.got) == (str(path), "a table without lists")


def test_one_column_has_one_use(tmp_path):
    path = write(tmp_path / "a.csv", ROWS)
    for name in ("passage", "answer"):
        error = refused(path, text="passage", label="answer", question=name)
        assert error.expected == "a column of its own"
        assert name in error.got
        assert "--column question=" in error.where
    error = refused(path, text="passage", label="answer", answer="answer")
    assert "--column answer=" in error.where, "the role that comes second is named"
    assert "--column question=" in refused(path, **COLUMNS | {"question": "asks"}).do


@pytest.mark.parametrize(
    ("cells", "got"),
    [
        ({"ask": None}, "no question (null)"),
        ({"ask": " "}, "an empty question"),
        ({"ask": 7}, "a question of type int"),
        ({"ask": "half \ud83d"}, "a question with invalid characters (U+D83D at character 5)"),
        ({"why": [[0, 1000]]}, "a rationale with '[0, 1000]' where [start, stop] in a text of "),
    ],
)
def test_bad_cells_are_bad_rows(tmp_path, cells, got):
    path = write(tmp_path / "a.jsonl", changed(2, **cells))
    error = refused(path, **COLUMNS, rationale="why")
    assert error.where == f"{path}: row 2 (line 3)"
    assert error.got.startswith(got)
    corpus = read_corpus(path, **COLUMNS, rationale="why", on_bad_row="skip")
    assert sum(sizes(corpus)) == 29
    assert corpus.skipped[0].reason.startswith(got)


def folder(path, train, test, dev=None):
    path.mkdir()
    for name, rows in (("train", train), ("test", test), ("dev", dev)):
        if rows:
            write(path / f"{name}.jsonl", rows)
    return path


def test_dev_may_have_one_class_where_epochs_are_chosen_by_accuracy(tmp_path):
    place = folder(tmp_path / "f", ROWS, ROWS, ROWS[:1])
    assert sizes(read_corpus(place, **COLUMNS)) == [30, 1, 30]
    error = refused(place, text="passage", label="answer")
    assert error.got == "only 1 row of class town for dev"
