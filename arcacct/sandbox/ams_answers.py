"""How the ARGO Messaging Service writes its answers: indented JSON, and errors that all have one form."""

from __future__ import annotations

import json

from arcacct.sandbox.wire import HTTPAnswer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NOT_FOUND = HTTPAnswer(404, b"404 page not found\n", "text/plain; charset=utf-8")
"""A path or a method that the service does not know."""


class Refusal(Exception):
    """An error answer, on its way out."""

    def __init__(self, code: int, status: str, message: str) -> None:
        super().__init__(message)
        self.answer = error(code, status, message)


def pretty(value: object) -> HTTPAnswer:
    """200 with JSON, three blanks a level."""
    return HTTPAnswer(200, json.dumps(value, indent=3).encode(), "application/json; charset=utf-8")


def error(code: int, status: str, message: str) -> HTTPAnswer:
    """An error as the service and its authn write it."""
    body = json.dumps({"error": {"code": code, "message": message, "status": status}}, indent=3)
    return HTTPAnswer(code, body.encode(), "application/json; charset=utf-8")


def read_object(body: bytes, complaint: str) -> dict[str, Any]:
    """The JSON object of a request; 400 with this complaint if it is none."""
    try:
        value = json.loads(body)
    except ValueError as problem:
        raise Refusal(400, "INVALID_ARGUMENT", complaint) from problem
    if not isinstance(value, dict):
        raise Refusal(400, "INVALID_ARGUMENT", complaint)
    return value


def field(body: dict[str, Any], name: str, default: Any) -> Any:
    """A member of an object by its name, in whatever case it is spelled: the real server is written in Go."""
    return next((value for key, value in body.items() if key.lower() == name.lower()), default)
