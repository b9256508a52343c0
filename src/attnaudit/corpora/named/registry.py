"""The corpora that have a name, and where their files are looked for."""

from __future__ import annotations

import os
from pathlib import Path

from attnaudit.core.errors import InputError
from attnaudit.core.files import user_cache
from attnaudit.corpora.corpus import Task
from attnaudit.corpora.fetch.downloads import DOWNLOADS
from attnaudit.corpora.formats.layouts import MissingFiles
from attnaudit.corpora.formats.lines import require_utf8
from attnaudit.corpora.formats.rows import SplitSource
from attnaudit.corpora.named.adr import ADR
from attnaudit.corpora.named.ag_news import AG_NEWS, AG_NEWS4
from attnaudit.corpora.named.babi import BABI
from attnaudit.corpora.named.cnn import CNN
from attnaudit.corpora.named.deceptive import DECEPTIVE
from attnaudit.corpora.named.imdb import IMDB, IMDB_STARS
from attnaudit.corpora.named.mimic import ANEMIA, DIABETES
from attnaudit.corpora.named.movies import MOVIES
from attnaudit.corpora.named.newsgroups import NEWS_SPORTS
from attnaudit.corpora.named.polarity import MR, SUBJ
from attnaudit.corpora.named.registered import Registered
from attnaudit.corpora.named.reviews import AMAZON, YAHOO, YELP
from attnaudit.corpora.named.sick import SICK
from attnaudit.corpora.named.sms import SMS_SPAM
from attnaudit.corpora.named.snli import SNLI
from attnaudit.corpora.named.sst import SST, SST5
from attnaudit.corpora.named.trec import TREC6
from attnaudit.corpora.planted.texts import KINDS
from attnaudit.corpora.spec import PLANTED, CorpusSpec

REGISTRY: dict[str, Registered] = {
    entry.name: entry
    for entry in (
        SST, IMDB, ADR, NEWS_SPORTS, AG_NEWS, DIABETES, ANEMIA, CNN, *BABI, SNLI,
        AG_NEWS4, SST5, MR, SUBJ, TREC6, SMS_SPAM, SICK, MOVIES, YELP, YAHOO, AMAZON, IMDB_STARS, *DECEPTIVE,
    )
}  # fmt: skip


def task_of(spec: CorpusSpec) -> Task:
    """The task of a corpus: a registered or planted one states it, a user's own has a column of questions or none."""
    if spec.source in REGISTRY:
        return REGISTRY[spec.source].task
    kind = spec.source.removeprefix(PLANTED)
    if spec.source.startswith(PLANTED) and kind in KINDS:
        return KINDS[kind].task
    return "question_answering" if spec.question else "classification"


def data_folder(data_dir: str | Path | None) -> tuple[Path, str]:
    """Where named corpora are looked for, and how that place was chosen: ``data_dir``, else $ATTNAUDIT_DATA, else the user's cache."""
    if data_dir is not None:
        return require_utf8(Path(data_dir)), "--data-dir"
    if given := os.environ.get("ATTNAUDIT_DATA"):
        return require_utf8(Path(given)), "$ATTNAUDIT_DATA"
    return user_cache() / "corpora", "the user's cache"


def corpus_folder(entry: Registered, data_dir: str | Path | None) -> Path:
    """The folder of a named corpus: of its places the first that has its files. Raises InputError when there is none."""
    return corpus_sources(entry, data_dir)[0]


def corpus_sources(entry: Registered, data_dir: str | Path | None) -> tuple[Path, dict[str, SplitSource], tuple[str, ...]]:
    """The folder of a named corpus, its splits, and a remark for each place that was passed over. Raises InputError."""
    place, chosen_by = data_folder(data_dir)
    missing: list[MissingFiles] = []
    for folder in (place / name for name in entry.folders or (entry.name,)):
        if not folder.is_dir():
            continue
        try:
            sources = entry.sources(folder)
        except MissingFiles as error:
            missing.append(error)
        else:
            return folder, sources, tuple(f"{error.where}: {error.got}; read from {folder} instead" for error in missing)
    if missing:
        error = missing[-1]
        raise MissingFiles(f"read corpus {entry.name}", error.where, error.got, error.expected, entry.how_to_get)
    get = f"get them with attnaudit corpora fetch {entry.name}" if entry.name in DOWNLOADS else entry.how_to_get
    do = "; ".join(filter(None, [get, "or give their place with --data-dir"]))
    names = ", ".join(entry.folders or (entry.name,))
    got = f"no folder {names} ({chosen_by})"
    raise InputError(f"read corpus {entry.name}", str(place), got, f"the files of {entry.title}", do)
