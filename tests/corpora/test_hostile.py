"""Files that are made to do harm, or that are something else than their name says, cost one line."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from attnaudit.cli import main
from attnaudit.core.errors import InputError
from attnaudit.core.printable import printable
from attnaudit.corpora import read_corpus
from attnaudit.corpora.fetch import fetch_corpus
from attnaudit.corpora.formats import lines, parquet

from .writing import ROWS, encoded

TEXTS = [f"text number {'so ' * row}long" for row in range(20)]
LABELS = ["x", "y"] * 10
DAYS = [2**30] * 20


def refused(path: Path, **options: Any) -> str:
    with pytest.raises(InputError) as caught:
        read_corpus(path, **options)
    line = str(caught.value)
    assert line.isprintable()
    return line


@pytest.mark.parametrize(
    "kind",
    [
        pa.timestamp("ns"),
        pa.timestamp("us"),
        pa.date32(),
        pa.duration("ns"),
        pa.time64("ns"),
        pa.list_(pa.timestamp("ns")),
    ],
    ids=str,
)
@pytest.mark.parametrize("column", ["text", "label"])
def test_parquet_columns_that_are_no_texts(tmp_path: Path, kind: pa.DataType, column: str) -> None:
    """Most of these values are beyond what Python's own types can hold."""
    values = (
        [[2**62]] * 20
        if pa.types.is_list(kind)
        else DAYS
        if kind == pa.date32()
        else [2**62 + row for row in range(20)]
    )
    path = tmp_path / "a.parquet"
    pq.write_table(
        pa.table({"text": TEXTS, "label": LABELS} | {column: pa.array(values, kind)}), path
    )
    assert f"column '{column}': " in refused(path)


def constant(value: str, rows: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array([value]))


def test_a_parquet_file_of_more_than_its_size_allows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "FREE", 1 << 16)
    monkeypatch.setattr(parquet, "_FREE_ROWS", 1000)
    path = tmp_path / "a.parquet"
    pq.write_table(
        pa.table({"text": constant("long " * 1000, 900), "label": constant("x", 900)}),
        path,
        compression="zstd",
    )
    assert "characters in" in refused(path)
    pq.write_table(pa.table({"text": constant("a", 9000), "label": constant("x", 9000)}), path)
    assert "9000 rows in" in refused(path)
    pq.write_table(pa.table({"text": ["a" * 2**24], "label": ["x"]}), path, compression="zstd")
    assert "unpacked bytes in" in refused(path)


def test_a_gzip_file_of_more_than_its_size_allows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "FREE", 1 << 16)
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"text,label\n" + (b"a," + b"b" * 9000 + b"\n") * 1000))
    line = refused(path, on_bad_row="skip")
    assert f"{path}: line " in line
    assert "at most 200 times its size" in line
    (whole := tmp_path / "a.jsonl.gz").write_bytes(gzip.compress((b" " * 9000 + b"\n") * 1000))
    assert "at most 200 times its size" in refused(whole)


@pytest.mark.parametrize("packed", [False, True])
def test_a_line_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: bool) -> None:
    monkeypatch.setattr(lines, "LONGEST_LINE", 1 << 16)
    content = b"text,label\na," + bytes(range(32, 127)) * 1000
    path = tmp_path / "a.csv"
    path.write_bytes(gzip.compress(content) if packed else content)
    assert f"{path}: line 2: more than 65536 bytes; expected shorter lines" in refused(path)


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_empty_lines_without_end(tmp_path: Path, end: bytes) -> None:
    """A packed file of half a megabyte may hold a hundred million of them."""
    (path := tmp_path / "a.csv").write_bytes(b"text,label\na,x\n" + end * 100_000 + b"b,y\n")
    assert len(list(lines.numbered_lines(path))) == 100_003
    path.write_bytes(b"text,label\na,x\n" + end * 100_001 + b"b,y\n")
    assert (
        f"{path}: line 100003: the last of more than 100000 empty lines; expected a file with rows"
        in refused(path)
    )


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.parquet", "a.jsonl"])
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_a_pipe_and_a_device_are_refused_and_not_waited_for(
    tmp_path: Path, name: str, kind: str
) -> None:
    path = tmp_path / name
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    assert (
        f"{path}: a pipe or a device, which cannot be read twice; expected a file; write what it gives into a file"
        in refused(path)
    )


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf_16_is_named(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(encoded("csv", ROWS).decode().encode(encoding))
    assert "a file in UTF-16; expected UTF-8" in refused(path)


def test_other_files_under_the_name_of_a_table_are_named(tmp_path: Path) -> None:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        archive.add(__file__, "a.py")
    (packed := tmp_path / "a.csv.gz").write_bytes(content.getvalue())
    assert "a tar archive; expected a file of texts; unpack it" in refused(packed)
    (table := tmp_path / "b.csv").write_bytes(b"PAR1" + bytes(100))
    assert "a parquet file; expected a file of texts" in refused(table)


def test_what_steers_a_terminal_is_shown_as_an_escape(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a\x1b[2J.csv"
    path.write_bytes(b"t\x1b[31m\x00\x07,label\na,b\n")
    assert r"a\x1b[2J.csv: columns t\x1b[31m\x00\x07, label" in refused(path)
    path.write_text("text,label\n" + "a text,good\na text,b\x9b31m\u202e\n" * 20)
    for more in ([], ["--json"]):
        assert main(["corpora", "check", str(path), *more]) == 0
        shown = capfd.readouterr()
        assert all(line.isprintable() for line in (shown.out + shown.err).splitlines())
        assert r"\u202e" in shown.out


@pytest.mark.parametrize("address", ["https://example.org/\udcff", "\x1b[2J"])
def test_addresses_are_shown_as_escapes(tmp_path: Path, address: str) -> None:
    with pytest.raises(InputError, match=r"fetch") as caught:
        fetch_corpus("imdb", tmp_path, address)
    assert str(caught.value).isprintable()


def test_printable() -> None:
    assert printable("plain – ünïcode 漢字 שלום") == "plain – ünïcode 漢字 שלום"
    assert printable("a\x1b\n\udce9\u202e\U000e0001") == r"a\x1b\x0a\udce9\u202e\U000e0001"
