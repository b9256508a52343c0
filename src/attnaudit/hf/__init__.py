"""Transformers of the transformers library: their attention, read and replaced, and the checks that show that both are exact."""

from attnaudit.hf.capture import Attention, Pass, forward
from attnaudit.hf.gate import Check, Gate, check_model

__all__ = ["Attention", "Check", "Gate", "Pass", "check_model", "forward"]
