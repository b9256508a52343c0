"""A forward pass that begins at a layer, with what an earlier pass computed below it.

`record` returns every call of the layers of a stack, `resumed` makes the model begin at one of
them. Layers are the elements of the outermost ``nn.ModuleList`` around a module of attention; a
model that calls a layer several times has as many calls.
"""

from __future__ import annotations

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


def record(model: nn.Module, inputs: Mapping[str, Any], layers: nn.ModuleList) -> list[Call]:
    """Run ``model(**inputs)``, and return the calls of ``layers``."""
    calls: list[Call] = []
    begun: list[tuple[Tensor, int]] = []
    attentions: list[Any] = []

    def enter(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        hidden = args[0] if args else next(iter(kwargs.values()))
        hidden = hidden if isinstance(hidden, Tensor) else torch.empty(0)
        begun.append((hidden, len(attentions)))

    def leave(module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        hidden, first = begun.pop()
        calls.append(Call(module, hidden, output, range(first, len(attentions))))

    handles = []
    for module in dict.fromkeys(layers):
        handles.append(module.register_forward_pre_hook(enter, with_kwargs=True))
        handles.append(module.register_forward_hook(leave, with_kwargs=True))
    try:
        forward(model, inputs, lambda attention: attentions.append(attention.index))
    finally:
        for handle in handles:
            handle.remove()
    return calls


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
