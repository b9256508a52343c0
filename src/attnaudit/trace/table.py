"""The trace: a table with a row per attention distribution, all that an analysis may know of a model; made, read and written.

Schema versions 1 and 2; `docs/trace.md` describes every column for programs that write traces of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from attnaudit.core.display import Shown, drawn
from attnaudit.core.errors import TraceError
from attnaudit.core.printable import printable
from attnaudit.core.ragged import Ragged
from attnaudit.stats.measures import predicted_class
from attnaudit.trace.check import check_rows
from attnaudit.trace.distinct import alike, alike_in_files, names_of
from attnaudit.trace.graph import GraphTail
from attnaudit.trace.io import (
    read_pieces,
    remove_others,
    task_of,
    trace_files,
    with_question,
    write_shard,
    write_tail,
)
from attnaudit.trace.readout import (
    IdentityTail,
    Network,
    Readout,
    Tail,
    TanhTail,
    readout_of,
    rescaled_alpha,
)
from attnaudit.trace.schema import (
    OF_TRANSFORMERS,
    array_column,
    arrow_type,
    candidates_column,
    conform,
    is_read,
    ragged_column,
)

ASKING = (
    "question_answering",
    "inference",
)  # tasks whose text is read with a question or a hypothesis
SEVERAL = ("layer", "head", "query")  # with one of these an instance has several rows
ROW_KEYS = ("split", "instance", *SEVERAL)  # the columns that name a row


@dataclass(frozen=True)
class Trace:
    """Rows of attention with what each position contributes to the output.

    ``table`` follows the schema of `docs/trace.md`; ``metadata`` holds at least ``activation`` and ``tail``.
    Use `Trace.read`, `Trace.shards` or `Trace.from_arrays` to make one: they check every row and raise TraceError.
    """

    table: pa.Table
    metadata: dict[str, Any]
    tail: Tail | Network = field(default_factory=IdentityTail)

    def __repr__(self) -> str:
        corpus = self.metadata.get("corpus")
        origin = f" of {corpus['name']}" if isinstance(corpus, Mapping) and "name" in corpus else ""
        positions = f", {len(self.ragged('alpha').values):,} positions" if self.has("alpha") else ""
        classes = f"; classes {', '.join(self.class_names)}" if self.has("prediction") else ""
        return printable(
            f"Trace{origin}: {len(self):,} rows{positions}{classes}; columns {', '.join(self.table.column_names)}"
        )

    def _repr_html_(self) -> str:
        return drawn("trace_html", self)

    def heatmap(self, instance: int, results: Any = None) -> Shown:
        """The text ``instance`` shaded by its attention, by gradient and by leave-one-out, a picture for each of its rows.

        With ``results`` of this trace also by the adversary's attention. In a terminal a bar behind each token. Raises InputError for an
        unknown instance, and for results of another trace; TypeError where either is something else.
        """
        return drawn("heatmap_of", self, instance, results)

    def playground(self, instance: int, results: Any = None) -> Shown:
        """The text ``instance`` with weights that a reader can change, and the output under them; for a notebook.

        Without ``results`` of this trace the adversary and the ranges of its rows are computed. Raises as `heatmap`.
        """
        return drawn("playground_of", self, instance, results)

    @classmethod
    def from_arrays(
        cls,
        *,
        activation: str,
        class_names: Sequence[str],
        metadata: dict[str, Any] | None = None,
        tail: Tail | Network | None = None,
        origin: str = "trace",
        **columns: Any,
    ) -> Trace:
        """A checked trace of n rows, each column an argument by its name in `docs/trace.md`; None is no column.

        Row i has T_i positions, each position P numbers of readout, and the model C outputs. Required:

        - ``instance``: (n,) integers, the ids of the texts;
        - ``tokens``: n lists of T_i strings;
        - ``alpha``: n arrays (T_i,), 0 or more, sum 1;
        - ``readout``: n arrays (T_i, P), what each position adds to the output where all attention is on it;
        - ``offset``: (n, P); ``prediction``: (n, C), probabilities.

        Optional: ``gradient``, ``loo`` and ``importance_<name>``, n arrays (T_i,); ``rationale``, n lists of T_i booleans; ``label``
        (n,), from 0; ``split``, n strings; ``question``, n lists of strings; ``candidates``, n lists of C booleans; ``layer``, ``head``,
        ``query`` (n,). None in a row of these is unknown; further columns are kept. "n arrays" is a list of numpy arrays, or a `Ragged`;
        numbers of any width are stored as float32 and int64 or int32.

        Of a transformer also: ``special``, n lists of T_i booleans; ``word_id``, n lists of T_i integers, −1 for none; ``stack``, n
        strings; ``sink`` (n,) booleans; ``first_key`` (n,), the place of the first token in the text; ``alpha_gradient``, n arrays (T_i,);
        ``ids``, ``type_ids`` and ``written_ids``, n lists of integers.

        ``activation`` is ``sigmoid`` or ``softmax``; ``class_names`` has max(C, 2) names; ``metadata`` adds to the metadata; ``tail``
        is the identity, a `TanhTail`, a `GraphTail` or a `Network`; ``origin`` is what errors call the trace. Behind a `GraphTail` the
        offset may be wider than the readout, (n, Q), which is then added to its numbers from ``head`` · P on.

        Raises TraceError with column, instance and row for a missing column, another shape or type, columns of different lengths, numbers
        that are not finite, an ``alpha`` that is no distribution, and a ``prediction`` farther than 1e-4 (TVD) from
        ``activation(tail(offset + Σ_t alpha_t · readout_t))``.
        """
        tail = IdentityTail() if tail is None else tail
        arrays = {
            name: _column(name, value, origin)
            for name, value in columns.items()
            if value is not None
        }
        _check_heights(arrays, origin)
        fixed = {"activation": activation, **_tail_metadata(tail), "class_names": list(class_names)}
        full = {"schema": _schema_of(fixed["tail"], arrays), **fixed, **(metadata or {})}
        return cls(pa.table(arrays), full, tail).checked(origin)

    @classmethod
    def read(cls, path: str | Path, replay: Network | None = None) -> Trace:
        """The whole trace of a folder of shards, or of one Parquet file; ``replay`` as in `shards`. Raises TraceError."""
        return concatenate(list(cls.shards(path, replay)))

    @classmethod
    def shards(
        cls, path: str | Path, replay: Network | None = None, fixed: Mapping[str, Any] | None = None
    ) -> Iterator[Trace]:
        """The trace piece by piece, its files in the order of their names, large ones some `PIECE` bytes at a time. Raises TraceError.

        ``replay`` is the model of a trace without a tail of its own, which is refused without it. ``fixed`` is that of another shard of the
        same trace.
        """
        return _of_one_model(trace_files(Path(path)), replay, fixed)

    @property
    def fixed(self) -> dict[str, Any]:
        """What all shards of one trace share: activation, tail, classes, and the columns with their types."""
        return _fixed(self)

    @classmethod
    def columns(cls, path: str | Path, names: Sequence[str]) -> Iterator[Trace]:
        """The trace piece by piece, only those of its columns that are among ``names``; rows are not checked. Raises TraceError."""
        for file in trace_files(Path(path)):
            for table, metadata, tail in read_pieces(file, names):
                yield cls(conform(table, str(file), needed=()), metadata, tail)

    @classmethod
    def first(cls, path: str | Path) -> Trace:
        """The first piece of the trace, for what it has; its rows are not checked, and a model that it lacks is not missed."""
        file = trace_files(Path(path))[0]
        return next(cls.columns(file, pq.read_schema(file).names))

    def write(self, folder: str | Path) -> Path:
        """Write the trace as one shard of ``folder`` and return its path; see `write_shards` for many."""
        return write_shards(folder, [self])[0]

    def checked(self, origin: str, first_row: int = 0) -> Trace:
        """This trace in the schema's types, all rows checked, ``metadata["residual"]`` set; errors count rows from ``first_row``."""
        table = conform(self.table, origin, first_row)
        residual = check_rows(table, self.metadata, self.tail, origin, first_row)
        if several := alike(names_of(table, ROW_KEYS), [origin] * table.num_rows):
            raise several
        metadata = with_question(self.metadata, table.column_names)
        return Trace(
            table,
            {**metadata, "residual": max(residual, float(self.metadata.get("residual") or 0.0))},
            self.tail,
        )

    def __len__(self) -> int:
        return self.table.num_rows

    def has(self, *names: str) -> bool:
        """Whether all these columns are there."""
        return all(name in self.table.column_names for name in names)

    def ragged(self, name: str) -> Ragged:
        """A column with a value per position; a null row has length 0."""
        return ragged_column(self.table, name)

    def array(self, name: str) -> np.ndarray:
        """A column with one value, or one fixed-size row of values, per trace row; null becomes -1."""
        return array_column(self.table, name)

    @property
    def task(self) -> str | None:
        """The task of the model, from the metadata: classification, question_answering, …; None where it is unknown."""
        return task_of(self.metadata)

    @property
    def instance(self) -> np.ndarray:
        return self.array("instance")

    @cached_property
    def alpha(self) -> Ragged:
        """Attention in float64, every row rescaled to sum to 1 exactly."""
        return rescaled_alpha(self.table)

    @cached_property
    def readout(self) -> Readout:
        """The function ``alpha -> prediction`` of these rows."""
        return readout_of(self.table, self.metadata["activation"], self.tail)

    @property
    def prediction(self) -> np.ndarray:
        """Probabilities as the model gave them, float64 ``(n, C)``."""
        return self.array("prediction").astype(np.float64)

    @property
    def candidates(self) -> np.ndarray | None:
        """Candidate answers, bool ``(n, C)``; None where all are allowed."""
        return candidates_column(self.table)

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
    """One trace of several shards of the same model. Raises TraceError for columns whose types do not go together."""
    first = shards[0]
    residual = max(float(shard.metadata.get("residual") or 0.0) for shard in shards)
    try:
        table = pa.concat_tables(
            [shard.table for shard in shards], promote_options="permissive"
        ).combine_chunks()
    except pa.ArrowException as error:
        raise TraceError(
            "read trace",
            "columns",
            " ".join(str(error).split()),
            "one type of each column in all shards",
        ) from error
    return Trace(table, {**first.metadata, "residual": residual}, first.tail)


def write_shards(folder: str | Path, shards: Iterable[Trace]) -> list[Path]:
    """Write ``part-00000.parquet``, … into ``folder``, each whole or not at all, in place of a trace that is there.

    Raises TraceError and RunError.
    """
    folder, written, tail = Path(folder), [], IdentityTail()
    for number, shard in enumerate(shards):
        path = folder / f"part-{number:05d}.parquet"
        checked = shard.checked(str(path))
        if number == 0 and isinstance(shard.tail, TanhTail | GraphTail):
            write_tail(folder, shard.tail)
        write_shard(path, checked.table, checked.metadata)
        written.append(path)
        tail = shard.tail
    if written:
        remove_others(folder, written, tail)
    return written


def _of_one_model(
    files: Sequence[Path], replay: Network | None, of_others: Mapping[str, Any] | None = None
) -> Iterator[Trace]:
    """The shards of ``files``, refused where they differ in what is fixed within a trace, or from that ``of_others``."""
    fixed, tail, several = dict(of_others or {}), None, alike_in_files(files, ROW_KEYS)
    for file in files:
        for shard in _checked_pieces(file, replay):
            if isinstance(tail, GraphTail) and shard.tail == tail:
                shard = Trace(
                    shard.table, shard.metadata, tail
                )  # what it has loaded serves all shards
            tail = shard.tail
            for name, value in _fixed(shard).items():
                if fixed.setdefault(name, value) != value:
                    got, expected = (
                        f"{name} {value}",
                        f"{name} {fixed[name]}, as in {'the first file' if of_others else files[0].name}",
                    )
                    raise TraceError(
                        "read trace",
                        str(file),
                        got,
                        expected,
                        "put the shards of each model into a folder of their own",
                    )
            if (
                several is None
            ):  # else shards of two models, which number their texts alike, are told from a text that is there twice
                yield shard
    if several is not None:
        raise several


def _fixed(shard: Trace) -> dict[str, Any]:
    """What all shards of a trace share."""
    schema = shard.table.schema
    return {
        "activation": shard.metadata["activation"],
        "tail": shard.metadata["tail"],
        **{
            f"numbers a row of {name}": schema.field(name).type.list_size
            for name in ("offset", "prediction")
        },
        "class names": ", ".join(shard.class_names),
        "columns": ", ".join(sorted(filter(is_read, schema.names))),
        **{
            f"type of column {name}": schema.field(name).type
            for name in schema.names
            if name.startswith("input_")
        },
    }


def _checked_pieces(path: Path, replay: Network | None) -> Iterator[Trace]:
    done = 0
    for table, metadata, tail in read_pieces(path, replay=replay):
        yield Trace(table, metadata, tail).checked(str(path), done)
        done += table.num_rows


def _tail_metadata(tail: Tail | Network) -> dict[str, Any]:
    """What the metadata say of a tail."""
    if isinstance(tail, GraphTail):
        return {"tail": "onnx", "tail_sha256": tail.sha256}
    kinds = {IdentityTail: "identity", TanhTail: "tanh_mlp"}
    return {"tail": kinds.get(type(tail), "replay")}


def _schema_of(tail: str, columns: Iterable[str]) -> int:
    """The first version of the schema that has all of it."""
    return (
        2 if tail in ("onnx", "replay") or any(name in OF_TRANSFORMERS for name in columns) else 1
    )


def _check_heights(arrays: Mapping[str, pa.Array], origin: str) -> None:
    rows = len(next(iter(arrays.values()), ()))
    for name, array in arrays.items():
        if len(array) != rows:
            raise TraceError(
                "make trace",
                f"{origin}: column {name}",
                f"{len(array)} rows",
                f"{rows}, as {next(iter(arrays))} has",
            )


def _column(name: str, value: Any, origin: str) -> pa.Array:
    try:
        return _to_arrow(name, value)
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        reason = " ".join(str(error).split())
        raise TraceError(
            "make trace", f"{origin}: column {name}", reason, "what docs/trace.md says of it"
        ) from error


def _to_arrow(name: str, value: Any) -> pa.Array:
    if (
        isinstance(value, list | tuple)
        and value
        and all(isinstance(row, np.ndarray) for row in value)
    ):
        value = Ragged.from_rows(value)
    if isinstance(value, Ragged):
        values = np.ascontiguousarray(value.values)
        inner = pa.array(values.reshape(-1))
        if values.ndim == 2:
            inner = pa.FixedSizeListArray.from_arrays(inner, values.shape[1])
        return pa.ListArray.from_arrays(pa.array(value.offsets.astype(np.int32)), inner)
    if isinstance(value, np.ndarray) and value.ndim == 2:
        return pa.FixedSizeListArray.from_arrays(
            pa.array(np.ascontiguousarray(value).reshape(-1)), value.shape[1]
        )
    known = arrow_type(name)
    return (
        pa.array(value, type=known)
        if known is not None and not isinstance(value, np.ndarray)
        else pa.array(value)
    )
