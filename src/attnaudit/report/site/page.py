"""The page of a site: a table of its runs, one measure over all of them, their instances, two of them compared, and further pages.

The page computes what a reader asks of it from the columns of `contents`; means and intervals of runs are those of their summaries.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from attnaudit.core.numbers import count
from attnaudit.experiments import measure_label
from attnaudit.report.meanings import measure_meaning
from attnaudit.report.page import Section, write_page
from attnaudit.report.sections.provenance import corpus_title, settings
from attnaudit.report.site.contents import OF_ROWS, Spread
from attnaudit.report.site.packing import pack
from attnaudit.report.words import figure, interval
from attnaudit.results.about import About
from attnaudit.results.summary import INSTANCE
from attnaudit.stats.bootstrap import RESAMPLES, expanded_tail, resample_keys
from attnaudit.stats.inference import FEWEST

BINS = 30
MOST_VALUES = 24  # of a setting that runs can be filtered by
TAILS = 300  # texts up to which the page knows the tail of an interval exactly; beyond, it is linear in 1/n
SCRIPTS = tuple(
    f"{name}.js"
    for name in (
        *(
            "site/data",
            "site/state",
            "site/charts",
            "blocks",
            "site/heatmap",
            "site/explorer",
            "site/instances",
            "site/bootstrap",
        ),
        *("site/compare", "site/runs", "site/main"),
    )
)
HEADLINES = {
    "Accuracy": "prediction.accuracy", "BLEU": "translation.bleu", "τ gradient": "correlation.tau_gradient",
    "τ LOO": "correlation.tau_loo", "median Δŷ": "permutation.median_delta_y", "ε-max JSD": "adversary.emax_jsd",
    "flips by max α": "erasure.flip_max", "removed to flip": "erasure.removed_attention",
}  # fmt: skip
OVERVIEW = "overview"
_PLACES = (
    "data_dir",
    "trace",
    "shards",
    "sha256",
    "fingerprint",
    "schema",
    "kind",
    "chosen",
    "source",
)  # nothing to filter by


@dataclass(frozen=True)
class SiteRun:
    """A run of a site: its ``page`` relative to the site's, empty where there is none, and the keys of its data."""

    name: str
    page: str
    about: About
    figures: Mapping[str, Mapping[str, Any]]
    spreads: Mapping[str, Spread]
    rows: int
    instances: int
    notice: str = ""
    columns: str = ""
    weights: str = ""
    texts: str = ""

    @property
    def model(self) -> str:
        return self.about.model or self.about.encoder

    @property
    def unit(self) -> str:
        return INSTANCE if self.rows == self.instances else "row"


@dataclass(frozen=True)
class Further:
    """Further pages of a site under one heading: (title, address)."""

    heading: str
    pages: tuple[tuple[str, str], ...] = field(default_factory=tuple)


def write_index(
    path: Path,
    runs: Sequence[SiteRun],
    further: Sequence[Further],
    inlined: Mapping[str, str] | None = None,
) -> Path:
    """Write the page of a site and return it; ``inlined`` has the data by key where it is one file. Raises RunError."""
    data = {"site-data": {"runs": [_facts(run) for run in runs], "inlined": inlined is not None}}
    data |= {f"data-{key}": packed for key, packed in (inlined or {}).items()}
    content = {
        "runs": list(_entries(runs)),
        "columns": _shown(runs),
        "meaning_of": lambda name: _measure(name)["meaning"],
        "facets": facets(runs),
        "further": further,
        "inlined": inlined is not None,
    }
    links = [
        ("Runs", "#view=runs"),
        ("One measure", "#view=runs&at=multiples"),
        ("Instances", "#view=instances"),
        ("Compare", "#view=compare"),
    ]
    links += [(one.heading, f"#view=runs&at={anchor(one.heading)}") for one in further]
    corpora = len({corpus_title(run.about) for run in runs})
    subtitle = (
        f"{count(len(runs), 'run')} on {'one corpus' if corpora == 1 else f'{corpora} corpora'}"
        if runs
        else ""
    )
    sections = [
        Section(
            "site",
            content | {"anchor": anchor},
            tuple(links if runs else links[4:]),
            SCRIPTS,
            data,
            ("site/site.css",),
        )
    ]
    return write_page(path, sections, "Attention audits", subtitle, loads=True)


def overview(runs: Sequence[SiteRun]) -> str:
    """Of every run and measure the mean with its interval, and a histogram on an axis that all runs share, packed.

    With it go the keys of the resamples of paired differences and the tails of their percentiles, from which the page draws the intervals
    of `attnaudit.stats.paired.paired_means`.
    """
    names = list(dict.fromkeys(name for run in runs for name in (*run.spreads, *run.figures)))
    ends = {
        name: _ends([run.spreads[name] for run in runs if name in run.spreads]) for name in names
    }
    means = np.full((len(runs), len(names), 3), np.nan)
    bins = np.zeros((len(runs), len(names), BINS), np.uint32)
    for r, run in enumerate(runs):
        for m, name in enumerate(names):
            row = run.figures.get(name)
            means[r, m] = [
                np.nan if row is None or row[part] is None else row[part]
                for part in ("value", "low", "high")
            ]
            if name in run.spreads:
                bins[r, m] = _rebinned(run.spreads[name], *ends[name])
    facts = {
        "bins": BINS, "fewest": FEWEST,
        "measures": [_measure(name) | {"ends": ends[name], "rows": any(name in run.spreads for run in runs)} for name in names],
    }  # fmt: skip
    drawing = {
        "bootstrap.keys": resample_keys(0, RESAMPLES).astype("<u8").view("<u4"),
        "bootstrap.tails": expanded_tail(np.arange(FEWEST, TAILS + 1)),
    }
    return pack({"means": means.ravel(), "bins": bins.ravel()} | drawing, facts)


def facets(runs: Sequence[SiteRun]) -> list[tuple[str, list[str]]]:
    """The settings in which runs differ, the four that name a run first: (name, values)."""
    values: dict[str, dict[str, None]] = {}
    for run in runs:
        for name, value in run_settings(run).items():
            values.setdefault(name, {})[value] = None
    kept = {
        name: sorted(known, key=_natural)
        for name, known in values.items()
        if 1 < len(known) <= MOST_VALUES
    }
    return [
        (name, kept[name])
        for name in sorted(
            kept,
            key=lambda name: (name not in ("corpus", "model", "attention", "seed"), "." in name),
        )
    ]


def run_settings(run: SiteRun) -> dict[str, str]:
    """What a run can be filtered by."""
    own = {
        "corpus": corpus_title(run.about),
        "model": run.model,
        "attention": run.about.attention,
        "seed": str(run.about.seed),
    }
    flat = {
        name: value
        for _, entries in settings(About(spec=run.about.spec))
        for name, value in entries
    }
    further = {
        name: value
        for name, value in flat.items()
        if name not in own and name.rpartition(".")[2] not in _PLACES
    }
    return own | {
        name: value
        for name, value in further.items()
        if name not in ("model.encoder", "model.attention", "model.name")
    }


def anchor(heading: str) -> str:
    return heading.lower().replace(" ", "-")


def _facts(run: SiteRun) -> dict[str, Any]:
    return {
        "name": run.name, "page": run.page, "settings": run_settings(run), "unit": run.unit, "rows": run.rows, "notice": run.notice,
        "columns": run.columns, "weights": run.weights, "texts": run.texts,
    }  # fmt: skip


def _measure(name: str) -> dict[str, str]:
    experiment, _, measure = name.partition(".")
    label = OF_ROWS.get(name) or measure_label(measure, experiment)
    return {
        "name": name,
        "experiment": experiment,
        "label": label,
        "meaning": "" if name in OF_ROWS else measure_meaning(measure, experiment),
    }


def _ends(spreads: Sequence[Spread]) -> list[float]:
    return (
        [min(one.low for one in spreads), max(one.high for one in spreads)]
        if spreads
        else [0.0, 1.0]
    )


def _rebinned(spread: Spread, low: float, high: float) -> np.ndarray:
    """The counts of a run's fine bins, each put where its middle lies on the common axis."""
    fine = len(spread.counts)
    middles = spread.low + (np.arange(fine) + 0.5) / fine * (spread.high - spread.low)
    place = np.zeros(fine) if high <= low else (middles - low) / (high - low) * BINS
    return np.bincount(np.clip(place.astype(np.int64), 0, BINS - 1), spread.counts, BINS).astype(
        np.uint32
    )


def _shown(runs: Sequence[SiteRun]) -> list[tuple[str, str, float, float]]:
    """The measures of the table that a run has: (title, name, and the ends of the axis of their intervals)."""
    found = []
    for title, name in HEADLINES.items():
        ends = [
            row[end]
            for run in runs
            if (row := run.figures.get(name))
            for end in ("low", "high", "value")
            if row[end] is not None
        ]
        if ends:
            found.append((title, name, min(ends), max(ends)))
    return found


def _entries(runs: Sequence[SiteRun]) -> Iterator[dict[str, Any]]:
    shown = _shown(runs)
    for run in runs:
        cells = [_cell(run.figures.get(name), low, high) for _, name, low, high in shown]
        yield {"run": run, "corpus": corpus_title(run.about), "cells": cells}


def _cell(row: Mapping[str, Any] | None, low: float, high: float) -> dict[str, Any] | None:
    """A mean as the table shows it: its text, and where it and its interval lie on the axis, in percent."""
    if row is None or row["value"] is None:
        return None
    width = (high - low) or 1.0
    ends = [(row[name] - low) / width * 100 for name in ("low", "high") if row[name] is not None]
    return {
        "value": row["value"], "text": figure(row["value"], 3 if abs(row["value"]) < 0.1 else 2), "title": interval(row, 3),
        "at": f"{(row['value'] - low) / width * 100:.1f}", "from": f"{ends[0]:.1f}" if len(ends) == 2 else "",
        "width": f"{ends[1] - ends[0]:.1f}" if len(ends) == 2 else "",
    }  # fmt: skip


def _natural(text: str) -> tuple[int, float, str]:
    """Numbers by size, before names."""
    try:
        return 0, float(text), text
    except ValueError:
        return 1, 0.0, text
