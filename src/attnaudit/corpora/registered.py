"""What is known of a corpus that has a name: where it comes from, how it is read, what is kept of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attnaudit.corpora.corpus import Task
from attnaudit.corpora.rows import SplitSource


@dataclass(frozen=True)
class Bounds:
    """Lengths that are kept, in words; both bounds are strict. ``below_longest`` drops the longest texts of each split."""

    more_than: int = 0
    less_than: int | None = None
    below_longest: bool = False


NO_BOUNDS = Bounds()


@dataclass(frozen=True)
class Download:
    """A file of a corpus at its upstream address.

    ``sha256`` is the published or known checksum (None: none is known, and what comes is recorded), ``size`` its bytes, about.
    ``path`` is where it goes within the corpus's folder; an archive (zip, tar, tar.gz) is unpacked there instead.
    """

    url: str
    sha256: str | None = None
    size: int | None = None
    path: str = ""


@dataclass(frozen=True)
class Registered:
    """A named corpus.

    ``sources(folder)`` gives the splits and raises InputError when files are missing; the labels in its rows are ``"0"``, ``"1"``, …
    in the order of ``class_names`` (which is empty where the classes are those of train, as the answers of bAbI). ``folders`` are the
    places within the data directory where it may lie, tried in order, the corpus's own name first. ``settings(encoder, preset)`` are
    dotted settings of a run that the paper, or its code, chose for this corpus. ``bounds`` and ``expected`` (rows per class for each
    split) are given for the presets ``paper`` and ``code2019``; ``clean`` is applied to a text before it is split into words.

    ``downloads`` are the upstream files, ``how_to_get`` what to do where they cannot be fetched; ``differs`` tells in one line each
    what is not as in the paper.
    """

    name: str
    title: str
    citation: str
    bibtex: str
    licence: str
    class_names: tuple[str, ...]
    sources: Callable[[Path], dict[str, SplitSource]]
    task: Task = "classification"
    homepage: str = ""
    folders: tuple[str, ...] = ()
    min_df: int = 1
    mask_digits: bool = True
    clean: Callable[[str], str] | None = None
    bounds: Mapping[str, Bounds] = field(default_factory=dict)
    expected: Mapping[str, Mapping[str, tuple[int, ...]]] = field(default_factory=dict)
    settings: Callable[[str, str], Mapping[str, Any]] = lambda encoder, preset: {}
    downloads: tuple[Download, ...] = ()
    how_to_get: str = ""
    differs: tuple[str, ...] = ()
