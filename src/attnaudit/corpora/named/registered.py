"""What is known of a corpus that has a name: where it comes from, how it is read, what is kept of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attnaudit.corpora.corpus import Task
from attnaudit.corpora.formats.rows import SplitSource


@dataclass(frozen=True)
class Bounds:
    """Lengths that are kept, in words; both bounds are strict. ``below_longest`` drops the longest texts of each split."""

    more_than: int = 0
    less_than: int | None = None
    below_longest: bool = False


NO_BOUNDS = Bounds()


@dataclass(frozen=True)
class Parting:
    """How rows become train, dev and test where files do not say so.

    ``pooled``: the splits of the files are thrown together and drawn anew. ``pool_shares`` are the shares of dev and test of one
    pool, ``dev_share`` is the part of train that becomes dev where there is none, ``train_kept`` and ``test_kept`` the parts of the train
    and test rows that are used. All are drawn by class with the seed.
    """

    pooled: bool = False
    pool_shares: tuple[float, float] = (0.1, 0.1)
    dev_share: float = 0.15
    train_kept: float = 1.0
    test_kept: float = 1.0


USUAL_PARTING = Parting()


def always(settings: Mapping[str, Any]) -> Callable[[str, str], Mapping[str, Any]]:
    """The same dotted settings for every encoder and preset."""
    return lambda encoder, preset: settings


@dataclass(frozen=True)
class Registered:
    """A named corpus.

    ``sources(folder)`` gives the splits and raises MissingFiles when files are missing; the labels in its rows are ``"0"``, ``"1"``, …
    in the order of ``class_names``. Where that is empty, the classes are the labels of train and the answers that its rows allow; rows
    of dev and test with others are left out. ``folders`` are the places within the data directory where the corpus may lie, tried in
    order; without any it is its own name. Rows of ``sources`` without train or test are parted as ``parting`` says. ``clean`` is applied
    to a text before it is split into words, ``whole_words`` is the pattern of what must stay one word.

    ``settings(encoder, preset)`` are dotted settings of a run that the paper, or its code, chose for this corpus, ``vectors`` among them.
    ``bounds`` and ``expected`` are given for the presets ``paper`` and ``code2019``, which is as the paper where it has none of its own;
    ``expected`` has the rows per class, or one number for all, for each split or for several joined by a plus.

    ``how_to_get`` says what to do where the corpus cannot be fetched (`downloads` has what can); ``differs`` tells in one line each what
    is not as in the paper.
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
    whole_words: str = ""
    clean: Callable[[str], str] | None = None
    parting: Parting = USUAL_PARTING
    bounds: Mapping[str, Bounds] = field(default_factory=dict)
    expected: Mapping[str, Mapping[str, tuple[int, ...]]] = field(default_factory=dict)
    settings: Callable[[str, str], Mapping[str, Any]] = always({})  # noqa: RUF009  (a function, not a value that could change)
    how_to_get: str = ""
    differs: tuple[str, ...] = ()

    def of_preset(self, table: Mapping[str, Any], preset: str, default: Any) -> Any:
        """What a table of presets has for one: the paper's where it has none of its own."""
        return table.get(preset, table.get("paper", default))
