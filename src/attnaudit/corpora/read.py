"""Reading a corpus: a named one, one file, or a folder of split files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from attnaudit.core.errors import InputError, did_you_mean
from attnaudit.corpora.corpus import SPLITS, Corpus, Split, Task, fingerprint, row_digests
from attnaudit.corpora.formats.lines import printable
from attnaudit.corpora.formats.rows import Columns, ordered_classes
from attnaudit.corpora.locate import PLANTED, Place, locate
from attnaudit.corpora.named.registered import NO_BOUNDS, USUAL_PARTING, Parting, Registered
from attnaudit.corpora.planted.texts import planted_corpus
from attnaudit.corpora.prepare.classes import (
    check_classes,
    check_learnable,
    learnt_classes,
    leave_out_unknown_labels,
    refuse_unknown_labels,
)
from attnaudit.corpora.prepare.gathered import Gathered, as_split
from attnaudit.corpora.prepare.gathering import Gathering, Progress, gather
from attnaudit.corpora.prepare.parting import Examples, one_pool, parted
from attnaudit.corpora.prepare.remarks import class_remarks, count_remarks, duplicate_remarks, gathering_remarks
from attnaudit.corpora.prepare.tokenise import Tokeniser

Preset = Literal["paper", "code2019", "flan", "han"]
Sentences = Literal["rule", "lines"]
_MIN_DF = ((20_000, 10), (10_000, 5), (0, 1))  # train rows from, min_df; about as the paper chose for its corpora


def read_corpus(
    source: str | Path,
    *,
    data_dir: str | Path | None = None,
    seed: int = 0,
    text: str = "text",
    label: str = "label",
    question: str | None = None,
    rationale: str | None = None,
    on_bad_row: Literal["error", "skip"] = "error",
    max_tokens: int | None = None,
    min_df: int | None = None,
    train_kept: float | None = None,
    test_kept: float | None = None,
    sentences: Sentences = "rule",
    preset: Preset = "paper",
    progress: Progress | None = None,
) -> Corpus:
    """Read and tokenise a corpus.

    ``source`` is a registered name (``sst``, ``babi1``, ``planted-decisive``, …), one csv, tsv, jsonl or parquet file, also gzipped
    (split 80/10/10 by class with ``seed``), or a folder with such files named train, test and perhaps dev (else 15 % of train).
    ``data_dir`` is where named corpora lie. ``text`` and ``label`` name the columns of other files, ``question`` the one that holds
    the question or hypothesis that goes with a text (the task is then question answering), ``rationale``, of jsonl and parquet, one
    of lists of [start, stop]: characters of the text that are known to decide the label, which should end at white space.

    A bad row raises, or is skipped and listed with ``on_bad_row="skip"``. ``max_tokens`` cuts long texts. ``min_df`` is by default the
    named corpus's own, else 1, 5 or 10 by size. ``train_kept`` and ``test_kept`` are the shares of the train and test rows that are
    used, drawn by class: by default the named corpus's own, else 1. ``sentences`` says where they end for a hierarchical model: by
    ``rule``, or given as ``lines``. ``preset`` chooses the paper's filters of a named corpus or those of its released code.
    ``progress(split, rows)`` is called now and then. Test rows decide nothing: not classes, not the split of dev.

    Raises InputError with file and row. Preparation follows Jain & Wallace 2019, §2.
    """
    shares = {"train_kept": train_kept, "test_kept": test_kept}
    check_settings(on_bad_row, max_tokens, min_df, shares, sentences, preset)
    if isinstance(source, str) and source in PLANTED:
        return planted_corpus(PLANTED[source], seed=seed)
    place = locate(source, data_dir, Columns(text, label, question, rationale))
    entry = place.entry
    task: Task = entry.task if entry else "classification" if question is None else "question_answering"
    how = replace(_gathering(entry, task, on_bad_row == "skip", max_tokens, preset, progress), lines=sentences == "lines")
    gathered = {split: gather(place.sources[split], split, how) for split in ("all", *SPLITS) if split in place.sources}
    parting = entry.parting if entry else USUAL_PARTING
    parting = replace(parting, **{name: share for name, share in shares.items() if share is not None})
    examples, remarks = _parted(gathered, place, how, parting, seed)
    names = (entry.class_names if entry else ()) or learnt_classes(examples["train"])
    splits = {split: as_split(examples[split], how.classes or names) for split in SPLITS}
    if task == "classification":
        _check_dev(place, splits["dev"], names)
    df = min_df or (entry.min_df if entry else _default_min_df(len(splits["train"])))
    digests = {name: row_digests(split) for name, split in splits.items()}
    remarks += [*gathering_remarks(gathered, max_tokens), *class_remarks(names, splits, task)]
    remarks += count_remarks(_expected(entry, parting, preset) if entry else {}, splits)
    remarks += duplicate_remarks(splits, digests)
    if min_df is None and not entry and df > 1:
        remarks.append(f"words in fewer than {df} of the {len(splits['train'])} train rows are unknown words; min_df=1 keeps them all")
    skipped = tuple(row for rows in gathered.values() for row in rows.skipped)
    notes = tuple(map(printable, remarks))  # they may name files
    return Corpus(printable(place.name), names, splits, df, fingerprint(names, df, splits, digests), notes, skipped, task)


def _expected(entry: Registered, parting: Parting, preset: str) -> dict[str, tuple[int, ...]]:
    """The rows that are known of a named corpus, but for splits of which another share than its own is kept."""
    changed = {name for name in ("train", "test") if getattr(parting, f"{name}_kept") != getattr(entry.parting, f"{name}_kept")}
    known = entry.of_preset(entry.expected, preset, {})
    return {name: counts for name, counts in known.items() if changed.isdisjoint(name.split("+"))}


def check_settings(
    on_bad_row: str, max_tokens: int | None, min_df: int | None, shares: Mapping[str, float | None], sentences: str, preset: str
) -> None:  # fmt: skip
    """Raise InputError for a setting that `read_corpus` does not know."""
    named = (
        ("on_bad_row", on_bad_row, ("error", "skip")),
        ("sentences", sentences, get_args(Sentences)),
        ("preset", preset, get_args(Preset)),
    )
    for option, value, known in named:
        if value not in known:
            raise InputError("read corpus", option, f"'{value}'", " or ".join(known), did_you_mean(value, known))
    for option, number in (("max_tokens", max_tokens), ("min_df", min_df)):
        if number is not None and number < 1:
            raise InputError("read corpus", option, str(number), "1 or more")
    for option, share in shares.items():
        if share is not None and not 0 < share <= 1:
            raise InputError("read corpus", option, str(share), "a share above 0, up to 1")


def _gathering(
    entry: Registered | None, task: Task, skip_bad: bool, max_tokens: int | None, preset: str, progress: Progress | None
) -> Gathering:
    has_question = task != "classification"
    if entry is None:
        return Gathering(Tokeniser(), skip_bad, max_tokens, has_question=has_question, progress=progress)
    tokeniser = Tokeniser(entry.mask_digits, entry.whole_words)
    tokenise = tokeniser if entry.clean is None else _after(entry.clean, tokeniser)
    classes = tuple(str(number) for number in range(len(entry.class_names))) or None
    return Gathering(tokenise, skip_bad, max_tokens, entry.of_preset(entry.bounds, preset, NO_BOUNDS), classes, has_question, progress)


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
