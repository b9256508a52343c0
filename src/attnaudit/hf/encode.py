"""Texts tokenised by the model's own tokenizer."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from inspect import signature
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Int32, Int64
from torch import nn
from transformers import AutoTokenizer

from attnaudit.core.errors import InputError, describe_error
from attnaudit.core.ragged import Ragged
from attnaudit.hf.classes import Outputs, outputs_of
from attnaudit.hf.encoded import Encoded
from attnaudit.hf.pieces import Pieces, in_pieces, spells_bytes
from attnaudit.hf.replay import task_of
from attnaudit.hf.slow import reads_pieces, slow_encodings
from attnaudit.hf.texts import Kind, Texts
from attnaudit.trace.words import SPECIAL

OPERATION = "tokenise texts"
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json")
PADDED = 64  # of the rows of embeddings, as hardware likes them
UNLIMITED = 1_000_000  # tokens; a tokenizer without a limit states a number far above it
_AT_ONCE = 1000  # texts whose pieces are in memory at a time


def encode(
    model: Any, tokenizer: Any, texts: Texts, *, max_tokens: int | None = None, on_empty: Literal["error", "skip"] = "error",
    outputs: Outputs | None = None,
) -> Encoded:  # fmt: skip
    """Tokenise texts by the model's own tokenizer, for the model: a fast one, or of an encoder–decoder one of sentencepiece (`slow`).

    Texts longer than the model reads, or than ``max_tokens``, are cut: at their start for a causal language model, whose prediction
    follows the end, else at their end (of a pair, the longer text). A word is what the tokenizer takes as one, parted at white space and
    between letters and punctuation too, where it does not do so itself; white space belongs to the word after it. Raises InputError for a
    tokenizer that is slow or has other tokens than the model, for classes that do not fit the model's, and for a text without a token
    unless these are skipped (``on_empty``). ``outputs`` are those of a classifier, by default found by its names (`outputs_of`).
    """
    kind = kind_of(model)
    _require_pieces(tokenizer, kind)
    if texts.kind != kind:
        raise InputError(
            OPERATION,
            type(model).__name__,
            f"texts read for {texts.kind}",
            f"texts for {kind}",
            f"read_texts(…, {kind!r})",
        )
    reader = _Reader.of(model, tokenizer, texts, kind, max_tokens)
    names, label = (), texts.label
    outputs = outputs or outputs_of(model, texts)
    if outputs is not None:
        names = outputs.names
        label = None if label is None else np.where(label < 0, label, outputs.of_class[label])
    pieces = list(reader.pieces())
    targets = list(reader.targets()) if kind == "seq2seq" else None
    empty = np.array([all(text.special) for text in pieces], dtype=bool)
    if targets is not None:
        empty |= np.array([all(target.special) for target in targets], dtype=bool)
    if empty.any() and on_empty == "error":
        where = reader.where(int(empty.argmax()))
        do = "correct the row, or skip such rows: encode(…, on_empty='skip')"
        raise InputError(OPERATION, where, "a text without a token", "one or more", do)
    encoded = reader.encoded(pieces, targets, label, names)
    encoded = replace(
        encoded, notes=(*_differences(model, tokenizer), *reader.shortened(encoded.cut))
    )
    return (
        encoded
        if not empty.any()
        else replace(encoded.take(np.flatnonzero(~empty)), empty=int(empty.sum()))
    )


def require_texts(encoded: Encoded, texts: Texts, name: str) -> None:
    """Raise InputError where none of the texts that ``name`` has given has a token."""
    if not len(encoded):
        do = "correct the texts, or read another split (--split)"
        raise InputError(
            OPERATION, name, f"no text with a token among {len(texts)}", "one or more", do
        )


def _differences(model: Any, tokenizer: Any) -> Iterator[str]:
    """A note where the tokenizer may be another model's, all of whose numbers fit: by their vocabularies and special tokens.

    Neither is sure to be wrong: vocabularies are padded, to a multiple of `PADDED`, and special tokens renamed.
    """
    config, known = model.config.get_text_config(), len(model.get_input_embeddings().weight)
    found = []
    if (
        len(tokenizer) != known
        and (len(tokenizer) > known or known % PADDED)
        and not hasattr(tokenizer, "target_encoder")
    ):
        found.append(f"{len(tokenizer)} tokens where the model has {known}")
    for name in ("pad", "bos", "eos", "cls", "sep"):
        own, token = (
            getattr(config, f"{name}_token_id", None),
            getattr(tokenizer, f"{name}_token_id", None),
        )
        if None not in (own, token) and token not in (own if isinstance(own, list) else [own]):
            found.append(f"{name} token {token} where the model has {own}")
    if found:
        yield f"the tokenizer may be another model's: {', '.join(found)}"


def notes_of(texts: Texts, encoded: Encoded, outputs: Outputs | None) -> list[str]:
    """What the user should know of texts and how they were read."""
    assumed = [] if outputs is None else outputs.notes
    empty = (
        [f"{encoded.empty} text{'s' if encoded.empty > 1 else ''} without a token skipped"]
        if encoded.empty
        else []
    )
    return [*texts.notes, *assumed, *encoded.notes, *empty, *_repeated(texts)]


def _repeated(texts: Texts) -> list[str]:
    """A note where texts occur more than once: a reader of intervals should know that they are not so many."""
    parts = [texts.split, texts.text, *([texts.second] if texts.second is not None else [])]
    again = len(texts) - len(set(zip(*parts, strict=True)))
    if not again:
        return []
    return [
        f"{again} of {len(texts)} texts {'are' if again > 1 else 'is'} the same as an earlier one, and counted again"
    ]


@dataclass(frozen=True)
class _Reader:
    """A tokenizer with what it is to read for a model; ``structural`` are the ids of tokens that are no part of a text."""

    model: Any
    tokenizer: Any
    texts: Texts
    kind: Kind
    longest: int | None
    limited_by: str
    structural: frozenset[int]

    @classmethod
    def of(
        cls, model: Any, tokenizer: Any, texts: Texts, kind: Kind, max_tokens: int | None
    ) -> _Reader:
        limits = {
            **({} if max_tokens is None else {"max_tokens": max_tokens}),
            **limits_of(model, tokenizer),
        }
        limited_by = min(limits, key=lambda whose: limits[whose], default="")
        longest = limits.get(limited_by)
        added = tokenizer.num_special_tokens_to_add(texts.second is not None and kind != "seq2seq")
        if longest is not None and longest <= added:
            raise InputError(
                OPERATION,
                "max_tokens",
                str(longest),
                f"more than the {added} special tokens of a text",
            )
        named = (
            getattr(tokenizer, f"{name}_token_id") for name in ("bos", "eos", "cls", "sep", "pad")
        )
        return cls(
            model,
            tokenizer,
            texts,
            kind,
            longest,
            limited_by,
            frozenset(named) - {None, tokenizer.unk_token_id},
        )

    @property
    def of_bytes(self) -> bool:
        """Whether pieces are named by the bytes that they stand for."""
        return spells_bytes(self.tokenizer)

    def shortened(self, cut: int) -> list[str]:
        """A note on the texts that are cut, and what limits their length."""
        number = f"{cut} of {len(self.texts)} texts {'are' if cut > 1 else 'is'} longer"
        return (
            [f"{number} than {self.longest} tokens, the limit of {self.limited_by}, and cut"]
            if cut
            else []
        )

    def where(self, row: int) -> str:
        """How errors name a text."""
        return f"{self.texts.name}, {self.texts.split[row]}, row {self.texts.instance[row]}"

    def pieces(self) -> Iterator[Pieces]:
        """Every text, in pieces. Raises InputError for a token that the model does not have."""
        second = self.texts.second if self.kind == "classification" else None
        for row, encoding in enumerate(self._encodings(self.texts.text, second, target=False)):
            parts = (
                (self.texts.text[row],) if second is None else (self.texts.text[row], second[row])
            )
            self._check_known(row, encoding.ids)
            spans = self.texts.spans[row] if self.texts.spans else None
            yield in_pieces(encoding, parts, self.structural, spans, self.of_bytes)

    def _encodings(self, first: list[str], second: list[str] | None, target: bool) -> Iterator[Any]:
        """The tokenizer's own encoding of every text, or of every pair."""
        if not self.tokenizer.is_fast:
            yield from slow_encodings(
                self.tokenizer,
                first,
                target,
                self.longest,
                list(map(self.where, range(len(first)))),
            )
            return
        more: dict[str, Any] = (
            {"truncation": False}
            if self.longest is None
            else {"truncation": "longest_first", "max_length": self.longest}
        )
        with _unchanged(self.tokenizer):
            if self.kind == "causal-lm":
                self.tokenizer.truncation_side = "left"
            for start in range(0, len(first), _AT_ONCE):
                part = slice(start, start + _AT_ONCE)
                given = (
                    {"text_target": first[part]}
                    if target
                    else {"text": first[part], "text_pair": second[part] if second else None}
                )
                yield from self.tokenizer(**given, **more, verbose=False).encodings

    def _check_known(self, row: int, ids: Sequence[int], target: bool = False) -> None:
        known = len(
            (self.model.get_decoder() if target else self.model).get_input_embeddings().weight
        )
        if max(ids, default=0) >= known:
            got, expected = (
                f"token {max(ids)} of the tokenizer",
                f"one below {known}, the model's vocabulary",
            )
            raise InputError(
                OPERATION,
                self.where(row),
                got,
                expected,
                "use the tokenizer that was saved with the model",
            )

    def targets(self) -> Iterator[Pieces]:
        """What goes with every text, in pieces of the target's language. Raises InputError for a token that the model does not have."""
        targets = self.texts.second or []
        for row, encoding in enumerate(self._encodings(targets, None, target=True)):
            self._check_known(row, encoding.ids, target=True)
            yield in_pieces(encoding, (targets[row],), self.structural, None, self.of_bytes)

    def encoded(
        self,
        pieces: list[Pieces],
        targets: list[Pieces] | None,
        label: Int32[np.ndarray, " n"] | None,
        class_names: tuple[str, ...],
    ) -> Encoded:
        """All texts as columns."""
        config = self.model.config.get_text_config()
        own = self.tokenizer
        pad = next(
            (
                token
                for token in (config.pad_token_id, own.pad_token_id)
                if token is not None and token >= 0
            ),
            0,
        )
        nothing = next(
            (token for token in (own.mask_token_id, own.unk_token_id) if token is not None), pad
        )
        cut = sum(
            text.cut or (targets is not None and targets[row].cut)
            for row, text in enumerate(pieces)
        )
        spans = self.texts.spans
        return Encoded(
            _column(pieces, "ids", np.int64), self._type_ids(pieces), _column(pieces, "special", np.bool_),
            _column(pieces, "word_id", np.int32), [found.tokens for found in pieces], [found.words for found in pieces],
            self.texts.instance, label, self.texts.split, cut, pad, nothing, class_names,
            None if spans is None else [[] if spans[row] is None else found.rationale for row, found in enumerate(pieces)],
            *((None, None, None, None, None) if targets is None else self._written(targets)),
        )  # fmt: skip

    def _type_ids(self, pieces: list[Pieces]) -> Ragged | None:
        """The tokens' parts of a pair, where tokenizer and model both know of them. Raises InputError where the model has fewer parts."""
        asked = (
            "token_type_ids" in self.tokenizer.model_input_names
            and "token_type_ids" in signature(self.model.forward).parameters
        )
        if not asked or self.kind != "classification":
            return None
        found = _column(pieces, "type_ids", np.int64)
        known = getattr(self.model.config, "type_vocab_size", None)
        if known is not None and found.values.max(initial=0) >= max(known, 1):
            got = f"token type {found.values.max()} of the tokenizer"
            expected = f"one below {known}, the model's type_vocab_size"
            raise InputError(
                OPERATION,
                type(self.model).__name__,
                got,
                expected,
                "use the tokenizer that was saved with the model",
            )
        return found

    def _written(
        self, targets: list[Pieces]
    ) -> tuple[Ragged, Ragged, Ragged, list[list[str]], Ragged]:
        """What the decoder is given, what follows there, which of the latter is not predicted, and the pieces and words of the former."""
        following = _column(targets, "ids", np.int64)
        written = [self._shifted(ids) for ids in following]
        pieces = [
            [self.tokenizer.convert_ids_to_tokens(int(ids[0])), *found.tokens[: len(ids) - 1]]
            for ids, found in zip(written, targets, strict=True)
        ]
        whole = following.spread(
            np.array([not found.cut for found in targets], dtype=bool)
        )  # of others the end is none of the text's
        forced = _column(targets, "special", np.bool_).values & ~(
            whole & np.isin(following.values, list(self._ends))
        )
        word_id = [
            [SPECIAL, *found.word_id[: len(ids) - 1]]
            for ids, found in zip(written, targets, strict=True)
        ]
        words = Ragged.from_rows(word_id, np.int32)
        return (
            Ragged.from_rows(written, np.int64),
            following,
            following.with_values(forced),
            pieces,
            words,
        )

    @property
    def _ends(self) -> set[int]:
        """The tokens that end a target, by tokenizer and model: special ones that are predicted all the same."""
        stated = self.model.config.get_text_config().eos_token_id
        return {
            self.tokenizer.eos_token_id,
            *(stated if isinstance(stated, list) else [stated]),
        } - {None}

    def _shifted(self, ids: Int64[np.ndarray, " T"]) -> np.ndarray:
        """What a decoder is given to predict ``ids``, in the class's own way."""
        own = getattr(self.model, "prepare_decoder_input_ids_from_labels", None)
        start = self.model.config.decoder_start_token_id
        if own is not None and start is not None:
            return own(labels=torch.from_numpy(ids.copy())[None])[0].numpy()
        if start is None:
            raise InputError(
                OPERATION,
                type(self.model).__name__,
                "no decoder_start_token_id",
                "the token that a decoder starts with",
                "set it in config.json",
            )
        return np.concatenate([[start], ids[:-1]])


def _column(pieces: Iterable[Pieces], name: str, dtype: type) -> Ragged:
    return Ragged.from_rows((getattr(found, name) for found in pieces), dtype)


@contextmanager
def _unchanged(tokenizer: Any) -> Iterator[None]:
    """Within, the tokenizer may be set otherwise; after it, it cuts and pads as before."""
    backend, side = tokenizer.backend_tokenizer, tokenizer.truncation_side
    truncation, padding = backend.truncation, backend.padding
    try:
        yield
    finally:
        tokenizer.truncation_side = side
        backend.no_truncation()
        backend.no_padding()
        if truncation is not None:
            backend.enable_truncation(**truncation)
        if padding is not None:
            backend.enable_padding(**padding)


def load_tokenizer(folder: str | Path, kind: Kind = "classification") -> Any:
    """The tokenizer that ``tokenizer.save_pretrained(folder)`` has written, for texts of a ``kind``.

    Raises InputError where it is missing, damaged, or does not say where in a text its pieces are.
    """
    files, save = (
        [Path(folder) / name for name in TOKENIZER_FILES],
        "save it with tokenizer.save_pretrained(DIR)",
    )
    if not any(file.is_file() for file in files):
        raise InputError(
            "read tokenizer",
            str(folder),
            f"no {files[0].name}",
            "the fast tokenizer of the model",
            save,
        )
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings(
                "ignore", "Recommended: pip install sacremoses"
            )  # which Marian's pieces do not depend on
            tokenizer = AutoTokenizer.from_pretrained(
                folder, local_files_only=True, trust_remote_code=False
            )
    except Exception as error:
        if not files[0].is_file():
            got, do = (
                f"a slow tokenizer: no {files[0].name}",
                f"AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR) writes {files[0].name}",
            )
            raise InputError(
                "read tokenizer", str(folder), got, "the fast tokenizer of the model", do
            ) from error
        raise InputError(
            "read tokenizer", str(folder), describe_error(error), "the tokenizer of a model", save
        ) from error
    return _require_pieces(tokenizer, kind)


def _require_pieces(tokenizer: Any, kind: Kind) -> Any:
    """The tokenizer, where it says which characters its pieces are, and of a multilingual translator which language it writes."""
    if isinstance(tokenizer, str | Path):
        do = "read it with attnaudit.hf.load_tokenizer(DIR)"
        raise InputError(
            OPERATION,
            "the tokenizer",
            f"the path {tokenizer}",
            "a tokenizer of the transformers library",
            do,
        )
    if not getattr(tokenizer, "is_fast", False) and not (
        kind == "seq2seq" and reads_pieces(tokenizer)
    ):
        got = (
            "no tokenizer"
            if tokenizer is None
            else f"a slow tokenizer ({type(tokenizer).__name__})"
        )
        do = "read the fast one with AutoTokenizer.from_pretrained, and save it"
        raise InputError(
            OPERATION,
            "the tokenizer",
            got,
            "a fast tokenizer, which says where in the text its pieces are",
            do,
        )
    if kind == "seq2seq" and getattr(tokenizer, "tgt_lang", "") is None:
        do = "read it with src_lang=… and tgt_lang=…, and save it with tokenizer.save_pretrained(DIR)"
        raise InputError(
            OPERATION,
            type(tokenizer).__name__,
            "no language of the targets (tgt_lang)",
            "a language code",
            do,
        )
    return tokenizer


def kind_of(model: Any) -> Kind:
    """What a model predicts: a class of a text, the next token, or the next token of a decoder. Raises InputError for other models."""
    kind = task_of(model)
    if kind is None:
        expected = "a classifier of texts, a causal language model or an encoder–decoder"
        raise InputError(OPERATION, type(model).__name__, "a model of another kind", expected)
    return kind


def limits_of(model: Any, tokenizer: Any) -> dict[str, int]:
    """The most tokens of a text, special ones among them, by what limits them; empty where neither model nor tokenizer states a limit."""
    config = model.config.get_text_config()
    limits = [getattr(config, "max_position_embeddings", None)]
    for path, module in model.named_modules():
        learned = isinstance(module, nn.Embedding) and "position" in path.rpartition(".")[2]
        if (
            learned and module.padding_idx is not None
        ):  # its positions count from behind that of padding, as in RoBERTa
            limits.append(module.num_embeddings - module.padding_idx - 1)
    of_model = min(
        (int(limit) for limit in limits if limit is not None and 0 < limit < UNLIMITED),
        default=UNLIMITED,
    )
    found = {
        "the model": of_model,
        "the tokenizer (model_max_length)": int(tokenizer.model_max_length),
    }
    return {whose: limit for whose, limit in found.items() if 0 < limit < UNLIMITED}
