"""The answer of the API to a request that it refuses."""

from __future__ import annotations

import logging

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic_core import ErrorDetails
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from contrastive_st.errors import InputError
from contrastive_st.search.index import DeletedCollection, Refused, UnknownColumn
from contrastive_st.search.values import one_line
from contrastive_st.serve.schemas import error_answer

logger = logging.getLogger(__name__)
_RETRY = 2  # seconds


async def refusal(request: Request, error: Exception) -> Response:
    """The answer to a request that raised an error."""
    status, message, headers = 400, str(error), dict(getattr(error, "headers", None) or {})
    if isinstance(error, (UnknownColumn, DeletedCollection)):
        status = 404
    elif isinstance(error, Refused):
        logger.warning("%s", error)  # clients must not learn where the database is
        status, message = error.status, error.what
        if status == 503:
            message, headers["Retry-After"] = f"{message}; try again in {_RETRY} s", str(_RETRY)
    elif not isinstance(error, (InputError, HTTPException, RequestValidationError, ClientDisconnect)):
        status, message = 500, "this server is at fault; its log says how"
    elif isinstance(error, HTTPException):
        status, message = error.status_code, str(error.detail)
    elif isinstance(error, RequestValidationError):
        status, message = 422, _what_is_wrong(error)
    return error_answer(request.url.path, status, one_line(message, 500), headers)


def _what_is_wrong(error: RequestValidationError) -> str:
    """The innermost fault of a body, with the field that has it; of a type that fits less, pydantic says less."""
    faults = error.errors()
    fault = max(faults, key=lambda one: len(one["loc"]))
    if fault["type"] == "json_invalid":
        return f"the body is not JSON: {fault.get('ctx', {}).get('error', fault['msg'])}"
    name = _field(fault, error.body)
    if {"id", "ids"} & set(fault["loc"]):
        return "an id is a whole number, or text that is not blank"
    if "filter" in fault["loc"]:  # pydantic names each form that it is not
        return "filter: give conditions such as year>=2020 or topic=sea,sky, a list of them, or an object such as " + (
            '{"year": {">=": 2020}, "topic": ["sea", "sky"]}; a range takes a number or a date'
        )
    # of each type that the field may have, pydantic says why the value is not of it
    reasons = [one["msg"].removeprefix("Value error, ") for one in faults if _field(one, error.body) == name]
    return f"{name}: " + " or ".join([reasons[0], *(one.removeprefix("Input should be ") for one in reasons[1:])])


def _field(fault: ErrorDetails, body: object) -> str:
    """The innermost field of a body that a fault is about; the place also names types, which are not in the body."""
    name = "the body"
    for part in fault["loc"][1:]:
        if isinstance(body, dict) and (part in body or fault["type"] == "missing"):
            name, body = str(part), body.get(part)
        elif isinstance(body, list) and isinstance(part, int):
            body = body[part]
    return name
