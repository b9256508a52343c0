"""Listen on 127.0.0.1 until Ctrl-C or SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import secrets
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from attnaudit.core.errors import RunError
from attnaudit.server.app import PATIENCE, make_app
from attnaudit.steps.finished import require_as_written

HOST = "127.0.0.1"
PORT = 8765


class _Protocol(H11Protocol):
    """Closes a connection on which no request arrives: idle ones count among those that the server answers at a time."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.loop.call_later(PATIENCE, self._expire, None)

    def _expire(self, last: object) -> None:
        """Close where nothing is being answered and no request came after the ``last``; else look again."""
        if self.transport.is_closing():
            return
        if self.cycle is last and (last is None or self.cycle.response_complete):
            self.transport.close()
        else:
            self.loop.call_later(PATIENCE, self._expire, self.cycle)


class _Server(uvicorn.Server):
    """Ends on the first signal, once the answers under way are given, and raises none again."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        before = {
            number: signal.signal(number, self.handle_exit)
            for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def serve(
    runs: Sequence[str | Path], port: int = PORT, tell: Callable[[str], None] = print
) -> None:
    """Serve the pages of finished runs until a signal; ``tell`` is given the address, whose token is new each time.

    Port 0 is any that is free. Raises RunError for a folder that is no finished run, and for a port in use.
    """
    folders = [Path(run) for run in runs]
    for folder in folders:
        require_as_written(folder)
        if not (folder / "report.html").is_file():
            raise RunError(
                "serve",
                str(folder),
                "no report.html there",
                "a run with its page",
                f"attnaudit report {folder}",
            )
    with _listening(port) as listening:
        token = secrets.token_urlsafe(24)
        config = uvicorn.Config(
            make_app(folders, token), http=_Protocol, ws="none", lifespan="off", log_level="warning", access_log=False, server_header=False,
            limit_concurrency=64, timeout_keep_alive=5, timeout_graceful_shutdown=3, h11_max_incomplete_event_size=16_384,
        )  # fmt: skip
        tell(f"http://{HOST}:{listening.getsockname()[1]}/{token}/")
        _Server(config).run(sockets=[listening])


def _listening(port: int) -> socket.socket:
    """A socket that listens. Raises RunError for a port in use, or one that may not be used."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
        listening.listen(64)
    except (OSError, OverflowError) as error:
        listening.close()
        got = (
            "in use"
            if getattr(error, "errno", None) == errno.EADDRINUSE
            else str(getattr(error, "strerror", None) or error)
        )
        raise RunError(
            "serve",
            f"port {port}",
            got,
            "a free port",
            "choose another by --port, or --port 0 for any",
        ) from error
    return listening
