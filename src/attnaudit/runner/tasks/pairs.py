"""Translators: pairs of a source and a target, each gold token with attention of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from attnaudit.core.files import atomic, write_text
from attnaudit.core.progress import Progress
from attnaudit.corpora.prepare.vocabulary import UNKNOWN
from attnaudit.corpora.spec import ParallelSpec
from attnaudit.plans.spec import TranslationSpec
from attnaudit.results import Group, read_table, summarise_means, summary_row
from attnaudit.runner.tasks.task import Job, Notes, Step, Task, refuse_options
from attnaudit.stats.bleu import bleu, bleu_counts, bleu_of_others, corpus_bleu
from attnaudit.studies import PAIR_STUDIES
from attnaudit.training.probe import Probe

if TYPE_CHECKING:
    from attnaudit.corpora.corpus import Pairs, ParallelCorpus
    from attnaudit.models.batch import PairInputs
    from attnaudit.models.translator import Translator
    from attnaudit.trace import Trace
    from attnaudit.training.loop import Epoch

TRANSLATIONS = "translations.jsonl"
DICTIONARY = "dictionary.parquet"
OF_TOKENS = ("token_accuracy", "loss", "unknown")  # means over the gold tokens of test
MANY_UNKNOWN = 0.03  # of the target tokens of test: where a user is told
ROUNDING = 1e-6  # of the model's 32 bits


def read_translations(out: Path) -> list[dict[str, Any]]:
    """{instance, source, reference, translation} of every pair of the test split."""
    with (out / TRANSLATIONS).open(
        encoding="utf-8"
    ) as file:  # and no splitlines: in a text stand other ends of lines, as U+2028
        return [json.loads(line) for line in file]


def _translate(job: Job, translator: Translator, origin: Mapping[str, Any], folder: Path) -> Notes:
    """Translate the test split; the notes say how well gold tokens are predicted with teacher forcing."""
    from attnaudit.training.pairs import decode, teacher_forced

    pairs = job.corpus.splits["test"]
    inputs = translator.inputs(pairs, "test split")
    decoded = decode(translator.model, inputs, job.spec.decode.beam, job.progress)
    rows = ([translator.model.target.words[number] for number in row] for row in decoded)
    loss, accuracy = teacher_forced(translator.model, inputs)
    tokens = int(inputs.tokens.sum())
    written = zip(
        pairs.instance.tolist(),
        pairs.source,
        pairs.target,
        map(translator.units.join, rows),
        strict=True,
    )
    lines = (
        dict(zip(("instance", "source", "reference", "translation"), row, strict=True))
        for row in written
    )
    write_text(
        folder / TRANSLATIONS,
        "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines),
    )
    return {
        "loss": loss,
        "token_accuracy": accuracy,
        "unknown": inputs.unknown / tokens,
        "tokens": tokens,
    }


def _write_page(folder: Path, page: Path) -> None:
    from attnaudit.report.translation_page import write_translation

    write_translation(folder, page)


def _spec(source: str | Path, **options: Any) -> TranslationSpec:
    known = ("preset", "seed", "device", "data_dir", "encoding", "settings")
    refuse_options(
        "read settings",
        str(source),
        options,
        known,
        "a translator is set by --set model.NAME=… and corpus.NAME=…",
    )
    return TranslationSpec.of(source, **options)


def _read(spec: TranslationSpec, progress: Progress) -> ParallelCorpus:
    from attnaudit.corpora.parallel import read_parallel

    return read_parallel(spec.corpus, seed=spec.seed, progress=progress)


def _training_key(job: Job) -> Sequence[Any]:
    parts = {name: job.plain[name] for name in ("model", "training", "seed", "objective")}
    if job.spec.probe is not None:
        parts |= {name: job.plain[name] for name in ("probe", "collect")}
    texts = job.spec.corpus
    return parts, (texts.chosen_units, texts.pieces, texts.chosen_min_df)


def _build(job: Job) -> tuple[Translator, Notes]:
    """Raises InputError too for pairs that cannot be read or recorded once they are cut, before hours of training."""
    from attnaudit.corpora.parallel import excluded_links
    from attnaudit.models.translator import Translator
    from attnaudit.tracing.pairs import check_settings

    spec, texts = job.spec, job.spec.corpus
    job.progress("learn the units", 0, 0)
    translator = Translator.learn(
        spec.model,
        job.corpus.splits["train"],
        texts.chosen_units,
        texts.pieces,
        texts.chosen_min_df,
        spec.seed,
    )
    inputs = {
        name: translator.inputs(pairs, f"{name} split") for name, pairs in job.corpus.splits.items()
    }
    if spec.model.attention != "none":
        check_settings(translator, spec.collect)
    unlinked = {f"{name} split": made.unlinked for name, made in inputs.items() if made.unlinked}
    remarks = [
        excluded_links(split, rows, "words without pieces of their own")
        for split, rows in unlinked.items()
    ]
    remarks += _unknown(inputs["test"], texts)
    return translator, {"remarks": remarks} if remarks else {}


def _traced(job: Job) -> Pairs:
    """The same pairs of test in all trainings of a study."""
    pairs, size = job.corpus.splits["test"], job.spec.collect.pairs
    seed = job.spec.seed if job.spec.corpus.seed is None else job.spec.corpus.seed
    return pairs.take(
        Probe(size=len(pairs) if size is None else size, seed=seed).rows(pairs.instance)
    )


def _shards(
    job: Job, model: Translator, rows: Pairs, origin: Mapping[str, Any], progress: Progress
) -> Iterator[Trace]:
    from attnaudit.tracing.pairs import collect_pairs

    return collect_pairs(model, rows, "test", job.spec.collect, metadata=origin, progress=progress)


def _fit(job: Job, model: Translator, **options: Any) -> list[Epoch]:
    from attnaudit.training.pairs import train_translator

    return train_translator(model, job.corpus, job.spec.training, job.spec.objective, **options)


def _load(folder: Path, device: str) -> Translator:
    from attnaudit.models.translator import Translator

    translator = Translator.load(folder)
    translator.model.to(device)
    return translator


def _audit_key(job: Job) -> Sequence[Any]:
    translated = job.store.records["translate"]
    return translated.files, translated.notes, list(job.spec.experiments), job.spec.experiments


def _rows(job: Job, folder: Path, audited: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those of the audit, of the translations, of known alignments and of the dictionary."""
    from attnaudit.experiments.alignment import dictionary, dictionary_rows
    from attnaudit.trace import Trace

    job.progress("count BLEU", 0, 0)
    out, notes = job.store.out, job.store.records["translate"].notes
    aligned = [
        row for row in audited if row["experiment"] == "alignment"
    ]  # they stand with those of the dictionary
    rows = [row for row in audited if row not in aligned]
    rows += translation_rows(job.corpus.splits["test"], read_translations(out), notes)
    if not (out / "trace").exists():
        return rows
    trace = Trace.read(out / "trace")
    words = dictionary(trace)
    with atomic(folder / DICTIONARY) as temporary:
        words.write_parquet(temporary)
    measured = _over_all_words(job, trace, folder / "results" / "adversary.parquet")
    return [*rows, *aligned, *dictionary_rows(words), *measured]


def _unknown(test: PairInputs, corpus: ParallelSpec) -> list[str]:
    """Many target tokens that the vocabulary lacks, and which settings may leave fewer."""
    unknown, tokens = test.unknown, int(test.tokens.sum())
    if unknown < MANY_UNKNOWN * tokens:
        return []
    by_words = (
        "corpus.units=pieces"
        if corpus.chosen_min_df == 1
        else "corpus.min_df=1 or corpus.units=pieces"
    )
    fewer = f"corpus.pieces below {corpus.pieces}" if corpus.chosen_units == "pieces" else by_words
    return [
        f"test split: {unknown} of {tokens} target tokens are not in the vocabulary of train ({UNKNOWN}); they never count as correct "
        f"and are not in the dictionary; {fewer} may leave fewer"
    ]


def _over_all_words(job: Job, trace: Trace, audited: Path) -> list[dict[str, Any]]:
    """How much of the model's probability the kept words hold, and what attention of the audit does to that of all words."""
    from attnaudit.core.ragged import Ragged
    from attnaudit.experiments.adversary.experiment import Adversary
    from attnaudit.tracing.pairs import change_of_output

    measured = {"covered": trace.array("covered").astype(np.float64)}
    if audited.exists():
        found = Ragged.from_rows(
            read_table(audited).select("alpha").collect()["alpha"].to_list(), np.float64
        )
        moved = change_of_output(
            _load(job.store.out / "model", job.device), _traced(job), trace, found
        )
        epsilon = job.spec.experiments.get("adversary", {}).get("epsilon", Adversary().epsilon)
        measured |= {
            "adversary_change": moved,
            "adversary_within": (moved <= epsilon + ROUNDING).astype(np.float64),
        }
    text = pl.LazyFrame({"instance": trace.instance})
    rows = Group("all", pl.LazyFrame(measured), text, several=True)
    return summarise_means("translation", [rows], job.spec.seed).to_dicts()


def translation_rows(
    pairs: Pairs, written: Sequence[dict[str, Any]], notes: dict[str, Any]
) -> list[dict[str, Any]]:
    """Summary rows: BLEU (sacrebleu; 95 % bootstrap interval over pairs), its two baselines, and figures of the gold tokens."""
    score, low, high, signature = corpus_bleu([row["translation"] for row in written], pairs.target)
    copied = bleu(bleu_counts([row["source"] for row in written], pairs.target).sum(axis=0))
    others = bleu_of_others([row["translation"] for row in written], pairs.target)
    figures: list[tuple[Any, ...]] = [
        ("bleu", score, low, high, len(pairs), signature), ("bleu_copy", copied, None, None, len(pairs), None),
        ("bleu_other", others, None, None, len(pairs), None),
    ]  # fmt: skip
    figures += [(name, notes[name], None, None, notes["tokens"], None) for name in OF_TOKENS]
    return [
        summary_row("translation", name, value, low, high, n=n, source=source)
        for name, value, low, high, n, source in figures
    ]


def _with_remarks(origin: Mapping[str, Any], remarks: Sequence[str]) -> dict[str, Any]:
    return {
        **origin,
        "corpus": {**origin["corpus"], "notes": [*origin["corpus"]["notes"], *remarks]},
    }


PAIRS = Task(  # of a `TranslationSpec` and a `ParallelCorpus`
    kind="translation", needs=("translate",), studies=PAIR_STUDIES, spec=_spec, read=_read,
    prepare=lambda spec, corpus: (corpus, corpus.fingerprint), training_key=_training_key, build=_build, fit=_fit, load=_load,
    network=lambda translator: translator.model, traced=_traced, shards=_shards,
    remarks=lambda notes: notes.get("remarks", []), with_remarks=_with_remarks, audit_key=_audit_key, rows=_rows,
    described=lambda job, model: {"encoder": "bilstm", **asdict(model.model.settings), "preset": job.plain["preset"]},
    facts=lambda job: {}, extra=("translate",), tables=(DICTIONARY,), pages={"translation.html": _write_page},
    collect_key=lambda job: (job.plain["collect"], job.spec.seed),
    steps={"translate": Step((TRANSLATIONS,), lambda job: (job.plain["decode"], OF_TOKENS), _translate)},
)  # fmt: skip
