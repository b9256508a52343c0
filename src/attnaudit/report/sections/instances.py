"""The instances of a page: which ones it shows, their heatmaps, and the list to search.

A large trace fits into little memory: a line for every row, and a few rows whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from zlib import crc32

import numpy as np
import polars as pl
from jaxtyping import Int64

from attnaudit.core.errors import InputError
from attnaudit.report.meanings import measure_meaning
from attnaudit.report.page import SAVE, Section
from attnaudit.report.sections.heatmaps import Heatmap, heatmap, read_instances
from attnaudit.report.words import of_unit
from attnaudit.results.record import RunRecord
from attnaudit.results.summary import INSTANCE, ROW, Heads
from attnaudit.trace import Trace, concatenate, trace_files, trace_rows

STATIC_TOKENS, LISTED_TOKENS = 120, 75
WHOLE_TOKENS = 5000  # of a text with a heatmap, in the boxes that scroll
SNIPPET = 14  # tokens that the list shows of each text
CONFIDENT = 0.75  # quantile of the probability of the predicted class
SHORTEST = 5
STRIKING, RANDOM, LISTED = 6, 6, 500
SHOWN_BY = "emax_jsd"  # the column whose highest values are striking

FIGURES = (  # of the list: measure, title, experiment, decimals
    ("max_alpha", "max α", "", 2),
    ("tau_gradient", "τ grad.", "correlation", 2),
    ("tau_loo", "τ LOO", "correlation", 2),
    ("median_delta_y", "Δŷ shuffled", "permutation", 3),
    ("emax_jsd", "ε-max JSD", "adversary", 3),
)
_SHOWN = (
    *("instance", "split", "label", "tokens", "question", "alpha", "prediction", "gradient", "loo"),
    *("rationale", "layer", "head", "query", "special", "word_id"),
)


def instance_sections(
    trace: Trace | str | Path,
    seen: pl.DataFrame,
    rows: pl.DataFrame,
    record: RunRecord,
    unit: str = INSTANCE,
) -> tuple[Section, Section, Selection]:
    """Make the heatmaps, the list, and the choice of trace rows that they show.

    Args:
        trace: The trace.
        seen: Its `overview`.
        rows: The experiments' tables, joined.
        record: The run.
        unit: What a row is called.
    """
    chosen = select(rows, seen, record.about.seed or 0, unit).of(record.sample)
    picks = np.union1d(chosen.listed, chosen.pictured)
    read = read_instances(rows_shown(trace, picks), record.rows(picks))
    instances = dict(zip(picks.tolist(), read, strict=True))
    striking, random, listed = (
        [heatmap(instances[row], budget) for row in part.tolist()]
        for part, budget in (
            (chosen.striking, STATIC_TOKENS),
            (chosen.random, STATIC_TOKENS),
            (chosen.listed, LISTED_TOKENS),
        )
    )
    pictured = [*striking, *random]
    special = any(any(picture.special) for picture in listed)
    whole = {
        one.instance.anchor: heatmap(one.instance, WHOLE_TOKENS).as_json()
        | {"length": len(one.instance.tokens)}
        for one in pictured
        if one.left_out
    }
    heatmaps = {
        "striking": striking,
        "random": random,
        "rule": chosen.rule,
        "unit": unit,
        "has_rationale": any(any(picture.known) for picture in listed),
        "has_adversary": SHOWN_BY in rows.columns,
        "special": special,
        "has_ranges": any(picture.instance.ranges is not None for picture in pictured),
    }
    heading = "Instances" if unit == INSTANCE else "Texts"
    columns = [
        ("Instance" if unit == INSTANCE else "Text, head", "num", ""),
        *((title, "text", "") for title in ("Text", "Predicted", "Label")),
        ("ŷ", "num", "Probability of the predicted class."),
        ("max α", "num", "Largest attention weight."),
        *((title, "num", measure_meaning(name, of, unit)) for name, title, of, _ in FIGURES[1:]),
    ]
    content = {
        "listed": [(picture, _snippet(picture)) for picture in listed],
        "total": record.height or seen.height,
        "classes": sorted({picture.instance.predicted for picture in listed}),
        "unit": unit,
        "heading": heading,
        "heads": Heads.of(record.summary),
        "columns": columns,
        "figures": [(name, places) for name, _, _, places in FIGURES],
    }
    links, data = (("Heatmaps", "#heatmaps"),), {"long-data": whole} if whole else {}
    styles, scripts = ("heads.css",) if special else (), ("heatmap.js", "sections/instances.js")
    drawn = {"instance-data": [picture.as_json() for picture in listed]}
    return (
        Section("heatmaps", heatmaps, links, SAVE, data, styles),
        Section("instances", content, ((heading, "#instances"),), scripts, drawn),
        chosen,
    )


def _snippet(picture: Heatmap) -> str:
    """Return how a text begins, without special tokens.

    The question stands before it, since questions about one text would look alike.
    """
    special = iter(picture.special)
    words = [
        piece if isinstance(piece, str) else "…"
        for piece in picture.pieces
        if not (isinstance(piece, str) and next(special))
    ]
    question = f"{picture.instance.question} · " if picture.instance.question else ""
    return question + " ".join(words[:SNIPPET]) + (" …" if len(words) > SNIPPET else "")


@dataclass(frozen=True)
class Selection:
    """Numbers of trace rows.

    Attributes:
        striking: The most striking ones first, found by ``rule``.
        random: Random ones.
        listed: All that the list shows.
        rule: How the striking ones were found, for a reader.
    """

    striking: Int64[np.ndarray, " s"]
    random: Int64[np.ndarray, " r"]
    listed: Int64[np.ndarray, " m"]
    rule: str

    @property
    def pictured(self) -> Int64[np.ndarray, " k"]:
        """Rows with a heatmap on the page."""
        return np.union1d(self.striking, self.random)

    @property
    def only_listed(self) -> Int64[np.ndarray, " l"]:
        """Rows of the list without a heatmap."""
        return np.setdiff1d(self.listed, self.pictured)

    def of(self, sample: Int64[np.ndarray, " n"] | None) -> Selection:
        """Return these rows of a ``sample`` of trace rows as rows of the trace; None is all."""
        if sample is None:
            return self
        return Selection(sample[self.striking], sample[self.random], sample[self.listed], self.rule)


def select(rows: pl.DataFrame, seen: pl.DataFrame, seed: int, unit: str = INSTANCE) -> Selection:
    """Choose the striking rows by a rule, and the random ones by a draw.

    If ``unit`` is a row, a text is striking under one of its heads.

    Args:
        rows: The experiments' tables side by side, with a row per trace row.
        seen: The trace's `overview`.
        seed: Seed of the draw, which otherwise depends on the number of rows only.
        unit: What a row is called.
    """
    draw = np.random.default_rng([seed, crc32(b"report")]).permutation(seen.height)
    threshold = float(np.quantile(seen["confidence"].to_numpy(), CONFIDENT))
    striking = np.zeros(0, np.int64)
    if SHOWN_BY in rows.columns:
        fit = seen.select((pl.col("confidence") >= threshold) & (pl.col("positions") >= SHORTEST))
        shown = rows.select("instance", pl.col(SHOWN_BY).fill_nan(None)).with_row_index("row")
        best = shown.filter(fit.to_series()).drop_nulls(SHOWN_BY)
        best = best.sort(SHOWN_BY, descending=True, maintain_order=True)
        if unit == ROW:
            best = best.unique("instance", keep="first", maintain_order=True)
        striking = best["row"].head(STRIKING).to_numpy().astype(np.int64)
    first = np.concatenate([striking, draw])
    listed = first[np.sort(np.unique(first, return_index=True)[1])][:LISTED]
    under = " (of each text the head where it is highest)" if unit == ROW else ""
    least = f"{threshold:.2f} or more" if threshold < 0.995 else "more than 0.99"
    rule = (
        f"Of the quarter of instances whose predicted class is the most probable (here {least}) "
        f"and that have at least {SHORTEST} tokens, those with the highest ε-max JSD{under}: the "
        "outputs that leave their attention weights most free. The more certain an output is, the "
        "more room it leaves: look at the random ones too."
    )
    return Selection(striking, np.sort(draw[:RANDOM]), np.sort(listed), of_unit(rule, unit))


def overview(
    trace: Trace | str | Path, picks: Int64[np.ndarray, " m"] | None = None
) -> pl.DataFrame:
    """Return ``instance``, ``confidence`` and ``positions`` of every trace row, or of ``picks``.

    ``confidence`` is the probability of the predicted class, ``positions`` is T.

    Raises:
        TraceError: If the trace cannot be read.
    """
    names = ("instance", "prediction", "alpha")
    parts = _parts(trace, names) if picks is None else _picked(trace, picks, names)
    columns = []
    for part in parts:
        highest = part.prediction.max(axis=1)
        if part.prediction.shape[1] == 1:
            highest = np.maximum(highest, 1.0 - highest)
        known = {"instance": part.instance, "confidence": highest}
        columns.append(pl.DataFrame(known | {"positions": part.ragged("alpha").lengths}))
    return pl.concat(columns)


def rows_shown(
    trace: Trace | str | Path, picks: Int64[np.ndarray, " m"], names: tuple[str, ...] = _SHOWN
) -> Trace:
    """Return the rows ``picks``, in ascending order, with the columns that a report shows.

    Raises:
        TraceError: If the trace cannot be read.
    """
    return concatenate(list(_picked(trace, picks, names)))


def _picked(
    trace: Trace | str | Path, picks: Int64[np.ndarray, " m"], names: tuple[str, ...]
) -> Iterator[Trace]:
    """Yield the rows ``picks``, piece by piece; files that have none of them are not read."""
    done = 0
    for file in [trace] if isinstance(trace, Trace) else trace_files(Path(trace)):
        end = done + (len(file) if isinstance(file, Trace) else trace_rows(file))
        if not ((picks >= done) & (picks < end)).any():
            done = end
            continue
        for part in _parts(file, names):
            within = picks[(picks >= done) & (picks < done + len(part))] - done
            if len(within):
                yield part.take(within)
            done += len(part)


def _parts(trace: Trace | str | Path, names: tuple[str, ...]) -> Iterator[Trace]:
    if not isinstance(trace, Trace):
        return Trace.columns(trace, names)
    table = trace.table.select([name for name in names if trace.has(name)])
    return iter([replace(trace, table=table)])


def check_same_instances(seen: pl.DataFrame, rows: pl.DataFrame) -> None:
    """Check that the results' tables are of the trace of the overview ``seen``.

    Raises:
        InputError: If they are of another trace.
    """
    if rows.height and not rows["instance"].equals(seen["instance"]):
        got = (
            f"{rows.height} rows of results, and a trace of {seen.height} rows that names other "
            "instances"
        )
        expected = "the trace that the results were made of"
        raise InputError("write report", "trace and results", got, expected, "run the audit again")
