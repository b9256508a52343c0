"""The copying model and its training against torch's modules, and seeds against one another."""

import statistics
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch

from attnaudit.copying.model import Copier, as_symbols
from attnaudit.copying.study import Copying
from attnaudit.copying.training import Training, evaluate
from attnaudit.training.loop import torch_threads
from tests.oracles.agreement import naive_agreement
from tests.oracles.seq2seq import plain_forward, plain_loss, plain_relevance

STUDY = Copying(
    "iid", "tied", 7, 5, hidden=16, embedding=12, batch=6, steps=10, learning_rate=0.01, probe=2, test=2
)  # fmt: skip
SEQUENCES = STUDY.sequences
ENCODERS = ("lstm", "bilstm")


def batch_of(seed, step, sequences=SEQUENCES):
    return sequences.pair(sequences.draw(seed, "train", 6 * step, 6))


def shifted(gold):
    return torch.cat([torch.full_like(gold[:1], SEQUENCES.begin), gold[:-1]])


def random_model(dtype=torch.float64, **sizes):
    """A model with weights that are larger than fresh ones."""
    model, random = (
        Copier.fresh(replace(STUDY, **sizes), 0).double(),
        torch.Generator().manual_seed(3),
    )
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(0, 0.4, generator=random)
    return model.to(dtype)


def slope_of(weight):
    """Its gradient, which is 0 where the loss does not depend on it."""
    return torch.zeros_like(weight) if weight.grad is None else weight.grad


def copies(model):
    return {name: part.detach().clone() for name, part in model.named_parameters()}


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("uniform", [False, True])
@pytest.mark.parametrize("heads", [1, 4])
@pytest.mark.parametrize(("dtype", "near"), [(torch.float64, 1e-10), (torch.float32, 2e-5)])
def test_loss_and_gradient_are_those_of_the_equations(dtype, near, heads, uniform, encoder):
    model = random_model(dtype, heads=heads, encoder=encoder)
    source, gold = as_symbols(*batch_of(0, 0))
    expected = {name: part.requires_grad_() for name, part in copies(model).items()}
    plain = plain_loss(expected, source, gold, SEQUENCES.begin, heads, uniform)
    loss = model.loss(source, gold, uniform)
    for one in (plain, loss):
        one.backward()
    assert loss.item() == pytest.approx(plain.item(), abs=near)
    for name, weight in model.named_parameters():
        ours, theirs = map(slope_of, (weight, expected[name]))
        torch.testing.assert_close(ours, theirs, atol=near, rtol=0, msg=name)


def trained(threads, **settings):
    """The weights of every seed after ten steps."""
    with torch_threads(1), ThreadPoolExecutor(threads) as pool:
        training = Training(replace(STUDY, **settings), pool)
        training.run()
    models = zip(training.seeds, training.models, strict=True)
    return {seed: list(copies(model).values()) for seed, model in models}


def equal(one, other):
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("encoder", ENCODERS)
def test_a_seed_does_not_know_of_the_others(encoder):
    """To the bit: alone, in company, in another place, with other threads, in other portions."""
    alone = trained(1, encoder=encoder, seed=2, seeds=1)[2]
    for others in (
        trained(2, encoder=encoder, seed=2, seeds=3),
        trained(3, encoder=encoder, seed=0, seeds=4),
        trained(1, encoder=encoder, seed=1, seeds=2, every=3),
    ):
        assert equal(others[2], alone)
    assert not equal(trained(1, encoder=encoder, seed=3, seeds=1)[3], alone)


@pytest.mark.parametrize("encoder", ENCODERS)
def test_fresh_weights_are_those_of_torch(encoder):
    """Uniform in ±1/√n as torch's modules draw them; embeddings normal with the given standard deviation."""
    sizes = {"symbols": 100, "hidden": 32, "embedding": 50, "embedding_scale": 0.3}
    weights = dict(Copier.fresh(replace(STUDY, encoder=encoder, **sizes), 0).named_parameters())
    assert weights.pop("embedding.weight").std().item() == pytest.approx(0.3, rel=0.05)
    width = {"encoder": 16 if encoder == "bilstm" else 32}
    for name, part in weights.items():
        bound = width.get(name.partition(".")[0], 32) ** -0.5
        if part.numel() > 1000:
            assert part.abs().max().item() == pytest.approx(bound, rel=0.02), name


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("heads", [1, 2])
def test_output_relevance_is_the_log_probability_with_all_attention_on_one_position(heads, encoder):
    model = random_model(heads=heads, encoder=encoder)
    weights, (source, gold) = copies(model), as_symbols(*batch_of(1, 1))
    with torch.no_grad():
        result = model(source, gold)
        torch.testing.assert_close(
            model.output_relevance(result, gold),
            plain_relevance(weights, source, gold, SEQUENCES.begin, heads),
        )
        logits, alpha = plain_forward(weights, source, shifted(gold), heads)
        torch.testing.assert_close(result.logits, logits)
        torch.testing.assert_close(result.alpha, alpha)


def test_measures_do_not_depend_on_how_many_are_measured_together(monkeypatch):
    model = random_model(heads=2)
    rows = SEQUENCES.draw(0, "test", 0, 10)
    found = []
    for together in (32, 4, 1):
        monkeypatch.setattr("attnaudit.copying.training.SEQUENCES_AT_ONCE", together)
        found.append(evaluate(model, rows, SEQUENCES.pair(rows)[1], np.arange(7)))
    for other in found[1:]:
        assert vars(other) == {name: pytest.approx(value) for name, value in vars(found[0]).items()}
    assert found[0].relevance_symbol >= found[0].relevance
    assert len(found[0].heads) == 2


def test_where_attention_looks_is_told_as_its_definitions_read():
    """Agreement by every way to break ties, the offset counted position by position, for what is written backwards."""
    model, right = random_model(heads=2), np.arange(7)[::-1].copy()
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
