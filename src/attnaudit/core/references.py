"""Records that compiled functions pass to one another as a single pointer.

numba passes a named tuple by value, every length and stride of every array by itself, and counts references to each: with a dozen
arrays that is most of the code of a short function, and most of the time that compiling it takes.
"""

from __future__ import annotations

import hashlib
import inspect
from dataclasses import fields
from typing import Any, TypeVar

from numba.core import cgutils, types
from numba.experimental.jitclass.base import imp_dtor
from numba.experimental.structref import register
from numba.extending import lower_builtin, type_callable

Dataclass = TypeVar("Dataclass", bound=type[Any])


def by_reference(dataclass: Dataclass) -> Dataclass:
    """Decorate a frozen dataclass that compiled functions make and pass on; interpreted, it stays the class that it is.

    It cannot be an argument or the result of a kernel.
    """
    names = [field.name for field in fields(dataclass)]

    def made(*values: Any) -> Any:
        return _Reference(
            dataclass.__qualname__, tuple(zip(names, map(types.unliteral, values), strict=True))
        )

    made.pysig = inspect.signature(dataclass)
    type_callable(dataclass)(lambda context: made)
    lower_builtin(dataclass, types.VarArg(types.Any))(_made)
    return dataclass


@register
class _Reference(types.StructRef):
    """The pointer to memory that holds the fields, which numba frees with the last reference."""

    def __init__(self, name: str, fields: tuple[tuple[str, Any], ...]) -> None:
        super().__init__(fields)
        self.name = f"{name}.{hashlib.sha256(self.name.encode()).hexdigest()[:16]}"  # short: each function's name holds its arguments'

    @property
    def mangling_args(self) -> tuple[str, tuple[()]]:
        return self.name, ()


def _made(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    """The code that allocates the memory and moves the values there."""
    kind = signature.return_type
    stored = context.data_model_manager[kind.get_data_type()].get_value_type()
    size = context.get_constant(types.uintp, context.get_abi_sizeof(stored))
    reference = context.make_helper(builder, kind)
    reference.meminfo = context.nrt.meminfo_alloc_dtor(
        builder, size, imp_dtor(context, builder.module, kind)
    )
    place = builder.bitcast(
        context.nrt.meminfo_data(builder, reference.meminfo), stored.as_pointer()
    )
    data = cgutils.create_struct_proxy(kind.get_data_type())(context, builder, ref=place)
    for (name, to), given, value in zip(
        kind.field_dict.items(), signature.args, values, strict=True
    ):
        field = context.cast(builder, value, given, to)
        context.nrt.incref(builder, to, field)
        setattr(data, name, field)
    return reference._getvalue()
