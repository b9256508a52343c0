"""Transformers of the transformers library: their attention read, replaced, checked and traced."""

from attnaudit.hf.encode import load_tokenizer
from attnaudit.hf.gate import Check, Gate, check_model
from attnaudit.hf.load import load_pretrained
from attnaudit.hf.network import Replay
from attnaudit.hf.texts import read_texts
from attnaudit.hf.trace import collect
from attnaudit.torch.capture import Attention, Mixture, Pass, forward

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
