"""Weights of a model: their file, count and fingerprint."""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from attnaudit.core import RunError, atomic

FILE = "weights.safetensors"


def write_weights(folder: Path, model: nn.Module, described: Mapping[str, Any]) -> None:
    """Write the weights of a model.

    Args:
        folder: Folder that gets the file `FILE`.
        model: The model.
        described: Description of the model that JSON can hold; `read_weights` returns it.

    Raises:
        RunError: The file cannot be written.
    """
    metadata = {"attnaudit": json.dumps(described, sort_keys=True)}
    with atomic(folder / FILE) as temporary:
        save_file(copied(model.state_dict()), temporary, metadata=metadata)


def read_weights(folder: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return the description and the weights in ``folder``. Call it inside `restoring`."""
    with safe_open(folder / FILE, framework="pt") as file:
        described = json.loads(file.metadata()["attnaudit"])
    return described, load_file(folder / FILE)


@contextmanager
def restoring(folder: Path) -> Iterator[None]:
    """Turn errors in the block that mean a damaged model into RunError."""
    # RuntimeError is what torch raises for weights of other names or shapes; the others come from
    # unreadable files and from descriptions without an entry or with a wrong one.
    try:
        yield
    except (OSError, SafetensorError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise RunError(
            "load model",
            str(folder / FILE),
            " ".join(str(error).split()),
            "weights written by attnaudit",
            "retrain the model",
        ) from error


def copied(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Copy tensors to the CPU, because safetensors refuses those that share memory."""
    return {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}


def weights_fingerprint(model: nn.Module) -> str:
    """Return the sha256 of a model's weights by name, independent of their file."""
    return digest_of(model.state_dict())


def digest_of(tensors: Mapping[str, Tensor]) -> str:
    """Return the sha256 of tensors: their names, shapes and bytes."""
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        # numpy has no bfloat16, so tensors are hashed as bytes.
        values = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
        digest.update(f"{name} {tuple(tensor.shape)} ".encode() + values.tobytes())
    return digest.hexdigest()


class Fingerprinted(ABC):
    """Base of objects that hold a model and must notice when it changes."""

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the model at the time of the first access."""
        return self._first

    @cached_property
    def _first(self) -> str:
        return self.current_fingerprint()

    @abstractmethod
    def current_fingerprint(self) -> str:
        """Compute the fingerprint of the model as it is now."""
