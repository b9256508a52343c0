"""Columns as a page can load them without a network: a script that hands over each set.

A browser refuses to fetch a file for a page opened from disk, but runs a script next to it. So a
file is the call

    attnauditData("key", "base64 of zlib of: header length (uint32), header (JSON), columns")

in which each column begins at a multiple of 8 bytes, and the header says the type, the beginning
and the number of values of each. All numbers are little-endian.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float, UInt16

from attnaudit.core.printable import data_without_controls

UNDEFINED = 65535  # of a measure
_STEPS = UNDEFINED - 1
_ALIGNED = 8
_TYPES = {
    "u1": "Uint8Array",
    "u2": "Uint16Array",
    "u4": "Uint32Array",
    "i4": "Int32Array",
    "f4": "Float32Array",
    "f8": "Float64Array",
}


def pack(columns: Mapping[str, np.ndarray], facts: Mapping[str, Any]) -> str:
    """Return base64 of the compressed columns, with a header that has the ``facts`` too."""
    parts, header, start = [], {}, 0
    for name, values in columns.items():
        kind = values.dtype.str[1:]
        content = values.astype(f"<{kind}").tobytes()
        header[name] = [_TYPES[kind], start, len(values)]
        parts += [content, bytes(-len(content) % _ALIGNED)]
        start += len(content) + len(parts[-1])
    shown = data_without_controls({"columns": header, "facts": facts})
    text = json.dumps(shown, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
    text += b" " * (-(len(text) + 4) % _ALIGNED)
    length = np.uint32(len(text)).astype("<u4").tobytes()
    return base64.b64encode(zlib.compress(b"".join([length, text, *parts]))).decode("ascii")


def script(key: str, packed: str) -> str:
    """Return a script that passes the output of `pack` to the page under ``key``."""
    return f'attnauditData("{key}", "{packed}");\n'


def quantised(values: Float[np.ndarray, " n"]) -> tuple[UInt16[np.ndarray, " n"], float, float]:
    """Return values in 65,535 steps, with the smallest and the largest; NaN is `UNDEFINED`.

    A value read back is off by at most one part in 131,068 of the range. Both ends, and so values
    of 0 and 1 only, are exact.
    """
    known = np.isfinite(values)
    low, high = (float(end(values[known])) for end in (np.min, np.max)) if known.any() else (0, 0)
    width = (high - low) or 1.0
    steps = np.full(len(values), UNDEFINED, np.uint16)
    steps[known] = np.rint((values[known] - low) / width * _STEPS)
    return steps, float(low), float(high)
