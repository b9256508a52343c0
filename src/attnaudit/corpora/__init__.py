"""Corpora: reading, checking and fetching texts and labels, and generating planted ones."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from attnaudit.corpora import mimic as mimic  # registers its corpora
from attnaudit.corpora.registry import CORPORA, CorpusEntry, Download, register_corpus

if TYPE_CHECKING:
    from attnaudit.corpora.corpus import Corpus, SkippedRow, Split, Task
    from attnaudit.corpora.planted import planted_corpus
    from attnaudit.corpora.prepare.vocabulary import Vocabulary, WordVectors, word_vectors
    from attnaudit.corpora.read import read_corpus

# Imported when first used: the registry is needed by every command, numpy is not.
_HOME = {
    "corpus": ("Corpus", "SkippedRow", "Split", "Task"),
    "planted": ("planted_corpus",),
    "prepare.vocabulary": ("Vocabulary", "WordVectors", "word_vectors"),
    "read": ("read_corpus",),
}
__all__ = [
    "CORPORA",
    "Corpus",
    "CorpusEntry",
    "Download",
    "SkippedRow",
    "Split",
    "Task",
    "Vocabulary",
    "WordVectors",
    "planted_corpus",
    "read_corpus",
    "register_corpus",
    "word_vectors",
]


def __getattr__(name: str) -> Any:
    for module, names in _HOME.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
