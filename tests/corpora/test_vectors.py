"""Word vectors from every source."""

import gzip

import numpy as np
import pytest

from attnaudit.core import InputError
from attnaudit.corpora.planted import planted_corpus
from attnaudit.corpora.prepare import vocabulary as module
from attnaudit.corpora.prepare.vocabulary import Vocabulary, word_vectors

LISTS = [["sun", "moon", "sun"], ["moon", "star"], ["sun", "sky"]]
VOCABULARY = Vocabulary.build(LISTS, 1)
GLOVE = "the 9 9 9\nsun 1 2 3\nmoon -1 0.5 1e-3\nsun 7 7 7\n. . 0 0 1\n"


def number(word):
    return VOCABULARY.words.index(word)


def refused(path):
    with pytest.raises(InputError) as caught:
        word_vectors(str(path), VOCABULARY, LISTS, seed=0)
    return str(caught.value)


@pytest.mark.parametrize("header", ["", "5 3\n"])
@pytest.mark.parametrize("name", ["v.txt", "v.vec.gz"])
def test_text_format(tmp_path, header, name):
    path = tmp_path / name
    raw = (header + GLOVE).replace("\n", " \n" if header else "\n").encode()
    path.write_bytes(gzip.compress(raw) if name.endswith("gz") else raw)
    vectors = word_vectors(str(path), VOCABULARY, LISTS, dimension=50, seed=0)
    assert vectors.matrix.shape == (len(VOCABULARY), 3)
    assert vectors.matrix.dtype == np.float32
    assert vectors.matrix[number("sun")].tolist() == [1, 2, 3]
    assert vectors.covered == 2
    assert vectors.note == f"{name}, 3 numbers: 2 of 7 words have a vector, the others are zero"
    assert not vectors.matrix[0].any()
    assert not vectors.matrix[[0, 1, 2, 3, number("star"), number("sky")]].any()
    normal = word_vectors(path, VOCABULARY, LISTS, seed=0, missing="normal")
    assert normal.matrix[number("star")].any()
    assert normal.note.endswith("the others are drawn from N(0, 1)")


@pytest.mark.parametrize(
    ("text", "where", "got"),
    [
        ("sun 1 2 3\nmoon 1 2\n", ": line 2", "moon 1 2"),
        ("sun 1 2 3\nmoon 1 x 3\n", ": line 2", "moon 1 x 3"),
        ("sun 1 nan 3\n", ": line 1", "3 finite numbers"),
        ("sun\n", ": line 1", "finite numbers"),
        ("", "", "an empty file"),
        ("2 3\n", "", "no vector"),
        ("soleil 1 2 3\n", "", "no vector for any of 8 words"),
    ],
)
def test_bad_files(tmp_path, text, where, got):
    path = tmp_path / "v.txt"
    path.write_text(text)
    assert refused(path).split(": ", 1)[1].startswith(f"{path}{where}: ")
    assert got in refused(path)


def test_missing_and_damaged_files(tmp_path):
    assert refused(tmp_path / "none.txt").endswith(
        "No such file or directory; expected a file that can be read"
    )
    path = tmp_path / "v.txt.gz"
    path.write_bytes(gzip.compress(GLOVE.encode())[:-9])
    assert "damaged gzip" in refused(path)
    bad = tmp_path / "v.txt"
    bad.write_bytes(b"sun 1 2 \xff\n")
    assert f"{bad}: line 1: " in refused(bad)


def test_word2vec_is_trained_once_for_all_that_ask_for_the_same(monkeypatch):
    trained = []

    def counted(sentences, words, dimension, seed, real=module._word2vec):
        trained.append(seed)
        return real(sentences, words, dimension, seed)

    monkeypatch.setattr(module, "_word2vec", counted)
    monkeypatch.setattr(module, "_LAST_TRAINED", {})

    def vectors(lists=LISTS, dimension=8, seed=3):
        return word_vectors("corpus", VOCABULARY, lists, dimension=dimension, seed=seed).matrix

    first = vectors()
    again = vectors([list(words) for words in LISTS])
    assert (first == again).all()
    again[:] = 0
    assert (first == vectors()).all()
    assert trained == [3]
    vectors(seed=4)
    vectors(dimension=9)
    vectors([*LISTS[1:], LISTS[0]])
    vectors([["sun"]])
    assert trained == [3, 4, 3, 3, 3]
    assert (first == vectors()).all()


def test_vectors_trained_on_the_corpus():
    train = planted_corpus("decisive", size=1000, seed=1).splits["train"].tokens
    vocabulary = Vocabulary.build(train, 1)
    vectors, again, other = (
        word_vectors("corpus", vocabulary, train, dimension=40, seed=seed) for seed in (0, 0, 1)
    )
    words = vectors.covered
    assert words == len(vocabulary) - 1
    assert vectors.note.endswith(f"40 numbers: {words} of {words} words have a vector")
    assert vectors.matrix.shape == (len(vocabulary), 40)
    assert np.isfinite(vectors.matrix).all()
    assert [vectors.matrix[k].any() for k in (0, 1)] == [False, True]
    assert (vectors.matrix == again.matrix).all()
    assert (vectors.matrix != other.matrix).any()
