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
from attnaudit.trace.readout import Readout
from attnaudit.trace.schema import COLUMNS, SHOWN, list_column
from attnaudit.trace.segments import aggregate
from attnaudit.trace.table import Trace, concatenate, write_shards
from attnaudit.trace.tails import IdentityTail, LinearTail, TanhTail

__all__ = [
    "ASKING",
    "COLUMNS",
    "ROW_KEYS",
    "SEVERAL",
    "SHOWN",
    "TAIL_FILE",
    "IdentityTail",
    "LinearTail",
    "Readout",
    "TanhTail",
    "Trace",
    "aggregate",
    "concatenate",
    "list_column",
    "tail_file",
    "trace_files",
    "trace_metadata",
    "trace_rows",
    "trace_task",
    "write_shards",
]
