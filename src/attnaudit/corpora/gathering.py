"""From the rows of a file to token lists: rows are checked one by one, and what cannot be used is refused or set aside."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from attnaudit.corpora.corpus import SkippedRow, Split
from attnaudit.corpora.registered import NO_BOUNDS, Bounds
from attnaudit.corpora.rows import BadCell, Row, SplitSource, usable_label, usable_text
from attnaudit.errors import InputError

Progress = Callable[[str, int], None]
_PROGRESS_EVERY = 1000


@dataclass(frozen=True)
class Gathering:
    """How rows become token lists. ``classes`` are the labels that may come, None for any."""

    tokenise: Callable[[str], list[str]]
    skip_bad: bool
    max_tokens: int | None = None
    bounds: Bounds = NO_BOUNDS
    classes: tuple[str, ...] | None = None
    progress: Progress | None = None


@dataclass
class Gathered:
    """What has been read of one file, in the order of its rows; ``lengths`` are those before any cut."""

    path: Path
    instance: list[int] = field(default_factory=list)
    tokens: list[list[str]] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    label: list[str] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    skipped: list[SkippedRow] = field(default_factory=list)

    def keep(self, rows: list[int]) -> None:
        """Go on with the chosen rows only."""
        self.instance = [self.instance[row] for row in rows]
        self.tokens = [self.tokens[row] for row in rows]
        self.lengths = [self.lengths[row] for row in rows]
        self.label = [self.label[row] for row in rows]

    def split(self, classes: tuple[str, ...]) -> Split:
        number = {name: index for index, name in enumerate(classes)}
        label = np.array([number[name] for name in self.label], dtype=np.int32)
        return Split(np.array(self.instance, dtype=np.int64), self.tokens, label)


def gather(source: SplitSource, split: str, how: Gathering) -> Gathered:
    """Read one file to its end. Raises InputError for the file, and for a bad row unless bad rows are skipped."""
    out = Gathered(source.path)
    done = 0
    for done, row in enumerate(source.rows(), start=1):
        if row.left_out:
            out.left_out[row.left_out] += 1
        else:
            _take(out, row, how)
        if how.progress and done % _PROGRESS_EVERY == 0:
            how.progress(split, done)
    if how.progress:
        how.progress(split, done)
    _apply_bounds(out, how.bounds)
    if not out.tokens:
        came = f"no usable row among {done}" if done else "no row"
        raise InputError("read corpus", str(source.path), came, "at least one row of each class")
    return out


def refuse_unknown_labels(out: Gathered, known: tuple[str, ...], skip_bad: bool) -> None:
    """Labels of dev or test that train lacks cannot be learned: raise InputError, or set their rows aside."""
    bad = [row for row, name in enumerate(out.label) if name not in known]
    if bad and not skip_bad:
        where = f"{out.path}: row {out.instance[bad[0]]}"
        came = f"label '{out.label[bad[0]]}', which no row of train has ({len(bad)} such row(s))"
        raise InputError("read corpus", where, came, f"one of {_listed(known)}", _remedy("add rows of that class to train"))
    out.skipped += [SkippedRow(str(out.path), out.instance[row], f"label '{out.label[row]}' is not in train") for row in bad]
    out.keep([row for row, name in enumerate(out.label) if name in known])


def _take(out: Gathered, row: Row, how: Gathering) -> None:
    try:
        tokens, label = _understood(row, how)
    except BadCell as error:
        if not how.skip_bad:
            wanted = "a text and a label"
            raise InputError("read corpus", row.where(out.path), str(error), wanted, _remedy("correct the row")) from error
        out.skipped.append(SkippedRow(str(out.path), row.row, str(error)))
        return
    out.instance.append(row.row)
    out.lengths.append(len(tokens))
    out.tokens.append(tokens[: how.max_tokens])
    out.label.append(label)


def _understood(row: Row, how: Gathering) -> tuple[list[str], str]:
    if row.problem:
        raise BadCell(row.problem)
    text, label = usable_text(row.text), usable_label(row.label)
    if how.classes is not None and label not in how.classes:
        raise BadCell(f"label '{label}' where {_listed(how.classes)} was expected")
    tokens = how.tokenise(text)
    if not tokens and how.bounds.more_than == 0:
        raise BadCell("a text without a word")
    return tokens, label


def _apply_bounds(out: Gathered, bounds: Bounds) -> None:
    below = min(
        np.inf if bounds.less_than is None else bounds.less_than,
        max(out.lengths, default=0) if bounds.below_longest else np.inf,
    )
    kept = [row for row, length in enumerate(out.lengths) if bounds.more_than < length < below]
    short = sum(length <= bounds.more_than for length in out.lengths)
    long = len(out.lengths) - len(kept) - short
    out.left_out.update({f"at most {bounds.more_than} words": short, f"{below:.0f} words or more": long})
    out.keep(kept)


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(names[:8]) + (", …" if len(names) > 8 else "")


def _remedy(first: str) -> str:
    return f"{first}, or go on without such rows: --on-bad-row skip"
