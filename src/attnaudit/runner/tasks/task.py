"""What differs between the kinds of models that are run, as a value: `attnaudit.runner.pipeline` is the same for all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from attnaudit.core.errors import InputError
from attnaudit.core.progress import Progress
from attnaudit.corpora.spec import CorpusSpec
from attnaudit.runner.store import Store
from attnaudit.trace import Trace

Notes = dict[str, Any]  # what a step leaves in the manifest


@dataclass(frozen=True)
class Job:
    """A run under way: its corpus is read and its folder is held. ``plain`` is what ``spec.json`` holds."""

    spec: Any
    plain: dict[str, Any]
    corpus: Any
    device: str
    store: Store
    progress: Progress


def refuse_options(
    operation: str, what: str, options: Mapping[str, Any], known: Iterable[str], instead: str
) -> None:
    """Raise InputError for the first of ``options`` that is not ``known``."""
    for name, value in options.items():
        if name not in known:
            flag = next(
                (one.metadata["flag"] for one in fields(CorpusSpec) if one.name == name),
                f"--{name}",
            )
            raise InputError(operation, what, f"{flag} {value}", f"no such option: {instead}")


@dataclass(frozen=True)
class Step:
    """What is made with a trained model: ``work`` writes ``outputs`` into a folder; they follow from the model and from ``key``.

    ``work`` is given the job, the model, what a trace says of its origin, and the folder; it returns notes for the manifest.
    """

    outputs: tuple[str, ...]
    key: Callable[[Job], Sequence[Any]]
    work: Callable[[Job, Any, Mapping[str, Any], Path], Notes]


@dataclass(frozen=True)
class Task:
    """A kind of model, from its corpus to its pages. What reads or builds raises InputError for all that training would fail of."""

    kind: str  # its name in ``spec.json`` and in the manifest
    needs: tuple[str, ...]  # the extras of the installation that have its packages
    studies: Mapping[str, type]  # each a `attnaudit.studies.Study` of such models
    spec: Callable[..., Any]  # the specification of a run, of a source and options
    read: Callable[[Any, Progress], Any]  # the corpus that a specification names
    prepare: Callable[
        [Any, Any], tuple[Any, str]
    ]  # of specification and corpus: the corpus to train on, and its fingerprint
    training_key: Callable[
        [Job], Sequence[Any]
    ]  # what a trained model follows from, besides the fingerprint and the device
    build: Callable[
        [Job], tuple[Any, Notes]
    ]  # a model before training, and notes on how it came about
    fit: Callable[
        ..., list[Any]
    ]  # every epoch of training the model of a job in place, with options of `attnaudit.training.loop.minimise`
    load: Callable[[Path, str], Any]  # the model that was saved in a folder, on a device
    network: Callable[[Any], Any]  # the torch module of a model
    described: Callable[[Job, Any], dict[str, Any]]  # what a trace says of its model
    remarks: Callable[[Notes], list[str]]  # of the notes of a training, what a reader should know
    with_remarks: Callable[
        [Mapping[str, Any], Sequence[str]], dict[str, Any]
    ]  # what a trace says of its origin, with these remarks
    traced: Callable[[Job], Any]  # the rows of test that are traced
    shards: Callable[
        [Job, Any, Any, Mapping[str, Any], Progress], Iterator[Trace]
    ]  # of job, model, rows, origin: the trace of these rows
    collect_key: Callable[[Job], Sequence[Any]]  # what the trace follows from, besides the model
    steps: Mapping[str, Step]  # what else can be made with a trained model
    audit_key: Callable[
        [Job], Sequence[Any]
    ]  # what the results of a run follow from, besides its trace
    rows: Callable[
        [Job, Path, list[dict[str, Any]]], list[dict[str, Any]]
    ]  # all summary rows, of those audited; writes `tables` too
    facts: Callable[[Job], dict[str, dict[str, Any]]]  # what the manifest says besides, by section
    shard_rows: int = 2048  # of a shard of a run that several machines trace: `attnaudit.tracing.texts.SHARD_ROWS`
    extra: tuple[str, ...] = ()  # further steps of a whole run, after its trace is collected
    tables: tuple[str, ...] = ()  # of an audit, besides those of its experiments
    pages: Mapping[str, Callable[[Path, Path], Any]] = field(
        default_factory=dict
    )  # besides the audit's: written of a folder to a path
    audit: Callable[[Any, Path, Path, Progress], Any] | None = (
        None  # of spec, training and place: its model audited; None: its trace is
    )
