"""Exports of ONNX graphs, which most tests here make, and folders of models."""

import pytest

from tests.hf.command import save_models


@pytest.fixture(scope="package", autouse=True)
def _exports(one_registry):
    """With one registry."""


@pytest.fixture(scope="package")
def models(tmp_path_factory):
    """Folders of a classifier and of a language model."""
    return save_models(tmp_path_factory.mktemp("models"))
