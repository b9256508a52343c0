"""The instances of a page: which ones it shows, what it reads of a trace, heatmaps, the list that can be searched, and stepwise
removal: the page computes the output ``activation(offset + Σ alpha_t · readout_t / Σ alpha_t)`` over the tokens that are left.

A large trace fits into little memory: a line for every row, and a few rows whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import polars as pl
from jaxtyping import Bool, Float, Int64

from attnaudit.core.errors import InputError
from attnaudit.experiments.erasure.experiment import MINIMUM
from attnaudit.report.meanings import measure_meaning
from attnaudit.report.page import SAVE, Section
from attnaudit.report.sections.heatmaps import (
    Heatmap,
    head_of_row,
    heatmap,
    read_instances,
    row_name,
    visible,
)
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
MOST_NUMBERS = 4000  # tokens times outputs of one instance whose tokens can be removed
DIGITS = 9  # as many as float32 holds
SHOWN_BY = "emax_jsd"  # the column whose highest values are striking

FIGURES = (  # of the list: title, experiment, measure, decimals
    ("max α", "", "max_alpha", 2), ("τ grad.", "correlation", "tau_gradient", 2), ("τ LOO", "correlation", "tau_loo", 2),
    ("Δŷ shuffled", "permutation", "median_delta_y", 3), ("ε-max JSD", "adversary", "emax_jsd", 3),
)  # fmt: skip
_SHOWN = (
    "instance", "split", "label", "tokens", "question", "alpha", "prediction", "gradient", "loo", "rationale", "layer", "head", "query",
    "special", "word_id",
)  # fmt: skip
_READ_OUT = (
    "instance",
    "tokens",
    "alpha",
    "readout",
    "offset",
    "prediction",
    "candidates",
    "layer",
    "head",
)


def instance_sections(
    trace: Trace | str | Path,
    seen: pl.DataFrame,
    rows: pl.DataFrame,
    record: RunRecord,
    unit: str = INSTANCE,
) -> tuple[Section, Section, Selection]:
    """Heatmaps, the list and the trace rows that they show; ``seen`` is the `overview`, ``rows`` are the joined tables, ``unit`` is what
    a row is called.
    """
    chosen = select(rows, seen, record.about.seed or 0, unit).of(record.sample)
    picks = np.unique(np.concatenate([chosen.listed, chosen.striking, chosen.random]))
    instances = dict(
        zip(
            picks.tolist(),
            read_instances(rows_shown(trace, picks), record.rows(picks)),
            strict=True,
        )
    )
    pictures = [heatmap(instances[row], LISTED_TOKENS) for row in chosen.listed.tolist()]
    striking, random = (
        [heatmap(instances[row], STATIC_TOKENS) for row in part.tolist()]
        for part in (chosen.striking, chosen.random)
    )
    heatmaps = {
        "striking": striking, "random": random, "rule": chosen.rule, "unit": unit,
        "has_rationale": any(any(picture.known) for picture in pictures), "has_adversary": SHOWN_BY in rows.columns,
        "special": any(any(picture.special) for picture in pictures),
        "has_ranges": any(picture.instance.ranges is not None for picture in (*striking, *random)),
    }  # fmt: skip
    listed = {
        "listed": [(picture, _snippet(picture)) for picture in pictures], "total": record.height or seen.height,
        "classes": sorted({picture.instance.predicted for picture in pictures}), "unit": unit, "special": heatmaps["special"],
        "heading": "Instances" if unit == INSTANCE else "Texts", "heads": Heads.of(record.summary), "columns": list(_columns(unit)),
        "figures": [(measure, places) for _, _, measure, places in FIGURES],
    }  # fmt: skip
    data = {"instance-data": [picture.as_json() for picture in pictures]}
    styles = ("heads.css",) if heatmaps["special"] else ()
    long = {"long-data": found} if (found := _long([*striking, *random])) else {}
    return (
        Section(
            "heatmaps",
            heatmaps,
            (("Heatmaps", "#heatmaps"),),
            (*(("long.js",) if long else ()), *SAVE),
            long,
            styles,
        ),
        Section("instances", listed, ((listed["heading"], "#instances"),), ("report.js",), data),
        chosen,
    )


def _columns(unit: str) -> Iterator[tuple[str, str, str]]:
    """Title, kind and meaning of the columns of the list."""
    named = (
        ("Instance" if unit == INSTANCE else "Text, head", "num"),
        ("Text", "text"),
        ("Predicted", "text"),
        ("Label", "text"),
    )
    yield from ((title, kind, "") for title, kind in named)
    yield "ŷ", "num", "Probability of the predicted class."
    for title, experiment, measure, _ in FIGURES:
        yield (
            title,
            "num",
            measure_meaning(measure, experiment, unit)
            if experiment
            else "Largest attention weight.",
        )


def _long(pictures: Sequence[Heatmap]) -> dict[str, Any]:
    """The texts of pictures that do not show all tokens, whole, by their place on the page."""
    texts = {picture.instance.anchor: picture.instance for picture in pictures if picture.left_out}
    return {
        anchor: heatmap(text, WHOLE_TOKENS).as_json() | {"length": len(text.tokens)}
        for anchor, text in texts.items()
    }


def _snippet(picture: Heatmap) -> str:
    """How the text begins, without special tokens; the question stands before it, since questions about one text would look alike."""
    special = iter(picture.special)
    shown = [
        piece for piece in picture.pieces if not isinstance(piece, str) or not next(special, False)
    ] or picture.pieces
    words = [piece if isinstance(piece, str) else "…" for piece in shown[: SNIPPET + 1]]
    question = f"{picture.instance.question} · " if picture.instance.question else ""
    return question + " ".join(words[:SNIPPET]) + (" …" if len(words) > SNIPPET else "")


@dataclass(frozen=True)
class Selection:
    """Row numbers: the striking ones, the most striking first, found by ``rule``; random ones; and all that the list shows."""

    striking: Int64[np.ndarray, " s"]
    random: Int64[np.ndarray, " r"]
    listed: Int64[np.ndarray, " m"]
    rule: str

    @property
    def pictured(self) -> Int64[np.ndarray, " k"]:
        """Those with a heatmap on the page."""
        return np.unique(np.concatenate([self.striking, self.random]))

    @property
    def only_listed(self) -> Int64[np.ndarray, " l"]:
        """Those of the list without one."""
        return np.setdiff1d(self.listed, self.pictured)

    def of(self, sample: Int64[np.ndarray, " n"] | None) -> Selection:
        """These rows of a ``sample`` of trace rows, as rows of the trace; None is all."""
        if sample is None:
            return self
        return Selection(sample[self.striking], sample[self.random], sample[self.listed], self.rule)


def select(rows: pl.DataFrame, seen: pl.DataFrame, seed: int, unit: str = INSTANCE) -> Selection:
    """Choose the striking by a rule, and the random by a draw that depends on ``seed`` and the number of rows alone.

    Of several heads, whose ``unit`` is a row, a text is striking under one of them. ``rows`` are the experiments' tables side by side,
    ``seen`` is the trace's overview, both with a row per trace row.
    """
    draw = np.random.default_rng([seed, crc32(b"report")]).permutation(seen.height)
    confidence = seen["confidence"].to_numpy()
    threshold = float(np.quantile(confidence, CONFIDENT))
    striking = _striking(
        rows, unit == ROW, (confidence >= threshold) & (seen["positions"].to_numpy() >= SHORTEST)
    )
    first = np.concatenate([striking, draw])
    kept = first[np.sort(np.unique(first, return_index=True)[1])][:LISTED]
    under = " (of each text the head where it is highest)" if unit == ROW else ""
    least = f"{threshold:.2f} or more" if threshold < 0.995 else "more than 0.99"
    rule = (
        f"Of the quarter of instances whose predicted class is the most probable (here {least}) and that have at least {SHORTEST} tokens, "
        f"those with the highest ε-max JSD{under}: the outputs that leave their attention weights most free. The more certain an output "
        "is, the more room it leaves: look at the random ones too."
    )
    return Selection(striking, np.sort(draw[:RANDOM]), np.sort(kept), of_unit(rule, unit))


def _striking(
    rows: pl.DataFrame, once: bool, fit: Bool[np.ndarray, " n"]
) -> Int64[np.ndarray, " s"]:
    """The rows of the highest values among those that ``fit``; with ``once`` one row of a text."""
    if SHOWN_BY not in rows.columns:
        return np.zeros(0, np.int64)
    divergence = rows[SHOWN_BY].cast(pl.Float64).fill_null(float("nan")).to_numpy()
    candidates = np.flatnonzero(fit & ~np.isnan(divergence))
    ordered = candidates[np.argsort(-divergence[candidates], kind="stable")]
    first = (
        np.sort(np.unique(rows["instance"].to_numpy()[ordered], return_index=True)[1])
        if once
        else slice(None)
    )
    return ordered[first][:STRIKING]


def overview(
    trace: Trace | str | Path, picks: Int64[np.ndarray, " m"] | None = None
) -> pl.DataFrame:
    """A row per trace row, or of ``picks``: ``instance``, ``confidence`` (probability of the predicted class), ``positions`` (T).

    Raises TraceError.
    """
    names = ("instance", "prediction", "alpha")
    parts = _parts(trace, names) if picks is None else _picked(trace, picks, names)
    return pl.concat(
        pl.DataFrame(
            {
                "instance": part.instance,
                "confidence": _confidence(part.prediction),
                "positions": part.ragged("alpha").lengths,
            }
        )
        for part in parts
    )


def rows_shown(
    trace: Trace | str | Path, picks: Int64[np.ndarray, " m"], names: tuple[str, ...] = _SHOWN
) -> Trace:
    """The rows ``picks``, in ascending order, with the columns that a report shows. Raises TraceError."""
    return concatenate(list(_picked(trace, picks, names)))


def _picked(
    trace: Trace | str | Path, picks: Int64[np.ndarray, " m"], names: tuple[str, ...]
) -> Iterator[Trace]:
    """The rows ``picks``, piece by piece; files that have none of them are not read."""
    done = 0
    for file in [trace] if isinstance(trace, Trace) else trace_files(Path(trace)):
        end = done + (len(file) if isinstance(file, Trace) else trace_rows(file))
        if not ((picks >= done) & (picks < end)).any():
            done = end
            continue
        for part in _parts(file, names):
            here = picks[(picks >= done) & (picks < done + len(part))] - done
            if len(here):
                yield part.take(here)
            done += len(part)


def _parts(trace: Trace | str | Path, names: tuple[str, ...]) -> Iterator[Trace]:
    if not isinstance(trace, Trace):
        return Trace.columns(trace, names)
    return iter(
        [replace(trace, table=trace.table.select([name for name in names if trace.has(name)]))]
    )


def _confidence(prediction: Float[np.ndarray, "n C"]) -> Float[np.ndarray, " n"]:
    highest = prediction.max(axis=1)
    return np.maximum(highest, 1.0 - highest) if prediction.shape[1] == 1 else highest


def check_same_instances(seen: pl.DataFrame, rows: pl.DataFrame) -> None:
    """Raise InputError where the results' tables are of another trace than the overview ``seen``."""
    if rows.height and (
        rows.height != seen.height or not rows["instance"].equals(seen["instance"])
    ):
        got = f"{rows.height} rows of results, and a trace of {seen.height} rows that names other instances"
        raise InputError(
            "write report",
            "trace and results",
            got,
            "the trace that the results were made of",
            "run the audit again",
        )


def erasure_section(
    trace: Trace | str | Path, record: RunRecord, picks: np.ndarray, unit: str = INSTANCE
) -> Section | None:
    """The rows ``picks`` for stepwise removal; None where erasure was not run, or the output is not a plain sum."""
    if "erasure" not in record.tables:
        return None
    chosen, facts = rows_shown(trace, picks, _READ_OUT), record.rows(picks)
    if chosen.metadata["tail"] != "identity":
        return None
    fit = (
        k
        for k in range(len(chosen))
        if len(chosen.alpha[k]) > 1 and chosen.readout.contribution[k].size <= MOST_NUMBERS
    )
    entries = [_entry(chosen, k, facts) for k in fit]
    if not entries:
        return None
    content = {
        "names": [entry["name"] for entry in entries],
        "left_out": len(chosen) - len(entries),
        "unit": unit,
    }
    data = {"steps-data": {"instances": entries, "classes": chosen.class_names}}
    return Section("erasure", content, (("Removals", "#steps"),), ("erasure.js",), data)


def _entry(trace: Trace, k: int, facts: pl.DataFrame) -> dict[str, Any]:
    readout = trace.readout
    allowed = None if readout.candidates is None else readout.candidates[k].tolist()
    tokens = [visible(token) for token in trace.tokens(k)]
    return {
        "name": row_name(str(trace.instance[k]), head_of_row(trace, k)), "tokens": tokens, "alpha": _rounded(trace.alpha[k]),
        "readout": _rounded(readout.contribution[k].T), "offset": _rounded(readout.offset[k]), "allowed": allowed,
        "minimum": facts[MINIMUM][k].to_list(), "proven": facts["minimum_proven"][k],
    }  # fmt: skip


def _rounded(values: np.ndarray) -> Any:
    """Numbers short enough for a page."""
    if values.ndim == 2:
        return [_rounded(row) for row in values]
    return [float(f"{value:.{DIGITS}g}") for value in values.tolist()]
