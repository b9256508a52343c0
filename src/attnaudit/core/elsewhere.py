"""Native code in a process of its own: if it crashes or never ends, only that call is lost.

Run as a script, this file is that process: it answers each line of JSON with another.
"""

import atexit
import base64
import contextlib
import json
import os
import signal
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import Any

PATIENCE = 60  # seconds for a call; the first of a process takes 1, others less than 0.1
PACE = 2_000_000  # bytes of a file that are decoded per second, at the least
_TURN = Lock()
# By the process that started the child; a forked process starts its own.
_children: dict[int, subprocess.Popen[str]] = {}


def convert(function: str, *arguments: Any) -> bytes:
    """Call a function of vl-convert.

    Raises:
        ValueError: The function refused its arguments, crashed, or took longer than `PATIENCE`.
    """
    return base64.b64decode(_answer(PATIENCE, "vl_convert", function, *arguments))


def decode(path: Path) -> None:
    """Decode a Parquet file once, since damaged bytes may end the process that reads them.

    Raises:
        ValueError: It cannot be decoded.
    """
    patience = PATIENCE + path.stat().st_size // PACE
    _answer(patience, "__main__", "decoded", str(path.absolute()))


def _answer(patience: int, *call: Any) -> str:
    with _TURN:
        line = ""
        try:
            with contextlib.suppress(OSError):  # it cannot be started, or has ended
                child = _children.get(os.getpid()) or _start()
                print(json.dumps([patience, *call]), file=child.stdin, flush=True)
                line = child.stdout.readline() if child.stdout else ""
        finally:
            if not line.endswith("\n"):  # also after Ctrl-C, when an answer is still to come
                stop()
    made, reason = json.loads(line if line.endswith("\n") else "[null, null]")
    if made is None:
        raise ValueError(reason or _loss(patience))
    return made


def _loss(patience: int) -> str:
    with contextlib.suppress(ImportError):  # not on Windows
        import resource

        if resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY:
            return "its process ended, because it needs more address space than ulimit -v allows"
    return f"its process crashed, or took more than {patience} s"


def _start() -> subprocess.Popen[str]:
    pipe, null = subprocess.PIPE, subprocess.DEVNULL
    command = [sys.executable, "-P", __file__]
    child = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=null, encoding="utf-8")
    _children[os.getpid()] = child
    atexit.register(stop)
    return child


def stop() -> None:
    """End the child of this process; the next call starts another."""
    if child := _children.pop(os.getpid(), None):
        child.kill()
        child.communicate()


def decoded(path: str) -> str:
    """Decode all columns of a Parquet file, some rows at a time."""
    import polars as pl

    # `collect_batches` ends quietly if a thread fails.
    pl.scan_parquet(path, glob=False).sink_batches(lambda rows: None, chunk_size=1 << 13)
    return ""


def _serve() -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # nothing else is an answer
    alarm = getattr(signal, "alarm", lambda seconds: 0)  # not on Windows
    if hasattr(signal, "SIGALRM"):
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # ends it within native code too
    for line in sys.stdin:
        patience, module, function, *arguments = json.loads(line)
        alarm(patience)
        try:
            made = getattr(import_module(module), function)(*arguments)
            content = made.encode() if isinstance(made, str) else made
            answer = base64.b64encode(content).decode(), None
        except Exception as error:  # noqa: BLE001 - of any library
            answer = None, str(error).strip().rpartition("\n")[2].strip() or "no reason"
        alarm(0)
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    _serve()
