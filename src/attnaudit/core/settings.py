"""Settings by dotted name: ``training.epochs=4`` becomes a checked field of a frozen dataclass."""

from __future__ import annotations

import math
import types
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, field, fields, replace
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from attnaudit.core.errors import InputError, did_you_mean

Section = TypeVar("Section")
_YES_NO = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_SCALARS = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}


def setting(
    help: str,
    default: Any = MISSING,
    *,
    flag: str = "",
    metavar: str | None = None,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    only: str = "",
) -> Any:
    """A field of a section that carries its own facts.

    ``help`` says what the setting does, ``flag`` is its option on the command line (without one only ``--set`` reaches it), ``metavar`` the
    word for its value there. Values are from ``least``, above ``above`` and up to ``most`` (`check_settings`). ``only`` names the kind of
    section that has a use for the setting (`refuse_unused`).
    """
    facts = {
        "help": help,
        "flag": flag,
        "metavar": metavar,
        "least": least,
        "above": above,
        "most": most,
        "only": only,
    }
    return field(default=default, metadata=facts)


def check_settings(section: Any, name: str) -> None:
    """Check the fields of a section made with `setting`: choices and bounds. Raises InputError, which calls the section ``name``."""
    hints = get_type_hints(type(section))
    for declared in fields(section):
        value, key = getattr(section, declared.name), f"{name}.{declared.name}"
        if any(
            get_origin(part) is Literal
            for part in (hints[declared.name], *get_args(hints[declared.name]))
        ):
            coerce(value, hints[declared.name], key)
        if value is not None and not _within(value, declared.metadata):
            raise InputError(
                "read settings", f"setting {key}", str(value), bounds(declared.metadata)
            )


def refuse_unused(section: Any, name: str, kinds: Iterable[str], got: str, expected: str) -> None:
    """Raise InputError for a field that is not at its default though sections of these ``kinds`` have no use for it."""
    for declared in fields(section):
        value = getattr(section, declared.name)
        if declared.metadata["only"] not in ("", *kinds) and value != declared.default:
            raise InputError("read settings", f"setting {name}.{declared.name}", got, expected)


def _within(value: Any, facts: Mapping[str, Any]) -> bool:
    least, above, most = facts["least"], facts["above"], facts["most"]
    return (
        (least is None or value >= least)
        and (above is None or value > above)
        and (most is None or value <= most)
    )


def bounds(facts: Mapping[str, Any]) -> str:
    """The values that a field declared with `setting` may have; empty where they have no bound."""
    least, above, most = (facts.get(name) for name in ("least", "above", "most"))
    if least is not None and most is None:
        return f"{least} or more"
    if above is not None:
        return f"a number above {above}, up to {most}"
    return "" if most is None else f"{least} to {most}"


def parse_assignments(assignments: Iterable[str]) -> dict[str, str]:
    """``["training.epochs=4"]`` to ``{"training.epochs": "4"}``; the last of two for one key counts. Raises InputError."""
    settings: dict[str, str] = {}
    for assignment in assignments:
        key, equals, value = (part.strip() for part in assignment.partition("="))
        if not (equals and key and value):
            raise InputError(
                "read settings",
                f"--set {assignment}",
                "not of the form key=value",
                "for example --set training.epochs=4",
            )
        settings[key] = value
    return settings


def override(sections: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """``sections`` (dataclasses by name) with ``settings`` (values, or their text, by dotted name) in place.

    Raises InputError for an unknown section or field, and for a value that is not of the field's type. The settings of a section come
    into place together: what a section says of two of its fields does not depend on which was given first.
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
    return {
        name: replace(section, **given[name]) if given[name] else section
        for name, section in sections.items()
    }


def from_plain(cls: type[Section], values: Mapping[str, Any], where: str) -> Section:
    """A dataclass from what JSON keeps of it, types checked. Raises InputError."""
    known = [f"{where}.{field.name}" for field in fields(cls)]  # pyright: ignore[reportArgumentType] - Section is a dataclass
    for key in values:
        if f"{where}.{key}" not in known:
            raise _unknown(f"{where}.{key}", known)
    return cls(
        **{
            key: coerce(value, get_type_hints(cls)[key], f"{where}.{key}")
            for key, value in values.items()
        }
    )


def coerce(value: Any, hint: Any, key: str) -> Any:
    """``value``, or what its text says, as the type ``hint``. Raises InputError."""
    try:
        return _as_type(value, hint)
    except (ValueError, TypeError):
        wanted = _without_none(hint)
        near = (
            did_you_mean(str(value), map(str, get_args(wanted)))
            if get_origin(wanted) is Literal
            else ""
        )
        raise InputError(
            "read settings", f"setting {key}", repr(value), described(wanted), near
        ) from None


def _without_none(hint: Any) -> Any:
    """The choices of a field that may also be none, its default: an option is left out instead, and its help names only them."""
    parts = [part for part in get_args(hint) if part is not type(None)]
    return parts[0] if len(parts) == 1 and get_origin(parts[0]) is Literal else hint


def _unknown(key: str, known: list[str]) -> InputError:
    section, _, field = key.rpartition(".")
    forgotten = [name for name in known if name.endswith(f".{field}")]
    siblings = [name.split(".", 1)[1] for name in known if name.startswith(f"{section}.")]
    near = did_you_mean(field, siblings, f"{section}.") if siblings else did_you_mean(key, known)
    near = (
        f"did you mean {forgotten[0]}?"
        if len(forgotten) == 1 or (forgotten and not section)
        else near
    )
    sections = dict.fromkeys(name.split(".", 1)[0] for name in known)
    expected = (
        f"one of {', '.join(siblings)}"
        if siblings
        else f"section.name with section one of {', '.join(sections)}"
    )
    return InputError("read settings", f"setting {key}", "no such setting", expected, near)


def _as_type(value: Any, hint: Any) -> Any:
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return _as_any(value, get_args(hint))
    if origin is Literal:
        return {str(choice): choice for choice in get_args(hint)}[
            _known(str(value), map(str, get_args(hint)))
        ]
    if origin is tuple:
        items = (
            [] if value == "none" else value.split(",") if isinstance(value, str) else list(value)
        )
        hints = get_args(hint)
        kinds = hints[:1] * len(items) if hints[-1] is Ellipsis else hints
        return tuple(_as_type(item, kind) for item, kind in zip(items, kinds, strict=True))
    return _as_scalar(value, hint)


def _as_any(value: Any, hints: tuple[Any, ...]) -> Any:
    if type(None) in hints and str(value).lower() in ("none", "null"):
        return None
    for hint in (hint for hint in hints if hint is not type(None)):
        try:
            return _as_type(value, hint)
        except (ValueError, TypeError):
            continue
    raise ValueError(f"{value!r} is none of {hints}")


def _as_scalar(value: Any, kind: type) -> Any:
    if kind is bool:
        return _YES_NO[_known(str(value).lower(), _YES_NO)]
    if kind is str and not isinstance(value, str):
        raise ValueError(f"{value!r} is no text")
    if isinstance(value, bool) or (
        kind is int and isinstance(value, float) and not value.is_integer()
    ):
        raise ValueError(f"{value!r} is no {kind.__name__}")
    if kind is float and not math.isfinite(float(value)):
        raise ValueError(f"{value!r} is not finite")
    return kind(value)


def _known(value: str, choices: Iterable[str]) -> str:
    if value not in list(choices):
        raise ValueError(f"{value!r} is unknown")
    return value


def described(hint: Any) -> str:
    """What a value of this type is, in words: a whole number, one of a, b."""
    origin = get_origin(hint)
    if origin is Literal:
        return f"one of {', '.join(map(str, get_args(hint)))}"
    if origin in (Union, types.UnionType):
        return " or ".join(
            "none" if part is type(None) else described(part) for part in get_args(hint)
        )
    if origin is tuple:
        many = get_args(hint)[-1] is Ellipsis
        if many and get_origin(get_args(hint)[0]) is Literal:
            return f"some of {', '.join(get_args(get_args(hint)[0]))} joined by commas, or none"
        return (
            "one or more joined by commas"
            if many
            else ",".join(f"<{described(part)}>" for part in get_args(hint))
        )
    return _SCALARS.get(hint, str(hint))
