"""Weights of modules that are made in a test are the same in every run."""

import pytest
import torch


@pytest.fixture(autouse=True)
def same_weights():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield
