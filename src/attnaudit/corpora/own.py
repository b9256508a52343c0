"""A user's own texts as they are, for a trained model: one split, nothing drawn, labels if any."""

from __future__ import annotations

import hashlib
from array import array
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Int64

from attnaudit.core.progress import Progress, silent
from attnaudit.corpora.formats.lines import bad_file
from attnaudit.corpora.formats.rows import Columns, SplitSource
from attnaudit.corpora.formats.tables import READERS, listed
from attnaudit.corpora.prepare.gathering import (
    Gathered,
    Gathering,
    examples_of,
    gather,
    no_rows,
    usable_examples,
)
from attnaudit.corpora.read import own_files, own_sources
from attnaudit.corpora.spec import CorpusSpec

WHOLE = "all"  # the split of a file that is read whole


def read_own(
    spec: CorpusSpec,
    split: str | None = None,
    *,
    labelled: bool = False,
    label_needed: bool = False,
    progress: Progress = silent,
) -> tuple[str, Gathered]:
    """Read the texts of a file, or of one file of a folder.

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
    name, source = _source(spec, split, labelled, label_needed)
    return name, gather_own(source, name, spec, labelled, progress)


def gather_own(
    source: SplitSource, split: str, spec: CorpusSpec, labelled: bool, progress: Progress = silent
) -> Gathered:
    """Check the rows of a source one by one. Raises InputError."""
    return gather(source, split, _gathering(spec, labelled, progress))


def _gathering(spec: CorpusSpec, labelled: bool, progress: Progress) -> Gathering:
    return Gathering(
        str.split,
        spec.on_bad_row == "skip",
        has_question=spec.question is not None,
        progress=progress,
        encoding=spec.encoding or "utf-8",
        raw=True,
        labels="some" if labelled else "none",
    )


@dataclass(frozen=True)
class Draw:
    """At most ``size`` of the texts of a file, drawn by ``seed`` and in their order."""

    size: int
    seed: int

    def of(self, n: int) -> Int64[np.ndarray, " m"]:
        """Choose from ``n`` texts."""
        order = np.random.default_rng([self.seed, n]).permutation(n)
        return np.sort(order[: self.size])


class Read(NamedTuple):
    """All texts of a file some of which are kept: their number, labels and digest."""

    texts: int
    labels: Mapping[str, int]
    has_spans: bool
    fingerprint: str


def draw_own(
    spec: CorpusSpec,
    draw: Draw,
    split: str | None = None,
    *,
    labelled: bool = False,
    label_needed: bool = False,
    progress: Progress = silent,
) -> tuple[str, Gathered, Read]:
    """Read some texts of a file as `read_own` does, without holding all of them.

    The file is read twice: once to check and count every row, once for those that are drawn.
    """
    name, source = _source(spec, split, labelled, label_needed)
    how, out = _gathering(spec, labelled, progress), Gathered(source.path, note=source.note)
    digest, instances = hashlib.sha256(), array("q")
    counts, has_spans = Counter[str](), False
    for example in usable_examples(source, name, how, out):
        assert example.raw
        digest.update(example.content)
        has_spans = has_spans or example.raw.spans is not None
        counts[example.label] += 1
        instances.append(example.instance)
    if not instances:
        raise no_rows(out)
    rows = np.frombuffer(instances, np.int64)
    out.examples.extend(examples_of(source, set(rows[draw.of(len(rows))].tolist()), how))
    return name, out, Read(len(rows), counts, has_spans, digest.hexdigest())


def _source(
    spec: CorpusSpec, split: str | None, labelled: bool, label_needed: bool
) -> tuple[str, SplitSource]:
    """Find the split that is read, and its file. Raises InputError."""
    label = spec.label if labelled else None
    columns = Columns(spec.text, label, spec.question, spec.rationale, label_needed)
    files, folder = own_files(spec.source, READERS), Path(spec.source).expanduser()
    known = [one for one in (WHOLE, "test", "dev", "train") if one in files]
    name = split or (known[0] if known else "test")
    if name not in files:
        got, expected = "a file without splits", WHOLE
        if folder.is_dir():
            got = f"{', '.join(known) or 'no split'} among {listed(folder)}"
            expected = f"a file {name} with one of {', '.join(READERS)}"
        raise bad_file(f"--split {split}" if split else folder, got, expected)
    sources = own_sources(spec, {name: files[name]}, columns, "files")
    return name, sources[name]
