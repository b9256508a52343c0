"""Texts tokenised by a model's own fast tokenizer."""

from __future__ import annotations

import copy
import sys
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from inspect import signature
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Int64
from torch import nn
from transformers import AutoTokenizer
from transformers.convert_slow_tokenizer import bytes_to_unicode

from attnaudit.core import InputError, count, describe_error, expanded
from attnaudit.core.ragged import Ragged
from attnaudit.corpora.prepare.tokenise import MARK
from attnaudit.corpora.remarks import WARNING
from attnaudit.hf.classes import Outputs, outputs_of
from attnaudit.hf.encoded import ASKED, Encoded, Written
from attnaudit.hf.load import quiet
from attnaudit.hf.model import WRITING, ModelTask, require_task
from attnaudit.hf.texts import Span, Texts
from attnaudit.trace.words import SPECIAL

OPERATION = "tokenise texts"
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json")
PADDED = 64  # vocabularies are padded to a multiple of it, as hardware likes them
UNLIMITED = 1_000_000  # tokens; a tokenizer without a limit states a number far above it
AT_ONCE = 1000  # texts whose pieces are in memory at a time
BYTE_OF = {character: byte for byte, character in bytes_to_unicode().items()}
BLANKS = str.maketrans({" ": "␣", "\n": "↵", "\t": "⇥", "\r": "␍"})


def encode(
    model: Any,
    tokenizer: Any,
    texts: Texts,
    *,
    max_tokens: int | None = None,
    on_empty: Literal["error", "skip"] = "error",
    outputs: Outputs | None = None,
) -> Encoded:
    """Tokenise texts for a model.

    Texts longer than the model reads are cut: at their start for a causal language model, whose
    prediction follows the end, else at their end (in a pair, the longer text). A word is what the
    tokenizer takes as one, also split at white space and between letters and punctuation. White
    space belongs to the word after it.

    Args:
        model: The model.
        tokenizer: Its tokenizer, a fast one.
        texts: The texts.
        max_tokens: A lower limit of the length.
        on_empty: What to do with a text without a token.
        outputs: Outputs of a classifier, by default found by their names (`outputs_of`).

    Raises:
        InputError: The tokenizer is slow or has other tokens than the model, classes do not fit,
            or a text has no token.
    """
    kind, classifies = require_task(model), texts.kind not in WRITING
    _require_fast(tokenizer, kind)
    if texts.kind != kind:
        got, do = f"texts read for {texts.kind}", f"read_texts(…, {kind!r})"
        raise InputError(OPERATION, type(model).__name__, got, f"texts for {kind}", do)
    limits = limits_of(model, tokenizer, max_tokens)
    limit = min(limits, key=lambda name: limits[name], default="")
    pairs = texts.second is not None and kind != "seq2seq"
    added = tokenizer.num_special_tokens_to_add(pairs)
    if limit and limits[limit] <= added:
        expected = f"more than the {added} special tokens of a text"
        raise InputError(OPERATION, "max_tokens", str(limits[limit]), expected)
    # A copy, as cutting changes a tokenizer.
    reader = _Reader(model, copy.deepcopy(tokenizer), texts, limits.get(limit))
    pieces = list(reader.pieces(texts.text, texts.second if classifies else None))
    if kind == "causal-lm" and texts.answer is not None:
        reader.require_answers(pieces)
    second = texts.second or []
    targets = list(reader.pieces(second, None, target=True)) if kind == "seq2seq" else pieces
    both = list(zip(pieces, targets, strict=True))
    empty = np.array([one.is_empty or other.is_empty for one, other in both], dtype=bool)
    reader.require_tokens(empty, skip=on_empty == "skip")
    cut = sum(one.cut or other.cut for one, other in both)
    outputs, label = outputs or outputs_of(model, texts), texts.label
    if outputs is not None and label is not None:
        label = np.where(label < 0, label, outputs.of_class[label])
        label = label if (label >= 0).any() else None
    pads = (model.config.get_text_config().pad_token_id, tokenizer.pad_token_id)
    pad = next((token for token in pads if token is not None and token >= 0), 0)
    hides = (tokenizer.mask_token_id, tokenizer.unk_token_id, pad)
    encoded = Encoded(
        ids=_column(pieces, "ids", np.int64),
        word_id=_column(pieces, "word_id", np.int32),
        tokens=[one.tokens for one in pieces],
        instance=texts.instance,
        split=texts.split,
        pad=pad,
        nothing=next(token for token in hides if token is not None),
        type_ids=_column(pieces, "type_ids", np.int64) if reader.has_types else None,
        label=label,
        class_names=() if outputs is None else outputs.names,
        segment=_column(pieces, "segment", np.int32) if texts.segments else None,
        segment_names=None
        if texts.segments is None
        else [[name for *_, name in row] for row in texts.segments],
        answered=None if texts.answer is None else Ragged.from_rows(one.answered for one in pieces),
        rationale=[one.marked for one in pieces] if texts.spans else None,
        notes=reader.notes(cut, limit, int(empty.sum())),
        written=reader.written(targets) if kind == "seq2seq" else None,
    )
    return encoded.take(np.flatnonzero(~empty)) if empty.any() else encoded


def require_aligned(tokenizer: Any, texts: Texts) -> None:
    """Refuse an answer whose tokens are not apart from those of its prompt. Needs no model."""
    _require_fast(tokenizer, texts.kind)
    reader = _Reader(None, copy.deepcopy(tokenizer), texts, None)
    reader.require_answers(list(reader.pieces(texts.text, None)))


def notes_of(texts: Texts, encoded: Encoded, outputs: Outputs | None) -> list[str]:
    """Return remarks for the user on texts and how they were read."""
    parts = [texts.split, texts.text, *([texts.second] if texts.second is not None else [])]
    again = len(texts) - len(set(zip(*parts, strict=True)))
    notes = [*texts.notes, *(outputs.notes if outputs else ()), *encoded.notes]
    if again:
        same = f"{again} of {len(texts)} texts {'are' if again > 1 else 'is'} the same as"
        notes.append(f"{same} an earlier one, and counted again")
    return notes


def limits_of(model: Any, tokenizer: Any, max_tokens: int | None = None) -> dict[str, int]:
    """Return the known limits of a text's tokens, special ones included, by who sets them."""
    limits = [getattr(model.config.get_text_config(), "max_position_embeddings", None)]
    for path, module in model.named_modules():
        learned = isinstance(module, nn.Embedding) and "position" in path.rpartition(".")[2]
        if learned and module.padding_idx is not None:
            # Positions count from behind that of padding, as in RoBERTa.
            limits.append(module.num_embeddings - module.padding_idx - 1)
    stated = {
        "max_tokens": UNLIMITED if max_tokens is None else max_tokens,
        "the model": min((limit for limit in limits if limit and limit > 0), default=UNLIMITED),
        "the tokenizer (model_max_length)": int(tokenizer.model_max_length),
    }
    return {name: limit for name, limit in stated.items() if 0 < limit < UNLIMITED}


def load_tokenizer(folder: str | Path) -> Any:
    """Read the tokenizer that ``tokenizer.save_pretrained(folder)`` has written.

    Raises:
        InputError: It is missing or damaged.
    """
    folder = expanded(folder)
    try:
        if not any((folder / file).is_file() for file in TOKENIZER_FILES):
            raise FileNotFoundError(f"no {TOKENIZER_FILES[0]}")
        with quiet():
            options = {"local_files_only": True, "trust_remote_code": False}
            tokenizer = AutoTokenizer.from_pretrained(folder, **options)
            tokenizer("")  # some mistakes show at the first text
        return tokenizer
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic of Rust is no Exception
        got, do = describe_error(error), "save it with tokenizer.save_pretrained(DIR)"
        raise InputError("read tokenizer", str(folder), got, "a fast tokenizer", do) from error


def _require_fast(tokenizer: Any, kind: ModelTask) -> None:
    """Check that a tokenizer maps its pieces to characters, and knows the language it writes."""
    name = type(tokenizer).__name__
    if not getattr(tokenizer, "is_fast", False):
        expected = "a fast tokenizer of the transformers library (tokenizer.json)"
        do = "read one with attnaudit.hf.load_tokenizer(DIR)"
        raise InputError(OPERATION, "the tokenizer", f"a {name}", expected, do)
    if kind == "seq2seq" and getattr(tokenizer, "tgt_lang", "") is None:
        expected = "a language code"
        do = "read it with src_lang=… and tgt_lang=…, and tokenizer.save_pretrained(DIR)"
        raise InputError(OPERATION, name, "no language of the targets (tgt_lang)", expected, do)


@dataclass(frozen=True)
class _Reader:
    model: Any
    tokenizer: Any
    texts: Texts
    longest: int | None

    def where(self, row: int) -> str:
        """Name a text in errors."""
        return f"{self.texts.name}, {self.texts.split[row]}, row {self.texts.instance[row]}"

    def require_tokens(self, empty: Bool[np.ndarray, " n"], skip: bool) -> None:
        """Refuse a text without a token, or only texts without one if these are skipped."""
        if empty.any() and not skip:
            do = "correct the row, or skip such rows: encode(…, on_empty='skip')"
            where = self.where(int(empty.argmax()))
            raise InputError(OPERATION, where, "a text without a token", "one or more", do)
        if empty.all():
            got = f"no text with a token among {len(self.texts)}"
            do = "correct the texts, or read another split (--split)"
            raise InputError(OPERATION, self.texts.name, got, "one or more", do)

    def notes(self, cut: int, limit: str, empty: int) -> tuple[str, ...]:
        """Return remarks on the tokenizer, on texts that were cut, and on those left out."""
        notes, number = [], len(self.texts)
        size, known = len(self.tokenizer), len(self.model.get_input_embeddings().weight)
        if size > known or (size < known and known % PADDED):
            got = f"{size} tokens where the model has {known}"
            notes.append(f"{WARNING}the tokenizer may be another model's: {got}")
        if cut:
            longer = f"{cut} of {number} texts {'are' if cut > 1 else 'is'} longer"
            notes.append(f"{longer} than {self.longest} tokens, the limit of {limit}, and cut")
        if empty:
            notes.append(f"{count(empty, 'text')} without a token skipped")
        return tuple(notes)

    @property
    def has_types(self) -> bool:
        """True if tokenizer and model both know of the parts of a pair."""
        name, taken = "token_type_ids", signature(self.model.forward).parameters
        known = name in self.tokenizer.model_input_names and name in taken
        return known and self.texts.kind not in WRITING

    def pieces(
        self, first: Sequence[str], second: Sequence[str] | None, target: bool = False
    ) -> Iterator[_Pieces]:
        """Yield every text, or pair, in pieces; with ``target`` of the target's language."""
        own = self.tokenizer
        options: dict[str, Any] = {"truncation": False, "verbose": False}
        if self.longest is not None:
            options |= {"truncation": "longest_first", "max_length": self.longest}
        if self.texts.kind == "causal-lm":
            own.truncation_side = "left"
        known = len(self.model.get_input_embeddings().weight) if self.model else UNLIMITED
        kinds = ("bos", "eos", "cls", "sep", "pad")
        # A text that spells a special token contains ordinary characters.
        structural = {getattr(own, f"{kind}_token_id") for kind in kinds} - {own.unk_token_id}
        bytewise = spells_bytes(own)
        prompts = self.texts.kind == "causal-lm"
        written = list(map(self.texts.prompt, range(len(first)))) if prompts else []
        sides = {"text_target" if target else "text": [one for one, *_ in written] or first}
        if second is not None:
            sides["text_pair"] = second
        own_side = 0
        if self.texts.kind == "question-answering":  # such models are given the question first
            sides, own_side = {"text": second or first, "text_pair": first}, 1
        for start in range(0, len(first), AT_ONCE):
            part = {name: side[start : start + AT_ONCE] for name, side in sides.items()}
            do = "use the tokenizer that was saved with the model"
            try:
                encodings = own(**part, **options).encodings
            except Exception as error:  # such as a word that a vocabulary has no token for
                got, expected = describe_error(error), "a tokenizer that takes these texts"
                raise InputError(OPERATION, self.texts.name, got, expected, do) from error
            for row, encoding in enumerate(encodings, start):
                if max(encoding.ids, default=0) >= known:
                    got = f"token {max(encoding.ids)} of the tokenizer"
                    expected = f"one below {known}, the model's vocabulary"
                    raise InputError(OPERATION, self.where(row), got, expected, do)
                parts = tuple(side[row] for side in sides.values())
                spans = self.texts.spans[row] if self.texts.spans and not target else None
                segments = self.texts.segments
                starts = [start for start, *_ in segments[row]] if segments and not target else []
                ends = written[row][1:] if prompts else ()
                marks = spans, starts, ends
                yield _in_pieces(encoding, parts, structural, bytewise, marks, own_side)

    def require_answers(self, pieces: Sequence[_Pieces]) -> None:
        """Refuse an answer without a token of its own, or that a cut has removed."""
        for row, one in enumerate(pieces):
            if not one.answer or one.answer != list(range(one.answer[0], one.answer[-1] + 1)):
                got = "an answer whose tokens are not apart from those of the text"
                do = "begin the answer with a blank or a line break, or shorten the text"
                expected = "tokens that begin where the answer does"
                raise InputError(OPERATION, self.where(row), got, expected, do)

    def written(self, targets: Sequence[_Pieces]) -> Written:
        """Return what a decoder writes."""
        following, name = _column(targets, "ids", np.int64), self.tokenizer.convert_ids_to_tokens
        ids = [self._shifted(row) for row in following]
        # The end of a target is predicted; that of one that is cut is none of its own.
        stated = self.model.config.get_text_config().eos_token_id
        ends = [self.tokenizer.eos_token_id, *(stated if isinstance(stated, list) else [stated])]
        ends = np.isin(following.values, [token for token in ends if token is not None])
        whole = following.spread(np.array([not one.cut for one in targets], dtype=bool))
        special = _column(targets, "word_id", np.int32).values == SPECIAL
        rows = list(zip(ids, targets, strict=True))
        return Written(
            ids=Ragged.from_rows(ids, np.int64),
            word_id=Ragged.from_rows([[SPECIAL, *one.word_id[:-1]] for one in targets], np.int32),
            tokens=[[name(int(row[0])), *one.tokens[:-1]] for row, one in rows],
            next_ids=following,
            forced=following.with_values(special & ~(whole & ends)),
        )

    def _shifted(self, ids: Int64[np.ndarray, " T"]) -> np.ndarray:
        """Return what a decoder is given to predict ``ids``, in the class's own way."""
        own = getattr(self.model, "prepare_decoder_input_ids_from_labels", None)
        start = self.model.config.decoder_start_token_id
        if start is None:
            where, expected = type(self.model).__name__, "the token that a decoder starts with"
            got = "no decoder_start_token_id"
            raise InputError(OPERATION, where, got, expected, "set it in config.json")
        if own is not None:
            return own(labels=torch.from_numpy(ids.copy())[None])[0].numpy()
        return np.concatenate([[start], ids[:-1]])


@dataclass(frozen=True)
class _Pieces:
    """A text in pieces, as the columns of `Encoded` have them."""

    ids: list[int]
    type_ids: list[int]
    cut: bool
    word_id: list[int] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    marked: list[bool] = field(default_factory=list)
    segment: list[int] = field(default_factory=list)
    answer: list[int] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        return all(word == SPECIAL for word in self.word_id)

    @property
    def answered(self) -> Int64[np.ndarray, " A"]:
        """Positions that predict the tokens of the answer, counted from the end of the text."""
        return np.array(self.answer, np.int64) - 1 - len(self.ids)


def _column(pieces: Sequence[_Pieces], name: str, dtype: type) -> Ragged:
    return Ragged.from_rows((getattr(one, name) for one in pieces), dtype)


def _in_pieces(
    encoding: Any,
    parts: tuple[str, ...],
    structural: set[int | None],
    bytewise: bool,
    marks: tuple[Sequence[Span] | None, Sequence[int], Sequence[int]],
    own_side: int,
) -> _Pieces:
    """Split a text or a pair, by an ``Encoding`` of the tokenizers library.

    Args:
        encoding: The encoding.
        parts: The texts.
        structural: Ids of tokens that are no part of a text.
        bytewise: True if names of pieces spell bytes.
        marks: Characters of the text that are marked, None if they are not known; the first of each
            of its segments; in a prompt, the first of question and answer.
        own_side: Number of the text within a pair.
    """
    spans, starts, ends = marks
    out = _Pieces(encoding.ids, encoding.type_ids, bool(encoding.overflowing))
    word, before = -1, None
    columns = (encoding.ids, encoding.tokens, encoding.offsets, encoding.sequence_ids)
    for token, name, (begin, end), sequence, own in zip(*columns, encoding.word_ids, strict=True):
        number, marked, place = SPECIAL, False, None
        if sequence is not None and token not in structural:
            text, inside = parts[sequence], parts[sequence][begin:end]
            # Some tokenizers put a mark before a text, and say that it is the first character.
            core = inside.strip() if name.strip(MARK) else ""
            start = begin + len(inside) - len(inside.lstrip())
            place = _Place(sequence, own, start, start + len(core))
            before = before if before is not None and before.sequence == sequence else None
            word += before is None or place.begins_word(before, text)
            number = word
            if bytewise:
                name = spelled(name).strip("␣") or spelled(name)
            if core:
                # One of several pieces of a character is shown by the tokenizer's own name.
                name = text[max(start, before.stop if before else 0) : place.stop] or name
            else:
                name = inside.translate(BLANKS) if inside.isspace() else name.replace(MARK, "␣")
            marked = sequence == own_side and any(
                a < place.stop and start < b for a, b in spans or ()
            )
        out.tokens.append(sys.intern(name))  # a corpus has many pieces, of few kinds
        if place is not None and ends and place.stop > ends[1] and not place.sequence:
            out.answer.append(len(out.word_id) if place.start >= ends[1] else -1)
            number = SPECIAL  # what is predicted is never left out
        out.word_id.append(number)
        if spans is not None:
            out.marked.append(marked)
        if starts:
            # A piece with no characters of its own, such as a mark, is before the first.
            at = SPECIAL if place is None else max(0, bisect_right(starts, place.start) - 1)
            asked = place is not None and (
                place.sequence != own_side or (ends and place.start >= ends[0])
            )
            out.segment.append(ASKED if asked else at)
        before = place
    return out


class _Place(NamedTuple):
    """The text of a piece, the tokenizer's own word, and its characters without white space."""

    sequence: int
    own: int | None
    start: int
    stop: int

    def begins_word(self, before: _Place, text: str) -> bool:
        if before.start == before.stop:
            return False
        between = text[before.stop : self.start]
        if before.own != self.own or between.strip() != between or self.start == self.stop:
            return True
        last, first = (unicodedata.category(text[k])[0] for k in (before.stop - 1, self.start))
        return (last in "PS") != (first in "PS")


def spells_bytes(tokenizer: Any) -> bool:
    """Check whether the names of a tokenizer's pieces spell bytes (byte-level BPE)."""
    backend = tokenizer.backend_tokenizer
    return any(
        "ByteLevel" in repr(getattr(backend, part, None)) for part in ("pre_tokenizer", "decoder")
    )


def spelled(name: str) -> str:
    """Return the text of a piece of byte-level BPE, whose name has a character for every byte.

    White space is shown as signs, and bytes that are not whole characters as ``‹F0 9F›``. A name in
    other characters is returned as it is.
    """
    if not name or not all(map(BYTE_OF.__contains__, name)):
        return name
    spelled = bytes(map(BYTE_OF.__getitem__, name))
    try:
        return spelled.decode().translate(BLANKS)
    except UnicodeDecodeError:
        return f"‹{spelled.hex(' ').upper()}›"


def output_names(model: Any, tokenizer: Any, class_names: Sequence[str]) -> tuple[str, ...]:
    """Name the outputs of a model: its classes, or the tokens of its vocabulary.

    An output that is no token, or has a blank name or that of another, is named by its number.
    """
    if class_names:
        return tuple(class_names)
    size, known = model.get_output_embeddings().weight.shape[0], len(tokenizer)
    tokens = tokenizer.convert_ids_to_tokens(list(range(min(size, known))))
    special, bytewise = set(tokenizer.all_special_tokens), spells_bytes(tokenizer)
    names, taken = list[str](), set[str]()
    for number, token in enumerate([*tokens, *[""] * (size - known)]):
        name = spelled(token or "") if bytewise and token not in special else token or ""
        names.append(f"<{number}>" if not name.strip() or name in taken else name)
        taken.add(names[-1])
    return tuple(names)
