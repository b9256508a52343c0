"""Read what callers pass as plain Python: lists, names of classes, and metadata."""

import math
from collections.abc import Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np

from attnaudit.core.errors import InputError

_LISTED = ("tolist", "to_list", "to_pylist")  # of numpy and torch, polars and pandas, and pyarrow
_ENDLESS = ("a value within itself, or nested too deeply", "fewer levels")


def plain(value: Any) -> Any:
    """Turn arrays, tensors, series and their numbers into lists and Python's numbers.

    Other objects stay as they are; those within lists are turned as well.
    """
    # A stream may have no end, and has no length.
    if isinstance(value, np.generic) or hasattr(value, "__len__"):
        for name in _LISTED:
            if callable(listed := getattr(value, name, None)):
                turned = listed()
                # A long double has no number of Python, and is listed as itself.
                return turned if isinstance(turned, np.generic) else plain(turned)
    if isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray):
        try:
            turned = [plain(one) for one in value]
        except RecursionError as error:
            raise InputError("read values", "list", *_ENDLESS) from error
        return tuple(turned) if isinstance(value, tuple) else turned
    return value


def listed(value: Any) -> list[Any] | None:
    """Return what a list, array, tensor or series holds in plain Python; None for anything else."""
    turned = plain(value)
    return list(turned) if isinstance(turned, list | tuple) else None


def named_outputs(operation: str, where: str, given: Any, number: int | None = None) -> list[str]:
    """Return the names of a model's outputs in their order.

    Args:
        operation: Operation of the error.
        where: Argument that holds the names.
        given: Names in order, or a mapping between names and numbers from 0, in either direction.
        number: Number of outputs, if it is known.

    Raises:
        InputError: For anything else, two equal names, or an output without a name.
    """
    expected = f"{number or 'the'} different names in the order of the outputs, or a mapping of "
    expected += "names to numbers from 0"
    # The index of a pandas Series names or numbers its values, in any order.
    if hasattr(given, "to_dict") and not callable(getattr(given, "index", len)):
        given = given.to_dict()
    names, pairs = None if isinstance(given, memoryview) else plain(given), ""
    if isinstance(given, Mapping):
        # A tuple is no name, and what it holds could not be a key once it is turned.
        keys = (key if isinstance(key, tuple) else plain(key) for key in given)
        by_number = dict(zip(keys, map(plain, given.values()), strict=True))
        if all(map(is_whole, by_number.values())):
            by_number = {value: key for key, value in by_number.items()}
        # If two names share a number, some other number has no name.
        names = [by_number.get(k) for k in range(len(given))]
        pairs = str(dict(given))
    if not isinstance(names, list | tuple):
        raise InputError(operation, where, f"{given!r} of type {type(given).__name__}", expected)
    usable: list[Any] = [str(one) if is_whole(one) and not pairs else one for one in names]
    fits = are_names(usable) and number in (None, len(usable))
    if not fits or (pairs and not usable):
        got = pairs or f"{', '.join(map(str, names))} ({len(names)})"
        raise InputError(operation, where, got, expected)
    return usable


def are_names(values: Sequence[Any]) -> bool:
    """Tell whether values are different texts, none of them blank."""
    texts = all(isinstance(one, str) and one.strip() for one in values)
    return texts and len(set(values)) == len(values)


def known(label: Any) -> Any:
    """Return a label as it was before a table made a float of it: a whole number, or None."""
    if isinstance(label, float):
        return None if math.isnan(label) else int(label) if label.is_integer() else label
    return label


def _is_unicode(text: str) -> bool:
    """Tell whether a text has no half of a pair, which no file can hold."""
    return text.encode(errors="ignore").decode() == text


def is_whole(value: object) -> bool:
    """Tell whether a value is a whole number; True and False do not count."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def whole(
    operation: str, where: str, value: Any, least: int | None = None, most: int | None = None
) -> int:
    """Return a whole number within bounds. Raises InputError for anything else."""
    number = plain(value)
    if (
        not is_whole(number)
        or (least is not None and number < least)
        or (most is not None and number > most)
    ):
        limits = (
            "" if least is None else f", {least} " + ("or more" if most is None else f"to {most}")
        )
        raise InputError(operation, where, repr(value), f"a whole number{limits}")
    return number


def plain_metadata(
    operation: str, given: Mapping[str, Any], where: str = "metadata"
) -> dict[str, Any]:
    """Return metadata as JSON has them: numbers and paths as plain values.

    Raises:
        InputError: For a key that is no text, or a value that JSON does not have.
    """
    if not isinstance(given, Mapping):
        raise InputError(operation, where, f"a {type(given).__name__}", "a mapping of texts")
    for key in given:
        if not isinstance(key, str) or not _is_unicode(key):
            raise InputError(operation, where, f"key {key!r}", "keys that are texts")
    try:
        return {key: _json(operation, f"{where} {key}", value) for key, value in given.items()}
    except RecursionError as error:
        raise InputError(operation, "metadata", *_ENDLESS) from error


def _json(operation: str, where: str, value: Any) -> Any:
    value = plain(value)
    if isinstance(value, Mapping):
        return plain_metadata(operation, value, where)
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, list | tuple):
        return [_json(operation, f"{where}[{k}]", one) for k, one in enumerate(value)]
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str) and _is_unicode(value):
        return value
    expected, do = "texts, numbers, paths, or lists and mappings of these", "write it as a text"
    raise InputError(
        operation, where, f"{value!r:.80} of type {type(value).__name__}", expected, do
    )
