"""The files of a trace: Parquet shards with JSON metadata, and the weights of a tail."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from attnaudit.core.errors import TraceError
from attnaudit.core.files import atomic
from attnaudit.trace.graph import GRAPH_FILE, GraphTail
from attnaudit.trace.readout import IdentityTail, Network, Tail, TanhTail

SCHEMAS = (1, 2)
METADATA_KEY = b"attnaudit"
TAIL_FILE = "tail.safetensors"
_IN_WORDS = {str: "a text", dict: "an object"}
_KINDS: dict[str, tuple[type, ...]] = {
    "name": (str,),
    "model": (str, dict),
    "corpus": (str, dict),
    "versions": (dict,),
    "gate": (dict,),
}
PIECE = (
    1 << 24
)  # bytes of a file, uncompressed, that are read at a time; files since schema 2, of a few texts each, are read whole
_DEPTH = 32  # of lists and objects within each other in the metadata


def trace_files(path: Path) -> list[Path]:
    """The Parquet files of a trace: the file itself, a folder's shards, or those of the ``trace`` folder of a run."""
    if path.is_file():
        return [path]
    folder = path / "trace" if (path / "trace").is_dir() else path
    files = sorted(folder.glob("*.parquet"))
    if not files:
        got = (
            "no .parquet file there"
            if folder.is_dir()
            else "no regular file"
            if folder.exists()
            else "no such file or folder"
        )
        raise TraceError(
            "read trace", str(path), got, "a trace folder, one shard or a run directory"
        )
    return [_regular(file) for file in files]


def tail_file(folder: Path) -> Path | None:
    """The file of a trace's tail, None where there is none. Raises TraceError."""
    return next(
        (_regular(folder / name) for name in (TAIL_FILE, GRAPH_FILE) if (folder / name).exists()),
        None,
    )


def _regular(file: Path) -> Path:
    """``file``, unless it is a folder, a pipe or a device: reading one may never end."""
    if file.is_file():
        return file
    raise TraceError("read trace", str(file), "no regular file", "a file", "write the trace again")


def trace_task(path: str | Path) -> str | None:
    """The task of the trace at ``path``, read from its metadata alone. Raises TraceError."""
    return task_of(trace_metadata(path))


def trace_metadata(path: str | Path) -> dict[str, Any]:
    """What the trace at ``path`` says of itself, without reading its rows. Raises TraceError."""
    file = trace_files(Path(path))[0]
    with _readable(file):
        found = pq.read_metadata(file)
        return with_question(_metadata(found.metadata, file), found.schema.to_arrow_schema().names)


def trace_rows(path: str | Path) -> int:
    """How many rows the trace at ``path`` has, without reading them. Raises TraceError."""
    count = 0
    for file in trace_files(Path(path)):
        with _readable(file):
            count += pq.read_metadata(file).num_rows
    return count


def with_question(metadata: Mapping[str, Any], columns: Collection[str]) -> dict[str, Any]:
    """The metadata, with ``has_question`` where a column ``question`` says so and the metadata name no task."""
    return {
        **metadata,
        **({"has_question": True} if "question" in columns and task_of(metadata) is None else {}),
    }


def task_of(metadata: Mapping[str, Any]) -> str | None:
    """The task that the metadata name."""
    corpus = metadata.get("corpus")
    return corpus.get("task") if isinstance(corpus, dict) else None


def read_pieces(
    path: Path, names: Sequence[str] | None = None, replay: Network | None = None
) -> Iterator[tuple[pa.Table, dict[str, Any], Tail | Network]]:
    """Table, metadata and tail of a file, or of some columns, unchecked, about `PIECE` bytes at a time, one at least. Raises TraceError.

    ``replay`` is the model of a trace that has no tail of its own; for some columns it is not needed.
    """
    with _readable(path):
        file = pq.ParquetFile(path)
        metadata, schema = (
            _metadata(file.metadata.metadata, path),
            file.schema_arrow.remove_metadata(),
        )
        tail, rows = _tail(metadata, path, replay, needed=names is None), file.metadata.num_rows
        if rows == 0:
            yield schema.empty_table(), metadata, tail
        size = sum(file.metadata.row_group(k).total_byte_size for k in range(file.num_row_groups))
        columns = [name for name in schema.names if names is None or name in names]
        whole = (
            names is None and metadata["schema"] > 1
        )  # rows of the heads of a text stay together
        for piece in file.iter_batches(
            rows if whole else max(rows * PIECE // max(size, 1), 1), columns=columns
        ):
            yield pa.Table.from_batches([piece]).replace_schema_metadata(None), metadata, tail


def write_shard(path: Path, table: pa.Table, metadata: Mapping[str, Any]) -> None:
    """Write a shard whole or not at all. Raises RunError."""
    stored = {METADATA_KEY: json.dumps(metadata, sort_keys=True).encode()}
    with atomic(path) as temporary:
        pq.write_table(table.replace_schema_metadata(stored), temporary, compression="zstd")


def write_tail(folder: Path, tail: TanhTail | GraphTail) -> None:
    """Write the weights of a tail, or its graph, next to the shards. Raises RunError."""
    if isinstance(tail, GraphTail):
        if tail.path != folder / GRAPH_FILE:
            with atomic(folder / GRAPH_FILE) as temporary:
                shutil.copyfile(tail.path, temporary)
        return
    with atomic(folder / TAIL_FILE) as temporary:
        save_file({"weight": tail.weight, "bias": tail.bias}, temporary)


def remove_others(folder: Path, shards: Sequence[Path], tail: Tail | Network) -> None:
    """Remove what an earlier trace has left in the folder of these shards with this tail: it would be read as a part of it."""
    own = {TAIL_FILE: TanhTail, GRAPH_FILE: GraphTail}
    earlier = [folder / name for name, kind in own.items() if not isinstance(tail, kind)]
    for path in (*earlier, *set(folder.glob("part-*.parquet")) - set(shards)):
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise TraceError(
            "read trace", str(path), reason, "a Parquet file", "write the trace again"
        ) from error


def _metadata(stored: Mapping[bytes, bytes] | None, path: Path) -> dict[str, Any]:
    raw = (stored or {}).get(METADATA_KEY)
    expected = "JSON under the Parquet metadata key 'attnaudit' with schema, activation and tail"
    if raw is None:
        raise TraceError(
            "read trace", str(path), "no metadata key 'attnaudit'", expected, "see docs/trace.md"
        )
    try:
        metadata = json.loads(raw)
        _check_depth(metadata, _DEPTH)
        json.dumps(
            metadata, ensure_ascii=False
        ).encode()  # JSON can escape halves of characters, which no file takes
    except (ValueError, RecursionError) as error:
        raise TraceError(
            "read trace",
            str(path),
            f"metadata that is no JSON ({error})",
            expected,
            "see docs/trace.md",
        ) from error
    allowed = {
        "schema": list(SCHEMAS),
        "activation": ["sigmoid", "softmax"],
        "tail": ["identity", "tanh_mlp", "onnx", "replay"],
    }
    for key, values in allowed.items():
        got = metadata.get(key) if isinstance(metadata, dict) else metadata
        if got not in values or isinstance(got, bool):  # True equals 1
            raise TraceError(
                "read trace",
                str(path),
                f"metadata {key} = {got!r}",
                f"one of {values}",
                "see docs/trace.md",
            )
    for key, kinds in _KINDS.items():
        if not isinstance(found := metadata.get(key), (*kinds, type(None))):
            got, words = (
                f"metadata {key} = {found!r}",
                " or ".join(_IN_WORDS[kind] for kind in kinds),
            )
            raise TraceError("read trace", str(path), got, words, "see docs/trace.md")
    return {
        key: value for key, value in metadata.items() if key != "residual"
    }  # checking the rows computes it again


def _check_depth(value: Any, most: int) -> None:
    if most == 0:
        raise ValueError(f"lists and objects more than {_DEPTH} deep")
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            _check_depth(part, most - 1)


def _tail(
    metadata: dict[str, Any], path: Path, replay: Network | None, needed: bool
) -> Tail | Network:
    if metadata["tail"] == "identity" or (metadata["tail"] == "replay" and not needed):
        return IdentityTail()
    if metadata["tail"] == "replay":
        return _network(metadata, path, replay)
    if metadata["tail"] == "onnx":
        digest = metadata.get("tail_sha256")
        if not isinstance(digest, str) or tail_file(path.parent) != path.parent / GRAPH_FILE:
            if isinstance(digest, str):
                expected = f"the graph of the tail of {path.name}"
                raise TraceError(
                    "read trace",
                    str(path.parent / GRAPH_FILE),
                    "no such file",
                    expected,
                    "copy it with the shards",
                )
            expected = f"the digest of {GRAPH_FILE}"
            raise TraceError(
                "read trace", str(path), f"tail_sha256 {digest!r}", expected, "see docs/trace.md"
            )
        return GraphTail(path.parent / GRAPH_FILE, digest)
    try:
        weights = load_file(tail_file(path.parent) or path.parent / TAIL_FILE)
        weight, bias = (weights[name].astype(np.float64) for name in ("weight", "bias"))
        shaped = weight.ndim == 2 and weight.size > 0 and bias.shape == weight.shape[:1]
        if not (shaped and np.isfinite(weight).all() and np.isfinite(bias).all()):
            raise ValueError(
                f"shapes {weight.shape} and {bias.shape}, or numbers that are not finite"
            )
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
        reason, expected = (
            " ".join(str(error).split()),
            "tensors 'weight' (C, P) and 'bias' (C) of finite numbers",
        )
        raise TraceError("read trace", str(path.parent / TAIL_FILE), reason, expected) from error
    return TanhTail(weight, bias)


def _network(metadata: Mapping[str, Any], path: Path, replay: Network | None) -> Network:
    """The model of a trace that is replayed. Raises TraceError without one, and for another."""
    model = metadata.get("model")
    fingerprint = model.get("fingerprint") if isinstance(model, dict) else None
    if replay is None:
        expected = "its model, which is run again for every attention"
        raise TraceError(
            "read trace",
            str(path),
            "tail 'replay' and no model",
            expected,
            "attnaudit audit TRACE --replay MODEL_DIR (replay= in Python)",
        )
    if replay.fingerprint != fingerprint:
        expected = f"the model {str(fingerprint)[:12]}… that the trace was collected from"
        raise TraceError(
            "read trace",
            str(path),
            f"a model with the fingerprint {replay.fingerprint[:12]}…",
            expected,
        )
    return replay
