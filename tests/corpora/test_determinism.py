"""Nothing depends on how Python happens to hash strings."""

import pytest

from tests.forked import printed

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


@pytest.mark.slow
def test_two_hash_seeds(tmp_path):
    path = write(tmp_path / "a.csv", ROWS)
    one, other = (printed(SCRIPT, path, PYTHONHASHSEED=seed) for seed in "12")
    assert one == other != ""
