"""A forward pass that begins at a layer: what the layers below it gave is taken from an earlier pass, for one position or for all.

`record` runs a model once and keeps every call of the layers of a stack, `resumed` makes the model begin at one of them. The layers are
the elements of the outermost ``nn.ModuleList`` around a module of attention; a model that calls one layer several times has as many calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from attnaudit.hf.capture import Attention, Keys, Pass, forward


@dataclass(frozen=True)
class Call:
    """One call of a layer: the module, its hidden input, its output, and the numbers of the attentions computed within."""

    module: nn.Module
    hidden: Tensor
    output: Any
    attentions: range


@dataclass(frozen=True)
class Recorded:
    """A pass of one text: what the model returned, its attentions, the calls of the layers of one stack, the keys of the last attention."""

    seen: Pass
    calls: tuple[Call, ...]
    keys: Keys | None

    def call_of(self, attention: int) -> int | None:
        """The number of the call within which an attention was computed; None outside of all."""
        return next(
            (number for number, call in enumerate(self.calls) if attention in call.attentions), None
        )


def layers_around(model: nn.Module, path: str) -> nn.ModuleList | None:
    """The outermost list of modules around the module at ``path``; None where there is none."""
    parts = path.split(".")
    around = (model.get_submodule(".".join(parts[:depth])) for depth in range(1, len(parts)))
    return next((module for module in around if isinstance(module, nn.ModuleList)), None)


def record(model: nn.Module, inputs: Mapping[str, Any], layers: nn.ModuleList) -> Recorded:
    """Run ``model(**inputs)`` of one text and keep the calls of ``layers``."""
    calls: list[Call] = []
    begun: list[tuple[Tensor, int]] = []
    count = [0]
    keys: list[Keys | None] = [None]

    def counted(attention: Attention) -> None:
        count[0] += 1
        keys[0] = attention.keys

    def enters(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        begun.append((_hidden(args, kwargs), count[0]))

    def leaves(
        module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any
    ) -> None:
        hidden, first = begun.pop()
        calls.append(Call(module, hidden, output, range(first, count[0])))

    distinct = list(dict.fromkeys(layers))
    handles = [module.register_forward_pre_hook(enters, with_kwargs=True) for module in distinct]
    handles += [module.register_forward_hook(leaves, with_kwargs=True) for module in distinct]
    try:
        seen = forward(model, inputs, counted)
    finally:
        for handle in handles:
            handle.remove()
    return Recorded(seen, tuple(calls), keys[0])


@contextmanager
def hidden_input(layers: nn.ModuleList, call: int) -> Iterator[list[Tensor]]:
    """Within, call number ``call`` of the layers in one pass leaves its hidden input, without a graph, in the list."""
    found: list[Tensor] = []
    number = [0]

    def enters(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if number[0] == call:
            found.append(_hidden(args, kwargs).detach())
        number[0] += 1

    handles = [
        module.register_forward_pre_hook(enters, with_kwargs=True)
        for module in dict.fromkeys(layers)
    ]
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def resumed(
    calls: Sequence[Call], first: int, chosen: Callable[[Tensor], Tensor]
) -> Iterator[None]:
    """Within, calls of layers before ``first`` do nothing but give what they gave, and that one begins with what it was given.

    ``chosen`` makes the tensors of the recorded pass, of one text, those of this pass: it repeats them, and may take one position.
    """
    done = [0]

    def runs(module: nn.Module) -> Callable[..., Any]:
        own = module.forward

        def run(*args: Any, **kwargs: Any) -> Any:
            number = done[0]
            done[0] += 1
            if number < first:
                return _mapped(calls[number].output, chosen)
            if number == first:
                args, kwargs = _with_hidden(chosen(calls[number].hidden), args, kwargs)
            return own(*args, **kwargs)

        return run

    distinct = list(dict.fromkeys(call.module for call in calls))
    for module in distinct:
        module.forward = runs(module)
    try:
        yield
    finally:
        for module in distinct:
            del module.forward


def repeated(number: int, position: int | None = None) -> Callable[[Tensor], Tensor]:
    """A tensor (1, T, …) as (``number``, T, …), or of one of its positions, (``number``, 1, …)."""

    def chosen(tensor: Tensor) -> Tensor:
        if tensor.dim() < 2 or len(tensor) != 1:
            return tensor
        taken = tensor if position is None else tensor[:, position : position + 1]
        return taken.repeat(number, *[1] * (taken.dim() - 1))

    return chosen


def _hidden(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Tensor:
    found = args[0] if args else next(iter(kwargs.values()))
    return found if isinstance(found, Tensor) else torch.empty(0)


def _with_hidden(
    hidden: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if args:
        return (hidden, *args[1:]), kwargs
    return args, {**kwargs, next(iter(kwargs)): hidden}


def _mapped(output: Any, chosen: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(output, Tensor):
        return chosen(output)
    if isinstance(output, tuple | list):
        return type(output)(_mapped(part, chosen) for part in output)
    return output
