"""The command line. Only what a signal during slow imports needs is imported here."""

import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from attnaudit.cli.memory import out_of_memory, too_little_memory
from attnaudit.cli.status import BAD_INPUT, BROKEN_PIPE, INTERRUPTED


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status; see `attnaudit.cli.command`.

    Args:
        arguments: Arguments; by default those of this process, whose streams and signal to end are
            then set as well.
    """
    if arguments is None:
        _prepare()
        if (said := too_little_memory(sys.argv[1:])) is not None:
            print(f"attnaudit: {said}", file=sys.stderr)
            return BAD_INPUT
    try:
        from attnaudit.cli.command import run

        status = run(sys.argv[1:] if arguments is None else arguments)
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # whoever reads has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except KeyboardInterrupt:  # before the command began
        print("attnaudit: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BaseException as error:  # a panic of polars is no Exception
        if (said := out_of_memory(error)) is None:
            raise
        print(f"attnaudit: {said}", file=sys.stderr)
        return BAD_INPUT


def _prepare() -> None:
    """Let nothing that is printed fail, and a request to end say what is kept."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
        getattr(sys, name).reconfigure(errors="backslashreplace")
    for name in ("SIGTERM", "SIGHUP"):  # Windows has no SIGHUP
        if (number := getattr(signal, name, None)) and signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _terminate)


def _terminate(number: int, frame: object) -> NoReturn:
    # Only the process that was asked: its children have their own ends.
    said = b"attnaudit: terminated; finished steps are kept, and the same command resumes\n"
    # Not by print: it may be what was interrupted, and the terminal may have gone.
    with suppress(OSError):
        os.write(sys.stderr.fileno(), said)
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    raise SystemExit(128 + number)
