"""Corpora: reading, checking and fetching texts and labels, and generating planted ones."""

from __future__ import annotations

from attnaudit.corpora.corpus import Corpus, SkippedRow, Split, Task
from attnaudit.corpora.entry import CorpusEntry, Download
from attnaudit.corpora.planted import planted_corpus
from attnaudit.corpora.prepare.vocabulary import Vocabulary, WordVectors, word_vectors
from attnaudit.corpora.read import read_corpus
from attnaudit.corpora.registry import CORPORA, register_corpus

__all__ = [
    "CORPORA", "Corpus", "CorpusEntry", "Download", "SkippedRow", "Split", "Task", "Vocabulary", "WordVectors", "planted_corpus",
    "read_corpus", "register_corpus", "word_vectors",
]  # fmt: skip
