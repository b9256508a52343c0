"""Columns as a page can load them without a network: one compressed file per set of columns, a script that hands its text over.

A browser refuses to fetch a file for a page opened from disk, but runs a script next to it. So a file is the call

    attnauditData("key", "base64 of zlib of: header length (uint32), header (JSON), columns, each from a multiple of 8 bytes")

and the header says of each column its type, where it begins and how many values it has. All numbers are little-endian.
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
LEVEL = 6


def pack(columns: Mapping[str, np.ndarray], facts: Mapping[str, Any]) -> str:
    """Base64 of the compressed columns with their header, which has the ``facts`` too; control characters are shown, as on a page."""
    parts, header, start = [], {}, 0
    for name, values in columns.items():
        kind = values.dtype.str[1:]
        content = values.astype(f"<{kind}").tobytes()
        padding = -len(content) % _ALIGNED
        header[name] = [_TYPES[kind], start, len(values)]
        parts += [content, bytes(padding)]
        start += len(content) + padding
    shown = data_without_controls({"columns": header, "facts": facts})
    text = json.dumps(shown, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
    text += b" " * (-(len(text) + 4) % _ALIGNED)
    packed = zlib.compress(
        b"".join([np.uint32(len(text)).astype("<u4").tobytes(), text, *parts]), LEVEL
    )
    return base64.b64encode(packed).decode("ascii")


def script(key: str, packed: str) -> str:
    """The file that hands over what `pack` made, under ``key``, a name of letters, digits and hyphens."""
    return f'attnauditData("{key}", "{packed}");\n'


def unpack(packed: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The columns and the facts, as a page reads them."""
    content = zlib.decompress(base64.b64decode(packed))
    length = int(np.frombuffer(content[:4], "<u4")[0])
    header = json.loads(content[4 : 4 + length])
    kinds = {name: kind for kind, name in _TYPES.items()}
    return {
        name: np.frombuffer(content, f"<{kinds[kind]}", size, 4 + length + start)
        for name, (kind, start, size) in header["columns"].items()
    }, header["facts"]


def quantised(values: Float[np.ndarray, " n"]) -> tuple[UInt16[np.ndarray, " n"], float, float]:
    """``values`` in 65,535 steps between the smallest and the largest, and these two; NaN, undefined, is `UNDEFINED`.

    A value read back is off by at most one part in 131,068 of the range; the two ends, and so values of 0 and 1 alone, are exact.
    """
    known = np.isfinite(values)
    low, high = (
        (float(values[known].min()), float(values[known].max())) if known.any() else (0.0, 0.0)
    )
    steps = np.full(len(values), UNDEFINED, np.uint16)
    width = high - low
    steps[known] = np.rint((values[known] - low) / width * _STEPS) if width > 0 else 0
    return steps, low, high


def restored(steps: UInt16[np.ndarray, " n"], low: float, high: float) -> Float[np.ndarray, " n"]:
    """What `quantised` was given, to its precision."""
    return np.where(steps == UNDEFINED, np.nan, low + (high - low) * (steps / _STEPS))
