"""The bounds of the adversary by themselves: a tanh tail made linear, the program of a box, and rows whose maximum is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.optimize import linprog

from attnaudit.experiments.adversary import branch
from attnaudit.experiments.adversary.envelopes import _attended_range, linearise, log_probabilities
from attnaudit.experiments.adversary.exact import gain
from attnaudit.experiments.adversary.experiment import Adversary
from attnaudit.experiments.adversary.program import Box, bound_box, program, tightened
from attnaudit.experiments.adversary.row import as_row, attended_sum, beyond, own_logits, worth
from attnaudit.experiments.adversary.search import (
    try_pairs,
    try_single_tokens,
    try_swaps,
    try_thinning,
)
from attnaudit.experiments.compiled_readout import kernel_rows, row_parts
from attnaudit.report.cards import card
from attnaudit.report.charts.specs import Histogram
from attnaudit.stats.measures import LN2
from attnaudit.trace import Trace
from tests.experiments.test_adversary_several import tail_trace
from tests.oracles.adversary_several import divergences, enumerated_adversary, predictions, within
from tests.traces import make_trace

SAMPLES = 400
pytestmark = pytest.mark.filterwarnings(
    "ignore::RuntimeWarning"
)  # of subroutines, which are interpreted here, computing with inf


def boxes(row: Any, rng: np.random.Generator, count: int) -> list[Box]:
    """Boxes of attentions of all sizes, the first of all attentions; all outputs."""
    length, classes, made = len(row.alpha), len(row.kept), []
    for side in [1.0, *rng.choice([0.02, 0.1, 0.4], count - 1)]:
        centre = rng.dirichlet(np.full(length, 0.6))
        low, high = np.maximum(centre - side, 0.0), np.minimum(centre + side, 1.0)
        assert tightened(low, high)
        made.append(Box(low, high, np.zeros(classes), np.ones(classes)))
    return made


def inside(box: Box, rng: np.random.Generator) -> np.ndarray:
    """Attentions in a box, half of them on its border: from one of them as far as the box allows, or less far."""
    share = (1.0 - box.low.sum()) / max((box.high - box.low).sum(), 1e-300)
    start = box.low + share * (box.high - box.low)
    way = rng.dirichlet(np.full(len(start), 0.3), SAMPLES) - start
    with np.errstate(divide="ignore", invalid="ignore"):
        reach = np.where(
            way > 0, (box.high - start) / way, np.where(way < 0, (box.low - start) / way, np.inf)
        ).min(axis=1)
    scale = np.minimum(reach, 1.0) * np.where(np.arange(SAMPLES) % 2, 1.0, rng.random(SAMPLES))
    return np.maximum(start + scale[:, None] * way, 0.0)


def row_of(trace: Trace, number: int, epsilon: float = 0.05) -> Any:
    return as_row(row_parts(kernel_rows(trace.readout, trace.alpha), number), epsilon)


def gaps(row: Any, box: Box, attention: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How far the logits of each class are from their linear ones, ``(m, classes − 1)``, and the error that is allowed."""
    classes, last, rows = len(row.kept), int(np.argmax(row.target[row.kept])), len(row.kept) + 1
    log_p = log_probabilities(own_logits(row))[row.kept]
    matrix, scale, error = np.zeros((rows, len(row.alpha))), np.ones(rows), np.zeros(rows)
    linearise(row, box, log_p, last, matrix, scale, error)
    logits = np.tanh(row.offset + attention @ row.contribution) @ row.head.weight + row.head.bias
    centred = logits[:, row.kept] - log_p
    others = [c for c in range(classes) if c != last]
    return (centred[:, others] - centred[:, [last]]) - (
        attention @ (matrix[2:] / scale[2:, None]).T
    ), error[2:]


def test_attended_sums_lie_in_their_range_however_they_are_added_up():
    """Of one attention, whose sum is nearly 0 while its terms are large."""
    rng = np.random.default_rng(6)
    for _ in range(100):
        weights, contribution = rng.dirichlet(np.ones(6)), rng.normal(0, 100, (6, 3))
        floor, ceiling = _attended_range(
            contribution, -weights @ contribution, Box(weights, weights, np.zeros(2), np.ones(2))
        )
        order = rng.permutation(6)
        attended = sum(weights[t] * contribution[t] for t in order) - weights @ contribution
        assert (floor <= attended).all()
        assert (attended <= ceiling).all()


@pytest.mark.parametrize("hidden", [1, 3, 8])
def test_the_logits_are_as_near_to_the_linear_ones_as_the_error_says(hidden: int):
    rng, reached = np.random.default_rng(hidden), []
    trace = tail_trace(6, (2, 5), 3, hidden, 1)
    for number in range(len(trace)):
        row = row_of(trace, number)
        for box in boxes(row, rng, 6):
            gap, error = gaps(row, box, inside(box, rng))
            assert (np.abs(gap) <= error + 1e-9).all()
            reached.append((np.abs(gap).max(axis=0) / error).max())
    assert hidden > 1 or max(reached) > 0.95  # of one hidden unit no smaller error would do


KINDS = {
    "three classes": lambda seed: make_trace(6, (2, 6), 3, seed=seed, sharpness=1.0),
    "five classes": lambda seed: make_trace(6, (2, 5), 5, seed=seed, sharpness=1.0),
    "answers left out": lambda seed: make_trace(6, (2, 5), 4, seed=seed, candidates=True),
    "tail, one sigmoid": lambda seed: tail_trace(5, (2, 5), 1, 4, seed),
    "tail, three classes": lambda seed: tail_trace(5, (2, 5), 3, 6, seed),
}


def check_box(row: Any, box: Box, predicted: Any, rng: np.random.Generator) -> int:
    """No allowed attention in the box is further than its bound; how many were compared."""
    bound = bound_box(program(row, own_logits(row)), box, np.empty(len(row.alpha)))
    attention = inside(box, rng)
    outputs, own = predicted(attention), predicted(row.own[None])
    allowed = within(outputs, own) <= row.epsilon
    kept = outputs[:, row.kept]
    allowed &= (kept >= box.low_p - 1e-12).all(axis=1) & (kept <= box.high_p + 1e-12).all(axis=1)
    assert bound >= divergences(attention[allowed], row.alpha).max(initial=-np.inf)
    return int(allowed.sum())


@pytest.mark.parametrize("kind", KINDS)
def test_no_attention_of_a_box_is_further_than_its_bound(kind: str):
    """Boxes of attentions, and of outputs too: what is allowed of one class cut at its own probability."""
    rng, compared = np.random.default_rng(3), 0
    trace = KINDS[kind](2)
    for number in range(len(trace)):
        row = row_of(trace, number, 0.2)

        def predicted(attention: np.ndarray, number: int = number, row: Any = row) -> np.ndarray:
            whole = np.zeros((len(attention), len(row.stand_in)))
            whole[:, row.tokens] = attention
            return predictions(trace, number, whole)[
                :, trace.candidates[number] if trace.candidates is not None else slice(None)
            ]

        for box in boxes(row, rng, 5):
            compared += check_box(row, box, predicted, rng)
            for part, side in ((box.low_p, slice(0, 1)), (box.high_p, slice(0, 1))):
                part[side] = row.target[row.kept[0]]
                compared += check_box(row, box, predicted, rng)
                part[side] = 0.0 if part is box.low_p else 1.0
    assert compared > 500


def allowed_logits(row: Any, log_p: np.ndarray, last: int, rng: np.random.Generator) -> np.ndarray:
    """Logits, less those of the last class and less ln p, of outputs within ε: ``(m, classes − 1)``."""
    p, classes = np.exp(log_p), len(log_p)
    up, down = (
        np.vstack(
            [
                np.eye(classes)[rng.integers(0, classes, 150)],
                rng.dirichlet(np.full(classes, 0.5), 150),
            ]
        )
        for _ in range(2)
    )
    moved = np.vstack([p, p + row.epsilon * rng.choice([0.999, 0.5], (300, 1)) * (up - down)])
    moved = np.log(moved[(moved > 1e-12).all(axis=1)]) - log_p
    return np.delete(moved - moved[:, [last]], last, axis=1)


@pytest.mark.parametrize("kind", KINDS)
def test_a_bound_is_not_below_the_program_that_it_relaxes(kind: str):
    """Chords for f, the linear logits with all of their error, some of the outputs allowed: its maximum by another solver."""
    rng, trace, with_error = np.random.default_rng(4), KINDS[kind](5), 0
    for number in range(len(trace)):
        row = row_of(trace, number, 0.1)
        if len(row.kept) < 2:
            continue
        for box in boxes(row, rng, 4):
            built, size = program(row, own_logits(row)), len(row.alpha)
            bound = bound_box(built, box, np.empty(size))
            linear, error = built.matrix[2:] / built.scale[2:, None], built.error[2:]
            outputs = allowed_logits(row, built.log_p, built.last, rng)
            low, high = (
                np.array([gain(x, a) for x, a in zip(side, row.alpha, strict=True)])
                for side in (box.low, box.high)
            )
            slope = np.divide(
                high - low, box.high - box.low, out=np.zeros(size), where=box.high > box.low
            )
            columns = np.block([
                [np.ones(size), np.zeros(len(outputs) + len(error))],
                [np.zeros(size), np.ones(len(outputs)), np.zeros(len(error))],
                [linear, -outputs.T, np.eye(len(error))],
            ])  # fmt: skip
            sides = [
                *zip(box.low, box.high, strict=True),
                *[(0, None)] * len(outputs),
                *zip(-error, error, strict=True),
            ]
            cost, right = (
                -np.concatenate([slope, np.zeros(len(outputs) + len(error))]),
                [1.0, 1.0, *np.zeros(len(error))],
            )
            found = linprog(cost, A_eq=columns, b_eq=right, bounds=sides)
            if found.status == 0:
                assert bound >= 0.5 * LN2 + (low - slope * box.low).sum() - found.fun - 1e-7
                with_error += bool(error.max() > 0.01)
    assert "tail" not in kind or with_error > 5


@pytest.mark.parametrize(
    "traces",
    [
        (tail_trace(12, (4, 8), 3, 6, 31), tail_trace(8, (4, 8), 4, 3, 32)),
        (tail_trace(8, (13, 18), 3, 6, 33),),
    ],
    ids=["short", "long"],
)
def test_every_search_for_a_start_finds_what_the_ones_before_it_did_not(traces: tuple[Trace, ...]):
    """Single tokens, pairs, thinning, swaps: each is allowed, worth what it says, and better than those before it in some row."""
    better = dict.fromkeys(("single", "pairs", "thinning", "swaps"), 0)
    for trace in traces:
        for number in range(len(trace)):
            row = row_of(trace, number, 0.02)
            value, found, logits = 0.0, row.own.copy(), own_logits(row)
            for name in better:
                before, unchanged = value, found.copy()
                value = _searched(name, row, logits, value, found)
                better[name] += value > before + 1e-4
                if value > before:
                    assert value == pytest.approx(worth(row, found), abs=1e-9)
                    assert beyond(row, attended_sum(row, found)) <= 1e-12
                else:
                    assert value == before
                    np.testing.assert_array_equal(found, unchanged)
    assert min(better.values()) > 0, better


def _searched(name: str, row: Any, logits: np.ndarray, value: float, found: np.ndarray) -> float:
    if name == "single":
        return try_single_tokens(row, value, found)
    if name == "pairs":
        return try_pairs(row, np.argsort(row.alpha), value, found)
    return (try_thinning if name == "thinning" else try_swaps)(row, logits, value, found)


SHORT = {
    "three classes": lambda: make_trace(12, (2, 3), 3, seed=21, sharpness=1.0),
    "five classes": lambda: make_trace(12, (2, 3), 5, seed=22, sharpness=1.0),
    "answers left out": lambda: make_trace(12, (2, 3), 4, seed=23, candidates=True),
    "tail, one sigmoid": lambda: tail_trace(8, (2, 3), 1, 4, 24),
    "tail, three classes": lambda: tail_trace(8, (2, 3), 3, 6, 25),
}


@pytest.mark.parametrize("kind", SHORT)
def test_the_maximum_of_short_rows_is_that_of_enumeration(kind: str):
    """It is found; the bound is not below it, and for most rows near it."""
    trace = SHORT[kind]()
    table = Adversary(epsilon=0.05)(trace)
    found, upper = (table[name].to_numpy() for name in ("emax_jsd", "emax_jsd_upper"))
    best = np.array([enumerated_adversary(trace, row, 0.05) for row in range(len(trace))])
    assert (upper >= best - 1e-9).all()
    np.testing.assert_allclose(found, best, atol=2e-4)
    assert (found <= best + 1e-5).all()
    assert (upper - best <= (5e-3 if "tail" in kind else 1e-3)).mean() > 0.8


def test_certified_is_what_is_proven_to_a_thousandth():
    """Of a search that stops early, whose distance from the exact bound is of every size."""
    table = Adversary(method="relaxed", steps=60, k=2)(make_trace(150, (2, 8), 1, seed=8))
    gap = (table["emax_jsd_upper"] - table["emax_jsd"]).to_numpy()
    assert ((gap > 1e-3) & (gap < 1e-2)).sum() > 3
    np.testing.assert_array_equal(table["certified"].to_numpy(), gap <= 1e-3)


@pytest.mark.parametrize(
    ("found", "upper", "marked"),
    [([0.2, 0.4], [0.2, 0.5], [0.35]), ([0.2, 0.4], [0.2, 0.4], []), ([None], [None], [])],
)
def test_the_mean_of_the_bounds_is_marked_where_it_is_above_what_is_found(
    found: list, upper: list, marked: list
):
    rows = pl.DataFrame(
        {"emax_jsd": found, "emax_jsd_upper": upper},
        schema={"emax_jsd": pl.Float64, "emax_jsd_upper": pl.Float64},
    )
    (histogram,) = card("adversary").figures[0].charts
    assert isinstance(histogram, Histogram)
    assert [marker.x for marker in histogram.markers(rows)] == pytest.approx([LN2, *marked])


def test_the_token_that_is_cut_has_the_widest_chord_and_leaves_two_smaller_parts():
    """Points at an end of their side too, where a cut would leave a part as large as the whole."""
    rng, row = np.random.default_rng(7), row_of(tail_trace(1, (6, 6), 3, 4, 8), 0)
    for box in boxes(row, rng, 30):
        point = np.where(
            rng.random(6) < 0.3, box.low, box.low + rng.random(6) * (box.high - box.low)
        )
        least, most, own = (
            np.array([gain(x, a) for x, a in zip(side, row.alpha, strict=True)])
            for side in (box.low, box.high, point)
        )
        width = box.high - box.low
        gaps = (
            least
            + np.divide(most - least, width, out=np.zeros(6), where=width > 0) * (point - box.low)
            - own
        )
        token, at, gap = branch._widest_chord(row, box, point)
        assert gap == pytest.approx(gaps.max(), abs=1e-12)
        assert token == np.argmax(gaps)
        assert box.low[token] + 0.05 * width[token] < at < box.high[token] - 0.05 * width[token]


def test_a_part_that_cannot_be_cut_keeps_its_bound(monkeypatch: pytest.MonkeyPatch):
    """With nothing to cut, the bound of a row is that of all attentions, which is above what is found."""
    monkeypatch.setattr(branch, "_cut", lambda *_: False)
    bounded_row: Any = getattr(branch.bounded_row, "py_func", branch.bounded_row)
    trace, above = tail_trace(8, (2, 4), 3, 6, 25), 0
    for number in range(len(trace)):
        row = row_of(trace, number)
        best, size, classes = np.empty(len(row.tokens)), len(row.tokens), len(row.kept)
        upper, whole = (
            bounded_row(row, best),
            Box(np.zeros(size), np.ones(size), np.zeros(classes), np.ones(classes)),
        )
        bound = bound_box(program(row, own_logits(row)), whole, np.empty(size))
        found = divergences(best[None], row.alpha)[0]
        assert upper == pytest.approx(max(bound, found), abs=1e-3)
        above += bound > found + 0.01
    assert above > 0
