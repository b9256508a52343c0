"""What the command line reaches, as functions: a run, a translation, the pages of runs, one by one or as a site."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnaudit.core.files import write_text
from attnaudit.core.progress import Progress
from attnaudit.plans.spec import RunSpec, TranslationSpec
from attnaudit.published.compare import compare as compare_records
from attnaudit.results.record import read_record
from attnaudit.runner import pipeline
from attnaudit.runner.audits import report_into
from attnaudit.runner.store import MANIFEST, require_finished
from attnaudit.trace import Trace

if TYPE_CHECKING:
    import polars as pl


def run(source: str | Path, out: str | Path | None = None, progress: Progress | None = None, **options: Any) -> Path:
    """Train a classifier on the corpus ``source``, record its attention, audit it and write the report; returns the run's folder.

    ``source`` is a registered name, a file, a folder or ``planted-<kind>``; ``options`` are those of ``attnaudit run``: ``encoder``,
    ``attention``, ``preset``, ``vectors``, ``seed``, ``device``, ``settings`` by dotted name (``{"training.epochs": 4}``), ``data_dir``,
    ``text``, ``label``, …. ``out`` is by default ``runs/<corpus>-<encoder>-<attention>-s<seed>``. A run that was stopped is resumed, a
    finished one left as it is. Models and preparation follow Jain & Wallace 2019.

    Raises InputError for bad input, and RunError where ``out`` holds something else or cannot be written.
    """
    spec = RunSpec.of(source, **options)
    return pipeline.run(spec, out or Path("runs") / spec.name, progress)


def translate(source: str | Path, out: str | Path | None = None, progress: Progress | None = None, **options: Any) -> Path:
    """Train a translator on the parallel corpus ``source``, translate its test split, and audit the attention; returns the run's folder.

    ``options`` are those of ``attnaudit translate``: ``preset`` (``small`` or ``paper``), ``seed``, ``device``, ``data_dir``, ``settings``
    by dotted name. ``out`` is by default ``runs/<corpus>-<attention>-s<seed>``. Resumed as `run` is. Source: Snell et al. 2020.

    Raises InputError for bad input, and RunError where ``out`` holds something else or cannot be written.
    """
    spec = TranslationSpec.of(source, **options)
    return pipeline.run(spec, out or Path("runs") / spec.name, progress)


def write_report(
    runs: str | Path | Sequence[str | Path], trace: Trace | str | Path | None = None, out: str | Path | None = None
) -> Path:  # fmt: skip
    """Write the page of a run, of an audit or of saved `Results`; of several runs, or with ``out``, a site of their pages. Returns it.

    ``trace`` is that of the results, by default the one in their folder, or that an audit names. Raises RunError for a folder that holds
    no results, TraceError, and InputError where trace and results name different instances.
    """
    from attnaudit.report import write_report as write_page

    folders = [Path(runs)] if isinstance(runs, str | Path) else [Path(run) for run in runs]
    if len(folders) > 1 or out is not None:
        return site_into(folders, out or "site")
    finished = trace is None and (folders[0] / MANIFEST).exists()
    return report_into(folders[0]) if finished else write_page(folders[0], trace)


def compare(runs: str | Path | Iterable[str | Path], to: str = "jain2019") -> pl.DataFrame:
    """Finished runs compared with published numbers: a row for each number of a run's corpus, encoder and attention.

    ``paper`` and ``rerun`` are published, ``ours`` has its 95 % interval ``low``, ``high``, and ``agreement`` says how they compare; all
    columns: `attnaudit.published.compare.compare`. Source: Jain & Wallace 2019.

    Raises RunError for a folder that is no finished run, and InputError for a corpus or model without published numbers.
    """
    folders = [Path(runs)] if isinstance(runs, str | Path) else [Path(run) for run in runs]
    for folder in folders:
        require_finished(folder)
    return compare_records(folders, to)


def site_into(runs: Sequence[str | Path], out: str | Path) -> Path:
    """Copy the pages of finished ``runs`` into the folder ``out``, index them and return the index. Raises RunError."""
    from attnaudit.report.run_page import write_site

    out, folders = Path(out), [Path(run) for run in runs]
    for folder in folders:
        require_finished(folder)
    pages = {f"{name}.html": folder for folder, name in zip(folders, _names(folders), strict=True)}
    records = {page: read_record(folder) for page, folder in pages.items()}
    for page, folder in pages.items():
        write_text(out / page, (folder / "report.html").read_text(encoding="utf-8"))
    return write_site(out, records)


def _names(folders: Sequence[Path]) -> list[str]:
    """The folders' own names, numbered where two are the same, or where one would be the index."""
    taken: set[str] = {"index"}
    names = []
    for folder in folders:
        base = folder.resolve().name
        names.append(next(name for k in range(1, len(folders) + 2) if (name := base if k == 1 else f"{base}-{k}") not in taken))
        taken.add(names[-1])
    return names
