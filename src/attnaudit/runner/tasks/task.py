"""What differs between the kinds of models that are run, as a value: `attnaudit.runner.pipeline` is the same for all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

from attnaudit.core.errors import InputError
from attnaudit.core.progress import Progress
from attnaudit.corpora.spec import CorpusSpec
from attnaudit.plans.training import Study
from attnaudit.runner.store import Store

if TYPE_CHECKING:
    from torch.nn import Module

    from attnaudit.trace import Trace
    from attnaudit.training.loop import Epoch

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


def refuse_options(operation: str, what: str, options: Mapping[str, Any], known: Iterable[str], instead: str) -> None:
    """Raise InputError for the first of ``options`` that is not ``known``."""
    for name, value in options.items():
        if name not in known:
            flag = next((field.metadata["flag"] for field in fields(CorpusSpec) if field.name == name), f"--{name}")
            raise InputError(operation, what, f"{flag} {value}", f"no such option: {instead}")


@dataclass(frozen=True)
class Step:
    """What is made with a trained model: ``work`` writes ``outputs`` into a folder; they follow from the model and from ``key``.

    ``work`` is given the job, the model, what a trace says of its origin, and the folder; it returns notes for the manifest.
    """

    outputs: tuple[str, ...]
    key: Callable[[Job], Sequence[Any]]
    work: Callable[[Job, Any, Mapping[str, Any], Path], Notes]


@runtime_checkable
class Task(Protocol):
    """A kind of model, from its corpus to its pages.

    ``kind`` is its name in ``spec.json`` and in the manifest; ``studies`` are those of such models. ``steps`` can be done once there is a
    trained model; a whole run has the ``extra`` ones, after its trace is collected. An audit has more ``tables`` than those of its
    experiments, and a run ``pages`` (a function of the run's folder and of the page's path) besides that of the audit.
    """

    kind: ClassVar[str]
    studies: ClassVar[Mapping[str, type[Study]]]
    steps: ClassVar[Mapping[str, Step]]
    extra: ClassVar[tuple[str, ...]]
    tables: ClassVar[tuple[str, ...]]
    pages: ClassVar[Mapping[str, Callable[[Path, Path], Any]]]

    def spec(self, source: str | Path, **options: Any) -> Any:
        """The specification of a run of ``source``. Raises InputError, for options that there are not too."""
        ...

    def read(self, spec: Any, progress: Progress) -> Any:
        """The corpus that a specification names. Raises InputError."""
        ...

    def prepare(self, spec: Any, corpus: Any) -> tuple[Any, str]:
        """The corpus as a model is trained on it, and the fingerprint of all that it then learns from."""
        ...

    def training_key(self, job: Job) -> Sequence[Any]:
        """What a trained model follows from, besides the fingerprint and the device."""
        ...

    def build(self, job: Job) -> tuple[Any, Notes]:
        """A model before training, and notes on how it came about. Raises InputError for all that training would fail of."""
        ...

    def traced(self, job: Job) -> Any:
        """The rows of test that are traced."""
        ...

    def shards(self, job: Job, model: Any, rows: Any, origin: Mapping[str, Any]) -> Iterator[Trace]:
        """The trace of some rows of test, piece by piece."""
        ...

    def fit(self, job: Job, model: Any, **options: Any) -> list[Epoch]:
        """Train in place; ``options`` are those of `attnaudit.training.loop.minimise`."""
        ...

    def load(self, folder: Path, device: str) -> Any: ...

    def network(self, model: Any) -> Module: ...

    def described(self, job: Job, model: Any) -> dict[str, Any]:
        """What a trace says of its model."""
        ...

    def remarks(self, notes: Notes) -> list[str]:
        """Of the notes of a training, what a reader should know."""
        ...

    def with_remarks(self, origin: Mapping[str, Any], remarks: Sequence[str]) -> dict[str, Any]:
        """What a trace says of its origin, the remarks on the training included."""
        ...

    def audit_key(self, job: Job) -> Sequence[Any]:
        """What the results of a run follow from, besides its trace."""
        ...

    def rows(self, job: Job, folder: Path, audited: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """All summary rows: those ``audited`` by the experiments, whose ``results`` are in ``folder``, and more; writes `tables` there."""
        ...

    def facts(self, job: Job) -> dict[str, dict[str, Any]]:
        """What the manifest says besides, by section."""
        ...
