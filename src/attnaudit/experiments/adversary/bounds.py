"""Bounds of the JSD that no attention within ε exceeds, for rows of several classes.

Programs bound the JSD in boxes of attentions, which are cut until the bound meets what was found.
Their solutions are proposed to the search.

An attention worth more than the target, which is just above what was found, has most of its weight
on tokens of little attention (`tail_limits`). So every entry x of the attended sum stays in an
interval, on which tanh lies between two planes, k x + m⁻ and k x + m⁺, with k the slope of its
chord. The logits are then linear in the attention, but for errors that the program may choose.
"""

from typing import NamedTuple

import numpy as np

from attnaudit.core.ragged import Ragged
from attnaudit.core.shapes import PerToken
from attnaudit.core.tolerance import TOLERANCE
from attnaudit.experiments.adversary.exact import gains
from attnaudit.experiments.adversary.program import LEAST, Box, Solution, Task, halves, solve
from attnaudit.experiments.adversary.state import CLASSES, GAP, Proposal, State
from attnaudit.experiments.through_tail import attended_sums, output_layer, two_classes
from attnaudit.stats.measures import LN2, activate
from attnaudit.trace import TanhTail

BOXES = 14  # programs per row; more would certify few more rows
OF_MANY = 4  # the same with more than `LIKELIEST` classes, where they cost most of an audit
HALVINGS = 30  # of the interval that holds a limit
LIKELIEST = 24  # classes of a program that count one by one
TARGET = 0.95 * GAP  # above what was found: less than the gap that is to be proven


class Part(NamedTuple):
    """A box of the attentions of a row, and what solves its program."""

    box: Box
    solution: Solution


def bound_by_programs(state: State) -> None:
    """Lower the bounds by programs that are refined box by box, and propose what solves them."""
    tanh = isinstance(state.outputs.readout.tail, TanhTail)
    targets = (state.value + TARGET).tolist()
    tasks = {row: task_of(state, row, targets[row]) for row in state.open_rows().tolist()}
    parts: dict[int, list[Part]] = {}
    many = state.outputs.own.shape[1] > LIKELIEST
    for _ in range(OF_MANY if many else BOXES):
        proposals: list[Proposal] = []
        for row in state.open_rows().tolist():
            task = tasks[row]
            if task is None:
                continue
            if row not in parts:
                parts[row], most = [], state.upper[row]
                boxes = [task.box(np.zeros_like(task.most), task.most)]
            else:
                parts[row].sort(key=lambda part: part.solution.bound)
                box, solution = parts[row][-1]
                boxes, most = halves(box, solution), solution.bound
                if not boxes:  # nothing is left to refine
                    tasks[row] = None
                    continue
                parts[row].pop()
            for box in boxes:
                if tanh and len(boxes) > 1:
                    task = task_of(state, row, targets[row], box) or task
                solution = solve(task, box)
                parts[row].append(Part(box, solution._replace(bound=min(solution.bound, most))))
                weights = solution.weights
                if weights is not None and solution.bound > state.value[row]:
                    proposals.append(Proposal(row, np.arange(len(weights)), weights, task, box))
            bound = max(part.solution.bound for part in parts[row])
            # Limits of the task hold only for attentions worth more than its target.
            state.upper[row] = min(state.upper[row], max(bound, targets[row]))
        # Behind tanh the scores are not exact, so a smaller ε gains little.
        state.propose(proposals if tanh else proposals + _aimed(state, proposals))
        state.upper = np.maximum(state.upper, state.value)


def _aimed(state: State, proposals: list[Proposal]) -> list[Proposal]:
    """Solve again, with a smaller ε, each program whose solution exceeds ε."""
    if not proposals:
        return []
    rows = np.array([one.row for one in proposals])
    attention = Ragged.from_rows([one.weights for one in proposals])
    sums = attended_sums(state.outputs.readout, rows, attention)
    distance = state.outputs.under_sums(rows, sums.__getitem__, state.outputs.distance)
    aimed = []
    for at in np.flatnonzero(distance > state.limit).tolist():
        one = proposals[at]
        task = one.task._replace(epsilon=one.task.epsilon * state.limit / distance[at])
        weights = solve(task, one.box).weights
        if weights is not None:
            aimed.append(one._replace(weights=weights))
    return aimed


def task_of(state: State, row: int, target: float, box: Box | None = None) -> Task | None:
    """Return a row's task for its allowed classes; None if they are too many behind tanh.

    Args:
        state: The rows.
        row: Number of the row.
        target: JSD that attention must reach.
        box: Limits of the weights, within which tanh is closer to its planes.
    """
    readout, alpha = state.outputs.readout, state.alpha[row]
    own = two_classes(state.outputs.own[row : row + 1])[0]
    allowed = np.ones(len(own), bool) if readout.candidates is None else readout.candidates[row]
    single, most = readout.contribution[row] + readout.offset[row], tail_limits(alpha, target)
    if not isinstance(readout.tail, TanhTail):
        logits = readout.tail(single, np.full(len(single), row))
        if readout.activation == "sigmoid":
            logits = np.hstack([np.zeros_like(logits), logits])
        own, logits = own[allowed], logits[:, allowed]
        task = Task.from_scores(alpha, own, logits, state.epsilon)
        task = task._replace(scores=logits - np.log(task.own), most=most)
        if len(own) <= LIKELIEST:
            return task
        # Those that are likeliest, under the model's own attention or under one token, and a rest
        # that may change as it likes: so the bound holds for all classes.
        likely = np.maximum(own, activate(logits, "softmax").max(axis=0))
        chosen = np.argsort(-likely, kind="stable")[:LIKELIEST]
        # More than the log-odds of any class may change.
        free = 2.0 * np.abs(task.scores).max() + 100.0
        return task._replace(
            own=np.append(task.own[chosen], max(1.0 - own[chosen].sum(), LEAST)),
            scores=np.pad(task.scores[:, chosen], ((0, 0), (0, 1))),
            errors=np.append(np.zeros(LIKELIEST), free)[None],
        )
    if allowed.sum() > CLASSES:
        return None
    weight, bias = output_layer(readout.tail, readout.activation)
    # Tokens in order of attention: weight may move from any to those before it.
    order = np.argsort(alpha, kind="stable")
    moved = most[order] - np.append(most[order][1:], 0.0)
    start, end = (moved @ of.accumulate(single[order], axis=0) for of in (np.minimum, np.maximum))
    if box is not None:
        # Weight above the lower limits goes to tokens with room for more.
        low, high = box.low[: len(alpha)], box.high[: len(alpha)]
        fixed, rest = low @ single, max(1.0 - low.sum(), 0.0)
        movable = single[high > low] if (high > low).any() else single
        start = np.maximum(start, fixed + rest * movable.min(axis=0))
        end = np.minimum(end, fixed + rest * movable.max(axis=0))
    slack = TOLERANCE.rounding * (1.0 + np.abs(start) + np.abs(end))
    slope, below, above = planes(start - slack, np.maximum(start, end) + slack)
    logits = (single * slope + 0.5 * (below + above)) @ weight.T + bias
    task = Task.from_scores(alpha, own[allowed], logits[:, allowed], state.epsilon)
    errors = (0.5 * (above - below) * weight[allowed]).T
    return task._replace(scores=task.scores - np.log(task.own), most=most, errors=errors)


def tail_limits(alpha: PerToken, target: float) -> PerToken:
    """Return how much weight each token and those of more attention can have together.

    A part of an attention is worth at most what its token of least attention is, since f is convex
    with f(0) = 0. The sum of both parts is convex in the share of the second.

    Args:
        alpha: The model's own attention.
        target: JSD that the attention is to reach.
    """
    order = np.argsort(alpha, kind="stable")
    old, first = alpha[order], np.full(len(alpha), alpha[order[0]])

    def reaches(share):
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
        values.append(np.where((x > start) & (x < end), np.tanh(x) - slope * x, values[0]))
    return (
        slope,
        np.min(values, axis=0) - TOLERANCE.rounding,
        np.max(values, axis=0) + TOLERANCE.rounding,
    )
