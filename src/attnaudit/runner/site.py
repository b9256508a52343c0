"""Several runs in one place: a copy of every page, and an index that links them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from attnaudit.core.files import write_text
from attnaudit.runner.store import require_finished

SHOWN = {
    "F1": "f1", "τ gradient": "tau_gradient", "τ LOO": "tau_loo", "τ gradient–LOO": "tau_gradient_loo", "median Δŷ": "median_delta_y",
    "ε-max JSD": "emax_jsd",
}  # fmt: skip


def site_into(runs: Sequence[str | Path], out: str | Path) -> Path:
    """Copy the pages of finished ``runs`` into the folder ``out``, index them and return the index. Raises RunError."""
    from jinja2 import Environment

    out, folders = Path(out), [Path(run) for run in runs]
    for folder in folders:
        require_finished(folder)
    entries = [_entry(folder, name) for folder, name in zip(folders, _names(folders), strict=True)]
    for folder, entry in zip(folders, entries, strict=True):
        write_text(out / entry["page"], (folder / "report.html").read_text(encoding="utf-8"))
    template = Environment(autoescape=True).from_string(files("attnaudit.runner").joinpath("site.html").read_text(encoding="utf-8"))
    write_text(out / "index.html", template.render(entries=entries, columns=list(SHOWN)))
    return out / "index.html"


def _entry(folder: Path, name: str) -> dict[str, Any]:
    from attnaudit.results.record import read_record

    record = read_record(folder)
    values = dict(record.summary.filter(group="all").select("measure", "value").iter_rows())
    return {
        "name": name,
        "page": f"{name}.html",
        "about": record.about,
        "figures": [_figure(values, measure) for measure in SHOWN.values()],
    }


def _figure(values: Mapping[str, float | None], measure: str) -> str:
    value = values.get(measure)
    return "–" if value is None else f"{value:.3f}"


def _names(folders: Sequence[Path]) -> list[str]:
    """The folders' own names, numbered where two are the same, or where one would be the index."""
    taken: set[str] = {"index"}
    names = []
    for folder in folders:
        base = folder.resolve().name
        names.append(next(name for k in range(1, len(folders) + 2) if (name := base if k == 1 else f"{base}-{k}") not in taken))
        taken.add(names[-1])
    return names
