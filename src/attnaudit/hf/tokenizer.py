"""A tokenizer learned from the train split, and texts as it cuts them, for training."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from attnaudit.core.errors import InputError
from attnaudit.core.numbers import count
from attnaudit.corpora.corpus import SPLITS, Corpus, Split
from attnaudit.corpora.prepare.vocabulary import BOS, EOS, PAD, UNK
from attnaudit.hf.encoded import Encoded
from attnaudit.hf.texts import Texts
from attnaudit.trace.words import SPECIAL as SPECIAL_WORD
from attnaudit.training.transformers import Architecture, TransformerSizes

SPECIAL = (
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
)  # the first four are numbered as in every vocabulary here: PAD, UNK, BOS, EOS
CONTINUES = "##"  # begins a piece that continues a word


def train_tokenizer(
    texts: Sequence[str], settings: TransformerSizes, architecture: Architecture
) -> PreTrainedTokenizerFast:
    """A fast tokenizer of lower-cased word pieces (WordPiece), at most ``settings.vocabulary`` of them, learned from ``texts``.

    A text is put between [CLS] and [SEP]. The same texts give the same pieces with the same numbers. Raises InputError where the
    characters of the texts alone are more.
    """
    tokenizer = _untrained({})
    _learn(tokenizer, texts, settings.vocabulary)
    pieces = sorted(tokenizer.get_vocab().items(), key=lambda piece: piece[1])
    if len(pieces) > settings.vocabulary:
        expected = f"{len(pieces)} or more: special tokens, and every character at the start of a word and within"
        raise InputError(
            "train tokenizer", "setting model.vocabulary", str(settings.vocabulary), expected
        )
    return _saved_as(_untrained(dict(pieces)), settings, architecture)


def _untrained(vocabulary: dict[str, int]) -> Tokenizer:
    tokenizer = Tokenizer(
        models.WordPiece(vocabulary, unk_token=SPECIAL[UNK], continuing_subword_prefix=CONTINUES)
    )
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)  # pyright: ignore[reportAttributeAccessIssue] - a property
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()  # pyright: ignore[reportAttributeAccessIssue]
    return tokenizer


def _learn(tokenizer: Tokenizer, texts: Sequence[str], size: int) -> None:
    """Learn pieces. Those of one character within words are given, in order: the library numbers them in the order of a hash otherwise,
    and of pairs of pieces that are equally frequent it takes the one of lower numbers."""
    within = sorted(
        {
            CONTINUES + letter
            for text in texts
            for letter in tokenizer.normalizer.normalize_str(text)
            if not letter.isspace()
        }
    )
    trainer = trainers.WordPieceTrainer(
        vocab_size=size, special_tokens=[*SPECIAL, *within], show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)


def _saved_as(
    tokenizer: Tokenizer, settings: TransformerSizes, architecture: Architecture
) -> PreTrainedTokenizerFast:
    """The tokenizer with its template, as transformers saves it."""
    first, last = SPECIAL[BOS], SPECIAL[EOS]
    tokenizer.post_processor = processors.TemplateProcessing(  # pyright: ignore[reportAttributeAccessIssue]
        single=f"{first} $A" if architecture.causal else f"{first} $A {last}",
        pair=f"{first} $A {last} $B:1"
        if architecture.causal
        else f"{first} $A {last} $B:1 {last}:1",
        special_tokens=[(first, BOS), (last, EOS)],
    )
    named = (
        {"bos_token": first, "eos_token": last}
        if architecture.causal
        else {"cls_token": first, "sep_token": last}
    )
    named |= {} if architecture.causal else {"mask_token": SPECIAL[-1]}
    inputs = [
        "input_ids",
        *(["token_type_ids"] if architecture.reads_types else []),
        "attention_mask",
    ]
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token=SPECIAL[PAD], unk_token=SPECIAL[UNK], **named, model_max_length=settings.length,
        model_input_names=inputs,
    )  # fmt: skip


def as_corpus(
    texts: Texts,
    encoded: Encoded,
    tokenizer: PreTrainedTokenizerFast,
    words: Collection[str] | None = None,
) -> Corpus:
    """The texts as a corpus whose words are the pieces that training reads, without the special tokens around each text.

    With ``words``, in lower case, the marked pieces are not those of the rationale but those of these words.
    """
    last = (
        None if tokenizer.cls_token is None else -1
    )  # [CLS] … [SEP]; a causal model is given [BOS] …
    pieces = [
        [*map(str, tokenizer.convert_ids_to_tokens(ids[1:last].tolist()))] for ids in encoded.ids
    ]
    marks = encoded.rationale if words is None else list(marks_of(words, encoded))
    label = np.zeros(len(texts), dtype=np.int32) if encoded.label is None else encoded.label
    splits = {}
    for name in SPLITS:
        rows = [row for row, split in enumerate(encoded.split) if split == name]
        rationale = None if marks is None else [marks[row][1:last] for row in rows]
        splits[name] = Split(
            encoded.instance[rows], [pieces[row] for row in rows], label[rows], rationale
        )
    notes = (
        [f"{count(encoded.cut, 'text')} cut to {tokenizer.model_max_length} word pieces"]
        if encoded.cut
        else []
    )
    return Corpus(
        texts.name,
        texts.class_names,
        splits,
        1,
        texts.fingerprint,
        (*texts.notes, *notes),
        texts.skipped,
    )


def marks_of(words: Collection[str], encoded: Encoded) -> Iterator[list[bool]]:
    """Which tokens of each text are of one of the words."""
    for parts, ids in zip(encoded.words, encoded.word_id, strict=True):
        marked = [part.lower() in words for part in parts]
        number = (
            np.cumsum((ids == SPECIAL_WORD) | (np.diff(ids, prepend=SPECIAL_WORD - 1) != 0)) - 1
        )  # each special token is a word
        yield [
            marked[part] and own != SPECIAL_WORD
            for part, own in zip(number.tolist(), ids.tolist(), strict=True)
        ]
