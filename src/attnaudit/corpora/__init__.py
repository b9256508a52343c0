"""Corpora: reading, checking and fetching texts and labels, and generating planted ones."""

from attnaudit.corpora import mimic as mimic  # registers its corpora
from attnaudit.corpora.registry import CORPORA, CorpusEntry, Download, register_corpus

__all__ = ["CORPORA", "CorpusEntry", "Download", "register_corpus"]
