"""Errors that a user can cause, each reported in one readable line."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable
from itertools import islice

from attnaudit.core.escapes import printable

LONGEST = 1000  # characters of ``got`` in a message
LONG, MANY = 50, 1000  # characters of a name and names among which the nearest is looked for


class AttnauditError(Exception):
    """A failure caused by the input; the command line prints it and exits with status 2."""


class InputError(AttnauditError):
    """Bad input, reported in one printable line.

    Args:
        operation: The operation that failed.
        where: File and row, instance, or option.
        got: Value found there; the message shows its first `LONGEST` characters.
        expected: Description of a valid value.
        do: Advice to the user.
    """

    def __init__(self, operation: str, where: str, got: str, expected: str, do: str = "") -> None:
        self.operation, self.where, self.got = operation, where, got
        self.expected, self.do = expected, do
        shown = got if len(got) <= LONGEST else f"{got[:LONGEST]}… ({len(got)} characters)"
        line = f"{operation}: {where}: {shown}; expected {expected}" + (f"; {do}" if do else "")
        super().__init__(printable(" ".join(line.split())))

    def __reduce__(self) -> tuple[type[InputError], tuple[str, ...]]:
        """Pickle the parts, from which another process rebuilds the error."""
        # By default an exception is rebuilt from `args`, which holds only the finished line.
        return type(self), (self.operation, self.where, self.got, self.expected, self.do)


class TraceError(InputError):
    """A trace breaks the schema, or an experiment cannot use it."""


class RunError(InputError):
    """A run directory cannot be used as asked."""


class LostError(RunError):
    """A cluster no longer answers.

    Its client blocks an orderly exit of this process, so the command line exits at once.
    """


def describe_error(error: BaseException) -> str:
    """Describe another library's error in a form that fits into a message."""
    return f"{type(error).__name__} {error}".strip().rstrip(".")


def require_known(operation: str, where: str, value: str, known: Collection[str]) -> None:
    """Raise InputError unless a value is one of those that are known."""
    if value not in known:
        do = did_you_mean(value, known)
        raise InputError(operation, where, repr(value), f"one of {', '.join(known)}", do)


def did_you_mean(name: str, known: Iterable[str], before: str = "") -> str:
    """Suggest the known name nearest to ``name``.

    >>> did_you_mean("epsilom", ["epsilon", "seed"])
    'did you mean epsilon?'

    Args:
        name: Name that the user wrote.
        known: Valid names.
        before: Prefix of the suggestion, such as the section of a setting.

    Returns:
        A question; empty if no known name is near.
    """
    near = nearest(name, known)
    return f"did you mean {before}{near}?" if near else ""


def nearest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return the known name that is most like ``name``; empty if none is.

    The comparison takes up to the cube of a name's length, so only the starts of the first names
    are compared.
    """
    starts = {one[:LONG]: one for one in islice(known, MANY)}
    close = difflib.get_close_matches(name[:LONG], starts, n=1, cutoff=cutoff)
    return starts[close[0]] if close else ""
