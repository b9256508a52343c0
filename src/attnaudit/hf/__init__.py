"""Transformers of the transformers library: their attention read, replaced, checked and traced.

Names are imported when they are asked for: `attnaudit.torch` reads attention by the same functions,
and needs no transformers.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attnaudit.hf.capture import Attention, Mixture, Pass, forward
    from attnaudit.hf.encode import load_tokenizer
    from attnaudit.hf.gate import Check, Gate, check_model
    from attnaudit.hf.load import load_pretrained
    from attnaudit.hf.network import Replay
    from attnaudit.hf.texts import read_texts
    from attnaudit.hf.trace import collect

_MODULES = {
    "capture": ("Attention", "Mixture", "Pass", "forward"),
    "encode": ("load_tokenizer",),
    "gate": ("Check", "Gate", "check_model"),
    "load": ("load_pretrained",),
    "network": ("Replay",),
    "texts": ("read_texts",),
    "trace": ("collect",),
}

__all__ = [
    "Attention",
    "Check",
    "Gate",
    "Mixture",
    "Pass",
    "Replay",
    "check_model",
    "collect",
    "forward",
    "load_pretrained",
    "load_tokenizer",
    "read_texts",
]


def __dir__() -> list[str]:
    return list(__all__)


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"attnaudit.hf.{module}"), name)
    raise AttributeError(f"module 'attnaudit.hf' has no attribute {name!r}")
