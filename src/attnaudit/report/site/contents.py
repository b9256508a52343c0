"""Contents of a site: measures, texts and weights of each run.

A browser refuses to fetch a file for a page opened from disk, but runs a script next to it. So a
file is the call

    attnauditData("key", "base64 of zlib of: header length (uint32), header (JSON), columns")

in which each column begins at a multiple of 8 bytes, and the header says the type, the beginning
and the number of values of each. All numbers are little-endian.
"""

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from jaxtyping import Float, UInt16

from attnaudit.core.escapes import data_without_controls
from attnaudit.core.ragged import Ragged
from attnaudit.experiments import measure_label
from attnaudit.report.meanings import measure_meaning
from attnaudit.report.sections.heatmaps import visible
from attnaudit.results import RunRecord
from attnaudit.results.paired import MeasuredRun
from attnaudit.stats.measures import two_classes
from attnaudit.trace import ROW_KEYS, Trace, concatenate
from attnaudit.trace.schema import flat

SHADES, FINE_SHADES = 255, 65535  # steps of a weight; of attention
OF_ROWS = {
    "row.confidence": "probability of the predicted class, ŷ",
    "row.positions": "tokens",
    "row.max_alpha": "largest weight, max α",
}
_READ = ("instance", "label", "prediction", "alpha", "gradient", "loo", "rationale", "special")
_TINY = 1e-300  # divides weights that are all 0
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


class Contents(NamedTuple):
    """A run's packed data; ``texts`` may be another run's too."""

    columns: str
    texts: str
    weights: str
    rows: int
    instances: int


def contents(run: MeasuredRun, record: RunRecord, trace: Path) -> Contents:
    """Pack a run.

    Raises:
        TraceError: If the trace cannot be read.
    """
    rows, read = run.rows, concatenate(list(Trace.columns(trace, _READ)))
    lengths = rows["alpha"].list.len().to_numpy()
    alpha = Ragged.from_lengths(rows["alpha"].explode().to_numpy().astype(np.float64), lengths)
    of_rows = (two_classes(read.prediction).max(axis=1), lengths.astype(float), alpha.max())
    values = dict(zip(OF_ROWS, of_rows, strict=True))
    for name in run.measures:
        values[name] = rows[name].cast(pl.Float64).fill_null(float("nan")).to_numpy()
    steps = {name: quantised(column) for name, column in values.items()}
    texts, text = _texts(rows)
    predicted, names = rows["predicted"].to_list(), record.about.class_names
    gold = read.array("label").tolist() if read.has("label") else [-1] * len(read)
    labels = [names[label] if 0 <= label < len(names) else None for label in gold]
    classes = list(dict.fromkeys([*names, *predicted, *filter(None, labels)]))
    splits = rows["split"].drop_nulls().unique(maintain_order=True) if "split" in rows else []
    columns = {"predicted": _index(predicted, classes), "label": _index(labels, classes)}
    # The columns that name a row; -1 if one is null.
    for name in (name for name in ROW_KEYS if name in rows.columns):
        if name == "split":
            columns[name] = _index(rows[name].to_list(), list(splits))
        else:
            columns[name] = rows[name].fill_null(-1).to_numpy().astype(np.float64)
    columns |= {"text": text, **{name: column for name, (column, *_) in steps.items()}}
    facts = {
        "rows": rows.height,
        "classes": classes,
        "splits": list(splits),
        "measures": [measure_facts(name) for name in steps],
        "ends": {name: ends for name, (_, *ends) in steps.items()},
    }
    keys = [name for name in ("split", "instance") if name in rows.columns]
    weights, instances = _weights(alpha, record, read), rows.select(keys).n_unique()
    return Contents(pack(columns, facts), texts, weights, rows.height, instances)


def measure_facts(name: str) -> dict[str, str]:
    """Return experiment, label and meaning of ``experiment.measure``, or of one of `OF_ROWS`."""
    experiment, _, measure = name.partition(".")
    label = OF_ROWS.get(name) or measure_label(measure, experiment)
    meaning = "" if name in OF_ROWS else measure_meaning(measure, experiment)
    return {"name": name, "experiment": experiment, "label": label, "meaning": meaning}


def _index(names: Sequence[str | None], known: Sequence[str]) -> np.ndarray:
    """Return the place of each of ``names`` in ``known``; −1 if there is none."""
    place: dict[str | None, int] = {name: k for k, name in enumerate(known)}
    return np.array([place.get(name, -1) for name in names], np.int32)


def _texts(rows: pl.DataFrame) -> tuple[str, np.ndarray]:
    """Pack the distinct texts, and return which of them each row has."""
    first: dict[tuple[tuple[str, ...], tuple[str, ...]], int] = {}
    read = rows.select("tokens", "question").iter_rows()
    text = [first.setdefault((tuple(t), tuple(q or ())), len(first)) for t, q in read]
    words: dict[str, int] = {}
    parts = [each[k] for k in (0, 1) for each in first]  # questions come after all texts
    numbers = [words.setdefault(word, len(words)) for part in parts for word in part]
    columns = {
        "words": np.array(numbers, np.uint32),
        "lengths": np.array(list(map(len, parts)), np.uint32),
    }
    facts = {"texts": len(first), "vocabulary": list(map(visible, words))}
    return pack(columns, facts), np.array(text, np.uint32)


def _weights(alpha: Ragged, record: RunRecord, trace: Trace) -> str:
    """Pack the weights of every token, as shares of the largest of its row, and its marks."""
    kinds = {"alpha": alpha}
    adversary = record.tables.get("adversary")
    if adversary is not None and "alpha" in adversary.collect_schema().names():
        column = adversary.select("alpha").collect()["alpha"]
        if column.null_count() == 0:
            values = column.explode().to_numpy().astype(np.float64)
            kinds["adversary"] = Ragged.from_lengths(values, column.list.len().to_numpy())
    importance = [name for name in ("gradient", "loo") if trace.has(name)]
    kinds |= {name: trace.ragged(name) for name in importance}
    columns: dict[str, np.ndarray] = {"lengths": alpha.lengths.astype(np.uint32)}
    kinds = {name: w for name, w in kinds.items() if np.array_equal(w.lengths, alpha.lengths)}
    for name, weights in kinds.items():
        top = weights.with_values(np.abs(weights.values)).max().astype(np.float64)
        shares = weights.values / weights.spread(np.maximum(top, _TINY))
        steps, kind = (FINE_SHADES, np.uint16) if name == "alpha" else (SHADES, np.uint8)
        columns[name] = np.rint(np.nan_to_num(np.clip(shares, 0, 1)) * steps).astype(kind)
        columns[f"{name}.top"] = top.astype(np.float32)
    for name in ("rationale", "special"):
        marks = flat(trace.table[name]).fill_null(False) if trace.has(name) else ()
        if len(marks) == len(alpha.values):  # known of every row
            columns[name] = np.asarray(marks, np.uint8)
    return pack(columns, {"kinds": list(kinds)})


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
