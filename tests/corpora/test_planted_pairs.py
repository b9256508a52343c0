"""Planted pairs: every target word is the twin of the source word that it is linked to, whatever else there is."""

import numpy as np
import pytest

from attnaudit.core import InputError
from attnaudit.corpora.planted import planted_pairs
from attnaudit.corpora.planted.sequences import TARGETS
from attnaudit.corpora.registry import is_parallel
from tests.pairs import write_pairs


def place(kind, t, words):
    """The source word of target word ``t``, by the rule in words."""
    if kind == "copy":
        return t
    if kind == "reverse":
        return words - 1 - t
    return t if t == words - 1 and words % 2 else t + (1 if t % 2 == 0 else -1)


def linked(pairs):
    assert pairs.links is not None
    return list(map(tuple, pairs.links.T.tolist()))


@pytest.mark.parametrize("kind", TARGETS)
@pytest.mark.parametrize("length", [(1, 1), (1, 6), (7, 7), (8, 16)])
def test_every_target_word_is_the_twin_of_its_source_word(kind, length):
    for pairs in planted_pairs(kind, 3, 120, length, 9).splits.values():
        sides = [
            (source.split(), target.split())
            for source, target in zip(pairs.source, pairs.target, strict=True)
        ]
        expected = [
            (row, place(kind, t, len(target)), t)
            for row, (_, target) in enumerate(sides)
            for t in range(len(target))
        ]
        assert linked(pairs) == sorted(expected)
        for row, s, t in expected:
            source, target = sides[row]
            assert source[s][0] == "s"
            assert target[t] == f"t{source[s][1:]}"


def test_sizes_lengths_and_symbols_are_those_asked_for():
    corpus = planted_pairs("copy", 0, 2003, (3, 6), 7)
    assert [len(pairs) for pairs in corpus.splits.values()] == [1603, 200, 200]
    texts = [source.split() for pairs in corpus.splits.values() for source in pairs.source]
    counts = np.bincount([len(text) for text in texts])
    assert counts[:3].sum() == 0
    assert np.abs(counts[3:] / len(texts) - 1 / 4).max() < 0.05
    symbols = np.bincount([int(word[1:]) for text in texts for word in text], minlength=7)
    assert np.abs(symbols / symbols.sum() - 1 / 7).max() < 0.02
    assert corpus.name == "planted-copy"
    assert "2003 of 3 to 6 words out of 7, made with seed 0" in corpus.notes[0]


def test_a_row_depends_on_its_number_alone():
    few, many = (
        planted_pairs("reverse", 5, 40, (2, 5), 9),
        planted_pairs("reverse", 5, 400, (2, 5), 9),
    )
    for split, pairs in few.splits.items():
        first = many.splits[split].take(np.arange(len(pairs)))
        assert (first.source, first.target, linked(first)) == (
            pairs.source,
            pairs.target,
            linked(pairs),
        )


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("bigramflip",), "did you mean bigram_flip?"), (("decisive",), "one of copy, reverse, bigram_flip"),
        (("copy", 0, 9), "size: 9"),
        (("copy", 0, 40, (5, 4)), "length: 5 to 4"),
        (("copy", 0, 40, (1, 4), 1), "symbols: 1"),
    ],
)  # fmt: skip
def test_what_cannot_be_made_is_told(arguments, line):
    with pytest.raises(InputError) as told:
        planted_pairs(*arguments)
    assert line in str(told.value)
    assert "\n" not in str(told.value)


def test_what_is_parallel(tmp_path):
    assert all(map(is_parallel, ("multi30k_en_de", "deceptive_en_de", "planted-copy")))
    folder = write_pairs(tmp_path / "pairs", aligned=False)
    assert is_parallel(str(folder))
    assert not any(
        map(is_parallel, ("sst", "planted-decisive", str(tmp_path), str(folder / "dev.src")))
    )
    (folder / "train.src").rename(folder / "train.en.gz")
    assert not is_parallel(str(folder))  # whoever gives its endings means pairs, and is not asked
    (folder / "train.en.gz").rename(folder / "train.src.gz")
    assert is_parallel(str(folder))
    for name in ("planted-", "multi30k"):
        with pytest.raises(InputError, match="an unknown corpus"):
            is_parallel(name)
