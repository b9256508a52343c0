"""Passes that begin at a layer, with what an earlier pass computed below it.

`record` returns the calls of the layers of every stack, `resumed` makes the model begin at one of
them. Layers are the elements of an ``nn.ModuleList`` that is in no other; a model that calls a
layer several times has as many calls.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from attnaudit.torch.capture import Pass, forward

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


@dataclass(frozen=True)
class Place:
    """The layer that computes an attention: the calls of its stack, and the number of its own."""

    calls: Sequence[Call]
    number: int

    @property
    def call(self) -> Call:
        """The call that computes it."""
        return self.calls[self.number]


def record(model: nn.Module, inputs: Mapping[str, Any]) -> tuple[Pass, dict[int, Place]]:
    """Run ``model(**inputs)``, and return the places of its attentions by number.

    An attention outside of all layers has none.
    """
    stacks: list[list[Call]] = []
    begun: list[tuple[Tensor, int]] = []
    attentions: list[int] = []

    def enter(module, args, kwargs):
        hidden = args[0] if args else next(iter(kwargs.values()), None)
        hidden = hidden if isinstance(hidden, Tensor) else torch.empty(0)
        begun.append((hidden, len(attentions)))

    def leave(calls, module, args, kwargs, output):
        hidden, first = begun.pop()
        calls.append(Call(module, hidden, output, range(first, len(attentions))))

    with ExitStack() as hooks:
        outermost: list[str] = []
        for path, layers in model.named_modules():
            if isinstance(layers, nn.ModuleList) and not path.startswith(tuple(outermost)):
                outermost.append(f"{path}.")
                stacks.append([])
                for module in dict.fromkeys(layers):
                    after = partial(leave, stacks[-1])
                    hooks.enter_context(module.register_forward_pre_hook(enter, with_kwargs=True))
                    hooks.enter_context(module.register_forward_hook(after, with_kwargs=True))
        seen = forward(model, inputs, lambda attention: attentions.append(attention.index))
    return seen, {
        attention: Place(calls, number)
        for calls in stacks
        for number, call in enumerate(calls)
        for attention in call.attentions
    }


class ReachedError(Exception):
    """A pass has come as far as it is needed; its arguments are what was computed there."""


@contextmanager
def resumed(place: Place, choose: Choice, until: int | None = None) -> Iterator[list[Tensor]]:
    """Begin passes inside the block at one call of a layer.

    Args:
        place: The call that begins, with the hidden input it had in a pass of one text. Calls
            before it do nothing but return what they returned.
        choose: Makes tensors of the recorded pass those of this pass: it repeats them, and may take
            one position.
        until: Number of a later call that raises `ReachedError` with its hidden input.

    Yields:
        A list that holds the hidden input of the latest call.
    """
    done, latest = 0, list[Tensor]()

    def run(own, *args, **kwargs):
        nonlocal done
        number, done = done, done + 1
        latest[:] = (args or tuple(kwargs.values()))[:1]
        if number == until:
            raise ReachedError(*latest)
        if number < place.number:
            return _mapped(place.calls[number].output, choose)
        if number == place.number:
            hidden = choose(place.call.hidden)
            if args:
                args = (hidden, *args[1:])
            else:
                kwargs = {**kwargs, next(iter(kwargs)): hidden}
        return own(*args, **kwargs)

    with running(dict.fromkeys(call.module for call in place.calls), run):
        yield latest


@contextmanager
def running(modules: Collection[nn.Module], run: Callable[..., Any]) -> Iterator[None]:
    """Replace each module's ``forward`` by ``run(forward, …)`` inside the block."""
    for module in modules:
        module.forward = partial(run, module.forward)
    try:
        yield
    finally:
        for module in modules:
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

    def choose(tensor):
        if tensor.dim() < 2 or len(tensor) != 1:
            return tensor
        if position is not None:
            tensor = tensor.narrow(2 if tensor.dim() == 4 else 1, position, 1)
        return tensor.repeat(number, *[1] * (tensor.dim() - 1))

    return choose
