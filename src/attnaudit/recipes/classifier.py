"""Classifiers of texts, with a question or without."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from attnaudit.core import InputError, Progress, content_key, sha256, write_json
from attnaudit.corpora.corpus import SPLITS, Corpus, Split
from attnaudit.corpora.prepare.derived import taught_by
from attnaudit.corpora.prepare.vocabulary import Vocabulary, word_vectors
from attnaudit.corpora.read import read_corpus
from attnaudit.models.attention import LogOdds
from attnaudit.models.classifier import AttentionModel, build_model, load_model
from attnaudit.models.log_odds import word_log_odds
from attnaudit.plans.spec import RunSpec
from attnaudit.recipes.audit import Notes
from attnaudit.recipes.job import OWN_TOKEN, TEACHER, Trained, changed, corpus_seed
from attnaudit.steps import Folder, trace_digests
from attnaudit.trace import Trace, write_shards
from attnaudit.tracing.own_token import own_token
from attnaudit.tracing.texts import collect_shards
from attnaudit.training.loop import Epoch
from attnaudit.training.texts import predict, train


@dataclass(frozen=True, kw_only=True)
class Classifier(Trained):
    """Training of a `RunSpec`, which reads a `Corpus`."""

    trained_by = ("model", "training", "vectors", "preset", "seed", "objective")

    @staticmethod
    def read(spec: RunSpec, progress: Progress) -> Corpus:
        """Read the corpus."""
        return read_corpus(spec.corpus, seed=spec.seed, preset=spec.preset, progress=progress)

    @staticmethod
    def prepare(spec: RunSpec, corpus: Corpus) -> tuple[Corpus, str]:
        """Choose classes, plant words or remove them, and add what a teacher's trace says.

        With a teacher the fingerprint is that of the corpus and the trace together.
        """
        corpus = changed(spec, corpus)
        if spec.teacher is None:
            return corpus, corpus.fingerprint
        place, column = Path(spec.teacher.trace), spec.teacher.column
        taught = taught_by(corpus, Trace.read(place), column, str(place))
        return taught, content_key(corpus.fingerprint, trace_digests(place), column)

    @property
    def read_by(self) -> Sequence[Any]:
        """Digest of a file of word vectors."""
        vectors = Path(self.spec.vectors)
        return (sha256(vectors) if vectors.is_file() else None,)

    def build(self) -> tuple[AttentionModel, Notes]:
        """Make the vocabulary, the word vectors and the model."""
        spec, corpus = self.spec, self.corpus
        texts = corpus.splits["train"]
        tokens = [*texts.tokens, *(texts.question or [])]
        vocabulary = Vocabulary.build(tokens, corpus.min_df)
        if not vocabulary.known:
            got = f"{corpus.min_df}: no word of train is in so many texts"
            expected = f"fewer than the {len(tokens)} texts there are"
            raise InputError("read settings", "setting corpus.min_df", got, expected)
        self.progress("make the word vectors", 0, 0)
        vectors = word_vectors(
            spec.vectors,
            vocabulary,
            tokens,
            dimension=spec.model.embedding,
            seed=spec.seed,
            missing=spec.model.unknown_vectors,
        )
        names, asks = corpus.class_names, corpus.task != "classification"
        model = build_model(spec.model, vocabulary, vectors.matrix, names, spec.seed, asks)
        if isinstance(model.attention, LogOdds):
            ids = vocabulary.ids(texts.tokens)
            odds, held = model.attention.odds, (len(vocabulary), len(names))
            odds.copy_(odds.new_tensor(word_log_odds(ids, texts.label, *held)))
        return model, {"remarks": [vectors.note]}

    def fit(self, model: AttentionModel, **options: Any) -> list[Epoch]:
        """Train the model in place."""
        epochs = train(model, self.corpus, self.spec.training, self.spec.objective, **options)
        for parameter in model.head.output.parameters():
            parameter.data *= model.settings.confidence
        return epochs

    def load(self) -> AttentionModel:
        """Load the saved model."""
        return load_model(self.out / "model").to(self.device)

    def described(self, model: AttentionModel) -> dict[str, Any]:
        """Return sizes, preset and word vectors."""
        plain = {name: self.plain[name] for name in ("preset", "vectors")}
        return {**asdict(model.settings), **plain}

    @staticmethod
    def network(model: AttentionModel) -> AttentionModel:
        """Return the model, which is a torch module."""
        return model

    @property
    def traced(self) -> Split:
        """The test split."""
        return self.corpus.splits["test"]

    def shards(
        self,
        model: AttentionModel,
        rows: Split,
        origin: Mapping[str, Any],
        folder: Path | None = None,
        part: np.ndarray | None = None,
    ) -> Iterator[Trace]:
        """Trace rows with a model."""
        settings = asdict(self.spec.collect)
        settings |= {"replacement": self.spec.replacement, "part": part}
        return collect_shards(model, rows, **settings, metadata=origin, progress=self.progress)

    def teach(self, model: AttentionModel, folder: Folder, made: Path) -> Notes:
        """Trace all splits, with the gradient alone."""
        origin = self.origin(model, folder)
        traced = {"scores": ("gradient",), "metadata": origin, "progress": self.progress}
        shards = (
            shard
            for name in SPLITS
            for shard in collect_shards(model, self.corpus.splits[name], name, **traced)
        )
        return {"shards": len(write_shards(made / TEACHER, shards))}

    def predicted(self, model: AttentionModel, split: Split) -> np.ndarray:
        """Predict texts."""
        return predict(model, model.inputs(split))

    def attribute(self, model: AttentionModel, folder: Folder, made: Path) -> Notes:
        """Estimate how much of a state its own word accounts for, in some test texts."""
        write_json(made / OWN_TOKEN, own_token(model, self.traced, corpus_seed(self.spec)))
        return {}
