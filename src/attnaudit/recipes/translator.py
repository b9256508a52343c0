"""Translators: pairs of a source and a target, each gold token with attention of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import polars as pl

from attnaudit.core.files import atomic, write_text
from attnaudit.core.progress import Progress
from attnaudit.corpora.prepare.vocabulary import UNKNOWN
from attnaudit.plans.spec import TranslationSpec
from attnaudit.recipes.kind import Further, Job, Kind, Notes, Rows, refuse_options
from attnaudit.results import Group, read_table, summarise_means, summary_row
from attnaudit.stats.bleu import bleu, bleu_counts, bleu_of_others, corpus_bleu
from attnaudit.steps import Folder
from attnaudit.studies import PAIR_STUDIES

if TYPE_CHECKING:
    from attnaudit.corpora.corpus import Pairs, ParallelCorpus
    from attnaudit.models.batch import PairInputs
    from attnaudit.models.translator import Translator
    from attnaudit.trace import Trace
    from attnaudit.training.loop import Epoch

TRANSLATIONS, DICTIONARY = "translations.jsonl", "dictionary.parquet"
OF_TOKENS = ("token_accuracy", "loss", "unknown")  # means over the gold tokens of test
MANY_UNKNOWN = 0.03  # share of the target tokens of test from which a user is told
ROUNDING = 1e-6  # of the model's 32 bits
OPTIONS = ("preset", "seed", "device", "data_dir", "encoding", "settings")


def read_translations(out: Path) -> list[dict[str, Any]]:
    """Read {instance, source, reference, translation} of every pair of the test split."""
    # Not by `splitlines`: a text may hold other ends of lines, such as U+2028.
    with (out / TRANSLATIONS).open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def _translate(job: Job, translator: Translator, origin: Mapping[str, Any], made: Path) -> Notes:
    """Translate the test split; the notes say how well gold tokens are predicted."""
    from attnaudit.training.pairs import decode, teacher_forced

    pairs = job.corpus.splits["test"]
    inputs = translator.inputs(pairs, "test split")
    words = translator.model.target.words
    decoded = decode(translator.model, inputs, job.spec.decode.beam, job.progress)
    texts = [translator.units.join([words[number] for number in row]) for row in decoded]
    loss, accuracy = teacher_forced(translator.model, inputs)
    tokens = int(inputs.tokens.sum())
    names = ("instance", "source", "reference", "translation")
    columns = (pairs.instance.tolist(), pairs.source, pairs.target, texts)
    lines = (dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True))
    written = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    write_text(made / TRANSLATIONS, written)
    figures = {"loss": loss, "token_accuracy": accuracy, "unknown": inputs.unknown / tokens}
    return {**figures, "tokens": tokens}


def _write_page(folder: Path, page: Path) -> None:
    from attnaudit.report.translation_page import write_translation

    write_translation(folder, page)


class Translators(Kind):
    """Kind of a `TranslationSpec`, which reads a `ParallelCorpus`."""

    name, needs, studies = "translation", ("translate",), PAIR_STUDIES
    trained_by = ("model", "training", "seed", "objective")
    further: ClassVar = {
        "translate": Further(
            (TRANSLATIONS,), _translate, lambda job: (job.plain["decode"], OF_TOKENS)
        )
    }
    usual, tables = ("translate",), (DICTIONARY,)
    pages: ClassVar = {"translation.html": _write_page}

    def spec(self, source: str | Path, **options: Any) -> TranslationSpec:
        """Make a `TranslationSpec`."""
        instead = "a translator is set by --set model.NAME=… and corpus.NAME=…"
        refuse_options("read settings", str(source), options, OPTIONS, instead)
        return TranslationSpec.of(source, **options)

    def read(self, spec: TranslationSpec, progress: Progress) -> ParallelCorpus:
        """Read the pairs."""
        from attnaudit.corpora.parallel import read_parallel

        return read_parallel(spec.corpus, seed=spec.seed, progress=progress)

    def read_by(self, job: Job) -> Sequence[Any]:
        """Return how the texts are cut into units."""
        texts = job.spec.corpus
        return texts.chosen_units, texts.pieces, texts.chosen_min_df

    def build(self, job: Job) -> tuple[Translator, Notes]:
        """Learn the units and make the model.

        Pairs that cannot be read or recorded once they are cut are refused before hours of
        training.
        """
        from attnaudit.corpora.parallel import excluded_links
        from attnaudit.models.translator import Translator
        from attnaudit.tracing.pairs import check_settings

        spec, texts, splits = job.spec, job.spec.corpus, job.corpus.splits
        job.progress("learn the units", 0, 0)
        units, pieces, min_df = texts.chosen_units, texts.pieces, texts.chosen_min_df
        train = splits["train"]
        translator = Translator.learn(spec.model, train, units, pieces, min_df, spec.seed)
        inputs = {name: translator.inputs(one, f"{name} split") for name, one in splits.items()}
        if spec.model.attention != "none":
            check_settings(translator, spec.collect)
        remarks = [
            excluded_links(f"{name} split", made.unlinked, "words without pieces of their own")
            for name, made in inputs.items()
            if made.unlinked
        ]
        remarks += _unknown(inputs["test"])
        return translator, {"remarks": remarks} if remarks else {}

    def fit(self, job: Job, model: Translator, **options: Any) -> list[Epoch]:
        """Train the translator in place."""
        from attnaudit.training.pairs import train_translator

        return train_translator(model, job.corpus, job.spec.training, job.spec.objective, **options)

    def load(self, folder: Path, device: str) -> Translator:
        """Load a saved translator."""
        from attnaudit.models.translator import Translator

        translator = Translator.load(folder)
        translator.model.to(device)
        return translator

    def described(self, job: Job, model: Translator) -> dict[str, Any]:
        """Return sizes and preset."""
        settings = asdict(model.model.settings)
        return {"encoder": "bilstm", **settings, "preset": job.plain["preset"]}

    def traced(self, job: Job) -> Pairs:
        """Return pairs of test."""
        return job.sample(job.corpus.splits["test"], job.spec.collect.pairs)

    def shards(
        self,
        job: Job,
        model: Translator,
        rows: Pairs,
        origin: Mapping[str, Any],
        progress: Progress,
    ) -> Iterator[Trace]:
        """Trace the gold tokens of pairs."""
        from attnaudit.tracing.pairs import collect_pairs

        collect = job.spec.collect
        return collect_pairs(model, rows, "test", collect, metadata=origin, progress=progress)

    def rows(self, job: Job, folder: Folder, made: Path, audited: Rows) -> Rows:
        """Add the rows of the translations, of known alignments and of the dictionary."""
        from attnaudit.experiments.alignment import dictionary, dictionary_rows
        from attnaudit.trace import Trace

        job.progress("count BLEU", 0, 0)
        out, notes = folder.out, folder.records["translate"].notes
        # Those of known alignments stand with those of the dictionary.
        aligned = [row for row in audited if row["experiment"] == "alignment"]
        rows = [row for row in audited if row not in aligned]
        rows += translation_rows(job.corpus.splits["test"], read_translations(out), notes)
        if not (out / "trace").exists():
            return rows
        trace = Trace.read(out / "trace")
        words = dictionary(trace)
        with atomic(made / DICTIONARY) as temporary:
            words.write_parquet(temporary)
        model, adversary = out / "model", made / "results" / "adversary.parquet"
        measured = self._over_all_words(job, trace, model, adversary)
        return [*rows, *aligned, *dictionary_rows(words), *measured]

    def _over_all_words(self, job: Job, trace: Trace, model: Path, audited: Path) -> Rows:
        """Say how much of the model's probability the kept words hold.

        And what attention of the audit does to that of all words.
        """
        from attnaudit.core.ragged import Ragged
        from attnaudit.experiments.adversary.experiment import Adversary
        from attnaudit.tracing.pairs import change_of_output
        from attnaudit.training.loop import torch_threads

        measured = {"covered": trace.array("covered").astype(np.float64)}
        if audited.exists():
            alpha = read_table(audited).select("alpha").collect()["alpha"].to_list()
            found, loaded = Ragged.from_rows(alpha, np.float64), self.load(model, job.device)
            with torch_threads(job.spec.training.threads):
                moved = change_of_output(loaded, self.traced(job), trace, found)
            settings = job.spec.experiments.get("adversary", {})
            epsilon = settings.get("epsilon", Adversary().epsilon)
            within = (moved <= epsilon + ROUNDING).astype(np.float64)
            measured |= {"adversary_change": moved, "adversary_within": within}
        text = pl.LazyFrame({"instance": trace.instance})
        rows = Group("all", pl.LazyFrame(measured), text, several=True)
        return summarise_means("translation", [rows], job.spec.seed).to_dicts()


def _unknown(test: PairInputs) -> list[str]:
    """Say that the vocabulary lacks many target tokens, and which settings may leave fewer."""
    unknown, tokens = test.unknown, int(test.tokens.sum())
    if unknown < MANY_UNKNOWN * tokens:
        return []
    lost = f"test split: {unknown} of {tokens} target tokens are not in the vocabulary of train"
    effect = "they never count as correct and are not in the dictionary"
    fewer = "corpus.units=pieces, fewer corpus.pieces or corpus.min_df=1 may leave fewer"
    return [f"{lost} ({UNKNOWN}); {effect}; {fewer}"]


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


TRANSLATORS = Translators()
