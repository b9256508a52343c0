"""What every request passes before it is answered: the host, the token, how many there are; and the headers of every answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from html import escape
from http import HTTPStatus
from secrets import compare_digest
from typing import Any

from starlette.responses import HTMLResponse, JSONResponse, Response

HEADERS = {
    "Cache-Control": "no-store", "Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()", "Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}  # fmt: skip
NOTHING = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"  # the policy of all that is no page
HOSTS = (
    "127.0.0.1",
    "localhost",
)  # any other name is a page of elsewhere that resolves to this machine


_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title} – attnaudit</title>
</head>
<body><main><h1>{title}</h1><p>{message}</p></main></body>
</html>
"""


def problem(scope: Any, status: int, message: str, **headers: str) -> Response:
    """An error: what is wrong, and what to do. A page for who asks for pages, as browsers do when an address is opened, else JSON."""
    if not _asks_for_page(scope):
        return JSONResponse({"error": message}, status, headers)
    return HTMLResponse(
        _PAGE.format(title=f"{status} {HTTPStatus(status).phrase}", message=escape(message)),
        status,
        headers,
    )


def _asks_for_page(scope: Any) -> bool:
    accepted = b",".join(value for name, value in scope["headers"] if name == b"accept").lower()
    kinds = {part.partition(b";")[0].strip() for part in accepted.split(b",")}
    return b"text/html" in kinds and b"application/json" not in kinds


@dataclass
class Allowance:
    """``rate`` requests a second, after ``burst`` at once."""

    rate: float
    burst: float
    clock: Callable[[], float] = time.monotonic
    left: float = field(init=False)
    at: float = field(init=False)

    def __post_init__(self) -> None:
        self.left, self.at = self.burst, self.clock()

    def takes(self) -> bool:
        """Whether one more is allowed now."""
        now = self.clock()
        self.left, self.at = min(self.burst, self.left + (now - self.at) * self.rate), now
        if self.left < 1:
            return False
        self.left -= 1
        return True


@dataclass
class Guard:
    """An ASGI application around another, which sees only requests with the right host and token, few enough."""

    app: Any
    token: str
    requests: Allowance
    readings: Allowance

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        begun = False

        async def send_with_headers(message: Any) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                given = {name.lower() for name, _ in message["headers"]}
                usual = {**HEADERS, "Content-Security-Policy": NOTHING}
                kept = [
                    (name.lower().encode(), value.encode())
                    for name, value in usual.items()
                    if name.lower().encode() not in given
                ]
                message = {**message, "headers": [*message["headers"], *kept]}
            await send(message)

        refused = self._refused(scope)
        if refused is not None:
            await refused(scope, receive, send_with_headers)
            return
        root = f"/{self.token}"
        below = {
            **scope,
            "path": scope["path"].removeprefix(root) or "/",
            "root_path": "",
            "raw_path": b"",
        }
        try:
            await self.app(below, receive, send_with_headers)
        except asyncio.CancelledError:  # the server ends, and waits no longer for this answer
            if not begun:
                await problem(scope, 503, "the server has ended")(scope, receive, send_with_headers)

    def _refused(self, scope: Any) -> Response | None:
        host = dict(scope["headers"]).get(b"host", b"").decode("latin-1").partition(":")[0]
        if host not in HOSTS:
            return problem(scope, 421, "this server answers to 127.0.0.1 and localhost alone")
        given = (
            scope["path"].partition("/")[2].partition("/")[0].encode("utf-8", "surrogateescape")
        )  # of OPTIONS * nothing
        if not compare_digest(given, self.token.encode()):
            return problem(
                scope,
                404,
                "no such page; the address with its token is in the terminal that runs attnaudit serve",
            )
        if not self.requests.takes() or (scope["method"] == "POST" and not self.readings.takes()):
            return problem(scope, 429, "too many requests; wait a second", **{"Retry-After": "1"})
        return None
