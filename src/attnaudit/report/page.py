"""The report: one self-contained page that opens without a network."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from attnaudit.core.files import write_text
from attnaudit.experiments import columns_of_figures
from attnaudit.report.card import verdict
from attnaudit.report.citations import citations
from attnaudit.report.figures.run import draw_figures
from attnaudit.report.sections.comparison import VECTORS_DIFFER, comparison_section
from attnaudit.report.sections.displayed_trace import check_same_instances, overview
from attnaudit.report.sections.erasure import erasure_section
from attnaudit.report.sections.instances import instance_section
from attnaudit.report.sections.provenance import left_out, settings
from attnaudit.report.sections.selection import SHOWN_BY
from attnaudit.report.sections.summary import summary_tables
from attnaudit.results import words
from attnaudit.results.record import RunRecord, read_record
from attnaudit.trace import Trace

TEMPLATES = "report/templates"


def write_report(folder: str | Path, trace: Trace | str | Path | None = None, page: Path | None = None) -> Path:
    """Write the page of a run directory, or of a folder of results, by default its ``report.html``, and return its path.

    Reads ``results/*.parquet``, ``summary.json``, and ``spec.json`` where there is one. ``trace`` is the trace of these results, by
    default the folder's own; without any the page has no heatmaps and no list of instances, and says so. Raises RunError, TraceError,
    and InputError where trace and results name different instances.
    """
    folder = Path(folder)
    if trace is None and (folder / "trace").exists():
        trace = folder / "trace"
    record = read_record(folder, trace)
    path = page or folder / "report.html"
    write_text(path, environment().get_template("page.html.j2").render(**_content(record, trace), **_assets()))
    return path


def _content(record: RunRecord, trace: Trace | str | Path | None) -> dict[str, Any]:
    """What the sections of the page show."""
    rows = record.columns({SHOWN_BY, *columns_of_figures()})
    instances = first = steps = None
    if trace is not None:
        seen = overview(trace)
        check_same_instances(seen, rows)
        instances = instance_section(trace, seen, rows, record)
        steps = erasure_section(trace, record, instances.pictured)
        first = trace if isinstance(trace, Trace) else next(Trace.shards(trace))
    drawn, legend = draw_figures(rows, record.about.class_names)
    return {
        "about": record.about,
        "card": verdict(record.summary, record.about),
        "figures": drawn,
        "legend": legend,
        "instances": instances,
        "steps": steps,
        "comparison": comparison_section(record),
        "vectors_differ": VECTORS_DIFFER,
        "summaries": summary_tables(record.summary),
        "settings": settings(record.about),
        "left_out": left_out(record, first),
        "bibtex": citations(record.tables, record.about.corpus),
    }


@cache
def environment() -> Environment:
    """Templates that escape every text; only the package's own style, script and drawings are marked as safe."""
    loader = PackageLoader("attnaudit", TEMPLATES)
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"figure": words.figure, "percent": words.percent, "drawing": Markup}
    environment.globals |= {"count": words.count, "thousands": words.thousands}
    return environment


def _assets() -> dict[str, Any]:
    return {"style": Markup(_template("report.css")), **scripts("report.js", "erasure.js")}


def scripts(*names: str) -> dict[str, Any]:
    """The package's own scripts as one, and the hash by which a page's policy lets this script run and no other."""
    script = "".join(map(_template, names))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return {"script": Markup(script), "script_hash": digest}


def _template(name: str) -> str:
    return files("attnaudit").joinpath(TEMPLATES).joinpath(name).read_text(encoding="utf-8")
