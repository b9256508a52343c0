"""Entry points of the command line and of Python: run, report and compare."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import polars as pl

from attnaudit.core import InputError, Progress, expanded, silent
from attnaudit.core.settings import from_plain
from attnaudit.corpora.formats.rows import Columns
from attnaudit.corpora.formats.tables import keep_table
from attnaudit.corpora.spec import CorpusSpec
from attnaudit.papers.comparison import compare_runs as compare_with_paper
from attnaudit.plans.spec import RunSpec, TranslationSpec
from attnaudit.plans.transformer import FineTuning, TransformerTraining
from attnaudit.recipes import trained
from attnaudit.recipes.audit import PAGE, pages, report_step
from attnaudit.recipes.compare import compare_runs
from attnaudit.recipes.kinds import TRANSLATOR, TRANSLATORS, kind_of_corpus, model_options
from attnaudit.recipes.site import site_into
from attnaudit.steps import SERIAL, SPEC, Pool, held, read_manifest, read_spec, require_as_written
from attnaudit.steps.finished import trace_shown
from attnaudit.trace import Trace

PUBLISHED = "jain2019"  # what a single run is compared with
Spec = RunSpec | TranslationSpec | TransformerTraining | FineTuning


def spec_of(source: str | Path, model: str | None = None, **options: Any) -> Spec:
    """Make the specification of a training and its audit.

    Args:
        source: A registered corpus, a file, or a folder of splits or of pairs.
        model: A name of `models`, or the folder of a pretrained transformer; by default a
            translator of pairs, else a BiLSTM.
        **options: Options of that kind of model; those that are None are left out.

    Raises:
        InputError: For an unknown model or option.
    """
    given = {name: value for name, value in options.items() if value is not None}
    named = model_options(model)
    kind = kind_of_corpus(source, given.get("settings", ()), named)
    if model is not None and (model == TRANSLATOR) != (kind is TRANSLATORS):
        got = "a corpus of pairs" if model != TRANSLATOR else "a corpus of texts"
        expected = "a translator for pairs, another model for texts"
        raise InputError("run", f"--model {model} on {source}", got, expected)
    return kind.spec.of(source, **named, **given)


def corpus_options(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings of a corpus, without their prefix. Raises InputError for others."""
    for key in settings:
        if not key.startswith("corpus."):
            expected = "a setting of corpus, such as corpus.max_tokens"
            raise InputError("read settings", f"setting {key}", "not of a corpus", expected)
    return {key.removeprefix("corpus."): value for key, value in settings.items()}


def run(
    source: str | Path | Any,
    out: str | Path | None = None,
    progress: Progress = silent,
    pool: Pool = SERIAL,
    **options: Any,
) -> Path:
    """Train a model on a corpus, record its attention, audit it and write the report.

    A run that was stopped is resumed, a finished one left as it is. Models and preparation follow
    Jain & Wallace 2019; translators Snell et al. 2020.

    Args:
        source: A registered name, a file, a folder, ``planted-<kind>``, or a table in memory, which
            is first written next to the run's folder.
        out: Folder of the run; by default below ``runs``.
        progress: Callback.
        pool: Pool that trains, collects and audits.
        **options: Those of `spec_of`: ``model``, ``attention``, ``preset``, ``vectors``, ``seed``,
            ``device``, ``settings`` by dotted name (``{"training.epochs": 4}``), ``data_dir``,
            and for columns ``text``, ``label``, ….

    Returns:
        The folder of the run.

    Raises:
        InputError: For bad input.
        RunError: If ``out`` holds something else or cannot be written.
    """
    if not isinstance(source, str | Path):
        place = Path("runs") if out is None else expanded(out).parent
        source = _kept(source, place, "" if out is None else expanded(out).name, options)
    spec = spec_of(source, **options)
    return trained.run(spec, out or Path("runs") / spec.name, progress, pool=pool)


def write_report(
    runs: str | Path | Sequence[str | Path],
    trace: Trace | str | Path | None = None,
    out: str | Path | None = None,
    progress: Progress = silent,
) -> Path:
    """Write the page of a run, an audit or saved `Results`, or the site of several runs.

    Args:
        runs: One folder, or several for a site.
        trace: Trace of the results; by default the one in their folder, or that an audit names.
        out: Folder of the site; with it one run gets a site too.
        progress: Callback.

    Returns:
        The page.

    Raises:
        RunError: For a folder that holds no results.
        TraceError: For a damaged trace.
        InputError: If trace and results name different instances.
    """
    folders = _folders(runs)
    if len(folders) > 1 or out is not None:
        return site_into(folders, out or "site", progress)
    if trace is None and (folders[0] / SPEC).exists():
        return _write_again(folders[0], progress)
    from attnaudit.report.run_page import write_report as write_page

    return write_page(folders[0], trace)


def _write_again(folder: Path, progress: Progress) -> Path:
    """Write the pages of a finished run or audit again. Raises RunError."""
    require_as_written(folder)
    spec = read_spec(folder)
    trace = trace_shown(folder, spec) if spec.get("kind") == "audit" else None
    with held(folder) as place:
        kept = {key: value for key, value in read_manifest(folder).items() if key != "steps"}
        written = place.records.pop("report").files
        place.do(report_step(progress, pages(written, trace)))
        place.close(kept)
    return folder / PAGE


def compare(runs: str | Path | Iterable[str | Path], to: str | None = None) -> pl.DataFrame:
    """Compare finished runs or audits with the first of them, or with published numbers.

    Of runs a row per run and measure: ``a`` (the first run) and ``b`` are means over the ``n``
    instances where it is defined in both, ``difference`` is b − a with its 95 % interval ``low``,
    ``high`` (paired bootstrap over instances), ``undefined`` counts the shared instances excluded.
    Instances are ``shared`` where id and text are the same; ``only_a`` and ``only_b`` count the
    others. The ``conclusion`` is "no difference shown" where the interval includes 0.

    With published numbers a row for each one of a run's corpus, encoder and attention: ``paper``
    and ``rerun`` are published, ``ours`` has its 95 % interval, ``agreement`` says how they compare
    (Jain & Wallace 2019).

    Args:
        runs: Folders; a single one is compared with published numbers.
        to: Name of a paper, ``jain2019``.

    Raises:
        RunError: For a folder that is no finished run.
        InputError: For runs that share no instance, or a corpus or model without published
            numbers.
    """
    folders = _folders(runs)
    if to is None and len(folders) > 1:
        return pl.concat([one.differences for one in compare_runs(folders)])
    for folder in folders:
        require_as_written(folder)
    return compare_with_paper(folders, PUBLISHED if to is None else to)


def _kept(source: Any, folder: Path, name: str, options: Mapping[str, Any]) -> Path:
    """Write a table in memory to a file.

    Raises:
        InputError: Also for an option that does not go with it.
    """
    known = {field.name for field in fields(CorpusSpec)} - {"seed"}
    given = {key: value for key, value in options.items() if key in known}
    spec = from_plain(CorpusSpec, {"source": name, **given}, "corpus")
    columns = Columns(spec.text, spec.label, spec.question, spec.rationale)
    return keep_table(source, folder, columns, name and f"{name}-texts")


def _folders(runs: str | Path | Iterable[str | Path]) -> list[Path]:
    return [expanded(runs)] if isinstance(runs, str | Path) else [expanded(run) for run in runs]
