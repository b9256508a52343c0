"""Registry of experiments, and the optional facts that their classes state."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import Field, fields, is_dataclass, replace
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import polars as pl
import polars.selectors as cs

from attnaudit.core import InputError, TraceError, did_you_mean
from attnaudit.core.papers import Paper
from attnaudit.core.registry import Registry
from attnaudit.core.shapes import PerRow, RowInts
from attnaudit.results import Measure, measure_of
from attnaudit.results.measures import OF_TRANSLATIONS
from attnaudit.trace import Trace

LACKS = "the trace has no column"
"""Begins the reason of an experiment that could run with further columns."""


@runtime_checkable
class Experiment(Protocol):
    """Interface of an experiment: a frozen dataclass of settings with a pure call.

    A class may also state facts for pages, help and documentation: see `Facts`. With ``of_scores =
    True`` it also takes traces of scores, which have no attention.

    Attributes:
        name: Unique name.
        needs: Columns that it requires beyond those of every trace.
    """

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    name: ClassVar[str]
    needs: ClassVar[tuple[str, ...]]

    def __call__(self, trace: Trace) -> pl.DataFrame:
        """Compute a table with one row per trace row, in the same order.

        Its first columns are those of `keys(trace)`.
        """
        ...

    def summarise(self, table: pl.LazyFrame) -> pl.DataFrame:
        """Summarise the table of all shards."""
        ...


@runtime_checkable
class Replaying(Protocol):
    """An experiment that estimates how many outputs of a network its rows ask for."""

    def passes(self, tokens: RowInts, heads: int) -> PerRow:
        """Return the number for each row.

        Args:
            tokens: Tokens of the rows.
            heads: Recorded heads of a layer.
        """
        ...


def _check(experiment: type[Any]) -> None:
    # `make_experiment` relies on dataclass fields. A missing attribute would otherwise show only
    # in the middle of an audit.
    missing = [name for name in ("name", "needs", "summarise") if not hasattr(experiment, name)]
    if missing or not is_dataclass(experiment):
        got = f"a class without {', '.join(missing)}" if missing else "a class that is no dataclass"
        expected = "a frozen dataclass with name, needs, __call__ and summarise"
        raise InputError("register experiment", experiment.__name__, got, expected)


EXPERIMENTS: Registry[type[Experiment]] = Registry("experiment", "experiments", _check)


def register_experiment(experiment: type[Any]) -> type[Any]:
    """Register an experiment, so that audits run it; also works as a decorator.

    Args:
        experiment: A frozen dataclass with ``name``, ``needs`` and ``summarise``.

    Returns:
        The same class.

    Raises:
        InputError: If it is not such a class, or if its name is taken.
    """
    return EXPERIMENTS.register(experiment)


class Facts(NamedTuple):
    """Optional attributes of an experiment's class, empty by default.

    Attributes:
        papers: Source papers; the experiment follows the first.
        measures: Names and meanings of the measures in its summary.
    """

    papers: tuple[Paper, ...]
    measures: tuple[Measure, ...]


def facts(name: str) -> Facts:
    """Return the facts of an experiment, all empty if it is not registered."""
    # Stored results and studies name experiments that this installation may lack.
    stated = EXPERIMENTS.get(name)
    return Facts(*(getattr(stated, fact, ()) for fact in Facts._fields))


def measure_label(measure: str, experiment: str | None = None) -> str:
    """Return the label of a measure, or its name if it has no label.

    Args:
        measure: Name of the measure.
        experiment: Experiment that states the label; by default the first one that does.
    """
    names = EXPERIMENTS if experiment is None else (experiment,)
    measures = [one for name in names for one in facts(name).measures]
    return measure_of([*measures, *OF_TRANSLATIONS], measure).label


def measures_of_rows(experiment: Experiment, table: pl.LazyFrame) -> pl.LazyFrame:
    """Select the measures that are defined per row; an undefined value is null.

    In rows marked ``one_word`` all measures but counts are undefined, unless they are about the
    model (``of_model``) and not about its attention.

    A class may choose them in a method ``of_rows(table)``. Otherwise they are the numeric columns
    that its ``measures`` name.

    Args:
        experiment: The experiment.
        table: Its table.

    Returns:
        One column per measure, with the rows of the table.
    """
    if "one_word" in table.collect_schema() and not getattr(experiment, "of_model", False):
        several = pl.when(~pl.col("one_word"))
        table = table.with_columns(several.then(cs.float() | cs.boolean()).name.keep())
    of_rows = getattr(experiment, "of_rows", None)
    if of_rows is not None:
        return of_rows(table)
    measures = getattr(experiment, "measures", ())
    columns = table.select(cs.numeric() | cs.boolean()).collect_schema().names()
    return table.select(
        name for name in columns if any(one.label_for(name) is not None for one in measures)
    )


def make_experiment(name: str, settings: Mapping[str, Any] | None = None) -> Any:
    """Create an experiment.

    Args:
        name: Registered name.
        settings: Values that replace its defaults.

    Raises:
        InputError: For an unknown name or setting.
    """
    experiment = EXPERIMENTS.find(name, "audit")()
    known = {field.name: field for field in fields(experiment)}
    for key in settings or {}:
        if key not in known:
            raise InputError(
                "audit",
                f"setting {name}.{key}",
                "no such setting",
                f"one of {', '.join(known)}" if known else "none: it has no settings",
                did_you_mean(key, known),
            )
    return replace(experiment, **(settings or {}))


def with_settings() -> Iterator[str]:
    """Yield the names of experiments with settings; specifications of runs omit the others."""
    return (name for name, experiment in EXPERIMENTS.items() if fields(experiment))


def refusal(experiment: Experiment, trace: Trace) -> str | None:
    """Explain why an experiment cannot use a trace.

    A trace must have attention, unless the class is ``of_scores``, and the columns in ``needs``.
    If the class has a ``scope``, such as "traces of translations", the reason names that instead
    of a column. No ``importance_<name>`` may have a name that is in its ``reserved``: the table
    has other measures of these names. Its method ``refuses`` may reject other traces.

    Returns:
        The reason, or None if the experiment can use the trace.
    """
    if not (trace.has("alpha") or getattr(experiment, "of_scores", False)):
        return "the trace has scores only, no attention"
    missing = [name for name in experiment.needs if not trace.has(name)]
    if missing:
        scope = getattr(experiment, "scope", "")
        return f"for {scope} only" if scope else f"{LACKS} {', '.join(missing)}"
    names = [f"importance_{name}" for name in getattr(experiment, "reserved", ())]
    if taken := ", ".join(filter(trace.has, names)):
        return f"the name of column {taken} is taken by what the experiment itself measures"
    refuses = getattr(experiment, "refuses", None)
    return refuses(trace) if refuses is not None else None


def require_usable(experiments: Iterable[Experiment], trace: Trace) -> None:
    """Raise TraceError if an experiment that the user asked for cannot use this trace."""
    for experiment in experiments:
        reason = refusal(experiment, trace)
        if reason is not None:
            expected = "a trace that this experiment can use"
            raise TraceError("audit", experiment.name, reason, expected)
