"""Every study by its name: of a run, the copying task, and the calibration of all measures."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

from attnaudit.copying.study import NAME as COPYING
from attnaudit.core.errors import InputError, did_you_mean
from attnaudit.core.progress import Progress, silent
from attnaudit.core.settings import coerce
from attnaudit.recipes.calibration import Calibration, calibrate, plan_calibration
from attnaudit.recipes.copying import copying_folder, copying_study, run_copying
from attnaudit.recipes.kind import refuse_options
from attnaudit.recipes.study import Say, StudySpec, prepared, run_study
from attnaudit.steps import SERIAL, Planned, Pool, plan_calls
from attnaudit.steps.folder import MANIFEST
from attnaudit.studies import EVERY_STUDY

CALIBRATION = "calibration"
NAMES = (*EVERY_STUDY, COPYING, CALIBRATION)
QUICK_CALIBRATION: dict[str, Any] = {"seeds": 2, "encoders": 1}


def check_name(name: str) -> None:
    """Raise InputError for what is no study of any corpus."""
    if name not in NAMES:
        expected, near = f"one of {', '.join(NAMES)}", did_you_mean(name, NAMES)
        raise InputError("study", "name", repr(name), expected, near)


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
        pool: What trains.
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
        got, do = f"{name}, which trains in one process", "leave out --engine"
        raise InputError("study", "--engine ray", got, "a study of a run", do)
    if name == COPYING:
        copying = copying_study(str(source), **options)
        return run_copying(copying, out or copying_folder(copying), progress)
    if name == CALIBRATION:
        return calibrate(calibration_of(str(source), out, **options), progress, say)
    spec = StudySpec.of(name, source, **options)
    return run_study(spec, Path(out or spec.folder), progress, say, pool)


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
        place = Path(out or copying_folder(copying))
        return [Planned(copying.kind, str(place), (place / MANIFEST).exists())]
    if name == CALIBRATION:
        return plan_calibration(calibration_of(str(source), out, **options))
    spec = StudySpec.of(name, source, **options)
    return plan_calls(list(prepared(spec, Path(out or spec.folder), progress).calls))


def calibration_of(
    source: str,
    out: str | Path | None = None,
    *,
    seed: int = 0,
    full: bool = False,
    settings: dict[str, Any] | None = None,
    data_dir: str | None = None,
    **options: Any,
) -> Calibration:
    """Make a calibration.

    Args:
        source: Names of corpora, joined by commas.
        out: Its folder; by default ``runs/calibration``.
        seed: First seed, 0.
        full: Whether all encoders and seeds are trained.
        settings: ``calibration.seeds``, ``calibration.encoders``, ``calibration.constructions``.
        data_dir: Folder of the registered corpora.
        **options: Options of other studies, which are refused.

    Raises:
        InputError: For an unknown name, setting or option.
    """
    options |= {} if seed == 0 else {"seed": seed}
    instead = "calibration is set by --set calibration.NAME=…"
    refuse_options("study", CALIBRATION, options, (), instead)
    hints = {"seeds": int, "encoders": int | None, "constructions": tuple[str, ...] | None}
    given: dict[str, Any] = {} if full else dict(QUICK_CALIBRATION)
    for key, value in (settings or {}).items():
        name = key.removeprefix(f"{CALIBRATION}.")
        if key == name or name not in hints:
            known = [
                f"{CALIBRATION}.{one.name}" for one in fields(Calibration) if one.name in hints
            ]
            expected, near = f"one of {', '.join(known)}", did_you_mean(key, known)
            raise InputError("read settings", f"setting {key}", "no such setting", expected, near)
        given[name] = coerce(value, hints[name], key)
    place = Path(out or "runs/calibration")
    return Calibration(place, tuple(source.split(",")), data_dir=data_dir, **given)
