"""Products of rows in whole blocks, whichever library multiplies."""

import numpy as np
import pytest
import torch

from attnaudit.models import product as products
from attnaudit.models.product import BLOCK, prepared, product, whole_blocks


@pytest.mark.parametrize("onednn", [products.ONEDNN, False])
@pytest.mark.parametrize("count", [1, BLOCK - 1, BLOCK, BLOCK + 1, 1000])
def test_rows_beyond_the_count_do_not_matter(onednn, count, monkeypatch):
    monkeypatch.setattr(products, "ONEDNN", onednn)
    random = np.random.default_rng(count)
    rows, weight = (
        random.standard_normal((whole_blocks(count), 24)),
        random.standard_normal((40, 24)),
    )
    rows[count:] = np.nan
    ours = product(
        torch.from_numpy(rows).float(), count, prepared(torch.from_numpy(weight).float())
    )
    assert ours.shape == (count, 40)
    np.testing.assert_allclose(ours.numpy(), rows[:count] @ weight.T, atol=1e-5)
