"""The public interface: few names, each told in its docstring, none of them in the way of another."""

from __future__ import annotations

import subprocess
import sys

import pytest

import attnaudit


def test_few_names() -> None:
    assert len(attnaudit.__all__) <= 20


@pytest.mark.parametrize("name", attnaudit.__all__)
def test_every_public_name_is_there_and_says_what_it_is(name: str) -> None:
    thing = getattr(attnaudit, name)
    assert (thing.__doc__ or "").strip()
    assert not (thing.__doc__ or "").startswith(f"{name}(")  # what a dataclass without a docstring has


def test_a_public_name_is_never_a_module_of_that_name() -> None:
    """Importing a submodule sets it as an attribute of the package, which would hide a function of its name."""
    code = "import attnaudit, attnaudit.tracing.texts, attnaudit.runner, attnaudit.experiments\nassert callable(attnaudit.collect)"
    subprocess.run([sys.executable, "-c", code], check=True)
    for name in attnaudit.__all__:
        assert callable(getattr(attnaudit, name))
