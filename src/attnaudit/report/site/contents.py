"""What a site holds of a run: measures of its rows, texts, and weights; and of a pair of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from jaxtyping import Float, Int64

from attnaudit.core.ragged import Ragged
from attnaudit.report.sections.differences import COLUMNS, intervals, lead, texts_of
from attnaudit.report.sections.heatmaps import visible
from attnaudit.report.sections.instances import overview
from attnaudit.report.site.packing import pack, quantised
from attnaudit.results.paired import B, MeasuredRun, pair
from attnaudit.results.record import RunRecord
from attnaudit.trace import ROW_KEYS, Trace
from attnaudit.trace.schema import flat

FINE = 240  # bins of a run's own histogram, from which those of a common axis are made
SHADES, FINE_SHADES = 255, 65535  # steps of a weight; attention is compared, and has more
OF_ROWS = {
    "row.confidence": "probability of the predicted class, ŷ",
    "row.positions": "tokens",
    "row.max_alpha": "largest weight, max α",
}
WEIGHTS = ("gradient", "loo")
_TINY = 1e-300  # divides weights that are all 0


@dataclass(frozen=True)
class Spread:
    """A measure over the rows of a run: its ends, and its rows in each of `FINE` bins."""

    low: float
    high: float
    counts: Int64[np.ndarray, " bins"]


@dataclass(frozen=True)
class Contents:
    """A run's packed data; ``texts`` may be another run's too."""

    columns: str
    texts: str
    weights: str
    measures: Mapping[str, Spread]
    rows: int
    instances: int


def contents(run: MeasuredRun, record: RunRecord, trace: Path) -> Contents:
    """Pack a run.

    Raises:
        TraceError: If the trace cannot be read.
    """
    rows, seen = run.rows, overview(trace)
    labels = _labels(trace, record.about.class_names)
    lengths = rows["alpha"].list.len().to_numpy()
    alpha = Ragged.from_lengths(rows["alpha"].explode().to_numpy().astype(np.float64), lengths)
    of_rows = (seen["confidence"].to_numpy(), seen["positions"].to_numpy(), alpha.max())
    values = dict(zip(OF_ROWS, of_rows, strict=True))
    for name in run.measures:
        values[name] = rows[name].cast(pl.Float64).fill_null(float("nan")).to_numpy()
    steps = {name: quantised(np.asarray(column, np.float64)) for name, column in values.items()}
    texts, text = _texts(rows)
    predicted = rows["predicted"].to_list()
    classes = list(dict.fromkeys([*record.about.class_names, *predicted, *filter(None, labels)]))
    columns = {
        **_keys(rows),
        "text": text.astype(np.uint32),
        "predicted": _index(predicted, classes),
        "label": _index(labels, classes),
        **{name: column for name, (column, _, _) in steps.items()},
    }
    facts = {
        "rows": rows.height,
        "classes": classes,
        "splits": _splits(rows),
        "ends": {name: ends for name, (_, *ends) in steps.items()},
    }
    spreads = {
        name: _spread(np.asarray(values[name], np.float64), low, high)
        for name, (_, low, high) in steps.items()
    }
    names = [name for name in ("split", "instance") if name in rows.columns]
    instances = rows.select(names).n_unique()
    weights = _weights(alpha, record, trace)
    return Contents(pack(columns, facts), texts, weights, spreads, rows.height, instances)


def _keys(rows: pl.DataFrame) -> dict[str, np.ndarray]:
    """Return the columns that name a row; −1 if one is null."""
    columns = {}
    for name in (name for name in ROW_KEYS if name in rows.columns):
        if name == "split":
            columns[name] = _index(rows[name].to_list(), _splits(rows))
        else:
            values = rows[name].fill_null(-1).to_numpy()
            fits = abs(values).max(initial=0) < 2**31
            columns[name] = values.astype(np.int32 if fits else np.float64)
    return columns


def _splits(rows: pl.DataFrame) -> list[str]:
    if "split" not in rows.columns:
        return []
    return list(map(str, rows["split"].drop_nulls().unique(maintain_order=True)))


def _index(names: Sequence[str | None], known: Sequence[str]) -> np.ndarray:
    """Return the place of each of ``names`` in ``known``; −1 if there is none."""
    place: dict[str | None, int] = {name: k for k, name in enumerate(known)}
    return np.array([place.get(name, -1) for name in names], np.int32)


def _labels(trace: Path, classes: Sequence[str]) -> list[str | None]:
    labels: list[str | None] = []
    for part in Trace.columns(trace, ("instance", "label")):
        numbers = part.array("label").tolist() if part.has("label") else [-1] * len(part)
        labels += [classes[label] if 0 <= label < len(classes) else None for label in numbers]
    return labels


def _spread(values: Float[np.ndarray, " n"], low: float, high: float) -> Spread:
    known = values[np.isfinite(values)]
    place = np.zeros(len(known)) if high <= low else (known - low) / (high - low) * FINE
    bins = np.minimum(place.astype(np.int64), FINE - 1)
    return Spread(low, high, np.bincount(bins, minlength=FINE))


def _texts(rows: pl.DataFrame) -> tuple[str, Int64[np.ndarray, " n"]]:
    """Pack the distinct texts, and return which of them each row has."""
    first: dict[tuple[tuple[str, ...], tuple[str, ...]], int] = {}
    read = rows.select("tokens", "question").iter_rows()
    text = [first.setdefault((tuple(t), tuple(q or ())), len(first)) for t, q in read]
    words: dict[str, int] = {}
    parts = [each[k] for k in (0, 1) for each in first]  # questions come after all texts
    numbers = [[words.setdefault(word, len(words)) for word in part] for part in parts]
    columns = {
        "words": np.array([number for part in numbers for number in part], np.uint32),
        "lengths": np.array([len(part) for part in numbers], np.uint32),
    }
    facts = {"texts": len(first), "vocabulary": list(map(visible, words))}
    return pack(columns, facts), np.array(text, np.int64)


def _weights(alpha: Ragged, record: RunRecord, trace: Path) -> str:
    """Pack the weights of every token, as shares of the largest of its row, and its marks."""
    columns: dict[str, np.ndarray] = {"lengths": alpha.lengths.astype(np.uint32)}
    kinds = {"alpha": alpha, **_others(record, trace)}
    kinds = {name: w for name, w in kinds.items() if np.array_equal(w.lengths, alpha.lengths)}
    for name, weights in kinds.items():
        top = np.maximum(weights.with_values(np.abs(weights.values)).max(), _TINY)
        shares = np.nan_to_num(np.clip(weights.values / weights.spread(top), 0, 1))
        fine = name == "alpha"
        steps = np.rint(shares * (FINE_SHADES if fine else SHADES))
        columns[name] = steps.astype(np.uint16 if fine else np.uint8)
        columns[f"{name}.top"] = top.astype(np.float32)
    for name in ("rationale", "special"):
        marks = _marks(trace, name)
        if len(marks) == len(alpha.values):
            columns[name] = marks
    return pack(columns, {"kinds": list(kinds)})


def _others(record: RunRecord, trace: Path) -> dict[str, Ragged]:
    """Return the adversary's attention and the importance scores of every token."""
    kinds: dict[str, Ragged] = {}
    adversary = record.tables.get("adversary")
    if adversary is not None and "alpha" in adversary.collect_schema().names():
        column = adversary.select("alpha").collect()["alpha"]
        if column.null_count() == 0:
            values = column.explode().to_numpy().astype(np.float64)
            kinds["adversary"] = Ragged.from_lengths(values, column.list.len().to_numpy())
    parts = list(Trace.columns(trace, ("instance", "alpha", *WEIGHTS)))
    for name in WEIGHTS:
        if all(part.has(name) for part in parts):
            rows = [part.ragged(name) for part in parts]
            values = np.concatenate([row.values for row in rows]).astype(np.float64)
            lengths = np.concatenate([row.lengths for row in rows])
            kinds[name] = Ragged.from_lengths(values, lengths)
    return kinds


def _marks(trace: Path, name: str) -> np.ndarray:
    """Mark tokens over all rows; empty unless the trace says it of every row."""
    parts = list(Trace.columns(trace, ("instance", name)))
    if not all(part.has(name) for part in parts):
        return np.zeros(0, np.uint8)
    entries = [flat(part.table[name]).fill_null(False) for part in parts]
    return np.concatenate([entry.to_numpy().astype(np.uint8) for entry in entries])


def known_figures(record: RunRecord) -> dict[str, dict[str, Any]]:
    """Return the summary rows over all instances, by ``experiment.measure``."""
    overall = record.summary.filter(group="all")
    return {f"{row['experiment']}.{row['measure']}": row for row in overall.iter_rows(named=True)}


def paired_contents(a: MeasuredRun, b: MeasuredRun) -> str:
    """Pack the comparison of two runs: its sentences, its table, and the rows of both.

    Raises:
        InputError: If the runs have nothing in common.
    """
    numbered = (replace(run, rows=run.rows.with_row_index("row")) for run in (a, b))
    compared = pair(*numbered)
    shared = compared.instances.sort("row")
    jsd, *ends = quantised(shared["jsd"].to_numpy())
    # Differences of rows that follow each other are compressed to nearly nothing.
    columns = {
        side: np.diff(shared[name].to_numpy().astype(np.int32), prepend=0).astype(np.int32)
        for side, name in (("a", "row"), ("b", f"row{B}"))
    }
    facts = {
        "lead": f"{lead(compared)} {intervals(compared)}",
        "notes": list(compared.notes),
        "columns": COLUMNS,
        "measures": [
            (f"{row['experiment']}.{row['measure']}", row["experiment"], *texts_of(row))
            for row in compared.differences.iter_rows(named=True)
            if row["n"]
        ],
        "jsd": ends,
    }
    return pack(columns | {"jsd": jsd}, facts)
