"""Many seeds of one small sequence-to-sequence model, trained side by side on a CPU, each with its own weights, batches and optimiser.

Seeds share no number, and a thread works on one at a time, so that what it works on stays near the processor. So what a seed becomes is
the same, to the bit, whichever seeds are trained with it, in whatever order, on however many threads, and in whatever portions of steps.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import local
from typing import TypeVar

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from attnaudit.copying.lstm import Workspace
from attnaudit.copying.network import Sizes, loss_and_gradient, views
from attnaudit.core.kernels import kernel
from attnaudit.core.random import stream_keys

Rows = Int64[np.ndarray, "B T"]
Batches = Callable[[int, int], tuple[Rows, Rows]]
"""A seed and a step to its sources and what is to be written."""
Made = TypeVar("Made")
_ALIGNED = 16  # numbers: rows of the table of weights begin where a processor's widest load does
_BETAS, _EPSILON = (0.9, 0.999), 1e-8
_SWITCH = 1e-5  # seconds


@dataclass
class SideBySide:
    """The weights of every seed, ``(S, P)``, and the two moments of Adam (Kingma & Ba 2015)."""

    sizes: Sizes
    seeds: tuple[int, ...]
    weights: Float[Tensor, "S P"]
    moments: Float[Tensor, "2 S P"]
    steps: int = 0  # done since the moments were zero
    _of_thread: local = field(default_factory=local, repr=False)

    @classmethod
    def fresh(
        cls, sizes: Sizes, seeds: Sequence[int], dtype: torch.dtype = torch.float32
    ) -> SideBySide:
        """Each seed's weights drawn from it alone, as torch's modules draw them; embeddings normal, of `Sizes.embedding_scale`."""
        width = -(-sizes.count // _ALIGNED) * _ALIGNED
        weights = torch.zeros(len(seeds), width, dtype=dtype)
        for seed, row in zip(seeds, weights, strict=True):
            draw = torch.Generator().manual_seed(
                int(stream_keys(seed, "sequence-to-sequence weights")[0] >> np.uint64(1))
            )
            for name, part in views(sizes, row[: sizes.count]).items():
                scale, fresh = sizes.scale(name), torch.empty(part.shape)
                normal = name == "embedding.weight"
                part.copy_(
                    fresh.normal_(0, scale, generator=draw)
                    if normal
                    else fresh.uniform_(-scale, scale, generator=draw)
                )
        return cls(sizes, tuple(seeds), weights, torch.zeros(2, *weights.shape, dtype=dtype))

    def reset_optimizer(self) -> None:
        """Begin another training with these weights."""
        self.moments.zero_()
        self.steps = 0

    def of(self, place: int) -> Mapping[str, Tensor]:
        """The weights of the seed at ``place`` by name, as views."""
        return views(self.sizes, self.weights[place, : self.sizes.count])

    def advance(
        self,
        pool: ThreadPoolExecutor,
        batches: Batches,
        steps: int,
        first: int,
        *,
        begin: int,
        learning_rate: float = 1e-3,
        uniform: bool = False,
        tell: Callable[[], None] = lambda: None,
    ) -> Float[np.ndarray, "S steps"]:
        """``steps`` more steps of every seed, with batches ``first`` and on; their losses. ``tell`` is called after each seed."""

        def one(place: int) -> np.ndarray:
            losses = [
                self._step(
                    place,
                    batches(self.seeds[place], first + k),
                    self.steps + k + 1,
                    begin,
                    learning_rate,
                    uniform,
                )
                for k in range(steps)
            ]
            tell()
            return np.array(losses)

        found = self.each(pool, one)
        self.steps += steps
        return np.stack(found)

    def each(self, pool: ThreadPoolExecutor, work: Callable[[int], Made]) -> list[Made]:
        """What ``work`` gives for the place of every seed, no graph kept. The first failure is raised, the rest dropped."""

        def quietly(place: int) -> Made:
            with torch.no_grad():
                return work(place)

        waiting: list[Future[Made]] = [
            pool.submit(quietly, place) for place in range(len(self.seeds))
        ]
        try:
            return [one.result() for one in waiting]
        finally:
            for one in waiting:
                one.cancel()

    def workspace(self) -> Workspace:
        """The memory of the thread that asks."""
        if not hasattr(self._of_thread, "workspace"):
            self._of_thread.workspace = Workspace(self.weights.dtype)
            self._of_thread.gradient = torch.zeros(self.weights.shape[1], dtype=self.weights.dtype)
        return self._of_thread.workspace

    def _step(
        self,
        place: int,
        batch: tuple[Rows, Rows],
        number: int,
        begin: int,
        learning_rate: float,
        uniform: bool,
    ) -> float:
        workspace, (source, gold) = self.workspace(), as_tensors(*batch)
        gradient: Tensor = self._of_thread.gradient
        named = views(self.sizes, gradient[: self.sizes.count])
        loss = loss_and_gradient(
            self.sizes,
            self.of(place),
            workspace,
            source,
            shifted(gold, begin),
            gold,
            named,
            uniform,
        )
        _adam(self.weights[place], gradient, self.moments[:, place], number, learning_rate)
        return loss


def as_tensors(*rows: Rows) -> tuple[Int64[Tensor, "T B"], ...]:
    """Sequences as the model takes them, a column each."""
    return tuple(torch.from_numpy(part).t().contiguous() for part in rows)


def shifted(gold: Int64[Tensor, "T B"], begin: int) -> Int64[Tensor, "T B"]:
    """The symbol before each that is to be written."""
    return torch.cat([torch.full_like(gold[:1], begin), gold[:-1]])


@contextmanager
def workers(threads: int) -> Iterator[ThreadPoolExecutor]:
    """Threads that share no arithmetic: each computes on one core.

    A step is a thousand short calls, between which a thread asks for the interpreter again. Within, one that asks gets it at once.
    """
    before = sys.getswitchinterval()
    with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        sys.setswitchinterval(_SWITCH)
        try:
            yield pool
        finally:
            sys.setswitchinterval(before)


def _adam(
    weights: Float[Tensor, " P"],
    gradient: Float[Tensor, " P"],
    moments: Float[Tensor, "2 P"],
    number: int,
    rate: float,
) -> None:
    first, second = _BETAS
    number_type = np.float32 if weights.dtype == torch.float32 else np.float64
    size, root = rate / (1 - first**number), 1 / math.sqrt(1 - second**number)
    constants = (
        number_type(value) for value in (first, 1 - first, second, 1 - second, size, root, _EPSILON)
    )
    _adam_kernel(
        weights.numpy(), gradient.numpy(), moments[0].numpy(), moments[1].numpy(), *constants
    )


@kernel
def _adam_kernel(
    weights, gradient, mean, square, keep, take, keep_square, take_square, size, root, epsilon
):
    for k in range(len(weights)):
        g = gradient[k]
        m = keep * mean[k] + take * g
        v = keep_square * square[k] + take_square * g * g
        mean[k], square[k] = m, v
        weights[k] -= size * m / (np.sqrt(v) * root + epsilon)
