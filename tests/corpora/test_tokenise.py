"""Texts to words."""

import pytest
import spacy
from hypothesis import example, given
from hypothesis import strategies as st

from attnaudit.corpora.prepare.tokenise import Tokeniser

TOKENISE = Tokeniser()
PLAIN = spacy.blank("en").tokenizer


def naive(text):
    """Token by token, as the paper describes it."""
    words = [token.text for token in PLAIN(text) if not token.text.isspace()]
    return ["qqq" if any(letter.isdigit() for letter in word) else word.lower() for word in words]


def test_a_sentence():
    text = "Don't pay  $10.50 for it,\nshe said (on the 21st)."
    words = "do n't pay $ qqq for it , she said ( on the qqq ) ."
    assert TOKENISE(text) == words.split()
    assert "10.50" in Tokeniser(mask_digits=False)(text)
    assert TOKENISE(" \n\t ") == []


@pytest.mark.slow
@given(st.text(max_size=60))
@example("a pair '' their'' yours '' .. :o((( 2) a.m. : ) gonna")
def test_agrees_with_spacy_word_by_word(text):
    text = text.encode("utf-8", "ignore").decode()
    assert TOKENISE(text) == naive(text)


def test_equal_words_are_one_string():
    first, second = TOKENISE("the end of the end")[1::3]
    assert first is second


def test_endless_runs_are_cut():
    assert TOKENISE("y" * 500) == ["y" * 200, "y" * 200, "y" * 100]
    assert TOKENISE("y" * 199) == ["y" * 199]
