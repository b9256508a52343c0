"""Parallel corpora: a source and a target a line, in two files for each split, perhaps with a third of alignments."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from jaxtyping import Int, Int64

from attnaudit.core.errors import InputError
from attnaudit.corpora.corpus import SPLITS, SkippedRow
from attnaudit.corpora.formats.lines import invalid_utf8, numbered_lines, printable, require_utf8
from attnaudit.corpora.keyed import keyed
from attnaudit.corpora.spec import ParallelSpec

OPERATION = "read parallel corpus"
_REMEDY = "correct the line, or go on without such pairs: --set corpus.on_bad_row=skip"
_PARTED = "split the pairs into train, dev and test yourself: a file of texts is split by the program, pairs are not"
_LINK = re.compile(r"(\d+)-(\d+)", re.ASCII)
_DIGITS = 18  # of an index: no text has so many words, and a longer number is as far beyond
_NAMED = 8  # rows that a note names


@dataclass(frozen=True)
class Pairs:
    """``n`` pairs of one split: ``instance`` (n,) is the line, from 0; ``source`` and ``target`` are texts.

    ``links`` (3, k) are the alignments where they are known, sorted: row of this split, source word, target word, words being what
    white space parts.
    """

    instance: Int64[np.ndarray, " n"]
    source: tuple[str, ...]
    target: tuple[str, ...]
    links: Int[np.ndarray, "three k"] | None = None

    def __len__(self) -> int:
        return len(self.source)

    def take(self, rows: Int[np.ndarray, " m"]) -> Pairs:
        """The chosen rows, which are in ascending order."""
        links = self.links
        if links is not None:
            place = np.full(len(self), -1)
            place[rows] = np.arange(len(rows))
            links = np.vstack([place[links[0]], links[1:]])[:, place[links[0]] >= 0]
        chosen = rows.tolist()
        return Pairs(self.instance[rows], tuple(self.source[row] for row in chosen), tuple(self.target[row] for row in chosen), links)


@dataclass(frozen=True)
class ParallelCorpus:
    """Splits ``train``, ``dev`` and ``test`` of `Pairs`; ``fingerprint`` is the SHA-256 of all that a model could learn from."""

    task: ClassVar[str] = "translation"
    name: str
    splits: dict[str, Pairs]
    fingerprint: str
    notes: tuple[str, ...] = ()
    skipped: tuple[SkippedRow, ...] = ()

    @classmethod
    def of(cls, name: str, splits: dict[str, Pairs], notes: Sequence[str] = (), skipped: Sequence[SkippedRow] = ()) -> ParallelCorpus:
        return cls(name, splits, _fingerprint(splits), tuple(notes), tuple(skipped))


def read_pairs(
    folder: Path, name: str, how: ParallelSpec, seed: int, progress: Callable[[str, int], None] = lambda split, rows: None
) -> ParallelCorpus:
    """Read the files ``<split>.<ending>`` of a folder, plain or gzipped, and ``<split>.align`` where it is there.

    A line of alignments holds ``i-j``: source word i goes with target word j, both from 0; links to words that are not there are left out,
    counted and named in a note. Raises InputError for a missing file, files of different lengths, an empty side, a side that is too long,
    and a line of alignments that is none.
    """
    splits: dict[str, Pairs] = {}
    notes: list[str] = []
    skipped: list[SkippedRow] = []
    for split in SPLITS:
        pairs, bad, remark = _read_split(require_utf8(folder), {"dev": how.dev, "test": how.test}.get(split, split), how, progress)
        share = {"train": how.train_kept, "test": how.test_kept}.get(split, 1.0)
        splits[split] = _kept(pairs, share, seed, split)
        notes += [remark] if remark else []
        skipped += bad
    return ParallelCorpus.of(printable(name), splits, notes, skipped)


def _read_split(folder: Path, split: str, how: ParallelSpec, progress: Callable[[str, int], None]) -> tuple[Pairs, list[SkippedRow], str]:
    files = [_file(folder, split, ending) for ending in (how.source_ending, how.target_ending)]
    align = _found(folder, split, "align")
    sides = [[line.strip() for _, line in numbered_lines(path, OPERATION)] for path in files]
    _check_counts(files, sides)
    links = _links(align, files[0], sides) if align else None
    texts = enumerate(zip(sides[0], sides[1], strict=True))
    bad = {row: reason for row, (source, target) in texts if (reason := _problem(source, target, how.max_words))}
    if bad and how.on_bad_row == "error":
        row, reason = next(iter(bad.items()))
        raise InputError(OPERATION, f"{printable(str(files[0]))}, line {row + 1}", printable(reason), "a text on both sides", _REMEDY)
    progress(split, len(sides[0]))
    whole = Pairs(np.arange(len(sides[0])), tuple(sides[0]), tuple(sides[1]), links and links.kept)
    pairs = whole.take(np.array([row for row in range(len(whole)) if row not in bad], dtype=np.int64))
    if not len(pairs):
        raise InputError(OPERATION, printable(str(files[0])), f"no usable pair among {len(whole)}", "one or more")
    skipped = [SkippedRow(files[0].name, row, printable(reason)) for row, reason in bad.items()]
    return pairs, skipped, links.remark if links else ""


def _file(folder: Path, split: str, ending: str) -> Path:
    path = _found(folder, split, ending)
    if path is None:
        names = ", ".join(sorted(path.name for path in folder.iterdir())[:8]) if folder.is_dir() else "no folder"
        got, do = f"no {split}.{ending} among {printable(names)}", "" if split == "train" else _PARTED
        raise InputError(OPERATION, printable(str(folder)), got, f"{split}.{ending} or .gz", do)
    return path


def _found(folder: Path, split: str, ending: str) -> Path | None:
    """The file of a split, as it is or gzipped."""
    return next((path for end in (ending, f"{ending}.gz") if (path := folder / f"{split}.{end}").is_file()), None)


def _check_counts(files: Sequence[Path], sides: Sequence[Sequence[str]]) -> None:
    source, target = map(len, sides)
    if source != target:
        where = printable(f"{files[0]} and {files[1].name}")
        raise InputError(OPERATION, where, f"{source} and {target} lines", "as many of one as of the other")


def _problem(source: str, target: str, longest: int) -> str:
    for side, text in (("source", source), ("target", target)):
        if wrong := invalid_utf8(text):
            return f"a {side} with {wrong}"
        if not text:
            return f"an empty {side}"
        if (words := len(text.split())) > longest:
            return f"a {side} of {words} words, where {longest} is the limit (corpus.max_words)"
    return ""


@dataclass(frozen=True)
class _Links:
    kept: Int[np.ndarray, "three k"]
    remark: str


def _links(path: Path, source: Path, sides: Sequence[Sequence[str]]) -> _Links:
    """The alignments of a file. Raises InputError for another number of lines than the texts', or a line that is none."""
    lines = [line for _, line in numbered_lines(path, OPERATION)]
    if len(lines) != len(sides[0]):
        where = printable(f"{path} and {source.name}")
        raise InputError(OPERATION, where, f"{len(lines)} and {len(sides[0])} lines", "a line of alignments for each pair")
    words = np.array([[len(text.split()) for text in side] for side in sides])
    found = np.array(sorted(set(_parsed(lines, path))), dtype=np.int64).reshape(-1, 3).T
    inside = (found[1:] < words[:, found[0]]).all(axis=0)
    beyond = np.unique(found[0, ~inside]).tolist()
    return _Links(found[:, inside], links_left_out(path.name, beyond, "words that are not there") if beyond else "")


def links_left_out(where: str, rows: Sequence[int], words: str) -> str:
    """A note that ``rows``, from 0, have links to such ``words``."""
    named = ", ".join(str(row + 1) for row in rows[:_NAMED]) + (", …" if len(rows) > _NAMED else "")
    return f"{where}: {len(rows)} line(s) have links to {words}, which are left out: line {named}"


def _parsed(lines: Sequence[str], path: Path) -> Iterator[tuple[int, int, int]]:
    for row, line in enumerate(lines):
        for entry in line.split():
            link = _LINK.fullmatch(entry)
            if link is None:
                raise InputError(OPERATION, printable(f"{path}, line {row + 1}"), repr(entry[:40]), "links as 0-0 1-2")
            source, target = (int((digits.lstrip("0") or "0")[:_DIGITS]) for digits in link.groups())
            yield row, source, target


def _kept(pairs: Pairs, share: float, seed: int, split: str) -> Pairs:
    if share == 1:
        return pairs
    count = max(1, round(share * len(pairs)))
    return pairs.take(np.sort(keyed(seed, "kept pairs", split).permutation(len(pairs))[:count]))


def _fingerprint(splits: dict[str, Pairs]) -> str:
    total = hashlib.sha256()
    for name in sorted(splits):
        pairs = splits[name]
        total.update(json.dumps([name, pairs.instance.tolist(), pairs.source, pairs.target]).encode())
        if pairs.links is not None:
            total.update(pairs.links.astype("<i4").tobytes())
    return total.hexdigest()
