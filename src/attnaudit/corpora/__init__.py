"""Corpora: where texts and labels come from, and how they become words with numbers."""

from __future__ import annotations

from attnaudit.corpora.corpus import Corpus, SkippedRow, Split, Task
from attnaudit.corpora.named.registry import REGISTRY
from attnaudit.corpora.planted.texts import planted_corpus
from attnaudit.corpora.prepare.vectors import WordVectors, word_vectors
from attnaudit.corpora.prepare.vocabulary import Vocabulary
from attnaudit.corpora.read import read_corpus

__all__ = [
    "REGISTRY", "Corpus", "SkippedRow", "Split", "Task", "Vocabulary", "WordVectors", "planted_corpus", "read_corpus", "word_vectors",
]  # fmt: skip
