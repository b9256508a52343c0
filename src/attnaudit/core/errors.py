"""Errors that a user can cause, each one readable line."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from attnaudit.core.printable import printable

LONGEST = 1000  # characters of ``got`` in a message


class AttnauditError(Exception):
    """A failure caused by the input; the command line prints it and exits with status 2."""


class InputError(AttnauditError):
    """Bad input, reported in one printable line.

    Args:
        operation: The operation that failed.
        where: File and row, instance, or option.
        got: Value found there; the line has its first `LONGEST` characters.
        expected: Value that would be right.
        do: Advice to the user.
    """

    def __init__(self, operation: str, where: str, got: str, expected: str, do: str = "") -> None:
        self.operation, self.where, self.got = operation, where, got
        self.expected, self.do = expected, do
        shown = got if len(got) <= LONGEST else f"{got[:LONGEST]}… ({len(got)} characters)"
        line = f"{operation}: {where}: {shown}; expected {expected}" + (f"; {do}" if do else "")
        super().__init__(printable(" ".join(line.split())))

    def __reduce__(self) -> tuple[type[InputError], tuple[str, ...]]:
        """Pickle the parts: another process makes the error from them again."""
        return type(self), (self.operation, self.where, self.got, self.expected, self.do)


class TraceError(InputError):
    """A trace that breaks the schema, or that an experiment cannot use."""


class RunError(InputError):
    """A run directory that cannot be used as asked."""


class LostError(RunError):
    """A cluster that no longer answers.

    Its client keeps this process from ending in order, so the command line ends at once.
    """


def describe_error(error: Exception) -> str:
    """Describe an error of another library, as a part of a line."""
    return f"{type(error).__name__} {error}".strip().rstrip(".")


def did_you_mean(name: str, known: Iterable[str], before: str = "") -> str:
    """Suggest the known name nearest to ``name``, after ``before``; empty if none is near.

    >>> did_you_mean("epsilom", ["epsilon", "seed"])
    'did you mean epsilon?'
    """
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"did you mean {before}{close[0]}?" if close else ""
