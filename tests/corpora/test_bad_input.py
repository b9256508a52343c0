"""Every way in which a corpus can be bad gives one line: where, what was found, what was expected, what to do."""

import gzip
import json
import os
import time
from pathlib import Path

import pytest

from attnaudit.core import InputError
from attnaudit.corpora import CORPORA
from attnaudit.corpora.formats.rows import Columns, require_columns
from attnaudit.corpora.read import read_corpus

from .corpus_files import write_reviews, write_trees
from .writing import ROWS, bad_row, encoded, refused, write, write_folder

BAD_ROWS = [
    *((kind, (text, 1), "an empty text") for kind in ("csv", "jsonl", "parquet") for text in ("", "\u00a0\t")),
    ("csv", ("some text", ""), "no label"),
    ("csv", ("some text", "NaN"), "no label (NaN)"),
    ("tsv", ("some text", "null"), "no label (null)"),
    *((kind, ("some text", label), "no label") for kind in ("jsonl", "parquet") for label in (None, float("nan"))),
    ("jsonl", ("some text", [1]), "a label of type list"),
    ("jsonl", ("some text", "\udcff"), "a label with invalid characters (byte 0xff at character 0)"),
    ("jsonl", (None, 1), "no text (null)"),
    ("jsonl", (float("nan"), 1), "no text (null)"),
    ("jsonl", (7, 1), "a text of type int"),
    ("jsonl", ("half \ud83d", 1), "a text with invalid characters (U+D83D at character 5)"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "row", "got"), BAD_ROWS)
def test_a_bad_cell_costs_its_row(tmp_path, kind, row, got):
    path = write(tmp_path / f"a.{kind}", [*ROWS, row])
    assert bad_row(path, len(ROWS), got).where.startswith(f"{path}: row ")


@pytest.mark.parametrize(
    ("kind", "line", "got"),
    [
        ("jsonl", "{", "no JSON"),
        ("jsonl", "[1]", "a JSON list where an object was expected"),
        ("jsonl", "[" * 100_000, "no JSON"),
        ("jsonl", '{"text": "x"}', "no label"),
        ("csv", "a,b,0", "3 fields where the header has 2"),
        ("tsv", "only one field", "1 field where the header has 2"),
    ],
)
def test_a_bad_line_costs_its_row(tmp_path, kind, line, got):
    path = write(tmp_path / f"a.{kind}")
    before = path.read_text()
    path.write_text(f"{before}\n{line}\n")
    error = bad_row(path, len(ROWS), got)
    assert error.where.endswith(f"(line {before.count(chr(10)) + 2})")


@pytest.mark.parametrize(("kind", "line"), [("csv", 2), ("tsv", 2), ("jsonl", 1)])
def test_invalid_utf8_costs_its_row(tmp_path, kind, line):
    path = tmp_path / f"a.{kind}"
    path.write_bytes(encoded(kind, [("caf_ au lait", 1), *ROWS]).replace(b"caf_", b"caf\xe9"))
    error = bad_row(path, 0, "byte 0xe9 at character 3")
    assert error.where.endswith(f"(line {line})")
    assert "corpus.encoding" in error.do


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "parquet"])
def test_a_missing_column_is_named_with_those_that_are_there(tmp_path, kind):
    path = write(tmp_path / f"a.{kind}", ROWS, ("Text", "y"))
    error = refused(path)
    expected = (str(path), "columns Text, y", "columns 'text' and 'label'")
    assert (error.where, error.got, error.expected) == expected
    assert "--column text=Text --column label=NAME (text=, label= in Python)" in error.do
    assert refused(path, text="Text").expected == "one column 'label'"


def test_damaged_gzip(tmp_path):
    path = write(tmp_path / "a.csv.gz")
    whole = path.read_bytes()
    for content in (whole[:-20], whole[:40] + b"\xff" * 20 + whole[60:]):
        path.write_bytes(content)
        for how in ("error", "skip"):
            error = refused(path, on_bad_row=how)
            assert "damaged gzip" in error.got
            assert error.where.startswith(str(path))


def written(corpus):
    """All that a run writes down of a corpus but its words; fails if that is not UTF-8."""
    lines = [*corpus.notes, *(f"{row.file}: {row.reason}" for row in corpus.skipped)]
    return "\n".join(lines).encode("utf-8").decode("utf-8")


def test_a_file_of_a_folder_may_have_any_name(tmp_path):
    write_reviews(tmp_path / "imdb", 40)
    odd = os.fsencode(tmp_path / "imdb/train/pos") + b"/9\xff.txt"
    Path(os.fsdecode(odd)).write_bytes(b"a \xff film")
    corpus = read_corpus("imdb", data_dir=tmp_path, on_bad_row="skip")
    said = "pos/9\\udcff.txt: a text with invalid characters (byte 0xff at character 2)"
    assert said in written(corpus)


def test_a_place_whose_name_is_not_utf8(tmp_path, monkeypatch):
    place = tmp_path / os.fsdecode(b"f\xffilms")
    path = write(place / "a.csv")
    monkeypatch.setenv("ATTNAUDIT_DATA", str(place))
    for error in (refused(path), refused("sst", data_dir=place), refused("sst")):
        assert "a path with invalid characters (byte 0xff at character" in error.got


def test_open_quotation_mark(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('text,label\ngood,1\n"bad,0\nworse,0\n')
    error = refused(path, on_bad_row="skip")
    assert error.where == f"{path}: row that begins in line 3"
    assert "quotation marks" in error.do


def test_classes_that_cannot_be_learned(tmp_path):
    path = write(tmp_path / "a.csv", [(text, 1) for text, _ in ROWS])
    assert (refused(path).where, refused(path).got) == (str(path), "only rows of class 1")
    path = write(tmp_path / "b.csv", [(f"text {row}", f"score {row}") for row in range(50)])
    assert refused(path).got == "50 different labels in 50 rows"
    assert "--column label=" in refused(path).do
    assert "for dev too" in refused(write(tmp_path / "c.csv", ROWS[:4])).expected
    rare = [(f"text {row}", row // 10) for row in range(12)]
    assert refused(write(tmp_path / "d.csv", rare)).got == "only 1 row of class 0 for dev"
    folder = write_folder(tmp_path / "f", {"train": ROWS[:2], "test": ROWS})
    assert refused(folder).got.startswith("no dev file: 15 % of train, drawn by class")


def test_a_label_that_train_lacks(tmp_path):
    splits = {"train": ROWS, "dev": ROWS[:4], "test": [*ROWS[:4], ("odd", 2), ("more", 2)]}
    folder = write_folder(tmp_path / "f", splits)
    error = refused(folder)
    assert error.where.startswith(f"{folder / 'test.csv'}: row 4 ")
    assert error.got == "label '2' where 0, 1 was expected"
    corpus = read_corpus(folder, on_bad_row="skip")
    assert len(corpus.splits["test"]) == 4
    assert [skipped.row for skipped in corpus.skipped] == [4, 5]
    write(folder / "test.csv", [("odd", 2)])
    assert refused(folder, on_bad_row="skip").where == str(folder / "test.csv")


def test_a_class_that_dev_or_test_lacks(tmp_path):
    folder = write_folder(tmp_path / "f", {"train": ROWS, "dev": ROWS, "test": ROWS[:1]})
    assert "warning: test has no row of class 0" in read_corpus(folder).notes
    write(folder / "dev.csv", ROWS[:1])
    assert refused(folder).got == "only 1 row of class 1 for dev"


def test_folders(tmp_path):
    folder = write_folder(tmp_path / "f", {"dev": ROWS})
    assert refused(folder).got == "no train split among dev.csv"
    write(folder / "train.csv")
    assert refused(folder).got == "no test split among dev.csv, train.csv"
    write(folder / "train.jsonl.gz")
    assert refused(folder).got == "both train.csv and train.jsonl.gz"


def test_unknown_names_and_missing_files(tmp_path):
    error = refused("sts")
    assert (error.got, error.do) == ("an unknown corpus", "did you mean sst?")
    for name, entry in CORPORA.items():
        assert name in error.expected or entry.task == "translation"
    path = write(tmp_path / "films.csv")
    missing = refused(tmp_path / "film.csv")
    assert (missing.where, missing.do) == (str(tmp_path / "film.csv"), "did you mean films.csv?")
    assert "a file of format '.doc'" in refused(path.rename(tmp_path / "films.doc")).got


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.csv.gz"])
def test_empty_file(tmp_path, name):
    path = tmp_path / name
    for content in (b"", gzip.compress(b"")):
        path.write_bytes(content)
        assert (refused(path).where, refused(path).got) == (str(path), "an empty file")


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [
        ("on_bad_row", "skp", "one of error, skip"),
        ("min_df", 0, "1 or more"),
        ("test_kept", 0.0, "a number above 0, up to 1"),
        ("size", 60, "a corpus planted-<kind>"),
        ("question", "x", "a file or a folder of your own"),
    ],
)
def test_settings(option, value, expected, tmp_path):
    write_trees(tmp_path / "sst")
    error = refused("sst", data_dir=tmp_path, **{option: value})
    assert option in error.where
    assert error.expected == expected


def test_a_named_corpus_that_is_not_there(tmp_path, monkeypatch):
    error = refused("sst", data_dir=tmp_path)
    assert (error.where, error.got) == (str(tmp_path), "no folder sst, trees (--data-dir)")
    assert "attnaudit corpora fetch sst" in error.do
    monkeypatch.setenv("ATTNAUDIT_DATA", str(tmp_path))
    assert "($ATTNAUDIT_DATA)" in refused("sst").got
    monkeypatch.delenv("ATTNAUDIT_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert refused("sst").where == str(tmp_path / "attnaudit/corpora")


def test_a_json_array_is_read_as_its_rows_are(tmp_path):
    rows = [{"text": text, "label": label} for text, label in ROWS]
    path = tmp_path / "a.json"
    path.write_text(json.dumps(rows))
    lines = write(tmp_path / "a.jsonl")
    assert read_corpus(path).fingerprint == read_corpus(lines).fingerprint
    for wrong, got in (('["a"]', "a JSON str"), ("[{", "no JSON"), ("{}", "columns")):
        path.write_text(wrong)
        assert got in refused(path).got


def test_a_blank_before_a_quotation_mark_is_no_part_of_a_label(tmp_path):
    path = tmp_path / "a.csv"
    texts = [(str(text).replace('"', '""'), label) for text, label in ROWS]
    rows = "".join(f'"{text}, indeed", "{label}"\n' for text, label in texts)
    path.write_text(f'"text", "label"\n{rows}')
    assert set(read_corpus(path).class_names) == {str(label) for _, label in ROWS}


def test_classes_that_may_be_one_are_pointed_out(tmp_path):
    names = ["TRUE", "true", "01", "1"]
    path = write(tmp_path / "a.jsonl", [(f"text {k}", names[k % 4]) for k in range(80)])
    notes = " ".join(read_corpus(path).notes)
    assert "'TRUE' and 'true' are read as 2 classes" in notes
    assert "'01' and '1' are read as 2 classes" in notes


def test_a_column_that_is_missing_among_many_of_long_names_is_refused_at_once():
    """A comparison of two names takes up to the cube of their length."""
    names = [f"{number:0198b}" for number in range(2000)]
    started = time.process_time()
    with pytest.raises(InputError, match=r"one column 'x0*1'"):
        require_columns(Path("a.csv"), names, Columns(text=f"x{names[1]}", label=names[0]))
    assert time.process_time() - started < 3
