"""Token heatmaps: the same text shaded by the model's attention, by the adversary's, by gradient and by leave-one-out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from attnaudit.report.sections.rows import Instance
from attnaudit.report.sections.trimming import Gap, shown_positions
from attnaudit.results.words import figure, percent

EVEN_SHARES = 4
LONGEST, LONGEST_SENTENCE = 60, 300  # characters of a token that are shown
WORD_BEGINS = "▁"  # as sentencepiece writes it
_CAPTIONS = {
    "alpha": "The model's attention α",
    "adversary": "Adversarial attention",
    "gradient": "Gradient",
    "loo": "Leave-one-out",
}


@dataclass(frozen=True)
class Strip:
    """One shading of the text: ``shades`` in thousandths of ``full``, the weight of the deepest colour, per shown token.

    ``top`` is the largest weight of the whole text.
    """

    kind: str
    caption: str
    note: str
    top: float
    full: float
    shades: tuple[int, ...]


@dataclass(frozen=True)
class Heatmap:
    """``pieces`` are the shown tokens in order, with a `Gap` where tokens are left out; ``known`` marks rationale tokens."""

    instance: Instance
    pieces: tuple[str | Gap, ...]
    known: tuple[bool, ...]
    strips: tuple[Strip, ...]
    left_out: str

    def as_json(self) -> dict[str, Any]:
        """What the page's script draws the same picture from: tokens (a number stands for so many left out) and shades."""
        return {
            "tokens": [piece.size if isinstance(piece, Gap) else piece for piece in self.pieces],
            "known": [k for k, known in enumerate(self.known) if known],
            "strips": [[s.kind, s.caption, s.note, _short(s.top), _short(s.full), list(s.shades)] for s in self.strips],
            "note": self.left_out,
            "question": self.instance.question,
        }


def heatmap(instance: Instance, budget: int) -> Heatmap:
    """The picture of one instance with about ``budget`` tokens, those around the most weight where the text has more."""
    positions, pieces = shown_positions(list(instance.weights.values()), budget)
    tokens = tuple(piece if isinstance(piece, Gap) else visible(instance.tokens[piece]) for piece in pieces)
    rationale = instance.rationale or [False] * len(instance.tokens)
    strips = tuple(_strip(instance, kind, weights, positions) for kind, weights in instance.weights.items())
    held = float(instance.weights["alpha"][positions].sum())
    cut = len(instance.tokens) - len(positions)
    note = f"{len(positions)} of {len(instance.tokens)} tokens shown; they hold {percent(held)} of the attention." if cut else ""
    return Heatmap(instance, tokens, tuple(bool(rationale[p]) for p in positions), strips, note)


def _strip(instance: Instance, kind: str, weights: np.ndarray, positions: np.ndarray) -> Strip:
    top, full = float(weights.max()), full_colour(weights)
    shades = np.rint(1000 * weights[positions] / full).astype(int) if full > 0 else np.zeros(len(positions), int)
    return Strip(kind, _CAPTIONS[kind], _note(instance, kind), top, full, tuple(int(s) for s in shades))


def full_colour(weights: Float[np.ndarray, " T"]) -> float:
    """The weight that gets the deepest colour: the largest one, or `EVEN_SHARES` even shares of the whole where that is more.

    So weights that are nearly even look pale, and none looks like the one that matters.
    """
    even = float(weights.sum()) / len(weights)
    return max(float(weights.max()), min(EVEN_SHARES * even, float(weights.sum())))


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
    """A token as it can be seen: control characters and pure white space as symbols, a very long one cut and its length told."""
    longest = LONGEST_SENTENCE if " " in token.strip() else LONGEST
    if len(token) > longest:
        token = f"{token[:longest]}… ({len(token)} characters)"
    if not token.strip():
        return "".join("␣" if c == " " else _SYMBOLS.get(ord(c), "␣") for c in token) or "∅"
    return token.translate(_SYMBOLS)


def marks_words(tokens: Iterable[str]) -> bool:
    """Whether tokens are pieces of words, the first of each word marked so."""
    return any(token.startswith(WORD_BEGINS) for token in tokens)


_SYMBOLS = {code: chr(0x2400 + code) for code in range(32)} | {0x7F: "␡", ord("\n"): "⏎"}
