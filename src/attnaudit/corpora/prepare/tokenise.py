"""Texts to tokens: words by spaCy's rules as in Jain & Wallace 2019, sentences, and pieces."""

import io
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from attnaudit.core import InputError, require
from attnaudit.corpora.corpus import Split

DIGITS = "qqq"
WHITESPACE = "whitespace"  # in place of a language: words are separated by white space
MARK = "▁"  # begins a piece after white space
# No word is this long, and spaCy's time grows with the square of such a run.
_ENDLESS = re.compile(r"\S{200}")


class Tokeniser:
    """Function from a text to its normalised words.

    Equal words are one string in memory. Runs of 200 characters without white space are cut. The
    rules are those of spaCy's blank pipeline, so no model is downloaded.

    Args:
        mask_digits: Read words with a digit as ``qqq``.
        whole: Pattern of words that stay as they are.
        language: Code of a spaCy language, or `WHITESPACE`.
        lowercase: Lower the case of words.

    Raises:
        InputError: For a language that spaCy does not have, or not without another package.
    """

    def __init__(
        self,
        mask_digits: bool = True,
        whole: str = "",
        language: str = "en",
        lowercase: bool = True,
    ) -> None:
        require("train", "read corpus")
        self._tokenizer = _rules(language)  # importing spaCy takes two seconds
        self._mask_digits, self._lowercase = mask_digits, lowercase
        self._whole = re.compile(whole) if whole else None
        self._word_of: dict[str, str] = {}

    def __call__(self, text: str) -> list[str]:
        """Cut a text into words."""
        text = _ENDLESS.sub(r"\g<0> ", text)
        if self._whole:
            text = self._whole.sub(r" \g<0> ", text)
        words = (self._word(token.text) for token in self._tokenizer(text))
        return [word for word in words if word]

    def _word(self, form: str) -> str:
        if form not in self._word_of:
            word = form
            if not (self._whole and self._whole.fullmatch(form)):
                word = form.lower() if self._lowercase else form
                word = DIGITS if self._mask_digits and any(map(str.isdigit, form)) else word
            self._word_of[form] = "" if form.isspace() else sys.intern(word)
        return self._word_of[form]


@lru_cache(1)  # making it takes as long as a thousand texts
def _rules(language: str) -> Any:
    import spacy
    from spacy.tokenizer import Tokenizer

    if language == WHITESPACE:
        return Tokenizer(spacy.blank("xx").vocab)  # without rules it splits at white space
    try:
        if not re.fullmatch(r"[a-z]{2,3}", language):
            raise ImportError("no code of a language")
        return spacy.blank(language).tokenizer
    except ImportError as error:
        got = f"{language!r} ({error})"
        expected = f"{WHITESPACE}, or a language that spaCy has, as en, de, fr, or xx for any"
        raise InputError("read settings", "setting corpus.tokenizer", got, expected) from error


def sentence_lengths(split: Split) -> Iterator[list[int]]:
    """Count the words of each sentence of every text, found by a rule unless they are given."""
    if split.sentences is not None:
        yield from split.sentences
        return
    import spacy
    from spacy.tokens import Doc

    language: Any = spacy.blank("en")
    sentencizer = language.add_pipe("sentencizer")
    for tokens in split.tokens:
        yield [len(one) for one in sentencizer(Doc(language.vocab, words=list(tokens))).sents]


@dataclass(frozen=True)
class Words:
    """Words, separated by white space."""

    def __call__(self, texts: Iterable[str]) -> list[list[str]]:
        """Cut texts into words."""
        return [text.split() for text in texts]

    def join(self, tokens: Sequence[str]) -> str:
        """Make the text of tokens."""
        return " ".join(tokens)


@dataclass(frozen=True)
class Pieces:
    """Pieces by byte-pair encoding (Sennrich et al. 2016); ``model`` is SentencePiece's file."""

    model: bytes

    @cached_property
    def _processor(self) -> Any:
        from sentencepiece import SentencePieceProcessor

        return SentencePieceProcessor(model_proto=self.model)

    def __call__(self, texts: Iterable[str]) -> list[list[str]]:
        """Cut texts into pieces."""
        return self._processor.encode(list(texts), out_type=str)

    def join(self, tokens: Sequence[str]) -> str:
        """Make the text of tokens."""
        return "".join(tokens).replace(MARK, " ").strip()


Units = Words | Pieces


def learn_pieces(texts: Sequence[str], size: int) -> Pieces:
    """Learn at most ``size`` pieces; the same texts give the same pieces. Raises InputError."""
    from sentencepiece import SentencePieceTrainer

    characters = len(set("".join(texts)))
    if size <= characters:
        got = f"{size}, with {characters} different characters in train"
        where, expected = "setting corpus.pieces", "more pieces than characters"
        raise InputError("learn pieces", where, got, expected, "or corpus.units=words")
    out = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_writer=out,
        vocab_size=size,
        model_type="bpe",
        character_coverage=1.0,
        num_threads=1,
        hard_vocab_limit=False,
        minloglevel=2,
        bos_id=-1,
        eos_id=-1,
    )
    return Pieces(out.getvalue())
