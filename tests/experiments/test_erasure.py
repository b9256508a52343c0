import numpy as np
import polars as pl
import pytest

from attnaudit.experiments import audit
from attnaudit.experiments.erasure.curves import MINIMUM, flip_curves
from attnaudit.experiments.erasure.experiment import Erasure
from attnaudit.experiments.erasure.removal import RANKINGS
from attnaudit.experiments.rows import row_streams
from tests.oracles.erasure import (
    after_removal,
    decided,
    every_removal_minimum,
    exhaustive_minimum,
    flips,
    greedy_removal,
    naive_first_flip,
    output_jsd,
    weight_gradient,
)
from tests.oracles.random_orders import keyed_order
from tests.oracles.readout import naive_prediction
from tests.tails import opaque
from tests.traces import known, make_trace, trace_of

KINDS = {
    "sigmoid": {"outputs": 1}, "two": {"outputs": 2}, "several": {"outputs": 4}, "candidates": {"outputs": 4, "candidates": True},
    "tail": {"outputs": 3, "hidden": 5}, "tail, candidates": {"outputs": 4, "hidden": 6, "candidates": True},
    "sigmoid tail": {"outputs": 1, "hidden": 4}, "zeros": {"outputs": 1, "zeros": 0.4}, "zeros, several": {"outputs": 3, "zeros": 0.4},
}  # fmt: skip
REMOVED = pl.selectors.starts_with("removed_")
TAILS = [kind for kind, options in KINDS.items() if "hidden" in options]


def some_trace(kind, rows=40, lengths=(1, 9), seed=1):
    return make_trace(rows, lengths, seed=seed, **KINDS[kind])


def walks(trace, row):
    """The order of every ranking, and three random ones."""
    alpha, slope = trace.alpha[row], weight_gradient(trace, row)
    stream = int(row_streams(trace, 0, "erasure")[row])
    scores = {"attention": alpha, "gradient": slope, "gradient_attention": slope * alpha}
    found = {
        name: [np.argsort(-np.round(score, 12), kind="stable").tolist()]
        for name, score in scores.items()
    }
    return found | {"random": [keyed_order(len(alpha), stream, number) for number in range(3)]}


@pytest.mark.parametrize("kind", KINDS)
def test_every_ranking_is_walked_as_the_paper_says(kind):
    """Random orders are averaged over those that flip."""
    trace = some_trace(kind)
    table = Erasure(orders=3)(trace)
    for row in np.flatnonzero(trace.alpha.lengths > 1).tolist():
        length = len(trace.alpha[row])
        for name, each in walks(trace, row).items():
            first = [naive_first_flip(trace, row, order) for order in each]
            counts = [count for count in first if count is not None]
            share = np.mean(counts) / length if counts else None
            assert table[f"removed_{name}"][row] == known(share), (row, name)
            if counts and name != "random":
                mass = trace.alpha[row][each[0][: counts[0]]].sum()
                assert table[f"mass_{name}"][row] == pytest.approx(mass)


@pytest.mark.parametrize("kind", ["sigmoid", "several", "tail", "zeros", "zeros, several"])
def test_no_walk_is_excluded_from_the_area(kind):
    """What never flips counts as not flipped: the area is the mean over all rows and orders."""
    trace = some_trace(kind, lengths=(1, 12))
    result = audit(trace, ["erasure"], {"erasure": {"orders": 3}})["erasure"]
    table, summary = result.table, result.summary.filter(group="all")
    measures = dict(summary.select("measure", "value").iter_rows())
    flips = table.drop_nulls("flip_max").select("flip_max", "flip_random").to_numpy()
    parts = {"both": (1, 1), "only_max": (1, 0), "only_random": (0, 1), "neither": (0, 0)}
    for name, part in parts.items():
        assert measures[f"flip_{name}"] == pytest.approx((flips == part).all(axis=1).mean())
    shares = {}
    for row, length in enumerate(trace.alpha.lengths.tolist()):
        if length == 1:
            assert table["never_attention"][row] is None
            continue
        for name, each in walks(trace, row).items():
            flips = [naive_first_flip(trace, row, order) for order in each]
            if name == "random":
                known = np.nan_to_num(table["by_order"][row].to_numpy()) * length
                assert known == pytest.approx([flip or 0 for flip in flips])
            shares.setdefault(name, []).extend(0.0 if not k else 1.0 - k / length for k in flips)
    for name, each in shares.items():
        assert measures[f"never_{name}"] == pytest.approx(np.mean(np.array(each) == 0.0))
        assert measures[f"area_{name}"] == pytest.approx(np.mean(each), abs=1e-12)
    least, ours = (measures[f"area_{name}"] for name in (MINIMUM, "attention"))
    assert measures["area_minimum_minus_area_attention"] == pytest.approx(least - ours, abs=1e-12)


def test_the_band_of_a_curve_is_over_texts_of_all_splits():
    """Texts of two splits with one number are two, as if they had numbers of their own."""
    table = Erasure()(make_trace(60, (2, 9), 2))
    apart = table.with_columns(instance=pl.int_range(60) // 3)
    twice = table.with_columns(
        instance=pl.int_range(60) // 3 % 10, split=pl.Series(np.repeat(["dev", "test"], 30))
    )
    names = {"attention": "attention"}
    assert flip_curves(twice, names).equals(flip_curves(apart, names))
    assert not flip_curves(twice.drop("split"), names).equals(flip_curves(apart, names))


@pytest.mark.parametrize("kind", KINDS)
def test_one_weight_against_another(kind):
    trace = some_trace(kind, seed=2)
    table = Erasure()(trace)
    for row, length in enumerate(trace.alpha.lengths):
        alpha, before = trace.alpha[row], naive_prediction(trace, row, trace.alpha[row])
        largest = int(np.argmax(alpha))
        without = after_removal(trace, row, [largest])
        if length < 2 or without is None:
            assert table["delta_js"][row] is table["flip_max"][row] is None
            continue
        assert table["flip_max"][row] == (decided(without) != decided(before))
        gap = alpha[largest] - alpha - table["delta_alpha"][row]
        drawn = np.flatnonzero((np.abs(gap) < 1e-12) & (np.arange(length) != largest))
        after = [after_removal(trace, row, [t]) for t in drawn.tolist()]
        others = [other for other in after if other is not None]
        whole = output_jsd(without, before)
        gaps = np.array([whole - output_jsd(other, before) for other in others])
        assert np.abs(gaps - table["delta_js"][row]).min() < 1e-12
        flipped = {decided(other) != decided(before) for other in others}
        assert table["flip_random"][row] in flipped


def test_every_other_position_is_drawn_alike():
    alpha = np.array([0.1, 0.4, 0.2, 0.3])
    trace = trace_of([alpha] * 6000, np.tile([0.1, 0.2, 0.3, 0.4], 6000))
    drawn = 0.4 - Erasure()(trace)["delta_alpha"].to_numpy()
    counts, shares = np.isclose(drawn[:, None], alpha, atol=1e-6).sum(axis=0), [2000, 0, 2000, 2000]
    assert counts.sum() == 6000
    assert (np.abs(counts - shares) <= 5 * np.sqrt(shares)).all()


@pytest.mark.parametrize("disguised", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_the_smallest_set(kind, disguised):
    """It flips, and is that of exhaustive search; behind a tail where it is said to be proven, which one position always is."""
    trace, exact = some_trace(kind, 30, (1, 8), seed=3), kind not in TAILS and not disguised
    table, best, largest = Erasure()(opaque(trace) if disguised else trace), 0, 0
    for row, length in enumerate(trace.alpha.lengths.tolist()):
        least, places = exhaustive_minimum(trace, row), table[MINIMUM][row].to_list()
        size = len(places)
        assert table["removed_minimum"][row] == known(size / length if size else None)
        assert not size or flips(trace, row, places)
        assert size == 0 or size >= (least or length)
        proven = None if length == 1 else exact or 0 < size <= 2
        assert table["minimum_proven"][row] == proven or disguised
        if table["minimum_proven"][row] or exact or least == 1:
            assert size == (least or 0), row
        best += size == (least or 0)
        largest = max(largest, size)
    assert largest >= 2  # the search had something to find
    assert best > 0.8 * len(trace)  # greedy, and near


@pytest.mark.parametrize("outputs", [1, 2, 4])
def test_the_smallest_set_is_found_where_no_ranking_leads_to_it(outputs):
    """Offsets count as much as what is attended to, which rankings do not know: only the search itself can have found it."""
    rng = np.random.default_rng(outputs)
    alpha = [rng.dirichlet(np.full(rng.integers(5, 11), 0.8)) for _ in range(60)]
    readout = rng.normal(0, 1.5, (sum(map(len, alpha)), outputs))
    trace = trace_of(alpha, readout, rng.normal(0, 1, (60, outputs)))
    table, alone = Erasure(orders=1)(trace), 0
    for row, length in enumerate(trace.alpha.lengths):
        least = every_removal_minimum(trace, row)
        assert table["removed_minimum"][row] == known(None if least is None else least / length)
        shares = [table[f"removed_{name}"][row] or 1.0 for name in RANKINGS]
        alone += least is not None and min(shares) * length > least + 0.5
    assert alone >= 3


@pytest.mark.parametrize("kind", TAILS)
def test_behind_a_tail_the_greedy_set_is_that_of_the_naive_search(kind):
    """In some rows no ranking flips with as few: only the search itself can have found the set there."""
    trace = make_trace(150, (6, 14), seed=8, **KINDS[kind])
    table, alone = Erasure(orders=1)(trace), 0
    for row, length in enumerate(trace.alpha.lengths):
        greedy = greedy_removal(trace, row)
        shares = [table[f"removed_{name}"][row] for name in RANKINGS]
        sizes = [share * length for share in shares if share is not None]
        least = min([*sizes, *([len(greedy)] if greedy else [])], default=None)
        assert table["removed_minimum"][row] == known(None if least is None else least / length)
        if greedy and len(greedy) > 1 and all(len(greedy) < size - 0.5 for size in sizes):
            assert sorted(greedy) == sorted(table[MINIMUM][row].to_list())
            alone += 1
    assert alone >= 3


@pytest.mark.parametrize("value", [0.3, -0.7, 2.0])
def test_a_constant_output_on_the_edge_of_a_decision_never_flips(value):
    """Rounding gives its logit a sign, which is none."""
    rng = np.random.default_rng(0)
    alpha = [rng.dirichlet(np.ones(length)) for length in rng.integers(2, 9, 200)]
    trace = trace_of(alpha, np.full(sum(map(len, alpha)), value), -np.float32(value))
    for one in (trace, opaque(trace)):
        table = Erasure()(one)
        assert table.select("flip_max", "flip_random", "delta_js").sum().row(0) == (0, 0, 0.0)
        assert set(table.select(REMOVED).null_count().row(0)) == {200}


@pytest.mark.parametrize("outputs", [1, 4])
def test_ties_are_ties_in_exact_arithmetic(outputs):
    """Weights of powers of two and whole readouts: what is equal is equal, however it is added up."""
    rng = np.random.default_rng(7)
    alphas, readouts = [], []
    for _ in range(400):
        length = int(rng.integers(2, 7))
        raw = rng.integers(1, 5, length)
        alphas.append(raw / 2.0 ** np.ceil(np.log2(raw.sum())))
        alphas[-1][0] += 1.0 - alphas[-1].sum()
        readouts.append(rng.integers(-2, 3, (length, outputs)))
    offset = rng.integers(-1, 2, (400, outputs))
    trace = trace_of(alphas, np.concatenate(readouts), offset)
    table, ties = Erasure()(trace), 0
    for row, (alpha, readout) in enumerate(zip(alphas, readouts, strict=True)):
        least = every_removal_minimum(trace, row)
        assert table["removed_minimum"][row] == known(None if least is None else least / len(alpha))
        logits = np.append(offset[row] + alpha @ readout, 0.0 if outputs == 1 else -9.0)
        second, first = np.sort(logits)[-2:]
        ties += first == second
    assert ties > 10, "some rows should be decided by a tie"


def test_one_position_and_all_weight_on_one_are_counted_not_hidden():
    table = Erasure()(trace_of([[1.0], [1.0, 0.0, 0.0], [0.6, 0.4]], [2.0, 2, -1, 3, 2, -8]))
    for name in ("delta_js", "flip_max"):
        assert table[name].is_null().to_list() == [True, True, False]
    assert table["removed_minimum"].to_list() == [None, None, 0.5]
    assert table[MINIMUM].to_list() == [[], [], [1]]
    rows = Erasure().summarise(table).filter(group="all").iter_rows(named=True)
    summary = {row["measure"]: row for row in rows}
    assert (summary["delta_js"]["n"], summary["delta_js"]["undefined"]) == (1, 2)
    assert (summary["never_minimum"]["n"], summary["never_minimum"]["value"]) == (2, 0.5)
    assert summary["flip_only_max"]["n"] == 1
