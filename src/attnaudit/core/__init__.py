"""Errors, atomic files, ragged rows, settings and keyed randomness, for use by every layer."""

from attnaudit.core.errors import (
    AttnauditError,
    InputError,
    RunError,
    TraceError,
    describe_error,
    did_you_mean,
    require_known,
)
from attnaudit.core.escapes import printable
from attnaudit.core.extras import require
from attnaudit.core.files import (
    atomic,
    content_key,
    expanded,
    read_json,
    read_with_digest,
    sha256,
    unwritable,
    write_json,
    write_text,
    write_with_digest,
)
from attnaudit.core.numbers import count, thousands
from attnaudit.core.progress import Progress, silent, within

__all__ = [
    "AttnauditError",
    "InputError",
    "Progress",
    "RunError",
    "TraceError",
    "atomic",
    "content_key",
    "count",
    "describe_error",
    "did_you_mean",
    "expanded",
    "printable",
    "read_json",
    "read_with_digest",
    "require",
    "require_known",
    "sha256",
    "silent",
    "thousands",
    "unwritable",
    "within",
    "write_json",
    "write_text",
    "write_with_digest",
]
