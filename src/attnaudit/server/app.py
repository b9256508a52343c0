"""The pages and what they ask for. A run is named by its number: no path comes from a request."""

from __future__ import annotations

import asyncio
import json
import re
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any

import anyio
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from attnaudit.core.errors import AttnauditError
from attnaudit.core.printable import data_without_controls, printable
from attnaudit.recipes.compare import AUDITED, trace_of
from attnaudit.report.live import start_page, typing_page
from attnaudit.results.record import read_record
from attnaudit.server.guard import NOTHING, Allowance, Guard, problem
from attnaudit.server.openapi import description
from attnaudit.server.sentence import MOST_CHARACTERS, Reader, why_not
from attnaudit.steps.finished import read_spec

MOST_BYTES = 64 * 1024
MOST_MODELS = 4  # in memory at a time
MOST_WAITING = 8
PATIENCE = 10.0  # seconds that a body may take to arrive
_POLICY = re.compile(
    r'<meta http-equiv="Content-Security-Policy" content="(default-src \'none\';[^"<>]*)">'
)


@dataclass
class Runs:
    """Finished runs by their number, and the models that are loaded, at most `MOST_MODELS`."""

    folders: Sequence[Path]
    readers: OrderedDict[int, Reader] = field(default_factory=OrderedDict)
    loading: dict[int, anyio.Lock] = field(default_factory=dict)
    waiting: int = 0
    one: anyio.CapacityLimiter | None = None

    def entry(self, number: int) -> dict[str, Any]:
        """What the list says of a run; one that was damaged or removed since the start is named, and hides no other."""
        folder = self.folders[number]
        found = {"run": number, "name": printable(folder.resolve().name)}
        try:
            about = read_record(folder, _trace_of(folder)).about
            model = about.model or f"{about.encoder} + {about.attention}"
            return {**found, "corpus": about.title, "model": model, "untyped": why_not(folder)}
        except AttnauditError as error:
            return {**found, "corpus": "–", "model": "–", "untyped": printable(str(error))}

    async def reader(self, number: int) -> Reader:
        """The model of a run, loaded when it is first needed, once for all who ask meanwhile. Raises AttnauditError."""
        async with self.loading.setdefault(number, anyio.Lock()):
            if number not in self.readers:
                self.readers[number] = await self._alone(Reader.of, self.folders[number])
                while len(self.readers) > MOST_MODELS:
                    self.readers.popitem(last=False)
            self.readers.move_to_end(number)
            return self.readers[number]

    async def read(self, number: int, text: str, question: str | None) -> dict[str, Any]:
        return await self._alone((await self.reader(number)).read, text, question)

    async def _alone(self, work: Any, *arguments: Any) -> Any:
        """Work in a thread, one at a time; few may wait."""
        self.one = self.one or anyio.CapacityLimiter(1)
        if self.waiting >= MOST_WAITING:
            raise HTTPException(503, "busy with other sentences; try again", {"Retry-After": "1"})
        self.waiting += 1
        try:
            return await anyio.to_thread.run_sync(work, *arguments, limiter=self.one)
        finally:
            self.waiting -= 1


def make_app(folders: Sequence[Path], token: str, *, rate: float = 8, burst: float = 24) -> Guard:
    """The application for finished runs; of a token of its own, ``rate`` readings a second after ``burst`` at once."""
    runs = Runs(folders)

    async def start(request: Request) -> Response:
        return _page(start_page([runs.entry(number) for number in range(len(folders))]))

    async def listed(request: Request) -> Response:
        return JSONResponse([runs.entry(number) for number in range(len(folders))])

    async def page(request: Request) -> Response:
        place = folders[_number(request, runs)] / "report.html"
        try:
            return _page(await anyio.to_thread.run_sync(lambda: place.read_text(encoding="utf-8")))
        except (OSError, UnicodeDecodeError) as error:
            raise HTTPException(
                404, "the page of this run cannot be read; attnaudit report writes it again"
            ) from error

    async def typing(request: Request) -> Response:
        number = _number(request, runs)
        entry = runs.entry(number)
        if entry["untyped"] is not None:
            raise HTTPException(404, entry["untyped"])
        reader = await runs.reader(number)
        return _page(typing_page(entry["name"], reader.model.has_question, reader.epsilon))

    async def read(request: Request) -> Response:
        number = _number(request, runs)
        if (reason := why_not(folders[number])) is not None:
            raise HTTPException(404, reason)
        text, question = _sentence(await _body(request))
        return JSONResponse(data_without_controls(await runs.read(number, text, question)))

    async def openapi(request: Request) -> Response:
        return JSONResponse(description(token))

    routes = [
        Route("/", start), Route("/runs", listed), Route("/runs/{run}", page), Route("/runs/{run}/type", typing),
        Route("/runs/{run}/read", read, methods=["POST"]), Route("/openapi.json", openapi),
    ]  # fmt: skip
    handlers: Any = {
        HTTPException: _as_raised,
        AttnauditError: _refused,
        ClientDisconnect: _gone,
        Exception: _failed,
    }
    app = Starlette(routes=routes, exception_handlers=handlers)
    app.router.redirect_slashes = False
    return Guard(app, token, Allowance(50, 200), Allowance(rate, burst))


def _trace_of(folder: Path) -> Path | None:
    """The trace whose metadata name the corpus and model of a run, or of an audit; None where it has gone, or the folder has none."""
    if read_spec(folder).get("kind") not in AUDITED:
        return None
    trace = trace_of(folder)
    return trace if trace.exists() else None


def _page(text: str) -> Response:
    """A page with its own policy, which no other page may frame; one without a policy runs no script."""
    found = _POLICY.search(text)
    policy = (
        f"{found[1]}; frame-ancestors 'none'"
        if found
        else f"{NOTHING}; style-src 'unsafe-inline'; img-src data:"
    )
    return HTMLResponse(text, headers={"Content-Security-Policy": policy})


def _number(request: Request, runs: Runs) -> int:
    given = request.path_params["run"]
    if not re.fullmatch(r"[0-9]{1,6}", given) or int(given) >= len(runs.folders):
        raise HTTPException(
            404, f"no such run; they are numbered from 0 to {len(runs.folders) - 1}"
        )
    return int(given)


async def _body(request: Request) -> bytes:
    if (
        request.headers.get("content-type", "").partition(";")[0].strip().lower()
        != "application/json"
    ):
        raise HTTPException(415, "expected JSON, with Content-Type: application/json")
    body = bytearray()
    try:
        async with asyncio.timeout(PATIENCE):
            async for part in request.stream():
                body += part
                if len(body) > MOST_BYTES:
                    raise HTTPException(
                        413,
                        f"more than {MOST_BYTES} bytes; a text has at most {MOST_CHARACTERS} characters",
                    )
    except TimeoutError as error:
        raise HTTPException(408, f"the body did not arrive within {PATIENCE:g} seconds") from error
    return bytes(body)


def _sentence(body: bytes) -> tuple[str, str | None]:
    """Text and question of a body. Raises HTTPException."""
    try:
        given = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise HTTPException(400, "the body is no JSON") from error
    if not isinstance(given, dict) or not {"text"} <= given.keys() <= {"text", "question"}:
        raise HTTPException(
            422, 'expected {"text": "…"}, and for a model that reads questions "question"'
        )
    text, question = given["text"], given.get("question")
    if not isinstance(text, str) or not isinstance(question, str | None):
        raise HTTPException(422, "text and question are strings")
    for name, value in (("text", text), ("question", question or "")):
        if len(value) > MOST_CHARACTERS:
            raise HTTPException(
                422, f"{name} has {len(value)} characters; expected at most {MOST_CHARACTERS}"
            )
        if any("\ud800" <= letter <= "\udfff" for letter in value):
            raise HTTPException(422, f"{name} has half of a surrogate pair, which is no character")
    return text, question


async def _as_raised(request: Request, error: Any) -> Response:
    said = error.detail
    if said == HTTPStatus(error.status_code).phrase:  # of an address or a method that no route has
        said = (
            f"{said}: the address of the list of runs is in the terminal that runs attnaudit serve"
        )
    return problem(request.scope, error.status_code, said, **dict(error.headers or {}))


async def _refused(request: Request, error: Any) -> Response:
    return problem(request.scope, 422, str(error))


async def _gone(request: Request, error: Any) -> Response:
    return problem(request.scope, 400, "the request ended before its body did")


async def _failed(request: Request, error: Any) -> Response:
    return problem(
        request.scope,
        500,
        "this went wrong here; the terminal that runs attnaudit serve has the reason",
    )
