"""Middleware around every answer: token, headers, limit of requests, and form of errors."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from html import escape
from http import HTTPStatus
from secrets import compare_digest
from typing import Any

from fastapi import HTTPException, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response
from starlette.datastructures import MutableHeaders

# The policy of everything that is not a page.
NOTHING = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": NOTHING,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_ADDRESS = "the address with its token is in the terminal that runs attnaudit"
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


def problem(request: Request, status: int, message: str, headers: Any = None) -> Response:
    """Report an error, as a page if the request asks for one, as browsers do, else as JSON."""
    accepted = request.headers.get("accept", "").lower()
    if "text/html" not in accepted or "application/json" in accepted:
        return JSONResponse({"error": message}, status, headers)
    title = f"{status} {HTTPStatus(status).phrase}"
    return HTMLResponse(_PAGE.format(title=title, message=escape(message)), status, headers)


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

    def take(self) -> None:
        """Count one more request. Raises HTTPException if it is one too many."""
        now = self.clock()
        self.left, self.at = min(self.burst, self.left + (now - self.at) * self.rate), now
        if self.left < 1:
            raise HTTPException(429, "too many requests; wait a second", {"Retry-After": "1"})
        self.left -= 1


@dataclass
class Guard:
    """An ASGI application around another, which only sees requests with the token.

    Attributes:
        app: The other application. Its addresses begin after the token.
        token: First part of every address.
    """

    app: Any
    token: str

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request, with the headers of every answer."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun = False

        async def send_with_headers(message: Any) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun, headers = True, MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        # The target may be no path, as that of ``OPTIONS *``.
        given, _, rest = scope["path"].removeprefix("/").partition("/")
        app: Any = problem(Request(scope), 404, f"no such page; {_ADDRESS}")
        if compare_digest(given.encode(errors="surrogateescape"), self.token.encode()):
            app = self.app
        try:
            below = {**scope, "path": f"/{rest}", "root_path": "", "raw_path": b""}
            await app(below, receive, send_with_headers)
        except asyncio.CancelledError:
            # The server ends, and does not wait for this answer.
            if not begun:
                answer = problem(Request(scope), 503, "the server has ended")
                await answer(scope, receive, send_with_headers)
