"""Classifiers of texts, with a question or without."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from attnaudit.core.errors import InputError
from attnaudit.core.files import content_key, sha256, write_json
from attnaudit.core.progress import Progress
from attnaudit.corpora.corpus import SPLITS
from attnaudit.plans.spec import RunSpec
from attnaudit.recipes.kind import Further, Job, Kind, Notes, corpus_seed
from attnaudit.steps.finished import trace_digests
from attnaudit.studies import STUDIES

if TYPE_CHECKING:
    from attnaudit.corpora import Corpus, Split
    from attnaudit.models.classifier import AttentionModel
    from attnaudit.trace import Trace
    from attnaudit.training.loop import Epoch

INTERVENTIONS = "interventions.json"  # how decisions change when planted words are replaced
TEACHER = "teacher"  # trace of all splits that a training takes as given from another


def _teach(job: Job, model: AttentionModel, origin: Mapping[str, Any], made: Path) -> Notes:
    """Trace all splits, with the gradient alone."""
    from attnaudit.trace import write_shards
    from attnaudit.tracing.texts import collect_shards

    traced = {"scores": ("gradient",), "metadata": origin, "progress": job.progress}
    shards = (
        shard
        for name in SPLITS
        for shard in collect_shards(model, job.corpus.splits[name], name, **traced)
    )
    return {"shards": len(write_shards(made / TEACHER, shards))}


def _intervene(job: Job, model: AttentionModel, origin: Mapping[str, Any], made: Path) -> Notes:
    """Predict the planted texts of test before and after words of them are replaced.

    No attention is looked at.
    """
    from attnaudit.corpora.prepare.planting import masked, reworded, swapped
    from attnaudit.stats.measures import predicted_class
    from attnaudit.training.texts import predict

    split = job.corpus.splits["test"]

    def decided(tokens: list[list[str]]) -> Any:
        return predicted_class(predict(model, model.inputs(replace(split, tokens=tokens))))

    own = decided(split.tokens)
    found = {
        "accuracy": (own == split.label).mean(),
        "accuracy_masked": (decided(masked(split)) == split.label).mean(),
        "changed_by_decisive": (decided(swapped(split)) != own).mean(),
        "changed_by_others": (decided(reworded(split)) != own).mean(),
    }
    write_json(made / INTERVENTIONS, {name: float(value) for name, value in found.items()})
    return {}


class Classifiers(Kind):
    """Kind of a `RunSpec`, which reads a `Corpus`."""

    name, needs, studies = "run", ("train",), STUDIES
    trained_by = ("model", "training", "vectors", "preset", "seed", "objective")
    further: ClassVar = {
        "teach": Further((TEACHER,), _teach),
        "intervene": Further((INTERVENTIONS,), _intervene),
    }

    def spec(self, source: str | Path, **options: Any) -> RunSpec:
        """Make a `RunSpec`."""
        return RunSpec.of(source, **options)

    def read(self, spec: RunSpec, progress: Progress) -> Corpus:
        """Read the corpus."""
        from attnaudit.corpora import read_corpus

        return read_corpus(spec.corpus, seed=spec.seed, preset=spec.preset, progress=progress)

    def prepare(self, spec: RunSpec, corpus: Corpus) -> tuple[Corpus, str]:
        """Plant words or remove them, and add what a teacher's trace says.

        With a teacher the fingerprint is that of the corpus and the trace together.
        """
        from attnaudit.corpora.prepare.derived import taught_by, without_words
        from attnaudit.corpora.prepare.planting import with_planted
        from attnaudit.trace import Trace

        if spec.corpus.planted is not None:
            corpus = with_planted(corpus, spec.corpus.planted, corpus_seed(spec))
        if spec.corpus.removed is not None:
            corpus = without_words(corpus, spec.corpus.removed)
        if spec.teacher is None:
            return corpus, corpus.fingerprint
        place = Path(spec.teacher.trace)
        taught = taught_by(corpus, Trace.read(place), spec.teacher.column, str(place))
        key = content_key(corpus.fingerprint, trace_digests(place), spec.teacher.column)
        return taught, key

    def read_by(self, job: Job) -> Sequence[Any]:
        """Return the digest of a file of word vectors."""
        vectors = Path(job.spec.vectors)
        return (sha256(vectors) if vectors.is_file() else None,)

    def build(self, job: Job) -> tuple[AttentionModel, Notes]:
        """Make the vocabulary, the word vectors and the model."""
        import torch

        from attnaudit.corpora import Vocabulary, word_vectors
        from attnaudit.models.attention import LogOdds
        from attnaudit.models.classifier import build_model
        from attnaudit.models.log_odds import word_log_odds

        spec, corpus = job.spec, job.corpus
        train = corpus.splits["train"]
        tokens = [*train.tokens, *(train.question or [])]
        vocabulary = Vocabulary.build(tokens, corpus.min_df)
        if not vocabulary.known:
            got = f"{corpus.min_df}: no word of train is in so many texts"
            expected = f"fewer than the {len(tokens)} texts there are"
            raise InputError("read settings", "setting corpus.min_df", got, expected)
        job.progress("make the word vectors", 0, 0)
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
            ids = vocabulary.ids(train.tokens)
            odds = word_log_odds(ids, train.label, len(vocabulary), len(names))
            model.attention.odds.copy_(torch.from_numpy(odds))
        return model, {"remarks": [vectors.note]}

    def fit(self, job: Job, model: AttentionModel, **options: Any) -> list[Epoch]:
        """Train the model in place."""
        from attnaudit.training.texts import train

        return train(model, job.corpus, job.spec.training, job.spec.objective, **options)

    def load(self, folder: Path, device: str) -> AttentionModel:
        """Load a saved model."""
        from attnaudit.models.classifier import load_model

        return load_model(folder).to(device)

    def described(self, job: Job, model: AttentionModel) -> dict[str, Any]:
        """Return sizes, preset and word vectors."""
        plain = {name: job.plain[name] for name in ("preset", "vectors")}
        return {**asdict(model.settings), **plain}

    def network(self, model: AttentionModel) -> AttentionModel:
        """Return the model, which is a torch module."""
        return model

    def traced(self, job: Job) -> Split:
        """Return the test split."""
        return job.corpus.splits["test"]

    def shards(
        self,
        job: Job,
        model: AttentionModel,
        rows: Split,
        origin: Mapping[str, Any],
        progress: Progress,
    ) -> Iterator[Trace]:
        """Trace rows with a model."""
        from attnaudit.tracing.texts import collect_shards

        settings = asdict(job.spec.collect)
        return collect_shards(model, rows, **settings, metadata=origin, progress=progress)


CLASSIFIERS = Classifiers()
