"""Reading corpora: registered ones, a file, a folder of split files, a table in memory, and pairs.

A parallel corpus has a source and a target a line, in two files for each split, perhaps aligned.
"""

import re
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
from jaxtyping import Int64

from attnaudit.core import Progress, count, did_you_mean, expanded, printable, silent
from attnaudit.core.given import whole
from attnaudit.core.settings import coerce
from attnaudit.corpora.corpus import SPLITS, Corpus, Pairs, ParallelCorpus, fingerprint, keyed
from attnaudit.corpora.formats.lines import bad_file, first_names, numbered_lines, require_utf8
from attnaudit.corpora.formats.readers import Layout, Sources, beside
from attnaudit.corpora.formats.rows import Columns, SplitSource, require_splits
from attnaudit.corpora.formats.tables import (
    READERS,
    TABLES,
    first_that_fits,
    frame_name,
    frame_sources,
    listed,
    split_tables,
    stem_and_format,
    table_rows,
)
from attnaudit.corpora.prepare.gathering import (
    Gathered,
    Gathering,
    as_split,
    divided,
    gather,
    learnt_classes,
    require_classes,
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
from attnaudit.corpora.remarks import (
    class_remarks,
    count_remarks,
    gathering_remarks,
    repetition_remarks,
    script_remarks,
)
from attnaudit.corpora.spec import (
    CorpusSpec,
    ParallelSpec,
    Preset,
    generated,
    require_used,
    spec_of,
)

WHOLE = "all"  # the split of a file that is read whole
_IN_MEMORY = "(a table in memory)"  # the source in the specification of such a corpus
_UNLEARNT = "with an answer that train does not have"  # of a registered corpus
_UNTELLING = {WHOLE, "data"}  # names of files that say nothing about the corpus
# Train rows, and the min_df from there on; about as the paper chose for its corpora.
_MIN_DF = ((20_000, 10), (10_000, 5), (0, 1))


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

    Preparation follows Jain & Wallace 2019, section 2. Test rows decide neither the classes nor the
    split of dev. ``read_corpus("reviews.csv", text="body")`` reads a column of a file.

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
    spec, table = source, None
    if not isinstance(spec, CorpusSpec):
        # A path is never a registered name.
        given = f"./{source}" if isinstance(source, Path) and str(source) in CORPORA else source
        table = None if isinstance(source, str | Path) else source
        spec = spec_of(CorpusSpec, given if table is None else _IN_MEMORY, options)
    coerce(preset, Preset, "preset")
    seed = whole("read corpus", "seed", seed if spec.seed is None else spec.seed)
    entry = CORPORA.get(spec.source)
    if entry and entry.task == "translation":
        do = f"attnaudit run {entry.name}"
        raise bad_file(entry.name, "a corpus of pairs", "a corpus of single texts", do)
    if entry and entry.generate:
        return cast(Corpus, entry.generate(seed=seed, **generated(spec)))
    name, sources = _sources(spec, entry, table, raw)
    how, parting = _gathering(spec, preset, progress, raw), entry.parting if entry else Parting()
    gathered = _gathered(sources, how, parting)
    kept = {name: getattr(spec, name) for name in ("train_kept", "test_kept")}
    parted = replace(parting, **{name: share for name, share in kept.items() if share})
    examples, drawn = divided(gathered, how, entry is not None, parted, seed)
    classes = (entry.class_names if entry else ()) or learnt_classes(examples["train"])
    splits = {split: as_split(examples[split], how.classes or classes) for split in SPLITS}
    usual = next(df for rows, df in _MIN_DF if len(splits["train"]) >= rows)
    min_df = spec.min_df or (entry.min_df if entry else usual)
    remarks = [
        *dict.fromkeys(source.note for source in sources.values() if source.note),
        *drawn,
        *gathering_remarks(gathered, sys.maxsize if raw else spec.max_tokens),
        *class_remarks(name, classes, splits, task_of(spec)),
    ]
    if entry and parted == parting:
        remarks += count_remarks(entry.of_preset(entry.expected, preset, {}), splits)
    remarks += repetition_remarks(splits)
    if not raw:  # raw texts are one word each, for a model with its own tokenizer
        remarks += script_remarks(splits["train"])
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


def _sources(
    spec: CorpusSpec, entry: CorpusEntry | None, table: Any, raw: bool
) -> tuple[str, Sources]:
    """Return the name of a corpus, and its splits. Raises InputError."""
    kinds = ["files", "shares", "texts" if raw else "words"]
    if entry:
        require_used(spec, *kinds)
        return entry.name, corpus_sources(entry, spec.data_dir)[1]
    columns = spec.columns(spec.label)
    if table is not None:
        require_used(spec, "own", *kinds)
        return frame_name(table), frame_sources(table, columns)
    files, path = _own_files(spec.source, TABLES), expanded(spec.source).resolve()
    name = path.name
    if path.is_dir():
        do = "to split one file 80/10/10, name the file itself"
        require_splits(files, path, listed(path), do)
    elif (name := stem_and_format(path)[0]) in _UNTELLING:
        name = path.parent.name
    return name, _own_sources(spec, files, columns, *kinds)


def _gathered(sources: Sources, how: Gathering, parting: Parting) -> dict[str, Gathered]:
    """Read the splits, with the classes of train for the others unless splits are drawn anew."""
    gathered: dict[str, Gathered] = {}
    rules = how
    for split in [one for one in (WHOLE, *SPLITS) if one in sources]:
        gathered[split] = gather(sources[split], split, rules)
        if split == "train" and how.classes is None and not parting.pooled:
            require_classes(gathered[split], None, not how.own)
            known = learnt_classes(gathered[split].examples)
            rules = replace(how, classes=known, unknown="" if how.own else _UNLEARNT)
    return gathered


def _gathering(spec: CorpusSpec, preset: str, progress: Progress, raw: bool) -> Gathering:
    entry = CORPORA.get(spec.source)
    how = Gathering(
        str.split if raw and not entry else word_rules(spec),
        spec.on_bad_row == "skip",
        spec.max_tokens,
        has_question=task_of(spec) != "classification",
        progress=progress,
        own=entry is None,
        raw=raw,
    )
    if entry is None:
        return how
    classes = tuple(map(str, range(len(entry.class_names)))) or None
    bounds = entry.of_preset(entry.bounds, preset, Bounds())
    return replace(how, bounds=bounds, classes=classes, answers=entry.answers)


def word_rules(spec: CorpusSpec) -> Callable[[str], list[str]]:
    """Return the function by which this corpus finds the words of a text. Raises InputError."""
    entry = CORPORA.get(spec.source)
    if entry is None:
        language = "en" if spec.tokenizer is None else spec.tokenizer
        return Tokeniser(spec.digits == "mask", "", language, spec.lowercase is not False)
    if entry.generate:
        return str.split
    words = Tokeniser(entry.mask_digits, entry.whole_words)
    return lambda text: words(entry.clean(text))


def _own_files(source: str, formats: Collection[str]) -> dict[str, Path]:
    """Find a user's file, as split ``all``, or the files of a folder. Raises InputError."""
    path = require_utf8(expanded(source))
    try:
        if not path.exists():
            raise missing_corpus(source)
        return split_tables(path, formats) if path.is_dir() else {WHOLE: path}
    except OSError as error:
        raise bad_file(path, error.strerror or str(error), "a place that can be read") from error


def _own_sources(
    spec: CorpusSpec, files: Mapping[str, Path], columns: Columns, *kinds: str
) -> Sources:
    """Return the sources of a user's files. Raises InputError for a setting without effect."""
    formats = {stem_and_format(path)[1] for path in files.values()}
    # A parquet file states its encoding.
    encoded = ["encoded"] if formats - {".parquet"} else []
    require_used(spec, "own", *kinds, *encoded)
    read = partial(table_rows, columns=columns, encoding=spec.encoding or "utf-8")
    return {split: SplitSource(path, partial(read, path)) for split, path in files.items()}


def read_own(
    spec: CorpusSpec,
    split: str | None = None,
    *,
    labelled: bool = False,
    label_needed: bool = False,
    progress: Progress = silent,
) -> tuple[str, Gathered]:
    """Read the texts of a file, or of one file of a folder, as they are: nothing is drawn.

    Args:
        spec: The texts: a table, or a text on every line (``.txt``).
        split: File of a folder; by default test, else dev, else train. No other is opened.
        labelled: Rows may have labels, empty ones if they are not known.
        label_needed: The column of labels must be there.
        progress: Called now and then.

    Returns:
        The split, ``all`` for a file, and its rows.

    Raises:
        InputError: With file and row.
    """
    label = spec.label if labelled else None
    columns = spec.columns(label, label_needed)
    files, folder = _own_files(spec.source, READERS), expanded(spec.source)
    known = [one for one in (WHOLE, *SPLITS[::-1]) if one in files]
    name = split or (known[0] if known else "test")
    if name not in files:
        got, expected = "a file without splits", WHOLE
        if folder.is_dir():
            got = f"{', '.join(known) or 'no split'} among {listed(folder)}"
            expected = f"a file {name} with one of {', '.join(READERS)}"
        raise bad_file(f"--split {split}" if split else folder, got, expected)
    source = _own_sources(spec, {name: files[name]}, columns, "files", "texts")[name]
    return name, gather_own(source, name, spec, progress)


def gather_own(
    source: SplitSource, split: str, spec: CorpusSpec, progress: Progress = silent
) -> Gathered:
    """Check the rows of a source one by one. Raises InputError."""
    how = Gathering(
        lambda text: [text],  # the model has a tokenizer of its own
        spec.on_bad_row == "skip",
        has_question=spec.question is not None,
        progress=progress,
        own=True,
        raw=True,
        label_needed=False,
    )
    return gather(source, split, how)


@dataclass(frozen=True)
class Draw:
    """At most ``size`` of the texts of a file, drawn by ``seed`` and in their order."""

    size: int
    seed: int

    def of(self, n: int) -> Int64[np.ndarray, " m"]:
        """Choose from ``n`` texts."""
        order = np.random.default_rng([self.seed, n]).permutation(n)
        return np.sort(order[: self.size])


def read_parallel(
    spec: ParallelSpec,
    splits: Sequence[str] = SPLITS,
    *,
    seed: int = 0,
    progress: Progress = silent,
) -> ParallelCorpus:
    """Read a corpus of pairs, or generate a planted one.

    Args:
        spec: The corpus.
        splits: Splits that are read; no other is opened.
        seed: Seed that draws shares or pairs, unless the spec has its own.
        progress: Called now and then.

    Raises:
        InputError: For files that are missing or do not fit, with the line, and for a setting that
            has no effect on such a corpus.
    """
    seed = seed if spec.seed is None else spec.seed
    entry = CORPORA.get(spec.source)
    if entry and entry.task != "translation":
        do = f"attnaudit run {spec.source}"
        raise bad_file(spec.source, "a corpus of single texts", "a corpus of pairs", do)
    if entry and entry.generate:
        made = cast(ParallelCorpus, entry.generate(seed=seed, **generated(spec)))
        return replace(made, splits={split: made.splits[split] for split in splits})
    require_used(spec, "files", "shares", *([] if entry else ["own", "encoded"]))
    encoding = spec.encoding or "utf-8"

    def chosen(layout):
        files = {split: layout.files[split] for split in splits}
        own = {"max_words": spec.max_words, "encoding": encoding}
        return replace(layout, files=files, needed=splits, options={**layout.options, **own})

    if entry:
        part = replace(entry, layouts=tuple(map(chosen, entry.layouts)))
        name, sources = entry.name, corpus_sources(part, spec.data_dir)[1]
    else:
        folder, layout = _own(spec)
        name, sources = folder.resolve().name, chosen(layout)(folder)
        if not sources:
            got = f"no pairs among {listed(folder)}"
            raise bad_file(folder, got, f"files such as train.{spec.source_ending}")
    how = Gathering(
        str.split,
        spec.on_bad_row == "skip",
        has_question=True,
        progress=progress,
        own=entry is None,
        raw=True,
        label_needed=False,
    )
    gathered = {split: gather(sources[split], split, how) for split in splits}
    kept = {"train": spec.train_kept, "test": spec.test_kept}
    read: dict[str, Pairs] = {}
    notes: list[str] = []
    for split, rows in gathered.items():
        pairs, note = _pairs(rows, encoding)
        notes += [note] if note else []
        if share := kept.get(split):
            order = keyed(seed, "kept pairs", split).permutation(len(pairs))
            pairs = pairs.take(np.sort(order[: max(1, round(share * len(pairs)))]))
        read[split] = pairs
    skipped = tuple(row for rows in gathered.values() for row in rows.skipped)
    return ParallelCorpus(name, read, tuple(notes), skipped)


def read_pairs(
    spec: ParallelSpec, split: str | None, *, seed: int, progress: Progress
) -> ParallelCorpus:
    """Read one split, by default test, or dev or train if there is none; no other is opened."""
    known = SPLITS[::-1]
    if spec.source not in CORPORA:
        folder, layout = _own(spec)
        known = [one for one in known if first_that_fits(folder, layout.files[one])]
        if not known or split not in (None, *known):
            got = f"pairs of {', '.join(known) or 'no split'} among {listed(folder)}"
            expected = f"one of {', '.join(SPLITS)}, with .{spec.source_ending}"
            raise bad_file(f"--split {split}" if split else folder, got, expected)
    return read_parallel(spec, [split or known[0]], seed=seed, progress=progress)


def _own(spec: ParallelSpec) -> tuple[Path, Layout]:
    """Return a user's folder and how its files lie. Raises InputError."""
    folder = require_utf8(expanded(spec.source))
    if not folder.is_dir():
        known = [name for name, other in CORPORA.items() if other.task == "translation"]
        got = "a file" if folder.exists() else "no such folder"
        expected = f"one of {', '.join(known)}, or a folder of pairs"
        raise bad_file(spec.source, got, expected, did_you_mean(spec.source, known))
    names = {"train": "train", "dev": spec.dev, "test": spec.test}
    files = {split: [f"{name}.{spec.source_ending}"] for split, name in names.items()}
    return folder, Layout("pairs", files, options={"target": spec.target_ending})


def _pairs(gathered: Gathered, encoding: str) -> tuple[Pairs, str]:
    """Make the pairs of a file, and a note on alignments that are excluded.

    A line of alignments holds ``i-j``: source word i goes with target word j, both from 0.

    Raises:
        InputError: For another number of lines than the texts', or a line that is none.
    """
    raw = [example.raw for example in gathered.examples if example.raw]
    texts = tuple(one.text for one in raw), tuple(one.question or "" for one in raw)
    instances = np.array([example.instance for example in gathered.examples], dtype=np.int64)
    path = beside(gathered.path, "align")
    if path is None:
        return Pairs(instances, *texts), ""
    lines = [line for _, line in numbered_lines(path, encoding)]
    if len(lines) != gathered.rows:
        got, where = f"{len(lines)} and {gathered.rows} lines", f"{path} and {gathered.path.name}"
        raise bad_file(where, got, "a line of alignments for each pair")
    links: set[tuple[int, int, int]] = set()
    beyond: dict[int, None] = {}
    for row, example in enumerate(gathered.examples):
        for entry in lines[example.instance].split():
            # No text has so many words, and a longer number is as far beyond.
            link = re.fullmatch(r"0*(\d{1,18})\d*-0*(\d{1,18})\d*", entry, re.ASCII)
            if link is None:
                where = f"{path}: line {example.instance + 1}"
                raise bad_file(where, repr(entry[:40]), "links as 0-0 1-2")
            source, target = map(int, link.groups())
            if source < len(example.tokens) and target < len(example.question or ()):
                links.add((row, source, target))
            else:
                beyond[example.instance] = None
    array = np.array(sorted(links), dtype=np.int64).reshape(-1, 3).T
    note = excluded_links(path.name, list(beyond), "words beyond the text") if beyond else ""
    return Pairs(instances, *texts, array), note


def excluded_links(where: str, rows: Sequence[int], words: str) -> str:
    """Write the note that rows, from 0, have links to such words."""
    named = first_names(str(row + 1) for row in rows)
    lines = count(len(rows), "line")
    return f"{where}: {lines} with links to {words}, which are excluded: line {named}"
