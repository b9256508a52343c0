"""Transformers trained here: small ones with their own tokenizers, and pretrained ones."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from attnaudit.core import InputError, Progress
from attnaudit.core.ragged import Ragged
from attnaudit.corpora.corpus import Corpus, Split
from attnaudit.corpora.prepare.derived import marks
from attnaudit.corpora.read import read_corpus
from attnaudit.hf.choose import choose_layers
from attnaudit.hf.encode import encode, load_tokenizer, output_names
from attnaudit.hf.encoded import Encoded
from attnaudit.hf.gate import check_model
from attnaudit.hf.importance import defined_measures, heads_of_text, require_heatmap
from attnaudit.hf.load import config_to_tune, load_pretrained, load_to_tune
from attnaudit.hf.texts import Texts, texts_of
from attnaudit.hf.trace import collect_shards
from attnaudit.hf.train import (
    Network,
    Tuned,
    adamw,
    as_corpus,
    build_transformer,
    marks_of,
    train_network,
    train_tokenizer,
)
from attnaudit.plans.transformer import OPERATION, FineTuning, TransformerTraining
from attnaudit.recipes.audit import Notes
from attnaudit.recipes.job import Trained, changed
from attnaudit.trace import Trace
from attnaudit.training.loop import Epoch
from attnaudit.training.settings import Deceive, Guided
from attnaudit.training.texts import predict, train


@dataclass(frozen=True, kw_only=True)
class SmallTransformer(Trained):
    """Training of a `TransformerTraining`, which reads a `Corpus` with its raw texts."""

    trained_by = ("config", "model", "training", "schedule", "uniform", "objective", "seed")

    @staticmethod
    def read(spec: TransformerTraining | FineTuning, progress: Progress) -> Corpus:
        """Read the corpus with the texts of its files.

        Raises:
            InputError: For rows that the model cannot read.
        """
        heads = None  # of a pretrained model, which is read later
        if isinstance(spec, TransformerTraining):
            heads = dict.fromkeys(range(spec.model.layers), spec.model.heads)
        require_heatmap(spec.collect.heatmap, heads)
        corpus = read_corpus(spec.corpus, seed=spec.seed, progress=progress, raw=True)
        if any(split.candidates is not None for split in corpus.splits.values()):
            got, expected = "rows that allow some of the answers", "texts with classes"
            raise InputError(OPERATION, corpus.name, got, f"{expected}, alone or in pairs")
        if spec.causal and corpus.task != "classification":
            got = "a text and a question in each row"
            raise InputError(OPERATION, f"{spec.config} on {corpus.name}", got, "texts alone")
        return corpus

    @staticmethod
    def prepare(spec: TransformerTraining, corpus: Corpus) -> tuple[Corpus, str]:
        """Choose classes, plant words, or remove them."""
        corpus = changed(spec, corpus)
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
        defined_measures(model, (), spec.collect.heatmap)
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
        if self.spec.causal:
            longest -= 1  # then [EOS]
        words = _words(objective)
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
        if not self.spec.causal:
            return texts
        return replace(texts, kind="causal-lm", label=None, class_names=(), spans=None)

    def _encoded(self, network: Tuned, texts: Texts) -> Encoded:
        return encode(network.model, network.tokenizer, texts, max_tokens=self.spec.model.length)

    def fit(self, model: Network, **options: Any) -> list[Epoch]:
        """Train the network in place."""
        spec, pieces = self.spec, self._pieces(model)
        objective = _on_marks(spec.objective)
        return train_network(model, pieces, spec.training, spec.schedule, objective, **options)

    def load(self) -> Tuned:
        """Load the saved model with its tokenizer."""
        folder = self.out / "model"
        model: Any = load_pretrained(folder)
        return Tuned(model.to(self.device), load_tokenizer(folder))

    def described(self, model: Tuned) -> dict[str, Any]:
        """Return the name of the configuration, the class and the sizes."""
        uniform = getattr(self.spec, "uniform", ())
        layers = {"uniform": list(uniform)} if uniform else {}
        named = {"name": self.spec.config, "class": type(model.model).__name__}
        return {**named, **self.plain["model"], **layers}

    @property
    def task(self) -> str:
        """Task of the model, which for next tokens is not that of the corpus."""
        return "language_modelling" if self.spec.causal else self.corpus.task

    @property
    def traced(self) -> Texts:
        """Texts of test."""
        return self.sample(self._texts().of_split("test"), self.spec.collect.sample)

    def shards(
        self,
        model: Tuned,
        rows: Texts,
        origin: Mapping[str, Any],
        folder: Path | None = None,
        part: np.ndarray | None = None,
    ) -> Iterator[Trace]:
        """Trace the last layer, with the impermissible pieces as the rationale."""
        network, tokenizer, objective = model.model, model.tokenizer, self.spec.objective
        words = objective.words if isinstance(objective, Deceive) else None
        gate = check_model(network)
        encoded = self._encoded(model, rows)
        if words:
            encoded = replace(encoded, rationale=list(marks_of(words, encoded)))
        yield from collect_shards(
            network,
            encoded,
            gate,
            choose_layers(gate),
            class_names=output_names(network, tokenizer, encoded.class_names),
            scores=self.spec.collect.scores,
            heatmap=self.spec.collect.heatmap,
            replacement=self.spec.replacement,
            part=part,
            metadata={**origin, "gate": gate.to_json()},
            progress=self.progress,
        )

    def predicted(self, model: Tuned, split: Split) -> np.ndarray:
        """Predict texts of the test split."""
        corpus = replace(self.corpus, splits={**self.corpus.splits, "test": split})
        encoded = self._encoded(model, texts_of(corpus).of_split("test"))
        return predict(model, model.inputs(encoded))


def _words(objective: Deceive | Guided | None) -> tuple[str, ...] | None:
    """Return the words that an objective names; None for those of the rationale."""
    return (objective and objective.words) or None


def _on_marks(objective: Deceive | Guided | None) -> Deceive | Guided | None:
    """Return an objective about the pieces that are marked, as those of the rationale."""
    if isinstance(objective, Guided):
        target = "rationale" if objective.target == "words" else objective.target
        return replace(objective, target=target, words=())
    return objective and replace(objective, words=None)


@dataclass(frozen=True, kw_only=True)
class FineTuned(SmallTransformer):
    """Training of a `FineTuning`, which reads a `Corpus` with its raw texts."""

    trained_by = ("model", "training", "schedule", "objective", "seed")

    @staticmethod
    def read(spec: FineTuning, progress: Progress) -> Corpus:
        """Read the corpus for a model that can learn its classes.

        Raises:
            InputError: The model cannot learn them, or not read the rows.
        """
        config_to_tune(Path(spec.folder))
        corpus = SmallTransformer.read(spec, progress)
        config_to_tune(Path(spec.folder), corpus.class_names)
        return corpus

    def build(self) -> tuple[Tuned, Notes]:
        """Load the model, give it a head, and check that its attention can be audited."""
        spec, corpus, folder = self.spec, self.corpus, Path(self.spec.folder)
        self.progress("read the pretrained model", 0, 0)
        model: Any = load_to_tune(folder, corpus.class_names, spec.seed)
        tokenizer = load_tokenizer(folder)
        if model.config.pad_token_id is None:  # decoders read the last token before padding
            if tokenizer.pad_token_id is None:
                do = "set tokenizer.pad_token, and tokenizer.save_pretrained(DIR)"
                raise InputError(OPERATION, str(folder), "no padding token", "one", do)
            model.config.pad_token_id = tokenizer.pad_token_id
        gate = check_model(model)
        choose_layers(gate)
        require_heatmap(spec.collect.heatmap, heads_of_text(gate))
        defined_measures(model, (), spec.collect.heatmap)
        network = Tuned(model, tokenizer, watched=spec.objective is not None)
        encoded = self._encoded(network, self._texts())
        if network.watched and not _are_ends(encoded.special):
            expected = "one before each text and one behind it"
            raise InputError(OPERATION, f"objective for {folder}", "other special tokens", expected)
        return network, {"remarks": list(encoded.notes)}

    def fit(self, model: Tuned, **options: Any) -> list[Epoch]:
        """Train the model in place."""
        texts, spec = self._texts(), self.spec
        splits = {name: self._encoded(model, texts.of_split(name)) for name in ("train", "dev")}
        if spec.objective is not None:
            words = _words(spec.objective)
            splits = {name: marked_inside(one, words) for name, one in splits.items()}
        corpus: Any = replace(self.corpus, splits=splits)
        options |= {"optimizer": adamw, "share": spec.schedule.share}
        return train(model, corpus, spec.training, _on_marks(spec.objective), **options)


def _are_ends(special: Ragged) -> bool:
    """Return whether exactly the first and the last token of every text are special."""
    ends = (special.places == 0) | (special.places == special.spread(special.lengths) - 1)
    return bool((special.values == ends).all())


def marked_inside(encoded: Encoded, words: tuple[str, ...] | None) -> Encoded:
    """Return tokens and marks as an objective reads them: without the special tokens."""
    marked = encoded.rationale if words is None else marks_of(words, encoded)
    tokens, rationale = ([row[1:-1] for row in rows] for rows in (encoded.tokens, marked or ()))
    return replace(encoded, tokens=tokens, rationale=rationale)
