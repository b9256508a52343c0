"""Checkpoints of a training: tensors and a state, with a digest, so that a damaged one counts as not there."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from attnaudit.core.files import atomic


def save_checkpoint(path: Path, tensors: Mapping[str, Tensor], state: Any) -> None:
    """Replace the checkpoint at ``path``, whole or not at all; ``state`` is plain JSON. Raises RunError."""
    plain = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    stored = json.dumps(state)
    with atomic(path) as temporary:
        save_file(plain, temporary, metadata={"state": stored, "sha256": _digest(plain, stored)})


def load_checkpoint(path: Path) -> tuple[dict[str, Tensor], Any] | None:
    """Tensors and state as they were saved; None where there is no checkpoint, or a damaged one."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - safe_open is no mapping
        intact = _digest(tensors, metadata["state"]) == metadata["sha256"]
        return (tensors, json.loads(metadata["state"])) if intact else None
    except (OSError, SafetensorError, KeyError, ValueError, RuntimeError):
        return None


def _digest(tensors: Mapping[str, Tensor], state: str) -> str:
    """sha256 of the state and of every tensor's name, type, shape and bytes."""
    digest = hashlib.sha256(state.encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"\n{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
