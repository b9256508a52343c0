"""Reading a corpus: a registered one, one file, a folder of split files, or a table in memory."""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from attnaudit.core.numbers import count
from attnaudit.core.printable import printable
from attnaudit.core.progress import Progress, silent
from attnaudit.core.settings import coerce
from attnaudit.corpora.corpus import SPLITS, Corpus, Split, Task, fingerprint
from attnaudit.corpora.formats.frames import frame_name, frame_sources
from attnaudit.corpora.formats.lines import Dialect, bad_file, require_utf8
from attnaudit.corpora.formats.rows import Columns, SplitSource, require_splits
from attnaudit.corpora.formats.tables import (
    TABLES,
    file_source,
    listed,
    split_tables,
    stem_and_format,
)
from attnaudit.corpora.prepare.gathering import (
    Gathered,
    Gathering,
    as_split,
    divided,
    gather,
    learnt_classes,
)
from attnaudit.corpora.prepare.tokenise import Tokeniser
from attnaudit.corpora.registry import (
    CORPORA,
    Bounds,
    CorpusEntry,
    Parting,
    corpus_sources,
    missing_corpus,
    task_of,
)
from attnaudit.corpora.spec import (
    CorpusSpec,
    Preset,
    generated,
    require_used,
    spec_of,
)

_IN_MEMORY = "(a table in memory)"  # the source in the specification of such a corpus
_UNTELLING = {"all", "data"}  # names of files that say nothing about the corpus
# Train rows, and the min_df from there on; about as the paper chose for its corpora.
_MIN_DF = ((20_000, 10), (10_000, 5), (0, 1))
_LONG = 10_000  # tokens; far above the longest review or article of the literature


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

    Preparation follows Jain & Wallace 2019, section 2. Test rows decide nothing: neither the
    classes nor the split of dev. A call such as ``read_corpus("reviews.csv", text="body")`` reads a
    column of a file.

    Args:
        source: A registered name (``sst``, ``babi1``, ``planted-decisive``, …); one csv, tsv, jsonl
            or parquet file, also gzipped, which is split 80/10/10 by class; a folder with such
            files named train, test and perhaps dev (else 15 % of train); a `CorpusSpec`; or a table
            in memory: a DataFrame of polars, pandas or another library that narwhals knows, a
            Dataset of Hugging Face, or a mapping of train and test to such tables.
        seed: Seed that draws the splits, unless the spec has its own.
        preset: Filters of a registered corpus: the paper's, or those of its released code.
        progress: Called now and then.
        raw: Keep the texts of the files in `Split.raw`, for a model with a tokenizer of its own.
            The rows are the same; the words of a user's own files are those that white space
            separates, and options of words are refused.
        **options: Fields of `CorpusSpec`. A ``question`` column makes the task question answering;
            the spans of a ``rationale`` column should end at white space.

    Raises:
        InputError: With file and row, or for an option.
    """
    in_memory = not isinstance(source, CorpusSpec | str | Path)
    spec = source
    if not isinstance(spec, CorpusSpec):
        # A path is never a registered name.
        is_path = isinstance(source, Path) and str(source) in CORPORA
        given = _IN_MEMORY if in_memory else f"./{source}" if is_path else str(source)
        spec = spec_of(CorpusSpec, given, options)
    coerce(preset, Preset, "preset")
    seed = seed if spec.seed is None else spec.seed
    entry, notes = CORPORA.get(spec.source), ()
    if entry and entry.task == "translation":
        expected, do = "a corpus of single texts", f"attnaudit run {entry.name}"
        raise bad_file(entry.name, "a corpus of pairs", expected, do)
    if entry and entry.generate:
        return cast(Corpus, entry.generate(seed=seed, **generated(spec)))
    kinds = ["files", "shares", *([] if raw else ["words"])]
    columns = Columns(spec.text, spec.label, spec.question, spec.rationale)
    if entry:
        require_used(spec, *kinds)
        name = entry.name
        _, sources, notes = corpus_sources(entry, spec.data_dir)
    elif in_memory:
        require_used(spec, "own", *kinds)
        name, sources = frame_name(source), frame_sources(source, columns)
    else:
        name, files = _own(spec.source)
        sources = own_sources(spec, files, columns, *kinds)
    how, parting = _gathering(spec, preset, progress, raw), entry.parting if entry else Parting()
    in_order = [split for split in ("all", *SPLITS) if split in sources]
    gathered = {split: gather(sources[split], split, how) for split in in_order}
    kept = spec.train_kept or parting.train_kept, spec.test_kept or parting.test_kept
    parted = replace(parting, train_kept=kept[0], test_kept=kept[1])
    examples, drawn = divided(gathered, how, entry is not None, parted, seed)
    classes = (entry.class_names if entry else ()) or learnt_classes(examples["train"])
    splits = {split: as_split(examples[split], how.classes or classes) for split in SPLITS}
    usual = next(df for rows, df in _MIN_DF if len(splits["train"]) >= rows)
    min_df = spec.min_df or (entry.min_df if entry else usual)
    remarks = [
        *dict.fromkeys([*notes, *drawn]),
        *gathering_remarks(gathered, sys.maxsize if raw else spec.max_tokens),
        *_class_remarks(name, classes, splits, task_of(spec)),
        *(_count_remarks(entry, preset, splits) if entry and parted == parting else ()),
        *_duplicate_remarks(splits),
    ]
    if not (spec.min_df or entry or raw) and min_df > 1:
        rows = f"fewer than {min_df} of the {len(splits['train'])} train rows"
        remarks.append(f"words in {rows} are unknown words; min_df=1 keeps them all")
    return Corpus(
        printable(name),
        classes,
        splits,
        min_df,
        fingerprint(classes, min_df, splits),
        tuple(map(printable, remarks)),  # they may name files
        tuple(row for rows in gathered.values() for row in rows.skipped),
        task_of(spec),
    )


def _gathering(spec: CorpusSpec, preset: str, progress: Progress, raw: bool) -> Gathering:
    how = Gathering(
        str.split,
        spec.on_bad_row == "skip",
        spec.max_tokens,
        has_question=task_of(spec) != "classification",
        progress=progress,
        lines=spec.sentences == "lines",
        raw=raw,
    )
    if entry := CORPORA.get(spec.source):
        words = Tokeniser(entry.mask_digits, entry.whole_words)
        return replace(
            how,
            tokenise=lambda text: words(entry.clean(text)),
            bounds=entry.of_preset(entry.bounds, preset, Bounds()),
            classes=tuple(map(str, range(len(entry.class_names)))) or None,
            answers=entry.answers,
        )
    if not raw:
        language = "en" if spec.tokenizer is None else spec.tokenizer
        words = Tokeniser(spec.digits == "mask", "", language, spec.lowercase is not False)
        how = replace(how, tokenise=words)
    return replace(how, encoding=dialect_of(spec).encoding)


def word_rules(spec: CorpusSpec, preset: str) -> Callable[[str], list[str]]:
    """Return the function by which this corpus finds the words of a text. Raises InputError."""
    entry = CORPORA.get(spec.source)
    is_generated = entry is not None and entry.generate is not None
    return str.split if is_generated else _gathering(spec, preset, silent, raw=False).tokenise


def dialect_of(spec: CorpusSpec) -> Dialect:
    """Return the encoding and delimiter of a user's own files. Raises InputError."""
    delimiter = {"tab": "\t", "": '"', None: ""}.get(spec.delimiter, spec.delimiter)
    return Dialect("utf-8" if spec.encoding is None else spec.encoding, delimiter or "")


def own_files(source: str, formats: Collection[str]) -> dict[str, Path]:
    """Find a user's file, as split ``all``, or the files of a folder. Raises InputError."""
    path = require_utf8(Path(source).expanduser())
    try:
        if not path.exists():
            raise missing_corpus(source)
        return split_tables(path, formats) if path.is_dir() else {"all": path}
    except OSError as error:
        got = error.strerror or str(error)
        raise bad_file(path, got, "a place that can be read") from error


def own_sources(
    spec: CorpusSpec, files: Mapping[str, Path], columns: Columns, *kinds: str
) -> dict[str, SplitSource]:
    """Return the sources of a user's files. Raises InputError for a setting without effect."""
    formats = {stem_and_format(path)[1] for path in files.values()}
    # A parquet file states its encoding; only csv and tsv have a delimiter.
    encoded = ["encoded"] if formats - {".parquet"} else []
    delimited = ["delimited"] if formats & {".csv", ".tsv"} else []
    require_used(spec, "own", *kinds, *encoded, *delimited)
    dialect = dialect_of(spec)
    return {split: file_source(path, columns, dialect) for split, path in files.items()}


def _own(source: str) -> tuple[str, dict[str, Path]]:
    """Return the name and the files of a table, or of a folder with splits. Raises InputError."""
    files, path = own_files(source, TABLES), Path(source).expanduser().resolve()
    if path.is_dir():
        require_splits(
            files, path, listed(path), "to split one file 80/10/10, name the file itself"
        )
        return path.name, files
    name = stem_and_format(path)[0]
    return path.parent.name if name in _UNTELLING else name, files


def gathering_remarks(gathered: Mapping[str, Gathered], max_tokens: int | None) -> Iterator[str]:
    """Describe the rows that were excluded, skipped, cut, or are very long."""
    for name, rows in gathered.items():
        of = "" if name == "all" else f" of {name}"
        left_out = [f"{number} {reason}" for reason, number in rows.left_out.items() if number]
        if left_out:
            yield f"rows{of} excluded by the corpus's definition: {', '.join(left_out)}"
        if rows.skipped:
            # Without what differs from row to row.
            reasons = Counter(row.reason.split(" (")[0] for row in rows.skipped)
            listed = ", ".join(f"{number} {reason}" for reason, number in sorted(reasons.items()))
            yield f"{count(len(rows.skipped), 'bad row')}{of} skipped: {listed}"
        limit = _LONG if max_tokens is None else max_tokens
        longer = [example for example in rows.examples if example.length > limit]
        if longer:
            longest = max(longer, key=lambda example: example.length)
            done, do = f"cut to {limit} tokens", ""
            if max_tokens is None:
                done, do = f"longer than {limit} tokens kept whole", "; corpus.max_tokens cuts them"
            where = f"longest {longest.length}, row {longest.instance}"
            yield f"{count(len(longer), 'row')}{of} {done} ({where}){do}"


def _class_remarks(
    name: str, classes: tuple[str, ...], splits: Mapping[str, Split], task: Task
) -> Iterator[str]:
    """Name the classes that dev or test lack; answers are many, and no split needs all of them.

    Raises:
        InputError: If dev has one class, since the ROC-AUC of an epoch needs two.
    """
    for split in SPLITS[1:] if task != "question_answering" else ():
        present = set(splits[split].label.tolist())
        missing = [one for number, one in enumerate(classes) if number not in present]
        if split == "dev" and len(present) < 2 and task == "classification":
            got = (
                f"only {count(len(splits[split]), 'row')} of class {classes[min(present)]} for dev"
            )
            expected, do = "rows of two classes, to choose an epoch by", "add rows, or have no dev"
            raise bad_file(name, got, expected, f"{do} file to take 15 % of train")
        if missing:
            yield f"{split} has no row of class {', '.join(missing[:8])}"


def _count_remarks(entry: CorpusEntry, preset: str, splits: Mapping[str, Split]) -> Iterator[str]:
    expected = entry.of_preset(entry.expected, preset, {})
    for name, counts, got, agree in counts_compared(expected, splits):
        if not agree:
            per_class = " per class" if "/" in counts else ""
            yield f"{name} has {got} rows{per_class} where the published corpus has {counts}"


def counts_compared(
    expected: Mapping[str, tuple[int, ...]], splits: Mapping[str, Split]
) -> Iterator[tuple[str, str, str, bool]]:
    """Compare published numbers of rows, per class or in all, with those of the splits.

    Yields:
        The split, or splits joined by a plus; published rows; rows here; whether they agree.
    """
    for name, counts in expected.items():
        label = np.concatenate([splits[split].label for split in name.split("+")])
        label = np.zeros_like(label) if len(counts) == 1 else label
        got = np.bincount(label, minlength=len(counts)).tolist()
        yield name, "/".join(map(str, counts)), "/".join(map(str, got)), got == list(counts)


def repeated_rows(splits: Mapping[str, Split]) -> list[dict[str, Any]]:
    """Count the rows of each split whose words stand elsewhere.

    Returns:
        For each split the rows whose words stood before ``within`` it and in earlier splits
        (``in_train``, ``in_dev``), and anywhere with another label (``conflicts``).
    """
    labels: dict[bytes, set[int]] = defaultdict(set)
    for split in splits.values():
        for digest, label in zip(split.digests, split.label.tolist(), strict=True):
            labels[digest].add(label)
    found: list[dict[str, Any]] = []
    for name, split in splits.items():
        own = split.digests
        row: dict[str, Any] = {"split": name, "rows": len(own), "within": len(own) - len(set(own))}
        row |= {"in_train": None, "in_dev": None}
        for before in found:
            known = set(splits[before["split"]].digests)
            row[f"in_{before['split']}"] = sum(digest in known for digest in own)
        found.append({**row, "conflicts": sum(len(labels[digest]) > 1 for digest in own)})
    return found


def _duplicate_remarks(splits: Mapping[str, Split]) -> Iterator[str]:
    found, conflicts = [], 0
    for row in repeated_rows(splits):
        name, conflicts = row["split"], conflicts + row["conflicts"]
        found += [f"{row['within']} within {name}"] if row["within"] else []
        for other in SPLITS:
            if shared := row.get(f"in_{other}"):
                found.append(f"{shared} of {name} also in {other}")
    if found:
        told = f" ({count(conflicts, 'row')} with another label)" if conflicts else ""
        yield f"rows with the same words: {', '.join(found)}{told}"
