"""Parallel corpora: a source and a target a line, in two files for each split, perhaps aligned."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from attnaudit.core.errors import did_you_mean
from attnaudit.core.numbers import count
from attnaudit.core.progress import Progress, silent
from attnaudit.corpora.corpus import SPLITS, Pairs, ParallelCorpus, SkippedRow, keyed
from attnaudit.corpora.formats.layouts import Layout
from attnaudit.corpora.formats.lines import (
    Dialect,
    bad_file,
    first_names,
    numbered_lines,
    require_utf8,
)
from attnaudit.corpora.formats.readers import beside
from attnaudit.corpora.formats.tables import first_that_fits, listed
from attnaudit.corpora.prepare.gathering import Gathered, Gathering, gather
from attnaudit.corpora.registry import CORPORA, corpus_sources
from attnaudit.corpora.spec import ParallelSpec, generated, require_used


def read_parallel(
    spec: ParallelSpec, *, seed: int = 0, progress: Progress = silent
) -> ParallelCorpus:
    """Read a corpus of pairs, or generate a planted one.

    Args:
        spec: The corpus.
        seed: Seed that draws shares or pairs, unless the spec has its own.
        progress: Called now and then.

    Raises:
        InputError: For files that are missing or do not fit, with the line, and for a setting that
            has no effect on such a corpus.
    """
    return _read(spec, SPLITS, seed, progress)


def read_pairs(
    spec: ParallelSpec, split: str | None = None, *, seed: int = 0, progress: Progress = silent
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
    chosen = split or known[0]
    found = _read(spec, (chosen,), seed, progress)
    return replace(found, splits={chosen: found.splits[chosen]})


def _own(spec: ParallelSpec) -> tuple[Path, Layout]:
    """Return a user's folder and how its files lie. Raises InputError."""
    folder = require_utf8(Path(spec.source).expanduser())
    if not folder.is_dir():
        known = [name for name, other in CORPORA.items() if other.task == "translation"]
        got = "a file" if folder.exists() else "no such folder"
        expected = f"one of {', '.join(known)}, or a folder of pairs"
        raise bad_file(spec.source, got, expected, did_you_mean(spec.source, known))
    names = {"train": "train", "dev": spec.dev, "test": spec.test}
    files = {split: [f"{name}.{spec.source_ending}"] for split, name in names.items()}
    return folder, Layout("pairs", files, options={"target": spec.target_ending})


def _read(
    spec: ParallelSpec, splits: Sequence[str], seed: int, progress: Progress
) -> ParallelCorpus:
    seed = seed if spec.seed is None else spec.seed
    entry = CORPORA.get(spec.source)
    if entry and entry.task != "translation":
        do = f"attnaudit run {spec.source}"
        raise bad_file(spec.source, "a corpus of single texts", "a corpus of pairs", do)
    if entry and entry.generate:
        return cast(ParallelCorpus, entry.generate(seed=seed, **generated(spec)))
    require_used(spec, "files", "shares", *([] if entry else ["own", "encoded"]))
    encoding = Dialect("utf-8" if spec.encoding is None else spec.encoding).encoding

    def chosen(layout: Any) -> Layout:
        files = {split: layout.files[split] for split in splits}
        own = {"max_words": spec.max_words, "encoding": encoding}
        return replace(layout, files=files, needed=splits, options={**layout.options, **own})

    if entry:
        layouts = tuple(map(chosen, entry.layouts))
        name, sources = (
            entry.name,
            corpus_sources(replace(entry, layouts=layouts), spec.data_dir)[1],
        )
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
        encoding=None if entry else encoding,
        raw=True,
        labels="none",
    )
    read: dict[str, Pairs] = {}
    notes: list[str] = []
    skipped: list[SkippedRow] = []
    for split in splits:
        found = gather(sources[split], split, how)
        pairs, note = _pairs(found, encoding)
        share = {"train": spec.train_kept, "test": spec.test_kept}.get(split) or 1.0
        order = keyed(seed, "kept pairs", split).permutation(len(pairs))
        size = max(1, round(share * len(pairs)))
        read[split] = pairs.take(np.sort(order[:size])) if share < 1 else pairs
        notes += [note] if note else []
        skipped += found.skipped
    return ParallelCorpus(name, read, tuple(notes), tuple(skipped))


def _pairs(found: Gathered, encoding: str) -> tuple[Pairs, str]:
    """Make the pairs of a file, and a note on alignments that are excluded.

    A line of alignments holds ``i-j``: source word i goes with target word j, both from 0.

    Raises:
        InputError: For another number of lines than the texts', or a line that is none.
    """
    raw = [example.raw for example in found.examples if example.raw]
    texts = tuple(one.text for one in raw), tuple(one.question or "" for one in raw)
    instances = np.array([example.instance for example in found.examples], dtype=np.int64)
    path = beside(found.path, "align")
    if path is None:
        return Pairs(instances, *texts), ""
    lines = [line for _, line in numbered_lines(path, encoding)]
    if len(lines) != found.rows:
        got, where = f"{len(lines)} and {found.rows} lines", f"{path} and {found.path.name}"
        raise bad_file(where, got, "a line of alignments for each pair")
    links, beyond = set(), []
    for row, example in enumerate(found.examples):
        for entry in lines[example.instance].split():
            # No text has so many words, and a longer number is as far beyond.
            link = re.fullmatch(r"0*(\d{1,18})\d*-0*(\d{1,18})\d*", entry, re.ASCII)
            if link is None:
                where = f"{path}: line {example.instance + 1}"
                raise bad_file(where, repr(entry[:40]), "links as 0-0 1-2")
            source, target = map(int, link.groups())
            if source < len(example.tokens) and target < len(example.question or ()):
                links.add((row, source, target))
            elif example.instance not in beyond:
                beyond.append(example.instance)
    array = np.array(sorted(links), dtype=np.int64).reshape(-1, 3).T
    note = excluded_links(path.name, beyond, "words beyond the text") if beyond else ""
    return Pairs(instances, *texts, array), note


def excluded_links(where: str, rows: Sequence[int], words: str) -> str:
    """Write the note that rows, from 0, have links to such words."""
    named = first_names(str(row + 1) for row in rows)
    lines = count(len(rows), "line")
    return f"{where}: {lines} with links to {words}, which are excluded: line {named}"
