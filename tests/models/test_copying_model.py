"""The copying model and its training against torch's modules, and seeds against one another."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Literal, get_args

import numpy as np
import pytest
import torch

from attnaudit.copying.evaluation import evaluate
from attnaudit.copying.model import Copier, Sizes, as_symbols, descend
from attnaudit.copying.training import CopyingConfig, Stage, Training, train
from attnaudit.corpora.planted.sequences import Sequences
from attnaudit.training.loop import torch_threads
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


def shifted(gold: torch.Tensor) -> torch.Tensor:
    return torch.cat([torch.full_like(gold[:1], SEQUENCES.begin), gold[:-1]])


def random_model(sizes: Sizes, dtype: torch.dtype = torch.float64) -> Copier:
    """A model with weights that are larger than fresh ones."""
    model, random = Copier.fresh(sizes, 0).double(), torch.Generator().manual_seed(3)
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(0, 0.4, generator=random)
    return model.to(dtype)


def copies(model: Copier) -> dict[str, torch.Tensor]:
    return {name: part.detach().clone() for name, part in model.named_parameters()}


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("uniform", [False, True])
@pytest.mark.parametrize("heads", [1, 4])
@pytest.mark.parametrize(("dtype", "near"), [(torch.float64, 1e-10), (torch.float32, 2e-5)])
def test_loss_and_gradient_are_those_of_the_equations(
    dtype: torch.dtype, near: float, heads: int, uniform: bool, encoder: Encoder
) -> None:
    model = random_model(Sizes(SEQUENCES.vocabulary, 16, 12, heads, encoder=encoder), dtype)
    source, gold = as_symbols(*batches(0, 0))
    expected = {name: part.requires_grad_() for name, part in copies(model).items()}
    plain = plain_loss(expected, source, gold, SEQUENCES.begin, heads, uniform)
    loss = model.loss(source, gold, uniform)
    for one in (plain, loss):
        one.backward()
    assert loss.item() == pytest.approx(plain.item(), abs=near)
    for name, weight in model.named_parameters():
        ours, theirs = (
            torch.zeros_like(part) if part.grad is None else part.grad
            for part in (weight, expected[name])
        )
        torch.testing.assert_close(ours, theirs, atol=near, rtol=0, msg=name)


@pytest.mark.parametrize("encoder", ENCODERS)
def test_a_training_is_that_of_a_plain_loop(encoder: Encoder) -> None:
    """The equations, autograd and Adam, in double precision."""
    for seed in (4, 9):
        model = Copier.fresh(SIZES[encoder], seed).double()
        weights = {name: part.requires_grad_() for name, part in copies(model).items()}
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        losses = descend(model, optimizer, (batches(seed, step) for step in range(12)))
        optimizer = torch.optim.Adam(weights.values(), lr=0.01)
        for step in range(12):
            source, gold = as_symbols(*batches(seed, step))
            optimizer.zero_grad()
            loss = plain_loss(weights, source, gold, SEQUENCES.begin)
            loss.backward()
            optimizer.step()
            assert losses[step] == pytest.approx(loss.item(), abs=1e-9)
        for name, part in copies(model).items():
            torch.testing.assert_close(part, weights[name].detach(), atol=1e-8, rtol=0, msg=name)


def trained(
    encoder: Encoder, seeds: Sequence[int], threads: int, every: int = 10
) -> dict[int, list[torch.Tensor]]:
    """The weights of every seed after ten steps."""
    config = CopyingConfig(
        (Stage(SEQUENCES, 10),), SIZES[encoder], tuple(seeds), BATCH, 0.01, every, probe=2, test=2
    )
    with torch_threads(1), ThreadPoolExecutor(threads) as pool:
        training = Training(config, pool)
        training.run()
    return {
        seed: list(copies(model).values())
        for seed, model in zip(seeds, training.models, strict=True)
    }


def equal(one: list[torch.Tensor], other: list[torch.Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("encoder", ENCODERS)
def test_a_seed_does_not_know_of_the_others(encoder: Encoder) -> None:
    """To the bit: alone, in company, in another place, with other threads, in other portions."""
    alone = trained(encoder, [2], 1)[2]
    for others in (
        trained(encoder, [2, 5, 7], 2),
        trained(encoder, [7, 5, 3, 2], 3),
        trained(encoder, [5, 2], 1, every=3),
    ):
        assert equal(others[2], alone)
    assert not equal(trained(encoder, [3], 1)[3], alone)


def test_its_seeds_and_threads_change_no_measured_number() -> None:
    stages = (Stage(SEQUENCES, 4, uniform=True), Stage(SEQUENCES, 6))
    config = CopyingConfig(stages, SIZES["lstm"], (5, 2, 9), BATCH, every=3, probe=3, test=3)
    together, alone = train(config, 2), train(replace(config, seeds=(2,)), 1)
    assert [row for row in together.curves if row["seed"] == 2] == alone.curves
    assert together.final[1] == alone.final[0]
    assert (together.alpha[1] == alone.alpha[0]).all()


@pytest.mark.parametrize("encoder", ENCODERS)
def test_states_before_a_symbol_know_it_only_where_the_encoder_reads_from_both_ends(
    encoder: Encoder,
) -> None:
    """One symbol of the source changed: which positions of the encoder tell?"""
    model, (source, gold) = random_model(SIZES[encoder]), as_symbols(*batches(0, 0))
    other = source.clone()
    other[3] = (source[3] + 1) % SEQUENCES.symbols
    with torch.no_grad():
        states = [model(xs, gold).encoded for xs in (source, other)]
    changed = (states[0] != states[1]).any(2).all(1).tolist()
    assert changed == [encoder == "bilstm"] * 3 + [True] * 4


@pytest.mark.parametrize("encoder", ENCODERS)
def test_fresh_weights_are_those_of_torch(encoder: Encoder) -> None:
    """Bounds and spread as torch's modules draw them; embeddings normal with a variance of one over their width."""
    sizes, both = Sizes(200, 32, 50, embedding_scale=0.3, encoder=encoder), encoder == "bilstm"
    weights = dict(Copier.fresh(sizes, 0).named_parameters())
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
    model = random_model(Sizes(SEQUENCES.vocabulary, 16, 12, heads, encoder=encoder))
    weights, (source, gold) = copies(model), as_symbols(*batches(1, 1))
    with torch.no_grad():
        result = model(source, gold)
        torch.testing.assert_close(
            model.output_relevance(result, gold),
            plain_relevance(weights, source, gold, SEQUENCES.begin, heads),
        )
        logits, alpha = plain_forward(weights, source, shifted(gold), heads)
        torch.testing.assert_close(result.logits, logits)
        torch.testing.assert_close(result.alpha, alpha)


def test_measures_do_not_depend_on_how_many_are_measured_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = random_model(Sizes(SEQUENCES.vocabulary, 16, 12, 2))
    rows = SEQUENCES.draw(0, "test", 0, 10)
    found = []
    for together in (32, 4, 1):
        monkeypatch.setattr("attnaudit.copying.evaluation.SEQUENCES_AT_ONCE", together)
        found.append(evaluate(model, rows, SEQUENCES.pair(rows)[1], np.arange(7)))
    for other in found[1:]:
        assert vars(other) == {name: pytest.approx(value) for name, value in vars(found[0]).items()}
    assert found[0].relevance_symbol >= found[0].relevance
    assert len(found[0].heads) == 2


def test_measures_of_attention_are_missing_while_it_is_uniform() -> None:
    rows = SEQUENCES.draw(0, "test", 0, 10)
    model = random_model(Sizes(SEQUENCES.vocabulary, 16, 12, 2))
    measured = evaluate(model, rows, SEQUENCES.pair(rows)[1], np.arange(7), uniform=True)
    missing = {name for name, value in vars(measured).items() if value in (None, ())}
    of_attention = {"attention", "attention_symbol", "entropy", "agreement", "attended", "heads"}
    assert missing == of_attention


def test_where_attention_looks_is_told_as_its_definitions_read() -> None:
    """Agreement by every way to break ties, the offset counted position by position, for what is written backwards."""
    model, right = random_model(Sizes(SEQUENCES.vocabulary, 16, 12, 2)), np.arange(7)[::-1].copy()
    weights, rows = copies(model), SEQUENCES.draw(0, "test", 0, 10)
    written = SEQUENCES.pair(rows, "reverse")[1]
    source, gold = as_symbols(rows, written)
    found = evaluate(model, rows, written, right)
    alpha = plain_forward(weights, source, shifted(gold), 2)[1].mean(1)
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
