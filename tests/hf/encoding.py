"""Texts of random tokens for tiny models, as a tokenizer would have encoded them."""

import re

import numpy as np

from attnaudit.core.ragged import Ragged
from attnaudit.hf.encoded import Encoded, Written
from attnaudit.hf.model import task_of
from attnaudit.trace.words import join_tokens


def random_texts(model, number=4, seed=0, lengths=(4, 11)):
    """Texts of ``lengths``; for an encoder–decoder that writes, also 1 to 5 tokens that it has written."""
    random = np.random.default_rng(seed)
    ids = _drawn(random, random.integers(lengths[0], lengths[1] + 1, number))
    if model.config.is_encoder_decoder:
        ids.values[ids.offsets[1:] - 1] = model.config.eos_token_id
    target = None
    if task_of(model) == "seq2seq":
        written = _drawn(random, random.integers(1, 6, number))
        written.values[written.offsets[:-1]] = 2
        forced = written.with_values(np.zeros(len(written.values), bool))
        target = Written(written, _words(written), _pieces(written), written, forced)
    return Encoded(
        ids=ids,
        word_id=_words(ids),
        tokens=_pieces(ids),
        instance=np.arange(number),
        split=["test"] * number,
        pad=1,
        nothing=1,
        written=target,
    )


def words_of(found):
    """The words of every text, without signs for white space and for parts of a character."""
    words = join_tokens(found.tokens, found.word_id)
    return [[re.sub("[␣↵]|‹[^›]*›", "", word) for word in row] for row in words]


def _words(ids):
    return ids.with_values(np.arange(len(ids.values), dtype=np.int32))


def _drawn(random, lengths):
    return Ragged.from_lengths(random.integers(5, 99, lengths.sum()), lengths)


def _pieces(ids):
    return [[f"t{token}" for token in row] for row in ids]
