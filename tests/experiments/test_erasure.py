from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from attnaudit.core.errors import InputError, TraceError
from attnaudit.core.ragged import Ragged
from attnaudit.experiments import audit
from attnaudit.experiments.erasure.curves import MINIMUM, flip_curves
from attnaudit.experiments.erasure.experiment import Erasure
from attnaudit.experiments.erasure.removal import RANKINGS
from attnaudit.experiments.rows import row_streams
from attnaudit.plans.spec import RunSpec
from attnaudit.recipes.trained import run
from attnaudit.trace import Trace
from tests.oracles.erasure import (
    after_removal,
    decided,
    every_removal_minimum,
    exhaustive_minimum,
    flips,
    greedy_removal,
    naive_fewest_kept,
    naive_first_flip,
    output_jsd,
    weight_gradient,
)
from tests.oracles.random_orders import keyed_order
from tests.oracles.readout import naive_prediction
from tests.smallest import assert_smallest
from tests.traces import make_trace, sigmoid_rows

KINDS = {
    "sigmoid": {"outputs": 1}, "two": {"outputs": 2}, "several": {"outputs": 4}, "candidates": {"outputs": 4, "candidates": True},
    "tail": {"outputs": 3, "hidden": 5}, "tail, candidates": {"outputs": 4, "hidden": 6, "candidates": True},
    "sigmoid tail": {"outputs": 1, "hidden": 4}, "zeros": {"outputs": 1, "zeros": 0.4}, "zeros, several": {"outputs": 3, "zeros": 0.4},
}  # fmt: skip
EXACT = [kind for kind, options in KINDS.items() if "hidden" not in options]


def some_trace(
    kind: str, rows: int = 40, lengths: tuple[int, int] = (1, 9), seed: int = 1
) -> Trace:
    return make_trace(rows, lengths, seed=seed, **KINDS[kind])


def orders(trace: Trace, row: int) -> dict[str, list[int]]:
    alpha, slope = trace.alpha[row], weight_gradient(trace, row)
    scores = {"attention": alpha, "gradient": slope, "gradient_attention": slope * alpha}
    return {
        name: np.argsort(-np.round(score, 12), kind="stable").tolist()
        for name, score in scores.items()
    }


@pytest.mark.parametrize("kind", KINDS)
def test_every_ranking_is_walked_as_the_paper_says(kind: str) -> None:
    trace = some_trace(kind)
    table = Erasure(epsilon=0.05)(trace)
    for row, length in enumerate(trace.alpha.lengths):
        for name, order in orders(trace, row).items() if length > 1 else ():
            count = naive_first_flip(trace, row, order)
            assert table[f"removed_{name}"][row] == (
                None if count is None else pytest.approx(count / length)
            ), (row, name)
            if count is not None:
                assert table[f"mass_{name}"][row] == pytest.approx(
                    trace.alpha[row][order[:count]].sum()
                )
            assert table[f"kept_{name}"][row] == pytest.approx(
                naive_fewest_kept(trace, row, order, 0.05) / length
            ), (row, name)


@pytest.mark.parametrize("kind", ["sigmoid", "several", "tail"])
def test_random_orders_are_averaged_over_those_that_flip(kind: str) -> None:
    trace = some_trace(kind, lengths=(2, 12))
    table, streams = Erasure(orders=3)(trace), row_streams(trace, 0, "erasure")
    for row, length in enumerate(trace.alpha.lengths):
        walks = [keyed_order(length, streams[row], number) for number in range(3)]
        counts = [
            count for walk in walks if (count := naive_first_flip(trace, row, walk)) is not None
        ]
        assert table["removed_random"][row] == (
            pytest.approx(np.mean(counts) / length) if counts else None
        )
        kept = [naive_fewest_kept(trace, row, walk, 0.01) for walk in walks]
        assert table["kept_random"][row] == pytest.approx(np.mean(kept) / length)


@pytest.mark.parametrize("kind", ["sigmoid", "several", "tail", "zeros", "zeros, several"])
def test_no_walk_is_excluded_from_the_area(kind: str) -> None:
    """What never flips is observed until no weight is left; where that is at all tokens, the area is the mean over all rows and orders."""
    trace = some_trace(kind, lengths=(1, 12))
    result, streams = (
        audit(trace, ["erasure"], {"erasure": {"orders": 3}})["erasure"],
        row_streams(trace, 0, "erasure"),
    )
    table, measures = (
        result.table,
        {row["measure"]: row for row in result.summary.filter(group="all").iter_rows(named=True)},
    )
    shares, lost = dict[str, list[float]](), dict[str, list[bool]]()
    for row, length in enumerate(trace.alpha.lengths.tolist()):
        if length == 1:
            assert table["observed_attention"][row] is None
            continue
        walks = [
            ("random", keyed_order(length, streams[row], number)) for number in range(3)
        ] + list(orders(trace, row).items())
        found = {name: [table[f"observed_{name}"][row]] for name in RANKINGS if name != "random"}
        found["random"] = table["observed_by_order"][row].to_list()
        for name, order in walks:
            flip = naive_first_flip(trace, row, order)
            last = 1 + max(
                place for place, position in enumerate(order) if trace.alpha[row][position] > 0
            )
            assert found[name].pop(0) == pytest.approx((flip or last) / length)
            shares.setdefault(name, []).append(0.0 if flip is None else 1.0 - flip / length)
            lost.setdefault(name, []).append(flip is None and last < length)
    for name, each in shares.items():
        assert measures[f"exhausted_{name}"]["value"] == pytest.approx(np.mean(lost[name]))
        assert measures[f"never_{name}"]["value"] == pytest.approx(np.mean(np.array(each) == 0.0))
        if not any(lost[name]):
            assert measures[f"area_{name}"]["value"] == pytest.approx(np.mean(each), abs=1e-12)
        else:
            assert measures[f"area_{name}"]["value"] > np.mean(each)
    assert any(lost["attention"]) == kind.startswith("zeros")
    least, by_attention, chance = (
        measures[f"area_{name}"]["value"] for name in (MINIMUM, "attention", "random")
    )
    assert measures["area_minimum_minus_area_attention"]["value"] == pytest.approx(
        least - by_attention, abs=1e-12
    )
    assert measures["gain_attention"]["value"] == pytest.approx(
        (by_attention - chance) / (least - chance)
    )


def test_the_band_of_a_curve_is_over_texts_of_all_splits() -> None:
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
def test_one_weight_against_another(kind: str) -> None:
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
        drawn = [
            t
            for t in range(length)
            if t != largest and abs(alpha[largest] - alpha[t] - table["delta_alpha"][row]) < 1e-12
        ]
        after = {t: after_removal(trace, row, [t]) for t in drawn}
        gaps = [
            output_jsd(without, before) - output_jsd(other, before)
            for other in after.values()
            if other is not None
        ]
        assert min(abs(gap - table["delta_js"][row]) for gap in gaps) < 1e-12
        assert table["flip_random"][row] in {
            decided(other) != decided(before) for other in after.values() if other is not None
        }


def test_every_other_position_is_drawn_alike_and_as_the_released_code_does() -> None:
    alpha = np.array([0.1, 0.4, 0.2, 0.3])
    trace = sigmoid_rows(Ragged.from_rows([alpha] * 6000), np.tile([0.1, 0.2, 0.3, 0.4], 6000))
    for other, shares in (("any", [2000, 0, 2000, 2000]), ("code", [0, 2000, 2000, 2000])):
        drawn = 0.4 - Erasure(other=other)(trace)["delta_alpha"].to_numpy()
        counts = [int(np.isclose(drawn, weight, atol=1e-6).sum()) for weight in alpha]
        assert sum(counts) == 6000
        assert all(
            abs(count - expected) < 5 * np.sqrt(2000) * (expected > 0) + 0.5
            for count, expected in zip(counts, shares, strict=True)
        )


def test_the_single_weight_does_not_depend_on_how_many_orders_are_drawn() -> None:
    trace = some_trace("sigmoid", 60, (1, 9), seed=3)
    single = ["delta_js", "delta_alpha", "flip_max", "flip_random"]
    few, many = (Erasure(orders=orders)(trace) for orders in (1, 40))
    assert few.select(single).equals(many.select(single))
    assert not few["removed_random"].equals(many["removed_random"])


@pytest.mark.parametrize("kind", EXACT)
def test_the_smallest_set_is_that_of_exhaustive_search(kind: str) -> None:
    trace = some_trace(kind, 60, (1, 9), seed=3)
    table = Erasure()(trace)
    sizes = []
    for row, length in enumerate(trace.alpha.lengths):
        least = exhaustive_minimum(trace, row)
        assert table["removed_minimum"][row] == (
            None if least is None else pytest.approx(least / length)
        ), row
        assert len(table[MINIMUM][row]) == (least or 0)
        if least:
            assert flips(trace, row, table[MINIMUM][row].to_list())
            sizes.append(least)
        assert table["minimum_proven"][row] == (True if length > 1 else None)
    assert max(sizes) >= 2  # the search had something to find


def large_offsets(outputs: int) -> Trace:
    """Rows whose offset counts as much as what is attended to, which the rankings do not know."""
    rng = np.random.default_rng(outputs)
    alpha = Ragged.from_rows([rng.dirichlet(np.full(rng.integers(5, 11), 0.8)) for _ in range(60)])
    readout, offset = (
        alpha.with_values(rng.normal(0, 1.5, (len(alpha.values), outputs))),
        rng.normal(0, 1, (60, outputs)),
    )
    logits = offset + readout.with_values(alpha.values[:, None] * readout.values).sum()
    return Trace.from_arrays(
        activation="sigmoid" if outputs == 1 else "softmax", class_names=[f"c{k}" for k in range(max(outputs, 2))],
        instance=np.arange(60), tokens=[["w"] * n for n in alpha.lengths], alpha=alpha, readout=readout, offset=offset,
        prediction=1 / (1 + np.exp(-logits)) if outputs == 1 else np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True),
    )  # fmt: skip


@pytest.mark.parametrize("outputs", [1, 2, 4])
def test_the_smallest_set_is_found_where_no_ranking_leads_to_it(outputs: int) -> None:
    """Only the search itself can have found it: elsewhere the rankings would make up for a broken one."""
    trace = large_offsets(outputs)
    table, alone = Erasure(orders=1)(trace), 0
    for row, length in enumerate(trace.alpha.lengths):
        least = every_removal_minimum(trace, row)
        assert table["removed_minimum"][row] == (
            None if least is None else pytest.approx(least / length)
        ), row
        shares = [table[f"removed_{name}"][row] for name in RANKINGS]
        alone += least is not None and all(
            share is None or share * length > least + 0.5 for share in shares
        )
    assert alone >= 3


@pytest.mark.parametrize("kind", ["sigmoid", "two", "several", "zeros", "zeros, several"])
def test_both_exhaustive_searches_agree(kind: str) -> None:
    trace = some_trace(kind, 30, (1, 7), seed=5)
    for row in range(len(trace)):
        assert every_removal_minimum(trace, row) == exhaustive_minimum(trace, row)


def test_a_trained_model_on_a_planted_corpus(tmp_path: Path) -> None:
    """On every instance of up to twelve tokens the set is the smallest there is, and no ranking does with fewer."""
    settings = {"corpus.size": 400, "corpus.length": (10, 12), "training.epochs": 8}
    out = run(
        RunSpec.of("planted-decisive", encoder="average", settings=settings), tmp_path / "run"
    )
    assert_smallest(
        Trace.read(out), pl.read_parquet(out / "results" / "erasure.parquet"), flipped=5
    )


@pytest.mark.parametrize("kind", sorted(set(KINDS) - set(EXACT)))
def test_behind_a_tail_the_set_flips_and_is_honestly_labelled(kind: str) -> None:
    trace = some_trace(kind, 60, (2, 9), seed=3)
    table, found = Erasure()(trace), []
    for row, length in enumerate(trace.alpha.lengths):
        least, size = exhaustive_minimum(trace, row), len(table[MINIMUM][row])
        assert (size == 0) == (table["removed_minimum"][row] is None)
        if size:
            assert flips(trace, row, table[MINIMUM][row].to_list())
            assert table["removed_minimum"][row] == pytest.approx(size / length)
            assert least is not None
            assert size >= least
        found.append(size == (least or 0))
        assert table["minimum_proven"][row] == (0 < size <= 2)
        if table["minimum_proven"][row]:
            assert least == size
    assert np.mean(found) > 0.8  # greedy, and near


@pytest.mark.parametrize("kind", sorted(set(KINDS) - set(EXACT)))
def test_behind_a_tail_the_greedy_set_is_that_of_the_naive_search(kind: str) -> None:
    """In some rows no ranking flips with as few: only the search itself can have found the set there."""
    trace = make_trace(150, (6, 14), seed=8, **KINDS[kind])
    table, alone = Erasure(orders=1)(trace), 0
    for row, length in enumerate(trace.alpha.lengths):
        greedy = greedy_removal(trace, row)
        sizes = [
            share * length
            for name in RANKINGS
            if (share := table[f"removed_{name}"][row]) is not None
        ]
        least = min([*sizes, *([len(greedy)] if greedy else [])], default=None)
        assert table["removed_minimum"][row] == (
            None if least is None else pytest.approx(least / length)
        ), row
        if greedy and len(greedy) > 1 and all(len(greedy) < size - 0.5 for size in sizes):
            assert sorted(greedy) == sorted(table[MINIMUM][row].to_list())
            alone += 1
    assert alone >= 3


@pytest.mark.parametrize("kind", KINDS)
def test_no_ranking_flips_with_fewer_than_the_smallest_set(kind: str) -> None:
    table = Erasure()(some_trace(kind, 300, (2, 60), seed=4))
    for name in RANKINGS:
        both = table.drop_nulls([f"removed_{name}"])
        assert (both[f"removed_{name}"] >= both["removed_minimum"] - 1e-12).all()
        assert (both[f"times_minimum_{name}"] >= 1 - 1e-12).all()
    known = table.drop_nulls("removed_minimum")
    assert len(known) > 20


def test_an_output_that_nothing_moves() -> None:
    trace = sigmoid_rows(Ragged.from_rows([[0.5, 0.3, 0.2], [0.25] * 4]), np.full(7, 1.5))
    table = Erasure()(trace)
    assert table["delta_js"].to_list() == pytest.approx([0.0, 0.0], abs=1e-12)
    for name in (*RANKINGS, MINIMUM):
        assert table[f"removed_{name}"].to_list() == [None, None]
    assert table["kept_attention"].to_list() == [1 / 3, 1 / 4]
    assert table["minimum_proven"].all()
    never = (
        Erasure()
        .summarise(table)
        .filter(pl.col("group") == "all", pl.col("measure").str.starts_with("never_"))
    )
    assert never["value"].to_list() == [1.0] * 5


@pytest.mark.parametrize("value", [0.3, -0.7, 2.0])
def test_a_constant_output_on_the_edge_of_a_decision_never_flips(value: float) -> None:
    """Rounding gives its logit a sign, which is none."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(2, 9, 200)
    raw = Ragged.from_lengths(rng.random(lengths.sum()), lengths)
    alpha = raw.with_values((raw.values / raw.spread(raw.sum())).astype(np.float32))
    readout = np.full((len(alpha.values), 1), value, np.float32)
    trace = Trace.from_arrays(
        activation="sigmoid", class_names=["no", "yes"], instance=np.arange(200), tokens=[["w"] * n for n in lengths], alpha=alpha,
        readout=alpha.with_values(readout), offset=np.full((200, 1), -np.float32(value)), prediction=np.full((200, 1), 0.5, np.float32),
    )  # fmt: skip
    table = Erasure()(trace)
    assert not table["flip_max"].any()
    assert not table["flip_random"].any()
    for name in (*RANKINGS, MINIMUM):
        assert table[f"removed_{name}"].null_count() == 200
    assert (table["delta_js"] == 0).all()


@pytest.mark.parametrize("outputs", [1, 4])
def test_ties_are_ties_in_exact_arithmetic(outputs: int) -> None:
    """Weights of powers of two and whole readouts: what is equal is equal, however it is added up."""
    rng = np.random.default_rng(7)
    rows, alphas, readouts = 400, [], []
    for _ in range(rows):
        length = int(rng.integers(2, 7))
        raw = rng.integers(1, 5, length)
        alphas.append(np.array(raw) / 2.0 ** np.ceil(np.log2(raw.sum())))
        alphas[-1][0] += 1.0 - alphas[-1].sum()
        readouts.append(rng.integers(-2, 3, (length, outputs)).astype(float))
    alpha = Ragged.from_rows([a.astype(np.float32) for a in alphas], np.float32)
    offset = rng.integers(-1, 2, (rows, outputs)).astype(np.float32)
    contribution = alpha.with_values(np.concatenate(readouts).astype(np.float32))
    logits = np.array([offset[k] + alphas[k] @ readouts[k] for k in range(rows)])
    raised = np.exp(logits - logits.max(axis=1, keepdims=True))
    prediction = (
        1 / (1 + np.exp(-logits)) if outputs == 1 else raised / raised.sum(axis=1, keepdims=True)
    )
    trace = Trace.from_arrays(
        activation="sigmoid" if outputs == 1 else "softmax", class_names=[f"c{k}" for k in range(max(outputs, 2))],
        instance=np.arange(rows),
        tokens=[["w"] * len(a) for a in alphas], alpha=alpha, readout=contribution, offset=offset, prediction=prediction.astype(np.float32),
    )  # fmt: skip
    table, ties = Erasure()(trace), 0
    for row in range(rows):
        least = exact_minimum(alphas[row], readouts[row], offset[row])
        assert table["removed_minimum"][row] == (
            None if least is None else pytest.approx(least / len(alphas[row]))
        ), row
        second, first = np.sort(np.append(logits[row], 0.0 if outputs == 1 else -9.0))[-2:]
        ties += first == second
    assert ties > 10, "some rows should be decided by a tie"


def exact_minimum(alpha: np.ndarray, readout: np.ndarray, offset: np.ndarray) -> int | None:
    """By all sets, in fractions."""

    def decided(kept: list[int]) -> int:
        weights = [Fraction(float(alpha[t])) for t in kept]
        columns = range(readout.shape[1])
        logits = [
            Fraction(float(offset[c]))
            + sum(w * Fraction(float(readout[t, c])) for w, t in zip(weights, kept, strict=True))
            / sum(weights)
            for c in columns
        ]
        return int(logits[0] >= 0) if len(logits) == 1 else logits.index(max(logits))

    whole = list(range(len(alpha)))
    for size in range(1, len(alpha)):
        if any(
            decided([t for t in whole if t not in gone]) != decided(whole)
            for gone in combinations(whole, size)
        ):
            return size
    return None


def test_where_a_sigmoid_is_nearly_1_the_other_class_still_counts() -> None:
    alpha = Ragged.from_rows([[0.5, 0.3, 0.2]], np.float64)
    table = Erasure()(sigmoid_rows(alpha, np.array([41.0, 39.0, 40.0])))
    assert table["delta_js"][0] == 0.0  # both of less than 1e-15: no sign
    small = Erasure()(sigmoid_rows(alpha, np.array([18.0, 12.0, 16.0])))
    assert small["delta_js"][0] != 0.0


def test_one_position_behind_a_tail_is_always_found() -> None:
    trace = some_trace("tail", 300, (2, 6), seed=11)
    table = Erasure()(trace)
    for row, length in enumerate(trace.alpha.lengths.tolist()):
        if any(flips(trace, row, [place]) for place in range(length)):
            assert table["removed_minimum"][row] == pytest.approx(1 / length)
            assert table["minimum_proven"][row]


def test_one_position_and_all_weight_on_one_are_counted_not_hidden() -> None:
    trace = sigmoid_rows(
        Ragged.from_rows([[1.0], [1.0, 0.0, 0.0], [0.6, 0.4]]),
        np.array([2.0, 2.0, -1.0, 3.0, 2.0, -8.0]),
    )
    table = Erasure()(trace)
    assert table["delta_js"].is_null().to_list() == [True, True, False]
    assert table["flip_max"].is_null().to_list() == [True, True, False]
    assert table["kept_attention"].to_list() == [None, pytest.approx(1 / 3), 1.0]
    assert table["removed_minimum"].to_list() == [None, None, 0.5]
    assert table[MINIMUM].to_list() == [[], [], [1]]
    summary = {
        row["measure"]: row
        for row in Erasure().summarise(table).filter(pl.col("group") == "all").iter_rows(named=True)
    }
    assert (summary["delta_js"]["n"], summary["delta_js"]["undefined"]) == (1, 2)
    assert (summary["never_minimum"]["n"], summary["never_minimum"]["value"]) == (2, 0.5)
    assert summary["flip_only_max"]["n"] == 1
    table_shares = [
        summary[f"flip_{name}"]["value"] for name in ("both", "only_max", "only_random", "neither")
    ]
    assert sum(table_shares) == pytest.approx(1.0)


def test_a_readout_that_is_no_number_is_refused_by_name() -> None:
    with pytest.raises(TraceError, match="column readout, instance 0"):
        audit(sigmoid_rows(Ragged.from_rows([[0.5, 0.5]]), np.array([1.0, np.nan])))


@pytest.mark.parametrize(
    ("settings", "got"),
    [
        ({"orders": 0}, "erasure.orders"), ({"orders": 10_001}, "erasure.orders"), ({"other": "cod"}, "did you mean code"),
        ({"epsilon": 2.0}, "erasure.epsilon"), ({"epsilon": float("nan")}, "erasure.epsilon"),
    ],
)  # fmt: skip
def test_settings_that_make_no_sense(settings: dict, got: str) -> None:
    with pytest.raises(InputError, match=got):
        Erasure(**settings)
