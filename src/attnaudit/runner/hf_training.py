"""A transformer trained into a folder, as `save_pretrained` writes it, so that any program of the transformers library reads it.

DIR/config.json, model.safetensors, tokenizer.json, tokenizer_config.json
DIR/training.json       settings, seed, corpus with its fingerprint, every epoch, scores on dev and test, versions, seconds
DIR/spec.json           every setting, resolved, and the fingerprint of the corpus
DIR/manifest.json       written last, as of a run
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnaudit.core.errors import InputError
from attnaudit.core.extras import require
from attnaudit.core.files import content_key, read_json, unwritable, write_json, write_with_digest
from attnaudit.core.progress import Progress, silent
from attnaudit.plans.transformer import TransformerTraining
from attnaudit.runner.planning import Plan, Planned, epochs_done, recorded_seconds
from attnaudit.runner.store import Store, alone, check_place, versions
from attnaudit.runner.timing import DEV, timed_steps

if TYPE_CHECKING:
    from attnaudit.corpora import Corpus
    from attnaudit.hf.trainable import Network
    from attnaudit.training.loop import Epoch

TRAINING = "training.json"
SAVED = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")
GENERATION = "generation_config.json"  # of a model that writes texts
OPERATION = "train transformer"


def train_transformer(spec: TransformerTraining, out: str | Path, progress: Progress | None = None) -> Path:
    """Train the transformer of ``spec`` on its corpus into the folder ``out``; returns it.

    The tokenizer is learned from the train split, the epoch selected on dev; the same spec gives the same bytes of weights and tokenizer.
    An interrupted training resumes after its last epoch with the same result, a finished one is left as it is. Raises InputError for bad
    input and RunError where ``out`` holds something else, or is full.
    """
    out = Path(out)
    training = _prepared(spec, out, progress or silent)
    from attnaudit.training.loop import threads_an_operation  # here because it imports torch, when nothing in the input was refused

    with alone(out) as store, threads_an_operation(spec.training.threads):
        outputs = (*SAVED, TRAINING, *([GENERATION] if spec.architecture.causal else []))
        store.step("train", training.key, outputs, lambda folder: training.into(store, folder))
        store.close({"kind": spec.kind, "notes": list(training.corpus.notes)})
    return out


def plan_transformer(spec: TransformerTraining, out: str | Path, progress: Progress | None = None) -> Plan:
    """The plan of `train_transformer` with the same arguments. Raises what that raises before it trains."""
    out, progress = Path(out), progress or silent
    training = _prepared(spec, out, progress)
    length = f"{spec.training.epochs} epochs"
    if (seconds := recorded_seconds(out)) is not None:
        return Plan((Planned(spec.name, str(out), "finished", length, seconds=seconds, source="recorded"),))
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
    from attnaudit.corpora import read_corpus

    corpus = read_corpus(spec.corpus, seed=spec.seed, progress=progress, raw=True)
    _check_kind(spec, corpus)
    plain = {**spec.to_json(), "fingerprint": corpus.fingerprint}
    check_place(out, plain)
    return _Training(spec, plain, corpus, progress)


def _check_kind(spec: TransformerTraining, corpus: Corpus) -> None:
    """Raise InputError for rows that the model cannot read."""
    if any(split.candidates is not None for split in corpus.splits.values()):
        raise InputError(OPERATION, corpus.name, "rows that allow some of the answers", "texts with classes, alone or in pairs")
    if spec.architecture.causal and corpus.task != "classification":
        raise InputError(OPERATION, f"{spec.config} on {corpus.name}", "a text and a question in each row", "texts alone")


def _check_marks(pieces: Corpus, words: tuple[str, ...] | None) -> None:
    """Raise InputError where no text has an impermissible piece, or one has no rationale."""
    from attnaudit.corpora.prepare.derived import marks

    for name in ("train", "dev"):
        if not any(map(any, marks(pieces.splits[name], "rationale", name))):
            source = f"words {', '.join(words)}" if words else "the rationale"
            do = "give deceive.words in lower case, without punctuation"
            raise InputError(OPERATION, f"impermissible tokens, {source}", f"none in {name}", "some in train and in dev", do)


@dataclass(frozen=True)
class _Training:
    """A training whose corpus is read; ``plain`` is what its ``spec.json`` says."""

    spec: TransformerTraining
    plain: Mapping[str, Any]
    corpus: Corpus
    progress: Progress

    @property
    def key(self) -> str:
        parts = ("fingerprint", "config", "model", "training", "schedule", "uniform", "objective", "seed")
        return content_key("train", *(self.plain[name] for name in parts))

    def into(self, store: Store, folder: Path) -> dict[str, Any]:
        """Train, and save into ``folder``; returns what the manifest keeps."""
        from attnaudit.hf.train import measured
        from attnaudit.training.loop import best_epoch

        started = time.perf_counter()
        network, pieces = self._built()
        if not (store.out / "spec.json").exists():  # the folder is this training's own, now that nothing in its input was refused
            write_with_digest(store.out / "spec.json", self.plain)
        history = self._fit(network, pieces, checkpoint=store.scratch / f"checkpoint-{self.key[:12]}", progress=self.progress)
        scores = {name: measured(network, pieces.splits[name]) for name in ("dev", "test")}
        _save(network, folder)
        notes = {"history": [asdict(epoch) for epoch in history], "best_epoch": best_epoch(history).epoch, "scores": scores}
        write_json(folder / TRAINING, self._described(pieces) | notes | {"seconds": round(time.perf_counter() - started, 3)})
        return notes

    def estimate(self) -> float:
        """Seconds of the whole training, from a few of it."""
        network, pieces = self._built()
        steps = timed_steps(lambda progress: self._fit(network, pieces, progress=progress))
        return steps.each * steps.total * (1 + DEV * len(pieces.splits["dev"]) / len(pieces.splits["train"]))

    def _built(self) -> tuple[Network, Corpus]:
        """The network before it is trained, and the corpus as its tokenizer cuts it. Raises InputError."""
        from attnaudit.hf.encode import encode
        from attnaudit.hf.texts import texts_of
        from attnaudit.hf.tokenizer import as_corpus, train_tokenizer
        from attnaudit.hf.trainable import Network, build_transformer

        spec, architecture = self.spec, self.spec.architecture
        self.progress("learn the tokenizer", 0, 0)
        texts = texts_of(self.corpus)
        learned = texts.of_split("train")
        tokenizer = train_tokenizer([*learned.text, *(learned.second or [])], spec.model, architecture)
        model = build_transformer(architecture, spec.model, len(tokenizer), self.corpus.class_names, spec.seed, spec.uniform)
        network = Network(model, tokenizer, architecture, spec.model.word_dropout, watched=spec.objective is not None)
        if architecture.causal:
            texts, longest = replace(texts, kind="causal-lm", label=None, class_names=(), spans=None), spec.model.length - 1  # then [EOS]
        else:
            longest = spec.model.length
        words = None if spec.objective is None else spec.objective.words
        pieces = as_corpus(texts, encode(model, tokenizer, texts, max_tokens=longest), tokenizer, words)
        if spec.objective is not None:
            _check_marks(pieces, words)
        return network, pieces

    def _fit(self, network: Network, pieces: Corpus, **options: Any) -> list[Epoch]:
        from attnaudit.hf.train import train_network

        spec = self.spec
        objective = None if spec.objective is None else replace(spec.objective, words=None)  # marked as the rationale of the pieces
        return train_network(network, pieces, spec.training, spec.schedule, objective, seed=spec.seed, **options)

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


def _save(network: Network, folder: Path) -> None:
    """Model and tokenizer as transformers saves them. Raises RunError where the place cannot be written."""
    from safetensors import SafetensorError
    from transformers import logging

    logging.disable_progress_bar()
    try:
        network.model.save_pretrained(folder)
        network.tokenizer.save_pretrained(folder)
    except (OSError, SafetensorError) as error:
        raise unwritable(folder, error) from error
    finally:
        logging.enable_progress_bar()
