"""A web server of our own for downloads, which can be told to misbehave."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Site:
    """``files`` by path; for each of the next answers of a path, ``cut`` ends it after so many bytes, ``status`` is given instead.

    ``shift`` moves the range that is sent. ``asked`` are the path and the Range of every request, in order.
    """

    address: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    cut: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    status: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    moved: dict[str, str] = field(default_factory=dict)
    ranges: bool = True
    tag: str = '"one"'
    tells_size: bool = True
    shift: int = 0
    asked: list[tuple[str, str | None]] = field(default_factory=list)

    def url(self, path: str) -> str:
        return f"{self.address}{path}"


@contextlib.contextmanager
def serving() -> Iterator[Site]:
    """A site at a free port of this machine."""
    site = Site()

    class Handler(_Handler):
        of = site

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    site.address = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    of: Site

    def do_GET(self) -> None:
        site, path = self.of, self.path.split("?")[0]
        asked = self.headers.get("Range")
        site.asked.append((path, asked))
        if path in site.moved:
            self._head(302, {"Location": site.moved[path], "Content-Length": "0"})
        elif site.status[path]:
            self._head(site.status[path].pop(0), {"Content-Length": "0"})
        elif path not in site.files:
            self._head(404, {"Content-Length": "0"})
        else:
            self._send(path, asked)

    def _send(self, path: str, asked: str | None) -> None:
        site, whole = self.of, self.of.files[path]
        fits = self.headers.get("If-Range") in (None, site.tag)
        start = int(re.findall(r"\d+", asked)[0]) if asked and site.ranges and fits else 0
        if start and start >= len(whole):
            self._head(416, {"Content-Length": "0"})
            return
        start += site.shift if start else 0
        body = whole[start:]
        headers = {"ETag": site.tag} if site.tag else {}
        if site.tells_size:
            headers["Content-Length"] = str(len(body))
        if start:
            headers["Content-Range"] = f"bytes {start}-{len(whole) - 1}/{len(whole)}"
        self._head(206 if start else 200, headers)
        cut = site.cut[path].pop(0) if site.cut[path] else len(body)
        with contextlib.suppress(ConnectionError):
            self.wfile.write(body[:cut])
            self.wfile.flush()
            if cut < len(body):
                self.connection.shutdown(socket.SHUT_RDWR)

    def _head(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""
