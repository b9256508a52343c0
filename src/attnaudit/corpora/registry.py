"""The registered corpora: what is known of each, and where its files are looked for."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from attnaudit.core import InputError, did_you_mean, expanded
from attnaudit.core.files import user_cache
from attnaudit.core.papers import DEYOUNG2020, PRUTHI2020, Paper
from attnaudit.core.registry import Registry
from attnaudit.corpora.cleaning import CLEANERS
from attnaudit.corpora.formats.lines import require_utf8
from attnaudit.corpora.formats.readers import Layout, MissingFiles, Sources
from attnaudit.corpora.formats.rows import Task
from attnaudit.corpora.formats.tables import first_that_fits, listed

if TYPE_CHECKING:
    from attnaudit.corpora.corpus import Corpus, ParallelCorpus
    from attnaudit.corpora.spec import CorpusSpec

UnitName = Literal["pieces", "words"]
_PAPERS = {paper.key: paper for paper in (DEYOUNG2020, PRUTHI2020)}


@dataclass(frozen=True)
class Bounds:
    """Lengths in words that are kept; both bounds are strict.

    ``below_longest`` also drops the longest texts of each split.
    """

    more_than: int = 0
    less_than: int | None = None
    below_longest: bool = False


@dataclass(frozen=True)
class Parting:
    """Shares by which rows become train, dev and test; all are drawn by class with the seed.

    Attributes:
        pooled: Pool the splits of the files and draw them again.
        pool_shares: Shares of dev and test of a pool.
        dev_share: Share of train that becomes dev if there is no dev file.
        train_kept: Share of the train rows to use.
        test_kept: Share of the test rows to use.
    """

    pooled: bool = False
    pool_shares: tuple[float, float] = (0.1, 0.1)
    dev_share: float = 0.15
    train_kept: float = 1.0
    test_kept: float = 1.0


@dataclass(frozen=True)
class Download:
    """A file of a corpus at its upstream address.

    Attributes:
        url: The address.
        sha256: Published checksum; None if nobody has published one.
        size: Bytes, about.
        path: Place in the corpus's folder; an archive is unpacked there.
    """

    url: str
    sha256: str | None = None
    size: int | None = None
    path: str = ""


@dataclass(frozen=True)
class CorpusEntry:
    """A registered corpus: all that the program knows about it (`register_corpus`).

    Its instances come from ``layouts`` or from ``generate``.

    Attributes:
        name: Name that commands take.
        title: Name in a sentence.
        licence: Licence, or what is known of it.
        class_names: Classes in the order of the labels "0", "1", … of its rows. If empty, the
            classes are the labels of train and the answers that its rows allow, and rows of dev and
            test with others are excluded.
        paper: Paper to cite; generated corpora have none.
        task: Task that a model is trained for.
        short: Name in headings and tables; by default ``name``.
        layouts: Ways in which its files may lie: functions from a folder to the sources there,
            such as `Layout`.
        within: Folders that archives unpack to, looked into as well.
        needs: Description of the files that are expected.
        units: Units into which the texts of a parallel corpus are split.
        generate: Function of ``seed``, ``size`` and ``length`` that makes the corpus.
        homepage: Address of its web page.
        downloads: Files that `fetch_corpus` gets.
        folders: Folders in the data directory, in order; by default ``name``.
        min_df: Train texts that a word must occur in to enter the vocabulary.
        mask_digits: Read words with a digit as ``qqq``.
        whole_words: Pattern of words that stay as they are.
        answers: Pattern of the words in a text that may be its answer.
        clean: Function applied to a text before it is tokenised.
        parting: How rows become splits if files do not say so.
        bounds: Lengths by preset; a preset without its own has those of ``paper``.
        expected: Published rows per class, or one number for all, by preset and by split, or splits
            joined by a plus.
        choices: Dotted settings of a run that the paper or its code chose, by encoder, preset, or
            both, as in "bilstm code2019"; "" is for all.
        how_to_get: Advice if no program may fetch the files.
        differs: Ways in which the corpus is not as in the paper.
    """

    name: str
    title: str
    licence: str
    class_names: tuple[str, ...] = ()
    paper: Paper | None = None
    task: Task = "classification"
    short: str = ""
    layouts: tuple[Callable[[Path], Sources], ...] = ()
    within: tuple[str, ...] = ()
    needs: str = ""
    units: UnitName = "pieces"
    generate: Callable[..., Corpus | ParallelCorpus] | None = None
    homepage: str = ""
    downloads: tuple[Download, ...] = ()
    folders: tuple[str, ...] = ()
    min_df: int = 1
    mask_digits: bool = True
    whole_words: str = ""
    answers: str = ""
    clean: Callable[[str], str] = str
    parting: Parting = field(default_factory=Parting)
    bounds: Mapping[str, Bounds] = field(default_factory=dict)
    expected: Mapping[str, Mapping[str, tuple[int, ...]]] = field(default_factory=dict)
    choices: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    how_to_get: str = ""
    differs: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """Name in headings and tables."""
        return self.short or self.name

    @property
    def citation(self) -> str:
        """Citation of its paper; empty without one."""
        return self.paper.citation if self.paper else ""

    @property
    def places(self) -> tuple[str, ...]:
        """Folders in the data directory."""
        return self.folders or (self.name,)

    def settings(self, encoder: str, preset: str) -> dict[str, Any]:
        """Return the dotted settings that the paper, or its code, chose; ``vectors`` may be one."""
        keys = ("", encoder, preset, f"{encoder} {preset}")
        return {name: value for key in keys for name, value in self.choices.get(key, {}).items()}

    def of_preset(self, table: Mapping[str, Any], preset: str, default: Any) -> Any:
        """Return a preset's entry of ``bounds`` or ``expected``."""
        return table.get(preset, table.get("paper", default))


def _check(entry: Any) -> None:
    """Raise InputError unless an entry says in one way where its instances come from."""
    operation = "register corpus"
    if not isinstance(entry, CorpusEntry):
        raise InputError(operation, repr(entry)[:80], f"a {type(entry).__name__}", "a CorpusEntry")
    if bool(entry.layouts) == bool(entry.generate):
        raise InputError(operation, entry.name, "none, or both", "layouts, or generate")


@cache
def _entries() -> list[CorpusEntry]:
    """Read the entries of ``entries.toml``; one may state only what differs from another."""
    raw = tomllib.loads(Path(__file__).with_name("entries.toml").read_text(encoding="utf-8"))
    return [_entry(name, {**raw.get(own.get("like", ""), {}), **own}) for name, own in raw.items()]


def _entry(name: str, raw: dict[str, Any]) -> CorpusEntry:
    raw.pop("like", None)
    made: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in raw.items()
    }
    for key, kind in (("layouts", Layout), ("downloads", Download)):
        made[key] = tuple(kind(**one) for one in raw.get(key, ()))
    if paper := raw.get("paper"):
        made["paper"] = _PAPERS[paper] if isinstance(paper, str) else Paper(**paper)
    if kind := raw.get("generate"):
        made["generate"] = partial(_generate, raw.get("task") == "translation", kind)
    made["clean"] = CLEANERS.get(raw.get("clean", ""), str)
    made["parting"] = Parting(**raw.get("parting", {}))
    made["bounds"] = {key: Bounds(**own) for key, own in raw.get("bounds", {}).items()}
    return CorpusEntry(name, licence=made.pop("licence", ""), **made)


def _generate(is_parallel: bool, kind: str, **how: Any) -> Corpus | ParallelCorpus:
    from attnaudit.corpora.planted import planted_corpus, planted_pairs  # needs numpy

    return planted_pairs(kind, **how) if is_parallel else planted_corpus(kind, **how)


CORPORA: Registry[CorpusEntry] = Registry("corpus", "corpora", _check, _entries)


def register_corpus(entry: CorpusEntry) -> CorpusEntry:
    """Make a corpus known by its name to every command, report and function, and return it.

    An installed package does the same with an entry point of the group ``attnaudit.corpora`` that
    names its `CorpusEntry`.

    Raises:
        InputError: If the name is taken, or the entry does not say where its instances come from.
    """
    return CORPORA.register(entry)


def task_of(spec: CorpusSpec) -> Task:
    """Return the task of a corpus: one of the user's own has questions or none."""
    if spec.source in CORPORA:
        return CORPORA[spec.source].task
    return "question_answering" if spec.question else "classification"


def is_parallel(source: str) -> bool:
    """Return True for a registered corpus of pairs, or a folder with ``train.src`` or its gzip.

    Raises:
        InputError: For what is neither registered nor a file or folder.
    """
    if source in CORPORA:
        return CORPORA[source].task == "translation"
    path = expanded(source)
    if _may_be_name(path, source) and not path.exists():
        raise missing_corpus(source)
    return first_that_fits(path, ["train.src"]) is not None


def missing_corpus(source: str) -> InputError:
    """Make the error for what is neither registered nor a file or folder."""
    path, got, do = expanded(source), "no such file or folder", near_file(source)
    expected = "a file, a folder or the name of a corpus"
    if _may_be_name(path, source):
        got, do = "an unknown corpus", did_you_mean(source, CORPORA)
        expected = f"one of {', '.join(CORPORA)}, a file or a folder"
    return InputError("read corpus", str(path), got, expected, do)


def _may_be_name(path: Path, source: str) -> bool:
    return path.name == source and not path.suffix


def near_file(name: str) -> str:
    """Suggest the file of the same folder whose name is nearest."""
    path = expanded(name)
    others = path.parent.iterdir() if path.parent.is_dir() else ()
    return did_you_mean(path.name, [other.name for other in others])


def data_folder(data_dir: str | Path | None) -> tuple[Path, str]:
    """Return the folder of registered corpora, and how it was chosen."""
    if data_dir is not None:
        return require_utf8(expanded(data_dir)), "--data-dir"
    if given := os.environ.get("ATTNAUDIT_DATA"):
        return require_utf8(expanded(given)), "$ATTNAUDIT_DATA"
    return user_cache() / "corpora", "the user's cache"


def corpus_folder(entry: CorpusEntry, data_dir: str | Path | None) -> Path | None:
    """Return the first folder of a corpus that has its files."""
    try:
        return corpus_sources(entry, data_dir)[0]
    except InputError:
        return None


def corpus_sources(entry: CorpusEntry, data_dir: str | Path | None) -> tuple[Path, Sources]:
    """Find the first folder of a corpus that has its files, and the splits there.

    Raises:
        InputError: If no folder has its files.
    """
    place, chosen_by = data_folder(data_dir)
    folders = [folder for name in entry.places if (folder := place / name).is_dir()]
    errors: list[MissingFiles] = []
    for folder, name, layout in product(folders, ("", *entry.within), entry.layouts):
        try:
            if (folder / name).is_dir() and (sources := layout(folder / name)):
                return folder, sources
        except MissingFiles as error:
            errors.append(error)
    operation, do = f"read corpus {entry.name}", entry.how_to_get
    if errors:
        raise MissingFiles(operation, errors[0].where, errors[0].got, errors[0].expected, do)
    where, got = place, f"no folder {', '.join(entry.places)} ({chosen_by})"
    if folders:
        where, got = folders[0], f"none of its files among {listed(folders[0])}"
    get = f"get them with attnaudit corpora fetch {entry.name}" if entry.downloads else do
    do = "; ".join(filter(None, [get, "or name their folder with --data-dir"]))
    raise MissingFiles(operation, str(where), got, entry.needs, do)


def listed_corpora(data_dir: str | Path | None) -> list[dict[str, Any]]:
    """Describe every registered corpus, in the order of registration.

    ``folder`` is empty if its files are not here, ``get`` says how to get them, and ``bytes`` is
    None if that is not known.
    """
    rows = []
    for entry in CORPORA.values():
        sizes = [download.size for download in entry.downloads]
        get = entry.how_to_get or "your own copy"
        if entry.generate:
            get = "generated from a seed"
        elif sizes:
            get = f"attnaudit corpora fetch {entry.name}"
        row = {
            "name": entry.name,
            "title": entry.title,
            "task": entry.task,
            "classes": entry.class_names,
            "licence": entry.licence,
            "citation": entry.citation,
            "folder": str((entry.layouts and corpus_folder(entry, data_dir)) or ""),
            "get": get,
            "bytes": sum(filter(None, sizes)) if sizes and None not in sizes else None,
        }
        rows.append(row)
    return rows
