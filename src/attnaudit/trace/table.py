"""The trace: one row per attention distribution, and all that an analysis may know of a model.

`docs/trace.md` describes every column for programs that write their own traces.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from attnaudit.core import TraceError, expanded, printable
from attnaudit.core.display import Shown, render
from attnaudit.core.given import named_outputs, plain_metadata, whole
from attnaudit.core.ragged import Ragged
from attnaudit.stats.measures import predicted_class
from attnaudit.trace.check import check_rows
from attnaudit.trace.files import (
    read_pieces,
    remove_other_shards,
    scan_shard,
    task_of,
    trace_files,
    with_question,
    write_shard,
    write_tail,
)
from attnaudit.trace.keys import keys_of, repeated, repeated_in
from attnaudit.trace.readout import Readout, candidates_of, readout_of, rescaled_alpha
from attnaudit.trace.schema import (
    ATTENTION,
    SHOWN,
    array_column,
    column_of,
    conform,
    is_read,
    lengths_of,
    ragged_column,
    required_columns,
    series_of,
    width_of,
)
from attnaudit.trace.tails import GraphTail, IdentityTail, Network, Tail, tail_metadata


@dataclass(frozen=True)
class Trace:
    """Rows of attention, with the contribution of each position to the output.

    Make a trace with `Trace.read`, `Trace.shards` or `Trace.from_arrays`, which check every row.

    Attributes:
        table: Columns of `docs/trace.md`.
        metadata: At least ``activation`` and ``tail``.
        tail: Computation from the weighted sum to the logits, or the model itself, a `Network`.
    """

    table: pl.DataFrame
    metadata: dict[str, Any]
    tail: Tail | Network = field(default_factory=IdentityTail)

    def __repr__(self) -> str:
        corpus = self.metadata.get("corpus")
        origin = f" of {corpus['name']}" if isinstance(corpus, Mapping) and "name" in corpus else ""
        positions = f", {self.lengths.sum():,} positions" if self.has("tokens") else ""
        classes = f"; classes {', '.join(self.class_names)}" if self.has("prediction") else ""
        columns = ", ".join(self.table.columns)
        rows = f"{len(self):,} rows{positions}{classes}"
        return printable(f"Trace{origin}: {rows}; columns {columns}")

    def _repr_html_(self) -> str:
        return render("trace_html", self)

    def heatmap(self, instance: int | None = None, results: Any = None) -> Shown:
        """Shade a text by its attention, by gradient and by leave-one-out.

        Args:
            instance: Id of a text; each of its rows gets a picture. By default the first text.
            results: Results of this trace, which add the attention of the adversary.

        Returns:
            HTML for a notebook, and text with a bar behind each token for a terminal.

        Raises:
            InputError: If the instance is unknown, or the results are of another trace.
            TypeError: If an argument has the wrong type.
        """
        return render("heatmap_of", self, instance, results)

    def playground(self, instance: int | None = None, results: Any = None) -> Shown:
        """Show a text and the output, with weights that a reader can change.

        Args:
            instance: Id of a text; by default the first.
            results: Results of this trace. Without them, the adversary and the ranges of the rows
                are computed.

        Raises:
            InputError: If the instance is unknown, or the results are of another trace.
            TypeError: If an argument has the wrong type.
        """
        return render("playground_of", self, instance, results)

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
        """Make a checked trace of n rows from columns, each an argument with its name.

        Row i has T_i positions, each position has P numbers of readout, and the model has C
        outputs. "n arrays" means a list of numpy arrays, or a `Ragged`. Floats of any width are
        stored as float32, integers as int64 or int32. The required columns are

        - ``instance``: (n,) integers, the ids of the texts;
        - ``tokens``: n lists of T_i strings;
        - ``alpha``: n arrays (T_i,), 0 or more, sum 1;
        - ``readout``: n arrays (T_i, P), contributions with all attention on a position;
        - ``offset``: (n, P); ``prediction``: (n, C), probabilities.

        A trace of scores lacks ``alpha``, ``readout`` and ``offset``. The optional columns are
        ``gradient``, ``loo``, ``alpha_gradient`` and ``importance_<name>``, n arrays (T_i,);
        ``rationale`` and ``special``, n lists of T_i booleans; ``label`` (n,), from 0; ``split``
        and ``stack``, n strings; ``question``, n lists of strings; ``candidates``, n lists of C
        booleans; ``layer``, ``head``, ``query`` (n,); ``word_id``, n lists of T_i integers;
        ``sink`` (n,) booleans; ``first_key`` (n,); ``ids``, ``type_ids`` and ``written_ids``, n
        lists of integers. In columns that `docs/trace.md` calls nullable, None means unknown. Any
        other column is stored unchanged.

        Args:
            activation: ``sigmoid`` or ``softmax``.
            class_names: Names of the max(C, 2) classes.
            metadata: Further metadata.
            tail: Tail of the model; the identity if None. With a `GraphTail` the offset may be
                wider than the readout, (n, Q): the readout is added from column ``head`` · P on.
            origin: Name of the trace in errors.
            **columns: Columns by name; None means no such column.

        Raises:
            TraceError: If a column is missing or has the wrong shape, type or length, a number is
                not finite, ``alpha`` is no distribution, or ``prediction`` is farther than 1e-4
                (TVD) from ``activation(tail(offset + Σ_t alpha_t · readout_t))``.
        """
        tail = IdentityTail() if tail is None else tail
        given = {name: values for name, values in columns.items() if values is not None}
        series = []
        for name, values in given.items():
            try:
                series.append(series_of(name, values))
            except (
                *(pl.exceptions.PolarsError, pl.exceptions.PanicException),
                *(ValueError, TypeError, OverflowError),
            ) as error:
                where, reason = f"{origin}: column {name}", str(error).strip().partition("\n")[0]
                expected = "what docs/trace.md says of it"
                raise TraceError("make trace", where, reason, expected) from error
        for one in series:
            if len(one) != len(series[0]):
                got = f"{len(one)} rows"
                expected = f"{len(series[0])}, as {series[0].name} has"
                raise TraceError("make trace", f"{origin}: column {one.name}", got, expected)
        has_attention = any(name in given for name in ATTENTION)
        of_tail = tail_metadata(tail) if has_attention else {"tail": "none"}
        newer = [column for column in map(column_of, given) if column and column.since > 1]
        full = {
            # The first version that has all its columns and tails, as more programs can read it.
            "schema": 2 if newer or of_tail["tail"] in ("onnx", "replay") else 1,
            "activation": activation,
            **of_tail,
            "class_names": named_outputs("make trace", f"{origin}: class_names", class_names),
            **plain_metadata(
                "make trace", {} if metadata is None else metadata, f"{origin}: metadata"
            ),
        }
        return cls(pl.DataFrame(series), full, tail).checked(origin)

    @classmethod
    def read(cls, path: str | Path, replay: Network | None = None) -> Trace:
        """Read a whole trace into memory.

        Args:
            path: A folder of shards, a run directory or one Parquet file.
            replay: Model of a trace that stores no tail.

        Raises:
            TraceError: For the same faults as `shards`.
        """
        return concatenate(list(cls.shards(path, replay)))

    @classmethod
    def shards(
        cls, path: str | Path, replay: Network | None = None, fixed: Mapping[str, Any] | None = None
    ) -> Iterator[Trace]:
        """Read and check a trace piece by piece, with files in the order of their names.

        Args:
            path: A folder of shards, a run directory or one Parquet file.
            replay: Model of a trace that stores no tail.
            fixed: Value of `fixed` in another shard of the same trace, which all must share.

        Raises:
            TraceError: If a file is no trace, a row breaks the schema, two rows have the same keys,
                shards are of different models, or the model is missing.
        """
        files = trace_files(path)
        first, twice = dict(fixed or {}), repeated_in(files)
        tail: Tail | Network = IdentityTail()
        for file in files:
            expected = "as in the first file" if fixed else f"as in {files[0].name}"
            first_row = 0
            for table, metadata, own in read_pieces(file, replay=replay):
                # One loaded graph serves all shards.
                tail = tail if isinstance(tail, GraphTail) and own == tail else own
                shard = cls(table, metadata, tail).checked(str(file), first_row)
                first_row += table.height
                for name, value in shard.fixed.items():
                    if first.setdefault(name, value) != value:
                        do = "put the shards of each model into a folder of their own"
                        expected = f"{name} {first[name]}, {expected}"
                        raise TraceError("read trace", str(file), f"{name} {value}", expected, do)
                # A file of another model is the better reason, so a repeated row is raised last.
                if twice is None:
                    yield shard
        if twice is not None:
            raise twice

    @classmethod
    def columns(cls, path: str | Path, names: Collection[str]) -> Iterator[Trace]:
        """Read some columns of a trace piece by piece, without checking rows.

        Args:
            path: A folder of shards, a run directory or one Parquet file.
            names: Columns to read; missing ones are skipped.

        Raises:
            TraceError: If a file is no trace.
        """
        for file in trace_files(path):
            for table, metadata, tail in read_pieces(file, names):
                yield cls(conform(table, str(file), needed=()), metadata, tail)

    @classmethod
    def first(cls, path: str | Path) -> Trace:
        """Read the first piece of a trace, without checking rows and without its model."""
        file = trace_files(path)[0]
        return next(cls.columns(file, scan_shard(file).collect_schema()))

    def write(self, folder: str | Path) -> Path:
        """Write the trace as one shard of ``folder`` and return its path; see `write_shards`."""
        return write_shards(folder, [self])[0]

    def checked(self, origin: str, first_row: int = 0) -> Trace:
        """Check all rows and cast them to the schema.

        Args:
            origin: Name of the trace in errors.
            first_row: Number that errors give to the first row.

        Returns:
            The trace in the schema's types. Its ``metadata["residual"]`` is the largest TVD between
            readout and prediction over all rows checked so far.

        Raises:
            TraceError: For the first fault.
        """
        needed = required_columns(self.metadata["tail"])
        table = conform(self.table, origin, first_row, needed)
        residual = check_rows(table, self.metadata, self.tail, origin, first_row)
        if twice := repeated(keys_of(table), [origin] * table.height):
            raise twice
        metadata = with_question(self.metadata, table.columns)
        metadata["residual"] = max(residual, float(self.metadata.get("residual") or 0.0))
        return Trace(table, metadata, self.tail)

    def __len__(self) -> int:
        return self.table.height

    def has(self, *names: str) -> bool:
        """Return True if the trace has all these columns."""
        return all(name in self.table.columns for name in names)

    def ragged(self, name: str) -> Ragged:
        """Return a column with a value per position as rows; a null row has length 0."""
        return ragged_column(self.table[name])

    def array(self, name: str) -> np.ndarray:
        """Return a column with one value, or one vector, per row; a null number becomes -1."""
        return array_column(self.table[name])

    @property
    def fixed(self) -> dict[str, Any]:
        """Facts that all shards of one trace share: activation, tail, classes, columns, types."""
        schema = self.table.schema
        types = {name: kind for name, kind in schema.items() if name.startswith("input_")}
        return {
            "activation": self.metadata["activation"],
            "tail": self.metadata["tail"],
            **{
                f"numbers a row of {name}": width_of(self.table, name)
                for name in ("offset", "prediction")
                if self.has(name)
            },
            "class names": ", ".join(self.class_names),
            "columns": ", ".join(sorted(filter(is_read, schema))),
            **{f"type of column {name}": kind for name, kind in types.items()},
        }

    @property
    def task(self) -> str | None:
        """Task of the model, such as ``classification``; None if unknown."""
        return task_of(self.metadata)

    @cached_property
    def instance(self) -> np.ndarray:
        """Id of every row's text, int64 ``(n,)``."""
        return self.array("instance")

    @cached_property
    def lengths(self) -> np.ndarray:
        """Number of positions of every row, int64 ``(n,)``."""
        return lengths_of(self.table["tokens"])

    @property
    def heatmap_column(self) -> str:
        """Column of the heatmap that is judged: ``importance_shown``, else ``alpha``."""
        return name if self.has(name := f"importance_{SHOWN}") else "alpha"

    @cached_property
    def shown(self) -> Ragged:
        """The heatmap that is judged, in float64, with every row rescaled to sum to 1."""
        return rescaled_alpha(self.table, self.heatmap_column)

    @cached_property
    def alpha(self) -> Ragged:
        """Attention in float64, with every row rescaled to sum to 1."""
        return rescaled_alpha(self.table)

    @cached_property
    def readout(self) -> Readout:
        """Function from attention to the predictions of these rows."""
        return readout_of(self.table, self.metadata["activation"], self.tail)

    def predict(self, alpha: Ragged | Sequence[Any]) -> np.ndarray:
        """Predict under other attention weights.

        ``trace.predict([np.full(T, 1 / T) for T in trace.lengths])`` is for uniform attention.

        Args:
            alpha: Weights of every row, n arrays (T_i,): 0 or more, with a sum of 1.

        Returns:
            Probabilities, float64 ``(n, C)``.

        Raises:
            TraceError: If the weights have other lengths, or are no distribution, or the trace has
                scores alone.
        """
        if not self.has(*ATTENTION):
            raise TraceError("predict", "trace", "no attention (tail none)", "a trace with alpha")
        rows = alpha if isinstance(alpha, Ragged) else Ragged.from_rows(list(alpha), np.float64)
        if rows.lengths.tolist() != self.lengths.tolist():
            got, expected = f"{len(rows)} rows of {len(rows.values)} weights", "one for each token"
            raise TraceError("predict", "alpha", got, f"{expected} of {len(self)} rows")
        wrong = (rows.with_values(~(rows.values >= 0)).sum() > 0) | ~(abs(rows.sum() - 1) <= 1e-4)
        if wrong.any():
            where = f"alpha, instance {self.instance[wrong.argmax()]}"
            got = f"{rows[int(wrong.argmax())].tolist()!r:.60}"
            raise TraceError("predict", where, got, "0 or more, with a sum of 1")
        return self.readout(rows)

    @property
    def prediction(self) -> np.ndarray:
        """Probabilities that the model gave, float64 ``(n, C)``."""
        return self.array("prediction").astype(np.float64)

    @property
    def candidates(self) -> np.ndarray | None:
        """Allowed answers, bool ``(n, C)``; None if all are allowed."""
        return candidates_of(self.table)

    @property
    def class_names(self) -> list[str]:
        """Names of the classes; their numbers if the metadata name none."""
        names = self.metadata.get("class_names")
        outputs = width_of(self.table, "prediction")
        return list(names) if names else [str(k) for k in range(max(outputs, 2))]

    @cached_property
    def predicted(self) -> np.ndarray:
        """Predicted class of every row, int64 ``(n,)``."""
        return predicted_class(self.array("prediction"))

    def cell(self, name: str, row: int) -> Any:
        """Return one value as a Python object; None for a null. Raises InputError for no row."""
        row = whole("read trace", "row", row, -len(self), len(self) - 1)
        return self.table[name].slice(row, 1).to_list()[0]

    def tokens(self, row: int) -> list[str]:
        """Return the tokens of a row. Raises InputError for no row."""
        return self.cell("tokens", row)

    def take(self, rows: np.ndarray) -> Trace:
        """Return the chosen rows, in the order given. Raises TraceError for other numbers."""
        chosen = np.asarray(rows)
        if chosen.size and (
            chosen.dtype.kind not in "iu" or not 0 <= chosen.min() <= chosen.max() < len(self)
        ):
            got, expected = f"{rows!r:.60}", f"numbers of rows, 0 to {len(self) - 1}"
            raise TraceError("take rows", "rows", got, expected, "a mask: np.flatnonzero(mask)")
        return Trace(self.table[rows], self.metadata, self.tail)


def concatenate(shards: Sequence[Trace]) -> Trace:
    """Join shards of the same model. Raises TraceError if the types of a column differ."""
    first = shards[0]
    residual = max(float(shard.metadata.get("residual") or 0.0) for shard in shards)
    try:
        # Columns that the schema does not know may be missing in some shards; they become null.
        table = pl.concat([shard.table for shard in shards], how="diagonal_relaxed", rechunk=True)
    except pl.exceptions.PolarsError as error:
        schemas = [shard.table.schema for shard in shards]
        names = [name for name in first.table.columns if len({s.get(name) for s in schemas}) > 1]
        reason = " ".join(str(error).split())
        expected = "one type of each column in all shards"
        raise TraceError("read trace", f"column {', '.join(names)}", reason, expected) from error
    return Trace(table, {**first.metadata, "residual": residual}, first.tail)


def write_shards(folder: str | Path, shards: Iterable[Trace]) -> list[Path]:
    """Write ``part-00000.parquet``, … into ``folder``, replacing any trace there.

    Args:
        folder: Folder of the trace; it is made if it does not exist.
        shards: Traces of one model; each is checked, and written whole or not at all.

    Returns:
        Paths of the shards.

    Raises:
        TraceError: If a row breaks the schema.
        RunError: If a file cannot be written.
    """
    folder, written = expanded(folder), []
    for number, shard in enumerate(shards):
        path = folder / f"part-{number:05d}.parquet"
        checked = shard.checked(str(path))
        if number == 0:
            write_tail(folder, shard.tail)
        write_shard(path, checked.table, checked.metadata)
        written.append(path)
    if written:
        remove_other_shards(folder, written)
    return written
