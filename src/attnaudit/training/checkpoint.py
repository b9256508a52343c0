"""The state of a training after an epoch, as safetensors: weights, optimiser moments, the best weights so far, the history."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from attnaudit.core.errors import RunError
from attnaudit.core.files import atomic

FILE = "checkpoint.safetensors"


@dataclass(frozen=True)
class Checkpoint:
    """What training needs to resume besides the model and optimiser, which are restored in place."""

    history: list[dict[str, Any]]
    best: dict[str, Tensor]


def save_checkpoint(
    folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer, best: dict[str, Tensor] | None, history: list[dict[str, Any]]
) -> None:
    """Replace the checkpoint of ``folder``, whole or not at all. Raises RunError."""
    tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    tensors |= {f"best.{name}": tensor for name, tensor in (best or {}).items()}
    for number, state in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{number}.{name}": tensor for name, tensor in state.items()}
    plain = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    with atomic(folder / FILE) as temporary:
        save_file(plain, temporary, metadata={"history": json.dumps(history)})


def load_checkpoint(folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> Checkpoint | None:
    """Restore ``model`` and ``optimizer`` in place; None when there is no checkpoint. Raises RunError when it does not fit."""
    path = folder / FILE
    if not path.exists():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - safe_open is no mapping
            history = json.loads(file.metadata()["history"])
        model.load_state_dict(_part(tensors, "model."))
        optimizer.load_state_dict({**optimizer.state_dict(), "state": _moments(_part(tensors, "optimizer."))})
    except (OSError, SafetensorError, KeyError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise RunError("resume training", str(path), reason, "a checkpoint of this very model", "remove it to retrain") from error
    return Checkpoint(history, _part(tensors, "best."))


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _moments(tensors: dict[str, Tensor]) -> dict[int, dict[str, Tensor]]:
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        number, key = name.split(".", 1)
        state.setdefault(int(number), {})[key] = tensor
    return state
