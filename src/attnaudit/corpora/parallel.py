"""Parallel corpora: a source and a target a line, in two files for each split, perhaps aligned."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np

from attnaudit.core import Progress, count, did_you_mean, silent
from attnaudit.core.given import expanded
from attnaudit.corpora.corpus import SPLITS, Pairs, ParallelCorpus, keyed
from attnaudit.corpora.formats.lines import bad_file, first_names, numbered_lines, require_utf8
from attnaudit.corpora.formats.readers import Layout, beside
from attnaudit.corpora.formats.tables import first_that_fits, listed
from attnaudit.corpora.prepare.gathering import Gathered, Gathering, gather
from attnaudit.corpora.registry import CORPORA, corpus_sources
from attnaudit.corpora.spec import ParallelSpec, generated, require_used


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
