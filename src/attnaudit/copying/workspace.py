"""Memory that is kept from step to step: large new memory is the system's to clear, page by page, which takes as long as the arithmetic."""

from __future__ import annotations

import torch
from torch import Tensor


class Workspace:
    """Tensors by name, each made when it is first asked for and the same ever after; what they hold is what was last written there.

    One thread works in a room at a time.
    """

    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        self._dtype, self._held = dtype, dict[tuple[str, tuple[int, ...]], Tensor]()

    def __call__(self, name: str, *shape: int) -> Tensor:
        """The tensor ``name`` of this shape, its content whatever it may be."""
        if (name, shape) not in self._held:
            self._held[name, shape] = torch.empty(shape, dtype=self._dtype)
        return self._held[name, shape]
