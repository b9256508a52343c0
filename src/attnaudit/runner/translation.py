"""A translation run: train → collect → translate → audit → report → manifest, each step done once for what it follows from."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from attnaudit.core.files import atomic, read_json, sha256, write_json, write_text
from attnaudit.core.progress import Progress, silent
from attnaudit.corpora.prepare.vocabulary import UNKNOWN
from attnaudit.plans.spec import content_key
from attnaudit.plans.translation import TranslationSpec
from attnaudit.results import CLUSTER, summarise_means, summary_row
from attnaudit.runner.ledger import Ledger, Record
from attnaudit.runner.pipeline import resolve_device, weights_fingerprint
from attnaudit.runner.place import alone, check_place
from attnaudit.runner.steps import RESULTS, Battery, keep_results, keep_steps, manifest, trace_digests
from attnaudit.runner.versions import versions
from attnaudit.trace.probe import STEP_FOLDER, Probe

if TYPE_CHECKING:
    from attnaudit.corpora.parallel import Pairs, ParallelCorpus
    from attnaudit.models.pairs import PairInputs
    from attnaudit.models.translator import Translator
    from attnaudit.results import Results
    from attnaudit.trace import Trace
    from attnaudit.training.loop import Epoch, StepCallback

TRANSLATIONS = "translations.jsonl"
DICTIONARY = "dictionary.parquet"
OF_TOKENS = ("token_accuracy", "loss", "unknown")  # means over the gold tokens of test
MANY_UNKNOWN = 0.03  # of the target tokens of test: where a user is told
ROUNDING = 1e-6  # of the model's 32 bits
PAGES = ("report.html", "translation.html")


def translate(spec: TranslationSpec, out: str | Path, progress: Progress | None = None, corpus: ParallelCorpus | None = None) -> Path:
    """Train a translator, translate the test split, trace and audit its attention, into the folder ``out``; returns it.

    A run that was killed goes on where its last whole step or epoch ended; a finished one is left as it is. Raises InputError for bad
    input and RunError where ``out`` holds another run, is no empty folder, or is full.
    """
    with _prepared(spec, Path(out), progress or silent, corpus) as prepared:
        return prepared()


def train_into(
    spec: TranslationSpec, out: str | Path, progress: Progress | None = None, corpus: ParallelCorpus | None = None, writes: bool = False
) -> Path:
    """The first half of `translate`: train and collect into the folder ``out``, one that a study names; returns it.

    With ``writes`` the test split is translated too.
    """
    with _prepared(spec, Path(out), progress or silent, corpus, f"remove {out}: what it held is made again") as prepared:
        return prepared.train(writes)


@contextlib.contextmanager
def _prepared(spec: TranslationSpec, out: Path, progress: Progress, corpus: ParallelCorpus | None, do: str = "") -> Iterator[_Run]:
    """The run with its corpus read, holding its place; ``do`` is said where that is another's."""
    from attnaudit.corpora.named.pairs import read_parallel

    plain = spec.to_json()
    check_place(out, plain, do)
    device = resolve_device(spec.device)
    corpus = corpus or read_parallel(spec.corpus, seed=spec.seed, progress=progress)
    plain["fingerprint"] = corpus.fingerprint
    check_place(out, plain, do)
    with alone(out) as ledger:
        yield _Run(spec, plain, corpus, device, ledger, progress)


@dataclass(frozen=True)
class _Fitted:
    translator: Translator
    history: list[Epoch]
    remarks: list[str]


@dataclass(frozen=True)
class _Run:
    """The steps of one run whose corpus is read and whose place is held."""

    spec: TranslationSpec
    plain: dict[str, Any]
    corpus: ParallelCorpus
    device: str
    ledger: Ledger
    progress: Progress

    def __call__(self) -> Path:
        trained = self._train()
        traced = self.spec.model.attention != "none"
        if traced:
            self._collect(trained)
        self._translate(trained)
        self._judge(traced)
        self._report(traced)
        self.ledger.close(self._manifest())
        return self.ledger.out

    def train(self, writes: bool) -> Path:
        """Train and collect, translate if that is asked for, and no more."""
        trained = self._train()
        self._collect(trained)
        if writes:
            self._translate(trained)
        self.ledger.close(self._manifest())
        return self.ledger.out

    def _train(self) -> Record:
        parts = {name: self.plain[name] for name in ("model", "training", "seed", "objective")}
        if self.spec.probe is not None:
            parts |= {name: self.plain[name] for name in ("probe", "collect")}
        cut = (self.spec.corpus.chosen_units, self.spec.corpus.pieces, self.spec.corpus.chosen_min_df)
        key = content_key("train", self.plain["fingerprint"], parts, cut, self.device)
        checkpoint = self.ledger.scratch / f"checkpoint-{key[:12]}"
        outputs = ("model",) if self.spec.probe is None else ("model", STEP_FOLDER)
        return self.ledger.step("train", key, outputs, lambda: self._fit(checkpoint), lambda fitted: self._save(fitted, checkpoint))

    def _fit(self, checkpoint: Path) -> _Fitted:
        from attnaudit.models.translator import Translator
        from attnaudit.training.pairs import train_translator

        spec, texts = self.spec, self.spec.corpus
        self.progress("learn the units", 0, 0)
        translator = Translator.learn(
            spec.model, self.corpus.splits["train"], texts.chosen_units, texts.pieces, texts.chosen_min_df, spec.seed
        )
        remarks = self._remarks(translator)
        if not (self.ledger.out / "spec.json").exists():
            write_json(self.ledger.out / "spec.json", self.plain)
        history = train_translator(
            translator, self.corpus, spec.training, seed=spec.seed, device=self.device, checkpoint=checkpoint, progress=self.progress,
            objective=spec.objective, callback=self._watch(translator, checkpoint),
        )  # fmt: skip
        return _Fitted(translator, history, remarks)

    def _remarks(self, translator: Translator) -> list[str]:
        """What is to be known of the pairs once they are cut; what cannot be read or recorded is told here, before hours of training."""
        from attnaudit.corpora.parallel import links_left_out
        from attnaudit.tracing.pairs import check_settings

        inputs = {name: translator.inputs(pairs, f"{name} split") for name, pairs in self.corpus.splits.items()}
        if self.spec.model.attention != "none":
            check_settings(translator, self.spec.collect)
        unlinked = {f"{name} split": made.unlinked for name, made in inputs.items() if made.unlinked}
        told = [links_left_out(split, rows, "words without pieces of their own") for split, rows in unlinked.items()]
        return [*told, *self._unknown(inputs["test"])]

    def _unknown(self, test: PairInputs) -> list[str]:
        """Many target tokens that the vocabulary lacks, and which settings may leave fewer."""
        unknown, tokens, corpus = test.unknown, int(test.tokens.sum()), self.spec.corpus
        if unknown < MANY_UNKNOWN * tokens:
            return []
        by_words = "corpus.units=pieces" if corpus.chosen_min_df == 1 else "corpus.min_df=1 or corpus.units=pieces"
        fewer = f"corpus.pieces below {corpus.pieces}" if corpus.chosen_units == "pieces" else by_words
        return [
            f"test split: {unknown} of {tokens} target tokens are not in the vocabulary of train ({UNKNOWN}); they are never right and "
            f"stand in no dictionary; {fewer} may leave fewer"
        ]

    def _watch(self, translator: Translator, folder: Path) -> StepCallback | None:
        """Traces of the probe go beside the checkpoint that goes on from them."""
        from attnaudit.tracing.watch import watching_pairs

        if self.spec.probe is None:
            return None
        return watching_pairs(translator, self._traced(), self.spec.probe, folder, self.spec.collect, self._origin(translator))

    def _save(self, fitted: _Fitted, checkpoint: Path) -> dict[str, Any]:
        from attnaudit.training.loop import best_epoch

        fitted.translator.save(self.ledger.out / "model")
        if self.spec.probe is not None:
            keep_steps(self.spec.probe, checkpoint, self.ledger.out)
        notes = {"history": [asdict(epoch) for epoch in fitted.history], "best_epoch": best_epoch(fitted.history).epoch}
        return notes | ({"remarks": fitted.remarks} if fitted.remarks else {})

    def _translator(self) -> Translator:
        from attnaudit.models.translator import Translator

        translator = Translator.load(self.ledger.out / "model")
        translator.model.to(self.device)
        return translator

    def _collect(self, train: Record) -> Record:
        from attnaudit.trace import write_shards

        key = content_key("collect", self.plain["fingerprint"], train.files, self.plain["collect"], self.spec.seed, self.device)
        folder = self.ledger.out / "trace"
        return self.ledger.step(
            "collect", key, ("trace",), lambda: self._shards(train), lambda shards: {"shards": len(write_shards(folder, shards))}
        )

    def _shards(self, train: Record) -> Iterator[Trace]:
        from attnaudit.tracing.pairs import collect_pairs

        translator = self._translator()
        metadata = self._metadata(train, translator)
        yield from collect_pairs(translator, self._traced(), "test", self.spec.collect, metadata=metadata, progress=self.progress)

    def _traced(self) -> Pairs:
        """The pairs of test that are traced, the same of all trainings of a study."""
        pairs, size = self.corpus.splits["test"], self.spec.collect.pairs
        seed = self.spec.seed if self.spec.corpus.seed is None else self.spec.corpus.seed
        return pairs.take(Probe(size=len(pairs) if size is None else size, seed=seed).rows(pairs.instance))

    def _metadata(self, train: Record, translator: Translator) -> dict[str, Any]:
        """What a trace of the trained model tells of its origin."""
        origin = self._origin(translator)
        return {
            **origin,
            "corpus": {**origin["corpus"], "notes": [*self.corpus.notes, *train.notes.get("remarks", [])]},
            "model": {**origin["model"], "fingerprint": weights_fingerprint(translator.model)},
            "training": {**origin["training"], "best_epoch": train.notes["best_epoch"]},
        }

    def _origin(self, translator: Translator) -> dict[str, Any]:
        """What any trace tells of its origin: nothing in it depends on when, where or how fast it was made."""
        spec, corpus = self.plain, self.corpus
        settings = {name: value for name, value in spec["corpus"].items() if name not in ("source", "data_dir")}
        return {
            "corpus": {
                **settings, "name": corpus.name, "task": "translation", "fingerprint": corpus.fingerprint, "notes": list(corpus.notes),
            },
            "collect": spec["collect"],
            "model": {"encoder": "bilstm", **asdict(translator.model.settings), "preset": spec["preset"]},
            "training": spec["training"],
            "seed": self.spec.seed,
            "versions": versions(),
        }  # fmt: skip

    def _translate(self, train: Record) -> Record:
        key = content_key("translate", self.plain["fingerprint"], train.files, self.plain["decode"], OF_TOKENS, self.device)
        return self.ledger.step("translate", key, (TRANSLATIONS,), self._written, self._keep_written)

    def _written(self) -> tuple[list[str], dict[str, Any]]:
        """Translations of the test split, and how well gold tokens are told with teacher forcing."""
        from attnaudit.training.decoding import decode, words_of
        from attnaudit.training.pairs import teacher_forced

        translator, pairs = self._translator(), self.corpus.splits["test"]
        inputs = translator.inputs(pairs, "test split")
        rows = words_of(translator.model, decode(translator.model, inputs, self.spec.decode.beam, self.progress))
        loss, accuracy = teacher_forced(translator.model, inputs)
        tokens = int(inputs.tokens.sum())
        notes = {"loss": loss, "token_accuracy": accuracy, "unknown": inputs.unknown / tokens, "tokens": tokens}
        return [translator.units.join(row) for row in rows], notes

    def _keep_written(self, made: tuple[list[str], dict[str, Any]]) -> dict[str, Any]:
        written, notes = made
        pairs = self.corpus.splits["test"]
        columns = zip(pairs.instance.tolist(), pairs.source, pairs.target, written, strict=True)
        rows = (dict(zip(("instance", "source", "reference", "translation"), row, strict=True)) for row in columns)
        write_text(self.ledger.out / TRANSLATIONS, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
        return notes

    def _judge(self, traced: bool) -> Record:
        """Audit the trace, and beside it what the translations and the alignments say."""
        out, trace = self.ledger.out, self.ledger.out / "trace"
        battery, made = Battery(list(self.spec.experiments), self.spec.experiments), self.ledger.scratch / "audit"
        digests = trace_digests(trace) if traced else None
        translated = self.ledger.records["translate"]
        key = content_key("audit", digests, translated.files, translated.notes, list(battery.names), battery.settings)

        def keep(results: Results | None) -> dict[str, Any]:
            notes = {"left_out": {}} if results is None else keep_results(results, made, out, trace)
            audited = read_json(out / RESULTS[1]) if results is not None else []
            aligned = [row for row in audited if row["experiment"] == "alignment"]  # they stand with those of the dictionary
            write_json(out / RESULTS[1], [*(row for row in audited if row not in aligned), *self._rows(traced, aligned)])
            return notes

        outputs = (*RESULTS, DICTIONARY) if traced else RESULTS
        return self.ledger.step("audit", key, outputs, lambda: battery(trace, made, self.progress) if traced else None, keep)

    def _rows(self, traced: bool, aligned: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Summary rows of the translations, of known alignments and of the dictionary."""
        from attnaudit.experiments.alignment import dictionary, dictionary_rows
        from attnaudit.trace import Trace

        self.progress("count BLEU", 0, 0)
        rows = translation_rows(self.corpus.splits["test"], read_translations(self.ledger.out), self.ledger.records["translate"].notes)
        if not traced:
            (self.ledger.out / RESULTS[0]).mkdir(exist_ok=True)
            return rows
        trace = Trace.read(self.ledger.out / "trace")
        words = dictionary(trace)
        with atomic(self.ledger.out / DICTIONARY) as temporary:
            words.write_parquet(temporary)
        return [*rows, *aligned, *dictionary_rows(words), *self._over_all_words(trace)]

    def _over_all_words(self, trace: Trace) -> list[dict[str, Any]]:
        """How much of the model's probability the kept words hold, and what attention of the audit does to that of all words."""
        from attnaudit.core.ragged import Ragged
        from attnaudit.experiments.adversary import Adversary
        from attnaudit.tracing.pairs import change_of_output

        measured = {"covered": trace.array("covered").astype(np.float64)}
        audited = self.ledger.out / RESULTS[0] / "adversary.parquet"
        if audited.exists():
            found = Ragged.from_rows(pl.read_parquet(audited, columns=["alpha"])["alpha"].to_list(), np.float64)
            moved = change_of_output(self._translator(), self._traced(), trace, found)
            epsilon = self.spec.experiments.get("adversary", {}).get("epsilon", Adversary().epsilon)
            measured |= {"adversary_change": moved, "adversary_within": (moved <= epsilon + ROUNDING).astype(np.float64)}
        frame = pl.DataFrame({**measured, CLUSTER: trace.instance}).lazy()
        return summarise_means("translation", [("all", frame)], self.spec.seed).to_dicts()

    def _report(self, traced: bool) -> Record:
        from attnaudit.report import write_report
        from attnaudit.report.translation_page import write_translation

        pages = PAGES if traced else PAGES[1:]

        def keep(_: None) -> dict[str, Any]:
            self.progress("write the report", 0, 0)
            if traced:
                write_report(self.ledger.out)
            write_translation(self.ledger.out)
            return {}

        made_from = {name: record.files for name, record in self.ledger.records.items() if name in ("collect", "translate", "audit")}
        key = content_key("report", made_from, sha256(self.ledger.out / "spec.json"))
        return self.ledger.step("report", key, pages, lambda: None, keep)

    def _manifest(self) -> dict[str, Any]:
        records = self.ledger.records
        return {
            **manifest(self.ledger),
            "kind": "translation",
            "device": self.device,
            "seeds": {"run": self.spec.seed},
            "corpus": {
                "name": self.corpus.name,
                "task": "translation",
                "fingerprint": self.corpus.fingerprint,
                "rows": {name: len(pairs) for name, pairs in self.corpus.splits.items()},
            },
            "notes": [*self.corpus.notes, *records["train"].notes.get("remarks", [])],
            "training": {name: records["train"].notes[name] for name in ("best_epoch", "history")},
            "skipped": [asdict(row) for row in self.corpus.skipped],
        }


def read_translations(out: Path) -> list[dict[str, Any]]:
    """{instance, source, reference, translation} of every pair of the test split."""
    with (out / TRANSLATIONS).open(encoding="utf-8") as file:  # and no splitlines: in a text stand other ends of lines, as U+2028
        return [json.loads(line) for line in file]


def translation_rows(pairs: Pairs, written: Sequence[dict[str, Any]], notes: dict[str, Any]) -> list[dict[str, Any]]:
    """Summary rows: BLEU of the translations (sacrebleu; 95 % bootstrap interval over pairs), and means over gold tokens: how many are told
    right, their loss, how many the vocabulary lacks.
    """
    from sacrebleu.metrics.bleu import BLEU

    bleu = BLEU()
    texts = [row["translation"] for row in written]
    plain = bleu.corpus_score(texts, [list(pairs.target)])
    drawn = bleu.corpus_score(texts, [list(pairs.target)], n_bootstrap=1000)
    half, middle = (getattr(drawn, f"_{name}") for name in ("ci", "mean"))
    figures = [("bleu", plain.score, middle - half, middle + half, len(pairs), str(bleu.get_signature()))]
    figures += [(name, notes[name], None, None, notes["tokens"], None) for name in OF_TOKENS]
    return [summary_row("translation", name, value, low, high, n=n, source=source) for name, value, low, high, n, source in figures]
