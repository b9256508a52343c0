"""Reading a corpus: a named one, one file, or a folder of split files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from attnaudit.core.errors import InputError
from attnaudit.core.progress import Progress, silent
from attnaudit.core.settings import coerce, from_plain
from attnaudit.corpora.corpus import SPLITS, Corpus, Split, Task, fingerprint, row_digests
from attnaudit.corpora.formats.lines import printable
from attnaudit.corpora.formats.rows import Columns, ordered_classes
from attnaudit.corpora.locate import PLANTED, Place, locate
from attnaudit.corpora.named.registered import NO_BOUNDS, USUAL_PARTING, Parting, Registered
from attnaudit.corpora.named.registry import REGISTRY
from attnaudit.corpora.planted.texts import planted_corpus
from attnaudit.corpora.prepare.classes import (
    check_classes,
    check_learnable,
    learnt_classes,
    leave_out_unknown_labels,
    refuse_unknown_labels,
)
from attnaudit.corpora.prepare.gathered import Gathered, as_split
from attnaudit.corpora.prepare.gathering import Gathering, gather
from attnaudit.corpora.prepare.parting import Examples, one_pool, parted
from attnaudit.corpora.prepare.remarks import class_remarks, count_remarks, duplicate_remarks, gathering_remarks
from attnaudit.corpora.prepare.tokenise import Tokeniser
from attnaudit.corpora.spec import CorpusSpec, Preset, generated, refuse_generated

_MIN_DF = ((20_000, 10), (10_000, 5), (0, 1))  # train rows from, min_df; about as the paper chose for its corpora


def read_corpus(
    source: CorpusSpec | str | Path, *, seed: int = 0, preset: str = "paper", progress: Progress = silent, **options: Any
) -> Corpus:
    """Read and tokenise a corpus, or generate a planted one.

    ``source`` is a registered name (``sst``, ``babi1``, ``planted-decisive``, …), one csv, tsv, jsonl or parquet file, also gzipped
    (split 80/10/10 by class), a folder with such files named train, test and perhaps dev (else 15 % of train), or a `CorpusSpec`;
    ``options`` are fields of `CorpusSpec`, as ``text="body", max_tokens=400``. A ``question`` column makes the task question answering;
    the spans of a ``rationale`` column should end at white space. The splits are drawn with the spec's own seed, else with ``seed``.
    ``preset`` chooses the filters of a registered corpus: the paper's, or those of its released code. ``progress`` is called now and then.
    Test rows decide nothing: neither the classes nor the split of dev.

    Raises InputError with file and row, or for an option. Preparation follows Jain & Wallace 2019, section 2.
    """
    spec = source if isinstance(source, CorpusSpec) else _spec(source, options)
    coerce(preset, Preset, "preset")
    seed = seed if spec.seed is None else spec.seed
    if spec.source in PLANTED:
        return planted_corpus(PLANTED[spec.source], seed=seed, **generated(spec))
    place = locate(spec.source, spec.data_dir, Columns(spec.text, spec.label, spec.question, spec.rationale))
    refuse_generated(spec)
    entry = place.entry
    task: Task = entry.task if entry else "classification" if spec.question is None else "question_answering"
    how = _gathering(entry, task, spec, preset, progress)
    gathered = {split: gather(place.sources[split], split, how) for split in ("all", *SPLITS) if split in place.sources}
    parting = _parting(entry, spec)
    examples, remarks = _parted(gathered, place, how, parting, seed)
    names = (entry.class_names if entry else ()) or learnt_classes(examples["train"])
    splits = {split: as_split(examples[split], how.classes or names) for split in SPLITS}
    if task == "classification":
        _check_dev(place, splits["dev"], names)
    df = spec.min_df or (entry.min_df if entry else _default_min_df(len(splits["train"])))
    digests = {name: row_digests(split) for name, split in splits.items()}
    remarks += [*gathering_remarks(gathered, spec.max_tokens), *class_remarks(names, splits, task)]
    remarks += count_remarks(_expected(entry, parting, preset) if entry else {}, splits)
    remarks += duplicate_remarks(splits, digests)
    if spec.min_df is None and not entry and df > 1:
        remarks.append(f"words in fewer than {df} of the {len(splits['train'])} train rows are unknown words; min_df=1 keeps them all")
    skipped = tuple(row for rows in gathered.values() for row in rows.skipped)
    notes = tuple(map(printable, remarks))  # they may name files
    return Corpus(printable(place.name), names, splits, df, fingerprint(names, df, splits, digests), notes, skipped, task)


def _spec(source: str | Path, options: Mapping[str, Any]) -> CorpusSpec:
    """Options as a spec; a `Path` is never a registered name. Raises InputError."""
    named = f"./{source}" if isinstance(source, Path) and str(source) in (*REGISTRY, *PLANTED) else str(source)
    plain = {name: str(value) if isinstance(value, Path) else value for name, value in options.items()}
    return from_plain(CorpusSpec, {"source": named, **plain}, "corpus")


def _parting(entry: Registered | None, spec: CorpusSpec) -> Parting:
    shares = {name: share for name in ("train_kept", "test_kept") if (share := getattr(spec, name)) is not None}
    return replace(entry.parting if entry else USUAL_PARTING, **shares)


def _expected(entry: Registered, parting: Parting, preset: str) -> dict[str, tuple[int, ...]]:
    """The rows that are known of a named corpus, but for splits of which another share than its own is kept."""
    changed = {name for name in ("train", "test") if getattr(parting, f"{name}_kept") != getattr(entry.parting, f"{name}_kept")}
    known = entry.of_preset(entry.expected, preset, {})
    return {name: counts for name, counts in known.items() if changed.isdisjoint(name.split("+"))}


def _gathering(entry: Registered | None, task: Task, spec: CorpusSpec, preset: str, progress: Progress) -> Gathering:
    given: dict[str, Any] = {
        "skip_bad": spec.on_bad_row == "skip", "max_tokens": spec.max_tokens, "has_question": task != "classification",
        "lines": spec.sentences == "lines", "progress": lambda split, rows: progress(f"read {split}", rows, 0),
    }  # fmt: skip
    if entry is None:
        return Gathering(Tokeniser(), **given)
    tokeniser = Tokeniser(entry.mask_digits, entry.whole_words)
    tokenise = tokeniser if entry.clean is None else _after(entry.clean, tokeniser)
    classes = tuple(str(number) for number in range(len(entry.class_names))) or None
    return Gathering(tokenise, bounds=entry.of_preset(entry.bounds, preset, NO_BOUNDS), classes=classes, **given)


def _after(clean: Callable[[str], str], tokeniser: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    return lambda text: tokeniser(clean(text))


def _parted(gathered: dict[str, Gathered], place: Place, how: Gathering, parting: Parting, seed: int) -> tuple[Examples, list[str]]:
    """Train, dev and test of what was read, after the labels that cannot be learned are gone; and remarks."""
    whole = one_pool(gathered, parting)
    train = whole.get("all") or whole["train"]
    known = how.classes or learnt_classes(train.examples)
    if place.entry is None:
        check_learnable(train)
        refuse_unknown_labels(whole, known, how.skip_bad)
    elif how.classes is None:
        leave_out_unknown_labels(whole, known)
    check_classes(whole, how.classes)
    called = "one file" if whole is gathered else f"{' and '.join(gathered)} taken together"
    examples, remarks = parted(whole, how.classes or ordered_classes(train.labels), parting, seed, called)
    notes = dict.fromkeys([*place.remarks, *(rows.note for rows in gathered.values() if rows.note)])
    return examples, [*notes, *remarks]


def _check_dev(place: Place, dev: Split, names: tuple[str, ...]) -> None:
    """The ROC-AUC by which an epoch is chosen needs two classes."""
    present = np.unique(dev.label)
    if len(present) < 2:
        got = f"only {len(dev)} row(s) of class {names[present[0]]} for dev"
        expected = "rows of at least two classes, to choose an epoch by"
        source = place.sources.get("dev")
        leave_out = ", or leave the dev file out to take 15 % of train" if source and source.path.is_file() else ""
        raise InputError("read corpus", place.name, got, expected, f"add rows{leave_out}")


def _default_min_df(train_rows: int) -> int:
    return next(df for rows, df in _MIN_DF if train_rows >= rows)
