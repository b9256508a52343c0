"""Hostile traces: whatever a file holds is read right or refused in one line."""

import contextlib
import json
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import save_file

from attnaudit.core import TraceError
from attnaudit.steps import trace_digests
from attnaudit.trace import TAIL_FILE, Trace
from attnaudit.trace.files import METADATA_KEY
from tests.forked import printed
from tests.traces import make_trace

PLAIN = make_trace(3, [3] * 3, 2, seed=1)
COLUMNS = PLAIN.table.to_dict(as_series=False)
METADATA = {"schema": 1, "activation": "softmax", "tail": "identity"}


def put(folder, columns, metadata=METADATA, name="a.parquet"):
    table = pa.table(columns) if isinstance(columns, dict) else columns
    stored = metadata if isinstance(metadata, bytes) else json.dumps(metadata).encode()
    pq.write_table(table.replace_schema_metadata({METADATA_KEY: stored}), folder / name)


def refused(folder, *parts):
    with pytest.raises(TraceError) as caught:
        Trace.read(folder)
    message = str(caught.value)
    assert "\n" not in message
    assert all(part in message for part in parts), message
    message.encode()


@pytest.mark.parametrize("name", [*COLUMNS, "note"])
def test_a_column_given_twice_is_refused(tmp_path, name):
    columns = {**COLUMNS, "note": ["a"] * 3}
    put(
        tmp_path,
        pa.table(
            [*map(pa.array, columns.values()), pa.array(columns[name])], names=[*columns, name]
        ),
    )
    refused(tmp_path, f"column {name}: 2 columns of this name")


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("instance", pa.array([True, False, True]), "one value a row: whole numbers"),
        ("instance", pa.array([1, 2, 3], pa.timestamp("ns")), "one value a row: whole numbers"),
        ("instance", ["10", "11", "12"], "one value a row: whole numbers"),
        ("alpha", [["0.5", "0.25", "0.25"]] * 3, "a list of values a row: numbers"),
        ("tokens", [[1, 2, 3]] * 3, "a list of values a row: text"),
        ("rationale", [["yes", "no", "no"]] * 3, "a list of values a row: true and false"),
        ("split", [1, 2, 3], "one value a row: text"),
        ("offset", [[0.0, 0.0], [0.0], [0.0, 0.0]], "the type of docs/trace.md"),
        ("readout", [[["1", "2"]] * 3] * 3, "a list of lists of values a row: numbers"),
    ],
)  # fmt: skip
def test_values_that_a_cast_would_take_for_others_are_refused(tmp_path, name, values, expected):
    put(tmp_path, {**COLUMNS, name: values})
    refused(tmp_path, f"column {name}: type", expected)


NAMES = (0, ["a"], ["a", "a"], ["a", " "], [0, 1], ["a", None], "ab", {"0": "a", "1": "b"})


@pytest.mark.parametrize(
    ("metadata", "part"),
    [
        (b"{", "no JSON"), (b"[]", "metadata schema"),
        ({"schema": 3}, "schema = 3; expected one of [1, 2]"), ({"schema": True}, "schema = True"),
        ({"activation": "relu"}, "activation = 'relu'"), ({"tail": "replay"}, "tail 'replay'"),
        ({"tail": "tanh_mlp"}, "tail.safetensors"), ({"name": 5}, "name = 5; expected a text"),
        ({"model": 7}, "model = 7; expected a text or an object"),
        ({"corpus": [1]}, "corpus = [1]; expected a text or an object"),
        ({"gate": 7}, "gate = 7; expected an object"),
        ({"versions": 7}, "versions = 7; expected an object"),
        ({"notes": ["\ud800"]}, "surrogates"), ({"corpus": {"name": "\udcff"}}, "surrogates"),
        *(({"class_names": names}, "metadata class_names") for names in NAMES),
    ],
)  # fmt: skip
def test_metadata_that_mean_nothing_or_that_no_page_can_show_are_refused(tmp_path, metadata, part):
    put(tmp_path, COLUMNS, metadata if isinstance(metadata, bytes) else METADATA | metadata)
    refused(tmp_path, part)


@pytest.mark.parametrize("depth", [40, 800, 100_000])
@pytest.mark.parametrize(("opened", "closed"), [("[", "]"), ('{"a":', "}")])
def test_metadata_nested_without_end_are_refused(tmp_path, depth, opened, closed):
    notes = opened * depth + "3" + closed * depth
    put(tmp_path, COLUMNS, (json.dumps(METADATA)[:-1] + f', "notes": {notes}}}').encode())
    refused(tmp_path, "metadata")


SPARE = {"question": [["who", "asks"]] * 3, "candidates": [None] * 3}


@pytest.mark.parametrize(
    ("name", "value", "parts"),
    [
        ("alpha", [1.5, -0.5, 0.0], ["-0.5", "0 or more"]),
        ("alpha", [0.5, 0.5, 0.5], ["1.5", "sum of 1"]),
        ("alpha", [float("nan"), 1.0, 0.0], ["nan", "finite"]),
        ("alpha", [], ["at least one position"]),
        ("readout", [[float("inf"), 0.0]] * 3, ["inf", "finite"]),
        ("tokens", ["a", "b"], [": 2;", "as many entries as alpha"]),
        ("tokens", ["a", None, "b"], ["no null within a row"]),
        ("prediction", [0.987, 0.013], ["readout(alpha)"]),
        ("prediction", [1.7, -0.7], ["1.7", "probabilities"]),
        ("label", 2, [": 2;", "0 to 1"]),
        ("question", ["who", None], ["no null within a row"]),
        ("candidates", [True], ["null or 2 entries"]),
        ("candidates", [False] * 2, ["at least one answer allowed"]),
        ("candidates", [True, None], ["no null within a row"]),
    ],
)
def test_what_breaks_the_schema_is_refused_by_row(tmp_path, name, value, parts, monkeypatch):
    """Whether the file is read whole or a row at a time."""
    columns = COLUMNS | SPARE
    put(tmp_path, columns | {name: [*columns[name][:2], value]})
    for piece in (1, 1 << 30):
        monkeypatch.setattr("attnaudit.trace.files.PIECE", piece)
        refused(tmp_path, f"a.parquet: column {name}, instance 2", *parts)


def test_text_that_is_not_utf_8_is_refused(tmp_path):
    words = pa.StringArray.from_buffers(
        9, pa.py_buffer(np.arange(10, dtype=np.int32)), pa.py_buffer(b"\xff" * 9)
    )
    table = pa.table(COLUMNS)
    tokens = pa.ListArray.from_arrays(pa.array([0, 3, 6, 9], pa.int32()), words)
    put(tmp_path, table.set_column(table.column_names.index("tokens"), "tokens", tokens))
    refused(tmp_path, "a.parquet", "invalid UTF-8")


@pytest.mark.parametrize("name", ["importance_x", "input_sufficiency_loo"])
@pytest.mark.parametrize("shard", [0, 1])
def test_a_column_that_one_shard_has_is_refused(tmp_path, name, shard):
    for k in range(2):
        further = {name: COLUMNS["alpha"]} if k == shard else {}
        put(tmp_path, COLUMNS | further, name=f"{k}.parquet")
    refused(tmp_path, "1.parquet", "columns", name)


def test_further_columns_of_two_types_are_refused_where_a_trace_is_read_whole(tmp_path):
    for k, note in enumerate(([{"a": 1}] * 3, [["a"]] * 3)):
        put(
            tmp_path,
            {**COLUMNS, "instance": [3 * k, 3 * k + 1, 3 * k + 2], "note": note},
            name=f"{k}.parquet",
        )
    assert [len(shard) for shard in Trace.shards(tmp_path)] == [3, 3]
    refused(tmp_path, "note", "one type of each column")


def test_rows_named_alike_are_refused(tmp_path):
    """In one shard and in two; with another split the same number is another text."""
    once = {"instance": [5, 6, 7], "split": ["test"] * 3}
    for again, split in (([8, 9, 8], "test"), ([8, 6, 9], "test"), ([5, 6, 7], "train")):
        put(tmp_path, {**COLUMNS, **once}, name="0.parquet")
        put(tmp_path, {**COLUMNS, "instance": again, "split": [split] * 3}, name="1.parquet")
        if split == "train":
            assert len(Trace.read(tmp_path)) == 6
        else:
            named = f"1.parquet: column instance, instance {8 if 6 not in again else 6}: several rows alike in split, instance"
            refused(tmp_path, named, "a row of its own for each")


def endless(path):
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("name", ["b.parquet", TAIL_FILE])
@pytest.mark.parametrize("make", [os.mkfifo, endless, Path.mkdir])
def test_only_regular_files_are_read(tmp_path, name, make):
    put(tmp_path, COLUMNS, {**METADATA, "tail": "tanh_mlp"})
    make(tmp_path / name)
    with pytest.raises(TraceError, match="no regular file"):
        trace_digests(tmp_path)
    refused(tmp_path, name, "no regular file")


@pytest.mark.parametrize(
    ("weight", "bias", "part"),
    [
        (np.full((2, 2), np.inf), np.zeros(2), "of finite numbers"), (np.zeros((2, 2)), np.full(2, np.nan), "of finite numbers"),
        (np.zeros(4), np.zeros(2), "(C, P)"), (np.zeros((2, 2)), np.zeros(3), "(C, P)"), (np.zeros((1, 0)), np.zeros(1), "(C, P)"),
        (np.zeros((2, 3)), np.zeros(2), "matching sizes"),
        (np.full((2, 2), 1.7e308), np.full(2, 1.7e308), "column prediction"),
    ],
)  # fmt: skip
def test_a_tail_of_other_numbers_is_refused_in_one_line(tmp_path, weight, bias, part):
    put(tmp_path, COLUMNS, {**METADATA, "tail": "tanh_mlp"})
    save_file({"weight": weight, "bias": bias}, tmp_path / TAIL_FILE)
    refused(tmp_path, part)


def test_a_softmax_of_one_class_is_refused(tmp_path):
    one = make_trace(3, [3] * 3, 1, seed=1)
    put(tmp_path, one.table.to_dict(as_series=False))
    refused(tmp_path, "column prediction: a softmax of one class", "the activation sigmoid")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gradient", "loo", "importance_x", "readout", "offset"])
def test_the_largest_numbers_of_a_column_give_no_warning(tmp_path, name):
    most = 3e38
    columns = {**COLUMNS, "importance_x": COLUMNS["alpha"]}
    outputs = {"offset": [[most, -most]] * 3, "readout": [[[most, -most]] * 3] * 3}
    columns[name] = outputs.get(name, [[most, -most, most]] * 3)
    if name in outputs:
        columns["prediction"] = [[1.0, 0.0]] * 3
    put(tmp_path, columns, {**METADATA, "schema": 2})
    program = "import sys; from attnaudit.cli import main; sys.exit(main(sys.argv[1:]))"
    printed(program, "audit", tmp_path, "--out", tmp_path / "out")


def test_damaged_bytes_never_end_the_process(tmp_path):
    """Some lengths in a damaged page abort the reader of Parquet; other bytes make it panic."""
    put(tmp_path, COLUMNS)
    file, rng = tmp_path / "a.parquet", np.random.default_rng(0)
    whole = file.read_bytes()
    for _ in range(25):
        damaged = bytearray(whole)
        for place in rng.integers(4, len(whole) - 8, 3):
            damaged[place] = rng.integers(256)
        file.write_bytes(damaged)
        with contextlib.suppress(TraceError):
            Trace.read(tmp_path)


def test_heads_of_one_text_in_two_files_are_refused(tmp_path):
    for head in (0, 1):
        columns = {**COLUMNS, "layer": [0] * 3, "head": [head] * 3}
        put(tmp_path, columns, {**METADATA, "schema": 2}, f"{head}.parquet")
    refused(tmp_path, f"instance {COLUMNS['instance'][0]}: heads of one text in several files")
    columns = {**COLUMNS, "layer": [0] * 3, "head": [1] * 3, "instance": [90, 91, 92]}
    put(tmp_path, columns, {**METADATA, "schema": 2}, "1.parquet")
    assert len(Trace.read(tmp_path)) == 6
