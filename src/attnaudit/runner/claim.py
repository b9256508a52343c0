"""One driver of a cluster at a time in a folder: a file with a heartbeat, which needs neither locks of the file system nor equal clocks."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

from attnaudit.core.errors import RunError
from attnaudit.core.files import unwritable

NAME = ".driver.json"
BEAT, SILENT = 2.0, 10.0  # seconds between heartbeats; without one for so long a driver is dead

Check = Callable[[], None]


@contextlib.contextmanager
def claimed(folder: Path, beat: float = BEAT, silent: float = SILENT) -> Iterator[Check]:
    """Within it ``folder`` is this process's; gives a function that raises RunError once another has taken it over.

    A claim whose heartbeat, a counter, does not change for ``silent`` seconds of this machine's own monotonic clock is of a process that
    was killed, and is taken over. Raises RunError where another driver is alive, and where the folder cannot be written.
    """
    path, owner = folder / NAME, uuid.uuid4().hex
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        while not _create(path, _claim(owner, 0)):
            _wait_for_silence(path, silent)
    except OSError as error:
        raise unwritable(path, error) from error
    ended = threading.Event()
    thread = threading.Thread(target=_beat, args=(path, owner, beat, ended), daemon=True)
    thread.start()
    try:
        yield lambda: _check(path, owner)
    finally:
        ended.set()
        thread.join()
        if _read(path).get("owner") == owner:
            path.unlink(missing_ok=True)
        for empty in missing:
            with contextlib.suppress(OSError):
                empty.rmdir()


def refuse_claimed(folder: Path) -> None:
    """Raise RunError where a driver that is alive holds ``folder``; the claim of a dead one is removed.

    For local commands, which take no claim: several may share a folder, as each run in it is locked while it is made.
    """
    path = folder / NAME
    try:
        while path.exists():
            _wait_for_silence(path, SILENT)
    except OSError as error:
        raise unwritable(path, error) from error


def _claim(owner: str, count: int) -> str:
    return json.dumps(
        {"owner": owner, "host": socket.gethostname(), "pid": os.getpid(), "beat": count}
    )


def _beside(path: Path) -> Path:
    """A temporary name, of those that a killed process may leave and `attnaudit.runner.store.sweep` removes."""
    return path.with_name(f"{path.name}.{uuid.uuid4().hex[:8]}")


def _create(path: Path, text: str) -> bool:
    """Whether the file was made here: a link to a whole file, of which one process alone can be the first, on NFS too."""
    own = _beside(path)
    try:
        own.write_text(text, encoding="utf-8")
        os.link(own, path)
    except FileExistsError:
        return False
    finally:
        own.unlink(missing_ok=True)
    return True


def _wait_for_silence(path: Path, silent: float) -> None:
    """Raise RunError as soon as the heartbeat of the claim changes; remove one that is dead."""
    first, until = _read(path), time.monotonic() + silent
    while time.monotonic() < until:
        time.sleep(min(0.1, silent))
        now = _read(path)
        if now.get("owner") != first.get("owner"):
            return  # given back, or taken over: look again
        if now != first:
            got = f"process {now.get('pid')} of {now.get('host')} is at work there"
            raise RunError(
                "run",
                str(path.parent),
                got,
                "one command at a time",
                "wait for it, or choose another --out",
            )
    dead = _beside(path)
    with contextlib.suppress(FileNotFoundError):
        path.rename(dead)
        if _read(dead).get("owner") != first.get(
            "owner"
        ):  # another was faster, and its claim was caught
            dead.rename(path)
        dead.unlink(missing_ok=True)


def _beat(path: Path, owner: str, beat: float, ended: threading.Event) -> None:
    """Count on until the end, or until another's claim is seen: one that cannot be read just now may be this process's own."""
    count, own = 0, _beside(path)
    while not ended.wait(beat):
        count += 1
        with contextlib.suppress(OSError):
            if _read(path).get("owner", owner) != owner:
                break
            own.write_text(_claim(owner, count), encoding="utf-8")
            own.replace(path)
    with contextlib.suppress(OSError):
        own.unlink(missing_ok=True)  # of a beat that failed, as on a full disk


def _check(path: Path, owner: str) -> None:
    now = _read(path)
    if now and now.get("owner") != owner:
        got = f"process {now.get('pid')} of {now.get('host')} took it over, as this one was silent"
        raise RunError(
            "run on a cluster",
            str(path.parent),
            got,
            "one driver at a time",
            "wait for it; the same command resumes",
        )


def _read(path: Path) -> dict[str, object]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}
