"""Settings of experiments at the ends of their ranges: the last value that makes sense is taken, the next one refused by name."""

import pytest

from attnaudit.core import InputError
from attnaudit.experiments import make_experiment

RANGES = [
    ("permutation", "permutations", [1, 1_000_000], [0, 1_000_001]),
    ("correlation", "significance", [0.0, 1.0], [-0.01, 1.01, float("nan")]),
    ("comprehensiveness", "orders", [1, 10_000], [0, 10_001, 10**20]),
    ("adversary", "epsilon", [0.0, 1.0], [-0.01, 1.01, float("nan")]),
    ("ranges", "epsilon", [0.0, 1.0], [-0.01, 1.01, float("nan")]),
    ("joint", "sweeps", [1, 100], [0, 101]),
]


@pytest.mark.parametrize(("name", "setting", "taken", "refused"), RANGES)
def test_the_ends_of_a_range_belong_to_it_and_nothing_beyond(name, setting, taken, refused):
    for value in taken:
        assert getattr(make_experiment(name, {setting: value}), setting) == value
    for value in refused:
        with pytest.raises(InputError, match=f"{name}.{setting}"):
            make_experiment(name, {setting: value})
