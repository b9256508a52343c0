"""Errors that a user can cause, each one readable line."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from attnaudit.core.printable import printable

LONGEST = 1000  # characters of what was found that a message has


class AttnauditError(Exception):
    """A failure caused by the input; the command line prints it and exits with status 2."""


class InputError(AttnauditError):
    """Bad input, reported in one line.

    ``operation`` is what was being done, ``where`` the file and row, the instance or the option,
    ``got`` what was found there, ``expected`` what would have been right, ``do`` what the user can do. The line is `printable`,
    whatever they quote, and of ``got`` it has the first `LONGEST` characters; the attributes are as given.
    """

    def __init__(self, operation: str, where: str, got: str, expected: str, do: str = "") -> None:
        self.operation, self.where, self.got, self.expected, self.do = (
            operation,
            where,
            got,
            expected,
            do,
        )
        shown = got if len(got) <= LONGEST else f"{got[:LONGEST]}… ({len(got)} characters)"
        line = f"{operation}: {where}: {shown}; expected {expected}" + (f"; {do}" if do else "")
        super().__init__(printable(" ".join(line.split())))

    def __reduce__(self) -> tuple[type[InputError], tuple[str, ...]]:
        """Made again of its parts in another process."""
        return type(self), (self.operation, self.where, self.got, self.expected, self.do)


class TraceError(InputError):
    """A trace that breaks the schema, or that an experiment cannot use."""


class RunError(InputError):
    """A run directory that cannot be used as asked."""


class LostError(RunError):
    """A cluster that no longer answers. Its client keeps this process from ending in order: the command line ends at once."""


def told(error: Exception) -> str:
    """What an error of another library says, with its class and without a full stop, as a part of a line."""
    return f"{type(error).__name__} {error}".strip().rstrip(".")


def did_you_mean(name: str, known: Iterable[str], before: str = "") -> str:
    """``did you mean X?`` for the known name nearest to ``name``, with what stands ``before`` it; or nothing."""
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"did you mean {before}{close[0]}?" if close else ""
