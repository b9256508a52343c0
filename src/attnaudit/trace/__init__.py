"""The trace: a table with one row per attention distribution. It is read, checked and written."""

from attnaudit.trace.files import (
    ASKING,
    TAIL_FILE,
    tail_file,
    trace_files,
    trace_metadata,
    trace_rows,
    trace_task,
)
from attnaudit.trace.keys import ROW_KEYS, SEVERAL
from attnaudit.trace.segments import aggregate
from attnaudit.trace.table import Trace, concatenate, write_shards

__all__ = [
    "ASKING",
    "ROW_KEYS",
    "SEVERAL",
    "TAIL_FILE",
    "Trace",
    "aggregate",
    "concatenate",
    "tail_file",
    "trace_files",
    "trace_metadata",
    "trace_rows",
    "trace_task",
    "write_shards",
]
