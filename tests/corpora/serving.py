"""A web server of our own for downloads, which can be told to misbehave."""

import contextlib
import socket
import threading
from collections import defaultdict
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Site:
    """``files`` by path; for each of the next answers of a path, ``cut`` ends it after so many bytes.

    ``asked`` are the paths of all requests, in order.
    """

    address: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    cut: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    moved: dict[str, str] = field(default_factory=dict)
    tells_size: bool = True
    asked: list[str] = field(default_factory=list)

    def url(self, path):
        return f"{self.address}{path}"


@contextlib.contextmanager
def serving():
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

    def do_GET(self):
        site, path = self.of, self.path.split("?")[0]
        site.asked.append(path)
        if path in site.moved:
            self._head(302, {"Location": site.moved[path], "Content-Length": "0"})
        elif path not in site.files:
            self._head(404, {"Content-Length": "0"})
        else:
            self._send(path)

    def _send(self, path):
        site, body = self.of, self.of.files[path]
        self._head(200, {"Content-Length": str(len(body))} if site.tells_size else {})
        cut = site.cut[path].pop(0) if site.cut[path] else len(body)
        with contextlib.suppress(ConnectionError):
            self.wfile.write(body[:cut])
            self.wfile.flush()
            if cut < len(body):
                self.connection.shutdown(socket.SHUT_RDWR)

    def _head(self, status, headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, format, *args):
        """Say nothing."""
