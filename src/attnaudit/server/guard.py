"""Middleware around every answer: token, headers, and form of errors."""

import asyncio
from dataclasses import dataclass
from secrets import compare_digest
from typing import Any

from fastapi.responses import JSONResponse, Response
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


def problem(status: int, message: str, headers: Any = None) -> Response:
    """Report an error as JSON."""
    return JSONResponse({"error": message}, status, headers)


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
        app: Any = problem(404, "no such page; the terminal that runs attnaudit has the address")
        if compare_digest(given.encode(errors="surrogateescape"), self.token.encode()):
            app = self.app
        try:
            below = {**scope, "path": f"/{rest}", "root_path": "", "raw_path": b""}
            await app(below, receive, send_with_headers)
        except asyncio.CancelledError:
            # The server ends, and does not wait for this answer.
            if not begun:
                await problem(503, "the server has ended")(scope, receive, send_with_headers)
