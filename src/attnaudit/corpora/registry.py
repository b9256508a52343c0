"""The registered corpora, and where their files are looked for."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from attnaudit.core.errors import InputError, did_you_mean
from attnaudit.core.files import user_cache
from attnaudit.core.registry import Registry
from attnaudit.corpora.corpus import Task
from attnaudit.corpora.entry import CorpusEntry, PairFiles
from attnaudit.corpora.formats.layouts import MissingFiles
from attnaudit.corpora.formats.lines import require_utf8
from attnaudit.corpora.formats.rows import SplitSource
from attnaudit.corpora.named.deceptive import DECEPTIVE, DECEPTIVE_PAIRS, MULTI30K
from attnaudit.corpora.named.documents import IMDB, IMDB_STARS, MOVIES, NEWS_SPORTS
from attnaudit.corpora.named.medical import ADR, ANEMIA, DIABETES
from attnaudit.corpora.named.reading import BABI, CNN
from attnaudit.corpora.named.sentences import MR, SICK, SMS_SPAM, SNLI, SST, SST5, SUBJ, TREC6
from attnaudit.corpora.named.zhang import AG_NEWS, AG_NEWS4, AMAZON, YAHOO, YELP
from attnaudit.corpora.planted import KINDS, planted_corpus, planted_pairs
from attnaudit.corpora.planted.sequences import TARGETS
from attnaudit.corpora.spec import PLANTED, CorpusSpec


def _check(entry: Any) -> None:
    """Raise InputError for what is no `CorpusEntry`, or one whose instances come from none, or several, of its three sources."""
    if not isinstance(entry, CorpusEntry):
        raise InputError(
            "register corpus", repr(entry)[:80], f"a {type(entry).__name__}", "a CorpusEntry"
        )
    given = [name for name in ("sources", "pairs", "generate") if getattr(entry, name)]
    if len(given) != 1:
        raise InputError(
            "register corpus",
            entry.name,
            " and ".join(given) or "no source of instances",
            "one of sources, pairs and generate",
        )
    if (entry.task == "translation") != (given == ["pairs"]) and given != ["generate"]:
        raise InputError(
            "register corpus",
            entry.name,
            f"{given[0]} for the task {entry.task}",
            "pairs for the task translation, and for no other",
        )


CORPORA: Registry[CorpusEntry] = Registry("corpus", "corpora", _check)


def register_corpus(entry: CorpusEntry) -> CorpusEntry:
    """Make a corpus known by its name to every command, report and function, and return it.

    An installed package does the same by an entry point of the group ``attnaudit.corpora`` that names its `CorpusEntry`. Raises InputError
    where the name is taken.
    """
    return CORPORA.register(entry)


def _planted() -> Iterator[CorpusEntry]:
    """The corpora that are generated from a seed, whose deciding words or alignments are known."""
    for kind, made in KINDS.items():
        yield CorpusEntry(
            f"{PLANTED}{kind}", f"generated texts: {made.title}", "", made.class_names,
            task=made.task, generate=partial(planted_corpus, kind),
        )  # fmt: skip
    for kind in TARGETS:
        yield CorpusEntry(
            f"{PLANTED}{kind}", f"generated pairs: {kind.replace('_', ' ')}", "", (),
            task="translation", units="words", generate=partial(planted_pairs, kind),
        )  # fmt: skip


for _entry in (
    SST, IMDB, ADR, NEWS_SPORTS, AG_NEWS, DIABETES, ANEMIA, CNN, *BABI, SNLI,
    AG_NEWS4, SST5, MR, SUBJ, TREC6, SMS_SPAM, SICK, MOVIES, YELP, YAHOO, AMAZON, IMDB_STARS, *DECEPTIVE,
    MULTI30K, DECEPTIVE_PAIRS, *_planted(),
):  # fmt: skip
    register_corpus(_entry)


def task_of(spec: CorpusSpec) -> Task:
    """The task of a corpus: a registered one states it; another has questions or none, as the spec's columns say."""
    if spec.source in CORPORA:
        return CORPORA[spec.source].task
    return "question_answering" if spec.question else "classification"


def is_parallel(source: str) -> bool:
    """Whether a corpus is one of pairs: a registered one of the task translation, or a folder with ``train.src`` or ``train.src.gz``.

    Raises InputError for what is neither registered nor a file or folder.
    """
    if source in CORPORA:
        return CORPORA[source].task == "translation"
    path = Path(source).expanduser()
    if _may_be_name(source) and not path.exists():
        raise missing_corpus(source)
    return has_train(path, "src")


def missing_corpus(source: str, known: Iterable[str] = CORPORA) -> InputError:
    """The error for what is neither registered nor a file or folder."""
    if _may_be_name(source):
        expected = f"one of {', '.join(known)}, a file or a folder"
        return InputError(
            "read corpus", source, "an unknown corpus", expected, did_you_mean(source, known)
        )
    expected = "a file, a folder or the name of a corpus"
    return InputError(
        "read corpus",
        str(Path(source).expanduser()),
        "no such file or folder",
        expected,
        near_file(source),
    )


def _may_be_name(source: str) -> bool:
    path = Path(source).expanduser()
    return path.name == source and not path.suffix


def near_file(name: str) -> str:
    """``did you mean X?`` for the file of the same folder whose name is nearest, or nothing."""
    path = Path(name).expanduser()
    return did_you_mean(
        path.name, [other.name for other in path.parent.iterdir()] if path.parent.is_dir() else []
    )


def has_train(folder: Path, ending: str) -> bool:
    """Whether a folder holds the train file with that ending, as it is or gzipped."""
    return any((folder / f"train.{ending}{packed}").is_file() for packed in ("", ".gz"))


def data_folder(data_dir: str | Path | None) -> tuple[Path, str]:
    """Where named corpora are looked for, and how that place was chosen: ``data_dir``, else $ATTNAUDIT_DATA, else the user's cache."""
    if data_dir is not None:
        return require_utf8(Path(data_dir)), "--data-dir"
    if given := os.environ.get("ATTNAUDIT_DATA"):
        return require_utf8(Path(given)), "$ATTNAUDIT_DATA"
    return user_cache() / "corpora", "the user's cache"


def corpus_folder(entry: CorpusEntry, data_dir: str | Path | None) -> Path:
    """The folder of a registered corpus: the first of its folders that has its files. Raises InputError when there is none."""
    return corpus_sources(entry, data_dir)[0] if entry.sources else pair_files(entry, data_dir)[0]


def corpus_sources(
    entry: CorpusEntry, data_dir: str | Path | None
) -> tuple[Path, dict[str, SplitSource], tuple[str, ...]]:
    """The folder of a corpus of texts, its splits, and a remark for each folder that was skipped. Raises InputError."""
    missing: list[MissingFiles] = []
    for folder in _folders(entry, data_dir):
        try:
            sources = entry.sources(folder) if entry.sources else {}
        except MissingFiles as error:
            missing.append(error)
        else:
            return (
                folder,
                sources,
                tuple(
                    f"{error.where}: {error.got}; read from {folder} instead" for error in missing
                ),
            )
    if missing:
        error = missing[-1]
        raise MissingFiles(
            f"read corpus {entry.name}", error.where, error.got, error.expected, entry.how_to_get
        )
    raise _no_folder(entry, data_dir)


def pair_files(entry: CorpusEntry, data_dir: str | Path | None) -> tuple[Path, PairFiles]:
    """The folder of a parallel corpus and the names of its files there. Raises InputError."""
    for folder in _folders(entry, data_dir):
        for files in entry.pairs:
            if has_train(folder, files.source):
                return folder, files
    raise _no_folder(entry, data_dir)


def _folders(entry: CorpusEntry, data_dir: str | Path | None) -> Iterator[Path]:
    """The existing folders of a corpus."""
    place, _ = data_folder(data_dir)
    return (folder for name in entry.places if (folder := place / name).is_dir())


def _no_folder(entry: CorpusEntry, data_dir: str | Path | None) -> InputError:
    place, chosen_by = data_folder(data_dir)
    get = (
        f"get them with attnaudit corpora fetch {entry.name}"
        if entry.downloads
        else entry.how_to_get
    )
    do = "; ".join(filter(None, [get, "or name their folder with --data-dir"]))
    lacking = " with train.src" if entry.pairs else ""
    got = f"no folder {', '.join(entry.places)}{lacking} ({chosen_by})"
    return InputError(
        f"read corpus {entry.name}", str(place), got, f"the files of {entry.title}", do
    )


def listed_corpora(data_dir: str | Path | None = None) -> list[dict[str, Any]]:
    """Every registered corpus, in the order of registration: name, title, task, classes, licence, citation, folder, get and bytes.

    ``folder`` is empty where its files are not here, ``get`` says how to get them, ``bytes`` is null where that is not known.
    """
    return [_listed(entry, data_dir) for entry in CORPORA.values()]


def _listed(entry: CorpusEntry, data_dir: str | Path | None) -> dict[str, Any]:
    sizes = [download.size for download in entry.downloads]
    total = sum(filter(None, sizes)) if sizes and None not in sizes else None
    folder, get = (
        "",
        f"attnaudit corpora fetch {entry.name}" if sizes else entry.how_to_get or "your own copy",
    )
    if entry.generate:
        get = "generated from a seed"
    else:
        with contextlib.suppress(InputError):
            folder = str(corpus_folder(entry, data_dir))
    return {
        "name": entry.name, "title": entry.title, "task": entry.task, "classes": entry.class_names, "licence": entry.licence,
        "citation": entry.citation, "folder": folder, "get": get, "bytes": total,
    }  # fmt: skip
