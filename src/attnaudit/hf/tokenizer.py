"""A tokenizer learned from the train split, and texts as it cuts them, for training."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from attnaudit.core.errors import InputError
from attnaudit.corpora.corpus import SPLITS, Corpus, Split
from attnaudit.corpora.prepare.vocabulary import BOS, EOS, PAD, UNK
from attnaudit.hf.encoded import Encoded
from attnaudit.hf.texts import Texts
from attnaudit.trace.words import CONTINUES, begins_word, join_tokens
from attnaudit.trace.words import SPECIAL as SPECIAL_WORD
from attnaudit.training.transformers import Architecture, TransformerSizes

# The first four are numbered as in every vocabulary of this package: PAD, UNK, BOS, EOS.
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def train_tokenizer(
    texts: Sequence[str], settings: TransformerSizes, architecture: Architecture
) -> PreTrainedTokenizerFast:
    """Learn a fast tokenizer of lower-cased word pieces (WordPiece).

    A text is put between [CLS] and [SEP]. The same texts give the same pieces with the same
    numbers.

    Args:
        texts: Texts to learn from.
        settings: Sizes, such as the largest number of pieces.
        architecture: Class that reads them.

    Raises:
        InputError: The characters of the texts alone are more than ``settings.vocabulary``.
    """
    tokenizer = _untrained({})
    # Pieces of one character inside words are given in order: the library would number them in the
    # order of a hash, and among equally frequent pairs it takes the one of lower numbers.
    letters = {
        CONTINUES + letter
        for text in texts
        for letter in tokenizer.normalizer.normalize_str(text)
        if not letter.isspace()
    }
    trainer = trainers.WordPieceTrainer(
        vocab_size=settings.vocabulary,
        special_tokens=[*SPECIAL, *sorted(letters)],
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    pieces = sorted(tokenizer.get_vocab().items(), key=lambda piece: piece[1])
    if len(pieces) > settings.vocabulary:
        where, got = "setting model.vocabulary", str(settings.vocabulary)
        expected = "or more: special tokens, and every character at the start of a word and within"
        raise InputError("train tokenizer", where, got, f"{len(pieces)} {expected}")
    tokenizer, first, last = _untrained(dict(pieces)), SPECIAL[BOS], SPECIAL[EOS]
    single, pair = f"{first} $A {last}", f"{first} $A {last} $B:1 {last}:1"
    named = {"cls_token": first, "sep_token": last, "mask_token": SPECIAL[-1]}
    if architecture.causal:
        single, pair = f"{first} $A", f"{first} $A {last} $B:1"
        named = {"bos_token": first, "eos_token": last}
    ends = [(first, BOS), (last, EOS)]
    tokenizer.post_processor = processors.TemplateProcessing(single, pair, ends)
    types = ["token_type_ids"] if architecture.reads_types else []
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=SPECIAL[PAD],
        unk_token=SPECIAL[UNK],
        **named,
        model_max_length=settings.length,
        model_input_names=["input_ids", *types, "attention_mask"],
    )


def _untrained(vocabulary: dict[str, int]) -> Any:
    tokenizer: Any = Tokenizer(
        models.WordPiece(vocabulary, unk_token=SPECIAL[UNK], continuing_subword_prefix=CONTINUES)
    )
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


def as_corpus(
    texts: Texts,
    encoded: Encoded,
    tokenizer: PreTrainedTokenizerFast,
    words: Collection[str] | None = None,
) -> Corpus:
    """Return a corpus whose words are pieces, without the special tokens around each text.

    Args:
        texts: The texts.
        encoded: The texts as the tokenizer cuts them.
        tokenizer: The tokenizer.
        words: Words, in lower case, whose pieces are marked in place of those of the rationale.
    """
    # [CLS] … [SEP]; a causal model is given [BOS] …
    last = None if tokenizer.cls_token is None else -1
    name: Any = tokenizer.convert_ids_to_tokens
    pieces = [list(map(str, name(ids[1:last].tolist()))) for ids in encoded.ids]
    marks = encoded.rationale if words is None else list(marks_of(words, encoded))
    label = np.zeros(len(texts), dtype=np.int32) if encoded.label is None else encoded.label
    splits = {}
    for split in SPLITS:
        rows = [row for row, other in enumerate(encoded.split) if other == split]
        rationale = None if marks is None else [marks[row][1:last] for row in rows]
        tokens = [pieces[row] for row in rows]
        splits[split] = Split(encoded.instance[rows], tokens, label[rows], rationale)
    return Corpus(
        texts.name,
        texts.class_names,
        splits,
        1,
        texts.fingerprint,
        (*texts.notes, *encoded.notes),
        texts.skipped,
    )


def marks_of(words: Collection[str], encoded: Encoded) -> Iterator[list[bool]]:
    """Yield which tokens of each text belong to one of the words."""
    joined = join_tokens(encoded.tokens, encoded.word_id)
    for parts, ids in zip(joined, encoded.word_id, strict=True):
        marked = np.array([part.lower() in words for part in parts], dtype=bool)
        yield (marked[np.cumsum(begins_word(ids)) - 1] & (ids != SPECIAL_WORD)).tolist()
