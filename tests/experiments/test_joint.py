"""All heads at once: the joint readout is the sum over heads, and rows may come in any order."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from attnaudit.core.ragged import Ragged
from attnaudit.experiments.joint import Found, Joint, JointSearch, groups_of, shuffles_of
from attnaudit.trace import Trace
from attnaudit.trace.joint import JointReadout

HEADS, TEXTS, WIDTH = 3, 5, 4


def tvd(p: np.ndarray, q: np.ndarray) -> float:
    return float(np.abs(p - q).sum() / 2)


def made(
    seed: int = 0, layers: int = 1, equal: bool = False
) -> tuple[Trace, dict[int, dict[str, Any]]]:
    """A linear model of several heads: logits are the sum of what the heads attend to; and, by text, its parts."""
    random = np.random.default_rng(seed)
    rows: dict[str, list[Any]] = {
        name: []
        for name in (
            "instance",
            "tokens",
            "alpha",
            "readout",
            "offset",
            "prediction",
            "layer",
            "head",
        )
    }
    parts = {}
    for text in range(TEXTS):
        size = int(random.integers(2, 6))
        alpha = (
            np.full((layers * HEADS, size), 1 / size)
            if equal
            else random.dirichlet(np.ones(size), layers * HEADS)
        )
        readout, bias = random.normal(size=(layers * HEADS, size, WIDTH)), random.normal(size=WIDTH)
        sums = np.einsum("ht,htp->hp", alpha, readout)
        logits = bias + sums.sum(axis=0)
        prediction = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
        parts[text] = {"alpha": alpha, "readout": readout, "bias": bias, "prediction": prediction}
        for k in range(layers * HEADS):
            offset = logits - sums[k]
            values = (
                text,
                ["w"] * size,
                alpha[k],
                readout[k],
                offset,
                prediction,
                k // HEADS,
                k % HEADS,
            )
            for name, value in zip(rows, values, strict=True):
                rows[name].append(value)
    stacked = {name: np.stack(rows[name]) for name in ("offset", "prediction")}
    columns = {
        **rows,
        **stacked,
        "layer": np.array(rows["layer"], np.int32),
        "head": np.array(rows["head"], np.int32),
    }
    return Trace.from_arrays(activation="softmax", class_names=list("abcd"), **columns), parts


def naive(part: dict[str, Any], alpha: np.ndarray, heads: Any = slice(None)) -> np.ndarray:
    """The output with other attention in some heads, from the logits as they are defined."""
    used = part["alpha"].copy()
    used[heads] = alpha
    logits = part["bias"] + np.einsum("ht,htp->p", used, part["readout"])
    return np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()


def by_turns(part: dict[str, Any], sweeps: int, heads: range) -> tuple[float, np.ndarray]:
    """Each of the heads in turn on the token that changes the output most, the others as they are by then: the change, and all weights."""
    current, best = part["alpha"].copy(), 0.0
    for _ in range(sweeps):
        for head in heads:
            tried = []
            for one_hot in np.eye(current.shape[1]):
                other = current.copy()
                other[head] = one_hot
                tried.append(((tvd(naive(part, other), part["prediction"])), other))
            top = max(tried, key=lambda pair: pair[0])
            if top[0] > best + 1e-9:
                best, current = top
    return best, current


def test_figures_are_those_of_the_definition() -> None:
    trace, parts = made()
    table = Joint(shuffles=3)(trace)
    for text, part in parts.items():
        rows = table.filter(pl.col("instance") == text)
        size = part["alpha"].shape[1]
        uniform = tvd(naive(part, np.full((HEADS, size), 1 / size)), part["prediction"])
        assert rows["joint_uniform"].to_list() == pytest.approx([uniform] * HEADS, abs=1e-6)
        assert (
            rows["joint_max_delta_y"][0] >= max(by_turns(part, 2, range(HEADS))[0], uniform) - 1e-6
        )
        corners = [
            naive(part, np.eye(size)[list(choice)]) for choice in np.ndindex(*[size] * HEADS)
        ]
        assert (
            rows["joint_max_delta_y"][0]
            <= max((tvd(corner, part["prediction"])) for corner in corners) + 0.2
        )
        assert rows["joint_max_delta_y"].n_unique() == 1


def test_a_single_group_is_read_out_as_its_heads_say() -> None:
    trace, parts = made(seed=1)
    joint = JointReadout(trace.readout, trace.alpha, groups_of(trace, ("instance",)))
    drawn = trace.alpha.with_values(np.random.default_rng(0).random(len(trace.alpha.values)))
    drawn = drawn.with_values(drawn.values / drawn.spread(drawn.sum()))
    found = joint.predict(np.arange(TEXTS), joint.sums(drawn)[joint.groups.values])
    for text, part in parts.items():
        alpha = np.stack([drawn[row] for row in joint.groups[text].tolist()])
        assert found[text] == pytest.approx(naive(part, alpha), abs=1e-6)


def test_uniform_heads_do_not_change_when_they_are_made_uniform_or_shuffled() -> None:
    table = Joint(shuffles=2)(made(equal=True)[0])
    assert float(table["joint_uniform"].to_numpy().max()) <= 1e-6
    assert float(table["joint_shuffled"].to_numpy().max()) <= 1e-6


def test_rows_may_come_in_any_order_and_texts_in_any_shard() -> None:
    trace, _ = made(seed=2)
    order = np.random.default_rng(1).permutation(len(trace))
    table, other = Joint(shuffles=3)(trace), Joint(shuffles=3)(trace.take(order))
    names = ["joint_uniform", "joint_shuffled"]
    assert "layers_flips" not in table.columns
    assert np.allclose(
        table.select(names).to_numpy()[order], other.select(names).to_numpy(), atol=1e-9
    )
    parts = [
        Joint(shuffles=3)(trace.take(np.flatnonzero(trace.instance == text)))
        for text in range(TEXTS)
    ]
    assert np.allclose(pl.concat(parts)["joint_max_delta_y"], table["joint_max_delta_y"], atol=1e-9)


def test_all_layers_at_once_only_where_there_are_several() -> None:
    assert "layers_uniform" not in Joint(shuffles=1)(made()[0]).columns
    trace, parts = made(seed=3, layers=2)
    table = Joint(shuffles=1)(trace)
    for text, part in parts.items():
        size = part["alpha"].shape[1]
        uniform = tvd(naive(part, np.full((2 * HEADS, size), 1 / size)), part["prediction"])
        found = table.filter(pl.col("instance") == text)["layers_uniform"]
        assert found.to_list() == pytest.approx([uniform] * (2 * HEADS), abs=1e-6)


LAYERS = ["layers_uniform", "layers_shuffled", "layers_max_delta_y", "layers_flips"]


def test_measures_of_all_layers_are_those_of_the_definition() -> None:
    """In a linear model a layer does not change those above it: all layers are one layer of all their heads."""
    trace, parts = made(seed=5, layers=2)
    table = Joint(shuffles=5)(trace)
    drawn = [[row.copy() for row in shuffled] for shuffled in shuffles_of(trace, 0, 5)]
    for text, part in parts.items():
        rows, size = np.flatnonzero(trace.instance == text), part["alpha"].shape[1]
        tried = [naive(part, np.stack([alpha[row] for row in rows])) for alpha in drawn]
        uniform = naive(part, np.full((2 * HEADS, size), 1 / size))
        changes = [tvd(one, part["prediction"]) for one in tried]
        found = table[rows]
        assert found["layers_shuffled"].to_list() == pytest.approx(
            [float(np.median(changes))] * len(rows), abs=1e-6
        )
        by_layer = float(found["joint_max_delta_y"].to_numpy().max())
        worst = naive(
            part,
            np.concatenate(
                [
                    by_turns(part, 2, heads)[1][heads]
                    for heads in (range(HEADS), range(HEADS, 2 * HEADS))
                ]
            ),
        )
        largest = max(
            tvd(worst, part["prediction"]), *changes, tvd(uniform, part["prediction"]), by_layer
        )
        assert found["layers_max_delta_y"].to_list() == pytest.approx(
            [largest] * len(rows), abs=1e-6
        )
        assert found["layers_flips"].n_unique() == 1
        flipped = any(
            one.argmax() != part["prediction"].argmax() for one in [uniform, worst, *tried]
        )
        assert found["layers_flips"][0] == (flipped or found["joint_flips"].any())


def test_all_layers_can_do_what_one_can(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where what all of them find together is less."""
    trace, _ = made(seed=6, layers=2)
    honest = JointSearch.search

    def without_weights(search: JointSearch, sweeps: int) -> Found:
        return honest(search, sweeps)._replace(alpha=search.joint.alpha)

    monkeypatch.setattr(JointSearch, "search", without_weights)
    table = Joint(shuffles=1)(trace)
    assert (table["layers_max_delta_y"] >= table["joint_max_delta_y"]).all()
    assert (table["layers_flips"] >= table["joint_flips"]).all()
    assert table["joint_flips"].any()


def test_uniform_heads_of_all_layers_stay_as_they_are() -> None:
    table = Joint(shuffles=2)(made(equal=True, layers=2)[0])
    assert float(table.select("layers_uniform", "layers_shuffled").to_numpy().max()) <= 1e-6


def test_measures_of_all_layers_depend_on_no_order_shard_or_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trace, _ = made(seed=7, layers=3)
    order = np.random.default_rng(1).permutation(len(trace))
    table, other = Joint(shuffles=3)(trace), Joint(shuffles=3)(trace.take(order))
    exact = LAYERS[:2]  # heads take turns in the order of the rows
    assert np.allclose(
        table.select(exact).to_numpy()[order], other.select(exact).to_numpy(), atol=1e-9
    )
    texts = np.random.default_rng(2).permutation(TEXTS)
    parts = pl.concat(
        [Joint(shuffles=3)(trace.take(np.flatnonzero(trace.instance == text))) for text in texts]
    )
    monkeypatch.setattr("attnaudit.experiments.joint.NUMBERS", 1)
    one_by_one = Joint(shuffles=3)(made(seed=7, layers=3)[0])
    for again in (parts.sort("instance", "layer", "head"), one_by_one):
        assert np.allclose(
            again.select(LAYERS[:3]).to_numpy(), table.select(LAYERS[:3]).to_numpy(), atol=1e-9
        )
        assert again["layers_flips"].equals(table["layers_flips"])


@pytest.mark.parametrize("numbers", [1, 60, 200])
def test_no_call_holds_more_numbers_than_is_said(
    numbers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attended sums of all heads of a group, and the offset; a group that has more alone is read out by itself."""
    held, honest = list[tuple[int, int]](), JointReadout.predict

    def noted(self: JointReadout, chosen: np.ndarray, sums: np.ndarray) -> np.ndarray:
        held.append((len(chosen), sums.size + len(chosen) * self.readout.offset.shape[1]))
        return honest(self, chosen, sums)

    monkeypatch.setattr(JointReadout, "predict", noted)
    monkeypatch.setattr("attnaudit.experiments.joint.NUMBERS", numbers)
    Joint(shuffles=2)(made(seed=8, layers=2)[0])
    assert all(size <= numbers or groups == 1 for groups, size in held)
    assert max(groups for groups, _ in held) == max(
        numbers // (2 * HEADS * WIDTH + WIDTH), numbers // (HEADS * WIDTH + WIDTH), 1
    )


def test_groups_are_those_of_equal_names() -> None:
    trace, _ = made(layers=2)
    groups = groups_of(trace, ("instance", "layer"))
    assert isinstance(groups, Ragged)
    assert groups.lengths.tolist() == [HEADS] * (2 * TEXTS)
