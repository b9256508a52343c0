"""Exports of ONNX graphs, which most tests here make."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="package", autouse=True)
def _exports(one_registry: None) -> None:
    """With one registry."""
