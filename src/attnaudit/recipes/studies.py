"""Every study by its name: of a run, the copying task, and the calibration of all measures."""

from pathlib import Path
from typing import Any

from attnaudit.copying.study import NAME as COPYING
from attnaudit.core import InputError, Progress, require_known, silent
from attnaudit.core.given import expanded
from attnaudit.recipes.calibration import PLACE as CALIBRATION
from attnaudit.recipes.calibration import Calibration, calibrate, plan_calibration
from attnaudit.recipes.copying import copying_study, run_copying
from attnaudit.recipes.study import Say, StudySpec, prepared, run_study
from attnaudit.steps import MANIFEST, SERIAL, Planned, Pool, plan_calls
from attnaudit.studies import EVERY_STUDY

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
    return plan_calls(list(prepared(spec, expanded(out or spec.folder), progress).calls))
