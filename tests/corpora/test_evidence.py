"""Stretches of characters become marked words, and nothing else about the words changes."""

from itertools import compress, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnaudit.corpora.formats.rows import BadCell, marked_words, usable_spans, word_spans
from attnaudit.corpora.prepare.tokenise import Tokeniser
from attnaudit.corpora.read import read_corpus

from . import corpus_files as files
from .corpus_files import put
from .writing import refused

WORDS = st.lists(
    st.sampled_from(["Good,", "don't", "U.S.", "(x)", "a-b", "très", "9", "...", "e.g."]),
    min_size=1,
    max_size=20,
)
TOKENISE = Tokeniser()


@given(WORDS, st.data())
def test_marks_at_white_space_leave_the_words_as_they_are(words, data):
    text = " ".join(words)
    place = st.integers(0, len(words) - 1)
    stretches = [
        (first, first + data.draw(st.integers(0, len(words) - first)))
        for first in data.draw(st.lists(place, max_size=4))
    ]
    spans = usable_spans(word_spans(text, stretches), len(text))
    assert all(stop <= start for (_, stop), (start, _) in pairwise(spans))
    tokens, marks = marked_words(text, spans, TOKENISE)
    assert tokens == TOKENISE(text)
    inside = {place for first, end in stretches for place in range(first, end)}
    expected = [place in inside for place, word in enumerate(words) for _ in TOKENISE(word)]
    assert marks == expected


@pytest.mark.parametrize(
    ("value", "got"),
    [
        ("1-3", "1-3"),
        ([3, 5], "3"),
        ([[3]], "[3]"),
        ([[0, 2.5]], "[0, 2.5]"),
        ([[True, 2]], "[True, 2]"),
        ([[0, 11]], "[0, 11]"),
        ([[-1, 3]], "[-1, 3]"),
        ([[4, 4]], "[4, 4]"),
    ],
)
def test_bad_stretches(value, got):
    with pytest.raises(BadCell, match="in a text of 10 characters") as caught:
        usable_spans(value, 10)
    assert f"a rationale with '{got}'" in str(caught.value)


def test_words_out_of_range():
    assert word_spans("one  two\nthree", [(1, 3), (2, 2)]) == [(5, 14)]
    for stretch in ((2, 4), (-1, 1), (2, 1)):
        with pytest.raises(BadCell, match="in a text of 3 words"):
            word_spans("one two three", [stretch])


def test_reviews_with_marked_words(tmp_path):
    files.write_movies(tmp_path / "plain/movies_rationales")
    found = []
    for row, one in enumerate(files.annotated("train")):
        label, marks = one["classification"], [mark for group in one["evidences"] for mark in group]
        text = files.review_text({"NEG": "poor", "POS": "fine"}[label], row // 2)
        found.append({"document": text, "label": label, "evidences": marks})
    for split in ("train", "dev", "test"):
        files.jsonl(tmp_path / "pack/movies_rationales" / f"{split}.jsonl", found)
    plain, pack = (
        read_corpus("movies_rationales", data_dir=tmp_path / name) for name in ("plain", "pack")
    )
    assert plain.fingerprint == pack.fingerprint
    split = plain.splits["test"]
    assert split.label.tolist() == [0, 1] * 4
    assert split.question is None
    for row, (tokens, marks) in enumerate(zip(split.tokens, split.rationale or (), strict=True)):
        known = list(compress(tokens, marks)) if marks else None
        assert known == (None if row >= 6 else [("poor", "fine")[row % 2], "film"])


def damaged(folder, old, new):
    files.write_movies(folder)
    path = folder / "val.jsonl"
    return put(path, path.read_text().replace(old, new, 1))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"end_token": 9', '"end_token": 99'),
        ('"end_token": 9', '"end_token": Infinity'),
        ('"NEG"', '"\\ud800"'),
        ("dev_NEG_0.txt", "gone.txt"),
        ("dev_NEG_0.txt", "../val.jsonl"),
        ('{"annotation_id"', '"annotation_id"'),
    ],
)
def test_bad_annotations(old, new, tmp_path):
    path = damaged(tmp_path / "movies_rationales", old, new)
    assert refused("movies_rationales", data_dir=tmp_path).where == f"{path}: row 0 (line 1)"
    corpus = read_corpus("movies_rationales", data_dir=tmp_path, on_bad_row="skip")
    assert [row.row for row in corpus.skipped] == [0]
    assert len(corpus.splits["dev"]) == 7
