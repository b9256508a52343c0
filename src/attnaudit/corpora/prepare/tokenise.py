"""Texts to words, as in Jain & Wallace 2019: spaCy's English rules, lower case, words with a digit as one."""

from __future__ import annotations

import re
import sys

DIGITS = "qqq"
_ENDLESS = re.compile(r"\S{200}")  # no word is this long, and spaCy's time grows with the square of such a run


def normalise(word: str, mask_digits: bool) -> str:
    """A word in lower case; ``qqq`` for one with a digit when digits are masked."""
    return DIGITS if mask_digits and any(map(str.isdigit, word)) else word.lower()


class Tokeniser:
    """Callable: text → normalised words, without white space; a text of only white space gives none.

    Equal words are one string in memory. Runs of 200 characters without white space are cut. No model is downloaded: the
    rules are those of spaCy's blank English pipeline. What fits the pattern ``whole`` is a word of its own and stays as it is.
    """

    def __init__(self, mask_digits: bool = True, whole: str = "") -> None:
        import spacy  # here because it takes two seconds
        from spacy.attrs import ORTH

        self._tokenizer = spacy.blank("en").tokenizer
        self._orth = ORTH
        self._mask_digits = mask_digits
        self._whole = re.compile(whole) if whole else None
        self._word_of: dict[int, str] = {}

    def __call__(self, text: str) -> list[str]:
        text = _ENDLESS.sub(r"\g<0> ", text)
        if self._whole:
            text = self._whole.sub(r" \g<0> ", text)
        words = map(self._word, self._tokenizer(text).to_array(self._orth).tolist())
        return [word for word in words if word]

    def _word(self, orth: int) -> str:
        word = self._word_of.get(orth)
        if word is None:
            form = self._tokenizer.vocab.strings[orth]
            kept = self._whole is not None and self._whole.fullmatch(form) is not None
            word = "" if form.isspace() else sys.intern(form if kept else normalise(form, self._mask_digits))
            self._word_of[orth] = word
        return word
