"""A transformer trained into a folder, as `save_pretrained` writes it, so that any program of the transformers library reads it.

DIR/config.json, model.safetensors, tokenizer.json, tokenizer_config.json
DIR/training.json       settings, seed, corpus with its fingerprint, every epoch, scores on dev and test, versions, seconds
DIR/spec.json           every setting, resolved, and the fingerprint of the corpus
DIR/manifest.json       written last, as of a run
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnaudit.core.extras import require
from attnaudit.core.files import content_key, read_json, write_json, write_with_digest
from attnaudit.core.numbers import count
from attnaudit.core.progress import Progress, silent
from attnaudit.plans.transformer import TransformerTraining
from attnaudit.runner.planning import Plan, Planned, epochs_done, recorded_seconds
from attnaudit.runner.store import Store, alone, check_place, versions
from attnaudit.runner.tasks.transformers import (
    OPERATION,
    build_network,
    fit_network,
    pieces_of,
    read_raw,
)
from attnaudit.runner.timing import DEV, timed_steps

if TYPE_CHECKING:
    from attnaudit.corpora import Corpus

TRAINING = "training.json"
SAVED = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")
GENERATION = "generation_config.json"  # of a model that writes texts


def train_transformer(
    spec: TransformerTraining, out: str | Path, progress: Progress | None = None
) -> Path:
    """Train the transformer of ``spec`` on its corpus into the folder ``out``; returns it.

    The tokenizer is learned from the train split, the epoch selected on dev; the same spec gives the same bytes of weights and tokenizer.
    An interrupted training resumes after its last epoch with the same result, a finished one is left as it is. Raises InputError for bad
    input and RunError where ``out`` holds something else, or is full.
    """
    out = Path(out)
    training = _prepared(spec, out, progress or silent)
    from attnaudit.training.loop import (
        torch_threads,
    )  # here because it imports torch, when nothing in the input was refused

    with alone(out) as store, torch_threads(spec.training.threads):
        outputs = (*SAVED, TRAINING, *([GENERATION] if spec.architecture.causal else []))
        store.step("train", training.key, outputs, lambda folder: training.into(store, folder))
        store.close(
            {
                "kind": spec.kind,
                "notes": list(training.corpus.notes),
                "versions": versions("transformers", "tokenizers"),
            }
        )
    return out


def plan_transformer(
    spec: TransformerTraining, out: str | Path, progress: Progress | None = None
) -> Plan:
    """The plan of `train_transformer` with the same arguments. Raises what that raises before it trains."""
    out, progress = Path(out), progress or silent
    training = _prepared(spec, out, progress)
    length = count(spec.training.epochs, "epoch")
    if (seconds := recorded_seconds(out)) is not None:
        return Plan(
            (Planned(spec.name, str(out), "finished", length, seconds=seconds, source="recorded"),)
        )
    done = epochs_done(out)
    progress("time a few seconds", 0, 0)
    left = max(1 - done / spec.training.epochs, 0.0) * training.estimate()
    state = "unfinished" if (out / "spec.json").exists() else "missing"
    return Plan((Planned(spec.name, str(out), state, length, done, left, "timed"),))


def read_training(folder: Path) -> dict[str, Any]:
    """What ``training.json`` of a folder says. Raises RunError."""
    return read_json(folder / TRAINING)


def _prepared(spec: TransformerTraining, out: Path, progress: Progress) -> _Training:
    """The training with its corpus read, where the place is its own or free."""
    for extra in ("train", "hf"):
        require(extra, OPERATION)
    check_place(out, spec.to_json())
    corpus = read_raw(spec, progress)
    plain = {**spec.to_json(), "fingerprint": corpus.fingerprint}
    check_place(out, plain)
    return _Training(spec, plain, corpus, progress)


@dataclass(frozen=True)
class _Training:
    """A training whose corpus is read; ``plain`` is what its ``spec.json`` says."""

    spec: TransformerTraining
    plain: Mapping[str, Any]
    corpus: Corpus
    progress: Progress

    @property
    def key(self) -> str:
        parts = (
            "fingerprint",
            "config",
            "model",
            "training",
            "schedule",
            "uniform",
            "objective",
            "seed",
        )
        return content_key("train", *(self.plain[name] for name in parts))

    def into(self, store: Store, folder: Path) -> dict[str, Any]:
        """Train, and save into ``folder``; returns what the manifest keeps."""
        from attnaudit.hf.train import measured
        from attnaudit.training.loop import best_epoch

        started = time.perf_counter()
        network = build_network(self.spec, self.corpus, self.progress)
        pieces = pieces_of(self.spec, network, self.corpus)
        if not (
            store.out / "spec.json"
        ).exists():  # the folder is this training's own, now that nothing in its input was refused
            write_with_digest(store.out / "spec.json", self.plain)
        checkpoint = store.scratch / f"checkpoint-{self.key[:12]}"
        history = fit_network(
            self.spec, network, pieces, checkpoint=checkpoint, progress=self.progress
        )
        scores = {name: measured(network, pieces.splits[name]) for name in ("dev", "test")}
        network.save(folder)
        notes = {
            "history": [asdict(epoch) for epoch in history],
            "best_epoch": best_epoch(history).epoch,
            "scores": scores,
        }
        write_json(
            folder / TRAINING,
            self._described(pieces) | notes | {"seconds": round(time.perf_counter() - started, 3)},
        )
        return notes

    def estimate(self) -> float:
        """Seconds of the whole training, from a few of it."""
        network = build_network(self.spec, self.corpus, self.progress)
        pieces = pieces_of(self.spec, network, self.corpus)
        steps = timed_steps(
            lambda progress: fit_network(self.spec, network, pieces, progress=progress)
        )
        return (
            steps.each
            * steps.total
            * (1 + DEV * len(pieces.splits["dev"]) / len(pieces.splits["train"]))
        )

    def _described(self, pieces: Corpus) -> dict[str, Any]:
        corpus = self.corpus
        return {
            **{name: value for name, value in self.plain.items() if name not in ("corpus", "fingerprint")},
            "corpus": {
                **self.plain["corpus"], "name": corpus.name, "task": corpus.task, "class_names": list(corpus.class_names),
                "fingerprint": corpus.fingerprint, "rows": {name: len(split) for name, split in corpus.splits.items()},
                "notes": list(pieces.notes),
            },
            "versions": versions("tokenizers", "transformers"),
        }  # fmt: skip
