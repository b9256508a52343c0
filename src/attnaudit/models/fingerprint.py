"""Which weights a model has."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from functools import cached_property

import torch
from torch import nn


def weights_fingerprint(model: nn.Module) -> str:
    """sha256 of a model's parameters by name, whatever file they lie in."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        values = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
        digest.update(f"{name} {tuple(tensor.shape)} ".encode() + values.tobytes())
    return digest.hexdigest()


class Fingerprinted(ABC):
    """What holds a model, and knows whether it is still the one that it was."""

    @property
    def fingerprint(self) -> str:
        """`current_fingerprint`, as it was when it was first asked for."""
        return self._first

    @cached_property
    def _first(self) -> str:
        return self.current_fingerprint()

    @abstractmethod
    def current_fingerprint(self) -> str:
        """The fingerprint of the model as it is."""
