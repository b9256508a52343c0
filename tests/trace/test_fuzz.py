"""Mutated traces, drawn by Hypothesis: types, nulls, nesting, shards, metadata. Each is read right or refused in one line."""

import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from attnaudit.core import AttnauditError, InputError
from attnaudit.recipes.audit import audit_into
from attnaudit.results import About
from attnaudit.trace import Trace
from tests.trace.test_faults import COLUMNS, METADATA, PLAIN, put

FURTHER = {
    "question": [["a", "b"]] * 3,
    "importance_x": COLUMNS["alpha"],
    "candidates": [[True, True]] * 3,
    "layer": [0, 1, 2],
}
KINDS = (
    pa.int8(), pa.uint64(), pa.float16(), pa.float64(), pa.decimal128(9, 3), pa.string(), pa.large_string(), pa.binary(), pa.bool_(),
    pa.null(), pa.timestamp("ns"), pa.date32(), pa.duration("s"), pa.dictionary(pa.int32(), pa.string()),
)  # fmt: skip
WRAPPERS = (
    pa.list_,
    pa.large_list,
    lambda kind: pa.list_(kind, 2),
    lambda kind: pa.struct([("a", kind)]),
    lambda kind: pa.map_(pa.string(), kind),
)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.floats(width=32)
    | st.text(max_size=3)
    | st.sampled_from(["\ud800", 10**30])
)
JSON = st.recursive(
    LEAVES,
    lambda parts: (
        st.lists(parts, max_size=3) | st.dictionaries(st.text(max_size=2), parts, max_size=3)
    ),
    max_leaves=6,
)
KINDS_DRAWN = st.recursive(
    st.sampled_from(KINDS),
    lambda kinds: st.builds(lambda wrap, kind: wrap(kind), st.sampled_from(WRAPPERS), kinds),
    max_leaves=3,
)


def emptied(value, draw):
    """A null, nothing or another length somewhere in a value."""
    if isinstance(value, list) and value and draw(st.integers(0, 2)):
        place = draw(st.integers(0, len(value) - 1))
        return [*value[:place], emptied(value[place], draw), *value[place + 1 :]]
    return draw(
        st.sampled_from(
            [None, [], [value], -1, 2.5, float("nan"), float("inf"), "a", [value, value]]
        )
    )


@st.composite
def tables(draw):
    columns = COLUMNS | FURTHER
    names = draw(st.lists(st.sampled_from(list(columns)), unique=True, max_size=2))
    kept = [name for name in columns if name not in names or draw(st.integers(0, 3))]
    arrays = [_array(draw, columns[name], name in names) for name in kept]
    if draw(st.integers(0, 9)) == 0:
        kept, arrays = [*kept, kept[0]], [*arrays, arrays[0]]
    return pa.table(arrays, names=kept)


def _array(draw, values, mutated):
    if not mutated:
        return pa.array(values)
    try:
        if draw(st.booleans()):
            return pa.array(values, type=draw(KINDS_DRAWN))
        return pa.array(
            emptied(values, draw)
            if draw(st.booleans())
            else [emptied(value, draw) for value in values]
        )
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return pa.nulls(3, draw(KINDS_DRAWN))  # such values have no such type


def put_mutated(draw, folder):
    """Write a mutated trace of one or two shards, one of which may have damaged bytes."""
    names = ["notes", "corpus", "class_names", "seed", "tail", "model", "activation", "schema"]
    for k in range(draw(st.integers(1, 2))):
        changed = draw(st.dictionaries(st.sampled_from(names), JSON, max_size=1))
        metadata = json.dumps({**METADATA, **changed}).encode()
        try:
            put(folder, draw(tables()), metadata, f"{k}.parquet")
        except (pa.ArrowException, ValueError):
            put(folder, COLUMNS, name=f"{k}.parquet")  # Parquet has no such type
    if draw(st.integers(0, 7)) == 0:
        file = folder / "0.parquet"
        content = bytearray(file.read_bytes())
        for _ in range(draw(st.integers(1, 4))):
            content[draw(st.integers(0, len(content) - 1))] = draw(st.integers(0, 255))
        file.write_bytes(content[: draw(st.sampled_from([len(content), len(content) // 2]))])


def check_mutated(draw, audited=False):
    """A mutated trace, its audit and its page are right, or refused in one line."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) / "trace"
        folder.mkdir()
        put_mutated(draw, folder)
        found = _read(folder)
        if isinstance(found, Trace) and audited:
            try:
                audit_into(Path(made) / "out", folder)
            except AttnauditError as error:
                found = str(error)
    if isinstance(found, Trace):
        _is_right(found)
    else:
        assert "\n" not in found
        found.encode()


@settings(
    max_examples=120, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
@given(st.data())
def test_a_mutated_trace_is_read_right_or_refused_in_one_line(data):
    check_mutated(data.draw)


@pytest.mark.slow
@settings(
    max_examples=15, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
@given(st.data())
def test_a_mutated_trace_is_audited_or_refused_in_one_line(data):
    check_mutated(data.draw, audited=True)


def _read(folder):
    """The trace, or the line that refuses it."""
    try:
        return Trace.read(folder)
    except InputError as error:
        return str(error)


def _is_right(trace):
    """The equation of a row holds, and everything that a page shows is text."""
    np.testing.assert_allclose(trace.readout(trace.alpha), trace.prediction, atol=2e-4)
    assert set(trace.instance[: len(PLAIN)]) <= set(range(-3, 10**6))
    about = About.of(None, trace.metadata)
    json.dumps(
        [about.title, about.class_names, about.notes, trace.class_names], ensure_ascii=False
    ).encode()
    for name in ("tokens", "question"):
        rows = trace.table[name].to_list() if trace.has(name) else []
        assert all(isinstance(word, str) for row in rows for word in row or ())


if __name__ == "__main__":
    # python -m tests.trace.test_fuzz COUNT SEED: audits mutated traces, and stops at the first fault.
    number, first = map(int, sys.argv[1:])
    chosen = settings(
        max_examples=number,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    seed(first)(chosen(given(st.data())(lambda data: check_mutated(data.draw, audited=True))))()
    print(f"{number} mutated traces of seed {first}: each audited, or refused in one line")
