"""The run-time type checker of the tests: beartype, with whole numbers accepted where a float is wanted, as PEP 484 says."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import jaxtyping
from beartype import BeartypeConf, beartype

checked = beartype(conf=BeartypeConf(is_pep484_tower=True))
of_all = jaxtyping.jaxtyped


def check_shapes_alone() -> None:
    """From here on a module is imported with checks of what states the shape of an array; the rest is for pyright.

    A check takes longer than a small function does, and a function within another is wrapped anew by every call of that.
    """
    jaxtyping.jaxtyped = where_shapes_are_stated  # the name by which modules are rewritten


def where_shapes_are_stated(of: Any = None, *, typechecker: Callable[..., Any]) -> Any:
    """`jaxtyping.jaxtyped` for functions and classes that state shapes; others as they are."""
    if of is None:
        return partial(where_shapes_are_stated, typechecker=typechecker)
    return of_all(of, typechecker=typechecker) if states_shapes(of) else of


def states_shapes(of: Any) -> bool:
    """Whether an annotation of a function, property or class has a type of jaxtyping, or a name that its module gives to one."""
    own = getattr(of, "fget", None) or getattr(of, "__func__", of)
    known = vars(sys.modules[own.__module__])
    return any("jaxtyping" in repr(known.get(name)) for stated in own.__annotations__.values() for name in re.findall(r"\w+", str(stated)))
