"""Which model it is: its class, its weights, and what its configuration says of how it computes."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from attnaudit.models.weights import weights_fingerprint

NAMES = {
    "_name_or_path", "name_or_path", "architectures", "dtype", "torch_dtype", "finetuning_task", "id2label", "label2id", "problem_type",
    "return_dict", "task_specific_params", "tokenizer_class", "torchscript", "transformers_version", "use_cache",
}  # fmt: skip  # what a configuration says besides: names, what is kept and reported, the version that has written it
BEGINNINGS = (
    "_attn_implementation",
    "_experts_implementation",
    "chunk_size_feed_forward",
    "initializer",
    "output_",
)
"""How others of these begin."""


def model_fingerprint(model: Any) -> str:
    """sha256 of the class, the weights and the configuration of a model of the transformers library.

    Two models with the same weights may compute otherwise, as with another activation, number of heads or padding token. Names of the
    outputs, dropout and how attention is implemented change nothing.
    """
    parts = [
        type(model).__name__,
        weights_fingerprint(model),
        _of_computing(model.config.to_dict()),
    ]
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()


def _of_computing(config: Any) -> Any:
    """What a configuration, and every one within it, says of how the model computes."""
    if not isinstance(config, dict):
        return config
    kept = (
        name
        for name in config
        if name not in NAMES and not str(name).startswith(BEGINNINGS) and "drop" not in str(name)
    )
    return {str(name): _of_computing(config[name]) for name in kept}
