"""Small transformers trained here, each with a tokenizer of its own: in studies, and what `attnaudit hf train` shares with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnaudit.core.errors import InputError
from attnaudit.core.progress import Progress
from attnaudit.corpora.spec import CorpusSpec
from attnaudit.plans.transformer import OF_WORDS, TransformerCollect, TransformerTraining
from attnaudit.runner.tasks.task import Job, Notes, Task, refuse_options
from attnaudit.studies import TRANSFORMER_STUDIES
from attnaudit.training.probe import Probe

if TYPE_CHECKING:
    from attnaudit.corpora import Corpus
    from attnaudit.hf.texts import Texts
    from attnaudit.hf.trainable import Network
    from attnaudit.trace import Trace
    from attnaudit.training.loop import Epoch

OPERATION = "train transformer"
TRAINED_BY = (
    "config",
    "model",
    "training",
    "schedule",
    "uniform",
    "objective",
    "seed",
)  # parts of a spec that weights follow from


@dataclass(frozen=True)
class Pretrained:
    """A model and its tokenizer, as they were saved."""

    model: Any
    tokenizer: Any


def read_raw(spec: TransformerTraining, progress: Progress) -> Corpus:
    """The corpus of a training, with the texts of its files. Raises InputError for rows that the model cannot read."""
    from attnaudit.corpora import read_corpus

    corpus = read_corpus(spec.corpus, seed=spec.seed, progress=progress, raw=True)
    if any(split.candidates is not None for split in corpus.splits.values()):
        raise InputError(
            OPERATION,
            corpus.name,
            "rows that allow some of the answers",
            "texts with classes, alone or in pairs",
        )
    if spec.architecture.causal and corpus.task != "classification":
        raise InputError(
            OPERATION,
            f"{spec.config} on {corpus.name}",
            "a text and a question in each row",
            "texts alone",
        )
    return corpus


def build_network(spec: TransformerTraining, corpus: Corpus, progress: Progress) -> Network:
    """The network before it is trained, with a tokenizer learned from train. Raises InputError."""
    from attnaudit.hf.texts import texts_of
    from attnaudit.hf.tokenizer import train_tokenizer
    from attnaudit.hf.trainable import Network, build_transformer

    progress("learn the tokenizer", 0, 0)
    learned = texts_of(corpus).of_split("train")
    tokenizer = train_tokenizer(
        [*learned.text, *(learned.second or [])], spec.model, spec.architecture
    )
    model = build_transformer(
        spec.architecture, spec.model, len(tokenizer), corpus.class_names, spec.seed, spec.uniform
    )
    return Network(
        model,
        tokenizer,
        spec.architecture,
        spec.model.word_dropout,
        watched=spec.objective is not None,
    )


def pieces_of(spec: TransformerTraining, network: Network, corpus: Corpus) -> Corpus:
    """The corpus as the network's tokenizer cuts it. Raises InputError where an objective has nothing to be about."""
    from attnaudit.hf.encode import encode
    from attnaudit.hf.texts import texts_of
    from attnaudit.hf.tokenizer import as_corpus

    texts, longest = texts_of(corpus), spec.model.length
    if spec.architecture.causal:
        texts, longest = (
            replace(texts, kind="causal-lm", label=None, class_names=(), spans=None),
            longest - 1,
        )  # then [EOS]
    words = None if spec.objective is None else spec.objective.words
    pieces = as_corpus(
        texts,
        encode(network.model, network.tokenizer, texts, max_tokens=longest),
        network.tokenizer,
        words,
    )
    if spec.objective is not None:
        _check_marks(pieces, words)
    return pieces


def _check_marks(pieces: Corpus, words: tuple[str, ...] | None) -> None:
    """Raise InputError where no text has an impermissible piece, or one has no rationale."""
    from attnaudit.corpora.prepare.derived import marks

    for name in ("train", "dev"):
        if not any(map(any, marks(pieces.splits[name], "rationale", name))):
            source = f"words {', '.join(words)}" if words else "the rationale"
            do = "give deceive.words in lower case, without punctuation"
            raise InputError(
                OPERATION,
                f"impermissible tokens, {source}",
                f"none in {name}",
                "some in train and in dev",
                do,
            )


def fit_network(
    spec: TransformerTraining, network: Network, pieces: Corpus, **options: Any
) -> list[Epoch]:
    """Train the network in place; returns every epoch. ``options`` are those of `attnaudit.training.loop.minimise`."""
    from attnaudit.hf.train import train_network

    objective = (
        None if spec.objective is None else replace(spec.objective, words=None)
    )  # marked as the rationale of the pieces
    return train_network(
        network, pieces, spec.training, spec.schedule, objective, **{"seed": spec.seed, **options}
    )


def _spec(source: str | Path, **options: Any) -> TransformerTraining:
    known = {"config", "seed", "settings", *(one.name for one in fields(CorpusSpec))}.difference(
        OF_WORDS
    )
    refuse_options(
        "read settings",
        str(options.get("config")),
        options,
        known,
        "a transformer is set by --set model.NAME=…",
    )
    return TransformerTraining.of(source, collect=TransformerCollect(), **options)


def _prepare(spec: TransformerTraining, corpus: Corpus) -> tuple[Corpus, str]:
    from attnaudit.corpora.prepare.derived import without_words

    if spec.corpus.removed is not None:
        corpus = without_words(corpus, spec.corpus.removed)
    return corpus, corpus.fingerprint


def _build(job: Job) -> tuple[Network, Notes]:
    network = build_network(job.spec, job.corpus, job.progress)
    pieces = pieces_of(
        job.spec, network, job.corpus
    )  # refuses, before hours of training, what cannot be read
    return network, {"remarks": [note for note in pieces.notes if note not in job.corpus.notes]}


def _fit(job: Job, network: Network, **options: Any) -> list[Epoch]:
    return fit_network(job.spec, network, pieces_of(job.spec, network, job.corpus), **options)


def _load(folder: Path, device: str) -> Pretrained:
    from attnaudit.hf.encode import load_tokenizer
    from attnaudit.hf.load import load_pretrained

    model: Any = load_pretrained(folder)
    return Pretrained(model.to(device), load_tokenizer(folder))


def _traced(job: Job) -> Texts:
    """The same texts of test in all trainings of a study."""
    from attnaudit.hf.texts import texts_of

    test, size = texts_of(job.corpus).of_split("test"), job.spec.collect.sample
    seed = job.spec.seed if job.spec.corpus.seed is None else job.spec.corpus.seed
    return test.take(Probe(size=len(test) if size is None else size, seed=seed).rows(test.instance))


def _shards(
    job: Job, trained: Network | Pretrained, rows: Texts, origin: Mapping[str, Any], progress: Progress
) -> Iterator[Trace]:  # fmt: skip
    """The last layer's attention, with the impermissible pieces of the objective as the rationale."""
    from attnaudit.hf.encode import encode
    from attnaudit.hf.gate import check_model
    from attnaudit.hf.tokenizer import marks_of
    from attnaudit.hf.trace import choose_layers, collect_shards, output_names

    model, tokenizer, words = (
        trained.model,
        trained.tokenizer,
        job.spec.objective and job.spec.objective.words,
    )
    gate = check_model(model)
    encoded = encode(model, tokenizer, rows, max_tokens=job.spec.model.length)
    if words:
        encoded = replace(encoded, rationale=list(marks_of(words, encoded)))
    yield from collect_shards(
        model, encoded, gate, choose_layers(gate), class_names=output_names(model, tokenizer, encoded.class_names),
        scores=job.spec.collect.scores, metadata={**origin, "gate": gate.to_json()}, progress=progress,
    )  # fmt: skip


def _described(job: Job, trained: Network | Pretrained) -> dict[str, Any]:
    layers = {"uniform": list(job.spec.uniform)} if job.spec.uniform else {}
    return {
        "name": job.spec.config,
        "class": type(trained.model).__name__,
        **job.plain["model"],
        **layers,
    }


def _with_remarks(origin: Mapping[str, Any], remarks: Sequence[str]) -> dict[str, Any]:
    return {
        **origin,
        "corpus": {**origin["corpus"], "notes": [*origin["corpus"]["notes"], *remarks]},
    }


def _audit(spec: TransformerTraining, training: Path, place: Path, progress: Progress) -> None:
    """Audit the saved model of a training, as `attnaudit hf MODEL_DIR CORPUS` does."""
    from attnaudit.runner.transformers import audit_transformer

    read = {
        one.name: getattr(spec.corpus, one.name)
        for one in fields(CorpusSpec)
        if one.name != "source"
    }
    given = {
        name: value
        for name, value in read.items()
        if value != getattr(CorpusSpec(spec.corpus.source), name)
    }
    collect: dict[str, Any] = (
        {}
        if spec.collect is None or spec.collect.sample is None
        else {"sample": spec.collect.sample}
    )
    if Path(spec.corpus.source).expanduser().is_file():
        collect["split"] = "test"  # not the rows that the model was trained on
    audit_transformer(
        training / "model",
        spec.corpus.source,
        place,
        progress,
        seed=spec.seed,
        collect=collect,
        **given,
    )


TRANSFORMERS = Task(  # of a `TransformerTraining` and a `Corpus` with its raw texts
    kind=TransformerTraining.kind, needs=("train", "hf"), studies=TRANSFORMER_STUDIES, spec=_spec, read=read_raw, prepare=_prepare,
    training_key=lambda job: [job.plain[name] for name in TRAINED_BY], build=_build, fit=_fit, load=_load,
    network=lambda trained: trained.model, described=_described, remarks=lambda notes: notes["remarks"], with_remarks=_with_remarks,
    traced=_traced, shards=_shards, collect_key=lambda job: (job.plain["collect"], job.spec.corpus.seed), steps={}, audit=_audit,
    audit_key=lambda job: (), rows=lambda job, folder, audited: audited, facts=lambda job: {},
)  # fmt: skip
