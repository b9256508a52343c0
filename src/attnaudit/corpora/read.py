"""Reading a corpus: a named one, one file, a folder of split files, or a table in memory."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from attnaudit.core.errors import InputError
from attnaudit.core.numbers import count
from attnaudit.core.printable import printable
from attnaudit.core.progress import Progress, silent
from attnaudit.core.settings import coerce, from_plain
from attnaudit.corpora.corpus import SPLITS, Corpus, Split, Task, fingerprint, row_digests
from attnaudit.corpora.entry import NO_BOUNDS, USUAL_PARTING, CorpusEntry, Parting
from attnaudit.corpora.formats.frames import frame_name, frame_sources
from attnaudit.corpora.formats.lines import require_utf8
from attnaudit.corpora.formats.rows import Columns, SplitSource, column_option
from attnaudit.corpora.formats.tables import Dialect, file_source, folder_sources, stem_and_format
from attnaudit.corpora.prepare.gathering import Gathered, Gathering, as_split, gather
from attnaudit.corpora.prepare.splitting import divided, learnt_classes
from attnaudit.corpora.prepare.tokenise import Tokeniser
from attnaudit.corpora.registry import CORPORA, corpus_sources, missing_corpus
from attnaudit.corpora.spec import CorpusSpec, Preset, generated, refuse_generated, refuse_own

_IN_MEMORY = "(a table in memory)"  # the source in the specification of such a corpus
_UNTELLING = {"all", "data"}  # names of files that say nothing about the corpus
_MIN_DF = (
    (20_000, 10),
    (10_000, 5),
    (0, 1),
)  # train rows from, min_df; about as the paper chose for its corpora


def read_corpus(
    source: CorpusSpec | str | Path | Any,
    *,
    seed: int = 0,
    preset: str = "paper",
    progress: Progress = silent,
    raw: bool = False,
    **options: Any,
) -> Corpus:
    """Read and tokenise a corpus, or generate a planted one.

    ``source`` is a registered name (``sst``, ``babi1``, ``planted-decisive``, …), one csv, tsv, jsonl or parquet file, also gzipped
    (split 80/10/10 by class), a folder with such files named train, test and perhaps dev (else 15 % of train), or a `CorpusSpec`. A
    table in memory is read as a file is: a DataFrame of polars or pandas, a Table of pyarrow, a Dataset of Hugging Face, whose labels are
    the names that it has for them; a mapping of train and test to such tables, as a DatasetDict, is read as a folder is.
    ``options`` are fields of `CorpusSpec`, as ``text="body", max_tokens=400``. A ``question`` column makes the task question answering;
    the spans of a ``rationale`` column should end at white space. The splits are drawn with the spec's own seed, else with ``seed``.
    ``preset`` chooses the filters of a registered corpus: the paper's, or those of its released code. ``progress`` is called now and then.
    With ``raw``, `Split.raw` holds the texts of the files, for a model with a tokenizer of its own: the rows are the same, the words of
    your own files are those that white space parts, and options of words (tokenizer, lowercase, digits, max_tokens, min_df, sentences,
    removed) are refused.
    Test rows decide nothing: neither the classes nor the split of dev.

    Raises InputError with file and row, or for an option. Preparation follows Jain & Wallace 2019, section 2.
    """
    in_memory = not isinstance(source, CorpusSpec | str | Path)
    spec = (
        source
        if isinstance(source, CorpusSpec)
        else _spec(source if isinstance(source, str | Path) else _IN_MEMORY, options)
    )
    coerce(preset, Preset, "preset")
    seed = seed if spec.seed is None else spec.seed
    entry = CORPORA.get(spec.source)
    if entry is not None and entry.generate is not None and entry.task != "translation":
        return cast(Corpus, entry.generate(seed=seed, **generated(spec)))
    if entry is not None:
        refuse_own(spec)
    if raw:
        refuse_words(spec)
    columns, dialect = (
        Columns(spec.text, spec.label, spec.question, spec.rationale),
        dialect_of(spec),
    )
    if in_memory:
        place = _Place(frame_name(source), frame_sources(source, columns, dialect))
    else:
        place = _located(spec.source, spec.data_dir, columns, dialect)
    refuse_generated(spec)
    task: Task = (
        entry.task if entry else "classification" if spec.question is None else "question_answering"
    )
    how = _gathering(entry, task, spec, preset, progress, raw)
    gathered = {
        split: gather(place.sources[split], split, how)
        for split in ("all", *SPLITS)
        if split in place.sources
    }
    parting = _parting(entry, spec)
    examples, found = divided(gathered, how, entry is not None, parting, seed)
    remarks = [*dict.fromkeys([*place.remarks, *found])]
    names = (entry.class_names if entry else ()) or learnt_classes(examples["train"])
    splits = {split: as_split(examples[split], how.classes or names) for split in SPLITS}
    if task == "classification":
        _check_dev(place, splits["dev"], names)
    df = spec.min_df or (
        entry.min_df
        if entry
        else next(df for rows, df in _MIN_DF if len(examples["train"]) >= rows)
    )
    digests = {name: row_digests(split) for name, split in splits.items()}
    remarks += [
        *gathering_remarks(gathered, sys.maxsize if raw else spec.max_tokens),
        *class_remarks(names, splits, task),
    ]
    for name, counts, got, agree in counts_compared(
        _expected(entry, parting, preset) if entry else {}, splits
    ):
        per_class = " per class" if "/" in counts else ""
        remarks += (
            []
            if agree
            else [f"{name} has {got} rows{per_class} where the published corpus has {counts}"]
        )
    remarks += duplicate_remarks(splits, digests)
    if spec.min_df is None and not entry and not raw and df > 1:
        remarks.append(
            f"words in fewer than {df} of the {len(splits['train'])} train rows are unknown words; min_df=1 keeps them all"
        )
    skipped = tuple(row for rows in gathered.values() for row in rows.skipped)
    notes = tuple(map(printable, remarks))  # they may name files
    return Corpus(
        printable(place.name),
        names,
        splits,
        df,
        fingerprint(names, df, splits, digests),
        notes,
        skipped,
        task,
    )


def _spec(source: str | Path, options: Mapping[str, Any]) -> CorpusSpec:
    """Options as a spec; a `Path` is never a registered name. Raises InputError."""
    named = f"./{source}" if isinstance(source, Path) and str(source) in CORPORA else str(source)
    plain = {
        name: str(value) if isinstance(value, Path) else value for name, value in options.items()
    }
    return from_plain(CorpusSpec, {"source": named, **plain}, "corpus")


def _parting(entry: CorpusEntry | None, spec: CorpusSpec) -> Parting:
    shares = {
        name: share
        for name in ("train_kept", "test_kept")
        if (share := getattr(spec, name)) is not None
    }
    return replace(entry.parting if entry else USUAL_PARTING, **shares)


def _expected(entry: CorpusEntry, parting: Parting, preset: str) -> dict[str, tuple[int, ...]]:
    """The rows that are known of a named corpus, but for splits of which another share than its own is kept."""
    changed = {
        name
        for name in ("train", "test")
        if getattr(parting, f"{name}_kept") != getattr(entry.parting, f"{name}_kept")
    }
    known = entry.of_preset(entry.expected, preset, {})
    return {name: counts for name, counts in known.items() if changed.isdisjoint(name.split("+"))}


def refuse_words(spec: CorpusSpec) -> None:
    """Raise InputError for an option of words where raw texts are read."""
    chosen = {"digits": spec.digits == "mask", "sentences": spec.sentences == "lines"}
    chosen |= {
        name: getattr(spec, name) is not None
        for name in ("tokenizer", "lowercase", "max_tokens", "min_df", "removed", "planted")
    }
    for name in (name for name, given in chosen.items() if given):
        got = "an option of words for a model with a tokenizer of its own"
        raise InputError(
            "read settings", f"setting corpus.{name}", got, "no such option", "leave it out"
        )


def _gathering(
    entry: CorpusEntry | None,
    task: Task,
    spec: CorpusSpec,
    preset: str,
    progress: Progress,
    raw: bool,
) -> Gathering:
    given: dict[str, Any] = {
        "skip_bad": spec.on_bad_row == "skip", "max_tokens": spec.max_tokens, "has_question": task != "classification",
        "lines": spec.sentences == "lines", "progress": lambda split, rows: progress(f"read {split}", rows, 0), "raw": raw,
    }  # fmt: skip
    if entry is None:
        language = "en" if spec.tokenizer is None else spec.tokenizer
        tokenise = (
            str.split
            if raw
            else Tokeniser(
                spec.digits == "mask", language=language, lowercase=spec.lowercase is not False
            )
        )
        return Gathering(tokenise, encoding=spec.encoding or "utf-8", **given)
    tokeniser = Tokeniser(entry.mask_digits, entry.whole_words)
    clean = entry.clean or str
    classes = tuple(map(str, range(len(entry.class_names)))) or None
    return Gathering(
        lambda text: tokeniser(clean(text)),
        bounds=entry.of_preset(entry.bounds, preset, NO_BOUNDS),
        classes=classes,
        **given,
    )


def word_rules(spec: CorpusSpec, preset: str) -> Callable[[str], list[str]]:
    """The rules by which this corpus finds the words of a text: for texts typed to a model that was trained on it. Raises InputError."""
    entry = CORPORA.get(spec.source)
    if entry is not None and entry.generate is not None:
        return str.split
    return _gathering(
        entry, entry.task if entry else "classification", spec, preset, silent, raw=False
    ).tokenise


def dialect_of(spec: CorpusSpec) -> Dialect:
    """Encoding and delimiter of files of one's own."""
    if spec.delimiter == "":
        raise InputError(
            "read settings",
            "setting corpus.delimiter",
            "''",
            "one character, or tab",
            "without it the file's name decides",
        )
    return Dialect(
        "utf-8" if spec.encoding is None else spec.encoding,
        "\t" if spec.delimiter == "tab" else spec.delimiter or "",
    )


def _check_dev(place: _Place, dev: Split, names: tuple[str, ...]) -> None:
    """The ROC-AUC by which an epoch is chosen needs two classes."""
    present = np.unique(dev.label)
    if len(present) < 2:
        got = f"only {count(len(dev), 'row')} of class {names[present[0]]} for dev"
        expected = "rows of at least two classes, to choose an epoch by"
        source = place.sources.get("dev")
        leave_out = (
            ", or leave the dev file out to take 15 % of train"
            if source and source.path.is_file()
            else ""
        )
        raise InputError("read corpus", place.name, got, expected, f"add rows{leave_out}")


@dataclass(frozen=True)
class _Place:
    """A corpus that was found, and what the user should know of where."""

    name: str
    sources: dict[str, SplitSource]
    remarks: tuple[str, ...] = ()


def _located(
    source: str, data_dir: str | Path | None, columns: Columns, dialect: Dialect
) -> _Place:
    """The sources of a registered corpus, a file or a folder. Raises InputError."""
    if entry := CORPORA.get(source):
        if entry.task == "translation":
            raise InputError(
                "read corpus",
                source,
                "a corpus of pairs",
                "a corpus of single texts",
                f"attnaudit translate {source}",
            )
        for option, name in columns:
            if name != getattr(Columns(), option):
                raise InputError(
                    f"read corpus {source}",
                    column_option(option),
                    f"'{name}'",
                    "no column of a named corpus",
                    "leave it out",
                )
        _, sources, remarks = corpus_sources(entry, data_dir)
        return _Place(source, sources, remarks)
    path = require_utf8(Path(source).expanduser())
    try:
        if path.is_dir():
            return _Place(path.resolve().name, folder_sources(path, columns, dialect))
        if path.exists():
            stem, _ = stem_and_format(path)
            name = path.resolve().parent.name if stem in _UNTELLING else stem
            return _Place(name, {"all": file_source(path, columns, dialect)})
    except OSError as error:
        raise InputError(
            "read corpus", str(path), error.strerror or str(error), "a place that can be read"
        ) from error
    raise missing_corpus(
        source, [name for name, entry in CORPORA.items() if entry.task != "translation"]
    )


LONG = 10_000  # tokens; far above the longest review or article of the literature


def gathering_remarks(gathered: Mapping[str, Gathered], max_tokens: int | None) -> Iterator[str]:
    """What was excluded, skipped, cut, or is very long."""
    for name, rows in gathered.items():
        of = "" if name == "all" else f" of {name}"
        left_out = [f"{number} {reason}" for reason, number in rows.left_out.items() if number]
        if left_out:
            yield f"rows{of} excluded by the corpus's definition: {', '.join(left_out)}"
        if rows.skipped:
            reasons = Counter(
                row.reason.split(" (")[0] for row in rows.skipped
            )  # without what differs from row to row
            listed = ", ".join(f"{number} {reason}" for reason, number in sorted(reasons.items()))
            yield f"{count(len(rows.skipped), 'bad row')}{of} skipped: {listed}"
        lengths = np.array([example.length for example in rows.examples], dtype=np.int64)
        limit = LONG if max_tokens is None else max_tokens
        longer = int((lengths > limit).sum())
        if longer and max_tokens is None:
            longest = (
                f"longest {lengths.max()}, row {rows.examples[int(lengths.argmax())].instance}"
            )
            yield f"{count(longer, 'row')}{of} longer than {LONG} tokens kept whole ({longest}); --max-tokens cuts them"
        elif longer:
            yield f"{count(longer, 'row')}{of} cut to {max_tokens} tokens (longest {lengths.max()})"


def class_remarks(
    class_names: tuple[str, ...], splits: Mapping[str, Split], task: Task
) -> Iterator[str]:
    """Classes that dev or test lack; answers are many, and no split needs all of them."""
    for name in SPLITS[1:]:
        missing = sorted(set(range(len(class_names))) - set(splits[name].label.tolist()))
        if missing and task != "question_answering":
            yield f"{name} has no row of class {', '.join(class_names[number] for number in missing[:8])}"


def counts_compared(
    expected: Mapping[str, tuple[int, ...]], splits: Mapping[str, Split]
) -> Iterator[tuple[str, str, str, bool]]:
    """Split, published rows, rows here, and whether they agree: per class, or in all; ``train+dev`` are the two together."""
    for name, counts in expected.items():
        label = np.concatenate([splits[split].label for split in name.split("+")])
        got = (
            (len(label),)
            if len(counts) == 1
            else tuple(np.bincount(label, minlength=len(counts)).tolist())
        )
        yield name, "/".join(map(str, counts)), "/".join(map(str, got)), got == tuple(counts)


def duplicate_remarks(
    splits: Mapping[str, Split], digests: Mapping[str, list[bytes]]
) -> Iterator[str]:
    """Rows with the same words, within a split and across splits; ``digests`` are `row_digests` of each split."""
    found = []
    seen: dict[str, dict[bytes, int]] = {}
    for name in SPLITS:
        labels = splits[name].label.tolist()
        first: dict[bytes, int] = {}
        for digest, label in zip(digests[name], labels, strict=True):
            first.setdefault(digest, label)
        repeated = len(labels) - len(first)
        if repeated:
            found.append(f"{repeated} within {name}")
        for other, known in seen.items():
            shared = [
                (label, known[digest])
                for digest, label in zip(digests[name], labels, strict=True)
                if digest in known
            ]
            conflicts = sum(label != there for label, there in shared)
            if shared:
                found.append(
                    f"{len(shared)} of {name} also in {other}"
                    + (f" ({conflicts} with another label)" if conflicts else "")
                )
        seen[name] = first
    if found:
        yield f"rows with the same words: {', '.join(found)}"
