"""Token heatmaps: the same text shaded by the model's attention, the adversary's, and importance.

A strip shades the text by one kind of weights; the last one shows the range of weights that each
token could have, as a bar. Pieces of words are joined: a word has the sum of their weights, and of
leave-one-out, which deletes whole words, the largest.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from jaxtyping import Float

from attnaudit.core.escapes import without_controls
from attnaudit.core.shapes import PerToken
from attnaudit.report.words import figure, percent
from attnaudit.results import SCORES
from attnaudit.stats.measures import two_classes
from attnaudit.trace import ROW_KEYS, SHOWN, Trace
from attnaudit.trace.words import join_tokens, to_words

MEASURES = ("max_alpha", "tau_gradient", "tau_loo", "median_delta_y", "emax_jsd", "emax_jsd_upper")
UNIFORM_SHARES = 4
LEAST = {"gradient": 0.01, "loo": 0.01}
"""Scores that are all below this change of the output are pale. It is the usual ε: outputs that
differ by less count as the same."""
LEAST_EVIDENCE = 0.1  # log-odds; if no token adds as much, all are pale
LONGEST, LONGEST_SENTENCE = 60, 300  # characters of a token that are shown
WORD_BEGINS = "▁"  # as sentencepiece writes it
EVIDENCE = ("evidence", "evidence_classes")
_SYMBOLS = {code: chr(0x2400 + code) for code in range(32)} | {0x7F: "␡", ord("\n"): "⏎"}
_CAPTIONS = {
    "shown": "The heatmap",
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
        number: Number of the instance.
        tokens: T tokens, or words.
        weights: T numbers of each known kind: ``shown`` if there is a heatmap that is shown, then
            ``alpha``, ``adversary``, ``gradient``, ``loo`` and further scores.
        notes: The output under this attention, or how the weights agree with it, by kind.
        ranges: Least and most weight of each token with nearly the same output.
        evidence: Log-odds that each token adds to some classes, by class.
        classes: Number of all classes.
        rationale: Marks tokens that are known to matter.
        special: Marks tokens that are no part of the text.
        question: What the text was read with.
        predicted: Predicted class.
        probability: Probability of the predicted class.
        label: Gold class.
        figures: `MEASURES` of the row.
    """

    name: str
    number: int
    tokens: Sequence[str]
    weights: Mapping[str, PerToken]
    notes: Mapping[str, str]
    ranges: Float[np.ndarray, "T 2"] | None
    evidence: Mapping[str, PerToken]
    classes: int
    rationale: Sequence[bool] | None
    special: Sequence[bool] | None
    question: str
    predicted: str
    probability: float
    label: str | None
    figures: Mapping[str, float | None]

    @property
    def main(self) -> PerToken:
        """Weights of the heatmap that is judged: the one shown, or attention."""
        return next(iter(self.weights.values()))

    @property
    def anchor(self) -> str:
        """The fragment of a page's address that names it."""
        return f"instance-{as_address(self.name)}"

    @property
    def correct(self) -> bool | None:
        """Return True if the prediction is the label; None without a label."""
        return None if self.label is None else self.label == self.predicted


class Strip(NamedTuple):
    """One shading of a text.

    Attributes:
        kind: Kind of the weights; ``score`` for one without a colour of its own, ``evidence`` for
            numbers with a sign.
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
        tokens: Shown tokens in order.
        strips: The shadings.
        left_out: Says how many tokens are not shown.
        known: Places, among the shown tokens, of those of the rationale.
        special: Places of special tokens.
    """

    instance: Instance
    tokens: list[str]
    strips: list[Strip]
    left_out: str
    known: list[int]
    special: list[int]

    def as_json(self) -> dict[str, Any]:
        """Return what the page's script draws the same picture from."""
        drawn = {"tokens": self.tokens, "strips": self.strips, "note": self.left_out}
        marks = {"known": self.known, "special": self.special}
        return {**drawn, "question": self.instance.question, **marks}


def heatmap(instance: Instance, budget: int, evidence: bool = False) -> Heatmap:
    """Draw one instance.

    Args:
        instance: The instance.
        budget: Most tokens; of a longer text the part with most attention is drawn.
        evidence: Whether to draw a strip of evidence per class.
    """
    length, main, strips = len(instance.tokens), instance.main, list[Strip]()
    part = densest(main, budget)
    for kind, weights in instance.weights.items():
        full, note = full_colour(weights, LEAST.get(kind, 0.0)), instance.notes.get(kind, "")
        ends = _short(float(weights.max())), _short(full)
        shown = kind if kind in _CAPTIONS else "score"
        strips.append(Strip(shown, caption_of(kind), note, *ends, _shades(weights[part], full)))
    if instance.ranges is not None:
        thousandths = np.rint(1000 * instance.ranges[part]).astype(int).tolist()
        possible, own = instance.ranges[:, 1], _shades(instance.weights["alpha"][part], 1.0)
        note = f"with nearly the same output; mean possible weight {figure(float(possible.mean()))}"
        caption, top = "Necessary to possible weights", _short(float(possible.max()))
        strips.append(Strip("ranges", caption, note, top, 1.0, own, thousandths))
    left_out = ""
    if length > budget:
        of = "weight" if SHOWN in instance.weights else "attention"
        held = f"they hold {percent(float(main[part].sum()))} of the {of}"
        left_out = f"Tokens {part.start + 1} to {part.stop} of {length} are shown; {held}."
    if evidence and instance.evidence:
        strips += _evidence_strips(instance.evidence, part)
        # The strip of one of two classes is about both.
        further = instance.classes - max(len(instance.evidence), 2)
        left_out += f" {further} less probable classes have no strip." if further > 0 else ""
    known, special = (
        [] if marks is None else np.flatnonzero(np.asarray(marks, bool)[part]).tolist()
        for marks in (instance.rationale, instance.special)
    )
    tokens = list(map(visible, instance.tokens[part]))
    return Heatmap(instance, tokens, strips, left_out, known, special)


def _evidence_strips(evidence: Mapping[str, PerToken], part: slice) -> Iterator[Strip]:
    """Draw a strip per class; all have one scale, so that classes can be compared."""
    full = max(LEAST_EVIDENCE, *(float(np.abs(own).max()) for own in evidence.values()))
    for name, own in evidence.items():
        note = "" if len(evidence) > 1 else "the other class has the opposite"
        top, shades = _short(float(np.abs(own).max())), _shades(own[part], full)
        yield Strip("evidence", f"For and against {name}", note, top, full, shades)


def of_heads(picture: Heatmap) -> Heatmap:
    """Leave out further scores: many texts with all of them make a large page."""
    return replace(picture, strips=[one for one in picture.strips if one.kind != "score"])


def caption_of(kind: str) -> str:
    """Return the title of a kind of weights."""
    name = SCORES.get(kind, kind.replace("_", " "))
    return _CAPTIONS.get(kind, name[:1].upper() + name[1:])


def densest(weights: PerToken, budget: int) -> slice:
    """Return the ``budget`` neighbouring positions with the most weight, or all of fewer."""
    if len(weights) <= budget:
        return slice(0, len(weights))
    sums = np.cumsum([0.0, *weights])
    start = int(np.argmax(sums[budget:] - sums[:-budget]))
    return slice(start, start + budget)


def _shades(weights: Float[np.ndarray, " s"], full: float) -> list[int]:
    return np.rint(1000 * weights / (full or 1.0)).astype(int).tolist()


def full_colour(weights: PerToken, least: float = 0.0) -> float:
    """Return the deepest colour's weight.

    It is the largest weight, or `UNIFORM_SHARES` uniform shares if they are more, so that nearly
    uniform weights look pale.

    Args:
        weights: The weights.
        least: The deepest colour's weight is never less.
    """
    total = float(weights.sum())
    return max(float(weights.max()), min(UNIFORM_SHARES * total / len(weights), total), least)


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


def read_instances(trace: Trace, rows: pl.DataFrame) -> list[Instance]:
    """Read the rows of a trace.

    Args:
        trace: The trace.
        rows: The experiments' tables side by side, a row per trace row, or empty.
    """
    further = (name for name in trace.table.columns if name.startswith("importance_"))
    names = dict.fromkeys([trace.heatmap_column, "alpha", "gradient", "loo", *further])
    columns = {
        name.removeprefix("importance_"): trace.ragged(name) for name in names if trace.has(name)
    }
    shown = (*MEASURES, "alpha", "prediction", "delta_y", "necessary", "possible", *EVIDENCE)
    known = rows.select(name for name in shown if name in rows.columns).to_dicts()
    labels = trace.array("label") if trace.has("label") else np.full(len(trace), -1)
    outputs, full, instances = two_classes(trace.array("prediction")), full_names(trace), []
    for k, facts in enumerate(known or [{}] * len(trace)):
        # Sums of large float32 would overflow.
        weights = {name: column[k].astype(np.float64) for name, column in columns.items()}
        label = int(labels[k])
        chosen, main = int(trace.predicted[k]), next(iter(weights))
        alpha = weights.get("alpha", weights[main])
        predicted = trace.class_names[chosen]
        probability = float(outputs[k, chosen])
        notes = {
            kind: f"τ with attention {figure(facts[f'tau_{kind}'])}"
            for kind in ("gradient", "loo")
            if facts.get(f"tau_{kind}") is not None
        }
        notes[main] = f"ŷ({predicted}) = {figure(probability, 3)}"
        if main == SHOWN and "heatmap" in trace.metadata:
            notes[main] = f"{trace.metadata['heatmap']}; {notes[main]}"
        adversary = facts.get("alpha")
        if adversary is not None:
            first = {name: weights.pop(name) for name in (main, "alpha") if name in weights}
            weights = {**first, "adversary": np.asarray(adversary), **weights}
            output = figure(two_classes(np.array([facts["prediction"]]))[0, chosen], 3)
            change, jsd = (figure(facts.get(name), 3) for name in ("delta_y", "emax_jsd"))
            notes["adversary"] = f"ŷ({predicted}) = {output}, Δŷ {change}, JSD {jsd}"
        # The evidence of a word's pieces is joined as their weights are.
        classes, numbers = facts.get("evidence_classes") or (), facts.get("evidence") or ()
        evidence = dict(zip((f"evidence {c}" for c in classes), np.array(numbers).T, strict=False))
        tokens, weights, marks = _words(trace, k, weights | evidence)
        own = {c: weights.pop(f"evidence {c}", None) for c in classes}
        ends = [facts.get("necessary"), facts.get("possible")]
        question = trace.cell("question", k) if trace.has("question") else None
        instances.append(
            Instance(
                full[k],
                int(trace.instance[k]),
                tokens,
                weights,
                notes,
                None if None in ends or len(tokens) < len(alpha) else np.array(ends, float).T,
                {trace.class_names[c]: one for c, one in own.items() if c >= 0 and one is not None},
                len(trace.class_names),
                **marks,
                question=" ".join(question or ()),
                predicted=predicted,
                probability=probability,
                label=trace.class_names[label] if label >= 0 else None,
                figures={name: facts.get(name) for name in MEASURES}
                | {"max_alpha": float(alpha.max())},
            )
        )
    return instances


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

    def joined(values, ufunc):
        return to_words(word_id.with_values(np.asarray(values)), word_id, ufunc).values

    heatmap = str(trace.metadata.get("heatmap"))
    of_words = {"loo", "loo_mask", SHOWN if heatmap.startswith("loo") else "loo"}
    merged = {
        kind: joined(values, np.maximum if kind in of_words else np.add)
        for kind, values in weights.items()
    }
    marks = {name: one and joined(one, np.logical_or).tolist() for name, one in marks.items()}
    return join_tokens([tokens], word_id)[0], merged, marks


def full_names(trace: Trace) -> list[str]:
    """Name all rows: ``103``, or ``103, layer 3, head 1, query 0``."""
    keys = [key for key in ROW_KEYS if key not in ("split", "instance") and trace.has(key)]
    found = (trace.array(key).tolist() for key in keys)
    return [
        ", ".join(
            [str(number), *(f"{key} {one}" for key, one in zip(keys, row, strict=True) if one >= 0)]
        )
        for number, *row in zip(trace.instance.tolist(), *found, strict=True)
    ]


def as_address(name: str) -> str:
    """Return the name of a row as a part of an address."""
    return name.replace(", ", "-").replace(" ", "-")
