"""What the exporter of ONNX graphs makes anew for every graph, from thousands of lines of source, made once."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest
from torch.onnx._internal.exporter import _registration


@pytest.fixture(scope="package", autouse=True)
def _one_registry() -> Iterator[None]:
    """The table of functions that have a form in ONNX: an export reads it, and adds to it only what `torch.onnx.export` is given."""
    made = staticmethod(cache(_registration.ONNXRegistry.from_torchlib))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_registration.ONNXRegistry, "from_torchlib", made)
        yield
