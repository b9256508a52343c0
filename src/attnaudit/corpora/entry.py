"""A registered corpus as one value: its paper, licence and files, and how it is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attnaudit.core.papers import Paper
from attnaudit.corpora.corpus import Corpus, ParallelCorpus, Task
from attnaudit.corpora.formats.rows import SplitSource
from attnaudit.corpora.spec import UnitName


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

    ``pooled``: the splits of the files are pooled and drawn again. ``pool_shares`` are the shares of dev and test of one
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
class Download:
    """A file of a corpus at its upstream address.

    ``sha256`` is the published checksum (None: nobody has published one, and that of the received file is recorded), ``size`` its bytes,
    about. ``path`` is where the file goes within the corpus's folder; an archive (zip, tar, tar.gz) is unpacked there.
    """

    # The registered checksums are from the download_checksums of huggingface/datasets (datasets/<name>/dataset_infos.json at commit
    # 040102f1), from scikit-learn for 20 Newsgroups and from facebookresearch/ParlAI for CNN.
    url: str
    sha256: str | None = None
    size: int | None = None
    path: str = ""


@dataclass(frozen=True)
class PairFiles:
    """Names of the files of a parallel corpus: ``train.<source>``, ``<dev>.<target>`` and so on, each plain or gzipped."""

    source: str
    target: str
    dev: str
    test: str


@dataclass(frozen=True)
class CorpusEntry:
    """A registered corpus: all that the program knows about it (`register_corpus`).

    ``title`` names it in a sentence, ``short`` in headings and tables (default: ``name``). Generated corpora have no
    ``paper``.

    The instances come from one of three. ``sources(folder)`` gives the splits of labelled texts and raises MissingFiles where files are
    missing; the labels in its rows are ``"0"``, ``"1"``, … in the order of ``class_names``. Where that is empty, the classes are the labels
    of train and the answers that its rows allow; rows of dev and test with others are excluded. ``pairs`` are the layouts that the files
    of a parallel corpus may have, and ``units`` what its texts are split into by default. ``generate(seed=…, size=…, …)`` makes a `Corpus`
    or a `ParallelCorpus`.

    ``folders`` are the folders within the data directory where files are looked for, in order; the default is ``name``. Sources without
    train, dev or test are split as ``parting`` says. ``clean`` is applied to a text before it is tokenised; what ``whole_words`` matches
    stays one token.

    ``settings(encoder, preset)`` are the dotted settings of a run that the paper, or its code, chose for this corpus; ``vectors`` may be
    one. ``bounds`` and ``expected`` are given by preset; a preset without an own value has that of ``paper``. ``expected`` holds the rows
    per class, or one number for all, for each split or for several joined by a plus.

    ``downloads`` are the files that `fetch_corpus` gets; ``how_to_get`` says what to do where a program cannot. ``differs`` lists, a line
    each, in what the corpus is not as in the paper.
    """

    name: str
    title: str
    licence: str
    class_names: tuple[str, ...] = ()
    paper: Paper | None = None
    sources: Callable[[Path], dict[str, SplitSource]] | None = None
    task: Task = "classification"
    short: str = ""
    pairs: tuple[PairFiles, ...] = ()
    units: UnitName = "pieces"
    generate: Callable[..., Corpus | ParallelCorpus] | None = None
    homepage: str = ""
    downloads: tuple[Download, ...] = ()
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

    @property
    def label(self) -> str:
        """The corpus as headings and tables name it."""
        return self.short or self.name

    @property
    def citation(self) -> str:
        """How a sentence names its paper; empty without one."""
        return self.paper.citation if self.paper else ""

    @property
    def places(self) -> tuple[str, ...]:
        """Folders within the data directory."""
        return self.folders or (self.name,)

    def of_preset(self, table: Mapping[str, Any], preset: str, default: Any) -> Any:
        """The entry of a table of presets: that of ``paper`` where the preset has none."""
        return table.get(preset, table.get("paper", default))
