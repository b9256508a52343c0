"""The pages of runs, and sentences for their models.

A run is named by its number, so no path comes from a request.
"""

import logging
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

import anyio
from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.middleware.trustedhost import TrustedHostMiddleware
from fastapi.responses import HTMLResponse, JSONResponse, Response
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException as RoutingError
from starlette.middleware.body_limit import RequestBodyLimitMiddleware

from attnaudit.core import AttnauditError
from attnaudit.core.escapes import data_without_controls, printable
from attnaudit.experiments.verdict import decide_verdict
from attnaudit.recipes.compare import AUDITED, trace_of
from attnaudit.report.answer import LABELS, SIGNS
from attnaudit.report.live import ASKS, start_page, typing_page
from attnaudit.report.page import policy_of
from attnaudit.results import read_record
from attnaudit.server.files import ChangedError, read_page, require_own
from attnaudit.server.guard import Guard, problem
from attnaudit.server.sentence import MOST_CHARACTERS, Reader, why_not
from attnaudit.steps import read_spec
from attnaudit.steps.finished import READ

HOSTS = ["127.0.0.1", "localhost"]  # any other name is a page from elsewhere
MOST_BYTES = 256 * 1024  # enough for a text and a question in which JSON escapes each character
MOST_MODELS = 4  # in memory at a time
MOST_WAITING = 16
# Documentation of an error: what is wrong, and what to do.
PROBLEM: dict[str, Any] = {
    "description": "Problem",
    "content": {
        "application/json": {
            "schema": {"required": ["error"], "properties": {"error": {"type": "string"}}}
        },
        "text/plain": {},
    },
}
Text = Annotated[str, Field(max_length=MOST_CHARACTERS)]


class Sentence(BaseModel, extra="forbid"):
    """A text to read, and a question for a model that reads questions."""

    text: Text
    question: Text | None = None


def make_app(folders: Sequence[Path], token: str) -> Guard:
    """Make the application.

    Args:
        folders: Finished runs.
        token: First part of every address.
    """
    known = {str(number): folder for number, folder in enumerate(folders)}
    one, waiting, reader_of = anyio.CapacityLimiter(1), 0, lru_cache(MOST_MODELS)(Reader.of)

    async def in_turn(work: Callable[..., Any], *arguments: Any) -> Any:
        """Run work in a thread after the work before it. Raises HTTPException if much waits."""
        nonlocal waiting
        if waiting >= MOST_WAITING:
            raise HTTPException(503, "busy with other sentences; try again", {"Retry-After": "1"})
        waiting += 1
        try:
            return await anyio.to_thread.run_sync(work, *arguments, limiter=one)
        finally:
            waiting -= 1

    def numbered(run: str) -> Path:
        if run not in known:
            last = len(known) - 1
            raise HTTPException(404, f"no such run; they are numbered from 0 to {last}")
        return known[run]

    def typed(folder: Annotated[Path, Depends(numbered)]) -> Path:
        if (reason := why_not(folder)) is not None:
            raise HTTPException(404, reason)
        return folder

    app = FastAPI(
        title="attnaudit report --serve",
        servers=[{"url": f"/{token}"}],
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        responses=dict.fromkeys((400, 404, 405, 409, 413, 422, 503), PROBLEM),
        exception_handlers=HANDLERS,
    )
    app.add_middleware(RequestBodyLimitMiddleware, max_body_size=MOST_BYTES)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=HOSTS)

    @app.get("/", response_class=HTMLResponse)
    def start() -> Response:
        """Show the runs."""
        return _page(start_page(listed()))

    @app.get("/runs")
    def listed() -> list[dict[str, Any]]:
        """List the runs."""
        return [{"run": int(number), **_entry(folder)} for number, folder in known.items()]

    @app.get("/runs/{run}", response_class=HTMLResponse)
    def page(folder: Annotated[Path, Depends(numbered)]) -> Response:
        """Show the page of a run."""
        try:
            return _page(read_page(folder))
        except FileNotFoundError as error:
            got = "the page of this run cannot be read; attnaudit report writes it again"
            raise HTTPException(404, got) from error

    @app.get("/runs/{run}/type", response_class=HTMLResponse)
    async def typing(folder: Annotated[Path, Depends(typed)]) -> Response:
        """Show where a sentence is typed."""
        reader = await in_turn(reader_of, folder)
        name = printable(folder.resolve().name)
        return _page(typing_page(name, reader.model.has_question, reader.epsilon), ASKS)

    @app.post("/runs/{run}/read")
    async def read(folder: Annotated[Path, Depends(typed)], sentence: Sentence) -> JSONResponse:
        """Read a sentence: what the playground computes with."""
        reader = await in_turn(reader_of, folder)
        found = await in_turn(reader.read, sentence.text, sentence.question)
        return JSONResponse(data_without_controls(found))

    return Guard(app, token)


def _entry(folder: Path) -> dict[str, Any]:
    """Describe a run; one that was damaged or removed since the start hides no other."""
    about = {"name": printable(folder.resolve().name), "corpus": "–", "model": "–", "verdict": "–"}
    try:
        require_own(folder, *READ)
        # The metadata of the trace name the corpus and the model of an audit.
        trace = trace_of(folder) if read_spec(folder).get("kind") in AUDITED else None
        record = read_record(folder, trace if trace is not None and trace.exists() else None)
        found, code = record.about, decide_verdict(record.summary).code
        about |= {"corpus": found.title, "verdict": f"{SIGNS[code]} {LABELS[code]}"}
        model = found.model or f"{found.encoder} + {found.attention}"
        return {**about, "model": model, "untyped": why_not(folder)}
    except AttnauditError as error:
        return {**about, "untyped": printable(str(error))}


def _page(text: str, allows: str = "") -> Response:
    """Send a page with the server's policy: its own has no say, and no other page may frame it."""
    policy = f"{policy_of(text)}{allows}; frame-ancestors 'none'"
    return HTMLResponse(text, headers={"Content-Security-Policy": policy})


def _changed(request: Request, error: Any) -> Response:
    logging.getLogger(__name__).warning("attnaudit: %s", printable(str(error)))
    return problem(409, str(error))


def _invalid(request: Request, error: Any) -> Response:
    first = error.errors()[0]
    place = ".".join(map(str, first["loc"][1:])) or "body"
    expected = 'expected JSON, {"text": "…"}, with "question" for a model that reads questions'
    return problem(422, f"{place}: {first['msg']}; {expected}")


_FAILED = "this went wrong here; the terminal that runs attnaudit has the reason"
HANDLERS: dict[Any, Any] = {
    RoutingError: lambda _, error: problem(error.status_code, error.detail, error.headers),
    RequestValidationError: _invalid,
    ChangedError: _changed,
    AttnauditError: lambda _, error: problem(422, str(error)),
    Exception: lambda *_: problem(500, _FAILED),
}
