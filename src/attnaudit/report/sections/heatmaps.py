"""Token heatmaps: the same text shaded by the model's attention, by the adversary's, by gradient and by leave-one-out; and the range of
weights that each token could have, as a bar.

Pieces of words are joined: a word has the sum of their weights, and of leave-one-out, which deletes whole words, the largest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
from jaxtyping import Float, Int64

from attnaudit.core.printable import without_controls
from attnaudit.core.ragged import Ragged
from attnaudit.report.words import figure, name_head, percent
from attnaudit.results.summary import Head
from attnaudit.trace import ROW_KEYS, Trace
from attnaudit.trace.words import join_tokens, to_words

MEASURES = ("max_alpha", "tau_gradient", "tau_loo", "median_delta_y", "emax_jsd")
UNIFORM_SHARES = 4
CONTEXT = 3  # tokens shown on each side of one with weight
SMALLEST_GAP = 3  # fewer tokens than this are shown rather than counted

LONGEST, LONGEST_SENTENCE = 60, 300  # characters of a token that are shown
WORD_BEGINS = "▁"  # as sentencepiece writes it
RANGES, _ENDS = "ranges", ("necessary", "possible")
_CAPTIONS = {
    "alpha": "The model's attention α", "adversary": "Adversarial attention", "gradient": "Gradient", "loo": "Leave-one-out",
    RANGES: "Necessary to possible weights",
}  # fmt: skip


@dataclass(frozen=True)
class Instance:
    """One row of a trace, T positions, with its figures.

    ``weights`` maps ``alpha``, ``adversary``, ``gradient`` and ``loo`` to T numbers, those that are known. ``probability`` is that of
    the predicted class, ``adversarial_probability`` the same under the adversary's attention; ``question`` is what the text was read with.
    ``special`` marks tokens that are no part of the text, ``head`` is the head whose attention it is, of the text ``number``.
    ``ranges`` (T, 2) are the least and the most weight of each token with nearly the same output, None where they are not known.
    """

    name: str
    tokens: Sequence[str]
    weights: dict[str, Float[np.ndarray, " T"]]
    rationale: Sequence[bool] | None
    predicted: str
    probability: float
    label: str | None
    adversarial_probability: float | None
    delta_y: float | None
    figures: dict[str, float | None]
    question: str = ""
    special: Sequence[bool] | None = None
    number: int = -1
    head: Head | None = None
    ranges: Float[np.ndarray, "T 2"] | None = None

    @property
    def title(self) -> str:
        return (
            f"Instance {self.name}"
            if self.head is None
            else f"Text {self.number}, {name_head(self.head)}"
        )

    @property
    def listed(self) -> str:
        """Its name in a list."""
        return row_name(self.name if self.head is None else str(self.number), self.head)

    @property
    def anchor(self) -> str:
        """The fragment of a page's address that names it."""
        return f"instance-{self.name.replace(' ', '-')}"

    @property
    def correct(self) -> bool | None:
        return None if self.label is None else self.label == self.predicted


@dataclass(frozen=True)
class Gap:
    """``size`` tokens that are not shown."""

    size: int


@dataclass(frozen=True)
class Strip:
    """One shading of a text: ``shades`` per shown token, in thousandths of ``full``, the deepest colour's weight; ``top`` the largest.

    With ``spans``, from and to thousandths of all attention, each token has a bar instead, and ``shades`` are the marks on it.
    """

    kind: str
    caption: str
    note: str
    top: float
    full: float
    shades: tuple[int, ...]
    spans: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Heatmap:
    """``pieces`` are the shown tokens in order, with a `Gap` where tokens are skipped.

    ``known`` marks tokens of the rationale, ``special`` special ones.
    """

    instance: Instance
    pieces: tuple[str | Gap, ...]
    known: tuple[bool, ...]
    strips: tuple[Strip, ...]
    left_out: str
    special: tuple[bool, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """What the page's script draws the same picture from: tokens (a number: so many are skipped) and shades."""
        return {
            "tokens": [piece.size if isinstance(piece, Gap) else piece for piece in self.pieces],
            "known": [k for k, known in enumerate(self.known) if known],
            "strips": [
                [
                    s.kind,
                    s.caption,
                    s.note,
                    _short(s.top),
                    _short(s.full),
                    list(s.shades),
                    list(s.spans),
                ]
                for s in self.strips
            ],
            "note": self.left_out,
            "question": self.instance.question,
            **(
                {"special": [k for k, special in enumerate(self.special) if special]}
                if any(self.special)
                else {}
            ),
        }


def heatmap(instance: Instance, budget: int) -> Heatmap:
    """The picture of one instance with about ``budget`` tokens, those around the most weight where the text has more."""
    positions, pieces = shown_positions(list(instance.weights.values()), budget)
    tokens = tuple(
        piece if isinstance(piece, Gap) else visible(instance.tokens[piece]) for piece in pieces
    )
    rationale = instance.rationale or [False] * len(instance.tokens)
    strips = (
        *(_strip(instance, kind, weights, positions) for kind, weights in instance.weights.items()),
        *_ranges(instance, positions),
    )
    held = float(instance.weights["alpha"][positions].sum())
    cut = len(instance.tokens) - len(positions)
    note = (
        f"{len(positions)} of {len(instance.tokens)} tokens shown; they hold {percent(held)} of the attention."
        if cut
        else ""
    )
    special = instance.special or [False] * len(instance.tokens)
    known, outside = (tuple(bool(marks[p]) for p in positions) for marks in (rationale, special))
    return Heatmap(instance, tokens, known, strips, note, outside)


def _strip(instance: Instance, kind: str, weights: np.ndarray, positions: np.ndarray) -> Strip:
    top, full = float(weights.max()), full_colour(weights)
    shades = (
        np.rint(1000 * weights[positions] / full).astype(int)
        if full > 0
        else np.zeros(len(positions), int)
    )
    return Strip(
        kind, _CAPTIONS[kind], _note(instance, kind), top, full, tuple(int(s) for s in shades)
    )


def _ranges(instance: Instance, positions: np.ndarray) -> Iterator[Strip]:
    if instance.ranges is not None:
        ends, own = (
            np.rint(1000 * instance.ranges).astype(int),
            np.rint(1000 * instance.weights["alpha"]).astype(int),
        )
        spans = tuple((int(low), int(high)) for low, high in ends[positions])
        note = f"with nearly the same output; mean possible weight {figure(float(instance.ranges[:, 1].mean()))}"
        yield Strip(
            RANGES,
            _CAPTIONS[RANGES],
            note,
            float(instance.ranges[:, 1].max()),
            1.0,
            tuple(own[positions].tolist()),
            spans,
        )


def full_colour(weights: Float[np.ndarray, " T"]) -> float:
    """The deepest colour's weight: the largest one, or `UNIFORM_SHARES` uniform shares if more, so nearly uniform weights look pale."""
    uniform = float(weights.sum()) / len(weights)
    return max(float(weights.max()), min(UNIFORM_SHARES * uniform, float(weights.sum())))


def _short(value: float) -> float:
    return float(f"{value:.4g}")


def _note(instance: Instance, kind: str) -> str:
    """The output under this attention, and how far the adversary's is."""
    if kind == "alpha":
        return f"ŷ({instance.predicted}) = {figure(instance.probability, 3)}"
    if kind == "adversary":
        return (
            f"ŷ({instance.predicted}) = {figure(instance.adversarial_probability, 3)}, Δŷ {figure(instance.delta_y, 3)}, "
            f"JSD {figure(instance.figures['emax_jsd'], 3)}"
        )
    tau = instance.figures.get(f"tau_{kind}")
    return "" if tau is None else f"τ with attention {figure(tau)}"


def visible(token: str) -> str:
    """A token as it can be seen: control characters and pure white space as symbols, a very long one cut and its length given."""
    longest = LONGEST_SENTENCE if " " in token.strip() else LONGEST
    if len(token) > longest:
        token = f"{token[:longest]}… ({len(token)} characters)"
    if not token.strip():
        return "".join("␣" if c == " " else _SYMBOLS.get(ord(c), "␣") for c in token) or "∅"
    return without_controls(token.translate(_SYMBOLS))


def marks_words(tokens: Iterable[str]) -> bool:
    """Whether tokens are pieces of words, the first of each word marked so."""
    return any(token.startswith(WORD_BEGINS) for token in tokens)


_SYMBOLS = {code: chr(0x2400 + code) for code in range(32)} | {0x7F: "␡", ord("\n"): "⏎"}


def shown_positions(
    weights: Sequence[Float[np.ndarray, " T"]], budget: int
) -> tuple[Int64[np.ndarray, " s"], tuple[int | Gap, ...]]:
    """Positions to show, in order, and the same with a `Gap` where any are skipped.

    A text of at most ``budget`` tokens is shown whole. Of a longer one, positions are taken by their largest weight relative to the
    top of each of ``weights``, each with `CONTEXT` tokens on both sides, until about ``budget`` tokens are shown; gaps of one or two
    tokens are filled.
    """
    length = len(weights[0])
    if length <= budget:
        positions = np.arange(length)
        return positions, tuple(positions.tolist())
    relative = np.max([row / (row.max() or 1.0) for row in weights], axis=0)
    shown = np.zeros(length, bool)
    for position in np.argsort(-relative, kind="stable"):
        window = slice(max(position - CONTEXT, 0), position + CONTEXT + 1)
        if shown.sum() + (~shown[window]).sum() > budget:
            break
        shown[window] = True
    positions = _without_small_gaps(np.flatnonzero(shown), length)
    return positions, _with_gaps(positions, length)


def _without_small_gaps(
    positions: Int64[np.ndarray, " s"], length: int
) -> Int64[np.ndarray, " s2"]:
    ends = np.concatenate([[-1], positions, [length]])
    filled = [np.arange(a + 1, b) for a, b in pairwise(ends.tolist()) if b - a <= SMALLEST_GAP]
    return np.unique(np.concatenate([positions, *filled]))


def _with_gaps(positions: Int64[np.ndarray, " s"], length: int) -> tuple[int | Gap, ...]:
    pieces: list[int | Gap] = []
    for before, position in pairwise([-1, *positions.tolist(), length]):
        pieces += [Gap(position - before - 1), position] if position - before > 1 else [position]
    return tuple(pieces[:-1])


def read_instances(trace: Trace, rows: pl.DataFrame) -> list[Instance]:
    """The rows of a trace as instances; ``rows`` are the experiments' tables side by side, a row per trace row, or empty."""
    columns = {name: trace.ragged(name) for name in ("alpha", "gradient", "loo") if trace.has(name)}
    shown = rows.select(
        name
        for name in (*MEASURES, "alpha", "prediction", "delta_y", *_ENDS)
        if name in rows.columns
    )
    facts = shown.to_dicts() if shown.height else [{} for _ in range(len(trace))]
    return [
        _instance(trace, k, {name: column[k] for name, column in columns.items()}, facts[k])
        for k in range(len(trace))
    ]


def _instance(
    trace: Trace, k: int, weights: dict[str, np.ndarray], facts: dict[str, Any]
) -> Instance:
    prediction, label = (
        trace.array("prediction")[k],
        trace.array("label")[k] if trace.has("label") else -1,
    )
    chosen = int(trace.predicted[k])
    adversarial = facts.get("alpha")
    if adversarial is not None and len(adversarial) == len(weights["alpha"]):
        weights = {"alpha": weights["alpha"], "adversary": np.asarray(adversarial), **weights}
    figures = {name: facts.get(name) for name in MEASURES} | {
        "max_alpha": float(weights["alpha"].max())
    }
    question = trace.cell("question", k) if trace.has("question") else None
    text = _Text.of(trace, k, weights)
    ends = [facts.get(name) for name in _ENDS]
    return Instance(
        name=full_name(trace, k), tokens=text.tokens, weights=text.weights, rationale=text.rationale,
        predicted=trace.class_names[chosen], probability=_probability(prediction, chosen),
        label=trace.class_names[label] if label >= 0 else None,
        adversarial_probability=_probability(np.asarray(facts["prediction"]), chosen) if "adversary" in weights else None,
        delta_y=facts.get("delta_y"), figures=figures, question=" ".join(question or ()), special=text.special,
        number=int(trace.instance[k]), head=head_of_row(trace, k),
        ranges=None if None in ends or len(text.tokens) < trace.alpha.lengths[k] else np.array(ends, np.float64).T,
    )  # fmt: skip


@dataclass(frozen=True)
class _Text:
    """The tokens of a row, with what is known of each."""

    tokens: list[str]
    weights: dict[str, np.ndarray]
    rationale: list[bool] | None
    special: list[bool] | None

    @classmethod
    def of(cls, trace: Trace, k: int, weights: dict[str, np.ndarray]) -> _Text:
        rationale, special = (
            trace.cell(name, k) if trace.has(name) else None for name in ("rationale", "special")
        )
        text = cls(trace.tokens(k), weights, rationale, special)
        return (
            text.in_words(trace.ragged("word_id").take(np.array([k])))
            if trace.has("word_id")
            else text
        )

    def in_words(self, word_id: Ragged) -> _Text:
        """The same with the pieces of each word joined."""

        def joined(values: Sequence[Any] | np.ndarray, ufunc: np.ufunc) -> np.ndarray:
            return to_words(word_id.with_values(np.asarray(values)), word_id, ufunc).values

        return _Text(
            join_tokens([self.tokens], word_id)[0],
            {
                kind: joined(values, np.maximum if kind == "loo" else np.add)
                for kind, values in self.weights.items()
            },
            *(
                marks and joined(marks, np.logical_or).tolist()
                for marks in (self.rationale, self.special)
            ),
        )


def _probability(prediction: Float[np.ndarray, " C"], chosen: int) -> float:
    if len(prediction) == 1:
        return float(prediction[0] if chosen == 1 else 1.0 - prediction[0])
    return float(prediction[chosen])


def full_name(trace: Trace, k: int) -> str:
    """The instance's number, with layer, head and query where the trace tells them."""
    known = {
        key: trace.array(key)[k]
        for key in ROW_KEYS
        if key not in ("split", "instance") and trace.has(key)
    }
    return " ".join(
        [str(trace.instance[k]), *(f"{key} {value}" for key, value in known.items() if value >= 0)]
    )


def row_name(name: str, head: Head | None) -> str:
    """``103``, or ``103, head 1 of layer 3``."""
    return name if head is None else f"{name}, {name_head(head)}"


def head_of_row(trace: Trace, k: int) -> Head | None:
    """The head whose attention a row is; None where the trace does not say."""
    if not trace.has("layer", "head"):
        return None
    layer, head = (int(trace.array(key)[k]) for key in ("layer", "head"))
    return None if layer < 0 or head < 0 else (layer, head)
