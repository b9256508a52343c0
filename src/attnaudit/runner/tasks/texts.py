"""Classifiers of texts, with a question or without."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnaudit.core.errors import InputError
from attnaudit.core.files import content_key, sha256, write_json
from attnaudit.core.progress import Progress
from attnaudit.corpora.corpus import SPLITS
from attnaudit.plans.spec import RunSpec
from attnaudit.runner.store import trace_digests
from attnaudit.runner.tasks.task import Job, Notes, Step, Task
from attnaudit.studies import STUDIES

if TYPE_CHECKING:
    from attnaudit.corpora import Corpus, Split
    from attnaudit.models.classifier import AttentionModel
    from attnaudit.trace import Trace
    from attnaudit.training.loop import Epoch

INTERVENTIONS = (
    "interventions.json"  # how decisions change when words of planted texts are replaced
)
TEACHER = "teacher"  # the trace of all splits that a training takes as given from another


def _teach(job: Job, model: AttentionModel, origin: Mapping[str, Any], folder: Path) -> Notes:
    """The trace of all splits, with the gradient alone."""
    from attnaudit.trace import write_shards
    from attnaudit.tracing.texts import collect_shards

    traced = {"scores": ("gradient",), "metadata": origin, "progress": job.progress}
    shards = (
        shard
        for name in SPLITS
        for shard in collect_shards(model, job.corpus.splits[name], name, **traced)
    )
    return {"shards": len(write_shards(folder / TEACHER, shards))}


def _intervene(job: Job, model: AttentionModel, origin: Mapping[str, Any], folder: Path) -> Notes:
    """What the model predicts of the planted texts of test, and after words of them are replaced: no attention is looked at."""
    from attnaudit.corpora.prepare.planting import masked, reworded, swapped
    from attnaudit.stats.measures import predicted_class
    from attnaudit.training.texts import predict

    split = job.corpus.splits["test"]

    def decided(tokens: list[list[str]]) -> Any:
        return predicted_class(predict(model, model.inputs(replace(split, tokens=tokens))))

    own = decided(split.tokens)
    found = {
        "accuracy": (own == split.label).mean(), "accuracy_masked": (decided(masked(split)) == split.label).mean(),
        "changed_by_decisive": (decided(swapped(split)) != own).mean(), "changed_by_others": (decided(reworded(split)) != own).mean(),
    }  # fmt: skip
    write_json(folder / INTERVENTIONS, {name: float(value) for name, value in found.items()})
    return {}


def _read(spec: RunSpec, progress: Progress) -> Corpus:
    from attnaudit.corpora import read_corpus

    return read_corpus(spec.corpus, seed=spec.seed, preset=spec.preset, progress=progress)


def _prepare(spec: RunSpec, corpus: Corpus) -> tuple[Corpus, str]:
    """Words planted or removed, and what a teacher's trace says; the fingerprint is then that of the corpus and the trace together."""
    from attnaudit.corpora.prepare.derived import taught_by, without_words
    from attnaudit.corpora.prepare.planting import with_planted
    from attnaudit.trace import Trace

    if spec.corpus.planted is not None:
        corpus = with_planted(
            corpus, spec.corpus.planted, spec.seed if spec.corpus.seed is None else spec.corpus.seed
        )
    if spec.corpus.removed is not None:
        corpus = without_words(corpus, spec.corpus.removed)
    if spec.teacher is None:
        return corpus, corpus.fingerprint
    place = Path(spec.teacher.trace)
    taught = taught_by(corpus, Trace.read(place), spec.teacher.column, str(place))
    return taught, content_key(corpus.fingerprint, trace_digests(place), spec.teacher.column)


def _training_key(job: Job) -> Sequence[Any]:
    vectors, plain = Path(job.spec.vectors), job.plain
    digest = sha256(vectors) if vectors.is_file() else None
    parts = {name: plain[name] for name in ("model", "training", "vectors", "preset", "seed")}
    if plain["objective"] is not None:
        parts["objective"] = plain[
            "objective"
        ]  # what a teacher says is in the fingerprint, wherever its trace lies
    if job.spec.probe is not None:
        parts |= {name: plain[name] for name in ("probe", "collect")}
    return parts, digest


def _build(job: Job) -> tuple[AttentionModel, Notes]:
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
        raise InputError(
            "read settings",
            "setting corpus.min_df",
            got,
            f"fewer than the {len(tokens)} texts there are",
        )
    job.progress("make the word vectors", 0, 0)
    vectors = word_vectors(
        spec.vectors,
        vocabulary,
        tokens,
        dimension=spec.model.embedding,
        seed=spec.seed,
        missing=spec.model.unknown_vectors,
    )
    has_question = corpus.task != "classification"
    model = build_model(
        spec.model, vocabulary, vectors.matrix, corpus.class_names, spec.seed, has_question
    )
    if isinstance(model.attention, LogOdds):
        odds = word_log_odds(
            vocabulary.ids(train.tokens), train.label, len(vocabulary), len(corpus.class_names)
        )
        model.attention.odds.copy_(torch.from_numpy(odds))
    return model, {"vectors": vectors.note}


def _shards(
    job: Job, model: AttentionModel, rows: Split, origin: Mapping[str, Any], progress: Progress
) -> Iterator[Trace]:
    from attnaudit.tracing.texts import collect_shards

    return collect_shards(
        model, rows, **asdict(job.spec.collect), metadata=origin, progress=progress
    )


def _fit(job: Job, model: AttentionModel, **options: Any) -> list[Epoch]:
    from attnaudit.training.texts import train

    return train(model, job.corpus, job.spec.training, job.spec.objective, **options)


def _load(folder: Path, device: str) -> AttentionModel:
    from attnaudit.models.classifier import load_model

    return load_model(folder).to(device)


def _facts(job: Job) -> dict[str, dict[str, Any]]:
    seeds = {
        name: values["seed"] for name, values in job.spec.experiments.items() if "seed" in values
    }
    return {"seeds": seeds, "corpus": {"class_names": list(job.corpus.class_names)}}


TEXTS = Task(  # of a `RunSpec` and a `Corpus`
    kind="run", needs=("train",), studies=STUDIES, spec=RunSpec.of, read=_read, prepare=_prepare, build=_build, fit=_fit,
    training_key=_training_key, load=_load, network=lambda model: model, traced=lambda job: job.corpus.splits["test"], shards=_shards,
    described=lambda job, model: {**asdict(model.settings), "preset": job.plain["preset"], "vectors": job.plain["vectors"]},
    facts=_facts, remarks=lambda notes: [notes["vectors"]], with_remarks=lambda origin, remarks: {**origin, "notes": list(remarks)},
    audit_key=lambda job: (list(job.spec.experiments), job.spec.experiments, False), rows=lambda job, folder, audited: audited,
    collect_key=lambda job: (job.plain["collect"],), steps={
        "teach": Step((TEACHER,), lambda job: (), _teach), "intervene": Step((INTERVENTIONS,), lambda job: (), _intervene),
    },
)  # fmt: skip
