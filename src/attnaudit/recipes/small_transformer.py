"""Small transformers trained here, each with a tokenizer of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnaudit.core.errors import InputError
from attnaudit.core.progress import Progress
from attnaudit.corpora.spec import CorpusSpec
from attnaudit.plans.transformer import OF_WORDS, OPERATION, TransformerTraining
from attnaudit.recipes.kind import Job, Kind, Notes, refuse_options
from attnaudit.studies import TRANSFORMER_STUDIES

if TYPE_CHECKING:
    from attnaudit.corpora import Corpus
    from attnaudit.hf.texts import Texts
    from attnaudit.hf.train import Network
    from attnaudit.trace import Trace
    from attnaudit.training.loop import Epoch


@dataclass(frozen=True)
class Pretrained:
    """A model and its tokenizer, as they were saved."""

    model: Any
    tokenizer: Any


def pieces_of(spec: TransformerTraining, network: Network, corpus: Corpus) -> Corpus:
    """Cut a corpus as the network's tokenizer does.

    Raises:
        InputError: If an objective has nothing to be about.
    """
    from attnaudit.hf.encode import encode
    from attnaudit.hf.texts import texts_of
    from attnaudit.hf.train import as_corpus

    texts, longest = texts_of(corpus), spec.model.length
    if spec.architecture.causal:
        texts = as_prompts(texts)
        longest -= 1  # then [EOS]
    words = None if spec.objective is None else spec.objective.words
    encoded = encode(network.model, network.tokenizer, texts, max_tokens=longest)
    pieces = as_corpus(texts, encoded, network.tokenizer, words)
    if spec.objective is not None:
        _check_marks(pieces, words)
    return pieces


def as_prompts(texts: Texts) -> Texts:
    """Return texts whose next token is to be predicted, in place of their class."""
    return replace(texts, kind="causal-lm", label=None, class_names=(), spans=None)


def _check_marks(pieces: Corpus, words: tuple[str, ...] | None) -> None:
    """Raise InputError if no text has an impermissible piece, or one has no rationale."""
    from attnaudit.corpora.prepare.derived import marks

    for name in ("train", "dev"):
        if not any(map(any, marks(pieces.splits[name], "rationale", name))):
            source = f"words {', '.join(words)}" if words else "the rationale"
            where, do = f"impermissible tokens, {source}", "give deceive.words in lower case"
            got, expected = f"none in {name}", "some in train and in dev"
            raise InputError(OPERATION, where, got, expected, f"{do}, without punctuation")


class SmallTransformers(Kind):
    """Kind of a `TransformerTraining`, which reads a `Corpus` with its raw texts."""

    name, needs, studies = TransformerTraining.kind, ("train", "hf"), TRANSFORMER_STUDIES
    trained_by = ("config", "model", "training", "schedule", "uniform", "objective", "seed")

    def spec(self, source: str | Path, **options: Any) -> TransformerTraining:
        """Make a `TransformerTraining`."""
        known = {"config", "seed", "settings", *(one.name for one in fields(CorpusSpec))}
        instead = "a transformer is set by --set model.NAME=…"
        what = str(options.get("config"))
        refuse_options("read settings", what, options, known.difference(OF_WORDS), instead)
        return TransformerTraining.of(source, **options)

    def read(self, spec: TransformerTraining, progress: Progress) -> Corpus:
        """Read the corpus with the texts of its files.

        Raises:
            InputError: For rows that the model cannot read.
        """
        from attnaudit.corpora import read_corpus

        corpus = read_corpus(spec.corpus, seed=spec.seed, progress=progress, raw=True)
        if any(split.candidates is not None for split in corpus.splits.values()):
            got, expected = "rows that allow some of the answers", "texts with classes"
            raise InputError(OPERATION, corpus.name, got, f"{expected}, alone or in pairs")
        if spec.architecture.causal and corpus.task != "classification":
            got = "a text and a question in each row"
            where = f"{spec.config} on {corpus.name}"
            raise InputError(OPERATION, where, got, "texts alone")
        return corpus

    def prepare(self, spec: TransformerTraining, corpus: Corpus) -> tuple[Corpus, str]:
        """Remove words."""
        from attnaudit.corpora.prepare.derived import without_words

        if spec.corpus.removed is not None:
            corpus = without_words(corpus, spec.corpus.removed)
        return corpus, corpus.fingerprint

    def build(self, job: Job) -> tuple[Network, Notes]:
        """Learn the tokenizer from train and make the network."""
        from attnaudit.hf.texts import texts_of
        from attnaudit.hf.train import Network, build_transformer, train_tokenizer

        spec, corpus = job.spec, job.corpus
        job.progress("learn the tokenizer", 0, 0)
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
        pieces = pieces_of(spec, network, corpus)  # refuses early what cannot be read
        return network, {"remarks": [note for note in pieces.notes if note not in corpus.notes]}

    def fit(self, job: Job, network: Network, **options: Any) -> list[Epoch]:
        """Train the network in place."""
        from attnaudit.hf.train import train_network

        spec, pieces, objective = job.spec, pieces_of(job.spec, network, job.corpus), None
        if spec.objective is not None:
            # The words are marked as the rationale of the pieces.
            objective = replace(spec.objective, words=None)
        options = {"seed": spec.seed, **options}
        return train_network(network, pieces, spec.training, spec.schedule, objective, **options)

    def load(self, folder: Path, device: str) -> Pretrained:
        """Load a saved model with its tokenizer."""
        from attnaudit.hf.encode import load_tokenizer
        from attnaudit.hf.load import load_pretrained

        model: Any = load_pretrained(folder)
        return Pretrained(model.to(device), load_tokenizer(folder))

    def described(self, job: Job, model: Network | Pretrained) -> dict[str, Any]:
        """Return the name of the configuration, the class and the sizes."""
        layers = {"uniform": list(job.spec.uniform)} if job.spec.uniform else {}
        named = {"name": job.spec.config, "class": type(model.model).__name__}
        return {**named, **job.plain["model"], **layers}

    def task(self, job: Job) -> str:
        """Return the task of the model, which for next tokens is not that of the corpus."""
        return "language_modelling" if job.spec.architecture.causal else job.corpus.task

    def traced(self, job: Job) -> Texts:
        """Return texts of test."""
        from attnaudit.hf.texts import texts_of

        test = texts_of(job.corpus).of_split("test")
        if job.spec.architecture.causal:
            test = as_prompts(test)
        return job.sample(test, job.spec.collect.sample)

    def shards(
        self,
        job: Job,
        model: Network | Pretrained,
        rows: Texts,
        origin: Mapping[str, Any],
        progress: Progress,
    ) -> Iterator[Trace]:
        """Trace the last layer, with the impermissible pieces as the rationale."""
        from attnaudit.hf.encode import encode, output_names
        from attnaudit.hf.gate import check_model
        from attnaudit.hf.trace import choose_layers, collect_shards
        from attnaudit.hf.train import marks_of

        network, tokenizer = model.model, model.tokenizer
        words = job.spec.objective and job.spec.objective.words
        gate = check_model(network)
        encoded = encode(network, tokenizer, rows, max_tokens=job.spec.model.length)
        if words:
            encoded = replace(encoded, rationale=list(marks_of(words, encoded)))
        yield from collect_shards(
            network,
            encoded,
            gate,
            choose_layers(gate),
            class_names=output_names(network, tokenizer, encoded.class_names),
            scores=job.spec.collect.scores,
            metadata={**origin, "gate": gate.to_json()},
            progress=progress,
        )


SMALL_TRANSFORMERS = SmallTransformers()
