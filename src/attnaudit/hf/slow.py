"""Tokenizers of sentencepiece that have no fast form, those of Marian and M2M100: their pieces, and where in a text these are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from attnaudit.core.errors import InputError
from attnaudit.corpora.prepare.tokenise import MARK

Offsets = tuple[int, int]


@dataclass(frozen=True)
class SlowEncoding:
    """A text in pieces, with what an ``Encoding`` of the tokenizers library says of them; a special token is at (0, 0), of no sequence."""

    ids: list[int]
    tokens: list[str]
    offsets: list[Offsets]
    sequence_ids: list[int | None]
    word_ids: list[int | None]
    overflowing: bool

    @property
    def type_ids(self) -> list[int]:
        return [0] * len(self.ids)


def reads_pieces(tokenizer: Any) -> bool:
    """Whether a slow tokenizer can be read: it has a model of sentencepiece, or one each for sources and targets."""
    return _processor(tokenizer, target=False) is not None


def slow_encodings(
    tokenizer: Any, texts: Sequence[str], target: bool, longest: int | None, where: Sequence[str]
) -> Iterator[SlowEncoding]:
    """Every text, or every target, in the tokenizer's own pieces, at most ``longest`` of them; ``where`` is how errors name a text.

    Raises InputError for a text in which the tokenizer finds more than sentencepiece does, such as the name of a special token.
    """
    switch = getattr(tokenizer, f"_switch_to_{'target' if target else 'input'}_mode", None)
    for text, name in zip(texts, where, strict=True):
        own = tokenizer(**{"text_target" if target else "text": text}, verbose=False)["input_ids"]
        try:
            if switch is not None:
                switch()
            found = _encoded(tokenizer, text, target, None)
            if found.ids != own:
                got, expected = (
                    "a text with pieces beyond sentencepiece",
                    "a text without the names of special tokens, such as </s>",
                )
                raise InputError("tokenise texts", name, got, expected, "remove them")
            yield (
                found
                if longest is None or len(own) <= longest
                else _encoded(tokenizer, text, target, longest)
            )
        finally:
            if hasattr(tokenizer, "_switch_to_input_mode"):
                tokenizer._switch_to_input_mode()


def _processor(tokenizer: Any, target: bool) -> Any:
    names = ("spm_target" if target else "spm_source", "sp_model")
    return next((getattr(tokenizer, name) for name in names if hasattr(tokenizer, name)), None)


def _encoded(tokenizer: Any, text: str, target: bool, longest: int | None) -> SlowEncoding:
    pieces, offsets = _pieces(tokenizer, text, target)
    added = tokenizer.build_inputs_with_special_tokens([])
    kept = len(pieces) if longest is None else max(longest - len(added), 0)
    ids: list[int] = tokenizer.convert_tokens_to_ids(pieces[:kept])
    full = tokenizer.build_inputs_with_special_tokens(ids)
    first = next(
        k for k in range(len(added) + 1) if full[:k] == added[:k] and full[k : k + len(ids)] == ids
    )
    before, after = full[:first], full[first + len(ids) :]
    names = [tokenizer.convert_ids_to_tokens(special) for special in (before, after)]
    words = accumulate(piece.startswith(MARK) for piece in pieces[:kept])
    return SlowEncoding(
        full, [*names[0], *pieces[:kept], *names[1]], [*[(0, 0)] * len(before), *offsets[:kept], *[(0, 0)] * len(after)],
        [*[None] * len(before), *[0] * len(ids), *[None] * len(after)], [*[None] * len(before), *words, *[None] * len(after)],
        kept < len(pieces),
    )  # fmt: skip


def _pieces(tokenizer: Any, text: str, target: bool) -> tuple[list[str], list[Offsets]]:
    """The pieces of a text and their characters; a language code of Marian in front, ``>>de<<``, is a piece."""
    code, rest = (
        tokenizer.remove_language_code(text)
        if hasattr(tokenizer, "remove_language_code")
        else ([], text)
    )
    skipped = len(text) - len(rest)
    found = _processor(tokenizer, target).encode(rest, return_type="offset_mapping")
    offsets = [(start + skipped, stop + skipped) for start, stop in found["offsets"]]
    return [*code, *found["pieces"]], [*[(0, skipped)] * len(code), *offsets]
