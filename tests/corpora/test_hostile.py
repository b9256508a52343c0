"""Files that are made to do harm, or that are something else than their name says, cost one line."""

import gzip
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from attnaudit.cli import main
from attnaudit.core import printable
from attnaudit.corpora.formats import lines
from attnaudit.corpora.read import read_corpus
from tests.trace.test_faults import endless

from . import hostile
from .writing import encoded, refused


def constant(value, rows):
    return pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array([value]))


@pytest.mark.parametrize(
    "table",
    [
        {"text": constant("long " * 1000, 900), "label": constant("x", 900)},
        {"text": constant("a", 90_000), "label": constant("x", 90_000)},
        {"text": ["a" * 2**24], "label": ["x"]},
        {"text": ["a"], "label": [[0] * 2**20]},
    ],
)
def test_a_parquet_file_of_more_than_its_size_allows(tmp_path, monkeypatch, table):
    monkeypatch.setattr(lines, "FREE", 1 << 16)
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table(table), path, compression="zstd")
    assert refused(path).where == str(path)
    assert refused(path).expected == "at most 200 times its size"


@pytest.mark.slow
@pytest.mark.parametrize(
    "content", [b"text,label\n" + (b"a," + b"b" * 9000 + b"\n") * 1000, b"\n" * 10**7]
)
def test_a_gzip_file_of_more_than_its_size_allows(tmp_path, monkeypatch, content):
    monkeypatch.setattr(lines, "FREE", 1 << 16)
    for name in ("a.csv.gz", "a.jsonl.gz"):
        path = tmp_path / name
        path.write_bytes(gzip.compress(content))
        error = refused(path, on_bad_row="skip")
        assert error.where.startswith(f"{path}: line ")
        assert error.expected == "at most 200 times its size"


@pytest.mark.parametrize("packed", [False, True])
def test_a_line_without_end(tmp_path, monkeypatch, packed):
    monkeypatch.setattr(lines, "LONGEST_LINE", 1 << 16)
    content = b"text,label\na," + bytes(range(32, 127)) * 1000
    path = tmp_path / "a.csv"
    path.write_bytes(gzip.compress(content) if packed else content)
    assert (refused(path).where, refused(path).expected) == (f"{path}: line 2", "shorter lines")


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.parquet", "a.jsonl"])
@pytest.mark.parametrize("make", [os.mkfifo, endless])
def test_a_pipe_and_a_device_are_refused_and_not_waited_for(tmp_path, name, make):
    path = tmp_path / name
    make(path)
    assert (refused(path).where, refused(path).expected) == (str(path), "a file")


def test_what_steers_a_terminal_is_shown_as_an_escape(tmp_path, capfd):
    path = tmp_path / "a\x1b[2J.csv"
    path.write_bytes(b"t\x1b[31m\x07,label\na,b\n")
    assert r"a\x1b[2J.csv: columns t\x1b[31m\x07, label" in str(refused(path))
    path.write_text("text,label\n" + "a text,good\na text,b\x9b31m\u202e\n" * 20)
    for more in ([], ["--json"]):
        assert main(["corpora", "check", str(path), *more]) == 0
        shown = capfd.readouterr()
        assert all(line.isprintable() for line in (shown.out + shown.err).splitlines())
        assert r"\u202e" in shown.out


def test_printable():
    assert printable("plain – ünïcode 漢字 שלום") == "plain – ünïcode 漢字 שלום"
    assert printable("a\x1b\n\udce9\u202e\U000e0001") == r"a\x1b\x0a\udce9\u202e\U000e0001"


@pytest.mark.parametrize("made", [hostile.read_file, hostile.unpack_archive])
def test_made_files_and_archives_are_read_or_refused_in_one_line(made):
    for number in range(12):
        outcome = hostile.outcome(made, f"0 {number}")
        assert outcome in ("read", "refused"), outcome


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 4))
def test_hundreds_of_made_files_and_archives(seed, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["hostile", "--seed", str(seed)])
    assert hostile.main() == 0, capsys.readouterr().out


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_long_and_many_names_of_columns(tmp_path, kind):
    names = ["txt", "l" * 200, *(f"label{number}" * 20 for number in range(3000))]
    path = tmp_path / f"a.{kind}"
    path.write_bytes(encoded(kind, [["a"] * len(names)] * 2, names))
    assert "--column text=txt" in refused(path).do
    assert "…" in refused(path).got


def test_many_empty_lines_and_an_enormous_cell(tmp_path):
    path = tmp_path / "a.csv"
    rows = "".join(f"a film {'so ' * (number == 7) * 10**6},{number % 2}\n" for number in range(40))
    path.write_text("text,label\n" + "\n" * 10**6 + rows)
    assert sum(len(split) for split in read_corpus(path).splits.values()) == 40


def test_an_array_in_utf_16_that_is_cut(tmp_path):
    path = tmp_path / "a.json"
    path.write_bytes('[{"text": "a film", "label": "b"}]'.encode("utf-16-le")[:-1])
    assert "truncated data" in refused(path, encoding="utf-16-le").got
