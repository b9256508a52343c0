"""What a text is cut into, and how it is put together again: the words that white space parts, or pieces of words that are learned."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from attnaudit.core.errors import InputError

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
        raise InputError("learn pieces", "setting corpus.pieces", got, "more pieces than characters", "or corpus.units=words")
    out = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_writer=out, vocab_size=size, model_type="bpe", character_coverage=1.0, num_threads=1,
        hard_vocab_limit=False, minloglevel=2, bos_id=-1, eos_id=-1,
    )  # fmt: skip
    return Pieces(out.getvalue())
