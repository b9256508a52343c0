"""What a name, a file or a folder stands for: the sources of its splits."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from attnaudit.core.errors import InputError, did_you_mean
from attnaudit.corpora.formats.lines import require_utf8
from attnaudit.corpora.formats.readers import file_source, folder_sources, stem_and_format
from attnaudit.corpora.formats.rows import Columns, SplitSource, column_option
from attnaudit.corpora.named.registered import Registered
from attnaudit.corpora.named.registry import REGISTRY, corpus_sources
from attnaudit.corpora.planted.texts import KINDS

PLANTED = {f"planted-{kind}": kind for kind in KINDS}
_UNTELLING = {"all", "data"}  # names of files that say nothing about the corpus


@dataclass(frozen=True)
class Place:
    """A corpus that was found, and what the user should know of where."""

    name: str
    sources: dict[str, SplitSource]
    entry: Registered | None = None
    remarks: tuple[str, ...] = ()


def locate(source: str, data_dir: str | Path | None, columns: Columns) -> Place:
    """The sources of a registered corpus, a file or a folder. Raises InputError."""
    if source in REGISTRY:
        return _registered(REGISTRY[source], data_dir, columns)
    path = require_utf8(Path(source).expanduser())
    try:
        if path.is_dir():
            return Place(path.resolve().name, folder_sources(path, columns))
        if path.exists():
            stem, _ = stem_and_format(path)
            name = path.resolve().parent.name if stem in _UNTELLING else stem
            return Place(name, {"all": file_source(path, columns)})
    except OSError as error:
        raise InputError("read corpus", str(path), error.strerror or str(error), "a place that can be read") from error
    known = [*REGISTRY, *PLANTED]
    if path.name == source and not path.suffix:
        hint = did_you_mean(source, known)
        raise InputError("read corpus", source, "an unknown corpus", f"one of {', '.join(known)}, a file or a folder", hint)
    near = did_you_mean(path.name, [other.name for other in path.parent.iterdir()] if path.parent.is_dir() else [])
    raise InputError("read corpus", str(path), "no such file or folder", "a file, a folder or the name of a corpus", near)


def _registered(entry: Registered, data_dir: str | Path | None, columns: Columns) -> Place:
    for option, name in columns:
        if name != getattr(Columns(), option):
            raise InputError(f"read corpus {entry.name}", column_option(option), f"'{name}'", "no column of a named corpus", "leave it out")
    _, sources, remarks = corpus_sources(entry, data_dir)
    return Place(entry.name, sources, entry, remarks)
