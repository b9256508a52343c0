"""Which corpora have a name, and where each lies or how it is got."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from attnaudit.core.errors import InputError
from attnaudit.corpora.fetch.fetching import downloads_of
from attnaudit.corpora.named.registered import Registered
from attnaudit.corpora.named.registry import REGISTRY, corpus_folder
from attnaudit.corpora.planted.texts import KINDS


@dataclass(frozen=True)
class Listed:
    """A line of the list: ``folder`` is empty where the corpus is not here, and ``get`` tells how it is got."""

    name: str
    title: str
    task: str
    classes: tuple[str, ...]
    licence: str
    citation: str
    folder: str
    get: str
    bytes: int | None


def listed_corpora(data_dir: str | Path | None = None) -> list[Listed]:
    """Every registered corpus in the order of the registry, then the planted ones."""
    made = "texts of our own grammar", "made on the spot"
    planted = [Listed(f"planted-{kind}", made[0], of.task, of.class_names, "", "", "", made[1], None) for kind, of in KINDS.items()]
    return [*(_listed(entry, data_dir) for entry in REGISTRY.values()), *planted]


def _listed(entry: Registered, data_dir: str | Path | None) -> Listed:
    downloads = downloads_of(entry)
    sizes = [download.size for download in downloads]
    get = f"attnaudit corpora fetch {entry.name}" if downloads else entry.how_to_get or "your own copy"
    total = sum(size for size in sizes if size is not None) if downloads and None not in sizes else None
    return Listed(
        entry.name, entry.title, entry.task, entry.class_names, entry.licence, entry.citation, _folder(entry, data_dir), get, total
    )


def _folder(entry: Registered, data_dir: str | Path | None) -> str:
    try:
        return str(corpus_folder(entry, data_dir))
    except InputError:
        return ""
