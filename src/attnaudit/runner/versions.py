"""The versions that a run's numbers depend on."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

PACKAGES = ("attnaudit", "gensim", "numba", "numpy", "polars", "pyarrow", "safetensors", "scipy", "spacy", "torch")


def versions() -> dict[str, str]:
    """Python and every package that computes; one that is not installed is left out."""
    return {"python": platform.python_version()} | {name: found for name in PACKAGES if (found := _installed(name))}


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
