"""Texts as word pieces: a tokenizer learned from the train split, and the corpus as it cuts it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np
from tokenizers import Encoding, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from attnaudit.core.errors import InputError
from attnaudit.corpora.corpus import Corpus, Split
from attnaudit.corpora.prepare.vocabulary import BOS, EOS, PAD, UNK
from attnaudit.training.transformers import Architecture, TransformerSettings

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")  # the first four are numbered as in every vocabulary here: PAD, UNK, BOS, EOS
CONTINUES = "##"  # begins a piece that continues a word
Spans = tuple[tuple[int, int], ...]  # of characters, the second of each not among them


def train_tokenizer(texts: Sequence[str], settings: TransformerSettings, architecture: Architecture) -> PreTrainedTokenizerFast:
    """A fast tokenizer of lower-cased word pieces (WordPiece), at most ``settings.vocabulary`` of them, learned from ``texts``.

    A text is put between [CLS] and [SEP]. The same texts give the same pieces with the same numbers. Raises InputError where the
    characters of the texts alone are more.
    """
    tokenizer = _untrained({})
    _learn(tokenizer, texts, settings.vocabulary)
    pieces = sorted(tokenizer.get_vocab().items(), key=lambda piece: piece[1])
    if len(pieces) > settings.vocabulary:
        expected = f"{len(pieces)} or more: special tokens, and every character at the start of a word and within"
        raise InputError("train tokenizer", "setting model.vocabulary", str(settings.vocabulary), expected)
    return _saved_as(_untrained(dict(pieces)), settings, architecture)


def _untrained(vocabulary: dict[str, int]) -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token=SPECIAL[UNK], continuing_subword_prefix=CONTINUES))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)  # pyright: ignore[reportAttributeAccessIssue] - a property
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()  # pyright: ignore[reportAttributeAccessIssue]
    return tokenizer


def _learn(tokenizer: Tokenizer, texts: Sequence[str], size: int) -> None:
    """Learn pieces. Those of one character within words are given, in order: the library numbers them in the order of a hash otherwise,
    and of pairs of pieces that are equally frequent it takes the one of lower numbers."""
    within = sorted({CONTINUES + letter for text in texts for letter in tokenizer.normalizer.normalize_str(text) if not letter.isspace()})
    trainer = trainers.WordPieceTrainer(vocab_size=size, special_tokens=[*SPECIAL, *within], show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)


def _saved_as(tokenizer: Tokenizer, settings: TransformerSettings, architecture: Architecture) -> PreTrainedTokenizerFast:
    """The tokenizer with its template, as transformers saves it."""
    first, last = SPECIAL[BOS], SPECIAL[EOS]
    tokenizer.post_processor = processors.TemplateProcessing(  # pyright: ignore[reportAttributeAccessIssue]
        single=f"{first} $A" if architecture.causal else f"{first} $A {last}",
        pair=f"{first} $A {last} $B:1" if architecture.causal else f"{first} $A {last} $B:1 {last}:1",
        special_tokens=[(first, BOS), (last, EOS)],
    )
    named = {"bos_token": first, "eos_token": last} if architecture.causal else {"cls_token": first, "sep_token": last}
    named |= {} if architecture.causal else {"mask_token": SPECIAL[-1]}
    inputs = ["input_ids", *(["token_type_ids"] if architecture.reads_types else []), "attention_mask"]
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token=SPECIAL[PAD], unk_token=SPECIAL[UNK], **named, model_max_length=settings.length,
        model_input_names=inputs,
    )  # fmt: skip


@dataclass(frozen=True)
class RawText:
    """A text before it is cut into words, with its question, and the (start, stop) characters known to decide the label (None: unknown)."""

    text: str
    question: str | None = None
    spans: Spans | None = None


def raw_texts(split: Split) -> list[RawText]:
    """The texts of a split, its words joined by blanks."""
    rationales = split.rationale or [[]] * len(split)
    questions = [None] * len(split) if split.question is None else [" ".join(words) for words in split.question]
    return [
        RawText(" ".join(words), question, _marked(words, marks) if marks else None)
        for words, question, marks in zip(split.tokens, questions, rationales, strict=True)
    ]


def _marked(words: Sequence[str], marks: Sequence[bool]) -> Spans:
    starts = accumulate((len(word) + 1 for word in words[:-1]), initial=0)
    return tuple((start, start + len(word)) for start, word, mark in zip(starts, words, marks, strict=True) if mark)


def as_pieces(corpus: Corpus, tokenizer: PreTrainedTokenizerFast, words: Collection[str] | None = None) -> Corpus:
    """The corpus with word pieces in place of words: what the tokenizer makes of a text, without the special tokens around it.

    A question follows its text after [SEP]. A piece is of the rationale where it shares a character with it; with ``words``, lower-cased
    and as the tokenizer parts them, where it is of one of them. Texts longer than ``tokenizer.model_max_length`` are cut, and counted in
    a note.
    """
    splits, notes = {}, []
    for name, split in corpus.splits.items():
        splits[name], cut = _cut(split, tokenizer, words)
        notes += [f"{cut} text(s) of {name} are cut to {tokenizer.model_max_length} word pieces"] if cut else []
    return replace(corpus, splits=splits, notes=(*corpus.notes, *notes))


def _cut(split: Split, tokenizer: PreTrainedTokenizerFast, words: Collection[str] | None) -> tuple[Split, int]:
    """The split as pieces, and how many texts were too long."""
    texts = raw_texts(split)
    asked = split.question is not None
    open_end = tokenizer.cls_token is None  # of a causal model, whose [EOS] is what follows a text
    found = tokenizer(
        [text.text for text in texts], [text.question or "" for text in texts] if asked else None, truncation=True,
        max_length=tokenizer.model_max_length - open_end,
    ).encodings  # fmt: skip
    assert found is not None
    inside = slice(1, None) if open_end else slice(1, -1)
    pieces = [encoding.tokens[inside] for encoding in found]
    spans = [text.spans if words is None else _spans_of(words, text.text, encoding) for text, encoding in zip(texts, found, strict=True)]
    known = words is not None or split.rationale is not None
    rationale = [[*_marks(encoding, row)][inside] for encoding, row in zip(found, spans, strict=True)] if known else None
    cut = sum(bool(encoding.overflowing) for encoding in found)
    return replace(split, tokens=pieces, rationale=rationale, question=None, sentences=None), cut


def _marks(encoding: Encoding, spans: Spans | None) -> Iterator[bool]:
    """Which pieces, special tokens included, share a character with the spans of a text; none where these are not known."""
    for (start, stop), part in zip(encoding.offsets, encoding.sequence_ids, strict=True) if spans is not None else ():
        yield part == 0 and any(start < last and first < stop for first, last in spans or ())


def _spans_of(words: Collection[str], text: str, encoding: Encoding) -> Spans:
    """Where a text has one of the words."""
    numbers = [number for number, part in zip(encoding.word_ids, encoding.sequence_ids, strict=True) if part == 0]
    found = (encoding.word_to_chars(number) for number in sorted(set(numbers)))
    return tuple(span for span in found if text[slice(*span)].lower() in words)
