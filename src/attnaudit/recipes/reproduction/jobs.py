"""What a cell of a paper is when it is done: a run, a study, or the copying task, each with its folder and its numbers."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from attnaudit.copying.study import NAME as COPYING
from attnaudit.core.files import read_json
from attnaudit.core.progress import Progress
from attnaudit.corpora.registry import CORPORA as REGISTERED
from attnaudit.corpora.registry import is_parallel
from attnaudit.papers import Cell, Declaration
from attnaudit.plans.spec import RunSpec, corpus_settings, other_settings
from attnaudit.published.compare import FEWEST_SEEDS, interval_over_seeds, possible
from attnaudit.recipes.copying import copying_study, run_copying, specified
from attnaudit.recipes.reading import Read
from attnaudit.recipes.reproduction.cells import RUNS
from attnaudit.recipes.study import StudySpec, run_study
from attnaudit.recipes.trained import run
from attnaudit.results import read_table, summary_row
from attnaudit.steps.finished import check_place, read_spec, whole_manifest
from attnaudit.steps.folder import MANIFEST
from attnaudit.steps.pool import Pool
from attnaudit.studies import EVERY_STUDY

Say = Callable[[str], None]
STUDIES = "studies"
BANDS = ((0.0, 0.05), (0.05, 0.1), (0.1, 0.2), (0.2, 0.4), (0.4, 1.01))
SHARES = (64, 16, 4)  # divisors of the last step: the steps shown between the first and the last


@dataclass(frozen=True)
class Options:
    """What a call says of all cells: ``vectors`` None means the default of each corpus; ``settings`` are dotted."""

    data_dir: str | None = None
    vectors: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    def settings_of(self, cell: Cell) -> dict[str, Any]:
        """The settings without those of studies that the cell is none of."""
        return {
            key: value for key, value in self.settings.items() if study_of(key) in ("", cell.study)
        }


def study_of(setting: str) -> str:
    """The study that a dotted setting is of; nothing for those of runs and experiments."""
    name = setting.partition(".")[0]
    return name if name in (*EVERY_STUDY, COPYING) else ""


@dataclass(frozen=True)
class _Job:
    """A cell of a paper, made in the folder ``out``."""

    paper: Declaration
    cell: Cell
    out: Path
    options: Options


def do_run(
    corpus: Any, progress: Progress, device: str | None, *, spec: RunSpec, folder: Path
) -> float:
    """Train, collect and audit into ``folder``, in any process; return the seconds."""
    started = time.perf_counter()
    run(spec, folder, progress, corpus, device=device)
    return time.perf_counter() - started


class RunJob(_Job):
    """Train, collect, audit."""

    @property
    def folder(self) -> Path:
        return self.out / RUNS / self.cell.name

    @property
    def spec(self) -> RunSpec:
        cell, options = self.cell, self.options
        own = corpus_settings(cell.corpus, cell.encoder, cell.preset)
        vectors = (
            None if "vectors" in own or not cell.vectors else options.vectors
        )  # a corpus may ask for its own
        return RunSpec.of(
            cell.corpus, encoder=cell.encoder, attention=cell.attention, preset=cell.preset, seed=cell.seed, vectors=vectors,
            settings={**self.paper.settings, **cell.settings, **options.settings_of(cell)}, data_dir=options.data_dir,
        )  # fmt: skip

    @property
    def plain(self) -> dict[str, Any]:
        return self.spec.to_json()

    def finished(self) -> bool:
        check_place(self.folder, self.plain)
        return whole_manifest(self.folder) is not None

    def rows(self) -> list[dict[str, Any]]:
        return [*read_json(self.folder / "summary.json"), *by_delta_alpha(self.folder)]


class StudyJob(_Job):
    """A study; those of one corpus share a folder, and with it their trainings."""

    @property
    def shared(self) -> Path:
        """The folder of all studies with this one's corpus and settings."""
        cell = self.cell
        parts = (cell.corpus, cell.config, cell.variant, "quick" if cell.quick else "")
        return self.out / STUDIES / "-".join(filter(None, parts))

    @property
    def folder(self) -> Path:
        return self.shared / self.cell.study

    @property
    def spec(self) -> StudySpec:
        cell, options = self.cell, self.options
        given: dict[str, Any] = {"config": cell.config} if cell.config else {}
        if not (cell.config or is_parallel(cell.corpus)) and cell.vectors:
            given["vectors"] = options.vectors
        settings = {**self.paper.settings, **cell.settings, **options.settings_of(cell)}
        return StudySpec.of(
            cell.study, cell.corpus, full=not cell.quick, data_dir=options.data_dir, settings=settings, **given
        )  # fmt: skip

    @property
    def plain(self) -> dict[str, Any]:
        return self.spec.to_json()

    def finished(self) -> bool:
        if not (self.folder / MANIFEST).exists():
            return False
        check_place(self.folder, self.plain)
        return whole_manifest(self.folder) is not None

    def do(self, progress: Progress, say: Say, pool: Pool, read: Read) -> None:
        run_study(self.spec, self.shared, progress, say, pool, read)

    def rows(self) -> list[dict[str, Any]]:
        return read_json(self.folder / "summary.json")


class CopyingJob(_Job):
    """All seeds of the copying task, side by side."""

    @property
    def folder(self) -> Path:
        return self.out / STUDIES / self.cell.key

    @property
    def spec(self) -> Any:
        return copying_study(
            self.cell.corpus,
            0,
            {**self.cell.settings, **self.options.settings_of(self.cell)},
            full=not self.cell.quick,
        )

    @property
    def plain(self) -> dict[str, Any]:
        return specified(self.spec)

    def finished(self) -> bool:
        check_place(self.folder, self.plain)
        return whole_manifest(self.folder) is not None

    def do(self, progress: Progress, say: Say, pool: Pool, read: Read) -> None:
        """In this process: all seeds are trained side by side."""
        run_copying(self.spec, self.folder, progress)

    def rows(self) -> list[dict[str, Any]]:
        return read_json(self.folder / "summary.json")


Job = RunJob | StudyJob | CopyingJob
"""Its ``folder``; ``plain``, what its ``spec.json`` holds; ``finished``; ``do``, while `do_run` does a run; the ``rows`` of its summary.
All raise InputError and RunError."""


def job_of(paper: Declaration, cell: Cell, out: Path, options: Options) -> Job:
    """The job of a cell."""
    if not cell.study:
        return RunJob(paper, cell, out, options)
    return (CopyingJob if cell.study == COPYING else StudyJob)(paper, cell, out, options)


def settings_changed(paper: Declaration, cell: Cell, folder: Path) -> dict[str, Any]:
    """The dotted settings with which the finished cell in ``folder`` was made and that are not those of the paper's declaration.

    A cell that takes the word vectors of the call is declared with a file of them, whichever it is.
    """
    made, usual = (
        read_spec(folder),
        job_of(paper, cell, folder, Options(vectors="a file" if cell.vectors else None)).plain,
    )
    if made.get("vectors") not in ("corpus", "random"):
        made.pop("vectors", None)
    found = other_settings(made, usual)
    renamed = {key.removeprefix("experiments."): value for key, value in found.items()}
    return {
        f"{cell.study}.{key.removeprefix('study.')}" if key.startswith("study.") else key: value
        for key, value in renamed.items()
    }


def command_of(paper: Declaration, cell: Cell, changed: Mapping[str, Any] | None = None) -> str:
    """The command that makes a cell, with settings that are ``changed``, wherever data and vectors are."""
    chosen = {
        "preset": "" if cell.preset == "paper" else cell.preset,
        "model": cell.config or cell.encoder,
        "attention": cell.attention,
    }
    parts = ["attnaudit", *(("study", cell.study) if cell.study else ("run",)), cell.corpus]
    parts += ["--full"] if cell.study and not cell.quick else []
    parts += [f"--{name} {value}" for name, value in chosen.items() if value]
    if cell.study != COPYING:
        parts += ["--data-dir DATA"] if cell.corpus in REGISTERED else []
        parts += ["--vectors VECTORS"] if cell.vectors and "vectors" not in (changed or {}) else []
    settings = {**paper.settings, **cell.settings, **(changed or {})}
    parts += [f"--vectors {settings.pop('vectors')}"] if "vectors" in settings else []
    parts += [f"--device {settings.pop('device')}"] if "device" in settings else []
    parts += [
        f"--set {key}={','.join(map(str, value)) if isinstance(value, tuple | list) else value}"
        for key, value in settings.items()
    ]
    return " ".join(parts)


def over_seeds(summaries: Sequence[Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """The summaries of runs that differ in their seed as one: means, with the t interval of the mean; of a single run its own.

    An interval never goes beyond what a measure can be; over two seeds it would say too little, and there is none.
    """
    rows = [row for summary in summaries for row in summary]
    if len(summaries) < 2:
        return [dict(row) for row in rows]
    found: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        found.setdefault((row["experiment"], row["measure"], row["group"]), []).append(row)
    return [_mean(same) for same in found.values()]


def _mean(same: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    known = pl.DataFrame(
        [
            {name: row[name] for name in ("value", "low", "high")}
            for row in same
            if row["value"] is not None
        ]
    )
    counted = (
        name
        for name in ("n", "undefined", "texts")
        if all(row.get(name) is not None for row in same)
    )
    merged = {
        **same[0],
        **{name: round(sum(row[name] for row in same) / len(same)) for name in counted},
        "std": None,
    }
    if not known.height:
        return merged
    low, high = possible(same[0]["measure"])
    inside = all(
        low <= number <= high for row in known.iter_rows() for number in row if number is not None
    )
    bounds = (
        (low, high) if inside else (-math.inf, math.inf)
    )  # a count, say, whose range nothing names
    around = interval_over_seeds(known["value"].to_numpy(), known, bounds)
    if 1 < known.height < FEWEST_SEEDS:
        around |= {"low": None, "high": None}
    return {
        **merged,
        "value": known["value"].mean(),
        "low": around["low"],
        "high": around["high"],
        "std": around["sd"],
    }


def by_delta_alpha(run: Path) -> list[dict[str, Any]]:
    """The share of negative ΔJS where Δα lies in a band of `BANDS`: a summary row for each band; none without the experiment."""
    table = run / "results" / "erasure.parquet"
    if not table.exists():
        return []
    gaps = read_table(table).select("delta_js", "delta_alpha").drop_nulls("delta_js").collect()
    return [
        _negative(
            gaps.filter(pl.col("delta_alpha") >= low, pl.col("delta_alpha") < high), low, high
        )
        for low, high in BANDS
    ]


def _negative(inside: pl.DataFrame, low: float, high: float) -> dict[str, Any]:
    share = float((inside["delta_js"].to_numpy() < 0).mean()) if inside.height else None
    return summary_row(
        "erasure",
        "negative_delta_js",
        share,
        n=inside.height,
        group=f"delta_alpha:{low:g} to {min(high, 1):g}",
    )


def kept(paper: Declaration, cell: Cell, rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Of a summary what tables have: all instances, and the groups that a table of the paper shows."""
    groups = tuple(
        f"{table.by}:"
        for table in paper.tables
        if table.study == cell.study and table.by not in ("", "model")
    )
    known = [
        dict(row)
        for row in rows
        if row["group"] == "all" or row["group"].startswith(groups or ("\0",))
    ]
    steps = steps_shown(
        {
            int(row["group"].removeprefix("step:"))
            for row in known
            if row["group"].startswith("step:")
        }
    )
    return [
        row
        for row in known
        if not row["group"].startswith("step:") or int(row["group"].removeprefix("step:")) in steps
    ]


def steps_shown(steps: Iterable[int]) -> list[int]:
    """The first two, the last, and those nearest to a few fractions of the last: most happens early."""
    steps = sorted(steps)
    expected = (*steps[:2], *(steps[-1] / share for share in SHARES), steps[-1]) if steps else ()
    return sorted({min(steps, key=lambda step, near=near: abs(step - near)) for near in expected})
