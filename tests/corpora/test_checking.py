"""Checks of a corpus: every table against what was planted, and nothing found where nothing is wrong."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnaudit.corpora import CORPORA
from attnaudit.corpora.check import check_corpus, check_source, damage_in
from attnaudit.corpora.corpus import Corpus, Split
from attnaudit.corpora.planted import planted_corpus
from attnaudit.corpora.prepare.tokenise import Tokeniser
from tests.corpora.writing import ROWS, write

TOKENISER = Tokeniser()
HARMLESS = st.text(st.sampled_from("abc éèàâçñöüßøæ’“”–…0 .,;:!?'\"-()"), max_size=40)
ACCENTED = st.text(
    st.sampled_from("éèâçñöüßøæîôûÉÈÀÇÜ£©®°±"), min_size=1, max_size=3
)  # à leaves a no-break space, where words are cut


def split(rows, questions=None):
    asked = None if questions is None else [question.split() for question in questions]
    tokens = [text.split() for text, _ in rows]
    label = np.array([label for _, label in rows], dtype=np.int32)
    return Split(np.arange(len(rows)) * 10, tokens, label, None, asked)


def corpus(**splits):
    return Corpus("small", ("no", "yes"), splits, 2, "0" * 64)


TRAIN = split([("a a b", 0), ("a b c", 1), ("a b c", 1), ("d", 0), ("d", 1)])
DEV = split([("a b c", 1), ("e", 0)])
TEST = split([("a b c", 0), ("e", 0), ("e", 0), ("a q z q", 1)])
SMALL = corpus(train=TRAIN, dev=DEV, test=TEST)


def test_classes_are_counted_beside_what_is_published():
    check = check_corpus(SMALL, {"train+dev": (3, 4), "test": (2, 1), "dev": (2,)}, ["as drawn"])
    assert check.tables["classes"].rows() == [
        ("train", "no", 2), ("train", "yes", 3), ("dev", "no", 1), ("dev", "yes", 1), ("test", "no", 3), ("test", "yes", 1),
    ]  # fmt: skip
    assert check.tables["published"].rows() == [
        ("train+dev", "3/4", "3/4", True),
        ("test", "2/1", "3/1", False),
        ("dev", "2", "2", True),
    ]
    assert check.differs == ("as drawn",)


def test_lengths_are_of_texts_and_questions():
    asked = corpus(train=split([("a b", 0), ("a b c d", 1)], ["x", "x y z"]), dev=DEV, test=TEST)
    rows = check_corpus(asked).tables["lengths"].rows()
    assert rows[0] == ("train", "text", 2, 3.0, pytest.approx(3.9), 4)
    parts = [("train", "text"), ("train", "question"), ("dev", "text"), ("test", "text")]
    assert [row[:2] for row in rows] == parts


def test_unknown_words_are_those_in_too_few_rows_of_train():
    rows = check_corpus(SMALL).tables["words"].rows()
    assert rows[0] == ("train", 11, 4, 0.0, 0.0)
    assert rows[2] == ("test", 9, 6, 5 / 9, 3 / 6)
    train, test = split([("a", 0), ("b", 1)], ["b", "a"]), split([("a b", 0)], ["b c"])
    asked = corpus(train=train, dev=DEV, test=test)
    assert check_corpus(asked).tables["words"]["unknown"][2] == 1 / 4


def test_repeated_rows_and_their_conflicts():
    assert check_corpus(SMALL).tables["repeated"].rows() == [
        ("train", 5, 2, None, None, 4),
        ("dev", 2, 0, 1, None, 1),
        ("test", 4, 1, 1, 3, 1),
    ]


@given(HARMLESS)
def test_no_damage_is_found_in_sound_texts(text):
    assert damage_in(TOKENISER(text)) == {}


@given(HARMLESS, ACCENTED, st.sampled_from(["latin-1", "cp1252"]))
def test_utf8_that_was_read_as_latin_1_is_found(text, accented, wrong):
    try:
        damaged = accented.encode().decode(wrong)
    except UnicodeDecodeError:  # cp1252 has no such byte
        return
    assert "UTF-8 read as latin-1" in damage_in(TOKENISER(f"{text} x{damaged}x"))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("caf\ufffd noir", "replacement character"),
        ("he said â€œhi", "UTF-8 read as latin-1"),
        ("a \x93quotation\x94", "control character"),
        ("\ufefftext", "control character"),
        ("good<br /><br />film", "HTML tag"),
        ('<a href="x">link</a>', "HTML tag"),
        ("R&amp;B", "HTML entity"),
        ("it &#39;s", "HTML entity"),
    ],
)
def test_damage_is_found_and_shown(text, kind):
    found = damage_in(TOKENISER(f"before it {text} and after"))
    assert kind in found
    assert len(found[kind]) < 80
    test = split([("a", 0), (" ".join(TOKENISER(text)), 1)])
    rows = check_corpus(corpus(train=TRAIN, dev=DEV, test=test)).tables["damage"].rows()
    assert ("test", kind, 1, 10) in [row[:4] for row in rows]


@pytest.mark.parametrize(
    "text",
    ["AT & T; and others", "arts & crafts; more", "if a < b and c > d", "x <3 you", "1 & 2 # 3"],
)
def test_signs_that_only_look_like_markup_are_left_alone(text):
    assert damage_in(TOKENISER(text)) == {}


def test_rationales_are_counted_where_there_are_any():
    assert check_corpus(SMALL).tables["rationale"].height == 0
    planted = check_corpus(planted_corpus("decisive", size=100)).tables["rationale"]
    assert planted["rows"].to_list() == planted["with_rationale"].to_list() == [80, 10, 10]
    assert all(0 < share < 0.1 for share in planted["marked"])
    prior = check_corpus(planted_corpus("prior", size=100)).tables["rationale"]
    assert prior["with_rationale"].to_list() == [0, 0, 0]


def test_a_file_is_checked_as_it_is_read_and_skipped_rows_are_counted_by_reason(tmp_path):
    bad = [("", 1), ("a text", ""), ("", 0)]
    path = write(tmp_path / "mine.csv", [*ROWS, *bad], ("body", "stars"))
    check = check_source(str(path), text="body", label="stars", on_bad_row="skip")
    assert check.tables["classes"]["rows"].sum() == len(ROWS)
    assert check.tables["skipped"].rows() == [
        ("an empty text", 2, str(path), 24),
        ("no label (empty)", 1, str(path), 25),
    ]
    assert json.loads(json.dumps(check.to_json()))["classes"][0]["split"] == "train"


@pytest.mark.slow
def test_sst_is_whole_and_sound(real_data):
    check = check_source("sst", data_dir=real_data / "raw")
    assert check.tables["published"]["same"].to_list() == [True, True, True]
    assert check.tables["damage"].height == 0
    assert check.differs == CORPORA["sst"].differs
