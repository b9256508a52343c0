"""Corpora: where texts and labels come from, and how they become words with numbers."""

from __future__ import annotations

from attnaudit.corpora.corpus import Corpus, SkippedRow, Split, Task
from attnaudit.corpora.planted import planted_corpus
from attnaudit.corpora.reading import read_corpus
from attnaudit.corpora.registry import REGISTRY
from attnaudit.corpora.vectors import WordVectors, word_vectors
from attnaudit.corpora.vocabulary import Vocabulary

__all__ = [
    "REGISTRY", "Corpus", "SkippedRow", "Split", "Task", "Vocabulary", "WordVectors", "planted_corpus", "read_corpus", "word_vectors",
]  # fmt: skip
