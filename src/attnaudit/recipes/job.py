"""Jobs: a model and its texts, read and checked, and the steps from them to an audited trace."""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars as pl

from attnaudit.calibration.check import interventions
from attnaudit.core import InputError, Progress, silent, write_json
from attnaudit.corpora.corpus import Corpus
from attnaudit.corpora.prepare.derived import of_classes, without_words
from attnaudit.corpora.prepare.planting import with_planted
from attnaudit.recipes.audit import PAGE, TRANSLATION_PAGE, Audit, Notes, pages, report_step
from attnaudit.steps import SERIAL, Folder, Recipe, Step
from attnaudit.steps.pieces import collected, piece
from attnaudit.steps.versions import versions
from attnaudit.trace import Trace, trace_files, write_shards
from attnaudit.training.probe import STEP_FOLDER, Probe, step_part

SHARD_ROWS = 2048  # of a call that collects
COLLECT = "collect"
TEACHER = "teacher"  # trace of all splits that a training takes as given from another
INTERVENTIONS = "interventions.json"  # how each decision changes when words are replaced
OWN_TOKEN = "own_token.json"  # share of some states that their own word accounts for
TRANSLATIONS, DICTIONARY = "translations.jsonl", "dictionary.parquet"
# For each step after training: its output, and the parts of ``spec.json`` that it depends on
# besides the model. The seed draws the texts to trace.
STEPS: dict[str, tuple[str, tuple[str, ...]]] = {
    COLLECT: ("trace", ("collect", "replacement", "seed")),
    "teach": (TEACHER, ()),
    "intervene": (INTERVENTIONS, ()),
    "attribute": (OWN_TOKEN, ()),
    "translate": (TRANSLATIONS, ("decode",)),
}


@dataclass(frozen=True, kw_only=True)
class Job(Audit, ABC):
    """The audit of the trace that a model leaves.

    Attributes:
        spec: What is asked for.
        corpus: The texts.
        source: What was read, before words were planted into it or removed.
        device: Name of the torch device.
    """

    spec: Any
    corpus: Any
    source: Any = None
    device: str = "cpu"

    @property
    def out(self) -> Path:
        """Folder of the job."""
        return self.trace.parent

    @property
    def shard_rows(self) -> int:
        """Rows of a call that collects."""
        return SHARD_ROWS

    @property
    @abstractmethod
    def traced(self) -> Any:
        """Rows that are traced."""

    @abstractmethod
    def load(self) -> Any:
        """Load the saved model onto the device."""

    @abstractmethod
    def shards(
        self,
        model: Any,
        rows: Any,
        origin: Mapping[str, Any],
        folder: Path | None = None,
        part: np.ndarray | None = None,
    ) -> Iterator[Trace]:
        """Trace rows, or only a part of them, with a model; ``folder`` gets the trace."""

    @property
    @abstractmethod
    def task(self) -> str:
        """Task that the trace says it is of."""

    @property
    @abstractmethod
    def sizes(self) -> Mapping[str, Any]:
        """Sizes of the corpus for the manifest."""

    def notes(self, folder: Folder | None) -> list[str]:
        """Return remarks for readers; ``folder`` has the records of the steps before."""
        return list(self.corpus.notes)

    @abstractmethod
    def described(self, model: Any) -> dict[str, Any]:
        """Return what a trace says of its model."""

    def origin(self, model: Any, folder: Folder | None = None) -> dict[str, Any]:
        """Return what any trace says of its origin; not when, where or how fast it was made."""
        about = {"task": self.task, "notes": self.notes(folder)}
        return {
            "corpus": {**self._named(), **about},
            "model": self.described(model),
            "seed": self.spec.seed,
            "versions": versions(),
        }

    def facts(self, folder: Folder) -> dict[str, Any]:
        """Return what the manifest says besides files, costs and versions."""
        return {
            "device": self.device,
            "corpus": {**self._named(), **self.sizes},
            "notes": self.notes(folder),
            "skipped": [asdict(row) for row in self.corpus.skipped],
        }

    def _named(self) -> dict[str, Any]:
        return {name: getattr(self.corpus, name) for name in ("name", "fingerprint")}

    def collect(self, model: Any, folder: Folder, made: Path) -> Notes:
        """Trace the rows, in a pool by a call for each shard."""
        rows, trace, origin = self.traced, made / "trace", self.origin(model, folder)
        if not self.pool.shares:
            trace.mkdir()
            return {"shards": len(write_shards(trace, self.shards(model, rows, origin, trace)))}
        size, numbers = self.shard_rows, np.arange(len(rows))
        calls = [
            piece(
                f"collect {number}",
                partial(write_part, self.sent(), part, origin),
                folder.pieces / f"{number}",
                rows,
                self.spec.device,
            )
            for number, part in enumerate(np.split(numbers, numbers[size::size]))
        ]
        return {"shards": collected(self.pool, calls, trace, self.progress)}

    def sent(self) -> Job:
        """Return the job as a call takes it to another process, without what is large."""
        large = dict.fromkeys(("corpus", "source", "replay"))
        return replace(self, **large, pool=SERIAL, progress=silent)


def write_part(
    job: Job,
    part: np.ndarray,
    origin: Mapping[str, Any],
    rows: Any,
    made: Path,
    progress: Progress,
    device: str | None,
) -> None:
    """Write the trace of some of the rows, in any process."""
    job = replace(job, progress=progress, device=device or resolve_device(job.spec.device))
    write_shards(made, job.shards(job.load(), rows, origin, made, part))


@dataclass(frozen=True, kw_only=True)
class Trained(Job):
    """A model that is trained here.

    Reading and building raise InputError for any input that would make training fail.

    Attributes:
        trained_by: Parts of ``spec.json`` that a trained model follows from, as far as they are
            there, besides the fingerprint of the corpus.
    """

    trained_by: ClassVar[tuple[str, ...]]

    @staticmethod
    @abstractmethod
    def read(spec: Any, progress: Progress) -> Any:
        """Read the corpus that a specification names. Raises InputError."""

    @staticmethod
    def prepare(spec: Any, corpus: Any) -> tuple[Any, str]:
        """Return the corpus to train on, and its fingerprint."""
        return corpus, corpus.fingerprint

    @property
    def read_by(self) -> Sequence[Any]:
        """Further inputs that a trained model depends on."""
        return ()

    @abstractmethod
    def build(self) -> tuple[Any, Notes]:
        """Make a model before training, and notes; ``remarks`` among them are for readers."""

    @abstractmethod
    def fit(self, model: Any, **options: Any) -> list[Any]:
        """Train a model in place, with options of the training loop; return every epoch."""

    @staticmethod
    def network(model: Any) -> Any:
        """Return the torch module inside a model."""
        return model.model

    @property
    def task(self) -> str:
        """Task of the corpus."""
        return self.corpus.task

    @property
    def is_traced(self) -> bool:
        """True if there is attention to trace."""
        return getattr(self.spec.model, "attention", "") != "none"

    def sample(self, rows: Any, size: int | None) -> Any:
        """Draw rows of a split, the same in all trainings of a study; None: all."""
        probe = Probe(size=len(rows) if size is None else size, seed=corpus_seed(self.spec))
        return rows.take(probe.rows(rows.instance))

    def whole_run(self) -> Recipe:
        """Return the recipe of a run: training, trace, audit and pages."""
        written = [PAGE] if self.is_traced else []
        written += [TRANSLATION_PAGE] if "translate" in self.after else []
        report = report_step(self.progress, pages(written))
        further = (*([COLLECT] if self.is_traced else []), *self.after)
        return self.recipe(further, self.audit_step(), report)

    def recipe(self, further: Sequence[str], *steps: Step) -> Recipe:
        """Return the recipe of a training, of what is made with it, and of more steps."""
        all_steps = [self.train_step(), *map(self.further_step, further), *steps]
        return Recipe(self.plain, all_steps, self.facts)

    def train_step(self) -> Step:
        """Train the model."""
        watched = () if self.spec.probe is None else ("probe", COLLECT)
        parts = (*self.trained_by, *watched)

        def inputs(folder):
            plain = {name: self.plain[name] for name in parts if self.plain[name] is not None}
            return self.plain["fingerprint"], plain, *self.read_by, self.device

        return Step("train", inputs, ("model", *([STEP_FOLDER] if watched else [])), self._fit)

    def _fit(self, folder: Folder, made: Path) -> Notes:
        from attnaudit.tracing.texts import trace_probe
        from attnaudit.training.loop import best_epoch, torch_threads

        checkpoint, probe = folder.scratch / f"checkpoint-{folder.key[:12]}", self.spec.probe
        with torch_threads(self.spec.training.threads):
            model, notes = self.build()
            origin, untold = self.origin(model), replace(self, progress=silent)

            def shards(rows, step):
                return untold.shards(model, rows, {**origin, "step": step})

            history = self.fit(
                model,
                seed=self.spec.seed,
                device=self.device,
                checkpoint=checkpoint,
                progress=self.progress,
                callback=probe and trace_probe(self.traced, probe, checkpoint, shards),
            )
            model.save(made / "model")
        for part in map(step_part, probe.steps if probe else ()):
            trace_files(checkpoint / part)  # refuses a missing step
            # Copy, do not move: another attempt needs the traces beside the checkpoint.
            shutil.copytree(checkpoint / part, made / part)
        best = best_epoch(history).epoch
        return {"history": [asdict(epoch) for epoch in history], "best_epoch": best, **notes}

    def further_step(self, name: str) -> Step:
        """Return a step of `STEPS`, which the method of its name does.

        That takes the model, the folder, and the folder to write into, and returns notes.
        """
        output, parts = STEPS[name]

        def inputs(folder):
            trained = folder.records["train"].files
            return self.plain["fingerprint"], trained, *map(self.plain.get, parts), self.device

        def work(folder, made):
            from attnaudit.training.loop import torch_threads

            # In a pool the devices are those of other machines.
            loader = replace(self, device="cpu") if self.pool.shares else self
            with torch_threads(self.spec.training.threads):
                return getattr(self, name)(loader.load(), folder, made)

        return Step(name, inputs, (output,), work)

    def predicted(self, model: Any, split: Any) -> np.ndarray:
        """Return the probabilities of texts."""
        raise NotImplementedError

    def intervene(self, model: Any, folder: Folder, made: Path) -> Notes:
        """Predict each planted test text before and after replacing some of its words."""
        found = interventions(self.corpus.splits["test"], partial(self.predicted, model))
        write_json(made / INTERVENTIONS, found)
        return {}

    def notes(self, folder: Folder | None) -> list[str]:
        """Return remarks for readers, those of the training among them once it is done."""
        trained = folder.records["train"].notes if folder else {}
        return [*self.corpus.notes, *trained.get("remarks", [])]

    def origin(self, model: Any, folder: Folder | None = None) -> dict[str, Any]:
        """Return what a trace says of its origin: of the trained model if ``folder`` is given."""
        from attnaudit.models.weights import weights_fingerprint

        origin = super().origin(model, folder)
        read, trained = dict(self.plain["corpus"]), dict(self.plain["training"])
        del read["source"], read["data_dir"]
        if folder:
            origin["model"]["fingerprint"] = weights_fingerprint(self.network(model))
            trained["best_epoch"] = folder.records["train"].notes["best_epoch"]
        corpus = {**read, **origin["corpus"]}
        return {**origin, "corpus": corpus, "collect": self.plain[COLLECT], "training": trained}

    @property
    def sizes(self) -> dict[str, Any]:
        """Rows of each split, and the classes."""
        rows = {name: len(split) for name, split in self.corpus.splits.items()}
        classes = list(getattr(self.corpus, "class_names", ()))
        return {"task": self.corpus.task, "rows": rows, "class_names": classes}


def read_translations(out: Path) -> list[dict[str, Any]]:
    """Read {instance, source, reference, translation} of every pair of the test split."""
    with (out / TRANSLATIONS).open("rb") as file:  # in a path polars reads [1] as a pattern
        return pl.read_ndjson(file).to_dicts()


def changed(spec: Any, corpus: Corpus) -> Corpus:
    """Choose classes of a corpus, plant words, and remove them, as a specification says."""
    if spec.corpus.classes is not None:
        corpus = of_classes(corpus, spec.corpus.classes)
    if spec.corpus.planted is not None:
        corpus = with_planted(corpus, spec.corpus, corpus_seed(spec))
    if spec.corpus.removed is not None:
        corpus = without_words(corpus, spec.corpus.removed)
    return corpus


def corpus_seed(spec: Any) -> int:
    """Return the seed of a corpus: of its splits, of generated texts and of samples."""
    return spec.seed if spec.corpus.seed is None else spec.corpus.seed


def resolve_device(device: str) -> str:
    """Return the torch device of a setting; ``auto`` is CUDA where it is available.

    Raises:
        InputError: If there is no such device.
    """
    if device == "cpu":
        return device
    import torch

    known = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
    if device == "auto":
        return known[-1]
    known += [f"cuda:{k}" for k in range(torch.cuda.device_count())]
    if device not in known:
        expected = f"auto or one of {', '.join(known)} on this machine"
        raise InputError("run", "--device", repr(device), expected)
    return device
