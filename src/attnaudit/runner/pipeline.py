"""A run: prepare → train → collect → audit → report → manifest, each step done once for what it follows from."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnaudit.core.errors import InputError
from attnaudit.core.files import sha256, write_json
from attnaudit.core.progress import Progress, silent
from attnaudit.plans.spec import RunSpec, Teacher, content_key
from attnaudit.runner.ledger import Ledger, Record
from attnaudit.runner.place import alone, check_place
from attnaudit.runner.steps import Battery, audit_step, keep_steps, manifest, report_step, trace_digests
from attnaudit.runner.versions import versions
from attnaudit.trace.probe import STEP_FOLDER

TEACHER = "teacher"  # the folder of what a training takes as given from another
SPLITS = ("train", "dev", "test")

if TYPE_CHECKING:
    from torch.nn import Module

    from attnaudit.corpora import Corpus
    from attnaudit.models.classifier import AttentionModel
    from attnaudit.trace import Trace
    from attnaudit.training.loop import Epoch, StepCallback


def run(spec: RunSpec, out: str | Path, progress: Progress | None = None, corpus: Corpus | None = None) -> Path:
    """Train, collect, audit and report into the folder ``out``; returns it.

    ``corpus`` is what the spec names, where it has been read already.

    A run that was killed goes on where its last whole step or epoch ended, and ends with the same ``results/``. A finished run is
    left as it is. Raises InputError for bad input and RunError where ``out`` holds another run, is no empty folder, or is full.
    """
    with _prepared(spec, Path(out), progress or silent, corpus) as prepared:
        return prepared()


def train_into(
    spec: RunSpec, out: str | Path, progress: Progress | None = None, corpus: Corpus | None = None, teaches: bool = False
) -> Path:
    """The first half of `run`: train and collect into the folder ``out``, one that a study names; returns it.

    With ``teaches`` the folder ``teacher`` holds a trace of all splits too, for a training that takes it as given.
    """
    with _prepared(spec, Path(out), progress or silent, corpus, f"remove {out}: what it held is made again") as prepared:
        return prepared.train(teaches)


@contextlib.contextmanager
def _prepared(spec: RunSpec, out: Path, progress: Progress, corpus: Corpus | None, do: str = "") -> Iterator[_Run]:
    """The run with its corpus read, holding its place; ``do`` is said where that is another's."""
    from attnaudit.corpora import read_corpus
    from attnaudit.corpora.prepare.removal import without_words

    plain = spec.to_json()
    check_place(out, plain, do)
    device = resolve_device(spec.device)
    corpus = corpus or read_corpus(spec.corpus, seed=spec.seed, preset=spec.preset, progress=progress)
    if spec.corpus.removed is not None:
        corpus = without_words(corpus, spec.corpus.removed)
    plain["fingerprint"] = corpus.fingerprint
    if spec.teacher is not None:
        corpus, plain["fingerprint"] = _taught(corpus, spec.teacher)
    check_place(out, plain, do)
    with alone(out) as ledger:
        yield _Run(spec, plain, corpus, device, ledger, progress)


def _taught(corpus: Corpus, teacher: Teacher) -> tuple[Corpus, str]:
    """The corpus with what the teacher's trace says, and the fingerprint of the two together."""
    from attnaudit.corpora.prepare.taught import taught_by
    from attnaudit.trace import Trace

    place = Path(teacher.trace)
    taught = taught_by(corpus, Trace.read(place), teacher.column, str(place))
    return taught, content_key(corpus.fingerprint, trace_digests(place), teacher.column)


def resolve_device(device: str) -> str:
    """``auto`` is CUDA where it is there. Raises InputError for a device that is not."""
    import torch

    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    known = ["cpu", *(["cuda"] if torch.cuda.is_available() else []), *(f"cuda:{k}" for k in range(torch.cuda.device_count()))]
    if device not in known:
        raise InputError("run", "--device", repr(device), f"auto or one of {', '.join(known)} on this machine")
    return device


def weights_fingerprint(model: Module) -> str:
    """sha256 of a model's parameters by name, whatever file they lie in."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tuple(tensor.shape)} ".encode() + tensor.cpu().numpy().tobytes())
    return digest.hexdigest()


@dataclass(frozen=True)
class _Fitted:
    model: AttentionModel
    history: list[Epoch]
    vectors: str


@dataclass(frozen=True)
class _Run:
    """The steps of one run whose corpus is read and whose place is held."""

    spec: RunSpec
    plain: dict[str, Any]
    corpus: Corpus
    device: str
    ledger: Ledger
    progress: Progress

    def __call__(self) -> Path:
        out, experiments = self.ledger.out, self.spec.experiments
        self._collect(self._train())
        audit_step(self.ledger, out / "trace", Battery(list(experiments), experiments), self.progress)
        report_step(self.ledger, None, self.progress)
        self.ledger.close(self._manifest())
        return out

    def train(self, teaches: bool) -> Path:
        """Train and collect, and no more."""
        trained = self._train()
        self._collect(trained)
        if teaches:
            self._teach(trained)
        self.ledger.close(self._manifest())
        return self.ledger.out

    def _train(self) -> Record:
        vectors, spec = Path(self.spec.vectors), self.plain
        digest = sha256(vectors) if vectors.is_file() else None
        parts = {name: spec[name] for name in ("model", "training", "vectors", "preset", "seed")}
        if spec["objective"] is not None:
            parts["objective"] = spec["objective"]  # what a teacher says is in the fingerprint, wherever its trace lies
        if self.spec.probe is not None:
            parts |= {name: spec[name] for name in ("probe", "collect")}
        key = content_key("train", spec["fingerprint"], parts, digest, self.device)
        checkpoint = self.ledger.scratch / f"checkpoint-{key[:12]}"
        outputs = ("model",) if self.spec.probe is None else ("model", STEP_FOLDER)
        return self.ledger.step("train", key, outputs, lambda: self._fit(checkpoint), lambda fitted: self._save(fitted, checkpoint))

    def _fit(self, checkpoint: Path) -> _Fitted:
        from attnaudit.corpora import Vocabulary, word_vectors
        from attnaudit.models.classifier import build_model
        from attnaudit.training.loop import train

        spec, corpus = self.spec, self.corpus
        tokens = corpus.splits["train"].tokens
        questions = corpus.splits["train"].question or []
        tokens = [*tokens, *questions]
        vocabulary = Vocabulary.build(tokens, corpus.min_df)
        if not vocabulary.known:
            got = f"{corpus.min_df}: no word of train is in so many texts"
            raise InputError("read settings", "setting corpus.min_df", got, f"fewer than the {len(tokens)} texts there are")
        self.progress("make the word vectors", 0, 0)
        vectors = word_vectors(
            spec.vectors, vocabulary, tokens, dimension=spec.model.embedding, seed=spec.seed, missing=spec.model.unknown_vectors
        )
        has_question = corpus.task != "classification"
        model = build_model(spec.model, vocabulary, vectors.matrix, corpus.class_names, spec.seed, has_question)
        callback = self._watch(model, checkpoint)
        self._claim()
        history = train(
            model, corpus, spec.training, seed=spec.seed, device=self.device, checkpoint=checkpoint, progress=self.progress,
            objective=spec.objective, callback=callback,
        )  # fmt: skip
        return _Fitted(model, history, vectors.note)

    def _watch(self, model: AttentionModel, folder: Path) -> StepCallback | None:
        """Traces of the probe go beside the checkpoint that goes on from them."""
        from attnaudit.tracing.watch import watching

        if self.spec.probe is None:
            return None
        return watching(model, self.corpus.splits["test"], self.spec.probe, folder, self.spec.collect, self._origin(model))

    def _claim(self) -> None:
        """Make the folder this run's own, now that nothing in its input was refused."""
        if not (self.ledger.out / "spec.json").exists():
            write_json(self.ledger.out / "spec.json", self.plain)

    def _save(self, fitted: _Fitted, checkpoint: Path) -> dict[str, Any]:
        from attnaudit.models.classifier import save_model
        from attnaudit.training.loop import best_epoch

        save_model(fitted.model, self.ledger.out / "model")
        if self.spec.probe is not None:
            keep_steps(self.spec.probe, checkpoint, self.ledger.out)
        best = best_epoch(fitted.history)
        return {"history": [asdict(epoch) for epoch in fitted.history], "best_epoch": best.epoch, "vectors": fitted.vectors}

    def _collect(self, train: Record) -> Record:
        from attnaudit.trace import write_shards

        key = content_key("collect", self.plain["fingerprint"], train.files, self.plain["collect"], self.device)
        folder, settings = self.ledger.out / "trace", asdict(self.spec.collect)
        return self.ledger.step(
            "collect", key, ("trace",), lambda: self._shards(train, ["test"], settings),
            lambda shards: {"shards": len(write_shards(folder, shards))},
        )  # fmt: skip

    def _teach(self, train: Record) -> Record:
        from attnaudit.trace import write_shards

        key = content_key("teach", self.plain["fingerprint"], train.files, self.device)
        folder = self.ledger.out / TEACHER
        return self.ledger.step(
            "teach", key, (TEACHER,), lambda: self._shards(train, SPLITS, {"scores": ("gradient",)}),
            lambda shards: {"shards": len(write_shards(folder, shards))},
        )  # fmt: skip

    def _shards(self, train: Record, splits: Sequence[str], settings: Mapping[str, Any]) -> Iterator[Trace]:
        from attnaudit.models.classifier import load_model
        from attnaudit.tracing.texts import collect_shards

        model = load_model(self.ledger.out / "model").to(self.device)
        metadata = self._metadata(train, model)
        for name in splits:
            yield from collect_shards(model, self.corpus.splits[name], name, **settings, metadata=metadata, progress=self.progress)

    def _metadata(self, train: Record, model: AttentionModel) -> dict[str, Any]:
        """What a trace of the trained model tells of its origin."""
        origin = self._origin(model)
        return {
            **origin,
            "model": {**origin["model"], "fingerprint": weights_fingerprint(model)},
            "training": {**origin["training"], "best_epoch": train.notes["best_epoch"]},
            "notes": [train.notes["vectors"]],
        }

    def _origin(self, model: AttentionModel) -> dict[str, Any]:
        """What any trace tells of its origin: nothing in it depends on when, where or how fast it was made."""
        spec, corpus = self.plain, self.corpus
        settings = {name: value for name, value in spec["corpus"].items() if name not in ("source", "data_dir")}
        return {
            "corpus": {
                **settings, "name": corpus.name, "task": corpus.task, "fingerprint": corpus.fingerprint, "notes": list(corpus.notes),
            },
            "collect": spec["collect"],
            "model": {**asdict(model.settings), "preset": spec["preset"], "vectors": spec["vectors"]},
            "training": spec["training"],
            "seed": self.spec.seed,
            "versions": versions(),
        }  # fmt: skip

    def _manifest(self) -> dict[str, Any]:
        corpus, experiments = self.corpus, self.spec.experiments
        rows = {name: len(split.label) for name, split in corpus.splits.items()}
        return {
            **manifest(self.ledger),
            "kind": "run",
            "device": self.device,
            "seeds": {"run": self.spec.seed} | {name: values["seed"] for name, values in experiments.items() if "seed" in values},
            "corpus": {
                "name": corpus.name,
                "task": corpus.task,
                "fingerprint": corpus.fingerprint,
                "rows": rows,
                "class_names": list(corpus.class_names),
            },
            "notes": [*corpus.notes, self.ledger.records["train"].notes["vectors"]],
            "training": {name: self.ledger.records["train"].notes[name] for name in ("best_epoch", "history")},
            "skipped": [asdict(row) for row in corpus.skipped],
        }
