"""The registered experiments, and what each states of itself."""

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

    ``needs`` are the optional columns of a trace that it reads. Calling it gives a table with a row per trace row, in order, whose first
    columns are `keys(trace)`; ``summarise`` turns that table, of all shards, into summary rows.

    A class may state more of itself, and pages, help and documentation read it: see `Facts`.
    """

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    name: ClassVar[str]
    needs: ClassVar[tuple[str, ...]]

    def __call__(self, trace: Trace) -> pl.DataFrame: ...

    def summarise(self, table: pl.LazyFrame) -> pl.DataFrame: ...


def _check(experiment: type[Any]) -> None:
    missing = [name for name in ("name", "needs", "summarise") if not hasattr(experiment, name)]
    if missing or not is_dataclass(experiment):
        got = f"a class without {', '.join(missing)}" if missing else "a class that is no dataclass"
        raise InputError(
            "register experiment",
            experiment.__name__,
            got,
            "a frozen dataclass with name, needs, __call__ and summarise",
        )


EXPERIMENTS: Registry[type[Experiment]] = Registry("experiment", "attnaudit.experiments", _check)


def register_experiment(experiment: type[Any]) -> type[Any]:
    """Add an experiment to those that audits run, and return it, so that this call may be a decorator.

    Raises InputError where it is no frozen dataclass with ``name``, ``needs`` and ``summarise``, or its name is taken.
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
    """The facts of the registered experiment ``name``, all empty for an unknown one: results may be of an experiment of elsewhere."""
    stated = EXPERIMENTS.get(name, object)
    return Facts(**{name: getattr(stated, name) for name in Facts._fields if hasattr(stated, name)})


def measure_label(measure: str, experiment: str | None = None) -> str:
    """The label of a measure of ``experiment``, else of the first experiment that states one; a name without a label is its own."""
    names = EXPERIMENTS if experiment is None else (experiment,)
    return label_of(
        [*(one for name in names for one in facts(name).measures), *OF_TRANSLATIONS], measure
    )


def measures_of_rows(experiment: Experiment, table: pl.LazyFrame) -> pl.LazyFrame:
    """The measures that have a value for every row of an experiment's table, a column each; null is undefined.

    A class states them by a method ``of_rows(table)``; otherwise they are the columns that its ``measures`` name.
    """
    stated = getattr(experiment, "of_rows", None)
    if stated is not None:
        return stated(table)
    known = facts(experiment.name).measures
    columns = table.select(cs.numeric() | cs.boolean()).collect_schema().names()
    return table.select(
        name for name in columns if any(measure.label_for(name) is not None for measure in known)
    )


def make_experiment(name: str, settings: Mapping[str, Any] | None = None) -> Any:
    """The experiment ``name`` with ``settings`` in place of its defaults. Raises InputError for an unknown name or setting."""
    experiment = EXPERIMENTS.find(name, "audit")()
    known = {f.name: f for f in fields(experiment)}
    for key in settings or {}:
        if key not in known:
            expected = f"one of {', '.join(known)}" if known else "none: it has no settings"
            raise InputError(
                "audit",
                f"setting {name}.{key}",
                "no such setting",
                expected,
                did_you_mean(key, known),
            )
    return replace(experiment, **(settings or {}))


def with_settings() -> Iterator[str]:
    """The experiments that have settings: the others are in no specification of a run."""
    return (name for name, experiment in EXPERIMENTS.items() if fields(experiment))


def refusal(experiment: Experiment, trace: Trace) -> str | None:
    """Why an experiment cannot use a trace; None where it can. A class may say so by a method ``refuses``, after its ``needs``.

    Where a class states its ``scope``, such as "traces of translations", that is the reason given for a trace without what it needs.
    """
    missing = [name for name in experiment.needs if not trace.has(name)]
    if missing:
        scope = getattr(experiment, "scope", "")
        return f"for {scope} only" if scope else f"the trace has no column {', '.join(missing)}"
    refuses = getattr(experiment, "refuses", None)
    return refuses(trace) if refuses is not None else None


def require_usable(experiments: Iterable[Experiment], trace: Trace) -> None:
    """Raise TraceError where one of the experiments, which were asked for by name, cannot use this trace."""
    for experiment in experiments:
        reason = refusal(experiment, trace)
        if reason is not None:
            raise TraceError(
                "audit", experiment.name, reason, "a trace that this experiment can use"
            )
