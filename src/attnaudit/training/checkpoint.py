"""Checkpoints of a training: tensors and a state, with a digest that reveals damage."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from attnaudit.core import atomic
from attnaudit.models.weights import copied, digest_of


def save_checkpoint(path: Path, tensors: Mapping[str, Tensor], state: Any) -> None:
    """Write a checkpoint, replacing an earlier one atomically.

    Args:
        path: The file.
        tensors: Tensors by name.
        state: Anything that JSON can hold.

    Raises:
        RunError: The file cannot be written.
    """
    plain, stored = copied(tensors), json.dumps(state)
    with atomic(path) as temporary:
        save_file(plain, temporary, metadata={"state": stored, "sha256": _digest(plain, stored)})


def load_checkpoint(path: Path) -> tuple[dict[str, Tensor], Any] | None:
    """Return the tensors and the state of a checkpoint; None if it is missing or damaged."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            names = file.keys()  # safe_open is not a mapping, so it cannot be iterated
            tensors = {name: file.get_tensor(name) for name in names}
        intact = _digest(tensors, metadata["state"]) == metadata["sha256"]
        return (tensors, json.loads(metadata["state"])) if intact else None
    # A damaged checkpoint only costs time: the training starts again and has the same result.
    except (OSError, SafetensorError, KeyError, ValueError, RuntimeError):
        return None


def training_tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return weights and optimizer moments by name."""
    tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    for number, moments in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{number}.{name}": tensor for name, tensor in moments.items()}
    return tensors


def restore_training(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    tensors: Mapping[str, Tensor],
    prefix: str = "",
) -> None:
    """Load `training_tensors` into a model and its optimizer.

    Args:
        model: The model.
        optimizer: Its optimizer.
        tensors: Tensors of a checkpoint.
        prefix: Only tensors whose names begin with this are used, under the rest of their names.

    Raises:
        KeyError, ValueError or RuntimeError: The tensors belong to another model.
    """
    model.load_state_dict(with_prefix(tensors, f"{prefix}model."))
    moments: dict[int, dict[str, Tensor]] = {}
    for name, tensor in with_prefix(tensors, f"{prefix}optimizer.").items():
        number, key = name.split(".", 1)
        moments.setdefault(int(number), {})[key] = tensor
    # Groups come from the settings, not from the file, which only holds tensors.
    optimizer.load_state_dict({**optimizer.state_dict(), "state": moments})


def with_prefix(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Return the tensors whose names begin with ``prefix``, keyed by the rest of their names."""
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }


def _digest(tensors: Mapping[str, Tensor], state: str) -> str:
    """Return the sha256 of the state and of every tensor's name, type, shape and bytes."""
    typed = {f"{name} {tensor.dtype}": tensor for name, tensor in tensors.items()}
    return hashlib.sha256(f"{digest_of(typed)} {state}".encode()).hexdigest()
