"""Every study by its name: of a run, the copying task, and the calibration of all measures."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import polars as pl

from attnaudit.copying.study import NAME as COPYING
from attnaudit.copying.study import Copying, summarise
from attnaudit.core import (
    InputError,
    Progress,
    expanded,
    require,
    require_known,
    silent,
    write_json,
)
from attnaudit.core.settings import override
from attnaudit.core.threads import cores
from attnaudit.corpora.planted.sequences import SYMBOLS
from attnaudit.plans.spec import refuse_options, refuse_settings
from attnaudit.recipes.audit import RESULTS, report_step
from attnaudit.recipes.calibration import PLACE as CALIBRATION
from attnaudit.recipes.calibration import Calibration, calibrate, plan_calibration
from attnaudit.recipes.study import Say, StudySpec, prepared, run_study
from attnaudit.results import read_table, table_file
from attnaudit.steps import (
    MANIFEST,
    SERIAL,
    Folder,
    Planned,
    Pool,
    Recipe,
    Step,
    execute,
)
from attnaudit.studies import EVERY_STUDY

BY_OPTION = {"copying.kind": "CORPUS", "copying.seed": "--seed"}
CURVES, FINAL, ATTENTION = "copying", "seeds", "attention"
_NUMBER = {"seed": pl.Int64, "stage": pl.Int64, "step": pl.Int64}
_FIGURES = (
    *("loss", "token", "attention", "relevance", "relevance_least", "attention_symbol"),
    *("relevance_symbol", "entropy", "agreement", "attended"),
)
_MEASURES = {**dict.fromkeys(_FIGURES, pl.Float64), "heads": pl.List(pl.Float64)}


def copying_study(
    kind: str,
    seed: int = 0,
    settings: Mapping[str, Any] | None = None,
    *,
    full: bool = False,
    **options: Any,
) -> Copying:
    """Make the study of one kind of sequences.

    Args:
        kind: Kind of sequences.
        seed: First seed.
        settings: Settings by dotted name, such as ``copying.seeds``.
        full: Whether those that are not given are as published.
        **options: Options of other studies, which are refused.

    Raises:
        InputError: For an unknown kind, setting or option.
    """
    refuse_options(options, (), COPYING)
    require_known("study", "copying of", kind, SYMBOLS)
    quick = {} if full else {f"{COPYING}.{name}": value for name, value in Copying.quick.items()}
    given = quick | dict(settings or {})
    refuse_settings(given, {**BY_OPTION, "training.epochs": "--set copying.steps=N"})
    return override({COPYING: Copying(kind, seed=seed)}, given)[COPYING]


def run_copying(
    study: Copying, out: str | Path, progress: Progress = silent, threads: int | None = None
) -> Path:
    """Do what is missing of a copying study.

    Args:
        study: The study.
        out: Its folder.
        progress: Callback.
        threads: Number of threads; by default every core.

    Returns:
        The folder.

    Raises:
        InputError: For bad settings.
        RunError: If the folder holds another study.
    """
    require("train", "study")
    steps = [
        _train_step(study, progress, threads or cores()),
        Step("analyse", lambda folder: [folder.records["train"].files], RESULTS[1:], _analyse),
        report_step(progress, {"report.html": _write_page}),
    ]
    return execute(Recipe(study.to_json(), steps), expanded(out))


def _train_step(study: Copying, progress: Progress, threads: int) -> Step:
    def work(folder, made):
        from attnaudit.copying.training import train

        number = min(threads, study.seeds)
        trained = train(study, number, folder.scratch, progress)
        targets = range(trained.alpha.shape[1])
        places = [{"seed": row["seed"], "target": t} for row in trained.final for t in targets]
        alpha = pl.Series("alpha", trained.alpha.reshape(len(places), -1))
        tables = {
            CURVES: pl.DataFrame(trained.curves, schema={**_NUMBER, **_MEASURES}),
            FINAL: pl.DataFrame(trained.final, schema={"seed": pl.Int64, **_MEASURES}),
            ATTENTION: pl.DataFrame(places).with_columns(alpha),
        }
        for name, table in tables.items():
            with table_file(made / RESULTS[0] / f"{name}.parquet") as add:
                add(table)

    return Step("train", lambda folder: (asdict(study), list(_MEASURES)), RESULTS[:1], work)


def _analyse(folder: Folder, made: Path) -> None:
    results = folder.out / RESULTS[0]
    curves, final = (read_table(results / f"{name}.parquet").collect() for name in (CURVES, FINAL))
    write_json(made / RESULTS[1], summarise(curves, final).to_dicts())


def _write_page(folder: Path, page: Path) -> None:
    from attnaudit.report.study_page import write_copying

    write_copying(folder, page)


NAMES = (*EVERY_STUDY, COPYING, CALIBRATION)


def check_name(name: str) -> None:
    """Raise InputError for what is no study of any corpus."""
    require_known("study", "name", name, NAMES)


def study(
    name: str,
    source: str | Path,
    out: str | Path | None = None,
    progress: Progress = silent,
    say: Say = lambda line: None,
    pool: Pool = SERIAL,
    **options: Any,
) -> Path:
    """Train variants of a model and compare them.

    What is done already is left as it is.

    Args:
        name: Name of the study.
        source: The corpus; of copying a kind of sequences, of calibration names joined by commas.
        out: Folder of the studies of this model; by default below ``runs``.
        progress: Callback.
        say: Function that is called with a line for each training.
        pool: Pool that trains.
        **options: Those of `StudySpec.of`: ``full``, ``settings`` by dotted name such as
            ``{"uniform.seeds": 3}``, and options of the kind of model.

    Returns:
        The study's folder.

    Raises:
        InputError: For bad input.
        RunError: If the folder holds another study.
    """
    check_name(name)
    if name in (COPYING, CALIBRATION) and pool.shares:
        got = f"{name}, which trains in one process"
        raise InputError("study", "--engine ray", got, "a study of a run", "leave out --engine")
    if name == COPYING:
        copying = copying_study(str(source), **options)
        return run_copying(copying, out or copying.folder, progress)
    if name == CALIBRATION:
        return calibrate(Calibration.of(str(source), out, **options), progress, say)
    spec = StudySpec.of(name, source, **options)
    return run_study(spec, expanded(out or spec.folder), progress, say, pool)


def plan_study(
    name: str,
    source: str | Path,
    out: str | Path | None = None,
    progress: Progress = silent,
    **options: Any,
) -> list[Planned]:
    """List the trainings of a study, and say which are done; arguments are those of `study`."""
    check_name(name)
    if name == COPYING:
        copying = copying_study(str(source), **options)
        place = expanded(out or copying.folder)
        return [Planned(copying.kind, str(place), (place / MANIFEST).exists())]
    if name == CALIBRATION:
        return plan_calibration(Calibration.of(str(source), out, **options))
    spec = StudySpec.of(name, source, **options)
    calls = prepared(spec, expanded(out or spec.folder), progress).calls
    return [Planned(call.name, str(call.writes), call.is_done) for call in calls]
