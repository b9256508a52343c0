"""The registered experiments, and the facts that each states about itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import Field, fields, is_dataclass, replace
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import polars as pl
import polars.selectors as cs

from attnaudit.core.errors import InputError, TraceError, did_you_mean
from attnaudit.core.papers import Paper
from attnaudit.core.registry import Registry
from attnaudit.results.measures import OF_TRANSLATIONS, Measure, label_of
from attnaudit.trace import Trace


@runtime_checkable
class Experiment(Protocol):
    """A question about a trace: a frozen dataclass of settings, and a pure call.

    A class may state more about itself, for pages, help and documentation: see `Facts`.

    Attributes:
        name: Unique name.
        needs: Optional columns of a trace that it reads.
    """

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    name: ClassVar[str]
    needs: ClassVar[tuple[str, ...]]

    def __call__(self, trace: Trace) -> pl.DataFrame:
        """Compute a table with a row per trace row, in order; it begins with `keys(trace)`."""
        ...

    def summarise(self, table: pl.LazyFrame) -> pl.DataFrame:
        """Turn the table of all shards into summary rows."""
        ...


def _check(experiment: type[Any]) -> None:
    missing = [name for name in ("name", "needs", "summarise") if not hasattr(experiment, name)]
    if missing or not is_dataclass(experiment):
        got = f"a class without {', '.join(missing)}" if missing else "a class that is no dataclass"
        expected = "a frozen dataclass with name, needs, __call__ and summarise"
        raise InputError("register experiment", experiment.__name__, got, expected)


EXPERIMENTS: Registry[type[Experiment]] = Registry("experiment", "experiments", _check)


def register_experiment(experiment: type[Any]) -> type[Any]:
    """Add an experiment to those that audits run; also a decorator.

    Args:
        experiment: A frozen dataclass with ``name``, ``needs`` and ``summarise``.

    Returns:
        The same class.

    Raises:
        InputError: If it is something else, or its name is taken.
    """
    return EXPERIMENTS.register(experiment)


class Facts(NamedTuple):
    """Optional attributes of an experiment's class, empty where it has none.

    Attributes:
        papers: Its sources; the first is the one that it follows.
        measures: Names and meanings of the measures in its summary.
    """

    papers: tuple[Paper, ...] = ()
    measures: tuple[Measure, ...] = ()


def facts(name: str) -> Facts:
    """Return the facts of an experiment; all are empty if it is not registered here."""
    stated = EXPERIMENTS.get(name, object)
    return Facts(**{name: getattr(stated, name) for name in Facts._fields if hasattr(stated, name)})


def measure_label(measure: str, experiment: str | None = None) -> str:
    """Return the label of a measure, its name if it has none.

    Args:
        measure: Name of the measure.
        experiment: Experiment that states it; by default the first that states a label.
    """
    names = EXPERIMENTS if experiment is None else (experiment,)
    measures = [one for name in names for one in facts(name).measures]
    return label_of([*measures, *OF_TRANSLATIONS], measure)


def measures_of_rows(experiment: Experiment, table: pl.LazyFrame) -> pl.LazyFrame:
    """Select the measures that have a value for every row, a column each; null is undefined.

    A class states them by a method ``of_rows(table)``; otherwise they are the columns that its
    ``measures`` name.
    """
    of_rows = getattr(experiment, "of_rows", None)
    if of_rows is not None:
        return of_rows(table)
    measures = facts(experiment.name).measures
    columns = table.select(cs.numeric() | cs.boolean()).collect_schema().names()
    return table.select(
        name for name in columns if any(one.label_for(name) is not None for one in measures)
    )


def make_experiment(name: str, settings: Mapping[str, Any] | None = None) -> Any:
    """Make the experiment ``name`` with ``settings`` in place of its defaults.

    Raises:
        InputError: For an unknown name or setting.
    """
    experiment = EXPERIMENTS.find(name, "audit")()
    known = {field.name: field for field in fields(experiment)}
    for key in settings or {}:
        if key not in known:
            expected = f"one of {', '.join(known)}" if known else "none: it has no settings"
            where, hint = f"setting {name}.{key}", did_you_mean(key, known)
            raise InputError("audit", where, "no such setting", expected, hint)
    return replace(experiment, **(settings or {}))


def with_settings() -> Iterator[str]:
    """Yield the experiments that have settings: the others are in no specification of a run."""
    return (name for name, experiment in EXPERIMENTS.items() if fields(experiment))


def refusal(experiment: Experiment, trace: Trace) -> str | None:
    """Explain why an experiment cannot use a trace.

    A class refuses traces without the columns that it ``needs``; the reason is its ``scope`` if it
    states one, such as "traces of translations". Its method ``refuses`` may refuse others.

    Returns:
        The reason; None if it can.
    """
    missing = [name for name in experiment.needs if not trace.has(name)]
    if missing:
        scope = getattr(experiment, "scope", "")
        return f"for {scope} only" if scope else f"the trace has no column {', '.join(missing)}"
    refuses = getattr(experiment, "refuses", None)
    return refuses(trace) if refuses is not None else None


def require_usable(experiments: Iterable[Experiment], trace: Trace) -> None:
    """Raise TraceError if one of the experiments, asked for by name, cannot use this trace."""
    for experiment in experiments:
        reason = refusal(experiment, trace)
        if reason is not None:
            expected = "a trace that this experiment can use"
            raise TraceError("audit", experiment.name, reason, expected)
