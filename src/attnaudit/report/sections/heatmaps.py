"""Token heatmaps: the same text shaded by the model's attention, the adversary's, and importance.

A strip shades the text by one kind of weights; the last one shows the range of weights that each
token could have, as a bar. Pieces of words are joined: a word has the sum of their weights, and of
leave-one-out, which deletes whole words, the largest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from jaxtyping import Float, Int64

from attnaudit.core.printable import without_controls
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
_SYMBOLS = {code: chr(0x2400 + code) for code in range(32)} | {0x7F: "␡", ord("\n"): "⏎"}
_CAPTIONS = {
    "alpha": "The model's attention α",
    "adversary": "Adversarial attention",
    "gradient": "Gradient",
    "loo": "Leave-one-out",
}


@dataclass(frozen=True)
class Instance:
    """One row of a trace, T positions, with its figures.

    Attributes:
        name: Number of the instance, with layer, head and query if the trace has them.
        tokens: T tokens, or words.
        weights: T numbers of each known kind: ``alpha``, ``adversary``, ``gradient``, ``loo``.
        rationale: Marks tokens that are known to matter.
        predicted: Predicted class.
        probability: Probability of the predicted class.
        label: Gold class.
        adversarial_probability: Probability of the predicted class under the adversary's attention.
        delta_y: Change of the output under the adversary's attention.
        figures: `MEASURES` of the row.
        question: What the text was read with.
        special: Marks tokens that are no part of the text.
        number: Number of the text.
        head: The head whose attention it is.
        ranges: Least and most weight of each token with nearly the same output.
    """

    name: str
    tokens: Sequence[str]
    weights: Mapping[str, Float[np.ndarray, " T"]]
    rationale: Sequence[bool] | None
    predicted: str
    probability: float
    label: str | None
    adversarial_probability: float | None
    delta_y: float | None
    figures: Mapping[str, float | None]
    question: str
    special: Sequence[bool] | None
    number: int
    head: Head | None
    ranges: Float[np.ndarray, "T 2"] | None

    @property
    def title(self) -> str:
        """Its name in a heading."""
        if self.head is None:
            return f"Instance {self.name}"
        return f"Text {self.number}, {name_head(self.head)}"

    @property
    def listed(self) -> str:
        """Its name in a list."""
        return row_name(str(self.name if self.head is None else self.number), self.head)

    @property
    def anchor(self) -> str:
        """The fragment of a page's address that names it."""
        return f"instance-{self.name.replace(' ', '-')}"

    @property
    def correct(self) -> bool | None:
        """Return True if the prediction is the label; None without a label."""
        return None if self.label is None else self.label == self.predicted


class Gap(NamedTuple):
    """``size`` tokens that are not shown."""

    size: int


class Strip(NamedTuple):
    """One shading of a text.

    Attributes:
        kind: Kind of the weights.
        caption: Its name.
        note: The output under this attention, or how the weights agree with it.
        top: Largest weight.
        full: Weight of the deepest colour.
        shades: Weight of each shown token, in thousandths of ``full``.
        spans: Ends of a bar for each token, in thousandths of all attention; ``shades`` are then
            the marks on the bars.
    """

    kind: str
    caption: str
    note: str
    top: float
    full: float
    shades: Sequence[int]
    spans: Sequence[Sequence[int]] = ()


@dataclass(frozen=True)
class Heatmap:
    """A picture of a text.

    Attributes:
        instance: The text.
        pieces: Shown tokens in order, with a `Gap` for those between them.
        known: Marks shown tokens of the rationale.
        strips: The shadings.
        left_out: Says how many tokens are not shown.
        special: Marks shown special tokens.
    """

    instance: Instance
    pieces: tuple[str | Gap, ...]
    known: tuple[bool, ...]
    strips: tuple[Strip, ...]
    left_out: str
    special: tuple[bool, ...]

    def as_json(self) -> dict[str, Any]:
        """Return what the page's script draws the same picture from; a gap is its size."""
        pieces = [piece.size if isinstance(piece, Gap) else piece for piece in self.pieces]
        strips = [one._replace(top=_short(one.top), full=_short(one.full)) for one in self.strips]
        known, special = (np.flatnonzero(marks).tolist() for marks in (self.known, self.special))
        marks = {"known": known, **({"special": special} if special else {})}
        note, question = self.left_out, self.instance.question
        return {"tokens": pieces, "strips": strips, "note": note, "question": question} | marks


def heatmap(instance: Instance, budget: int) -> Heatmap:
    """Draw one instance with about ``budget`` tokens, around the most weight if it has more."""
    length, alpha = len(instance.tokens), instance.weights["alpha"]
    positions = shown_positions(list(instance.weights.values()), budget)
    strips = [_strip(instance, kind, w, positions) for kind, w in instance.weights.items()]
    if instance.ranges is not None:
        thousandths = np.rint(1000 * instance.ranges[positions]).astype(int).tolist()
        possible, own = instance.ranges[:, 1], _shades(alpha[positions], 1.0)
        note = f"with nearly the same output; mean possible weight {figure(float(possible.mean()))}"
        caption, top = "Necessary to possible weights", float(possible.max())
        strips.append(Strip("ranges", caption, note, top, 1.0, own, thousandths))
    left_out = ""
    if len(positions) < length:
        held = f"they hold {percent(float(alpha[positions].sum()))} of the attention"
        left_out = f"{len(positions)} of {length} tokens shown; {held}."
    known, special = (
        tuple(marks is not None and bool(marks[p]) for p in positions)
        for marks in (instance.rationale, instance.special)
    )
    pieces = tuple(shown_pieces(instance.tokens, positions))
    return Heatmap(instance, pieces, known, tuple(strips), left_out, special)


def _strip(instance: Instance, kind: str, weights: np.ndarray, positions: np.ndarray) -> Strip:
    if kind == "alpha":
        note = f"ŷ({instance.predicted}) = {figure(instance.probability, 3)}"
    elif kind == "adversary":
        output = f"ŷ({instance.predicted}) = {figure(instance.adversarial_probability, 3)}"
        jsd = figure(instance.figures["emax_jsd"], 3)
        note = f"{output}, Δŷ {figure(instance.delta_y, 3)}, JSD {jsd}"
    else:
        tau = instance.figures.get(f"tau_{kind}")
        note = "" if tau is None else f"τ with attention {figure(tau)}"
    full = full_colour(weights)
    shades = _shades(weights[positions], full)
    return Strip(kind, _CAPTIONS[kind], note, float(weights.max()), full, shades)


def _shades(weights: Float[np.ndarray, " s"], full: float) -> list[int]:
    return np.rint(1000 * weights / (full or 1.0)).astype(int).tolist()


def full_colour(weights: Float[np.ndarray, " T"]) -> float:
    """Return the deepest colour's weight.

    It is the largest weight, or `UNIFORM_SHARES` uniform shares if they are more, so that nearly
    uniform weights look pale.
    """
    total = float(weights.sum())
    return max(float(weights.max()), min(UNIFORM_SHARES * total / len(weights), total))


def _short(value: float) -> float:
    return float(f"{value:.4g}")


def visible(token: str) -> str:
    """Make a token visible.

    Control characters and pure white space become symbols; a very long token is cut, and its length
    given.
    """
    longest = LONGEST_SENTENCE if " " in token.strip() else LONGEST
    if len(token) > longest:
        token = f"{token[:longest]}… ({len(token)} characters)"
    if not token.strip():
        return "".join("␣" if c == " " else _SYMBOLS.get(ord(c), "␣") for c in token) or "∅"
    return without_controls(token.translate(_SYMBOLS))


def marks_words(tokens: Iterable[str]) -> bool:
    """Tell whether tokens are pieces of words, of which the first of each word is marked."""
    return any(token.startswith(WORD_BEGINS) for token in tokens)


def shown_positions(
    weights: Sequence[Float[np.ndarray, " T"]], budget: int
) -> Int64[np.ndarray, " s"]:
    """Choose the positions to show, in order: all of a text of at most ``budget`` tokens.

    Of a longer text they are chosen by their largest weight relative to the top of each of
    ``weights``, with `CONTEXT` tokens on both sides, until about ``budget`` tokens are shown. Gaps
    of one or two tokens are filled.
    """
    length = len(weights[0])
    if length <= budget:
        return np.arange(length)
    relative = np.max([row / (row.max() or 1.0) for row in weights], axis=0)
    shown = np.zeros(length, bool)
    for position in np.argsort(-relative, kind="stable"):
        window = slice(max(position - CONTEXT, 0), position + CONTEXT + 1)
        if shown.sum() + (~shown[window]).sum() > budget:
            break
        shown[window] = True
    for before, after in pairwise([-1, *np.flatnonzero(shown).tolist(), length]):
        if after - before <= SMALLEST_GAP:
            shown[before + 1 : after] = True
    return np.flatnonzero(shown)


def shown_pieces(tokens: Sequence[str], positions: Int64[np.ndarray, " s"]) -> Iterator[str | Gap]:
    """Yield the tokens at ``positions``, visible, with a `Gap` for those between them."""
    for before, position in pairwise([-1, *positions.tolist(), len(tokens)]):
        if position - before > 1:
            yield Gap(position - before - 1)
        if position < len(tokens):
            yield visible(tokens[position])


def read_instances(trace: Trace, rows: pl.DataFrame) -> list[Instance]:
    """Read the rows of a trace.

    Args:
        trace: The trace.
        rows: The experiments' tables side by side, a row per trace row, or empty.
    """
    columns = {name: trace.ragged(name) for name in ("alpha", "gradient", "loo") if trace.has(name)}
    shown = (*MEASURES, "alpha", "prediction", "delta_y", "necessary", "possible")
    known = rows.select(name for name in shown if name in rows.columns).to_dicts()
    return [
        _instance(trace, k, {name: column[k] for name, column in columns.items()}, facts)
        for k, facts in enumerate(known or [{}] * len(trace))
    ]


def _instance(
    trace: Trace, k: int, weights: dict[str, np.ndarray], facts: Mapping[str, Any]
) -> Instance:
    label = int(trace.array("label")[k]) if trace.has("label") else -1
    chosen, alpha = int(trace.predicted[k]), weights["alpha"]
    figures = {name: facts.get(name) for name in MEASURES} | {"max_alpha": float(alpha.max())}
    adversarial, prediction = facts.get("alpha"), None
    if adversarial is not None and len(adversarial) == len(alpha):
        weights = {"alpha": alpha, "adversary": np.asarray(adversarial), **weights}
        prediction = _probability(np.asarray(facts["prediction"]), chosen)
    tokens, weights, marks = _words(trace, k, weights)
    ends = [facts.get("necessary"), facts.get("possible")]
    question = trace.cell("question", k) if trace.has("question") else None
    return Instance(
        name=full_name(trace, k),
        tokens=tokens,
        weights=weights,
        predicted=trace.class_names[chosen],
        probability=_probability(trace.array("prediction")[k], chosen),
        label=trace.class_names[label] if label >= 0 else None,
        adversarial_probability=prediction,
        delta_y=facts.get("delta_y"),
        figures=figures,
        question=" ".join(question or ()),
        number=int(trace.instance[k]),
        head=head_of_row(trace, k),
        ranges=None if None in ends or len(tokens) < len(alpha) else np.array(ends, float).T,
        **marks,
    )


def _words(
    trace: Trace, k: int, weights: dict[str, np.ndarray]
) -> tuple[list[str], dict[str, np.ndarray], dict[str, Any]]:
    """Return tokens, weights and marks of a row, with the pieces of each word joined."""
    names = ("rationale", "special")
    marks = {name: trace.cell(name, k) if trace.has(name) else None for name in names}
    tokens = trace.tokens(k)
    if not trace.has("word_id"):
        return tokens, weights, marks
    word_id = trace.ragged("word_id").take(np.array([k]))

    def joined(values: Sequence[Any] | np.ndarray, ufunc: np.ufunc) -> np.ndarray:
        return to_words(word_id.with_values(np.asarray(values)), word_id, ufunc).values

    merged = {
        kind: joined(values, np.maximum if kind == "loo" else np.add)
        for kind, values in weights.items()
    }
    marks = {name: one and joined(one, np.logical_or).tolist() for name, one in marks.items()}
    return join_tokens([tokens], word_id)[0], merged, marks


def _probability(prediction: Float[np.ndarray, " C"], chosen: int) -> float:
    if len(prediction) == 1:
        return float(prediction[0] if chosen == 1 else 1.0 - prediction[0])
    return float(prediction[chosen])


def full_name(trace: Trace, k: int) -> str:
    """Return the instance's number, with layer, head and query if the trace has them."""
    keys = [key for key in ROW_KEYS if key not in ("split", "instance") and trace.has(key)]
    known = [f"{key} {trace.array(key)[k]}" for key in keys if trace.array(key)[k] >= 0]
    return " ".join([str(trace.instance[k]), *known])


def row_name(name: str, head: Head | None) -> str:
    """Return ``103``, or ``103, head 1 of layer 3``."""
    return name if head is None else f"{name}, {name_head(head)}"


def head_of_row(trace: Trace, k: int) -> Head | None:
    """Return the head whose attention a row is; None if the trace does not say."""
    if not trace.has("layer", "head"):
        return None
    layer, head = (int(trace.array(key)[k]) for key in ("layer", "head"))
    return None if layer < 0 or head < 0 else (layer, head)
