"""More than two classes, or a tail: what is found is allowed, and nothing beats the bound."""

from __future__ import annotations

import numpy as np
import pytest

from attnaudit.core.ragged import Ragged
from attnaudit.experiments.adversary.exact import unconstrained_bound
from attnaudit.experiments.adversary.experiment import Adversary, divergence
from attnaudit.trace import Trace
from attnaudit.trace.tails import TanhTail
from tests.experiments.test_adversary_exact import check_is_allowed
from tests.oracles.adversary_several import grid_adversary, sampled_adversary, searched_adversary
from tests.threads import two_threads
from tests.traces import make_trace


def tail_trace(n: int, lengths: tuple[int, int], outputs: int, hidden: int, seed: int) -> Trace:
    """A trace with a tanh tail that is neither flat nor saturated."""
    rng = np.random.default_rng([seed, n, outputs, hidden])
    alpha = Ragged.from_rows(
        [rng.dirichlet(np.full(rng.integers(lengths[0], lengths[1] + 1), 0.7)) for _ in range(n)],
        np.float32,
    )
    contribution = alpha.with_values(
        rng.normal(0, 1, (len(alpha.values), hidden)).astype(np.float32)
    )
    tail = TanhTail(rng.normal(0, 4 / hidden**0.5, (outputs, hidden)), rng.normal(0, 0.1, outputs))
    offset = rng.normal(0, 0.3, (n, hidden)).astype(np.float32)
    total = alpha.with_values(alpha.values.astype(np.float64)).sum()
    weights = alpha.values / alpha.spread(total)
    weighted = contribution.with_values(weights[:, None] * contribution.values.astype(np.float64))
    logits = tail(offset + weighted.sum(), np.arange(n))
    raised = np.exp(logits - logits.max(axis=1, keepdims=True))
    return Trace.from_arrays(
        activation="sigmoid" if outputs == 1 else "softmax", class_names=[f"class {c}" for c in range(max(outputs, 2))], tail=tail,
        instance=np.arange(n), tokens=[[f"w{t}" for t in range(length)] for length in alpha.lengths], alpha=alpha, readout=contribution,
        offset=offset,
        prediction=(1 / (1 + np.exp(-logits)) if outputs == 1 else raised / raised.sum(axis=1, keepdims=True)).astype(np.float32),
    )  # fmt: skip


def repeated(words: int, hidden: int, seed: int) -> Trace:
    """Rows in which a few words come again and again, each with one readout and one attention, as an average encoder leaves them."""
    rng = np.random.default_rng(seed)
    vocabulary, score = rng.normal(0, 1, (words, hidden)), rng.normal(0, 2, words)
    drawn = Ragged.from_rows([rng.integers(0, words, rng.integers(8, 40)) for _ in range(25)])
    mass = drawn.with_values(np.exp(score[drawn.values]))
    alpha = drawn.with_values(mass.values / drawn.spread(mass.sum()))
    contribution = drawn.with_values(vocabulary[drawn.values])
    tail = TanhTail(rng.normal(0, 4 / hidden**0.5, (4, hidden)), np.zeros(4))
    weighted = contribution.with_values(alpha.values[:, None] * contribution.values)
    logits = tail(weighted.sum(), np.arange(len(alpha)))
    raised = np.exp(logits - logits.max(axis=1, keepdims=True))
    return Trace.from_arrays(
        activation="softmax", class_names=list("abcd"), tail=tail, instance=np.arange(len(drawn)),
        tokens=[list(map(str, row)) for row in drawn], alpha=alpha, readout=contribution,
        offset=np.zeros((len(drawn), hidden)), prediction=raised / raised.sum(axis=1, keepdims=True),
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
def test_words_that_come_again_are_no_trouble(seed: int):
    """Moving weight between two of them changes nothing, so that no line between them has an end."""
    trace = repeated(5, 6, seed)
    table, searched = (
        Adversary(epsilon=0.05)(trace),
        Adversary(epsilon=0.05, method="relaxed")(trace),
    )
    assert (table["delta_y"] <= 0.05 + 1e-9).all()
    assert (table["emax_jsd_upper"] >= np.maximum(table["emax_jsd"], searched["emax_jsd"])).all()
    assert (table["emax_jsd"] >= searched["emax_jsd"] - 1e-9).all()


def test_of_equal_readouts_the_one_of_least_attention_takes_the_weight():
    trace = repeated(4, 6, 1)
    table = Adversary(epsilon=0.05)(trace)
    for row in range(len(trace)):
        words, attention, found = (
            np.array(trace.tokens(row)),
            trace.alpha[row],
            np.array(table["alpha"][row]),
        )
        for word in set(words):
            places = np.flatnonzero(words == word)
            used = places[found[places] > 0]
            assert len(used) <= 1, row
            assert (attention[used] <= attention[places].min()).all()


def traces(seed: int) -> dict[str, Trace]:
    return {
        "three classes": make_trace(12, (1, 6), 3, seed=seed, sharpness=1.0),
        "five classes": make_trace(12, (2, 6), 5, seed=seed, sharpness=1.0),
        "answers left out": make_trace(12, (2, 6), 4, seed=seed, candidates=True),
        "exact zeros": make_trace(12, (2, 6), 3, seed=seed, zeros=0.4),
        "tail, one sigmoid": tail_trace(8, (2, 5), 1, 6, seed),
        "tail, three classes": tail_trace(8, (2, 5), 3, 8, seed),
        "tail as made elsewhere": make_trace(8, (1, 5), 3, seed=seed, hidden=5),
    }


KINDS = list(traces(0))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("epsilon", "first"), [(0.01, 0), (0.1, 1)])
def test_no_search_beats_the_bound_nor_finds_more(kind: str, epsilon: float, first: int):
    """Every second row is searched within one ε, the others within the other."""
    trace = traces(1)[kind]
    table = Adversary(epsilon=epsilon)(trace)
    check_is_allowed(trace, table, epsilon)
    for row in range(first, len(trace), 2):
        searched = searched_adversary(
            trace, row, epsilon, size=min(3, len(trace.alpha[row])), starts=1
        )
        reached = max(searched, sampled_adversary(trace, row, epsilon, samples=300))
        assert reached <= table["emax_jsd_upper"][row] + 1e-9, f"row {row}"
        assert reached <= table["emax_jsd"][row] + 1e-3, (
            f"row {row}"
        )  # as far as what is certified may be from the maximum


@pytest.mark.parametrize("kind", ["three classes", "tail, three classes"])
@pytest.mark.parametrize("seed", range(3))
def test_no_point_of_a_fine_grid_beats_the_bound(kind: str, seed: int):
    trace = traces(seed + 10)[kind].take(np.arange(5))
    table = Adversary(epsilon=0.05)(trace)
    for row in range(len(trace)):
        assert grid_adversary(trace, row, 0.05, parts=24) <= table["emax_jsd_upper"][row] + 1e-12


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_never_below_the_relaxed_search(kind: str):
    trace = traces(3)[kind]
    ours, theirs = Adversary(epsilon=0.05)(trace), Adversary(epsilon=0.05, method="relaxed")(trace)
    check_is_allowed(trace, theirs, 0.05)
    assert (ours["emax_jsd"] >= theirs["emax_jsd"] - 1e-9).all()
    assert (ours["emax_jsd_upper"] >= theirs["emax_jsd"] - 1e-12).all()


@pytest.mark.parametrize("outputs", [3, 5])
def test_longer_rows_stay_above_the_relaxed_search(outputs: int):
    for trace in (
        make_trace(25, (8, 40), outputs, seed=4),
        tail_trace(15, (8, 25), outputs, 20, 4),
    ):
        ours, theirs = Adversary()(trace), Adversary(method="relaxed")(trace)
        # Behind a tanh tail either search may end at another local maximum.
        below = (ours["emax_jsd"] < theirs["emax_jsd"] - 1e-9).sum()
        assert below <= (1 if trace.metadata["tail"] == "tanh_mlp" else 0)
        assert ours["emax_jsd"].to_numpy().mean() > theirs["emax_jsd"].to_numpy().mean() + 0.05
        assert (ours["emax_jsd_upper"] >= theirs["emax_jsd"] - 1e-12).all()


def test_for_two_classes_it_comes_to_the_exact_maximum():
    """The same rows as a softmax over two classes, and over three of which the third is hopeless."""
    two = make_trace(30, (2, 12), 2, seed=5)
    added = two.readout.contribution.with_values(
        np.hstack([two.readout.contribution.values, np.zeros((len(two.alpha.values), 1))])
    )
    offset = np.hstack([two.readout.offset, np.full((len(two), 1), -60.0)])
    prediction = np.hstack([two.readout(two.alpha), np.zeros((len(two), 1))])
    three = Trace.from_arrays(
        activation="softmax", class_names=["a", "b", "c"], instance=np.arange(len(two)),
        tokens=[two.tokens(row) for row in range(len(two))], alpha=two.alpha,
        offset=offset, readout=added, prediction=prediction,
    )  # fmt: skip
    exact, ours = Adversary()(two), Adversary()(three)
    assert ours["certified"].to_numpy().mean() > 0.9
    assert (ours["emax_jsd"] <= exact["emax_jsd"] + 1e-6).all()
    assert (ours["emax_jsd_upper"] >= exact["emax_jsd"] - 1e-6).all()


def test_a_row_with_a_single_answer_is_free():
    trace = make_trace(40, (1, 8), 4, seed=6, candidates=True)
    assert trace.candidates is not None
    free = trace.candidates.sum(axis=1) == 1
    assert free.any()
    table = Adversary()(trace)
    np.testing.assert_allclose(
        table["emax_jsd"].to_numpy()[free], unconstrained_bound(trace.alpha)[free], atol=1e-9
    )
    assert table["certified"].to_numpy()[free].all()


@pytest.mark.parametrize("kind", ["five classes", "tail, three classes"])
def test_one_token_has_no_adversary(kind: str):
    trace = traces(7)[kind]
    single = trace.take(np.zeros(1, np.int64))
    if len(single.alpha.values) > 1:
        single = (
            make_trace(1, (1, 1), 5) if kind == "five classes" else tail_trace(1, (1, 1), 3, 8, 0)
        )
    table = Adversary()(single)
    assert (
        table["emax_jsd"].item() == table["emax_jsd_upper"].item() == table["delta_y"].item() == 0
    )
    assert table["certified"].item()


@pytest.mark.parametrize("kind", KINDS)
def test_rows_do_not_depend_on_their_company(kind: str):
    trace = traces(8)[kind]
    whole, backwards = (
        Adversary()(trace),
        Adversary()(trace.take(np.arange(len(trace))[::-1].copy())),
    )
    assert whole["emax_jsd"].to_list() == backwards["emax_jsd"].to_list()[::-1]
    assert whole["emax_jsd_upper"].to_list() == backwards["emax_jsd_upper"].to_list()[::-1]
    alone = Adversary()(trace.take(np.array([3])))
    assert alone["alpha"].item().to_list() == whole["alpha"][3].to_list()


def test_threads_change_nothing():
    trace = tail_trace(12, (4, 12), 3, 8, 9)
    alone = Adversary()(trace)
    with two_threads():
        assert Adversary()(trace).equals(alone)


def permuted(trace: Trace, order: np.ndarray) -> Trace:
    """One row with its tokens in another order."""
    return Trace.from_arrays(
        activation="softmax", class_names=trace.class_names, instance=np.zeros(1, np.int64), tail=trace.tail,
        tokens=[[trace.tokens(0)[t] for t in order]], alpha=Ragged.from_rows([trace.alpha[0][order]]), offset=trace.readout.offset,
        readout=Ragged.from_rows([trace.readout.contribution[0][order]]), prediction=trace.readout(trace.alpha),
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["three classes", "five classes", "tail, three classes"])
def test_the_order_of_tokens_does_not_matter_to_the_bounds(kind: str):
    trace = traces(11)[kind]
    for row in range(4):
        one = trace.take(np.array([row]))
        first, second = (
            Adversary()(one),
            Adversary()(
                permuted(one, np.random.default_rng(row).permutation(len(one.alpha.values)))
            ),
        )
        assert first["emax_jsd"].item() <= second["emax_jsd_upper"].item() + 1e-6
        assert second["emax_jsd"].item() <= first["emax_jsd_upper"].item() + 1e-6
        if first["certified"].item() and second["certified"].item():
            assert first["emax_jsd"].item() == pytest.approx(second["emax_jsd"].item(), abs=1e-3)


def test_half_of_random_rows_are_certified():
    table = Adversary()(make_trace(60, (2, 25), 4, seed=12))
    gap = table["emax_jsd_upper"].to_numpy() - table["emax_jsd"].to_numpy()
    assert table["certified"].to_numpy().mean() > 0.45
    assert np.median(gap) <= 2e-3


def test_more_freedom_never_lowers_the_bound_below_what_less_found():
    for trace in (make_trace(25, (1, 15), 3, seed=13), tail_trace(10, (2, 8), 3, 8, 13)):
        reached, upper = np.zeros(len(trace)), []
        for epsilon in (0.0, 0.001, 0.01, 0.1, 0.5, 1.0):
            found = Adversary().bounded(trace, epsilon)
            assert (found.upper >= reached - 1e-9).all()
            reached = np.maximum(reached, divergence(found.attention, trace.alpha))
            upper.append(found.upper)
        np.testing.assert_allclose(upper[-1], unconstrained_bound(trace.alpha), atol=1e-9)
