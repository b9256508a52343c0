"""Files of a trace: Parquet shards with JSON metadata, and the weights of a tail."""

import contextlib
import json
import re
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from attnaudit.core import TraceError, atomic, expanded
from attnaudit.core.elsewhere import decode
from attnaudit.trace.tails import (
    GRAPH_FILE,
    GraphTail,
    IdentityTail,
    LinearTail,
    Network,
    Tail,
    TanhTail,
)

METADATA_KEY = "attnaudit"
# Tasks whose model reads a question or a hypothesis with the text.
ASKING = ("question_answering", "inference")
TAIL_FILE = "tail.safetensors"
# Bytes of a compressed file to read at a time, so that memory does not grow with the file.
PIECE = 1 << 23
# Deepest nesting of lists and objects. Python's own limit depends on the depth of the caller, so a
# file could be read in one place and not in another.
_DEPTH = 32
_ALLOWED = {
    "schema": [1, 2],
    "activation": ["sigmoid", "softmax"],
    "tail": ["identity", "linear", "tanh_mlp", "onnx", "replay", "none"],
}
_TYPES: dict[str, tuple[type, ...]] = {
    "name": (str,),
    "model": (str, dict),
    "corpus": (str, dict),
    "versions": (dict,),
    "gate": (dict,),
}
_NAMES_OF_TYPES = {str: "a text", dict: "an object"}


def trace_files(path: str | Path) -> list[Path]:
    """List the Parquet files of a trace.

    Args:
        path: One file, a folder of shards, or a run directory with a folder ``trace``.

    Raises:
        TraceError: If there is no file, or one of them is no regular file.
    """
    path = expanded(path)
    if path.is_file():
        return [path]
    folder = path / "trace" if (path / "trace").is_dir() else path
    files = sorted(folder.glob("*.parquet"))
    if not files:
        got = "no regular file" if folder.exists() else "no such file or folder"
        got = "no .parquet file there" if folder.is_dir() else got
        expected = "a trace folder, one shard or a run directory"
        raise TraceError("read trace", str(path), got, expected)
    return [_regular(file) for file in files]


def tail_file(folder: Path) -> Path | None:
    """Return the file with a trace's tail; None if there is none. Raises TraceError."""
    files = (folder / name for name in (TAIL_FILE, GRAPH_FILE))
    return next((_regular(file) for file in files if file.exists()), None)


def _regular(file: Path) -> Path:
    """Refuse a folder, a pipe or a device; reading a device may never end."""
    if file.is_file():
        return file
    raise TraceError("read trace", str(file), "no regular file", "a file", "write the trace again")


def trace_metadata(path: str | Path) -> dict[str, Any]:
    """Read the metadata of the trace at ``path`` without its rows. Raises TraceError."""
    file = trace_files(path)[0]
    return with_question(_metadata(file), scan_shard(file).collect_schema())


def trace_task(path: str | Path) -> str | None:
    """Read the task of the trace at ``path`` without its rows. Raises TraceError."""
    return task_of(trace_metadata(path))


def trace_rows(path: str | Path) -> int:
    """Count the rows of the trace at ``path`` without reading them. Raises TraceError."""
    return sum(_height(scan_shard(file)) for file in trace_files(path))


def with_question(metadata: Mapping[str, Any], columns: Collection[str]) -> dict[str, Any]:
    """Add ``has_question`` to metadata that name no task, if there is a column ``question``."""
    # A named task settles whether the model reads questions. In a trace of a decoder the
    # column holds its output so far.
    is_asked = "question" in columns and task_of(metadata) is None
    return {**metadata, **({"has_question": True} if is_asked else {})}


def task_of(metadata: Mapping[str, Any]) -> str | None:
    """Return the task that the metadata name."""
    corpus = metadata.get("corpus")
    return corpus.get("task") if isinstance(corpus, dict) else None


def read_pieces(
    path: Path, columns: Collection[str] | None = None, replay: Network | None = None
) -> Iterator[tuple[pl.DataFrame, dict[str, Any], Tail | Network]]:
    """Read a file about `PIECE` bytes at a time, at least one row, without checking rows.

    Args:
        path: A Parquet file.
        columns: Columns to read; missing ones are skipped. None reads all columns.
        replay: Model of a trace that stores no tail; not needed for chosen columns.

    Yields:
        Table, metadata and tail of every piece.

    Raises:
        TraceError: If the file is no trace, or its tail cannot be read.
    """
    metadata, scan = _metadata(path), scan_shard(path)
    tail = _tail(metadata, path, replay, is_needed=columns is None)
    height = _height(scan)
    if columns is not None:
        scan = scan.select(name for name in scan.collect_schema() if name in columns)
    # A file with several heads is read whole, because those of a text must stay together. Such
    # files hold a few texts each.
    several = metadata["schema"] > 1 or "head" in scan.collect_schema()
    is_whole = height == 0 or (columns is None and several)
    rows = max(height * PIECE // path.stat().st_size, 1)
    with _readable(path):
        batches = scan.collect_batches(chunk_size=rows, maintain_order=True)
        for table in [scan.collect()] if is_whole else batches:
            yield table, metadata, tail


def write_shard(path: Path, table: pl.DataFrame, metadata: Mapping[str, Any]) -> None:
    """Write a shard, whole or not at all. Raises RunError."""
    # Sorted keys, so that the bytes do not depend on the order in which metadata were added.
    stored = {METADATA_KEY: json.dumps(metadata, sort_keys=True)}
    with atomic(path) as temporary:
        table.rechunk().write_parquet(temporary, compression="zstd", metadata=stored)


def write_tail(folder: Path, tail: Tail | Network) -> None:
    """Write the weights or the graph of a tail, if it has any.

    Raises:
        RunError: If a file cannot be written.
    """
    # Files of another tail are from an earlier trace in this folder, and are removed.
    if isinstance(tail, LinearTail):
        with atomic(folder / TAIL_FILE) as temporary:
            save_file({"weight": tail.weight, "bias": tail.bias}, temporary)
    else:
        (folder / TAIL_FILE).unlink(missing_ok=True)
    if not isinstance(tail, GraphTail):
        (folder / GRAPH_FILE).unlink(missing_ok=True)
    elif tail.path != folder / GRAPH_FILE:
        with atomic(folder / GRAPH_FILE) as temporary:
            shutil.copyfile(tail.path, temporary)


_PARQUET = "a Parquet file", "write the trace again"
# Size and time of the files that are known to be whole.
_whole: dict[Path, tuple[int, int]] = {}


def scan_shard(path: Path) -> pl.LazyFrame:
    """Open a Parquet file.

    Raises:
        TraceError: If the file is no Parquet file or has two columns of one name.
    """
    # The schema is read at once, so that a damaged file fails here and not within a query. Without
    # `glob=False`, brackets in a name would be a pattern.
    with _readable(path):
        scan = pl.scan_parquet(path, glob=False)
        scan.collect_schema()
    about = path.stat()
    if _whole.get(path) != (found := (about.st_size, about.st_mtime_ns)):
        try:
            decode(path)
        except ValueError as error:
            reason = " ".join(str(error).split()).rstrip(".")
            raise TraceError("read trace", str(path), reason, *_PARQUET) from error
        _whole[path] = found
    return scan


def _height(scan: pl.LazyFrame) -> int:
    return scan.select(pl.len()).collect().item()


@contextlib.contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except pl.exceptions.DuplicateError as error:
        # The name is in the message only.
        twice = re.search(r"'(.*?)'", str(error))
        column = twice[1] if twice else "(unknown)"
        raise TraceError(
            "check trace", f"{path}: column {column}", "2 columns of this name", "each column once"
        ) from error
    except (OSError, pl.exceptions.PolarsError) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise TraceError("read trace", str(path), reason, *_PARQUET) from error


def _metadata(path: Path) -> dict[str, Any]:
    with _readable(path):
        raw = pl.read_parquet_metadata(path).get(METADATA_KEY)
    expected = "JSON under the Parquet metadata key 'attnaudit' with schema, activation and tail"
    if raw is None:
        raise _refused(path, "no metadata key 'attnaudit'", expected)
    try:
        metadata = json.loads(raw)
        _check_depth(metadata, _DEPTH)
        # JSON can escape lone surrogates, which cannot be written to a file.
        json.dumps(metadata, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise _refused(path, f"metadata that is no JSON ({error})", expected) from error
    for key, values in _ALLOWED.items():
        value = metadata.get(key) if isinstance(metadata, dict) else metadata
        if value not in values or isinstance(value, bool):  # True equals 1
            raise _refused(path, f"metadata {key} = {value!r}", f"one of {values}")
    for key, types in _TYPES.items():
        if not isinstance(value := metadata.get(key), (*types, type(None))):
            expected = " or ".join(_NAMES_OF_TYPES[kind] for kind in types)
            raise _refused(path, f"metadata {key} = {value!r}", expected)
    metadata.pop("residual", None)  # a claim of the file, computed again when rows are checked
    return metadata


def _refused(path: Path, got: str, expected: str, do: str = "see docs/trace.md") -> TraceError:
    return TraceError("read trace", str(path), got, expected, do)


def _check_depth(value: Any, most: int) -> None:
    if most == 0:
        raise ValueError(f"lists and objects more than {_DEPTH} deep")
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            _check_depth(part, most - 1)


def _tail(
    metadata: Mapping[str, Any], path: Path, replay: Network | None, is_needed: bool
) -> Tail | Network:
    kind = metadata["tail"]
    # Reading chosen columns runs no model, so the identity can stand in for it.
    if kind in ("identity", "none") or (kind == "replay" and not is_needed):
        return IdentityTail()
    if kind == "replay":
        return _network(metadata, path, replay)
    if kind == "onnx":
        file, digest = path.parent / GRAPH_FILE, metadata.get("tail_sha256")
        if not isinstance(digest, str):
            raise _refused(path, f"tail_sha256 {digest!r}", f"the digest of {GRAPH_FILE}")
        if tail_file(path.parent) != file:
            expected = f"the graph of the tail of {path.name}"
            raise _refused(file, "no such file", expected, "copy it with the shards")
        return GraphTail(file, digest)
    try:
        weights = load_file(tail_file(path.parent) or path.parent / TAIL_FILE)
        # float64, as counterfactual predictions are computed in it.
        weight, bias = (weights[name].astype(np.float64) for name in ("weight", "bias"))
        is_shaped = weight.ndim == 2 and weight.size > 0 and bias.shape == weight.shape[:1]
        if not (is_shaped and np.isfinite(weight).all() and np.isfinite(bias).all()):
            shapes = f"shapes {weight.shape} and {bias.shape}"
            raise ValueError(f"{shapes}, or numbers that are not finite")
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
        reason = " ".join(str(error).split())
        expected = "tensors 'weight' (C, P) and 'bias' (C) of finite numbers"
        raise _refused(path.parent / TAIL_FILE, reason, expected, "") from error
    return (LinearTail if kind == "linear" else TanhTail)(weight, bias)


def _network(metadata: Mapping[str, Any], path: Path, replay: Network | None) -> Network:
    """Return the model to replay a trace with. Raises TraceError if it is missing or another."""
    model = metadata.get("model")
    fingerprint = model.get("fingerprint") if isinstance(model, dict) else None
    if replay is None:
        expected = "its model, which is run again for every attention"
        do = "attnaudit audit TRACE --replay MODEL_DIR (replay= in Python)"
        raise _refused(path, "tail 'replay' and no model", expected, do)
    if replay.fingerprint != fingerprint:
        got = f"a model with the fingerprint {replay.fingerprint[:12]}…"
        expected = f"the model {str(fingerprint)[:12]}… that the trace was collected from"
        raise _refused(path, got, expected, "")
    return replay


def remove_other_shards(folder: Path, shards: Sequence[Path]) -> None:
    """Remove the shards of an earlier trace, which would be read as parts of this one."""
    for path in set(folder.glob("part-*.parquet")) - set(shards):
        path.unlink(missing_ok=True)
