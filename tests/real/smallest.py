"""What must hold of the smallest flipping set on every instance of a trained model."""

import numpy as np
import pytest

from attnaudit.experiments.erasure.removal import RANKINGS
from tests.oracles.erasure import every_removal_minimum

SHORT = 12


def assert_smallest(trace, table, flipped):
    """Exhaustive search agrees on every instance of up to `SHORT` tokens, at least so many ``flipped``; no ranking does with fewer."""
    least, lengths = table["removed_minimum"], trace.alpha.lengths
    found = 0
    for row in np.flatnonzero(lengths <= SHORT).tolist():
        expected = every_removal_minimum(trace, row)
        assert least[row] == (
            None if expected is None else pytest.approx(expected / lengths[row])
        ), row
        found += expected is not None
    assert found >= flipped
    for ranking in RANKINGS:
        behind = (table[f"removed_{ranking}"] - least).drop_nulls()
        assert (behind > -1e-12).all(), ranking
        assert not (table[f"removed_{ranking}"].is_not_null() & least.is_null()).any(), ranking
