"""Differences between the kinds of models that are trained here."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from attnaudit.core.errors import InputError
from attnaudit.core.progress import Progress
from attnaudit.steps import Folder
from attnaudit.trace import Trace
from attnaudit.training.probe import Probe

Notes = dict[str, Any]  # what a step leaves in the manifest
Rows = list[dict[str, Any]]  # of a summary


def corpus_seed(spec: Any) -> int:
    """Return the seed of a corpus: of its splits, of generated texts and of samples."""
    return spec.seed if spec.corpus.seed is None else spec.corpus.seed


@dataclass(frozen=True)
class Job:
    """A training whose corpus is read.

    Attributes:
        spec: A `RunSpec`, `TranslationSpec` or `TransformerTraining`.
        plain: Content of ``spec.json``.
        corpus: The corpus that is trained on.
        device: Name of the torch device; None if a pool chooses it.
        progress: Callback.
    """

    spec: Any
    plain: dict[str, Any]
    corpus: Any
    device: str
    progress: Progress

    def sample(self, rows: Any, size: int | None) -> Any:
        """Draw rows of a split, the same in all trainings of a study; None: all."""
        probe = Probe(size=len(rows) if size is None else size, seed=corpus_seed(self.spec))
        return rows.take(probe.rows(rows.instance))


@dataclass(frozen=True)
class Further:
    """Something else that can be made with a trained model.

    Attributes:
        outputs: Files and folders that it makes.
        work: Function of the job, the model, what a trace says of its origin, and the folder to
            write into; it returns notes.
        inputs: Function of the job that returns what the outputs follow from besides the model.
    """

    outputs: tuple[str, ...]
    work: Callable[[Job, Any, Mapping[str, Any], Path], Notes]
    inputs: Callable[[Job], Sequence[Any]] = lambda job: ()


class Kind(ABC):
    """A kind of model, from its corpus to its pages.

    What reads or builds raises InputError for everything that training would fail of.

    Attributes:
        name: Its name in ``spec.json`` and in the manifest.
        needs: Extras of the installation that have its packages.
        trained_by: Parts of ``spec.json`` that a trained model follows from, as far as they are
            there, besides the fingerprint of the corpus.
        further: What else can be made with a trained model, by the name of the step.
        usual: Those of `further` that belong to a whole run; its summary follows from them too.
        tables: Files of an audit besides those of its experiments.
        pages: Writers of pages besides the audit's, by file name.
        studies: Studies of such models, by name.
    """

    name: ClassVar[str]
    needs: ClassVar[tuple[str, ...]]
    trained_by: ClassVar[tuple[str, ...]]
    further: ClassVar[Mapping[str, Further]] = {}
    usual: ClassVar[tuple[str, ...]] = ()
    tables: ClassVar[tuple[str, ...]] = ()
    pages: ClassVar[Mapping[str, Callable[[Path, Path], Any]]] = {}
    studies: ClassVar[Mapping[str, type]]

    @abstractmethod
    def spec(self, source: str | Path, **options: Any) -> Any:
        """Make the specification of a run. Raises InputError."""

    @abstractmethod
    def read(self, spec: Any, progress: Progress) -> Any:
        """Read the corpus that a specification names. Raises InputError."""

    def prepare(self, spec: Any, corpus: Any) -> tuple[Any, str]:
        """Return the corpus to train on, and its fingerprint."""
        return corpus, corpus.fingerprint

    def read_by(self, job: Job) -> Sequence[Any]:
        """Return what else a trained model follows from."""
        return ()

    @abstractmethod
    def build(self, job: Job) -> tuple[Any, Notes]:
        """Make a model before training, and notes; ``remarks`` among them are for readers."""

    @abstractmethod
    def fit(self, job: Job, model: Any, **options: Any) -> list[Any]:
        """Train a model in place, with options of the training loop; return every epoch."""

    @abstractmethod
    def load(self, folder: Path, device: str) -> Any:
        """Load the model that was saved in a folder."""

    def network(self, model: Any) -> Any:
        """Return the torch module of a model."""
        return model.model

    @abstractmethod
    def described(self, job: Job, model: Any) -> dict[str, Any]:
        """Return what a trace says of its model."""

    def task(self, job: Job) -> str:
        """Return the task that a trace says it is of."""
        return job.corpus.task

    @abstractmethod
    def traced(self, job: Job) -> Any:
        """Return the rows of test that are traced."""

    @abstractmethod
    def shards(
        self, job: Job, model: Any, rows: Any, origin: Mapping[str, Any], progress: Progress
    ) -> Iterator[Trace]:
        """Trace rows with a model."""

    def rows(self, job: Job, folder: Folder, made: Path, audited: Rows) -> Rows:
        """Return all summary rows, those of the experiments included; write `tables` too."""
        return audited


def refuse_options(
    operation: str, what: str, options: Mapping[str, Any], known: Iterable[str], instead: str
) -> None:
    """Raise InputError for the first of ``options`` that is not ``known``."""
    for name, value in options.items():
        if name not in known:
            got = f"--model {value}" if name == "encoder" else f"{name} {value}"
            raise InputError(operation, what, got, f"no such option: {instead}")
