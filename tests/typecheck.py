"""The run-time type checker of the tests: beartype, with whole numbers accepted where a float is wanted, as PEP 484 says."""

import inspect
import re
import sys
from collections import Counter
from collections.abc import Callable
from functools import cache, partial, wraps
from typing import Any

import jaxtyping
from beartype import BeartypeConf, beartype

checked = beartype(conf=BeartypeConf(is_pep484_tower=True))
of_all = jaxtyping.jaxtyped
FIRST = 4  # calls of each function in each test; a check costs 20 µs and more, and loops call some functions thousands of times
_calls: Counter[int] = (
    Counter()
)  # by the identity of a function's code, which those made by one `def` share


def check_shapes_alone():
    """From here on a module is imported with checks of what states the shape of an array; the rest is for pyright.

    A check takes longer than a small function does, and a function within another is wrapped anew by every call of that.
    """
    jaxtyping.jaxtyped = where_shapes_are_stated  # the name by which modules are rewritten


def count_anew():
    """The first calls are checked again."""
    _calls.clear()


def where_shapes_are_stated(of=None, *, typechecker) -> Any:
    """`jaxtyping.jaxtyped` for the first calls of functions and classes that state shapes; others as they are."""
    if of is None:
        return partial(where_shapes_are_stated, typechecker=typechecker)
    if not states_shapes(of):
        return of
    if inspect.isclass(of):
        plain = of.__init__
        of_all(of, typechecker=typechecker)
        if of.__init__ is not plain:
            whole = of.__init__
            of.__init__ = first_calls(plain, lambda: whole)
        return of
    if isinstance(of, property):
        get: Any = of.fget
        return of.getter(first_calls(get, partial(of_all, get, typechecker=typechecker)))
    if isinstance(of, classmethod | staticmethod):
        return type(of)(
            first_calls(of.__func__, partial(of_all, of.__func__, typechecker=typechecker))
        )
    return first_calls(of, partial(of_all, of, typechecker=typechecker))


def first_calls(plain, whole) -> Callable[..., Any]:
    """``plain``, whose first calls since `count_anew` go to ``whole()``, which checks them."""
    whole, code = cache(whole), id(plain.__code__)

    @wraps(plain)
    def call(*given, **named) -> Any:
        if _calls[code] >= FIRST:
            return plain(*given, **named)
        _calls[code] += 1
        return whole()(*given, **named)

    return call


def states_shapes(of):
    """Whether an annotation of a function, property or class has a type of jaxtyping, or a name that its module gives to one."""
    own = getattr(of, "fget", None) or getattr(of, "__func__", of)
    known = vars(sys.modules[own.__module__])
    return any(
        "jaxtyping" in repr(known.get(name))
        for stated in own.__annotations__.values()
        for name in re.findall(r"\w+", str(stated))
    )
