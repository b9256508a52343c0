"""What a site keeps of one run: a column per measure of its rows, the texts, and the weights that its heatmaps show."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from jaxtyping import Float, Int64

from attnaudit.core.ragged import Ragged
from attnaudit.report.sections.heatmaps import visible
from attnaudit.report.sections.instances import overview
from attnaudit.report.site.packing import pack, quantised
from attnaudit.results.record import RunRecord
from attnaudit.trace import ROW_KEYS, Trace
from attnaudit.trace.schema import flat

FINE = 240  # bins of a run's own histogram, from which those of a common axis are made
SHADES = 255
OF_ROWS = {
    "row.confidence": "probability of the predicted class, ŷ",
    "row.positions": "tokens",
    "row.max_alpha": "largest weight, max α",
}
WEIGHTS = ("gradient", "loo")


@dataclass(frozen=True)
class Spread:
    """A measure over the rows of a run: its ends and the number of rows in each of `FINE` bins between them."""

    low: float
    high: float
    counts: Int64[np.ndarray, " bins"]


@dataclass(frozen=True)
class Contents:
    """A run's data, packed: ``columns`` and ``weights`` are its own, ``texts`` may be another run's too; ``measures`` are by column."""

    columns: str
    texts: str
    weights: str
    measures: Mapping[str, Spread]
    rows: int
    instances: int


def contents(
    rows: pl.DataFrame, measures: Sequence[str], record: RunRecord, trace: Path
) -> Contents:
    """``rows`` has a row per trace row, with its keys, ``predicted``, ``tokens``, ``question``, ``alpha`` and ``measures``.

    Raises TraceError.
    """
    seen, labels = overview(trace), _labels(trace, record.about.class_names)
    alpha = Ragged.from_lengths(
        rows["alpha"].explode().to_numpy().astype(np.float64), rows["alpha"].list.len().to_numpy()
    )
    of_rows = (seen["confidence"].to_numpy(), seen["positions"].to_numpy(), alpha.max())
    values = dict(zip(OF_ROWS, of_rows, strict=True))
    values |= {
        name: rows[name].cast(pl.Float64).fill_null(float("nan")).to_numpy() for name in measures
    }
    texts, of = _texts(rows)
    steps = {name: quantised(np.asarray(column, np.float64)) for name, column in values.items()}
    classes = list(
        dict.fromkeys(
            [
                *record.about.class_names,
                *rows["predicted"].unique(maintain_order=True),
                *filter(None, labels),
            ]
        )
    )
    columns = {
        **_keys(rows), "text": of.astype(np.uint32), "predicted": _index(rows["predicted"].to_list(), classes),
        "label": _index(labels, classes), **{name: column for name, (column, _, _) in steps.items()},
    }  # fmt: skip
    facts = {
        "rows": rows.height, "classes": classes, "splits": _splits(rows),
        "ends": {name: [low, high] for name, (_, low, high) in steps.items()},
    }  # fmt: skip
    spreads = {
        name: _spread(np.asarray(values[name], np.float64), low, high)
        for name, (_, low, high) in steps.items()
    }
    instances = rows.select(
        name for name in ("split", "instance") if name in rows.columns
    ).n_unique()
    return Contents(
        pack(columns, facts), texts, _weights(alpha, record, trace), spreads, rows.height, instances
    )


def _keys(rows: pl.DataFrame) -> dict[str, np.ndarray]:
    """The columns that name a row; −1 where one is null."""
    found = {}
    for name in ROW_KEYS:
        if name == "split" and name in rows.columns:
            found[name] = _index(rows[name].to_list(), _splits(rows))
        elif name in rows.columns:
            values = rows[name].fill_null(-1).to_numpy()
            found[name] = values.astype(
                np.int32 if abs(values).max(initial=0) < 2**31 else np.float64
            )
    return found


def _splits(rows: pl.DataFrame) -> list[str]:
    return (
        [str(name) for name in rows["split"].drop_nulls().unique(maintain_order=True)]
        if "split" in rows.columns
        else []
    )


def _index(names: Sequence[str | None], known: Sequence[str]) -> np.ndarray:
    """The place of each of ``names`` in ``known``; −1 where there is none."""
    place = {name: k for k, name in enumerate(known)}
    return np.array([place.get(name, -1) if name is not None else -1 for name in names], np.int32)


def _labels(trace: Path, classes: Sequence[str]) -> list[str | None]:
    found: list[str | None] = []
    for part in Trace.columns(trace, ("instance", "label")):
        labels = part.array("label").tolist() if part.has("label") else [-1] * len(part)
        found += [classes[label] if 0 <= label < len(classes) else None for label in labels]
    return found


def _spread(values: Float[np.ndarray, " n"], low: float, high: float) -> Spread:
    known = values[np.isfinite(values)]
    place = np.zeros(len(known)) if high <= low else (known - low) / (high - low) * FINE
    return Spread(
        low, high, np.bincount(np.minimum(place.astype(np.int64), FINE - 1), minlength=FINE)
    )


def _texts(rows: pl.DataFrame) -> tuple[str, Int64[np.ndarray, " n"]]:
    """The distinct texts, packed, and which of them each row has; ``mark`` tells texts of other runs apart."""
    first: dict[tuple[tuple[str, ...], tuple[str, ...]], int] = {}
    read = rows.select("tokens", "question").iter_rows()
    of = np.array(
        [
            first.setdefault((tuple(tokens), tuple(question or ())), len(first))
            for tokens, question in read
        ],
        np.int64,
    )
    tokens, asked = ([text[k] for text in first] for k in (0, 1))
    words: dict[str, int] = {}
    numbers = [[words.setdefault(word, len(words)) for word in text] for text in (*tokens, *asked)]
    lengths = np.array([len(text) for text in numbers], np.uint32)
    columns = {
        "words": np.array([number for text in numbers for number in text], np.uint32), "lengths": lengths,
        "mark": np.array([zlib.crc32(repr(text).encode("utf-8", "replace")) for text in first], np.uint32),
    }  # fmt: skip
    return pack(columns, {"texts": len(first), "vocabulary": [visible(word) for word in words]}), of


def _weights(alpha: Ragged, record: RunRecord, trace: Path) -> str:
    """The weights of every token by row: attention in 65,535 shares of the row's largest, the others in 255."""
    columns, top = {"lengths": alpha.lengths.astype(np.uint32)}, alpha.max()
    shares = alpha.values / np.maximum(alpha.spread(top), 1e-300)
    columns |= {
        "alpha": np.rint(np.clip(shares, 0, 1) * 65535).astype(np.uint16),
        "alpha.top": top.astype(np.float32),
    }
    for name, weights in _others(record, trace).items():
        if np.array_equal(weights.lengths, alpha.lengths):
            high = np.maximum(weights.with_values(np.abs(weights.values)).max(), 1e-300)
            shares = np.clip(weights.values / weights.spread(high), 0, 1)
            columns |= {
                name: np.rint(np.nan_to_num(shares) * SHADES).astype(np.uint8),
                f"{name}.top": high.astype(np.float32),
            }
    marks = {
        name: found
        for name in ("rationale", "special")
        if (found := _marks(trace, name, len(alpha.values))) is not None
    }
    return pack(
        columns | marks,
        {"kinds": [name for name in ("alpha", "adversary", *WEIGHTS) if name in columns]},
    )


def _others(record: RunRecord, trace: Path) -> dict[str, Ragged]:
    """The adversary's attention and the importance scores of every token."""
    found: dict[str, Ragged] = {}
    adversary = record.tables.get("adversary")
    if adversary is not None and "alpha" in adversary.collect_schema().names():
        column = adversary.select("alpha").collect()["alpha"]
        if column.null_count() == 0:
            found["adversary"] = Ragged.from_lengths(
                column.explode().to_numpy().astype(np.float64), column.list.len().to_numpy()
            )
    parts = list(Trace.columns(trace, ("instance", "alpha", *WEIGHTS)))
    for name in WEIGHTS:
        if all(part.has(name) for part in parts):
            values = np.concatenate([part.ragged(name).values for part in parts]).astype(np.float64)
            found[name] = Ragged.from_lengths(
                values, np.concatenate([part.ragged(name).lengths for part in parts])
            )
    return found


def _marks(trace: Path, name: str, positions: int) -> np.ndarray | None:
    """Which tokens are marked, over all rows; None where the trace does not say it of every row."""
    parts = list(Trace.columns(trace, ("instance", name)))
    if not all(part.has(name) for part in parts):
        return None
    entries = [flat(part.table[name]).fill_null(False) for part in parts]
    marks = np.concatenate([entry.to_numpy().astype(np.uint8) for entry in entries])
    return marks if len(marks) == positions else None


def known_figures(record: RunRecord) -> dict[str, dict[str, Any]]:
    """The summary rows over all instances, by ``experiment.measure``."""
    overall = record.summary.filter(group="all")
    return {f"{row['experiment']}.{row['measure']}": row for row in overall.iter_rows(named=True)}
