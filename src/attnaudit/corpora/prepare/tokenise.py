"""Texts to tokens: words by spaCy's English rules as in Jain & Wallace 2019, sentences of words, and the units of a translator."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from attnaudit.core.errors import InputError
from attnaudit.core.extras import require
from attnaudit.corpora.corpus import Split

DIGITS = "qqq"
_CODE = re.compile(r"[a-z]{2,3}")
_ENDLESS = re.compile(
    r"\S{200}"
)  # no word is this long, and spaCy's time grows with the square of such a run


WHITESPACE = "whitespace"  # in place of a language: words are what white space parts


def normalise(word: str, mask_digits: bool, lowercase: bool = True) -> str:
    """A word, in lower case; ``qqq`` for one with a digit when digits are masked."""
    return (
        DIGITS
        if mask_digits and any(map(str.isdigit, word))
        else word.lower()
        if lowercase
        else word
    )


class Tokeniser:
    """Callable: text → normalised words, without white space; a text of only white space gives none.

    Equal words are one string in memory. Runs of 200 characters without white space are cut. No model is downloaded: the
    rules are those of spaCy's blank pipeline of a ``language``, or `WHITESPACE`. What fits the pattern ``whole`` is a word of its own and
    stays as it is. Raises InputError for a language that spaCy does not have, or not without another package.
    """

    def __init__(
        self,
        mask_digits: bool = True,
        whole: str = "",
        language: str = "en",
        lowercase: bool = True,
    ) -> None:
        require("train", "read corpus")
        from spacy.attrs import ORTH  # here because it takes two seconds

        self._tokenizer = _rules(language)
        self._orth = ORTH
        self._mask_digits, self._lowercase = mask_digits, lowercase
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
            word = (
                ""
                if form.isspace()
                else sys.intern(
                    form if kept else normalise(form, self._mask_digits, self._lowercase)
                )
            )
            self._word_of[orth] = word
        return word


@lru_cache(1)  # as making it takes as long as a thousand texts
def _rules(language: str) -> Any:
    import spacy
    from spacy.tokenizer import Tokenizer

    if language == WHITESPACE:
        return Tokenizer(spacy.blank("xx").vocab)  # without rules it splits at white space
    try:
        if not _CODE.fullmatch(language):
            raise ImportError("no code of a language")
        return spacy.blank(language).tokenizer
    except ImportError as error:
        expected = (
            f"{WHITESPACE}, or the code of a language that spaCy has, as en, de, fr, or xx for any"
        )
        raise InputError(
            "read settings", "setting corpus.tokenizer", f"{language!r} ({error})", expected
        ) from error


def sentence_lengths(split: Split) -> Iterator[list[int]]:
    """How many words each sentence of every text has."""
    if split.sentences is not None:
        yield from split.sentences
        return
    import spacy  # here because it takes two seconds
    from spacy.tokens import Doc

    language: Any = spacy.blank("en")
    sentencizer = language.add_pipe("sentencizer")
    for tokens in split.tokens:
        yield [
            len(sentence) for sentence in sentencizer(Doc(language.vocab, words=list(tokens))).sents
        ]


MARK = "▁"  # what a piece begins with where white space stood


@dataclass(frozen=True)
class Words:
    """What white space parts."""

    def __call__(self, texts: Iterable[str]) -> list[list[str]]:
        return [text.split() for text in texts]

    def join(self, tokens: Sequence[str]) -> str:
        return " ".join(tokens)


@dataclass(frozen=True)
class Pieces:
    """Pieces by byte-pair encoding (Sennrich et al. 2016), as SentencePiece learns them; ``model`` is its own file."""

    model: bytes

    @cached_property
    def _processor(self) -> Any:
        from sentencepiece import SentencePieceProcessor  # here because few need it

        return SentencePieceProcessor(model_proto=self.model)

    def __call__(self, texts: Iterable[str]) -> list[list[str]]:
        return self._processor.encode(list(texts), out_type=str)

    def join(self, tokens: Sequence[str]) -> str:
        return "".join(tokens).replace(MARK, " ").strip()


Units = Words | Pieces


def learn_pieces(texts: Sequence[str], size: int) -> Pieces:
    """At most ``size`` pieces of the texts; the same texts give the same pieces. Raises InputError."""
    from sentencepiece import SentencePieceTrainer

    characters = len(set("".join(texts)))
    if size <= characters:
        got = f"{size}, with {characters} different characters in train"
        raise InputError(
            "learn pieces",
            "setting corpus.pieces",
            got,
            "more pieces than characters",
            "or corpus.units=words",
        )
    out = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_writer=out, vocab_size=size, model_type="bpe", character_coverage=1.0, num_threads=1,
        hard_vocab_limit=False, minloglevel=2, bos_id=-1, eos_id=-1,
    )  # fmt: skip
    return Pieces(out.getvalue())
