"""Encoders of a dial are registered where they are needed; other tests of the same process do not see them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from attnaudit.models.presets import ENCODERS


@pytest.fixture(scope="package", autouse=True)
def encoders_put_back() -> Iterator[None]:
    before = dict(ENCODERS.items())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ENCODERS, "_entries", dict(before))
        yield
