"""Small transformers trained here, each with a tokenizer of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from attnaudit.core.errors import InputError
from attnaudit.core.progress import Progress
from attnaudit.corpora.corpus import Corpus
from attnaudit.corpora.prepare.derived import marks, without_words
from attnaudit.corpora.read import read_corpus
from attnaudit.hf.choose import choose_layers
from attnaudit.hf.encode import encode, load_tokenizer, output_names
from attnaudit.hf.gate import check_model
from attnaudit.hf.load import load_pretrained
from attnaudit.hf.texts import Texts, texts_of
from attnaudit.hf.trace import collect_shards
from attnaudit.hf.train import (
    Network,
    as_corpus,
    build_transformer,
    marks_of,
    train_network,
    train_tokenizer,
)
from attnaudit.plans.transformer import OPERATION, TransformerTraining
from attnaudit.recipes.audit import Notes
from attnaudit.recipes.job import Trained
from attnaudit.trace import Trace
from attnaudit.training.loop import Epoch


@dataclass(frozen=True)
class Pretrained:
    """A model and its tokenizer, as they were saved."""

    model: Any
    tokenizer: Any


@dataclass(frozen=True, kw_only=True)
class SmallTransformer(Trained):
    """Training of a `TransformerTraining`, which reads a `Corpus` with its raw texts."""

    trained_by = ("config", "model", "training", "schedule", "uniform", "objective", "seed")

    @staticmethod
    def read(spec: TransformerTraining, progress: Progress) -> Corpus:
        """Read the corpus with the texts of its files.

        Raises:
            InputError: For rows that the model cannot read.
        """
        corpus = read_corpus(spec.corpus, seed=spec.seed, progress=progress, raw=True)
        if any(split.candidates is not None for split in corpus.splits.values()):
            got, expected = "rows that allow some of the answers", "texts with classes"
            raise InputError(OPERATION, corpus.name, got, f"{expected}, alone or in pairs")
        if spec.architecture.causal and corpus.task != "classification":
            got = "a text and a question in each row"
            where = f"{spec.config} on {corpus.name}"
            raise InputError(OPERATION, where, got, "texts alone")
        return corpus

    @staticmethod
    def prepare(spec: TransformerTraining, corpus: Corpus) -> tuple[Corpus, str]:
        """Remove words."""
        if spec.corpus.removed is not None:
            corpus = without_words(corpus, spec.corpus.removed)
        return corpus, corpus.fingerprint

    def build(self) -> tuple[Network, Notes]:
        """Learn the tokenizer from train and make the network."""
        spec, corpus = self.spec, self.corpus
        self.progress("learn the tokenizer", 0, 0)
        learned = texts_of(corpus).of_split("train")
        read = [*learned.text, *(learned.second or [])]
        tokenizer = train_tokenizer(read, spec.model, spec.architecture)
        model = build_transformer(
            spec.architecture,
            spec.model,
            len(tokenizer),
            corpus.class_names,
            spec.seed,
            spec.uniform,
        )
        network = Network(
            model,
            tokenizer,
            spec.architecture,
            spec.model.word_dropout,
            watched=spec.objective is not None,
        )
        pieces = self._pieces(network)  # refuses early what cannot be read
        return network, {"remarks": [note for note in pieces.notes if note not in corpus.notes]}

    def _pieces(self, network: Network) -> Corpus:
        """Cut the corpus as the network's tokenizer does.

        Raises:
            InputError: If an objective has nothing to be about.
        """
        texts, objective, longest = self._texts(), self.spec.objective, self.spec.model.length
        if self.spec.architecture.causal:
            longest -= 1  # then [EOS]
        words = objective and objective.words
        encoded = encode(network.model, network.tokenizer, texts, max_tokens=longest)
        pieces = as_corpus(texts, encoded, network.tokenizer, words)
        for name in ("train", "dev") if objective else ():
            if not any(map(any, marks(pieces.splits[name], "rationale", name))):
                source = f"words {', '.join(words)}" if words else "the rationale"
                where, do = f"impermissible tokens, {source}", "give deceive.words in lower case"
                got, expected = f"none in {name}", "some in train and in dev"
                raise InputError(OPERATION, where, got, expected, f"{do}, without punctuation")
        return pieces

    def _texts(self) -> Texts:
        """Return the texts; those whose next token is to be predicted without their class."""
        texts = texts_of(self.corpus)
        if not self.spec.architecture.causal:
            return texts
        return replace(texts, kind="causal-lm", label=None, class_names=(), spans=None)

    def fit(self, model: Network, **options: Any) -> list[Epoch]:
        """Train the network in place."""
        spec = self.spec
        # The words are marked as the rationale of the pieces.
        objective = spec.objective and replace(spec.objective, words=None)
        pieces = self._pieces(model)
        return train_network(model, pieces, spec.training, spec.schedule, objective, **options)

    def load(self) -> Pretrained:
        """Load the saved model with its tokenizer."""
        folder = self.out / "model"
        model: Any = load_pretrained(folder)
        return Pretrained(model.to(self.device), load_tokenizer(folder))

    def described(self, model: Network | Pretrained) -> dict[str, Any]:
        """Return the name of the configuration, the class and the sizes."""
        layers = {"uniform": list(self.spec.uniform)} if self.spec.uniform else {}
        named = {"name": self.spec.config, "class": type(model.model).__name__}
        return {**named, **self.plain["model"], **layers}

    @property
    def task(self) -> str:
        """Task of the model, which for next tokens is not that of the corpus."""
        return "language_modelling" if self.spec.architecture.causal else self.corpus.task

    @property
    def traced(self) -> Texts:
        """Texts of test."""
        return self.sample(self._texts().of_split("test"), self.spec.collect.sample)

    def shards(
        self,
        model: Network | Pretrained,
        rows: Texts,
        origin: Mapping[str, Any],
        folder: Path | None = None,
        part: np.ndarray | None = None,
    ) -> Iterator[Trace]:
        """Trace the last layer, with the impermissible pieces as the rationale."""
        network, tokenizer = model.model, model.tokenizer
        words = self.spec.objective and self.spec.objective.words
        gate = check_model(network)
        encoded = encode(network, tokenizer, rows, max_tokens=self.spec.model.length)
        if words:
            encoded = replace(encoded, rationale=list(marks_of(words, encoded)))
        yield from collect_shards(
            network,
            encoded,
            gate,
            choose_layers(gate),
            class_names=output_names(network, tokenizer, encoded.class_names),
            scores=self.spec.collect.scores,
            replacement=self.spec.replacement,
            part=part,
            metadata={**origin, "gate": gate.to_json()},
            progress=self.progress,
        )
