"""What an installation has: audits, reports and comparisons need none of these packages, training and translation do."""

from __future__ import annotations

from importlib.util import find_spec

from attnaudit.core.errors import RunError

_TRAIN = ("torch", "gensim", "spacy", "sklearn", "pooch", "requests", "pyarrow")
PACKAGES = {
    "parquet": ("pyarrow",),
    "train": _TRAIN,
    "translate": (*_TRAIN, "sacrebleu", "sentencepiece"),
    "hf": (
        "torch",
        "transformers",
        "sentencepiece",
        "onnx",
        "onnxscript",
        "onnxruntime",
        "pyarrow",
    ),
    "ray": ("ray",),
    "onnx": ("onnx", "onnxruntime"),
    "serve": ("starlette", "uvicorn"),
}  # the modules of the extras in pyproject.toml


def require(extra: str, operation: str) -> None:
    """Raise RunError where a package of the ``extra`` is missing; imports none of them."""
    missing = [package for package in PACKAGES[extra] if find_spec(package) is None]
    if missing:
        do = f"pip install 'attnaudit[{extra}]'"
        raise RunError(
            operation,
            "this installation",
            f"without {', '.join(missing)}",
            f"the packages of the extra {extra}",
            do,
        )
