"""The description of the server's interface, as OpenAPI 3.1."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from attnaudit.server.sentence import MOST_CHARACTERS

_ERROR = {
    "description": "What is wrong, and what to do: a page for who accepts text/html and no JSON.",
    "content": {"application/json": {"schema": {
        "type": "object", "required": ["error"], "properties": {"error": {"type": "string"}}, "additionalProperties": False,
    }}, "text/html": {"schema": {"type": "string"}}},
}  # fmt: skip
_RUN = {
    "name": "run",
    "in": "path",
    "required": True,
    "schema": {"type": "integer", "minimum": 0, "maximum": 999_999},
}
_PAGE = {"description": "A page.", "content": {"text/html": {"schema": {"type": "string"}}}}


def _answers(ok: dict[str, Any], *errors: int) -> dict[str, Any]:
    return {"200": ok, **{str(status): _ERROR for status in (*errors, 404, 405, 421, 429)}}


def _json(description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def description(token: str) -> dict[str, Any]:
    """The document, for the server whose addresses begin with ``token``."""
    text = {"type": "string", "maxLength": MOST_CHARACTERS}
    sentence = {
        "type": "object", "required": ["text"], "additionalProperties": False,
        "properties": {"text": text, "question": {"type": ["string", "null"], "maxLength": MOST_CHARACTERS}},
    }  # fmt: skip
    entry = {
        "type": "object", "required": ["run", "name", "corpus", "model", "untyped"],
        "properties": {
            "run": {"type": "integer"}, "name": {"type": "string"}, "corpus": {"type": "string"}, "model": {"type": "string"},
            "untyped": {"type": ["string", "null"], "description": "Why no sentence can be typed; null where one can."},
        },
    }  # fmt: skip
    read = {
        "type": "object", "required": ["instances", "classes", "model", "epsilon", "left_out", "unknown", "remark"],
        "properties": {
            "instances": {"type": "array", "items": {"type": "object"}}, "classes": {"type": "array", "items": {"type": "string"}},
            "epsilon": {"type": "number"}, "unknown": {"type": "array", "items": {"type": "string"}},
            "remark": {"type": ["string", "null"]},
        },
    }  # fmt: skip
    paths = {
        "/": {"get": {"summary": "The runs, as a page.", "responses": _answers(_PAGE)}},
        "/runs": {"get": {
            "summary": "The runs.", "responses": _answers(_json("All runs.", {"type": "array", "items": entry})),
        }},
        "/runs/{run}": {"get": {"summary": "The page of a run.", "parameters": [_RUN], "responses": _answers(_PAGE)}},
        "/runs/{run}/type": {"get": {
            "summary": "Type a sentence.", "parameters": [_RUN], "responses": _answers(_PAGE, 422, 503),
        }},
        "/runs/{run}/read": {"post": {
            "summary": "What the model of a run makes of a sentence: what the playground computes with.", "parameters": [_RUN],
            "requestBody": {"required": True, "content": {"application/json": {"schema": sentence}}},
            "responses": _answers(_json("The sentence as read.", read), 400, 408, 413, 415, 422, 503),
        }},
        "/openapi.json": {"get": {"summary": "This document.", "responses": _answers(_json("OpenAPI.", {"type": "object"}))}},
    }  # fmt: skip
    return {
        "openapi": "3.1.0", "info": {"title": "attnaudit serve", "version": version("attnaudit")}, "servers": [{"url": f"/{token}"}],
        "paths": paths,
    }  # fmt: skip
