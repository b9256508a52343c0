"""How much of a state is its own word's, against the whole Jacobian."""

import numpy as np
import pytest
import torch

from attnaudit.core.random import below, stream_keys
from attnaudit.tracing.own_token import PURPOSE, own_token
from tests.models.tiny import tiny_model, tiny_split
from tests.oracles.own_token import naive_own_token

LENGTHS = [5, 1, 17, 3, 9, 30]


@pytest.mark.parametrize("encoder", ["bilstm", "bigru", "cnn", "transformer", "mixed"])
def test_the_estimate_is_that_of_the_whole_jacobian(encoder):
    model, split = tiny_model(encoder, "additive"), tiny_split(LENGTHS)
    found = own_token(model, split, 3, projections=500)
    draws = below(stream_keys(3, PURPOSE, split.instance), 0, np.array(LENGTHS))
    expected = [
        naive_own_token(model, model.inputs(split), row, 1 + draws[row])
        for row in found["instance"]
    ]
    assert found["own_token"] == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize("encoder", ["none", "average"])
def test_without_mixing_it_is_exactly_1(encoder):
    found = own_token(tiny_model(encoder, "additive"), tiny_split(LENGTHS), 0)
    assert set(found["own_token"]) == {1.0}


def test_more_of_the_bilstm_is_less_of_the_own_word():
    shares = []
    for mixing in (0.0, 0.3, 1.0):
        model = tiny_model("mixed", "additive", mixing=mixing)
        shares.append(np.mean(own_token(model, tiny_split(LENGTHS), 0)["own_token"]))
    assert shares[0] == 1.0
    assert shares == sorted(shares, reverse=True)


def test_all_of_the_bilstm_is_a_bilstm():
    mixed, bilstm = tiny_model("mixed", "additive", mixing=1.0), tiny_model("bilstm", "additive")
    weights = mixed.encoder.state_dict()
    bilstm.encoder.load_state_dict(
        {name.removeprefix("recurrent."): one for name, one in weights.items() if "rnn" in name}
    )
    embedded, lengths = torch.randn(2, 7, 12), torch.tensor([7, 4])
    own, other = (model.encoder(embedded, lengths) for model in (mixed, bilstm))
    assert torch.equal(own, other)


def test_it_depends_neither_on_the_order_nor_on_other_texts():
    model, split = tiny_model("bilstm", "additive"), tiny_split(LENGTHS)
    whole = own_token(model, split, 0)
    by_instance = dict(zip(whole["instance"], whole["own_token"], strict=True))
    part = own_token(model, split.take(np.array([4, 2])), 0)
    assert dict(zip(part["instance"], part["own_token"], strict=True)) == pytest.approx(
        {row: by_instance[row] for row in (4, 2)}
    )
    assert len(own_token(model, split, 0, texts=3)["instance"]) == 3
