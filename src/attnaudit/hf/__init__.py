"""Transformers of the transformers library: their attention, read and replaced, the checks that show that both are exact, and traces."""

from attnaudit.hf.capture import Attention, Mixture, Pass, forward
from attnaudit.hf.encode import load_tokenizer
from attnaudit.hf.gate import Check, Gate, check_model
from attnaudit.hf.load import load_pretrained
from attnaudit.hf.network import Replay
from attnaudit.hf.sources import read_texts
from attnaudit.hf.trace import collect

__all__ = [
    "Attention", "Check", "Gate", "Mixture", "Pass", "Replay", "check_model", "collect", "forward", "load_pretrained", "load_tokenizer",
    "read_texts",
]  # fmt: skip
