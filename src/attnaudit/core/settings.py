"""Settings by dotted name: ``training.epochs=4`` becomes a checked field of a frozen dataclass."""

from __future__ import annotations

import json
import operator
import types
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import MISSING, field, fields, is_dataclass, replace
from functools import cache
from numbers import Integral, Real
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Literal,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from attnaudit.core.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from pydantic import TypeAdapter

Section = TypeVar("Section")
_NUMBERS = {int: Integral, float: Real, type(None): type(None)}
_LIMITS = {"least": operator.ge, "above": operator.gt, "most": operator.le, "below": operator.lt}
_SCALARS = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}


def setting(
    help: str,
    default: Any = MISSING,
    *,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    below: float | None = None,
    only: str = "",
) -> Any:
    """Declare a dataclass field with its help text and bounds.

    Args:
        help: Description of the setting.
        default: Default value; without one the field is required.
        least: Inclusive lower bound.
        above: Exclusive lower bound.
        most: Inclusive upper bound.
        below: Exclusive upper bound.
        only: Kinds that a section must be of to use the setting (`refuse_unused`), separated by
            blanks.
    """
    limits = {"least": least, "above": above, "most": most, "below": below}
    return field(default=default, metadata={"help": help, "only": only, **limits})


class Settings:
    """Base class of settings dataclasses; it checks choices and bounds on creation.

    Attributes:
        name: Name of the section, the first part of a dotted setting.

    Raises:
        InputError: For the first value outside its choices or bounds.
    """

    name: ClassVar[str]

    def __post_init__(self) -> None:
        section: Any = self  # a dataclass, unlike this base
        hints = check_numbers(section, f"setting {self.name}.")
        for declared in fields(section):
            value, key = getattr(self, declared.name), f"{self.name}.{declared.name}"
            hint = hints[declared.name]
            # `coerce` imports a library that command-line help does not need.
            chosen = any(get_origin(part) is Literal for part in (hint, *get_args(hint)))
            if chosen and value != declared.default:
                coerce(value, hint, key)
            if value is not None and not _within(value, declared.metadata):
                expected = bounds(declared.metadata)
                raise InputError("read settings", f"setting {key}", str(value), expected)


@cache
def _hints(section: type) -> dict[str, Any]:
    # Annotations are strings. Resolving them takes longer than all checks.
    return get_type_hints(section)


def check_numbers(
    section: Any, where: str = "", operation: str = "read settings"
) -> dict[str, Any]:
    """Check that fields declared as numbers hold numbers; booleans do not count as numbers.

    Returns:
        The types of the fields.

    Raises:
        InputError: A field holds something else.
    """
    # Dataclasses do not check types.
    hints = _hints(type(section))
    for declared in fields(section):
        value, hint = getattr(section, declared.name), hints[declared.name]
        is_union = get_origin(hint) in (Union, types.UnionType)
        parts = get_args(hint) if is_union else (hint,)
        kinds = tuple(_NUMBERS.get(part, object) for part in parts)
        if object not in kinds and (isinstance(value, bool) or not isinstance(value, kinds)):
            raise InputError(operation, f"{where}{declared.name}", repr(value), described(hint))
    return hints


def refuse_unused(
    section: Any,
    name: str,
    kinds: Iterable[str],
    got: str,
    users: Mapping[str, str],
    options: Mapping[str, str],
) -> None:
    """Refuse settings that would have no effect.

    A setting has no effect if it needs a kind that the section is not. Its default passes.

    Args:
        section: Section whose fields were declared with `setting`.
        name: Name of the section in the error.
        kinds: Kinds that the section belongs to.
        got: Description of the section, for the error.
        users: Description of the sections of each kind, for the error.
        options: Names in the error of the fields that have an option of their own.

    Raises:
        InputError: For the first such setting.
    """
    for declared in fields(section):
        missing = [kind for kind in declared.metadata["only"].split() if kind not in kinds]
        if missing and getattr(section, declared.name) != declared.default:
            where = options.get(declared.name, f"setting {name}.{declared.name}")
            raise InputError("read settings", where, got, users[missing[0]], "leave it out")


def _within(value: Any, facts: Mapping[str, Any]) -> bool:
    limits = ((facts.get(name), holds) for name, holds in _LIMITS.items())
    return all(limit is None or holds(value, limit) for limit, holds in limits)


def bounds(facts: Mapping[str, Any]) -> str:
    """Describe the bounds of a field declared with `setting`; empty if it has none."""
    least, above, most, below = map(facts.get, _LIMITS)
    if below is not None:
        return f"{least} to below {below}"
    if least is not None and most is None:
        return f"{least} or more"
    if above is not None:
        return f"a number above {above}" + ("" if most is None else f", up to {most}")
    return "" if most is None else f"{least} to {most}"


def parse_assignments(assignments: Iterable[str]) -> dict[str, str]:
    """Split assignments; the last one for a key wins. Raises InputError.

    >>> parse_assignments(["training.epochs=4"])
    {'training.epochs': '4'}
    """
    settings: dict[str, str] = {}
    for assignment in assignments:
        key, equals, value = (part.strip() for part in assignment.partition("="))
        if not (equals and key and value):
            got, expected = "not of the form key=value", "for example --set training.epochs=4"
            raise InputError("read settings", f"--set {assignment}", got, expected)
        settings[key] = value
    return settings


def override(sections: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Apply settings to sections.

    Args:
        sections: Dataclasses by name.
        settings: Values, or their text, by dotted name.

    Returns:
        The sections with the settings applied.

    Raises:
        InputError: If a section or field is unknown, or a value has the wrong type.
    """
    known = [
        f"{name}.{field.name}" for name, section in sections.items() for field in fields(section)
    ]
    given: dict[str, dict[str, Any]] = {name: {} for name in sections}
    for key, value in settings.items():
        if key not in known:
            raise _unknown(key, known)
        name, field = key.split(".", 1)
        given[name][field] = coerce(value, get_type_hints(type(sections[name]))[field], key)
    # One `replace` per section: its checks of two fields then see both new values.
    return {
        name: replace(section, **given[name]) if given[name] else section
        for name, section in sections.items()
    }


def from_plain(cls: type[Section], values: Mapping[str, Any], where: str) -> Section:
    """Make a dataclass from its JSON and check the types.

    Args:
        cls: The dataclass.
        values: Values by field name; missing fields have their defaults.
        where: Name of the section in errors.

    Raises:
        InputError: If a field is unknown or a value has the wrong type.
    """
    declared: Any = cls  # the type variable cannot say that it is a dataclass
    known = [f"{where}.{field.name}" for field in fields(declared)]
    for key in values:
        if f"{where}.{key}" not in known:
            raise _unknown(f"{where}.{key}", known)
    hints = _hints(cls)
    return cls(**{key: coerce(values[key], hints[key], f"{where}.{key}") for key in values})


def coerce(value: Any, hint: Any, key: str) -> Any:
    """Convert a value, or its text, to a type.

    Args:
        value: Value from Python or JSON, or text from the command line.
        hint: The type, a resolved annotation. It may be a dataclass, whose value is a mapping.
        key: Name of the setting in the error.

    Raises:
        InputError: If the value does not have this type.
    """
    # The help of the command line reads settings too, and does without the library.
    from pydantic import ValidationError

    readings = [value]
    ones, kinds = value if isinstance(value, list | tuple) else readings, set(_parts(hint))
    if any(isinstance(one, bool) for one in ones) and kinds & {int, float} and bool not in kinds:
        readings = []  # the library would take true for 1
    if isinstance(value, str):
        kinds = (hint, *get_args(hint))
        if type(None) in kinds and value.lower() in ("none", "null"):
            return None
        if any(get_origin(kind) is tuple for kind in kinds):
            # A JSON list has values with commas.
            with suppress(ValueError, RecursionError):
                readings.append(json.loads(value))
            readings.append([] if value == "none" else value.split(","))
        if value.isdecimal():
            readings.append(int(value))  # for a choice of numbers
    for reading in readings:
        with suppress(ValidationError):
            return _adapter(hint).validate_python(reading)
    wanted, near = _without_none(hint), ""
    if get_origin(wanted) is Literal:
        near = did_you_mean(str(value), map(str, get_args(wanted)))
    raise InputError("read settings", f"setting {key}", repr(value), described(wanted), near)


@cache
def _adapter(hint: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    # JSON has neither NaN nor infinity, so no specification could store them. A dataclass has its
    # own configuration.
    return TypeAdapter(hint, config=None if is_dataclass(hint) else {"allow_inf_nan": False})


def _parts(hint: Any) -> Iterator[Any]:
    """Yield a type and those that it is made of."""
    yield hint
    for part in get_args(hint):
        yield from _parts(part)


def _without_none(hint: Any) -> Any:
    """Drop ``None`` beside choices: on the command line the option is left out instead."""
    parts = [part for part in get_args(hint) if part is not type(None)]
    return parts[0] if len(parts) == 1 and get_origin(parts[0]) is Literal else hint


def _unknown(key: str, known: list[str]) -> InputError:
    section, _, field = key.rpartition(".")
    forgotten = [name for name in known if name.endswith(f".{field}")]
    siblings = [name.split(".", 1)[1] for name in known if name.startswith(f"{section}.")]
    if len(forgotten) == 1 or (forgotten and not section):
        near = f"did you mean {forgotten[0]}?"
    elif siblings:
        near = did_you_mean(field, siblings, f"{section}.")
    else:
        near = did_you_mean(key, known)
    sections = dict.fromkeys(name.split(".", 1)[0] for name in known)
    expected = f"section.name with section one of {', '.join(sections)}"
    expected = f"one of {', '.join(siblings)}" if siblings else expected
    return InputError("read settings", f"setting {key}", "no such setting", expected, near)


def described(hint: Any) -> str:
    """Describe the values of a type, such as "a whole number" or "one of a, b"."""
    origin = get_origin(hint)
    if origin is Literal:
        return f"one of {', '.join(map(str, get_args(hint)))}"
    if origin in (Union, types.UnionType):
        parts = get_args(hint)
        return " or ".join("none" if part is type(None) else described(part) for part in parts)
    if origin is tuple:
        first, *_, last = get_args(hint)
        if last is not Ellipsis:
            return ",".join(f"<{described(part)}>" for part in get_args(hint))
        if get_origin(first) is Literal:
            return f"some of {', '.join(get_args(first))} joined by commas, or none"
        # "a whole number" becomes "whole numbers".
        return f"one or more {described(first).removeprefix('a ')}s joined by commas"
    return _SCALARS.get(hint, str(hint))
