"""Whatever a file holds, it is a corpus or an InputError of one printable line."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attnaudit.core.errors import InputError
from attnaudit.corpora import Corpus, read_corpus

from .writing import ROWS, encoded

few = settings(
    max_examples=50,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
KINDS = ("csv", "tsv", "jsonl", "parquet")
MARKS = [
    b'"',
    b",",
    b"\t",
    b";",
    b"\n",
    b"\r",
    b"\0",
    b"\xff\xfe",
    b"\x1b[2J",
    b"\xc3",
    b"PAR1",
    b"\x1f\x8b",
]
PIECES = [*MARKS, b"{", b"[" * 2000, b"null", b"1e999", b"\\ud800"]


def assert_read_or_refused(path: Path, **options: Any) -> None:
    try:
        corpus = read_corpus(path, **options)
    except InputError as error:
        line = str(error)
        assert line.startswith("read ")
        assert line.isprintable()
    else:
        assert isinstance(corpus, Corpus)
        assert all(note.isprintable() for note in corpus.notes)


@st.composite
def damaged(draw: st.DrawFn, kind: str) -> bytes:
    """A good file with bytes replaced, inserted or cut off."""
    content = encoded(kind, ROWS)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(content)))
        stop = at + draw(st.sampled_from([0, 0, 1, 8, len(content)]))
        content = (
            content[:at] + draw(st.sampled_from(PIECES) | st.binary(max_size=4)) + content[stop:]
        )
    return (
        gzip.compress(content)[: draw(st.sampled_from([None, -1, 12]))]
        if draw(st.booleans())
        else content
    )


@pytest.mark.parametrize("kind", KINDS)
@few
@given(data=st.data())
def test_damaged_files(tmp_path: Path, kind: str, data: st.DataObject) -> None:
    path = tmp_path / f"a.{kind}"
    path.write_bytes(data.draw(damaged(kind)))
    options: dict[str, st.SearchStrategy[Any]] = {"on_bad_row": st.sampled_from(["error", "skip"])}
    if kind != "parquet":
        options["encoding"] = st.sampled_from([None, "latin-1", "utf-16", "utf-7", "shift_jis"])
    if kind in ("csv", "tsv"):
        options["delimiter"] = st.sampled_from([None, ";", "tab", " ", "\0", "é"])
    assert_read_or_refused(path, **data.draw(st.fixed_dictionaries(options)))


numbers = st.sampled_from(
    [pa.int8(), pa.uint64(), pa.float16(), pa.float64(), pa.bool_(), pa.null()]
)
times = st.sampled_from(
    [
        pa.timestamp("ns"),
        pa.timestamp("s", "nowhere"),
        pa.date32(),
        pa.date64(),
        pa.time64("ns"),
        pa.duration("us"),
    ]
)
texts = st.sampled_from(
    [pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.binary(3)]
)
plain = numbers | times | texts | st.just(pa.decimal128(38, 2))
nested = st.recursive(
    plain,
    lambda kind: kind.map(pa.list_) | kind.map(lambda one: pa.struct([("a", one)])),
    max_leaves=3,
)


def column(kind: pa.DataType, fill: int, nulls: bool) -> pa.Array:
    """20 values of a type, made of bytes that are all ``fill``: numbers and times out of range, texts that are not UTF-8."""
    if pa.types.is_list(kind):
        return pa.ListArray.from_arrays(
            pa.array(range(21), pa.int32()), column(kind.value_type, fill, nulls)
        )
    if pa.types.is_struct(kind):
        return pa.StructArray.from_arrays([column(kind.field(0).type, fill, nulls)], ["a"])
    width = getattr(kind, "bit_width", 0) if pa.types.is_primitive(kind) else 0
    if width:
        mask = pa.py_buffer(b"\x55\x55\x55") if nulls else None
        return pa.Array.from_buffers(
            kind, 20, [mask, pa.py_buffer(bytes([fill]) * (20 * max(width, 8) // 8))]
        )
    if kind in (pa.string(), pa.binary()):
        ends = pa.array(range(0, 63, 3), pa.int32()).buffers()[1]
        return pa.Array.from_buffers(kind, 20, [None, ends, pa.py_buffer(bytes([fill]) * 60)])
    return pa.nulls(20, kind)


@few
@given(
    kind=nested,
    place=st.sampled_from(["text", "label", "rationale"]),
    fill=st.sampled_from([0, 1, 65, 127, 255]),
    nulls=st.booleans(),
)
def test_parquet_columns_of_any_type(
    tmp_path: Path, kind: pa.DataType, place: str, fill: int, nulls: bool
) -> None:
    columns: dict[str, Any] = {
        "text": [f"text {row}" for row in range(20)],
        "label": ["x", "y"] * 10,
        "rationale": [[[0, 2]]] * 20,
    }
    path = tmp_path / "a.parquet"
    try:
        pq.write_table(pa.table(columns | {place: column(kind, fill, nulls)}), path)
    except (pa.ArrowException, OverflowError):
        return  # arrow itself refuses such values
    assert_read_or_refused(path, rationale="rationale", on_bad_row="skip")
