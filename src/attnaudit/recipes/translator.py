"""Translators: pairs of a source and a target, each gold token with attention of its own."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from attnaudit.core import Progress, atomic
from attnaudit.corpora.corpus import Pairs, ParallelCorpus
from attnaudit.corpora.prepare.vocabulary import UNKNOWN
from attnaudit.corpora.read import excluded_links, read_parallel
from attnaudit.corpora.remarks import WARNING
from attnaudit.experiments.alignment import dictionary, dictionary_rows
from attnaudit.models.batch import PairInputs
from attnaudit.models.translator import Translator
from attnaudit.plans.spec import TranslationSpec
from attnaudit.recipes.audit import Notes, Rows
from attnaudit.recipes.job import DICTIONARY, TRANSLATIONS, Trained, read_translations
from attnaudit.results import summary_row
from attnaudit.stats.bleu import bleu, bleu_counts, bleu_of_others, corpus_bleu
from attnaudit.steps import Folder
from attnaudit.trace import Trace
from attnaudit.tracing.pairs import collect_pairs
from attnaudit.training.loop import Epoch
from attnaudit.training.pairs import decode, teacher_forced, train_translator

OF_TOKENS = ("token_accuracy", "loss", "unknown")  # means over the gold tokens of test
MANY_UNKNOWN = 0.03  # share of the target tokens of test from which a user is told


@dataclass(frozen=True, kw_only=True)
class Translation(Trained):
    """Training of a `TranslationSpec`, which reads a `ParallelCorpus`."""

    trained_by = ("model", "training", "seed", "objective")
    after, tables = ("translate",), (DICTIONARY,)

    @staticmethod
    def read(spec: TranslationSpec, progress: Progress) -> ParallelCorpus:
        """Read the pairs."""
        return read_parallel(spec.corpus, seed=spec.seed, progress=progress)

    @property
    def read_by(self) -> tuple[Any, Any, Any]:
        """How the texts are cut into units."""
        texts = self.spec.corpus
        return texts.chosen_units, texts.pieces, texts.chosen_min_df

    def build(self) -> tuple[Translator, Notes]:
        """Learn the units and make the model.

        Pairs that cannot be read or recorded once they are cut are refused before hours of
        training.
        """
        spec, splits = self.spec, self.corpus.splits
        self.progress("learn the units", 0, 0)
        translator = Translator.learn(spec.model, splits["train"], *self.read_by, spec.seed)
        inputs = {name: translator.inputs(one, f"{name} split") for name, one in splits.items()}
        remarks = [
            excluded_links(f"{name} split", made.unlinked, "words without pieces of their own")
            for name, made in inputs.items()
            if made.unlinked
        ]
        remarks += _unknown(inputs["test"])
        return translator, {"remarks": remarks} if remarks else {}

    def fit(self, model: Translator, **options: Any) -> list[Epoch]:
        """Train the translator in place."""
        return train_translator(
            model, self.corpus, self.spec.training, self.spec.objective, **options
        )

    def load(self) -> Translator:
        """Load the saved translator."""
        translator = Translator.load(self.out / "model")
        translator.model.to(self.device)
        return translator

    def described(self, model: Translator) -> dict[str, Any]:
        """Return sizes and preset."""
        settings = asdict(model.model.settings)
        return {"encoder": "bilstm", **settings, "preset": self.plain["preset"]}

    @property
    def traced(self) -> Pairs:
        """Pairs of test."""
        return self.sample(self.corpus.splits["test"], self.spec.collect.pairs)

    def shards(
        self,
        model: Translator,
        rows: Pairs,
        origin: Mapping[str, Any],
        folder: Path | None = None,
        part: np.ndarray | None = None,
    ) -> Iterator[Trace]:
        """Trace the gold tokens of pairs."""
        spec = self.spec
        options = {"replacement": spec.replacement, "part": part, "progress": self.progress}
        return collect_pairs(model, rows, "test", spec.collect, metadata=origin, **options)

    def translate(self, translator: Translator, folder: Folder, made: Path) -> Notes:
        """Translate the test split; the notes say how well gold tokens are predicted."""
        pairs = self.corpus.splits["test"]
        inputs = translator.inputs(pairs, "test split")
        words = translator.model.target.words
        decoded = decode(translator.model, inputs, self.spec.decode.beam, self.progress)
        texts = [translator.units.join([words[number] for number in row]) for row in decoded]
        loss, accuracy = teacher_forced(translator.model, inputs)
        tokens = int(inputs.tokens.sum())
        columns = {"instance": pairs.instance, "source": pairs.source, "reference": pairs.target}
        with atomic(made / TRANSLATIONS) as temporary:
            pl.DataFrame({**columns, "translation": texts}).write_ndjson(temporary)
        figures = {"loss": loss, "token_accuracy": accuracy, "unknown": inputs.unknown / tokens}
        return {**figures, "tokens": tokens}

    def rows(self, folder: Folder, made: Path, audited: Rows) -> Rows:
        """Add the rows of the translations, of known alignments and of the dictionary."""
        self.progress("count BLEU", 0, 0)
        out, notes = folder.out, folder.records["translate"].notes
        written = translation_rows(self.corpus.splits["test"], read_translations(out), notes)
        rows = [*audited, *written]
        if not (out / "trace").exists():
            return rows
        words = dictionary(Trace.read(out / "trace"))
        with atomic(made / DICTIONARY) as temporary:
            words.write_parquet(temporary)
        return [*rows, *dictionary_rows(words)]


def _unknown(test: PairInputs) -> list[str]:
    """Say that the vocabulary lacks many target tokens, and which settings may leave fewer."""
    unknown, tokens = test.unknown, int(test.tokens.sum())
    if unknown < MANY_UNKNOWN * tokens:
        return []
    lost = f"{unknown} of {tokens} target tokens of test are not in the vocabulary of train"
    effect = "they never count as correct and are not in the dictionary"
    fewer = "corpus.units=pieces, fewer corpus.pieces or corpus.min_df=1 may leave fewer"
    return [f"{WARNING}{lost} ({UNKNOWN}); {effect}; {fewer}"]


def translation_rows(pairs: Pairs, written: Sequence[dict[str, Any]], notes: Notes) -> Rows:
    """Make the summary rows of translations.

    BLEU (sacrebleu; 95 % bootstrap interval over pairs), its two baselines, and figures of the
    gold tokens.
    """
    texts = [row["translation"] for row in written]
    score, low, high, signature = corpus_bleu(texts, pairs.target)
    sources = [row["source"] for row in written]
    copied = bleu(bleu_counts(sources, pairs.target).sum(axis=0))
    others, n = bleu_of_others(texts, pairs.target), len(pairs)
    rows = [
        summary_row("translation", "bleu", score, low, high, n=n, source=signature),
        summary_row("translation", "bleu_copy", copied, n=n),
        summary_row("translation", "bleu_other", others, n=n),
    ]
    return rows + [
        summary_row("translation", name, notes[name], n=notes["tokens"]) for name in OF_TOKENS
    ]
