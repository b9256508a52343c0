"""The page of a site: its runs, one measure over them, their instances, and two compared.

The page shows what a reader asks for from the columns of `contents`; means and intervals are those
of the summaries and of `attnaudit compare`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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

BINS = 30
MOST_VALUES = 24  # of a setting that runs can be filtered by
SCRIPTS = (
    *("heatmap.js", "chart.js"),
    *("site/data.js", "site/explorer.js", "site/runs.js", "site/views.js"),
)
HEADLINES = {
    "Accuracy": "prediction.accuracy",
    "BLEU": "translation.bleu",
    "τ gradient": "correlation.tau_gradient",
    "τ LOO": "correlation.tau_loo",
    "median Δŷ": "permutation.median_delta_y",
    "ε-max JSD": "adversary.emax_jsd",
    "flips by max α": "erasure.flip_max",
    "removed to flip": "erasure.removed_attention",
}
OVERVIEW = "overview"
_NAMING = ("corpus", "model", "attention", "seed")  # settings that name a run
# Settings that are nothing to filter by.
_PLACES = (
    *("data_dir", "trace", "shards", "sha256", "fingerprint", "schema", "kind", "chosen", "source"),
    *("model.encoder", "model.attention", "model.name"),
)


@dataclass(frozen=True)
class SiteRun:
    """A run of a site.

    Attributes:
        name: Its name.
        page: Address of its page; empty if there is none.
        about: The run.
        figures: Rows of its summary over all instances, by ``experiment.measure``.
        spreads: Its measures over rows.
        rows: Number of rows.
        instances: Number of instances.
        notice: Reason to conclude nothing from its attention.
        columns: Key of its columns.
        weights: Key of its weights.
        texts: Key of its texts.
    """

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
        """Name of its model."""
        return self.about.model or self.about.encoder

    @property
    def corpus(self) -> str:
        """Title of its corpus."""
        return corpus_title(self.about)

    @property
    def settings(self) -> dict[str, str]:
        """Fields that filter the runs, those that name a run first."""
        named = (self.corpus, self.model, self.about.attention, str(self.about.seed))
        own: dict[str, str] = dict(zip(_NAMING, named, strict=True))
        for name, value in (e for _, part in settings(About(spec=self.about.spec)) for e in part):
            if not {name, name.rpartition(".")[2]} & {*_PLACES}:
                own.setdefault(name, value)
        return own

    def as_json(self) -> dict[str, Any]:
        """Return what the page's scripts know of it."""
        names = ("name", "page", "settings", "rows", "notice", "columns", "weights", "texts")
        unit = INSTANCE if self.rows == self.instances else "row"
        return {name: getattr(self, name) for name in names} | {"unit": unit}


@dataclass(frozen=True)
class Further:
    """Further pages of a site under one heading: (title, address)."""

    heading: str
    pages: tuple[tuple[str, str], ...] = field(default_factory=tuple)

    @property
    def anchor(self) -> str:
        """The fragment of the page's address that names it."""
        return self.heading.lower().replace(" ", "-")


def write_index(
    path: Path,
    runs: Sequence[SiteRun],
    further: Sequence[Further],
    pairs: Mapping[str, Mapping[str, str]],
    inlined: Mapping[str, str] | None = None,
) -> Path:
    """Write the page of a site and return it.

    Args:
        path: Path of the page.
        runs: Its runs.
        further: Its further pages.
        pairs: For two runs, as ``0-1``, the ``key`` of their comparison, or the ``reason`` why
            there is none.
        inlined: Data by key, if the site is one file.

    Raises:
        RunError: If it cannot be written.
    """
    data: dict[str, Any] = {"site-data": {"runs": [run.as_json() for run in runs], "pairs": pairs}}
    data |= {f"data-{key}": packed for key, packed in (inlined or {}).items()}
    axes = {}  # of the measures of the table that a run has
    for name in HEADLINES.values():
        rows = [run.figures.get(name, {}) for run in runs]
        ends = [row.get(end) for row in rows for end in ("low", "high", "value")]
        if known := [end for end in ends if end is not None]:
            axes[name] = (min(known), max(known))
    shown = {title: name for title, name in HEADLINES.items() if name in axes}
    content = {
        "runs": [(run, [_cell(run.figures.get(n), axes[n]) for n in axes]) for run in runs],
        "columns": [(title, _measure(name)["meaning"]) for title, name in shown.items()],
        "facets": facets(runs),
        "further": further,
    }
    names = ("Runs", "One measure", "Instances", "Compare")
    views = dict(zip(names, ("runs", "runs&at=multiples", "instances", "compare"), strict=True))
    links = [(title, f"#view={view}") for title, view in views.items() if runs]
    links += [(one.heading, f"#view=runs&at={one.anchor}") for one in further]
    corpora = len({run.corpus for run in runs})
    on = "one corpus" if corpora == 1 else f"{corpora} corpora"
    subtitle = f"{count(len(runs), 'run')} on {on}" if runs else ""
    section = Section("site", content, tuple(links), SCRIPTS if runs else (), data, ("site.css",))
    return write_page(path, [section], "Attention audits", subtitle, allows="'strict-dynamic'")


def overview(runs: Sequence[SiteRun]) -> str:
    """Pack the mean of every run and measure, and histograms on an axis that all runs share."""
    names = list(dict.fromkeys(name for run in runs for name in (*run.spreads, *run.figures)))
    measures, means = [], np.full((len(runs), len(names), 3), np.nan)
    bins = np.zeros((len(runs), len(names), BINS), np.uint32)
    for m, name in enumerate(names):
        spreads = {r: run.spreads[name] for r, run in enumerate(runs) if name in run.spreads}
        low = min((one.low for one in spreads.values()), default=0)
        high = max((one.high for one in spreads.values()), default=1)
        measures.append(_measure(name) | {"ends": [low, high], "rows": bool(spreads)})
        for r, spread in spreads.items():
            # Counts of fine bins go where their middles lie on the common axis.
            edges = np.linspace(spread.low, max(spread.high, spread.low), len(spread.counts) + 1)
            middles = (edges[1:] + edges[:-1]) / 2
            place = np.clip((middles - low) / ((high - low) or 1) * BINS, 0, BINS - 1)
            bins[r, m] = np.bincount(place.astype(int), spread.counts, BINS)
        for r, run in enumerate(runs):
            row = run.figures.get(name, {})
            means[r, m] = [row.get(part) for part in ("value", "low", "high")]
    facts = {"bins": BINS, "measures": measures}
    return pack({"means": means.ravel(), "bins": bins.ravel()}, facts)


def facets(runs: Sequence[SiteRun]) -> list[tuple[str, list[str]]]:
    """Return the settings in which runs differ, those that name a run first: (name, values)."""
    values: dict[str, set[str]] = {}
    for run in runs:
        for name, value in run.settings.items():
            values.setdefault(name, set()).add(value)
    differing = [name for name, known in values.items() if 1 < len(known) <= MOST_VALUES]
    order = sorted(differing, key=lambda name: (name not in _NAMING, "." in name))
    return [(name, sorted(values[name], key=_natural)) for name in order]


def _measure(name: str) -> dict[str, str]:
    experiment, _, measure = name.partition(".")
    label = OF_ROWS.get(name) or measure_label(measure, experiment)
    meaning = "" if name in OF_ROWS else measure_meaning(measure, experiment)
    return {"name": name, "experiment": experiment, "label": label, "meaning": meaning}


def _cell(row: Mapping[str, Any] | None, axis: tuple[float, float]) -> dict[str, Any] | None:
    """Return a mean as the table shows it, with its interval as percentages of the axis."""
    if row is None or row["value"] is None:
        return None
    low, width = axis[0], (axis[1] - axis[0]) or 1.0
    places = {"at": row["value"], "from": row["low"], "to": row["high"]}
    style = [f"--{k}:{(v - low) / width * 100:.1f}" for k, v in places.items() if v is not None]
    text = figure(row["value"], 3 if abs(row["value"]) < 0.1 else 2)
    value, title = row["value"], interval(row, 3)
    return {"value": value, "text": text, "title": title, "style": ";".join(style)}


def _natural(text: str) -> tuple[int, float, str]:
    """Order numbers by size, before names."""
    try:
        return 0, float(text), text
    except ValueError:
        return 1, 0.0, text
