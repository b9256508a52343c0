"""The model by hand against autograd, and seeds side by side against one another."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch

from attnaudit.corpora.copying import Sequences
from attnaudit.models import gates
from attnaudit.models import product as products
from attnaudit.models.copying import measure, output_relevance
from attnaudit.models.product import linear, linear_into, packed, summed
from attnaudit.models.room import Room
from attnaudit.models.seq2seq_by_hand import Sizes, forward, loss_and_gradient, views
from attnaudit.models.side_by_side import SideBySide, as_tensors, shifted, workers
from tests.oracles.seq2seq import plain_forward, plain_loss, plain_relevance

SEQUENCES = Sequences("iid", 7, 5)
SIZES = Sizes(SEQUENCES.vocabulary, hidden=16, embedding=12)
BATCH = 6


def batches(seed: int, step: int) -> tuple[np.ndarray, np.ndarray]:
    rows = SEQUENCES.draw(seed, "train", step * BATCH, BATCH)
    return rows, SEQUENCES.primed(rows)


def random_weights(sizes: Sizes, dtype: torch.dtype) -> torch.Tensor:
    return torch.randn(sizes.count, generator=torch.Generator().manual_seed(3), dtype=torch.float64).mul_(0.4).to(dtype)


@pytest.mark.parametrize("uniform", [False, True])
@pytest.mark.parametrize("heads", [1, 4])
@pytest.mark.parametrize(("dtype", "near"), [(torch.float64, 1e-10), (torch.float32, 2e-5)])
def test_the_gradient_is_that_of_autograd(dtype: torch.dtype, near: float, heads: int, uniform: bool) -> None:
    sizes = Sizes(SIZES.vocabulary, 16, 12, heads)
    flat = random_weights(sizes, dtype)
    source, gold = as_tensors(*batches(0, 0))
    wanted = {name: part.clone().requires_grad_() for name, part in views(sizes, flat).items()}
    loss = plain_loss(wanted, source, gold, SEQUENCES.begin, heads, uniform)
    loss.backward()
    ours = views(sizes, torch.full((sizes.count,), torch.nan, dtype=dtype))
    with torch.no_grad():
        found = loss_and_gradient(sizes, views(sizes, flat), Room(dtype), source, shifted(gold, SEQUENCES.begin), gold, ours, uniform)
    assert found == pytest.approx(loss.item(), abs=near)
    for name, weight in wanted.items():
        gradient = torch.zeros_like(weight) if weight.grad is None else weight.grad
        torch.testing.assert_close(ours[name], gradient, atol=near, rtol=0, msg=name)


@pytest.mark.parametrize("size", [1, 3, 16, 37])
def test_compiled_gates_are_those_of_torch(size: int) -> None:
    """Single precision, compiled, against double precision, by torch; far values too, where tanh is one."""
    random = torch.Generator().manual_seed(size)

    def draw(*shape: int, scale: float = 1.0) -> torch.Tensor:
        return scale * torch.randn(*shape, generator=random)

    symbols = torch.randint(0, 4, (2, 5), generator=random)
    product, table, cells = draw(5, 4 * size, scale=6.0), draw(4, 4 * size), draw(3, 5, size, scale=2.0)
    filled = [torch.zeros(2, 5, 4 * size), cells, torch.zeros(2, 5, size), torch.zeros(3, 5, size)]  # gates, cells, squashed, states
    doubles = [part.double() for part in filled]
    gates.forward(1, *gates.native(product, table, symbols, *filled))
    gates.forward(1, *gates.native(product.double(), table.double(), symbols, *doubles))
    for ours, theirs in zip(filled, doubles, strict=True):
        torch.testing.assert_close(ours.double(), theirs, atol=2e-6, rtol=0)
    states, later, cell, d_table = draw(2, 5, size), draw(5, size), draw(5, size), draw(4, 4 * size)
    activated, cells, squashed, _ = filled
    ours = [torch.zeros(5, 4 * size), later, cell, states, activated, cells, squashed, symbols, d_table]
    theirs = [part if part is symbols else part.double() for part in ours]
    gates.backward(1, *gates.native(*ours))
    gates.backward(1, *gates.native(*theirs))
    for k in (0, 2, 8):
        torch.testing.assert_close(ours[k].double(), theirs[k], atol=2e-6, rtol=1e-6)


def test_a_training_is_that_of_a_plain_loop() -> None:
    """Torch's modules, autograd and Adam, a seed at a time, in double precision."""
    models = SideBySide.fresh(SIZES, (4, 9), torch.float64)
    plain = [{name: part.clone().requires_grad_() for name, part in models.of(place).items()} for place in range(2)]
    with workers(2) as pool:
        losses = models.advance(pool, batches, 12, 0, begin=SEQUENCES.begin, learning_rate=0.01)
    for place, weights in enumerate(plain):
        optimizer = torch.optim.Adam(weights.values(), lr=0.01)
        for step in range(12):
            source, gold = as_tensors(*batches(models.seeds[place], step))
            optimizer.zero_grad()
            loss = plain_loss(weights, source, gold, SEQUENCES.begin)
            loss.backward()
            optimizer.step()
            assert losses[place, step] == pytest.approx(loss.item(), abs=1e-9)
        for name, part in models.of(place).items():
            torch.testing.assert_close(part, weights[name].detach(), atol=1e-8, rtol=0, msg=name)


def trained(seeds: Sequence[int], threads: int, portions: Sequence[int] = (10,), sizes: Sizes = SIZES) -> dict[int, torch.Tensor]:
    models = SideBySide.fresh(sizes, seeds)
    with workers(threads) as pool:
        for steps in portions:
            models.advance(pool, batches, steps, models.steps, begin=SEQUENCES.begin, learning_rate=0.01)
    return dict(zip(seeds, models.weights, strict=True))


def test_a_seed_does_not_know_of_the_others() -> None:
    """To the bit: alone, in company, in another place, with other threads, in other portions."""
    alone = trained([2], 1)[2]
    for others in (trained([2, 5, 7], 2), trained([7, 5, 3, 2], 3), trained([5, 2], 1, (3, 1, 6))):
        assert torch.equal(others[2], alone)
    assert not torch.equal(trained([3], 1)[3], alone)


def test_fresh_weights_are_those_of_torch() -> None:
    """Bounds and spread as torch's modules draw them; embeddings normal with a variance of one over their width."""
    sizes = Sizes(200, 32, 50, embedding_scale=0.3)
    weights = SideBySide.fresh(sizes, (0,)).of(0)
    modules = {
        "encoder.": torch.nn.LSTM(50, 16, bidirectional=True), "decoder.": torch.nn.LSTM(50, 32),
        "context.": torch.nn.Linear(32, 50, False), "state.": torch.nn.Linear(32, 50),
        "attention.": torch.nn.Linear(32, 32, False), "output.": torch.nn.Linear(50, 200),
    }  # fmt: skip
    theirs = {prefix + name: part for prefix, module in modules.items() for name, part in module.named_parameters()}
    assert set(weights) - {"embedding.weight"} == set(theirs) - {"output.weight"}  # which is tied to the embedding
    for name, part in weights.items():
        if name in theirs and part.numel() > 1000:
            assert part.shape == theirs[name].shape
            assert part.abs().max().item() == pytest.approx(theirs[name].abs().max().item(), rel=0.02), name
    assert weights["embedding.weight"].std().item() == pytest.approx(0.3, rel=0.05)


@pytest.mark.parametrize("heads", [1, 2])
def test_output_relevance_is_the_log_probability_with_all_attention_on_one_position(heads: int) -> None:
    sizes = Sizes(SIZES.vocabulary, 16, 12, heads)
    weights, (source, gold) = views(sizes, random_weights(sizes, torch.float64)), as_tensors(*batches(1, 1))
    with torch.no_grad():
        room = Room(torch.float64)
        made = forward(sizes, weights, room, source, shifted(gold, SEQUENCES.begin))
        ours = output_relevance(made, room, gold)
        torch.testing.assert_close(ours, plain_relevance(weights, source, gold, SEQUENCES.begin, heads))
        logits, alpha = plain_forward(weights, source, shifted(gold, SEQUENCES.begin), heads)
        torch.testing.assert_close(made.logits, logits)
        torch.testing.assert_close(made.alpha, alpha)


def test_measures_do_not_depend_on_how_many_are_measured_together(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = Sizes(SIZES.vocabulary, 16, 12, 2)
    weights, rows = views(sizes, random_weights(sizes, torch.float64)), SEQUENCES.draw(0, "test", 0, 10)
    found = []
    for together in (32, 4, 1):
        monkeypatch.setattr("attnaudit.models.copying._AT_ONCE", together)
        with torch.no_grad():
            found.append(
                measure(
                    sizes, weights, Room(torch.float64), rows, SEQUENCES.primed(rows), SEQUENCES.begin, np.arange(7)
                )
            )  # fmt: skip
    for other in found[1:]:
        assert vars(other) == {name: pytest.approx(value) for name, value in vars(found[0]).items()}
    assert found[0].relevance_symbol >= found[0].relevance
    assert len(found[0].heads) == 2


@pytest.mark.parametrize("onednn", [products.ONEDNN, False])
@pytest.mark.parametrize("rows", [1, 511, 512, 1300])
def test_products_in_pieces_are_products(onednn: bool, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "ONEDNN", onednn)
    x, weight, bias, other = torch.randn(rows, 24), torch.randn(10, 24), torch.randn(10), torch.randn(rows, 5)
    wanted = x @ weight.T + bias
    torch.testing.assert_close(linear(x, packed(weight, rows), bias), wanted, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(linear_into(torch.empty(rows, 10), x, weight, bias), wanted, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(linear_into(torch.ones(rows, 10), x, weight, bias, add=True), wanted + 1, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(summed(x, other), x.T @ other, atol=1e-3, rtol=1e-4)
