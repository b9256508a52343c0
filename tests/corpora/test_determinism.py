"""Nothing depends on how Python happens to hash strings."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .writing import ROWS, write

SCRIPT = """
import hashlib, sys
from attnaudit.corpora.planted import planted_corpus
from attnaudit.corpora.prepare.vocabulary import Vocabulary, word_vectors
from attnaudit.corpora.read import read_corpus
corpus = read_corpus(sys.argv[1], seed=7)
print(corpus.fingerprint, corpus.notes)
planted = planted_corpus("conjunction", size=200, seed=7)
train = planted.splits["train"].tokens
vocabulary = Vocabulary.build(train, 2)
print(planted.fingerprint, vocabulary.words)
for source in ("corpus", "random"):
    print(hashlib.sha256(word_vectors(source, vocabulary, train, dimension=24, seed=7).matrix.tobytes()).hexdigest())
"""


def output(path: Path, hash_seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT, str(path)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


@pytest.mark.slow
def test_two_hash_seeds(tmp_path: Path):
    path = write(tmp_path / "a.csv", ROWS)
    assert output(path, "1") == output(path, "2") != ""


def test_torch_and_the_slow_libraries_are_not_imported():
    script = "import sys, attnaudit.corpora; print([name for name in ('torch', 'spacy', 'gensim') if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
