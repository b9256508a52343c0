"""Bounds of the adversary beyond two classes: no attention that is allowed exceeds them."""

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.special import logit

from attnaudit.experiments.adversary import bounds
from attnaudit.experiments.adversary.bounds import planes, tail_limits
from attnaudit.experiments.adversary.exact import gains
from attnaudit.experiments.adversary.experiment import Adversary
from attnaudit.experiments.adversary.program import Task, best_weights, halves, solve
from attnaudit.experiments.adversary.state import State
from attnaudit.experiments.through_tail import Outputs
from attnaudit.stats.measures import LN2
from attnaudit.trace import LinearTail
from tests.experiments.test_adversary_several import tail_trace
from tests.oracles.adversary_several import enumerated_adversary
from tests.traces import make_trace

EPSILON = 0.05


def task_of_row(row, classes=4, size=5):
    """A random row behind an identity tail."""
    rng = np.random.default_rng([row, classes])
    alpha, own = rng.dirichlet(np.ones(size)), rng.dirichlet(np.full(classes, 0.5))
    scores = rng.normal(size=(size, classes))
    return Task.from_scores(alpha, own, scores - alpha @ scores, EPSILON)


def any_weights(task):
    """The box of all attentions."""
    return task.box(np.zeros_like(task.alpha), np.ones_like(task.alpha))


def allowed(task, samples):
    """Random attentions within ε: mixtures with the model's own, which is."""
    rng = np.random.default_rng(samples)
    points = rng.dirichlet(np.full(len(task.alpha), 0.3), samples)
    share = rng.random((samples, 1)) ** 2
    points = share * points + (1.0 - share) * task.alpha
    p = task.own * np.exp(points @ task.scores)
    p /= p.sum(axis=1, keepdims=True)
    return points[0.5 * np.abs(p - task.own).sum(axis=1) <= EPSILON]


@pytest.mark.parametrize("row", range(6))
def test_no_allowed_attention_exceeds_the_bound_of_its_box(row):
    task = task_of_row(row)
    points = allowed(task, 4000)
    assert len(points) > 50
    worth = 0.5 * LN2 + gains(points, task.alpha).sum(axis=1)
    p = task.own * np.exp(points @ task.scores)
    values = np.hstack([points, p / p.sum(axis=1, keepdims=True) - task.own])
    boxes = [any_weights(task)]
    rng = np.random.default_rng(row)
    for _ in range(12):
        solutions = [solve(task, box) for box in boxes]
        upper = np.array([solution.bound for solution in solutions])
        inside = [((box.low <= values) & (values <= box.high)).all(axis=1) for box in boxes]
        assert (worth <= np.where(np.transpose(inside), upper, -np.inf).max(axis=1) + 1e-9).all()
        worst = int(upper.argmax())
        # Wherever it is cut, in a weight or in a change.
        anywhere = rng.random(values.shape[1])
        boxes += halves(boxes.pop(worst), solutions[worst]._replace(errors=anywhere))


@pytest.mark.parametrize("row", range(6))
def test_the_bound_of_a_box_is_the_program_at_its_solution(row):
    """Strong duality: the bound is the sum of the chords at the attention that the program finds."""
    task = task_of_row(row)
    boxes = [any_weights(task)]
    for _ in range(6):
        box = boxes.pop(0)
        solution = solve(task, box)
        if solution.weights is None:
            continue
        low, high = box.low[: len(task.alpha)], box.high[: len(task.alpha)]
        share = (solution.weights - low) / np.maximum(high - low, 1e-12)
        chords = (1.0 - share) * gains(low, task.alpha) + share * gains(high, task.alpha)
        assert solution.bound == pytest.approx(0.5 * LN2 + chords.sum(), abs=1e-7)
        assert (solution.errors >= -1e-9).all()
        boxes += halves(box, solution)


@pytest.mark.parametrize("row", range(30))
def test_the_program_of_two_classes_is_solved_without_a_solver(row):
    rng = np.random.default_rng(row)
    task, size = task_of_row(row, 2, 8), rng.choice([1.0, 0.3, 0.05])
    low, high = np.maximum(task.alpha - size, 0.0), np.minimum(task.alpha + size, 1.0)
    found = best_weights(task, task.box(low, high))
    assert found is not None
    worth = (gains(high, task.alpha) - gains(low, task.alpha)) / (high - low)
    odds = task.scores[:, 1] - task.scores[:, 0]
    least, most = logit(np.clip(task.own[1] + [-EPSILON, EPSILON], 0.0, 1.0)) - logit(task.own[1])
    of_odds = {"A_ub": [odds, -odds], "b_ub": [min(most, 1e9), min(-least, 1e9)]}
    best = linprog(
        -worth, **of_odds, A_eq=[np.ones(8)], b_eq=[1.0], bounds=[*zip(low, high, strict=True)]
    )
    assert found @ worth == pytest.approx(-best.fun, abs=1e-6)
    assert least - 1e-9 <= found @ odds <= most + 1e-9
    assert found.sum() == pytest.approx(1.0)
    assert (found >= low - 1e-12).all()
    assert (found <= high + 1e-12).all()
    too_small = task.box(0.5 * low, 0.5 * low)
    assert best_weights(task, too_small) is None


@pytest.mark.parametrize("row", range(3))
def test_cutting_boxes_comes_to_the_furthest_attention_that_is_allowed(row):
    """Then the bound is its divergence, and the changes are those of its output."""
    task = task_of_row(row, 3, 3)
    box = any_weights(task)
    parts = [(box, solve(task, box))]
    while cut := halves(*parts[-1]):
        parts = [*parts[:-1], *((half, solve(task, half)) for half in cut)]
        parts.sort(key=lambda part: part[1].bound)
        assert len(parts) < 100
    best = parts[-1][1]
    assert best.weights is not None
    p = task.own * np.exp(best.weights @ task.scores)
    change = p / p.sum() - task.own
    worth = 0.5 * LN2 + gains(best.weights, task.alpha).sum()
    assert best.bound == pytest.approx(worth, abs=1e-5)
    assert 0.5 * np.abs(change).sum() <= EPSILON + 5e-3
    np.testing.assert_allclose(best.points[3:], change, atol=5e-3)


def test_a_class_that_is_read_by_itself_is_in_no_rest(monkeypatch):
    trace, tables = make_trace(8, (3, 6), 4, seed=4), []
    for classes in (4, 5):
        monkeypatch.setattr(bounds, "LIKELIEST", classes)
        tables.append(Adversary(epsilon=EPSILON)(trace))
    assert tables[0].equals(tables[1])


@pytest.mark.parametrize(
    "trace",
    [
        make_trace(5, (2, 3), 3, seed=4),
        tail_trace(5, (2, 3), 3, 6, 4),
        tail_trace(5, (2, 3), 1, 4, 4, LinearTail),
        make_trace(5, (2, 3), 9, seed=4),
        tail_trace(5, (2, 3), 9, 4, 4, LinearTail),
    ],
    ids=["identity", "tanh", "linear-sigmoid", "identity-many", "linear-many"],
)
def test_no_attention_of_a_short_row_exceeds_its_bound(trace, monkeypatch):
    """Against a fine grid of three tokens; of nine classes four are read one by one."""
    monkeypatch.setattr(bounds, "LIKELIEST", 4)
    table = Adversary(epsilon=EPSILON)(trace)
    for row in range(len(trace)):
        best = enumerated_adversary(trace, row, EPSILON)
        assert best <= table["emax_jsd_upper"][row] + 1e-9
        # A program of some classes proposes attentions that are less close to the furthest.
        near = 2e-3 if trace.prediction.shape[1] <= 4 else 1e-2
        assert table["emax_jsd"][row] == pytest.approx(best, abs=near)


def test_tanh_lies_between_its_planes():
    rng = np.random.default_rng(2)
    start = rng.normal(0, 3, 300)
    end = start + rng.exponential(rng.choice([1e-8, 0.1, 3.0], 300))
    slope, low, high = planes(start, end)
    x = np.linspace(start, end, 200)
    rest = np.tanh(x) - slope * x
    assert (rest >= low).all()
    assert (rest <= high).all()
    assert (rest.min(axis=0) <= low + 1e-2).all()
    assert (rest.max(axis=0) >= high - 1e-2).all()
    # A chord and a tangent are right to first order, so planes of a short interval nearly meet.
    assert (high - low <= 0.1 * (end - start) ** 2 + 1e-10).all()


@pytest.mark.parametrize("hidden", [1, 5])
def test_logits_behind_tanh_are_linear_up_to_the_errors(hidden):
    """With one hidden unit the errors are reached by the tokens at both ends."""
    trace = tail_trace(4, (4, 7), 3, hidden, 3)
    state, rng = State(Outputs.of(trace.readout, trace.alpha), EPSILON), np.random.default_rng(1)
    for row, alpha in enumerate(trace.alpha):
        own, size = trace.readout(trace.alpha)[row], len(alpha)
        task = bounds.task_of(state, row, 0.0)
        assert task is not None
        points = np.vstack([np.eye(size), rng.dirichlet(np.full(size, 0.5), 300)])
        sums = points @ trace.readout.contribution[row]
        ratio = np.log(trace.readout.of_sums(sums, np.full(len(points), row)) / own)
        missing = ratio - points @ task.scores
        # Logits are known up to a constant for all classes: their differences are compared.
        gap = np.abs(missing[:, 1:] - missing[:, :1])
        most = np.abs(task.errors[:, 1:] - task.errors[:, :1]).sum(axis=0)
        assert (gap <= most + 1e-6).all()
        if hidden == 1:
            assert gap.max(axis=0) == pytest.approx(most, rel=1e-3, abs=1e-6)


@pytest.mark.parametrize("row", range(8))
def test_attentions_worth_their_target_keep_the_limits_of_weight(row):
    rng = np.random.default_rng(row)
    alpha = rng.dirichlet(np.full(6, 0.4))
    points = rng.dirichlet(np.full(6, 0.2), 3000)
    worth = 0.5 * LN2 + gains(points, np.tile(alpha, (3000, 1))).sum(axis=1)
    for target in np.quantile(worth, [0.2, 0.5, 0.9, 0.99]):
        most = tail_limits(alpha, target)
        weight = (points[:, None] * (alpha >= alpha[:, None])).sum(axis=2)
        assert (weight[worth >= target] <= most + 1e-9).all()
