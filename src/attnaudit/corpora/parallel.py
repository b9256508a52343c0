"""Parallel corpora: a source and a target a line, in two files for each split, perhaps with a third of alignments."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
from jaxtyping import Int

from attnaudit.core.errors import InputError, did_you_mean
from attnaudit.core.numbers import count
from attnaudit.core.printable import printable
from attnaudit.core.progress import Progress, silent
from attnaudit.corpora.corpus import SPLITS, Pairs, ParallelCorpus, SkippedRow, keyed
from attnaudit.corpora.entry import CorpusEntry, PairFiles
from attnaudit.corpora.formats.lines import (
    invalid_utf8,
    numbered_lines,
    require_utf8,
    suggested_encoding,
)
from attnaudit.corpora.formats.tables import Dialect
from attnaudit.corpora.registry import CORPORA, pair_files
from attnaudit.corpora.spec import ParallelSpec, generated, refuse_generated, refuse_own

OPERATION = "read parallel corpus"
_REMEDY = "or skip such pairs: --set corpus.on_bad_row=skip"
_PARTED = "split the pairs into train, dev and test yourself: a file of texts is split by the program, pairs are not"
_LINK = re.compile(r"(\d+)-(\d+)", re.ASCII)
_DIGITS = 18  # of an index: no text has so many words, and a longer number is as far beyond
_NAMED = 8  # rows that a note names


def read_parallel(
    spec: ParallelSpec, *, seed: int = 0, progress: Progress = silent
) -> ParallelCorpus:
    """Read a corpus of pairs, or generate a planted one, with the spec's own seed, else with ``seed``.

    Raises InputError, also for a setting that has no effect on such a corpus.
    """
    return _parallel(spec, SPLITS, seed, progress)


def read_pairs(
    spec: ParallelSpec, split: str | None = None, *, seed: int = 0, progress: Progress = silent
) -> ParallelCorpus:
    """`read_parallel` of one split, by default test, or of a folder without it dev or train: no file of another is opened.

    Raises InputError.
    """
    known = _known_splits(spec)
    if split is not None and split not in known:
        raise InputError(
            OPERATION,
            f"--split {split}",
            f"pairs of {', '.join(known) or 'no split'}",
            "one of their splits",
        )
    if not known:
        folder = Path(spec.source).expanduser()
        names = ", ".join(path.name for path in sorted(folder.iterdir())[:8])
        raise InputError(
            OPERATION,
            str(folder),
            f"no such file among {names or 'no files'}",
            f"test.{spec.source_ending} or .gz, or dev or train",
        )
    chosen = split or known[0]
    found = _parallel(spec, (chosen,), seed, progress)
    return replace(found, splits={chosen: found.splits[chosen]})


def _known_splits(spec: ParallelSpec) -> list[str]:
    """The splits that a corpus has, test first. Raises InputError where there is no corpus."""
    entry = CORPORA.get(spec.source)
    if entry is not None:
        return list(SPLITS[::-1])
    folder, _, files = _located(spec, entry)
    return [
        split
        for split in SPLITS[::-1]
        if _found(folder, _file_name(split, files.dev, files.test), files.source)
    ]


def _file_name(split: str, dev: str, test: str) -> str:
    return {"dev": dev, "test": test}.get(split, split)


def _parallel(
    spec: ParallelSpec, splits: Sequence[str], seed: int, progress: Progress
) -> ParallelCorpus:
    seed = seed if spec.seed is None else spec.seed
    entry = CORPORA.get(spec.source)
    if entry is not None and entry.task != "translation":
        raise InputError(
            OPERATION,
            spec.source,
            "a corpus of single texts",
            "a corpus of pairs",
            f"attnaudit run {spec.source}",
        )
    if entry is not None and entry.generate is not None:
        return cast(ParallelCorpus, entry.generate(seed=seed, **generated(spec)))
    if entry is not None:
        refuse_own(spec)
    folder, name, files = _located(spec, entry)
    refuse_generated(spec)
    how = replace(
        spec, source_ending=files.source, target_ending=files.target, dev=files.dev, test=files.test
    )
    return _read(
        folder, name, how, splits, seed, lambda split, rows: progress(f"read {split}", rows, 0)
    )


def _located(spec: ParallelSpec, entry: CorpusEntry | None) -> tuple[Path, str, PairFiles]:
    """The folder of a parallel corpus, its name, and the names of its files. Raises InputError."""
    if entry is not None:
        folder, files = pair_files(entry, spec.data_dir)
        return (
            folder,
            entry.name,
            files if spec.test == ParallelSpec.test else replace(files, test=spec.test),
        )
    folder = Path(spec.source).expanduser()
    if not folder.is_dir():
        known = [name for name, other in CORPORA.items() if other.task == "translation"]
        exists = folder.exists()
        hint = (
            f"a folder with test.{spec.source_ending} and test.{spec.target_ending}"
            if exists
            else did_you_mean(spec.source, known)
        )
        got = "a file" if exists else "no such folder"
        raise InputError(
            OPERATION, spec.source, got, f"one of {', '.join(known)}, or a folder of pairs", hint
        )
    return (
        folder,
        folder.resolve().name,
        PairFiles(spec.source_ending, spec.target_ending, spec.dev, spec.test),
    )


def _read(
    folder: Path, name: str, how: ParallelSpec, chosen: Sequence[str], seed: int, progress: Callable[[str, int], None]
) -> ParallelCorpus:  # fmt: skip
    """Read the files ``<split>.<ending>`` of a folder, plain or gzipped, and ``<split>.align`` where it is there.

    A line of alignments holds ``i-j``: source word i goes with target word j, both from 0; links to words beyond the text are excluded,
    counted and named in a note. Raises InputError for a missing file, files of different lengths, an empty side, a side that is too long,
    and a line of alignments that is none.
    """
    splits: dict[str, Pairs] = {}
    notes: list[str] = []
    skipped: list[SkippedRow] = []
    for split in chosen:
        pairs, bad, remark = _read_split(
            require_utf8(folder), _file_name(split, how.dev, how.test), how, progress
        )
        share = {"train": how.train_kept, "test": how.test_kept}.get(split, 1.0)
        splits[split] = _kept(pairs, share, seed, split)
        notes += [remark] if remark else []
        skipped += bad
    return ParallelCorpus.of(printable(name), splits, notes, skipped)


def _read_split(
    folder: Path, split: str, how: ParallelSpec, progress: Callable[[str, int], None]
) -> tuple[Pairs, list[SkippedRow], str]:
    files = [_file(folder, split, ending) for ending in (how.source_ending, how.target_ending)]
    align = _found(folder, split, "align")
    encoding = Dialect("utf-8" if how.encoding is None else how.encoding).encoding
    sides = [
        [line.strip() for _, line in numbered_lines(path, OPERATION, encoding)] for path in files
    ]
    source, target = sides
    if len(source) != len(target):
        where = f"{files[0]} and {files[1].name}"
        raise InputError(
            OPERATION,
            where,
            f"{len(source)} and {len(target)} lines",
            "as many of one as of the other",
        )
    links, remark = _links(align, files[0], sides, encoding) if align else (None, "")
    texts = enumerate(zip(source, target, strict=True))
    bad = {
        row: reason for row, pair in texts if (reason := _problem(*pair, how.max_words, encoding))
    }
    if bad and how.on_bad_row == "error":
        row, reason = next(iter(bad.items()))
        option = suggested_encoding(f"{source[row]} {target[row]}", encoding)
        do = f"read the files with {option}" if option else f"correct the line, {_REMEDY}"
        raise InputError(
            OPERATION, f"{files[0]}, line {row + 1}", reason, "a text on both sides", do
        )
    progress(split, len(source))
    whole = Pairs(np.arange(len(source)), tuple(source), tuple(target), links)
    pairs = whole.take(
        np.array([row for row in range(len(whole)) if row not in bad], dtype=np.int64)
    )
    if not len(pairs):
        raise InputError(
            OPERATION, str(files[0]), f"no usable pair among {len(whole)}", "one or more"
        )
    skipped = [SkippedRow(files[0].name, row, printable(reason)) for row, reason in bad.items()]
    return pairs, skipped, remark


def _file(folder: Path, split: str, ending: str) -> Path:
    path = _found(folder, split, ending)
    if path is None:
        names = (
            ", ".join(sorted(path.name for path in folder.iterdir())[:8])
            if folder.is_dir()
            else "no folder"
        )
        got, do = f"no {split}.{ending} among {names}", "" if split == "train" else _PARTED
        raise InputError(OPERATION, str(folder), got, f"{split}.{ending} or .gz", do)
    return path


def _found(folder: Path, split: str, ending: str) -> Path | None:
    """The file of a split, as it is or gzipped."""
    return next(
        (path for end in (ending, f"{ending}.gz") if (path := folder / f"{split}.{end}").is_file()),
        None,
    )


def _problem(source: str, target: str, longest: int, encoding: str) -> str:
    for side, text in (("source", source), ("target", target)):
        if wrong := invalid_utf8(text, encoding):
            return f"a {side} with {wrong}"
        if not text:
            return f"an empty {side}"
        if (words := len(text.split())) > longest:
            return f"a {side} of {words} words, where {longest} is the limit (corpus.max_words)"
    return ""


def _links(
    path: Path, source: Path, sides: Sequence[Sequence[str]], encoding: str
) -> tuple[Int[np.ndarray, "three k"], str]:
    """The alignments of a file, and a remark on those that are excluded.

    Raises InputError for another number of lines than the texts', or a line that is none.
    """
    lines = [line for _, line in numbered_lines(path, OPERATION, encoding)]
    if len(lines) != len(sides[0]):
        where = f"{path} and {source.name}"
        raise InputError(
            OPERATION,
            where,
            f"{len(lines)} and {len(sides[0])} lines",
            "a line of alignments for each pair",
        )
    words = np.array([[len(text.split()) for text in side] for side in sides])
    found = np.array(sorted(set(_parsed(lines, path))), dtype=np.int64).reshape(-1, 3).T
    inside = (found[1:] < words[:, found[0]]).all(axis=0)
    beyond = np.unique(found[0, ~inside]).tolist()
    return found[:, inside], excluded_links(
        path.name, beyond, "words beyond the text"
    ) if beyond else ""


def excluded_links(where: str, rows: Sequence[int], words: str) -> str:
    """A note that ``rows``, from 0, have links to such ``words``."""
    named = ", ".join(str(row + 1) for row in rows[:_NAMED]) + (", …" if len(rows) > _NAMED else "")
    return f"{where}: {count(len(rows), 'line')} with links to {words}, which are excluded: line {named}"


def _parsed(lines: Sequence[str], path: Path) -> Iterator[tuple[int, int, int]]:
    for row, line in enumerate(lines):
        for entry in line.split():
            link = _LINK.fullmatch(entry)
            if link is None:
                raise InputError(
                    OPERATION, f"{path}, line {row + 1}", repr(entry[:40]), "links as 0-0 1-2"
                )
            source, target = (
                int((digits.lstrip("0") or "0")[:_DIGITS]) for digits in link.groups()
            )
            yield row, source, target


def _kept(pairs: Pairs, share: float, seed: int, split: str) -> Pairs:
    if share == 1:
        return pairs
    count = max(1, round(share * len(pairs)))
    return pairs.take(np.sort(keyed(seed, "kept pairs", split).permutation(len(pairs))[:count]))
