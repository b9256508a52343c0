"""A forward pass that begins at a layer, with what an earlier pass computed below it.

A `Recorder` keeps every call of the layers of a stack, `resumed` makes the model begin at one of
them. Layers are the elements of the outermost ``nn.ModuleList`` around a module of attention; a
model that calls a layer several times has as many calls.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from attnaudit.hf.capture import forward

Choice = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Call:
    """One call of a layer.

    Attributes:
        module: The layer.
        hidden: Its hidden input.
        output: Its output.
        attentions: Numbers of the attentions computed inside.
    """

    module: nn.Module
    hidden: Tensor
    output: Any
    attentions: range


def layers_around(model: nn.Module, path: str) -> nn.ModuleList | None:
    """Return the outermost list of modules around the module at ``path``, if there is one."""
    parts = path.split(".")
    around = (model.get_submodule(".".join(parts[:depth])) for depth in range(1, len(parts)))
    return next((module for module in around if isinstance(module, nn.ModuleList)), None)


class Recorder:
    """Keeps the calls of layers while a model runs."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self._attentions = 0

    def count(self, attention: Any) -> None:
        """Count an attention, as the exchange of `capture.forward`."""
        self._attentions += 1

    @contextmanager
    def watching(self, layers: nn.ModuleList) -> Iterator[None]:
        """Record the calls of ``layers`` inside the block."""
        begun: list[tuple[Tensor, int]] = []

        def enter(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            hidden = args[0] if args else next(iter(kwargs.values()))
            hidden = hidden if isinstance(hidden, Tensor) else torch.empty(0)
            begun.append((hidden, self._attentions))

        def leave(module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
            hidden, first = begun.pop()
            self.calls.append(Call(module, hidden, output, range(first, self._attentions)))

        handles = []
        for module in dict.fromkeys(layers):
            handles.append(module.register_forward_pre_hook(enter, with_kwargs=True))
            handles.append(module.register_forward_hook(leave, with_kwargs=True))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()


def record(model: nn.Module, inputs: Mapping[str, Any], layers: nn.ModuleList) -> list[Call]:
    """Run ``model(**inputs)`` of one text, and return the calls of ``layers``."""
    recorder = Recorder()
    with recorder.watching(layers):
        forward(model, inputs, recorder.count)
    return recorder.calls


@contextmanager
def resumed(calls: Sequence[Call], first: int, choose: Choice) -> Iterator[None]:
    """Begin passes inside the block at one call of a layer.

    Args:
        calls: Calls of a pass of one text.
        first: The call that begins, with the hidden input it had. Those before it do nothing but
            return what they returned.
        choose: Makes tensors of the recorded pass those of this pass: it repeats them, and may take
            one position.
    """
    done = 0

    def run(own: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        nonlocal done
        number, done = done, done + 1
        if number < first:
            return _mapped(calls[number].output, choose)
        if number == first:
            hidden = choose(calls[number].hidden)
            if args:
                args = (hidden, *args[1:])
            else:
                kwargs = {**kwargs, next(iter(kwargs)): hidden}
        return own(*args, **kwargs)

    distinct = list(dict.fromkeys(call.module for call in calls))
    for module in distinct:
        module.forward = partial(run, module.forward)
    try:
        yield
    finally:
        for module in distinct:
            del module.forward


def _mapped(output: Any, choose: Choice) -> Any:
    if isinstance(output, Tensor):
        return choose(output)
    if isinstance(output, tuple | list):
        return type(output)(_mapped(part, choose) for part in output)
    return output


def repeated(number: int, position: int | None = None) -> Choice:
    """Make a tensor (1, T, …) one of ``number`` rows, of all positions or of a single one.

    Biases of positions, (1, H, T, K), have the queries third.
    """

    def choose(tensor: Tensor) -> Tensor:
        if tensor.dim() < 2 or len(tensor) != 1:
            return tensor
        if position is not None:
            tensor = tensor.narrow(2 if tensor.dim() == 4 else 1, position, 1)
        return tensor.repeat(number, *[1] * (tensor.dim() - 1))

    return choose


def cache_for_rows(cache: Any, rows: int, shared: bool) -> Any:
    """Return a cache of one text for a pass of ``rows`` rows, which each add one token.

    The rows are the same text under other attention, so that their earlier tokens are the same. If
    they are ``shared``, keys and values (1, H, T + B, D) are those of the T earlier tokens and then
    one of each row (`capture.attend_in_two_steps`): a pass over copies would spend its time on
    copying. The cache itself is not changed.
    """
    if not shared:
        copies = copy.deepcopy(cache)
        copies.batch_repeat_interleave(rows)
        return copies
    found = copy.copy(cache)
    if hasattr(cache, "cross_attention_cache"):
        found.self_attention_cache = cache_for_rows(cache.self_attention_cache, rows, True)
        found.cross_attention_cache = cache_for_rows(cache.cross_attention_cache, rows, False)
        found.is_updated = dict(cache.is_updated)
        return found
    found.layers = [copy.copy(layer) for layer in cache.layers]
    for own, layer in zip(found.layers, cache.layers, strict=True):
        own.update = partial(_append_rows, layer)
    return found


def _append_rows(
    layer: Any, keys: Tensor, values: Tensor, *_: Any, **__: Any
) -> tuple[Tensor, ...]:
    own = keys.transpose(0, 2), values.transpose(0, 2)
    return tuple(
        torch.cat([kept, new], dim=-2)
        for kept, new in zip((layer.keys, layer.values), own, strict=True)
    )
