"""Small fast tokenizers of three kinds, trained here, whose special tokens have the ids that the tiny models know."""

import json
from functools import cache

from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import PreTrainedTokenizerFast

from attnaudit.corpora.corpus import keyed
from attnaudit.corpora.planted import filler
from tests.hf.classes import tiny

SPECIAL = ["[UNK]", "[PAD]", "[CLS]", "[SEP]", "[MASK]"]
NAMES = dict(
    zip(("unk_token", "pad_token", "cls_token", "sep_token", "mask_token"), SPECIAL, strict=True)
)
SIZE = 400


def texts():
    """Sentences to learn pieces from."""
    return [" ".join(filler(20, keyed(0, "tokenizing", str(number)))) for number in range(60)] + [
        "Good, not bad! It's 3.5 state-of-the-art"
    ] * 3


@cache
def _trained(kind):
    if kind == "wordpiece":
        made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        made.normalizer, made.pre_tokenizer = (
            normalizers.BertNormalizer(lowercase=True),
            pre_tokenizers.BertPreTokenizer(),
        )
        trainer = trainers.WordPieceTrainer(
            vocab_size=SIZE, special_tokens=SPECIAL, show_progress=False
        )
    elif kind == "bytes":
        made = Tokenizer(models.BPE())
        made.pre_tokenizer, made.decoder = (
            pre_tokenizers.ByteLevel(add_prefix_space=False),
            decoders.ByteLevel(),
        )
        trainer = trainers.BpeTrainer(
            vocab_size=SIZE,
            special_tokens=SPECIAL,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
    else:
        made = Tokenizer(models.Unigram())
        made.pre_tokenizer = pre_tokenizers.Metaspace()
        trainer = trainers.UnigramTrainer(
            vocab_size=SIZE, special_tokens=SPECIAL, unk_token="[UNK]", show_progress=False
        )
    made.train_from_iterator(texts(), trainer)
    return made.to_str()


def vocabulary():
    """The pieces of ``pieces`` with their scores, without special tokens."""
    return [
        (piece, score)
        for piece, score in json.loads(_trained("pieces"))["model"]["vocab"]
        if piece not in SPECIAL
    ]


def small(name="BertForSequenceClassification", **settings):
    """A tiny model that reads the tokens of `tokenizer`."""
    return tiny(name, vocab_size=SIZE, **settings)


def tokenizer(kind, special="[CLS] $A [SEP]", **settings):
    """``wordpiece``, ``bytes`` (byte-level BPE) or ``pieces`` (Unigram), whose texts get the ``special`` tokens of a template."""
    made = Tokenizer.from_str(_trained(kind))
    if special:
        ids = [(token, SPECIAL.index(token)) for token in SPECIAL[2:4]]
        made.post_processor = processors.TemplateProcessing(special, f"{special} $B:1 [SEP]:1", ids)
    return PreTrainedTokenizerFast(tokenizer_object=made, **{**NAMES, **settings})
