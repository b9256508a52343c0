"""The model by hand against autograd, and seeds side by side against one another."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
import pytest
import torch

from attnaudit.copying.lstm import Workspace, native, step_backward, step_forward
from attnaudit.copying.network import Sizes, forward, loss_and_gradient, views
from attnaudit.copying.side_by_side import SideBySide, as_tensors, shifted, workers
from attnaudit.copying.training import agreement, measure, output_relevance
from attnaudit.core.ragged import Ragged
from attnaudit.corpora.planted.sequences import Sequences
from attnaudit.stats import agreement as stats
from tests.oracles.agreement import naive_agreement
from tests.oracles.seq2seq import plain_forward, plain_loss, plain_relevance

SEQUENCES = Sequences("iid", 7, 5)
Encoder = Literal["lstm", "bilstm"]
ENCODERS = get_args(Encoder)
SIZES = {
    encoder: Sizes(SEQUENCES.vocabulary, hidden=16, embedding=12, encoder=encoder)
    for encoder in ENCODERS
}
BATCH = 6


def batches(seed: int, step: int) -> tuple[np.ndarray, np.ndarray]:
    rows = SEQUENCES.draw(seed, "train", step * BATCH, BATCH)
    return SEQUENCES.pair(rows)


def random_weights(sizes: Sizes, dtype: torch.dtype) -> torch.Tensor:
    return (
        torch.randn(sizes.count, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
        .mul_(0.4)
        .to(dtype)
    )


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("uniform", [False, True])
@pytest.mark.parametrize("heads", [1, 4])
@pytest.mark.parametrize(("dtype", "near"), [(torch.float64, 1e-10), (torch.float32, 2e-5)])
def test_the_gradient_is_that_of_autograd(
    dtype: torch.dtype, near: float, heads: int, uniform: bool, encoder: Encoder
) -> None:
    sizes = Sizes(SEQUENCES.vocabulary, 16, 12, heads, encoder=encoder)
    flat = random_weights(sizes, dtype)
    source, gold = as_tensors(*batches(0, 0))
    expected = {name: part.clone().requires_grad_() for name, part in views(sizes, flat).items()}
    loss = plain_loss(expected, source, gold, SEQUENCES.begin, heads, uniform)
    loss.backward()
    ours = views(sizes, torch.full((sizes.count,), torch.nan, dtype=dtype))
    with torch.no_grad():
        found = loss_and_gradient(
            sizes,
            views(sizes, flat),
            Workspace(dtype),
            source,
            shifted(gold, SEQUENCES.begin),
            gold,
            ours,
            uniform,
        )
    assert found == pytest.approx(loss.item(), abs=near)
    for name, weight in expected.items():
        gradient = torch.zeros_like(weight) if weight.grad is None else weight.grad
        torch.testing.assert_close(ours[name], gradient, atol=near, rtol=0, msg=name)


@pytest.mark.parametrize("size", [1, 3, 16, 37])
def test_compiled_gates_are_those_of_torch(size: int) -> None:
    """Single precision, compiled, against double precision, by torch; far values too, where tanh is one."""
    random = torch.Generator().manual_seed(size)

    def draw(*shape: int, scale: float = 1.0) -> torch.Tensor:
        return scale * torch.randn(*shape, generator=random)

    symbols = torch.randint(0, 4, (2, 5), generator=random)
    product, table, cells = (
        draw(5, 4 * size, scale=6.0),
        draw(4, 4 * size),
        draw(3, 5, size, scale=2.0),
    )
    filled = [
        torch.zeros(2, 5, 4 * size),
        cells,
        torch.zeros(2, 5, size),
        torch.zeros(3, 5, size),
    ]  # gates, cells, squashed, states
    doubles = [part.double() for part in filled]
    step_forward(1, *native(product, table, symbols, *filled))
    step_forward(1, *native(product.double(), table.double(), symbols, *doubles))
    for ours, theirs in zip(filled, doubles, strict=True):
        torch.testing.assert_close(ours.double(), theirs, atol=2e-6, rtol=0)
    states, later, cell, d_table = draw(2, 5, size), draw(5, size), draw(5, size), draw(4, 4 * size)
    activated, cells, squashed, _ = filled
    ours = [
        torch.zeros(5, 4 * size),
        later,
        cell,
        states,
        activated,
        cells,
        squashed,
        symbols,
        d_table,
    ]
    theirs = [part if part is symbols else part.double() for part in ours]
    step_backward(1, *native(*ours))
    step_backward(1, *native(*theirs))
    for k in (0, 2, 8):
        torch.testing.assert_close(ours[k].double(), theirs[k], atol=2e-6, rtol=1e-6)


@pytest.mark.parametrize("encoder", ENCODERS)
def test_a_training_is_that_of_a_plain_loop(encoder: Encoder) -> None:
    """Torch's modules, autograd and Adam, a seed at a time, in double precision."""
    models = SideBySide.fresh(SIZES[encoder], (4, 9), torch.float64)
    plain = [
        {name: part.clone().requires_grad_() for name, part in models.of(place).items()}
        for place in range(2)
    ]
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


def trained(
    encoder: Encoder, seeds: Sequence[int], threads: int, portions: Sequence[int] = (10,)
) -> dict[int, torch.Tensor]:
    models = SideBySide.fresh(SIZES[encoder], seeds)
    with workers(threads) as pool:
        for steps in portions:
            models.advance(
                pool, batches, steps, models.steps, begin=SEQUENCES.begin, learning_rate=0.01
            )
    return dict(zip(seeds, models.weights, strict=True))


@pytest.mark.parametrize("encoder", ENCODERS)
def test_a_seed_does_not_know_of_the_others(encoder: Encoder) -> None:
    """To the bit: alone, in company, in another place, with other threads, in other portions."""
    alone = trained(encoder, [2], 1)[2]
    for others in (
        trained(encoder, [2, 5, 7], 2),
        trained(encoder, [7, 5, 3, 2], 3),
        trained(encoder, [5, 2], 1, (3, 1, 6)),
    ):
        assert torch.equal(others[2], alone)
    assert not torch.equal(trained(encoder, [3], 1)[3], alone)


@pytest.mark.parametrize("encoder", ENCODERS)
def test_states_before_a_symbol_know_it_only_where_the_encoder_reads_from_both_ends(
    encoder: Encoder,
) -> None:
    """One symbol of the source changed: which positions of the encoder tell?"""
    weights, (source, gold) = (
        views(SIZES[encoder], random_weights(SIZES[encoder], torch.float64)),
        as_tensors(*batches(0, 0)),
    )
    other = source.clone()
    other[3] = (source[3] + 1) % SEQUENCES.symbols
    with torch.no_grad():
        states = [
            forward(
                SIZES[encoder],
                weights,
                Workspace(torch.float64),
                xs,
                shifted(gold, SEQUENCES.begin),
            ).source
            for xs in (source, other)
        ]
    told = (states[0] != states[1]).any(3).all((0, 1)).tolist()
    assert told == [encoder == "bilstm"] * 3 + [True] * 4


@pytest.mark.parametrize("encoder", ENCODERS)
def test_fresh_weights_are_those_of_torch(encoder: Encoder) -> None:
    """Bounds and spread as torch's modules draw them; embeddings normal with a variance of one over their width."""
    sizes, both = Sizes(200, 32, 50, embedding_scale=0.3, encoder=encoder), encoder == "bilstm"
    weights = SideBySide.fresh(sizes, (0,)).of(0)
    modules = {
        "encoder.": torch.nn.LSTM(50, 16 if both else 32, bidirectional=both), "decoder.": torch.nn.LSTM(50, 32),
        "context.": torch.nn.Linear(32, 50, False), "state.": torch.nn.Linear(32, 50),
        "attention.": torch.nn.Linear(32, 32, False), "output.": torch.nn.Linear(50, 200),
    }  # fmt: skip
    theirs = {
        prefix + name: part
        for prefix, module in modules.items()
        for name, part in module.named_parameters()
    }
    assert set(weights) - {"embedding.weight"} == set(theirs) - {
        "output.weight"
    }  # which is tied to the embedding
    for name, part in weights.items():
        if name in theirs and part.numel() > 1000:
            assert part.shape == theirs[name].shape
            assert part.abs().max().item() == pytest.approx(
                theirs[name].abs().max().item(), rel=0.02
            ), name
    assert weights["embedding.weight"].std().item() == pytest.approx(0.3, rel=0.05)


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("heads", [1, 2])
def test_output_relevance_is_the_log_probability_with_all_attention_on_one_position(
    heads: int, encoder: Encoder
) -> None:
    sizes = Sizes(SEQUENCES.vocabulary, 16, 12, heads, encoder=encoder)
    weights, (source, gold) = (
        views(sizes, random_weights(sizes, torch.float64)),
        as_tensors(*batches(1, 1)),
    )
    with torch.no_grad():
        workspace = Workspace(torch.float64)
        made = forward(sizes, weights, workspace, source, shifted(gold, SEQUENCES.begin))
        ours = output_relevance(sizes, weights, made, workspace, gold)
        torch.testing.assert_close(
            ours, plain_relevance(weights, source, gold, SEQUENCES.begin, heads)
        )
        logits, alpha = plain_forward(weights, source, shifted(gold, SEQUENCES.begin), heads)
        torch.testing.assert_close(made.logits, logits)
        torch.testing.assert_close(made.alpha, alpha)


def test_measures_do_not_depend_on_how_many_are_measured_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes = Sizes(SEQUENCES.vocabulary, 16, 12, 2)
    weights, rows = (
        views(sizes, random_weights(sizes, torch.float64)),
        SEQUENCES.draw(0, "test", 0, 10),
    )
    found = []
    for together in (32, 4, 1):
        monkeypatch.setattr("attnaudit.copying.training._AT_ONCE", together)
        with torch.no_grad():
            found.append(
                measure(
                    sizes, weights, Workspace(torch.float64), rows, SEQUENCES.pair(rows)[1], SEQUENCES.begin, np.arange(7)
                )
            )  # fmt: skip
    for other in found[1:]:
        assert vars(other) == {name: pytest.approx(value) for name, value in vars(found[0]).items()}
    assert found[0].relevance_symbol >= found[0].relevance
    assert len(found[0].heads) == 2


def test_where_attention_looks_is_told_as_its_definitions_read() -> None:
    """Agreement by every way to break ties, the offset counted position by position, for what is written backwards."""
    sizes, right = Sizes(SEQUENCES.vocabulary, 16, 12, 2), np.arange(7)[::-1].copy()
    weights, rows = (
        views(sizes, random_weights(sizes, torch.float64)),
        SEQUENCES.draw(0, "test", 0, 10),
    )
    written = SEQUENCES.pair(rows, "reverse")[1]
    source, gold = as_tensors(rows, written)
    with torch.no_grad():
        found = measure(
            sizes, weights, Workspace(torch.float64), rows, written, SEQUENCES.begin, right
        )
        alpha = plain_forward(weights, source, shifted(gold, SEQUENCES.begin), 2)[1].mean(1)
        relevance = plain_relevance(weights, source, gold, SEQUENCES.begin, 2)
    places = [(b, t) for b in range(10) for t in range(7)]
    offsets = [int(alpha[b, t].argmax()) - (6 - t) for b, t in places]
    assert found.attended == statistics.median(offsets)
    assert found.relevance == pytest.approx(
        np.mean([int(relevance[b, t].argmax()) == 6 - t for b, t in places])
    )
    assert found.relevance_least == pytest.approx(
        np.mean([bool((relevance[b, t] >= relevance[b, t, 6 - t]).all()) for b, t in places])
    )
    assert 0 < found.relevance_least < 1
    assert found.agreement == pytest.approx(
        np.mean(
            [naive_agreement(alpha[b, t].tolist(), relevance[b, t].tolist()) for b, t in places]
        )
    )


@pytest.mark.parametrize("length", [1, 7, 40, 41])
def test_agreement_of_rows_of_one_length_is_that_of_any_rows(length: int) -> None:
    """With ties of both scores, those for the last places of the top among them."""
    random = np.random.default_rng(length)
    u, v = (random.integers(0, length + 2, (100, 9, length)).astype(float) for _ in range(2))
    expected = stats.agreement(
        Ragged.from_rows(list(u.reshape(900, length))),
        Ragged.from_rows(list(v.reshape(900, length))),
    )
    found = agreement(torch.from_numpy(u), torch.from_numpy(v)).flatten()
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-12)
    assert length == 1 or 0 < found.mean() < 1
