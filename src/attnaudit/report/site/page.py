"""The page of a site: its runs, one measure over them, and their instances.

The page shows what a reader asks for from the columns of `contents`; means and intervals are those
of the summaries.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from attnaudit.core import count
from attnaudit.experiments.replacement import SHARE
from attnaudit.experiments.verdict import decide_verdict
from attnaudit.report.answer import LABELS, SIGNS
from attnaudit.report.page import Section, write_page
from attnaudit.report.sections.provenance import corpus_title
from attnaudit.report.site.contents import measure_facts
from attnaudit.report.words import figure, interval
from attnaudit.results import TEXT, About, Row, RunRecord

SCRIPTS = (
    *("heatmap.js", "chart.js"),
    *("site/data.js", "site/explorer.js", "site/runs.js", "site/views.js"),
)
HEADLINES = {
    "Accuracy": "prediction.accuracy",
    "BLEU": "translation.bleu",
    "score": f"replacement.{SHARE}",
    "τ gradient": "correlation.tau_gradient",
    "τ LOO": "correlation.tau_loo",
    "Δŷ shuffled, at 90 %": "permutation.matched_delta_y",
    "ε-max JSD, at 90 %": "adversary.matched_emax_jsd",
}
"""Columns: the measures of the card."""


@dataclass(frozen=True)
class SiteRun:
    """A run of a site.

    Attributes:
        name: Its name.
        key: Begins the keys of its columns and weights.
        record: Its results.
        rows: Number of rows.
        instances: Number of instances.
        texts: Key of its texts.
        page: Address of its page.
        notice: Reason to conclude nothing from its attention.
    """

    name: str
    key: str
    record: RunRecord
    rows: int
    instances: int
    texts: str
    page: str
    notice: str = ""

    @property
    def about(self) -> About:
        """Corpus and model."""
        return self.record.about

    @cached_property
    def figures(self) -> dict[str, dict[str, Any]]:
        """Rows of its summary over all instances, by ``experiment.measure``."""
        overall = self.record.summary.filter(group="all").iter_rows(named=True)
        return {f"{row['experiment']}.{row['measure']}": row for row in overall}

    @property
    def model(self) -> str:
        """Name of its model."""
        return self.about.model or self.about.encoder

    @property
    def corpus(self) -> str:
        """Title of its corpus."""
        return corpus_title(self.about)

    @cached_property
    def verdict(self) -> str:
        """Code of the verdict."""
        return decide_verdict(self.record.summary).code

    @property
    def answer(self) -> str:
        """The verdict as a reader sees it."""
        return f"{SIGNS[self.verdict]} {LABELS[self.verdict]}"

    @property
    def settings(self) -> dict[str, str]:
        """Fields that filter the runs."""
        named = {"corpus": self.corpus, "model": self.model, "attention": self.about.attention}
        return named | {"seed": str(self.about.seed), "verdict": self.verdict}

    def as_json(self) -> dict[str, Any]:
        """Return what the page's scripts know of it; means have five digits."""
        names = ("name", "page", "settings", "rows", "notice", "key", "texts")
        means = {
            name: [row[end] and float(f"{row[end]:.5g}") for end in ("value", "low", "high")]
            for name, row in self.figures.items()
            if row["value"] is not None
        }
        unit = TEXT if self.rows == self.instances else "row"
        return {name: getattr(self, name) for name in names} | {"unit": unit, "means": means}


def write_index(
    path: Path,
    runs: Sequence[SiteRun],
    further: Mapping[str, Sequence[tuple[str, str]]],
) -> Path:
    """Write the page of a site and return it.

    Args:
        path: Path of the page.
        runs: Its runs.
        further: (title, address) of its further pages, by heading.

    Raises:
        RunError: If it cannot be written.
    """
    every = dict.fromkeys(name for run in runs for name in run.figures)
    site = {"runs": [run.as_json() for run in runs], "measures": list(map(measure_facts, every))}
    data: dict[str, Any] = {"site-data": site}
    axes = {}  # of the measures of the table that a run has
    for name in HEADLINES.values():
        rows = [run.figures.get(name, {}) for run in runs]
        ends = [row.get(end) for row in rows for end in ("low", "high", "value")]
        if known := [end for end in ends if end is not None]:
            axes[name] = (min(known), max(known))
    shown = {title: name for title, name in HEADLINES.items() if name in axes}
    names = runs[0].settings if runs else ()
    settings = [(name, sorted({run.settings[name] for run in runs})) for name in names]
    content = {
        "runs": [(run, [_cell(run.figures.get(n), axes[n]) for n in axes]) for run in runs],
        "columns": [(title, measure_facts(name)["meaning"]) for title, name in shown.items()],
        "facets": [(name, values) for name, values in settings if len(values) > 1],
        "further": further,
    }
    views = {"Runs": "runs", "Texts": "instances"} if runs else {}
    links = [(name, f"#view={view}") for name, view in views.items()]
    links += [(heading, f"#view=runs&at={heading.lower()}") for heading in further]
    corpora = len({run.corpus for run in runs})
    on = "one corpus" if corpora == 1 else f"{corpora} corpora"
    subtitle = f"{count(len(runs), 'run')} on {on}" if runs else ""
    section = Section(
        "site", content, "", SCRIPTS if runs else (), data, ("site.css",), tuple(links)
    )
    return write_page(path, [section], "Attention audits", subtitle, allows="'strict-dynamic'")


def _cell(row: Row | None, axis: tuple[float, float]) -> dict[str, Any] | None:
    """Return a mean as the table shows it, with its interval as percentages of the axis."""
    if row is None or row["value"] is None:
        return None
    low, width = axis[0], (axis[1] - axis[0]) or 1.0
    places = {"at": row["value"], "from": row["low"], "to": row["high"]}
    style = [f"--{k}:{(v - low) / width * 100:.1f}" for k, v in places.items() if v is not None]
    text = figure(row["value"], 3 if abs(row["value"]) < 0.1 else 2)
    value, title = row["value"], interval(row, 3)
    return {"value": value, "text": text, "title": title, "style": ";".join(style)}
