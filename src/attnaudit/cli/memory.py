"""Recognise that memory ran out, whichever library says so. Imports nothing that takes memory."""

import contextlib
import errno
import math
import re

_ADVICE = "try --set corpus.max_tokens=200 or --set training.batch_size=16"
_SAID = re.compile(
    r"(?:not|can't|unable to|failed to) allocate|bad.alloc|memory allocation|out of memory"
    r"|not enough memory|start new thread|failed to map segment|(?:create|execute) a primitive"
    r"|os error 1[12]\)|Resource temporarily unavailable",
    re.IGNORECASE,
)


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
    with contextlib.suppress(ImportError):  # not on Windows
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        return math.inf if limit == resource.RLIM_INFINITY else limit
    return math.inf
