"""More than two classes, or a tail: what is found is allowed, and nothing beats the bound."""

from typing import Any

import numpy as np
import pytest

from attnaudit.core.ragged import Ragged
from attnaudit.experiments.adversary.exact import unconstrained_bound
from attnaudit.experiments.adversary.experiment import Adversary
from attnaudit.trace import TanhTail
from tests.experiments.test_adversary_exact import check_is_allowed
from tests.oracles.adversary_several import grid_adversary, sampled_adversary, searched_adversary
from tests.oracles.relaxed_adversary import searched_jsd
from tests.traces import make_trace, trace_of


def tail_trace(n, lengths, outputs, hidden, seed, kind: Any = TanhTail):
    """A trace with a tanh tail that is neither flat nor saturated, or with a linear one."""
    rng = np.random.default_rng([seed, n, outputs, hidden])
    alpha = [rng.dirichlet(np.full(rng.integers(*lengths, endpoint=True), 0.7)) for _ in range(n)]
    contribution = rng.normal(0, 1, (sum(map(len, alpha)), hidden))
    tail = kind(rng.normal(0, 4 / hidden**0.5, (outputs, hidden)), rng.normal(0, 0.1, outputs))
    return trace_of(alpha, contribution, rng.normal(0, 0.3, (n, hidden)), tail)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_words_that_come_again_are_no_trouble(seed):
    """Moving weight between two of them changes nothing, so that no line between them has an end; the least attended takes all."""
    rng = np.random.default_rng(seed)
    vocabulary, score = rng.normal(0, 1, (5, 6)), rng.normal(0, 2, 5)
    words = Ragged.from_rows([rng.integers(0, 5, rng.integers(8, 40)) for _ in range(12)])
    uneven = 0.3 * rng.normal(size=len(words.values))
    mass = words.with_values(np.exp(score[words.values] + uneven))
    alpha = words.with_values(mass.values / words.spread(mass.sum()))
    tail = TanhTail(rng.normal(0, 4 / 6**0.5, (4, 6)), np.zeros(4))
    trace = trace_of(alpha, vocabulary[words.values], tail=tail)
    table = Adversary(epsilon=0.05)(trace)
    check_is_allowed(trace, table, 0.05)
    assert (table["emax_jsd"].to_numpy() >= searched_jsd(trace, 0.05, steps=100) - 1e-9).all()
    for row, attention in enumerate(trace.alpha):
        used = np.flatnonzero(np.array(table["alpha"][row]) > 0)
        assert len(set(words[row][used])) == len(used), row
        for place in used:
            assert attention[place] <= attention[words[row] == words[row][place]].min()


def traces(seed):
    return {
        "three classes": make_trace(12, (1, 6), 3, seed=seed, sharpness=1.0),
        "five classes": make_trace(12, (2, 6), 5, seed=seed, sharpness=1.0),
        "answers left out": make_trace(12, (2, 6), 4, seed=seed, candidates=True),
        "exact zeros": make_trace(12, (2, 6), 3, seed=seed, zeros=0.4),
        "tail, one sigmoid": tail_trace(8, (2, 5), 1, 6, seed),
        "tail, three classes": tail_trace(8, (2, 5), 3, 8, seed),
        "tail as made elsewhere": make_trace(8, (1, 5), 3, seed=seed, hidden=5),
    }


@pytest.mark.slow
@pytest.mark.parametrize("kind", traces(0))
@pytest.mark.parametrize(("epsilon", "first"), [(0.01, 0), (0.1, 1)])
def test_no_search_beats_the_bound_nor_finds_more(kind, epsilon, first):
    """Every second row is searched within one ε, the others within the other; the gradient search knows all."""
    trace = traces(1)[kind]
    table, relaxed = Adversary(epsilon=epsilon)(trace), searched_jsd(trace, epsilon)
    check_is_allowed(trace, table, epsilon)
    # What is certified may be so far from the maximum; behind a tail either search may end at another local one.
    below = (table["emax_jsd"].to_numpy() < relaxed - 1e-3).sum()
    assert below <= kind.startswith("tail")
    single = trace.alpha.lengths == 1
    assert (table.filter(single)["emax_jsd_upper"] == 0).all()
    for row in range(first, len(trace), 2):
        size = min(3, len(trace.alpha[row]))
        searched = searched_adversary(trace, row, epsilon, size=size, starts=1)
        reached = max(searched, sampled_adversary(trace, row, epsilon, samples=300))
        assert reached <= table["emax_jsd_upper"][row] + 1e-9, row
        # As far as what is certified may be from the maximum.
        assert reached <= table["emax_jsd"][row] + 1e-3, row


@pytest.mark.parametrize("kind", ["three classes", "tail, three classes"])
@pytest.mark.parametrize("seed", [0, *(pytest.param(k, marks=pytest.mark.slow) for k in (1, 2))])
def test_no_point_of_a_fine_grid_beats_the_bound(kind, seed):
    trace = traces(seed + 10)[kind].take(np.arange(5))
    table = Adversary(epsilon=0.05)(trace)
    for row in range(len(trace)):
        assert grid_adversary(trace, row, 0.05, parts=24) <= table["emax_jsd_upper"][row] + 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("outputs", [3, 5])
def test_longer_rows_stay_above_the_relaxed_search(outputs):
    for trace in (
        make_trace(25, (8, 40), outputs, seed=4),
        tail_trace(15, (8, 25), outputs, 20, 4),
    ):
        table, theirs = Adversary()(trace), searched_jsd(trace)
        ours = table["emax_jsd"].to_numpy()
        # Behind a tanh tail either search may end at another local maximum.
        below = (ours < theirs - 1e-9).sum()
        assert below <= (1 if trace.metadata["tail"] == "tanh_mlp" else 0)
        assert ours.mean() > theirs.mean() + 0.05
        assert (table["emax_jsd_upper"].to_numpy() >= theirs - 1e-12).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lengths", "outputs", "hidden", "seed", "row", "epsilon"),
    [((2, 8), 3, 8, 4, 2, 0.01), ((8, 20), 4, 6, 2, 7, 0.05)],
    ids=["slopes instead of single tokens", "weights are at most 1"],
)
def test_climbs_come_as_far_as_a_general_optimiser(lengths, outputs, hidden, seed, row, epsilon):
    """Rows in which only the programs of climbs come so far."""
    trace = tail_trace(8, lengths, outputs, hidden, seed).take(np.array([row]))
    reached = searched_adversary(trace, 0, epsilon, size=3, starts=1)
    assert Adversary(epsilon=epsilon)(trace)["emax_jsd"].item() >= reached - 1e-3


def test_for_two_classes_it_comes_to_the_exact_maximum():
    """The same rows as a softmax over two classes, and over three of which the third is hopeless."""
    two = make_trace(30, (2, 12), 2, seed=5)
    contribution, offset = two.readout.contribution.values, two.readout.offset
    third = np.column_stack([contribution, np.zeros(len(contribution))])
    hopeless = np.column_stack([offset, np.full(len(two), -60.0)])
    exact = Adversary()(two)["emax_jsd"]
    ours = Adversary()(trace_of(two.ragged("alpha"), third, hopeless))
    assert ours["certified"].to_numpy().mean() > 0.9
    assert (ours["emax_jsd"] <= exact + 1e-6).all()
    assert (ours["emax_jsd_upper"] >= exact - 1e-6).all()


def test_a_row_with_a_single_answer_is_free():
    trace = make_trace(40, (1, 8), 4, seed=6, candidates=True)
    assert trace.candidates is not None
    free = trace.candidates.sum(axis=1) == 1
    assert free.any()
    table = Adversary()(trace).filter(free)
    bound = unconstrained_bound(trace.alpha)[free]
    np.testing.assert_allclose(table["emax_jsd"], bound, atol=1e-9)
    assert table["certified"].all()


@pytest.mark.parametrize("kind", ["three classes", "five classes", "tail, three classes"])
def test_the_order_of_tokens_does_not_matter_to_the_bounds(kind):
    trace, tail = traces(11)[kind], traces(11)[kind].readout.tail
    for row in range(4):
        contribution, offset = trace.readout.contribution[row], trace.readout.offset[row]
        turned = np.random.default_rng(row).permutation(len(contribution))
        first, second = (
            Adversary()(trace_of([trace.alpha[row][order]], contribution[order], offset, tail))
            for order in (np.arange(len(contribution)), turned)
        )
        for one, other in ((first, second), (second, first)):
            assert one["emax_jsd"].item() <= other["emax_jsd_upper"].item() + 1e-6
        if first["certified"].item() and second["certified"].item():
            assert first["emax_jsd"].item() == pytest.approx(second["emax_jsd"].item(), abs=1e-3)


@pytest.mark.slow
def test_half_of_random_rows_are_certified():
    table = Adversary()(make_trace(60, (2, 25), 4, seed=12))
    assert table["certified"].to_numpy().mean() > 0.45
    assert (table["emax_jsd_upper"] - table["emax_jsd"]).median() <= 2e-3  # type: ignore[operator]


@pytest.mark.parametrize("outputs", [1, 2])
def test_for_two_classes_no_search_finds_more(outputs):
    trace = make_trace(15, (1, 12), outputs, seed=6)
    searched = searched_jsd(trace, steps=100)
    assert (Adversary()(trace)["emax_jsd"].to_numpy() >= searched - 1e-9).all()
    assert searched.max() > 0.3
