"""Audits: the experiments on a trace and the page of their results, in a run or on their own."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, ClassVar

import polars as pl

from attnaudit.core import (
    InputError,
    Progress,
    atomic,
    expanded,
    sha256,
    silent,
    write_json,
    write_with_digest,
)
from attnaudit.experiments import (
    Experiment,
    Tables,
    make_experiment,
    plan_audit,
    refusal,
    run_audit,
    tables_of_shards,
)
from attnaudit.experiments.replay import network_of
from attnaudit.experiments.verdict import QUALITY, decide_verdict
from attnaudit.papers.comparison import with_references
from attnaudit.plans.audit import Battery, choose
from attnaudit.plans.spec import SCHEMA
from attnaudit.results import SUMMARY_SCHEMA, About, table_file
from attnaudit.results.table import tables_in
from attnaudit.steps import (
    SERIAL,
    SPEC,
    Folder,
    Pool,
    Recipe,
    Step,
    execute,
    read_spec,
    refuse_other,
    trace_digests,
)
from attnaudit.steps.pieces import do_missing, is_whole, piece, whole
from attnaudit.trace import Trace, trace_files, trace_metadata, trace_task

RESULTS, VERDICT = ("results", "summary.json"), "verdict.json"
PAGE, TRANSLATION_PAGE = "report.html", "translation.html"
Notes = dict[str, Any]  # what a step leaves in the manifest
Rows = list[dict[str, Any]]  # of a summary
Page = Callable[[Path, Path], Any]  # writes a page about a folder to a path


@dataclass(frozen=True, kw_only=True)
class Audit:
    """The experiments on a trace, and what they need.

    Attributes:
        trace: Folder or file of the trace.
        battery: The experiments.
        plain: What ``spec.json`` says. It names the corpus and model, for the published numbers of
            the same.
        progress: Callback.
        replay: Model of a trace without a tail of its own, or its folder.
        pool: Pool that audits the files of the trace.
        after: Names of steps that the summary follows from too.
        tables: Files of the audit besides those of its experiments.
        is_traced: False for a model that has no attention: there is no trace to audit.
    """

    after: ClassVar[tuple[str, ...]] = ()
    tables: ClassVar[tuple[str, ...]] = ()
    trace: Path
    battery: Battery
    plain: Mapping[str, Any]
    progress: Progress = silent
    replay: Any = None
    pool: Pool = SERIAL

    @property
    def is_traced(self) -> bool:
        """True if there is a trace."""
        return True

    def audit_step(self, writes_spec: bool = False) -> Step:
        """Audit into ``results/``, ``summary.json`` and ``verdict.json``.

        With ``writes_spec`` it also writes ``spec.json``: an audit may replace an earlier one.
        """
        battery, own = self.battery, [SPEC] if writes_spec else []
        tables = self.tables if self.is_traced else ()

        def inputs(folder):
            asked = list(battery.settings), battery.settings, battery.chosen
            of_trace = (trace_digests(self.trace), *asked) if self.is_traced else ()
            before = (
                (folder.records[name].files, folder.records[name].notes) for name in self.after
            )
            return *of_trace, *([self.plain["trace"]] if writes_spec else []), *before

        def work(folder, made):
            (made / RESULTS[0]).mkdir()
            rows, left_out = self._measure(made, folder.pieces) if self.is_traced else ([], {})
            summary = self.rows(folder, made, rows)
            write_json(made / RESULTS[1], summary)
            write_json(
                made / VERDICT,
                decide_verdict(pl.DataFrame(summary, schema=SUMMARY_SCHEMA)).to_json(),
            )
            if writes_spec:
                write_with_digest(made / SPEC, self.plain)
            return {"left_out": left_out}

        return Step("audit", inputs, (*own, *RESULTS, VERDICT, *tables), work)

    def rows(self, folder: Folder, made: Path, audited: Rows) -> Rows:
        """Return all summary rows, those of the experiments included; write `tables` too."""
        return audited

    def _measure(self, made: Path, place: Path) -> tuple[Rows, dict[str, str]]:
        """Write the tables of the experiments.

        Where labels are known, the quality of the model is measured even next to experiments that
        were asked for by name: what may be concluded from them depends on it.

        Args:
            made: Folder to write into.
            place: Folder of what a stopped audit resumes from.

        Returns:
            The summary rows, and the reason for each experiment that was left out.

        Raises:
            TraceError: If an experiment that was asked for by name cannot use the trace.
        """
        battery = self.battery
        names = [*battery.settings, *_quality(battery, self.trace)] if battery.chosen else None
        plan = plan_audit(self.trace, names, battery.settings, self.replay)
        results = run_audit(plan, made / RESULTS[0], self.progress, self._tables(place))
        about = About.of(self.plain, trace_metadata(self.trace))
        cell = {"corpus": about.corpus, "study": "", "model": f"{about.encoder} {about.attention}"}
        rows = with_references(results.summary, ["jain2019"], cell, about.class_names).to_dicts()
        return rows, dict(results.left_out)

    def _tables(self, place: Path) -> Tables:
        """Return what computes the tables; those that took long are kept in ``place``."""
        if not self.pool.shares:
            return partial(tables_of_shards, keep=partial(_kept_table, place))
        if not isinstance(self.replay, str | Path | None):
            expected = "the folder of a model, which workers read"
            raise InputError("audit", "replay", "a model in memory", expected, "save it first")
        return partial(self._tables_of_files, place)

    def _tables_of_files(
        self,
        place: Path,
        experiments: Mapping[str, Experiment],
        shards: Iterable[Trace],
        rows: int,
        progress: Progress,
    ) -> Iterator[tuple[str, pl.DataFrame]]:
        """Compute the tables by a call for each file; only the first shard is read here."""
        settings = {name: asdict(experiment) for name, experiment in experiments.items()}
        of_all = {"settings": settings, "fixed": next(iter(shards)).fixed, "replay": self.replay}
        calls = [
            piece(f"audit {file.name}", partial(audit_file, file, **of_all), place / file.stem)
            for file in trace_files(self.trace)
        ]
        do_missing(self.pool, calls, progress)
        for call in calls:
            for name in experiments:
                yield from ((name, rows) for rows in tables_in(call.writes / f"{name}.parquet"))


def audit_file(
    file: Path,
    held: None,
    made: Path,
    progress: Progress,
    device: str | None,
    *,
    settings: Mapping[str, Mapping[str, Any]],
    fixed: Mapping[str, Any],
    replay: str | Path | None,
) -> None:
    """Write the table of every experiment on one file of a trace, in any process."""
    is_replayed = replay is not None and trace_metadata(file)["tail"] == "replay"
    model = _network(file, replay) if is_replayed else None
    with ExitStack() as files:
        add = {name: files.enter_context(table_file(made / f"{name}.parquet")) for name in settings}
        for shard in Trace.shards(file, model, fixed):
            for name, values in settings.items():
                progress(name, 0, 0)
                add[name](make_experiment(name, values)(shard))


@lru_cache(1)
def _network(trace: Path, replay: str | Path) -> Any:
    """Check the model of a trace once for all of its files that this process audits."""
    return network_of(trace, replay)


def _quality(battery: Battery, trace: Path) -> list[str]:
    """Return the experiment by which a model is judged, unless it is chosen or impossible."""
    name = QUALITY[0]
    if name in battery.settings or refusal(make_experiment(name), Trace.first(trace)):
        return []
    return [name]


def _kept_table(
    place: Path, name: str, number: int, make: Callable[[], pl.DataFrame]
) -> pl.DataFrame:
    """Return the table of an experiment on a shard: the one that is kept, else what is made."""
    kept = place / f"{number:05d}-{name}"
    if is_whole(kept):
        with (kept / f"{name}.arrow").open("rb") as file:
            return pl.read_ipc(file)  # in a path polars would read [1] as a pattern
    table = make()
    with whole(kept) as made, atomic(made / f"{name}.arrow") as temporary:
        table.write_ipc(temporary)
    return table


def report_step(progress: Progress, pages: Mapping[str, Page], *further: Any) -> Step:
    """Write pages.

    Args:
        progress: Callback.
        pages: Writers of pages by file name.
        *further: What the pages follow from besides the spec and the steps before.
    """

    def inputs(folder):
        before = {name: one.files for name, one in folder.records.items() if name != "report"}
        return before, sha256(folder.out / SPEC), *further

    def work(folder, made):
        progress("write the report", 0, 0)
        for name, write in pages.items():
            write(folder.out, made / name)

    return Step("report", inputs, tuple(pages), work)


def pages(names: Iterable[str] = (PAGE,), trace: Path | None = None) -> dict[str, Page]:
    """Return the functions that write these pages of a run, or of an audit of ``trace``."""

    def write_audit(folder, page):
        from attnaudit.report.run_page import write_report

        write_report(folder, trace, page)

    def write_translations(folder, page):
        from attnaudit.report.translation_page import write_translation

        write_translation(folder, page)

    every = {PAGE: write_audit, TRANSLATION_PAGE: write_translations}
    return {name: every[name] for name in names}


def audit_into(
    out: str | Path | None,
    trace: str | Path,
    experiments: Sequence[str] = (),
    settings: Mapping[str, Any] | None = None,
    progress: Progress = silent,
    replay: Any = None,
    pool: Pool = SERIAL,
) -> Path:
    """Audit a trace into a folder of its own.

    Overwrites an earlier audit there once the new one is computed, and never a run. Where it is
    stopped, finished tables stay in ``.unfinished``, and the same call resumes.

    Args:
        out: The folder; by default one next to the trace.
        trace: A folder of shards, one file, or a run.
        experiments: Names of the only experiments to run, besides ``prediction`` where labels are
            known; by default all that the trace allows.
        settings: Settings by dotted name, such as ``{"adversary.epsilon": 0.05}``.
        progress: Callback.
        replay: Model of a trace without a tail of its own, or its folder.
        pool: Pool that audits the files of the trace.

    Returns:
        The folder.

    Raises:
        InputError: For an unknown experiment or setting, or another model.
        TraceError: If the trace is damaged, or an experiment named cannot use it.
        RunError: If the folder holds something else, or cannot be written.
    """
    trace = expanded(trace)
    battery = choose(experiments, settings, trace_task(trace))
    shards = trace_digests(trace)
    out = expanded(out) if out is not None else default_folder(trace)
    # A folder that holds nothing but this trace is free for its audit.
    holds = (out / SPEC).exists()
    is_own = read_spec(out).get("kind") == "audit" if holds else trace.parent == out
    refuse_other("audit", out, is_own, "one of an earlier audit")
    spec = {
        "schema": SCHEMA,
        "kind": "audit",
        "trace": str(trace.resolve()),
        "shards": shards,
        "chosen": battery.chosen,
        "experiments": battery.settings,
    }
    audit = Audit(
        trace=trace, battery=battery, plain=spec, progress=progress, replay=replay, pool=pool
    )
    return execute(trace_audit(audit), out)


def trace_audit(audit: Audit) -> Recipe:
    """Return the recipe of an audit in a folder of its own, with its page."""
    report = report_step(audit.progress, pages(trace=audit.trace))
    return Recipe(None, [audit.audit_step(writes_spec=True), report])


def default_folder(trace: Path) -> Path:
    """Return where an audit goes by itself: ``<run>-audit`` or ``<trace>-audit``."""
    place = trace.resolve()
    run = place.parent if place.name == "trace" and (place.parent / SPEC).exists() else place
    return run.with_name(f"{run.stem if run.is_file() else run.name}-audit")
