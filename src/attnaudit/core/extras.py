"""Optional dependencies; audits, reports and comparisons need none of them."""

from importlib.util import find_spec

from attnaudit.core.errors import RunError

# Modules, not distributions: sklearn comes from scikit-learn. Keep in step with pyproject.toml.
_ONNX = ("onnx", "onnxruntime")
_TRAIN = ("torch", "gensim", "spacy", "sklearn", "pooch", "requests")
PACKAGES = {
    "train": _TRAIN,
    "translate": (*_TRAIN, "sacrebleu", "sentencepiece"),
    "hf": ("torch", "transformers", "onnxscript", *_ONNX),
    "captum": ("captum",),
    "ray": ("ray",),
    "onnx": _ONNX,
    "serve": ("fastapi", "uvicorn"),
}


def require(extra: str, operation: str) -> None:
    """Check that all packages of an extra are installed.

    Args:
        extra: Name of the extra in pyproject.toml.
        operation: Operation that needs it, for the error.

    Raises:
        RunError: If a package is missing.
    """
    # `find_spec` only looks for them: importing torch would delay an error by seconds.
    missing = [package for package in PACKAGES[extra] if find_spec(package) is None]
    if missing:
        raise RunError(
            operation,
            "this installation",
            f"without {', '.join(missing)}",
            f"the packages of the extra {extra}",
            f"pip install 'attnaudit[{extra}]'",
        )
