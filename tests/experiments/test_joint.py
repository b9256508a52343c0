"""All heads at once: the joint readout is the sum over heads, and rows may come in any order.

Measures of all layers are compared with passes of whole models in `tests/hf/test_joint.py`.
"""

from functools import partial
from itertools import product

import numpy as np
import polars as pl
import pytest
from scipy.special import softmax

from attnaudit.experiments.joint import Joint
from attnaudit.stats.measures import jsd
from tests.oracles.joint import turned
from tests.traces import trace_of, with_columns

HEADS, TEXTS, WIDTH = 3, 5, 4


def made(seed=0, layers=1, equal=False):
    """A linear model of several heads: logits are the sum of what the heads attend to; and, by text, its parts."""
    random, parts, offsets = np.random.default_rng(seed), {}, []
    rows = layers * HEADS
    for text in range(TEXTS):
        size = int(random.integers(2, 6))
        alpha = np.full((rows, size), 1 / size)
        if not equal:
            alpha = random.dirichlet(np.ones(size), rows)
        readout, bias = random.normal(size=(rows, size, WIDTH)), random.normal(size=WIDTH)
        sums = np.einsum("ht,htp->hp", alpha, readout)
        logits = bias + sums.sum(axis=0)
        parts[text] = {"alpha": alpha, "readout": readout, "bias": bias, "own": softmax(logits)}
        offsets.append(logits - sums)
    trace = trace_of(
        [row for part in parts.values() for row in part["alpha"]],
        np.vstack([part["readout"].reshape(-1, WIDTH) for part in parts.values()]),
        np.vstack(offsets),
        instance=np.repeat(np.arange(TEXTS), rows),
        layer=np.tile(np.repeat(np.arange(layers), HEADS), TEXTS),
        head=np.tile(np.arange(HEADS), TEXTS * layers),
    )
    return trace, parts


def naive(part, alpha):
    """The output with other attention in all heads, from the logits as they are defined."""
    return softmax(part["bias"] + np.einsum("ht,htp->p", alpha, part["readout"]))


def change(part, alpha):
    return float(np.abs(naive(part, alpha) - part["own"]).sum() / 2)


def test_figures_are_those_of_the_definition():
    trace, parts = made()
    table = Joint(shuffles=3)(trace)
    for text, part in parts.items():
        rows, size = table.filter(instance=text), part["alpha"].shape[1]
        uniform = change(part, np.full((HEADS, size), 1 / size))
        assert rows["joint_uniform"].to_list() == pytest.approx([uniform] * HEADS, abs=1e-6)
        largest = rows["joint_max_delta_y"][0]
        twice = turned(part["alpha"], [*range(HEADS)] * 2, partial(change, part))
        assert largest >= max(change(part, twice), uniform) - 1e-6
        corners = (np.eye(size)[list(choice)] for choice in np.ndindex(*[size] * HEADS))
        assert largest <= max(change(part, corner) for corner in corners) + 0.2
        assert rows["joint_max_delta_y"].n_unique() == 1


@pytest.mark.parametrize("layers", [1, 2])
def test_uniform_heads_do_not_change_when_they_are_made_uniform_or_shuffled(layers):
    table = Joint(shuffles=2)(made(equal=True, layers=layers)[0])
    same = table.select(pl.selectors.ends_with("uniform", "shuffled"))
    assert same.width == 2 * layers
    assert same.to_numpy().max() <= 1e-6


@pytest.mark.parametrize("layers", [1, 3])
def test_measures_depend_on_no_order_shard_or_batch(layers, monkeypatch):
    trace, _ = made(seed=7, layers=layers)
    random, experiment = np.random.default_rng(1), Joint(shuffles=3)
    order, table = random.permutation(len(trace)), experiment(trace)
    assert ("layers_uniform" in table.columns) == (layers > 1)
    exact = pl.selectors.ends_with("uniform", "shuffled")  # heads take turns in the order of rows
    turned = experiment(trace.take(order)).select(exact).to_numpy()
    assert np.allclose(table.select(exact).to_numpy()[order], turned, atol=1e-9)
    texts = [np.flatnonzero(trace.instance == text) for text in random.permutation(TEXTS)]
    parts = pl.concat([experiment(trace.take(rows)) for rows in texts])
    monkeypatch.setattr("attnaudit.experiments.joint.NUMBERS", 1)
    for again in (parts[np.argsort(np.concatenate(texts))], experiment(trace)):
        numbers = pl.selectors.numeric()
        assert np.allclose(again.select(numbers), table.select(numbers), atol=1e-9)
        assert again.select(pl.selectors.boolean()).equals(table.select(pl.selectors.boolean()))


def test_a_mean_of_the_heads_that_is_found_has_nearly_the_same_output():
    """Against all shares of weight that all heads could move to one token."""
    trace, parts = made(2)
    assert "joint_emax_jsd" not in Joint()(trace).columns
    shown = [part["alpha"].mean(axis=0) for part in parts.values() for _ in range(HEADS)]
    table = Joint(epsilon=0.02)(
        with_columns(trace, importance_shown=[row.tolist() for row in shown])
    )
    for text, part in parts.items():
        best, own, size = 0.0, part["alpha"].mean(axis=0), part["alpha"].shape[1]
        for token, share in product(range(size), np.linspace(0, 1, 400)):
            other = (1 - share) * part["alpha"] + share * np.eye(size)[token]
            if change(part, other) <= 0.02:
                best = max(best, float(jsd(other.mean(axis=0), own)))
        found = table.filter(instance=text)["joint_emax_jsd"]
        assert found.n_unique() == 1
        assert 0.0 < found[0] <= best + 1e-3
        assert found[0] >= 0.95 * best
