"""Transformers of the transformers library: their attention, read and replaced, the checks that show that both are exact, and traces.

What is here is imported when it is asked for: `attnaudit.torch` reads attention by the same functions, and needs no transformers.
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
    from attnaudit.hf.sources import read_texts
    from attnaudit.hf.trace import collect

_HOME = {
    "Attention": "capture", "Mixture": "capture", "Pass": "capture", "forward": "capture", "load_tokenizer": "encode", "Check": "gate",
    "Gate": "gate", "check_model": "gate", "load_pretrained": "load", "Replay": "network", "read_texts": "sources", "collect": "trace",
}  # fmt: skip

__all__ = [
    "Attention", "Check", "Gate", "Mixture", "Pass", "Replay", "check_model", "collect", "forward", "load_pretrained", "load_tokenizer",
    "read_texts",
]  # fmt: skip


def __dir__() -> list[str]:
    return list(__all__)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"attnaudit.hf.{_HOME[name]}"), name)
    raise AttributeError(f"module 'attnaudit.hf' has no attribute {name!r}")
