"""The trace: a table with a row per attention distribution, all that an analysis may know of a model.

Schema version 1; `docs/trace.md` describes every column for programs that write traces of their own.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from attnaudit.core.errors import TraceError
from attnaudit.core.files import atomic
from attnaudit.core.ragged import Ragged
from attnaudit.stats.measures import predicted_class
from attnaudit.trace.readout import IdentityTail, Readout, Tail, TanhTail
from attnaudit.trace.schema import arrow_type, check_rows, conform, is_ours

SCHEMA = 1
METADATA_KEY = b"attnaudit"
ASKING = ("question_answering", "inference")  # tasks whose text is read with a question or a hypothesis
SEVERAL = ("layer", "head", "query")  # with one of these an instance has several rows
ROW_KEYS = ("split", "instance", *SEVERAL)  # the columns that name a row
TAIL_FILE = "tail.safetensors"
PIECE = 1 << 25  # bytes of a file, uncompressed, that are read at a time


@dataclass(frozen=True)
class Trace:
    """Rows of attention with what each position contributes to the output.

    ``table`` follows the schema of `docs/trace.md`; ``metadata`` holds at least ``activation`` and ``tail``.
    Use `Trace.read`, `Trace.shards` or `Trace.from_arrays` to make one: they check every row and raise TraceError.
    """

    table: pa.Table
    metadata: dict[str, Any]
    tail: Tail = field(default_factory=IdentityTail)

    def __repr__(self) -> str:
        corpus, classes = self.metadata.get("corpus"), ", ".join(self.class_names)
        origin = f" of {corpus['name']}" if isinstance(corpus, Mapping) and "name" in corpus else ""
        columns = ", ".join(self.table.column_names)
        return f"Trace{origin}: {len(self)} rows, {len(self.alpha.values)} positions; classes {classes or 'unnamed'}; columns {columns}"

    @classmethod
    def from_arrays(
        cls,
        *,
        activation: str,
        class_names: Sequence[str],
        metadata: dict[str, Any] | None = None,
        tail: Tail | None = None,
        origin: str = "trace",
        **columns: Any,
    ) -> Trace:
        """A checked trace of arrays: `Ragged` for columns with a value per position, arrays or lists for the others.

        Required: ``instance`` (n), ``tokens`` (lists of strings), ``alpha`` (T), ``readout`` (T, P), ``offset`` (n, P) and
        ``prediction`` (n, C). ``tokens`` of a row with T positions must have T entries. Raises TraceError.
        """
        tail = IdentityTail() if tail is None else tail
        arrays = {name: _to_arrow(name, value) for name, value in columns.items() if value is not None}
        kind = "identity" if isinstance(tail, IdentityTail) else "tanh_mlp"
        full = {"schema": SCHEMA, "activation": activation, "tail": kind, "class_names": list(class_names), **(metadata or {})}
        return cls(pa.table(arrays), full, tail).checked(origin)

    @classmethod
    def read(cls, path: str | Path) -> Trace:
        """The whole trace of a folder of shards, or of one Parquet file. Raises TraceError."""
        shards = list(cls.shards(path))
        return concatenate(shards)

    @classmethod
    def shards(cls, path: str | Path) -> Iterator[Trace]:
        """The trace piece by piece, its files in the order of their names, large ones some `PIECE` bytes at a time. Raises TraceError."""
        files = trace_files(Path(path))
        return _of_one_model(files)

    @classmethod
    def columns(cls, path: str | Path, names: Sequence[str]) -> Iterator[Trace]:
        """The same pieces with these columns alone, those that are there, and no row checked: for a trace that was checked before."""
        for file in trace_files(Path(path)):
            for piece in _pieces(file, names):
                yield replace(piece, table=conform(piece.table, str(file), needed=()))

    def write(self, folder: str | Path) -> Path:
        """Write the trace as one shard of ``folder`` and return its path; see `write_shards` for many."""
        return write_shards(folder, [self])[0]

    def checked(self, origin: str, first_row: int = 0) -> Trace:
        """This trace in the exact types of the schema, every row checked, ``metadata["residual"]`` set.

        Errors count rows from ``first_row``.
        """
        table = conform(self.table, origin, first_row)
        residual = check_rows(Trace(table, self.metadata, self.tail), origin, first_row)
        return Trace(table, {**self.metadata, "residual": max(residual, float(self.metadata.get("residual") or 0.0))}, self.tail)

    def __len__(self) -> int:
        return self.table.num_rows

    def has(self, *names: str) -> bool:
        """Whether all these columns are there."""
        return all(name in self.table.column_names for name in names)

    def ragged(self, name: str) -> Ragged:
        """A column with a value per position; a null row has length 0."""
        array = self.table.column(name).combine_chunks()
        values = array.flatten()
        flat = _numpy_rows(values)
        lengths = array.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
        return Ragged.from_lengths(flat, lengths)

    def array(self, name: str) -> np.ndarray:
        """A column with one value, or one fixed-size row of values, per trace row; null becomes -1."""
        array = self.table.column(name).combine_chunks()
        if pa.types.is_dictionary(array.type):
            array = array.cast(pa.string())
        if pa.types.is_integer(array.type):
            array = array.fill_null(-1)
        return _numpy_rows(array)

    @property
    def task(self) -> str | None:
        """What the model was trained for, as the metadata tell."""
        return _task(self.metadata)

    @property
    def instance(self) -> np.ndarray:
        return self.array("instance")

    @cached_property
    def alpha(self) -> Ragged:
        """Attention in float64, every row rescaled to sum to 1 exactly."""
        alpha = self.ragged("alpha")
        values = alpha.values.astype(np.float64)
        total = alpha.with_values(values).sum()
        return alpha.with_values(values / alpha.spread(total))

    @cached_property
    def readout(self) -> Readout:
        """The function ``alpha -> prediction`` of these rows."""
        contribution = self.ragged("readout")
        return Readout(
            contribution=contribution.with_values(contribution.values.astype(np.float64)),
            offset=self.array("offset").astype(np.float64),
            activation=self.metadata["activation"],
            tail=self.tail,
            candidates=self.candidates,
        )

    @property
    def prediction(self) -> np.ndarray:
        """Probabilities as the model gave them, float64 ``(n, C)``."""
        return self.array("prediction").astype(np.float64)

    @property
    def candidates(self) -> np.ndarray | None:
        """Answers allowed, bool ``(n, C)``; None where all are."""
        if not self.has("candidates"):
            return None
        rows = self.table.column("candidates").to_pylist()
        classes = self.array("prediction").shape[1]
        return np.array([[True] * classes if row is None else row for row in rows], dtype=bool).reshape(-1, classes)

    @property
    def class_names(self) -> list[str]:
        outputs = self.table.schema.field("prediction").type.list_size
        names = self.metadata.get("class_names")
        return list(names) if names else [str(k) for k in range(max(outputs, 2))]

    @property
    def predicted(self) -> np.ndarray:
        """Predicted class of every row, int64 ``(n,)``."""
        return predicted_class(self.array("prediction"))

    def tokens(self, row: int) -> list[str]:
        return self.table.column("tokens")[row].as_py()

    def take(self, rows: np.ndarray) -> Trace:
        """The chosen rows, in the order given."""
        return Trace(self.table.take(pa.array(rows)).combine_chunks(), self.metadata, self.tail)


def concatenate(shards: Sequence[Trace]) -> Trace:
    """One trace of several shards of the same model."""
    first = shards[0]
    residual = max(float(shard.metadata.get("residual") or 0.0) for shard in shards)
    table = pa.concat_tables([shard.table for shard in shards], promote_options="permissive").combine_chunks()
    return Trace(table, {**first.metadata, "residual": residual}, first.tail)


def write_shards(folder: str | Path, shards: Iterable[Trace]) -> list[Path]:
    """Write ``part-00000.parquet``, … into ``folder``, each whole or not at all. Raises TraceError and RunError."""
    folder, written = Path(folder), []
    for number, shard in enumerate(shards):
        path = folder / f"part-{number:05d}.parquet"
        checked = shard.checked(str(path))
        if number == 0 and isinstance(shard.tail, TanhTail):
            with atomic(folder / TAIL_FILE) as temporary:
                save_file({"weight": shard.tail.weight, "bias": shard.tail.bias}, temporary)
        metadata = {METADATA_KEY: json.dumps(checked.metadata, sort_keys=True).encode()}
        with atomic(path) as temporary:
            pq.write_table(checked.table.replace_schema_metadata(metadata), temporary, compression="zstd")
        written.append(path)
    return written


def trace_files(path: Path) -> list[Path]:
    """The Parquet files of a trace: the file itself, a folder's shards, or those of the ``trace`` folder of a run."""
    if path.is_file():
        return [path]
    folder = path / "trace" if (path / "trace").is_dir() else path
    files = sorted(folder.glob("*.parquet"))
    if not files:
        got = "no .parquet file there" if folder.is_dir() else "no such file or folder"
        raise TraceError("read trace", str(path), got, "a trace folder, one shard or a run directory")
    return files


def trace_task(path: str | Path) -> str | None:
    """The `Trace.task` of the trace at ``path``, without reading its rows. Raises TraceError."""
    file = trace_files(Path(path))[0]
    with _readable(file):
        return _task(_metadata(pq.read_metadata(file).metadata, file))


def trace_rows(path: str | Path) -> int:
    """How many rows the trace at ``path`` has, without reading them. Raises TraceError."""
    count = 0
    for file in trace_files(Path(path)):
        with _readable(file):
            count += pq.read_metadata(file).num_rows
    return count


def _task(metadata: dict[str, Any]) -> str | None:
    corpus = metadata.get("corpus")
    return corpus.get("task") if isinstance(corpus, dict) else None


def _of_one_model(files: Sequence[Path]) -> Iterator[Trace]:
    """The shards of ``files``, refused where they differ in what is fixed within a trace."""
    fixed: dict[str, Any] = {}
    for file in files:
        for shard in _checked_pieces(file):
            for name, value in _fixed(shard).items():
                if fixed.setdefault(name, value) != value:
                    got, expected = f"{name} {value}", f"{name} {fixed[name]}, as in {files[0].name}"
                    raise TraceError("read trace", str(file), got, expected, "put the shards of each model into a folder of their own")
            yield shard


def _fixed(shard: Trace) -> dict[str, Any]:
    """What all shards of a trace share."""
    schema = shard.table.schema
    columns = sorted(name for name in schema.names if is_ours(name))
    widths = {name: schema.field(name).type.list_size for name in ("offset", "prediction")}
    return {
        "activation": shard.metadata["activation"], "tail": shard.metadata["tail"],
        **{f"numbers a row of {name}": width for name, width in widths.items()},
        "class names": ", ".join(shard.class_names), "columns": ", ".join(columns),
    }  # fmt: skip


def _checked_pieces(path: Path) -> Iterator[Trace]:
    done = 0
    for piece in _pieces(path):
        yield piece.checked(str(path), done)
        done += len(piece)


def _pieces(path: Path, names: Sequence[str] | None = None) -> Iterator[Trace]:
    """A file of a trace as it stands there, or some of its columns; one piece without a row where it has none."""
    with _readable(path):
        file = pq.ParquetFile(path)
        metadata, schema = _metadata(file.metadata.metadata, path), file.schema_arrow.remove_metadata()
        tail, rows = _tail(metadata, path), file.metadata.num_rows
        if rows == 0:
            yield Trace(schema.empty_table(), metadata, tail)
        size = sum(file.metadata.row_group(k).total_byte_size for k in range(file.num_row_groups))
        columns = [name for name in schema.names if names is None or name in names]
        for piece in file.iter_batches(max(rows * PIECE // max(size, 1), 1), columns=columns):
            yield Trace(pa.Table.from_batches([piece]).replace_schema_metadata(None), metadata, tail)


@contextlib.contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        reason = " ".join(str(error).split())
        raise TraceError("read trace", str(path), reason, "a Parquet file", "write the trace again") from error


def _metadata(stored: Mapping[bytes, bytes] | None, path: Path) -> dict[str, Any]:
    raw = (stored or {}).get(METADATA_KEY)
    expected = "JSON under the Parquet metadata key 'attnaudit' with schema, activation and tail"
    if raw is None:
        raise TraceError("read trace", str(path), "no metadata key 'attnaudit'", expected, "see docs/trace.md")
    try:
        metadata = json.loads(raw)
    except ValueError as error:
        raise TraceError("read trace", str(path), f"metadata that is no JSON ({error})", expected, "see docs/trace.md") from error
    allowed = {"schema": [SCHEMA], "activation": ["sigmoid", "softmax"], "tail": ["identity", "tanh_mlp", "replay"]}
    for key, values in allowed.items():
        if not isinstance(metadata, dict) or metadata.get(key) not in values:
            got = metadata.get(key) if isinstance(metadata, dict) else metadata
            raise TraceError("read trace", str(path), f"metadata {key} = {got!r}", f"one of {values}", "see docs/trace.md")
    return {key: value for key, value in metadata.items() if key != "residual"}  # the check of the rows finds it anew


def _tail(metadata: dict[str, Any], path: Path) -> Tail:
    if metadata["tail"] == "identity":
        return IdentityTail()
    if metadata["tail"] == "replay":
        raise TraceError("read trace", str(path), "tail 'replay'", "a tail that is stored with the trace", "collect it from its model")
    try:
        weights = load_file(path.parent / TAIL_FILE)
        return TanhTail(weights["weight"].astype(np.float64), weights["bias"].astype(np.float64))
    except (OSError, SafetensorError, KeyError) as error:
        raise TraceError("read trace", str(path.parent / TAIL_FILE), str(error), "tensors 'weight' (C, P) and 'bias' (C)") from error


def _to_arrow(name: str, value: Any) -> pa.Array:
    if isinstance(value, Ragged):
        values = np.ascontiguousarray(value.values)
        inner = pa.array(values.reshape(-1))
        if values.ndim == 2:
            inner = pa.FixedSizeListArray.from_arrays(inner, values.shape[1])
        return pa.ListArray.from_arrays(pa.array(value.offsets.astype(np.int32)), inner)
    if isinstance(value, np.ndarray) and value.ndim == 2:
        return pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(value).reshape(-1)), value.shape[1])
    known = arrow_type(name)
    return pa.array(value, type=known) if known is not None and not isinstance(value, np.ndarray) else pa.array(value)


def _numpy_rows(array: pa.Array) -> np.ndarray:
    if pa.types.is_fixed_size_list(array.type):
        return array.flatten().to_numpy(zero_copy_only=False).reshape(len(array), array.type.list_size)
    return array.to_numpy(zero_copy_only=False)
