"""Bounds of the JSD that no attention within ε exceeds, for rows of several classes.

Programs bound the JSD in boxes of attentions, which are cut until the bound meets what was found.
Their solutions are proposed to the search.

An attention worth more than the target, which is just above what was found, has most of its weight
on tokens of little attention (`tail_limits`). So every entry x of the attended sum stays in an
interval, on which tanh lies between two planes, k x + m⁻ and k x + m⁺, with k the slope of its
chord. The logits are then linear in the attention, but for errors that the program may choose.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from attnaudit.core.tolerance import TOLERANCE
from attnaudit.experiments.adversary.exact import gains
from attnaudit.experiments.adversary.program import LEAST, Box, Solution, Task, refine, solve
from attnaudit.experiments.adversary.state import CLASSES, GAP, State
from attnaudit.experiments.through_tail import two_classes
from attnaudit.stats.measures import LN2
from attnaudit.trace.tails import TanhTail

BOXES, TANH_BOXES = 14, 3  # programs of a row: further ones certify few rows more
FEW, COARSE = 24, 4  # classes whose programs have all tangents; others have every fourth
HALVINGS = 30  # of the interval that holds a limit
TARGET = 0.95 * GAP  # above what was found: less than the gap that is to be proven


def bound_by_programs(state: State) -> None:
    """Lower the bounds by programs that are refined box by box, and propose what solves them."""
    boxes: dict[int, list[tuple[Task, Box, Solution]]] = {}
    tanh = isinstance(state.outputs.readout.tail, TanhTail)
    targets = (state.value + TARGET).tolist()
    for _ in range(TANH_BOXES if tanh else BOXES):
        solved, tasks, refined = [], {}, False
        for row in state.open_rows().tolist():
            if row not in boxes:
                whole = _task(state, row, targets[row])
                if whole is None:
                    continue
                boxes[row], parts, most = [], [whole.box(0.0, whole.most)], state.upper[row]
            else:
                worst = max(range(len(boxes[row])), key=lambda k: boxes[row][k][2].bound)
                whole, box, solution = boxes[row].pop(worst)
                most = solution.bound
                parts = [] if solution.values is None else refine(whole, box, solution)
                if not parts:  # nothing is left to refine: the box stays, and ends the row
                    boxes[row].append((whole, box, solution))
            refined |= bool(parts)
            for box in parts:
                task = _linearised(state, row, whole, box) if tanh else whole
                solution = solve(task, box)
                solution = solution._replace(bound=min(solution.bound, most))
                boxes[row].append((task, box, solution))
                if solution.values is not None and solution.bound > state.value[row]:
                    solved.append((row, solution.values[: len(state.alpha[row])]))
                    tasks[row] = task
            bound = max(solution.bound for _, _, solution in boxes[row])
            # Limits of the task hold only for attentions worth more than its target.
            state.upper[row] = min(state.upper[row], max(bound, targets[row]))
        state.propose(tasks, solved)
        state.upper = np.maximum(state.upper, state.value)
        # Only a round that refines no row ends all: a row's rounds must not depend on the others.
        if not refined:
            break


def _task(state: State, row: int, target: float) -> Task | None:
    """Return the program's task of a row, of its allowed classes; None behind tanh if too many."""
    readout, alpha = state.outputs.readout, state.alpha[row]
    own = two_classes(state.outputs.own[row : row + 1])[0]
    allowed = np.ones(len(own), bool) if readout.candidates is None else readout.candidates[row]
    scores, own = np.zeros((len(alpha), allowed.sum())), np.maximum(own[allowed], LEAST)
    if not isinstance(readout.tail, TanhTail):
        scores = (readout.contribution[row] + readout.offset[row])[:, allowed] - np.log(own)
    elif len(own) > CLASSES:
        return None
    few = len(own) <= FEW and not isinstance(readout.tail, TanhTail)
    task = Task.from_scores(scores, own, alpha, state.epsilon, 1 if few else COARSE)
    return task._replace(most=tail_limits(alpha, target))


def tail_limits(alpha: Float[np.ndarray, " T"], target: float) -> Float[np.ndarray, " T"]:
    """Return how much weight each token and those of more attention can have together.

    A part of an attention is worth at most what its token of least attention is, since f is convex
    with f(0) = 0. The sum of both parts is convex in the share of the second.

    Args:
        alpha: The model's own attention.
        target: JSD that the attention is to reach.
    """
    order = np.argsort(alpha, kind="stable")
    old, first = alpha[order], np.full(len(alpha), alpha[order[0]])

    def reaches(share: Float[np.ndarray, " T"]) -> np.ndarray:
        return 0.5 * LN2 + gains(1.0 - share, first) + gains(share, old) >= target

    low, high = np.zeros(len(old)), np.ones(len(old))
    free = reaches(high)
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        enough = reaches(middle)
        low, high = np.where(enough, middle, low), np.where(enough, high, middle)
    most = np.where(free | (np.arange(len(old)) == 0), 1.0, high)
    limits = np.empty(len(old))
    limits[order] = np.minimum.accumulate(most)
    return limits


def _linearised(state: State, row: int, task: Task, box: Box) -> Task:
    """Return the task of a tanh tail with scores that are linear for attentions in a box."""
    readout, k = state.outputs.readout, len(task.alpha)
    assert isinstance(readout.tail, TanhTail)
    weight, bias = readout.tail.weight, readout.tail.bias
    if readout.activation == "sigmoid":  # one output stands for two classes
        weight, bias = np.vstack([0.0 * weight, weight]), np.append(0.0, bias)
    if readout.candidates is not None:
        weight, bias = weight[readout.candidates[row]], bias[readout.candidates[row]]
    contribution, offset = readout.contribution[row], readout.offset[row]
    low, high = box.low[:k], box.high[:k]
    # The box: what is above its lower limits goes to tokens that may have more.
    movable = contribution[high > low] if (high > low).any() else contribution
    fixed, rest = low @ contribution, max(1.0 - low.sum(), 0.0)
    # Tokens in order of attention: weight may move from any to those before it.
    order = np.argsort(task.alpha, kind="stable")
    moved = task.most[order] - np.append(task.most[order][1:], 0.0)
    ordered = contribution[order]
    start = np.maximum(
        fixed + rest * movable.min(axis=0), moved @ np.minimum.accumulate(ordered, axis=0)
    )
    end = np.minimum(
        fixed + rest * movable.max(axis=0), moved @ np.maximum.accumulate(ordered, axis=0)
    )
    slack = TOLERANCE.rounding * (1.0 + np.abs(start) + np.abs(end))
    slope, below, above = planes(start + offset - slack, np.maximum(start, end) + offset + slack)
    constant = bias + weight @ (slope * offset + 0.5 * (below + above)) - np.log(task.own)
    scores = (contribution * slope) @ weight.T + constant
    return task._replace(scores=scores, errors=(0.5 * (above - below) * weight).T)


def planes(start: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return k, m⁻ and m⁺ of the planes between which tanh lies from ``start`` to ``end``."""
    at_start, at_end = np.tanh(start), np.tanh(end)
    # On shorter intervals the difference is mostly rounding, and the slope is the derivative.
    width = end - start
    chord = (at_end - at_start) / np.maximum(width, 1e-6)
    slope = np.clip(np.where(width > 1e-6, chord, 1.0 - at_start**2), 0.0, 1.0)
    # tanh x − k x has its extremes at the ends, and where the derivative of tanh is k.
    turn = np.arctanh(np.sqrt(1.0 - slope) * (1.0 - 1e-15))
    values = [at_start - slope * start, at_end - slope * end]
    for x in (turn, -turn):
        within = (x > start) & (x < end)
        values.append(np.where(within, np.tanh(x) - slope * x, values[0]))
    return (
        slope,
        np.min(values, axis=0) - TOLERANCE.rounding,
        np.max(values, axis=0) + TOLERANCE.rounding,
    )
