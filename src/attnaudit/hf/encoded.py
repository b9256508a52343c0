"""Texts as token ids: a table with a row for each text, its batches, and the positions to audit."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Int, Int32, Int64
from torch import Tensor

from attnaudit.core import InputError, content_key, count
from attnaudit.core.ragged import Ragged
from attnaudit.core.random import stream_keys
from attnaudit.hf.model import OF_TOKENS, WRITING, ModelTask
from attnaudit.hf.texts import take
from attnaudit.trace.words import SPECIAL

# A batch of more than `FEW` texts is padded to at most `MOST_PADDED` times its tokens.
FEW, MOST_PADDED = 8, 1.2
ASKED = -2  # the segment of a second text, such as a question
Positions = Literal["one", "all", "last", "answer", "predicted"]


@dataclass(frozen=True)
class Written:
    """Target tokens of an encoder–decoder.

    Attributes:
        ids: Tokens that it is given, its start token first.
        word_id: Word of each, as in `Encoded`.
        tokens: Characters of each, as in `Encoded`.
        next_ids: Tokens that follow each of them in the target.
        forced: Whether these are given to the model rather than predicted, as a language code is.
    """

    ids: Ragged
    word_id: Ragged
    tokens: list[list[str]]
    next_ids: Ragged
    forced: Ragged


@dataclass(frozen=True)
class Encoded:
    """n texts as a model reads them; a row has T tokens.

    Attributes:
        ids: Token ids.
        word_id: Word of each token, counted on through the second text of a pair; −1 for special
            tokens, which are no part of the text.
        tokens: Characters of the text that each token stands for; special tokens by name.
        instance: Number of each text.
        split: Split of each text.
        pad: Id of padding.
        nothing: Id that stands for a hidden word: the mask token, else unknown, else padding.
        segment: Segment of each token, counted from 0; `SPECIAL` for special tokens and `ASKED` for
            those of a second text. None without segments.
        segment_names: Names of each text's segments, empty if they have none.
        answered: Positions at which the tokens of an answer are predicted, counted from the end of
            what is read, so −2 for its last token; None if the prediction is of the next token.
        at: Position whose label is predicted, counted from 0; None if it is the text's or a next
            token.
        type_ids: Token types, None if the model takes none.
        label: Class or token to predict, −1 if unknown.
        class_names: Names of the outputs of a classifier.
        rationale: Tokens known to matter; an empty row if they are not known.
        written: The target of an encoder–decoder.
        notes: Remarks for the user.
    """

    ids: Ragged
    word_id: Ragged
    tokens: list[list[str]]
    instance: Int64[np.ndarray, " n"]
    split: list[str]
    pad: int
    nothing: int
    segment: Ragged | None = None
    segment_names: list[list[str]] | None = None
    answered: Ragged | None = None
    at: Int64[np.ndarray, " n"] | None = None
    type_ids: Ragged | None = None
    label: Int32[np.ndarray, " n"] | None = None
    class_names: tuple[str, ...] = ()
    rationale: list[list[bool]] | None = None
    written: Written | None = None
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def special(self) -> Ragged:
        """True for special tokens."""
        return self.word_id.with_values(self.word_id.values == SPECIAL)

    @property
    def unit(self) -> Ragged:
        """Unit that is left out or replaced as a whole: a token's word, or its segment."""
        if self.segment is None:
            return self.word_id
        return self.segment.with_values(np.maximum(self.segment.values, SPECIAL))

    def groups(self, row: int, seen: Any, sink: int = 0) -> dict[str, Any]:
        """Return columns ``group`` and ``group_names`` of a text; none without segments.

        A second text and each special token is a group without a name.

        Args:
            row: The text.
            seen: Selects its tokens.
            sink: Number of positions behind them.
        """
        if self.segment is None or self.segment_names is None:
            return {}
        own = self.segment[row][seen].tolist()
        # Each special token is a segment of its own; its number is below those of all others.
        keys = [-3 - place if key == SPECIAL else key for place, key in enumerate(own)]
        number = {key: k for k, key in enumerate(dict.fromkeys(keys))}
        group = [*(number[key] for key in keys), *[len(number)] * sink]
        names = ["" if key < 0 else self.segment_names[row][key] for key in number]
        return {"group": np.array(group, np.int32), "group_names": names + [""] * sink}

    @property
    def read(self) -> Encoded | Written:
        """The tokens at whose end the next is predicted."""
        return self.written or self

    def keys_of(self, stack: str) -> Encoded | Written:
        """Return the tokens that attention of a stack is over."""
        return self.read if stack == "decoder" else self

    @property
    def fingerprint(self) -> str:
        """sha256 of all of it; another tokenizer or other names of outputs give another."""
        return content_key(
            json.dumps(asdict(self), default=lambda column: sha256(column.tobytes()).hexdigest())
        )

    def take(self, rows: Int[np.ndarray, " m"]) -> Encoded:
        """Return the chosen rows in the order given; a row may be chosen more than once."""

        def chosen(column):
            return take(column, rows)

        names, written = (*PER_TOKEN, *PER_TEXT), self.written
        return replace(
            _changed(self, names, chosen),
            written=written and _changed(written, vars(written), chosen),
        )

    def up_to(self, sizes: Int[np.ndarray, " n"]) -> Encoded:
        """Keep the first tokens of each row: of what the decoder is given, else of the text.

        The label of a text is then the token that follows, −1 if there is none.

        Args:
            sizes: Numbers of tokens to keep, 1 or more.
        """

        def first(column):
            if isinstance(column, Ragged):
                return column.where(column.places < column.spread(sizes))
            return column and [row[:size] for row, size in zip(column, sizes, strict=True)]

        if self.written is not None:
            return replace(self, written=_changed(self.written, vars(self.written), first))
        longer = self.ids.lengths > sizes
        place = np.where(longer, self.ids.offsets[:-1] + sizes, 0)
        label = np.where(longer, self.ids.values[place], -1).astype(np.int32)
        return replace(_changed(self, PER_TOKEN, first), label=label)

    def batch(
        self, rows: Int[np.ndarray, " m"] | Sequence[int], device: torch.device | str = "cpu"
    ) -> dict[str, Tensor]:
        """Return the inputs of the model for some rows, padded on the right.

        Padding is on the right whatever the tokenizer says. The checks try the model so, and on the
        left a model that counts positions would read a text at others than it has alone.
        """
        chosen = self.take(np.asarray(rows, dtype=np.int64))
        inside = chosen.ids.with_values(np.ones_like(chosen.ids.values))
        columns = {
            "input_ids": (chosen.ids, self.pad),
            "attention_mask": (inside, 0),
            "token_type_ids": (chosen.type_ids, 0),
            "decoder_input_ids": (chosen.written and chosen.written.ids, self.pad),
        }
        return {
            name: torch.from_numpy(padded(values, pad)).to(device)
            for name, (values, pad) in columns.items()
            if values is not None
        }

    def batches(
        self, budget: int = 4096, batching: str = "any"
    ) -> Iterator[Int64[np.ndarray, " m"]]:
        """Yield all rows in batches of similar length.

        Args:
            budget: Positions of a batch, padding included; a longer text is a batch of its own.
            batching: Texts that may share a batch, as in `Gate.batching`.
        """
        size, start = self.ids.lengths, 0
        target = np.zeros_like(size) if self.written is None else self.written.ids.lengths
        order = np.lexsort((target, size))
        for stop in range(1, len(order) + 1):
            rows = order[start : stop + 1]
            cells = len(rows) * int(size[rows].max() + target[rows].max())
            fits = stop < len(order) and batching != "none" and cells <= budget
            fits &= len(rows) <= FEW or cells <= MOST_PADDED * int((size + target)[rows].sum())
            unlike = any(one[rows[0]] != one[rows[-1]] for one in (size, target))
            if not fits or (batching != "any" and unlike):
                yield order[start:stop]
                start = stop


PER_TOKEN = ("ids", "type_ids", "word_id", "segment", "tokens", "rationale")
PER_TEXT = ("segment_names", "answered", "at", "instance", "label", "split")


def _changed(texts: Any, names: Iterable[str], change: Callable[[Any], Any]) -> Any:
    return replace(texts, **{name: change(getattr(texts, name)) for name in names})


def padded(values: Ragged, pad: int) -> Int64[np.ndarray, "m T"]:
    """Return rows as an array, with ``pad`` behind the shorter ones."""
    lengths = values.lengths
    out = np.full((len(values), int(lengths.max(initial=0))), pad, dtype=np.int64)
    out[np.arange(out.shape[1]) < lengths[:, None]] = values.values
    return out


def positions_of(
    task: ModelTask, chosen: Positions | None = None, answers: bool = False
) -> Positions:
    """Return the chosen positions.

    Args:
        task: Task of the model.
        chosen: The choice; by default one of a target or of labelled tokens, the answer to a
            prompt, or its last. The end of an extracted answer is the one that is predicted.
        answers: Whether texts have answers, given or written by the model.

    Raises:
        InputError: They are chosen for a classifier, whose prediction is for a whole text, or
            there are no answers.
    """
    if answers and task not in WRITING:
        do = "leave out the column of answers"
        raise InputError("collect", "answers", f"a model for {task}", "a language model", do)
    if chosen is None and answers:
        return "answer"
    if chosen == "answer" and not answers and task == "causal-lm":
        got, do = "texts without answers", "name their column: --column answer=NAME"
        raise InputError("collect", "positions answer", got, "the answer of each text", do)
    one = task in ("classification", "question-answering")
    if chosen is not None and (one or (chosen == "answer" and task in OF_TOKENS)):
        got, expected = f"a model for {task}", "a model that predicts tokens, or their labels"
        raise InputError("collect", f"positions {chosen}", got, expected, "leave them out")
    if task == "question-answering":
        return "predicted"
    return chosen or ("one" if task in ("seq2seq", *OF_TOKENS) else "last")


def drawn_place(
    texts: Encoded, sizes: Int64[np.ndarray, " n"], seed: int
) -> Int64[np.ndarray, " n"]:
    """Draw one of ``sizes`` places in each text, which depends on its instance and the seed."""
    drawn = stream_keys(seed, "target position", texts.instance) >> np.uint64(32)
    return ((drawn * sizes.astype(np.uint64)) >> np.uint64(32)).astype(np.int64)


def at_positions(texts: Encoded, positions: Positions, seed: int = 0) -> Encoded:
    """Cut every text at the positions whose next token is audited, a row for each.

    A decoder only reads what was written so far: its prediction at a position is its last
    prediction for the prefix that ends there. Positions are those whose next token the model
    predicts. In a target these are all but those of given tokens, such as a language code; in a
    text without a target, those of its own tokens.

    Args:
        texts: The texts.
        positions: The ``last`` of each, ``all`` (of an answer, if there is one), or ``one`` that is
            drawn. With ``answer``, texts stay whole, and the prediction is of all tokens of a
            target or answer.
        seed: Seed of the draw. It also depends on the instance, but not on other texts.
    """
    if texts.class_names:  # a classifier reads whole texts
        return texts
    if texts.written is not None and positions == "answer":
        forced = texts.written.forced
        spots = forced.with_values(forced.places - forced.spread(forced.lengths))
        return replace(texts, answered=spots.where(~forced.values.astype(bool)))
    if texts.answered is not None:
        if positions == "answer":
            return texts
        spots = texts.answered
        sizes = spots.with_values(spots.values + spots.spread(texts.ids.lengths) + 1)
        texts = replace(texts, answered=None)
        return texts.take(sizes.row_of_value).up_to(sizes.values)
    excluded = texts.special if texts.written is None else texts.written.forced
    sizes = excluded.with_values(excluded.places + 1).where(~excluded.values.astype(bool))
    if positions == "all":
        return texts.take(sizes.row_of_value).up_to(sizes.values)
    place = sizes.lengths - 1
    if positions == "one":
        place = drawn_place(texts, sizes.lengths, seed)
    chosen = sizes.values[sizes.offsets[:-1] + place]
    if texts.written is not None or positions == "one":
        return texts.up_to(chosen)
    # Behind an appended [EOS], the prediction would be of what follows the end of the text.
    ended = int((chosen < texts.ids.lengths).sum())
    if not ended:
        return texts
    note = f"special tokens at the end of {count(ended, 'text')} removed: "
    notes = (*texts.notes, f"{note}the next token of the text is predicted")
    return replace(texts.up_to(chosen), label=texts.label, notes=notes)
