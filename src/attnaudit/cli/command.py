"""A command, from arguments to an exit status.

The status is 0 when all that was asked was done, and 2 with one line on stderr for an input error.
"""

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import typer
from typer.main import get_command

from attnaudit.cli.app import app
from attnaudit.cli.memory import out_of_memory
from attnaudit.cli.status import BAD_INPUT, BROKEN_PIPE, DONE, INTERRUPTED
from attnaudit.core import AttnauditError, InputError, printable
from attnaudit.core.errors import LostError

# Turns that an idle OpenMP thread spins before it sleeps. By default it spins for milliseconds,
# which slows a small training as soon as another process wants the cores. This many turns cost
# nothing on a free machine. Read when torch is loaded.
SPINS = "20000"


def run(arguments: Sequence[str]) -> int:
    """Run a command and return its exit status.

    An error that is our own keeps its traceback.

    Args:
        arguments: Arguments. None of them ask for help.

    Raises:
        BrokenPipeError: Nobody reads what is printed.
        Exception: Memory ran out (`out_of_memory`).
    """
    os.environ.setdefault("GOMP_SPINCOUNT", SPINS)
    given = [_at_home(one) for one in arguments]
    for one in given:
        if not one.isascii() and one.encode("utf-8", "surrogateescape") != one.encode(
            "utf-8", "replace"
        ):
            return fail(f"argument {one}: bytes that are no UTF-8; expected text in UTF-8")
    try:
        status = get_command(app).main(
            args=given or ["--help"], prog_name="attnaudit", standalone_mode=False
        )
    except typer.TyperException as error:
        return fail(_usage(error))
    except LostError as error:
        end(fail(str(error)))
    except AttnauditError as error:
        return fail(str(error))
    except SystemExit as error:
        # On a broken pipe typer silences the streams and exits with 1.
        return BROKEN_PIPE if error.code == 1 else int(error.code or 0)
    except BrokenPipeError:
        raise
    except OSError as error:
        if out_of_memory(error) is not None:
            raise
        place = f"{error.filename}: " if error.filename else ""
        expected = "a place that can be read and written, with free space"
        return fail(f"{place}{error.strerror or error}; expected {expected}")
    if status == INTERRUPTED:
        return fail(
            "interrupted; finished steps are kept, and the same command resumes", INTERRUPTED
        )
    return status if isinstance(status, int) else DONE


def fail(message: str, status: int = BAD_INPUT) -> int:
    """Print one line on stderr."""
    print(f"attnaudit: {printable(' '.join(message.split()))}", file=sys.stderr)
    return status


def end(status: int) -> NoReturn:
    """End this process without what libraries do at the end."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _at_home(argument: str) -> str:
    """Expand ``~`` where a shell does not: within quotes and behind ``=``, as in ``--out=~/r``."""
    home = str(Path.home())
    return re.sub(r"^((?:[\w.-]+=)*)~(?=/|$)", lambda found: found[1] + home, argument)


def _usage(error: typer.TyperException) -> str:
    context = getattr(error, "ctx", None)
    advice = f"see {context.command_path if context is not None else 'attnaudit'} --help"
    # typer passes on the words of pydantic for a refused number, which do not say what came.
    refused, option = getattr(error.__cause__, "errors", None), getattr(error, "param", None)
    if refused is None or option is None:
        return f"{error.format_message().rstrip('.')}; {advice}"
    found, name = refused()[0], max(option.opts, key=len)
    expected = found["msg"].removeprefix("Input should be ")
    return str(InputError("read options", name, repr(found["input"]), expected, advice))
