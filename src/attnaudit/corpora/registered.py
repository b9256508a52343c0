"""What is known of a corpus that has a name: where it comes from, how it is read, what is kept of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from attnaudit.corpora.rows import SplitSource


@dataclass(frozen=True)
class Bounds:
    """Lengths that are kept, in words; both bounds are strict. ``below_longest`` drops the longest texts of each split."""

    more_than: int = 0
    less_than: int | None = None
    below_longest: bool = False


NO_BOUNDS = Bounds()


@dataclass(frozen=True)
class Registered:
    """A named corpus.

    ``sources(folder)`` gives the splits and raises InputError when files are missing; the labels in its rows are ``"0"``,
    ``"1"``, … in the order of ``class_names``. ``bounds`` and ``expected`` (rows per class for each split) are given for the
    presets ``paper`` and ``code2019``; ``clean`` is applied to a text before it is split into words.
    """

    name: str
    title: str
    citation: str
    bibtex: str
    licence: str
    class_names: tuple[str, ...]
    sources: Callable[[Path], dict[str, SplitSource]]
    min_df: int = 1
    mask_digits: bool = True
    clean: Callable[[str], str] | None = None
    bounds: Mapping[str, Bounds] = field(default_factory=dict)
    expected: Mapping[str, Mapping[str, tuple[int, ...]]] = field(default_factory=dict)
