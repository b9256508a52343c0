"""Whatever a file holds, it is a corpus or an InputError of one printable line."""

import gzip
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attnaudit.core import InputError
from attnaudit.corpora.corpus import Corpus
from attnaudit.corpora.read import read_corpus

from .writing import ROWS, encoded

few = settings(
    max_examples=50,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
KINDS = ("csv", "tsv", "jsonl", "parquet")
# Single marks, bytes that are no UTF-8, beginnings of formats, and values of JSON.
PIECES = [
    *(bytes([byte]) for byte in b'",\t;\n\r\0{'),
    *(b"\xff\xfe", b"\x1b[2J", b"\xc3", b"PAR1", b"\x1f\x8b"),
    *(b"[" * 2000, b"null", b"1e999", b"\\ud800"),
]


def assert_read_or_refused(path, **options):
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
def damaged(draw, kind):
    """A good file with bytes replaced, inserted or cut off."""
    content = encoded(kind, ROWS)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(content)))
        stop = at + draw(st.sampled_from([0, 0, 1, 8, len(content)]))
        noise = draw(st.sampled_from(PIECES) | st.binary(max_size=4))
        content = content[:at] + noise + content[stop:]
    cut = draw(st.sampled_from([0, None, -1, 12]))
    return content if cut == 0 else gzip.compress(content)[:cut]


@pytest.mark.parametrize("kind", KINDS)
@few
@given(data=st.data())
def test_damaged_files(tmp_path, kind, data):
    path = tmp_path / f"a.{kind}"
    path.write_bytes(data.draw(damaged(kind)))
    options: dict[str, st.SearchStrategy[Any]] = {"on_bad_row": st.sampled_from(["error", "skip"])}
    if kind != "parquet":
        options["encoding"] = st.sampled_from([None, "latin-1", "utf-16", "utf-7", "shift_jis"])
    assert_read_or_refused(path, **data.draw(st.fixed_dictionaries(options)))


NESTED = [
    pa.array([2**62] * 20, pa.timestamp("ns")),
    pa.array([2**30] * 20, pa.date32()),
    pa.array([b"\xff\xfe"] * 20),
    pa.array([{"a": 1}] * 20),
    pa.array([[{"a": [1]}]] * 20),
    pa.array([[2**62]] * 20, pa.list_(pa.duration("us"))),
    pa.array([[[0, 2]]] * 19 + [None]),
    pa.array([1e300, float("nan")] * 10),
    pa.array([True, None] * 10),
    pa.array([1] * 20, pa.decimal128(38, 2)),
    pa.nulls(20),
    pa.Array.from_buffers(
        pa.string(),
        20,
        [None, pa.array(range(0, 63, 3), pa.int32()).buffers()[1], pa.py_buffer(b"\xff" * 60)],
    ),
]


@pytest.mark.parametrize("values", NESTED, ids=lambda values: str(values.type))
@pytest.mark.parametrize("place", ["text", "label", "rationale"])
def test_parquet_columns_of_any_type(tmp_path, values, place):
    columns = {
        "text": [f"text {row}" for row in range(20)],
        "label": ["x", "y"] * 10,
        "rationale": [[[0, 2]]] * 20,
    }
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table(columns | {place: values}), path)
    assert_read_or_refused(path, rationale="rationale", on_bad_row="skip")
