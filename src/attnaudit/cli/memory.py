"""Recognise that memory ran out, whichever library says so. Imports nothing that takes memory."""

import errno
import math
import os
import re
from collections.abc import Sequence

try:  # at once, because it may be too late when memory runs out
    import resource
except ImportError:  # on Windows
    resource = None

# Bytes of address space from which on commands were seen to work, with one thread. With less,
# libraries abort, or wait for ever, where no error can be raised.
LEAST = {"corpora": 0.81e9, **dict.fromkeys(("demo", "run", "study", "reproduce"), 2.8e9)}
LEAST_OTHER = 1.7e9
LITTLE = 4e9  # with which each further thread of a library, which reserves its own, is too much
_ADVICE = "try --set corpus.max_tokens=200 or --set training.batch_size=16"
_SAID = re.compile(
    r"(?:not|can't|unable to|failed to) allocate|bad.alloc|memory allocation|out of memory"
    r"|not enough memory|start new thread|failed to map segment|(?:create|execute) a primitive"
    r"|os error 1[12]\)|Resource temporarily unavailable",
    re.IGNORECASE,
)


def too_little_memory(arguments: Sequence[str]) -> str | None:
    """Say that a command cannot work within the limit of address space; None if it may."""
    command, limit = next(iter(arguments), "-"), _limit()
    if limit < LITTLE:
        for name in ("OMP_NUM_THREADS", "POLARS_MAX_THREADS"):
            os.environ.setdefault(name, "1")
    least = LEAST.get(command, LEAST_OTHER)
    if limit >= least or command.startswith("-") or {"-h", "--help"} & set(arguments):
        return None
    got = f"{limit / 1e9:.1f} GB of address space (ulimit -v)"
    return f"{command}: {got}; expected {least / 1e9:.1f} GB or more; raise the limit"


def out_of_memory(error: BaseException) -> str | None:
    """Say that memory ran out, and what to do; None for an error of another kind.

    Args:
        error: An error. Those that it was raised from count too.
    """
    is_limited, cause = (limit := _limit()) < math.inf, error
    while not _names_memory(cause, is_limited):
        if (cause := cause.__cause__ or cause.__context__) is None:
            return None
    reason = f": {said}" if (said := " ".join(str(cause).split())) else ""
    raised = f"raise the limit of {limit / 1e9:.1f} GB (ulimit -v), or " if is_limited else ""
    return f"out of memory{reason}; {raised}{_ADVICE}"


def _names_memory(error: BaseException, is_limited: bool) -> bool:
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno in (errno.ENOMEM, errno.EAGAIN)
    # Under a limit, libraries fail to load or to work without a word of memory.
    kind = type(error)
    is_failure = is_limited and (
        kind in (ImportError, RuntimeError, SystemError) or isinstance(error, OSError)
    )
    return isinstance(error, MemoryError) or is_failure or bool(_SAID.search(str(error)))


def _limit() -> float:
    """Return the bytes of address space that this process may have."""
    limit = resource.getrlimit(resource.RLIMIT_AS)[0] if resource else -1
    return math.inf if limit < 0 else limit  # RLIM_INFINITY is -1
