"""Versions of Python and of the packages that compute."""

from __future__ import annotations

import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version

PACKAGES = (
    *("attnaudit", "gensim", "numba", "numpy", "polars", "pyarrow"),
    *("safetensors", "scipy", "spacy", "torch"),
)
OF_TRANSFORMERS = ("transformers", "tokenizers", "onnxruntime")


def versions(*more: str) -> dict[str, str]:
    """Return the versions of Python, of `PACKAGES` and of ``more``, as far as installed."""
    found = {name: known for name in (*PACKAGES, *more) if (known := _installed(name))}
    return {"python": platform.python_version()} | found


@cache  # reading a file of metadata takes time, and every step of every run asks
def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
