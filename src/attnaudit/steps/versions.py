"""Versions of Python and of the packages that compute."""

import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version

PACKAGES = (
    *("attnaudit", "gensim", "numba", "numpy", "polars", "pyarrow"),
    *("safetensors", "scipy", "spacy", "torch", "transformers", "tokenizers", "onnxruntime"),
)


def versions() -> dict[str, str]:
    """Return the versions of Python and of `PACKAGES`, as far as installed."""
    found = {name: known for name in PACKAGES if (known := _installed(name))}
    return {"python": platform.python_version()} | found


@cache  # reading a file of metadata takes time, and every step of every run asks
def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
