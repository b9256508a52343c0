"""Listen on 127.0.0.1 until Ctrl-C or SIGTERM."""

import asyncio
import errno
import logging
import secrets
import signal
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from attnaudit.core import RunError, expanded
from attnaudit.report.page import policy_of
from attnaudit.server.app import make_app
from attnaudit.server.files import PAGE, read_page
from attnaudit.steps import require_as_written

HOST = "127.0.0.1"
PORT = 8765
PATIENCE = 10.0  # seconds that a request may take to arrive


class IdleLimit(H11Protocol):
    """Close a connection on which no whole request arrives within `PATIENCE`.

    Connections count among those that the server answers at a time, and uvicorn limits the time
    between two requests only.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait."""
        super().connection_made(transport)
        self.loop.call_later(PATIENCE, self._expire, None)

    def _expire(self, last: object) -> None:
        """Close if nothing has happened since the ``last`` look; else look again later."""
        if self.transport.is_closing():
            return
        waits = self.cycle is None or self.cycle.response_complete or self.cycle.more_body
        if self.cycle is last and waits:
            self.transport.close()
        else:
            self.loop.call_later(PATIENCE, self._expire, self.cycle)


def serve(
    runs: Sequence[str | Path], port: int = PORT, tell: Callable[[str], None] = print
) -> None:
    """Serve the pages of finished runs until a signal.

    Args:
        runs: Folders of the runs.
        port: Port; 0 is any that is free.
        tell: Called with the address, whose token is new each time.

    Raises:
        RunError: A folder is not a finished run, or the port is in use.
    """
    folders = [expanded(run) for run in runs]
    for folder in folders:
        require_as_written(folder)
        try:
            page = read_page(folder)
        except FileNotFoundError as error:
            expected = "a run with its page"
            raise RunError(
                "serve", str(folder), f"no {PAGE} there", expected, f"attnaudit report {folder}"
            ) from error
        if page.count("<script>") > policy_of(page).count("'sha256-"):
            said = "attnaudit: %s: another version wrote this page, so its scripts stay off; %s"
            do = f"attnaudit report {folder} writes it again"
            logging.getLogger(__name__).warning(said, folder, do)
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((HOST, port))
            listening.listen(64)
        except (OSError, OverflowError) as error:
            used = isinstance(error, OSError) and error.errno == errno.EADDRINUSE
            got, do = "in use" if used else str(error), "choose another by --port, or 0 for any"
            raise RunError("serve", f"port {port}", got, "a free port", do) from error
        token = secrets.token_urlsafe(24)
        config = uvicorn.Config(
            make_app(folders, token),
            http=IdleLimit,
            ws="none",
            lifespan="off",
            log_level="warning",
            access_log=False,
            server_header=False,
            limit_concurrency=64,
            timeout_graceful_shutdown=3,
            h11_max_incomplete_event_size=16_384,
        )
        tell(f"http://{HOST}:{listening.getsockname()[1]}/{token}/")
        # The server raises the signal that ended it again, which is not for others to see.
        signals = signal.SIGINT, signal.SIGTERM
        before = {number: signal.signal(number, lambda *_: None) for number in signals}
        try:
            uvicorn.Server(config).run(sockets=[listening])
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
