"""What the command line reaches, as functions: a run, a translation, the pages of runs, one by one or as a site."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import polars as pl

from attnaudit.core.progress import Progress
from attnaudit.core.settings import from_plain
from attnaudit.corpora.formats.rows import Columns
from attnaudit.corpora.kept import keep_table
from attnaudit.corpora.read import dialect_of
from attnaudit.corpora.spec import CorpusSpec
from attnaudit.plans.spec import RunSpec, TranslationSpec
from attnaudit.published.compare import compare as compare_records
from attnaudit.runner import pipeline
from attnaudit.runner.audits import report_into
from attnaudit.runner.engine import LOCAL, Engine
from attnaudit.runner.pairing import compare_runs
from attnaudit.runner.site import site_into
from attnaudit.runner.store import MANIFEST, require_as_written
from attnaudit.trace import Trace

PUBLISHED = "jain2019"  # what a single run is compared with


def run(
    source: str | Path | Any, out: str | Path | None = None, progress: Progress | None = None, engine: Engine = LOCAL, **options: Any
) -> Path:  # fmt: skip
    """Train a classifier on the corpus ``source``, record its attention, audit it and write the report; returns the run's folder.

    ``source`` is a registered name, a file, a folder or ``planted-<kind>``; ``options`` are those of ``attnaudit run``: ``encoder``,
    ``attention``, ``preset``, ``vectors``, ``seed``, ``device``, ``settings`` by dotted name (``{"training.epochs": 4}``), ``data_dir``,
    ``text``, ``label``, …. A table in memory, as `read_corpus` takes it, is first written next to the run's folder, under a name that ends
    in a digest of its texts. ``out`` is by default ``runs/<corpus>-<encoder>-<attention>-s<seed>``. A run that was stopped is resumed, a
    finished one left as it is. Models and preparation follow Jain & Wallace 2019.

    Raises InputError for bad input, and RunError where ``out`` holds something else or cannot be written.
    """
    if not isinstance(source, str | Path):
        source = _kept(
            source,
            Path("runs") if out is None else Path(out).parent,
            "" if out is None else Path(out).name,
            options,
        )
    spec = RunSpec.of(source, **options)
    return pipeline.run(spec, out or Path("runs") / spec.name, progress, engine=engine)


def translate(
    source: str | Path,
    out: str | Path | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Path:
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
    from attnaudit.report.run_page import write_report as write_page

    folders = _folders(runs)
    if len(folders) > 1 or out is not None:
        return site_into(folders, out or "site")
    finished = trace is None and (folders[0] / MANIFEST).exists()
    return report_into(folders[0]) if finished else write_page(folders[0], trace)


def compare(runs: str | Path | Iterable[str | Path], to: str | None = None) -> pl.DataFrame:
    """Two or more finished runs or audits compared with the first of them; with ``to``, or a single run, with published numbers.

    Of runs a row per run and measure: ``a`` (the first run) and ``b`` are means over the ``n`` instances where it is defined in both,
    ``difference`` is b − a with its 95 % interval ``low``, ``high`` (paired bootstrap over instances), ``undefined`` counts the shared
    instances excluded. Instances are ``shared`` where id and text are the same; ``only_a`` and ``only_b`` count the others. The
    ``conclusion`` is "no difference shown" where the interval includes 0.

    With ``to="jain2019"`` a row for each number published for a run's corpus, encoder and attention: ``paper`` and ``rerun`` are
    published, ``ours`` has its 95 % interval, ``agreement`` says how they compare (Jain & Wallace 2019).

    Raises RunError for a folder that is no finished run, and InputError for runs that share no instance, or a corpus or model without
    published numbers.
    """
    folders = _folders(runs)
    if to is None and len(folders) > 1:
        return pl.concat([one.differences for one in compare_runs(folders)])
    for folder in folders:
        require_as_written(folder)
    return compare_records(folders, PUBLISHED if to is None else to)


def _kept(source: Any, folder: Path, name: str, options: Mapping[str, Any]) -> Path:
    """The file of a table in memory. Raises InputError, also for an option that does not go with it."""
    corpus = {
        key: value
        for key, value in options.items()
        if key in {field.name for field in fields(CorpusSpec)} - {"seed"}
    }
    spec = from_plain(CorpusSpec, {"source": name, **corpus}, "corpus")
    columns = Columns(spec.text, spec.label, spec.question, spec.rationale)
    return keep_table(source, folder, columns, dialect_of(spec), name and f"{name}-texts")


def _folders(runs: str | Path | Iterable[str | Path]) -> list[Path]:
    return [Path(runs)] if isinstance(runs, str | Path) else [Path(run) for run in runs]
