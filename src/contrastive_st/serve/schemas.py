"""What the routes of the API take and answer, as its OpenAPI document says it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Annotated, Literal

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, BeforeValidator, ConfigDict, FailFast, Field, WithJsonSchema, model_validator
from pydantic_core import ErrorDetails
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from contrastive_st.errors import InputError
from contrastive_st.files.reading import JsonObject
from contrastive_st.search.filters import NUMBER, OF_SQL, QUOTED
from contrastive_st.search.index import DeletedCollection, Refused, UnknownColumn
from contrastive_st.search.values import DATE, EXACT, one_line
from contrastive_st.serve.limits import KEYS, MOST_HITS, MOST_INPUTS
from contrastive_st.serve.served import UNKNOWN

logger = logging.getLogger(__name__)
_RETRY = 2  # seconds

# --- Requests. A field that is not here is refused, so that none is accepted and ignored.


def _text_or_list(value: object) -> object:
    """An input, of which nothing is looked at that could be long; `Served.rows` does that in a thread."""
    if not isinstance(value, (str, list)):
        raise ValueError("give a text, a list of texts, or token ids")
    return value


def _integer(number: object) -> object:
    return int(number) if isinstance(number, float) and number.is_integer() else number


_Schema = dict[str, object]
_TEXT: _Schema = {"type": "string"}
_IDS: _Schema = {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1}
_MANY: _Schema = {"type": "array", "minItems": 1, "description": f"{MOST_INPUTS:,} at most (413)"}
Input = Annotated[
    object,
    BeforeValidator(_text_or_list),
    WithJsonSchema({"anyOf": [_TEXT, {**_MANY, "items": _TEXT}, _IDS, {**_MANY, "items": _IDS}]}),
]  # texts, or token ids of the model's tokenizer
_Integer = BeforeValidator(_integer)  # 2.0 is an integer in JSON Schema
Dimensions = Annotated[int, Field(ge=1), _Integer]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class EmbeddingRequest(_Strict):
    """`POST /v1/embeddings`, as OpenAI's."""

    input: Input
    model: str | None = None
    dimensions: Dimensions | None = None
    encoding_format: Literal["float", "base64"] | None = None
    user: str | None = None


class TextOptions(_Strict):
    """How texts are read."""

    truncate: bool | None = None
    truncation_direction: Literal["right", "Right"] | None = None
    prompt_name: str | None = None


class EmbedRequest(TextOptions):
    """`POST /embed`, as that of text-embeddings-inference."""

    inputs: Input
    model: str | None = None
    normalize: bool = True
    dimensions: Dimensions | None = None


class Comparison(_Strict):
    """A sentence, and those it is compared with."""

    source_sentence: str
    sentences: Annotated[list[str], FailFast(), Field(min_length=1)]


class SimilarityRequest(_Strict):
    """`POST /similarity`, as that of text-embeddings-inference."""

    inputs: Comparison
    model: str | None = None
    parameters: TextOptions = TextOptions()


# The white space that is stripped, one by one: \s is Python's, Rust's or JavaScript's where a client reads the document
_SPACES = r"\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_BLANK, _BREAK = f"[{_SPACES}]*", f"[{_SPACES};]*"
_COLUMN = rf'({QUOTED}|[^<>=!;"{_SPACES}][^<>=!;]*)'
_VALUE = rf"""{_BLANK}({QUOTED}{_BLANK}|{OF_SQL}{_BLANK}|[^,;"'{_SPACES}][^,;]*)?"""
_END = f"({NUMBER}|{DATE.replace(',', '')})"  # without the comma that may stand before parts of a second
_RANGE = rf'(<=?|>=?){_BLANK}({_END}|"{_END}"){_BLANK}'
_CONDITION = rf"{_COLUMN}{_BLANK}((==?|!=){_VALUE}(,{_VALUE})*|{_RANGE})"
Conditions = Annotated[
    str,
    Field(min_length=1),
    WithJsonSchema({"type": "string", "pattern": rf"^{_BREAK}{_CONDITION}(;{_BREAK}{_CONDITION})*{_BREAK}$"}),
]  # all but values such as 'tis; `search/filters.py` has the whole grammar
Scalar = str | int | float | bool | None
Values = Scalar | Annotated[list[Scalar], Field(min_length=1)]
End = int | float | Annotated[str, Field(pattern=f"^{DATE}$")]


class Compared(_Strict):
    """What a column of the metadata is compared with."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

    equal: Values = Field(None, alias="=")
    other: Values = Field(None, alias="!=")
    below: End = Field(0, alias="<")
    at_most: End = Field(0, alias="<=")
    above: End = Field(0, alias=">")
    at_least: End = Field(0, alias=">=")

    @model_validator(mode="after")
    def _compares(self) -> Compared:
        if not self.model_fields_set:
            raise ValueError("give an operator and a value")
        return self


_Filter = Conditions | dict[str, Values | Compared]
Filters = Annotated[list[_Filter], Field(max_length=KEYS // 2)] | _Filter | None


class SearchRequest(_Strict):
    """`POST /search`: the documents of an index that are nearest to a query."""

    query: str
    index: str | None = None
    k: Annotated[int, Field(ge=1, le=MOST_HITS), _Integer] = 10
    filter: Filters = None
    hybrid: bool = False
    rerank_top: Annotated[int, Field(ge=0, le=MOST_HITS), _Integer] = 0
    min_score: Annotated[float, Field(ge=-1, le=1)] | None = None


def _exact_id(id: object) -> object:
    """An id as `as_id` reads it: a float beyond 2^53 may be another number than the one that was written."""
    return _integer(id) if not isinstance(id, float) or abs(id) < EXACT else id


_Id = Annotated[int | Annotated[str, Field(min_length=1)], BeforeValidator(_exact_id)]


class NewDocument(_Strict):
    """A document; one with its id that is there is replaced."""

    id: _Id
    text: str
    metadata: dict[str, object] = {}


class UpsertRequest(_Strict):
    """`POST /upsert`: insert documents, or replace those with the same ids, all or none."""

    index: str | None = None
    documents: Annotated[list[NewDocument], FailFast(), Field(min_length=1)]


class DeleteRequest(_Strict):
    """`POST /delete`: delete documents by their ids, or those that meet a filter."""

    index: str | None = None
    ids: Annotated[list[_Id], Field(min_length=1)] | None = None
    filter: Filters = None


class ClassifyRequest(_Strict):
    """`POST /classify`: label texts."""

    inputs: Annotated[
        list[str],
        BeforeValidator(lambda value: [value] if isinstance(value, str) else value),
        Field(min_length=1, max_length=MOST_INPUTS),
        WithJsonSchema({"anyOf": [_TEXT, {**_MANY, "items": _TEXT}]}),
    ]
    classifier: str | None = None


# --- Answers.


class Embedding(BaseModel):
    """A vector, as numbers or in base64."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class Usage(BaseModel):
    """How many tokens the input has."""

    prompt_tokens: int
    total_tokens: int


class Embeddings(BaseModel):
    """The answer of `/v1/embeddings`."""

    object: Literal["list"]
    data: list[Embedding]
    model: str
    usage: Usage


class Model(BaseModel):
    """A model that requests may name."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "contrastive-st"


class Models(BaseModel):
    """The answer of `/v1/models`."""

    object: Literal["list"] = "list"
    data: list[Model]


class Info(BaseModel):
    """The answer of `/info`, of the first model."""

    model_id: str
    model_dtype: str
    model_type: dict[str, dict[str, str]]
    dimension: int
    max_input_length: int | None
    max_batch_tokens: int
    max_client_batch_size: int
    max_concurrent_requests: int
    auto_truncate: bool
    version: str


class SearchHit(BaseModel):
    """A document; an id beyond the 53 bits of JavaScript's numbers is a string, as such numbers of the metadata are.

    A part of a document also has the number of its row and its own.
    """

    id: int | str
    score: float | None
    text: str
    metadata: dict[str, object]
    document: int | None = Field(None, alias="(document)")
    part: int | None = Field(None, alias="(part)")


class Hits(BaseModel):
    """The answer of `/search`."""

    index: str
    hits: list[SearchHit]
    notes: list[str]


class Upserted(BaseModel):
    """The answer of `/upsert`: how many documents are new, had another text or other metadata, or neither."""

    index: str
    new: int
    changed: int
    unchanged: int


class Deleted(BaseModel):
    """The answer of `/delete`."""

    index: str
    deleted: int


class Prediction(BaseModel):
    """The labels of a text, and the probability of each class (its cosine, if these are class means)."""

    labels: list[str]
    scores: dict[str, float]


class Classified(BaseModel):
    """The answer of `/classify`."""

    classifier: str
    predictions: list[Prediction]


class Health(BaseModel):
    """The answer of `/health`."""

    status: Literal["ok"] = "ok"
    models: list[str]
    indices: list[str]
    classifiers: list[str]


# --- Errors, in the form of the API that was asked.

_KINDS = {
    401: "authentication", 403: "authentication", 409: "conflict", 413: "too_large", 429: "overloaded", 500: "internal",
    503: "unhealthy", 507: "unhealthy",
}  # fmt: skip


class Error(BaseModel):
    """An error in the form of text-embeddings-inference."""

    error: str
    error_type: Literal[
        "invalid_request", "authentication", "conflict", "too_large", "overloaded", "internal", "unhealthy"
    ]


class OpenAIFault(BaseModel):
    """What is wrong."""

    message: str
    type: str
    param: str | None
    code: str | None


class OpenAIError(BaseModel):
    """An error in the form of OpenAI's API."""

    error: OpenAIFault


def error_answer(path: str, status: int, line: str, headers: Mapping[str, str]) -> JSONResponse:
    """An error in the form of the API that was asked: OpenAI's, or text-embeddings-inference's.

    Args:
        path: of the request.
        status: of HTTP.
        line: what is wrong.
        headers: further headers.

    Returns:
        The answer.
    """
    kind = _KINDS.get(status, "invalid_request")
    content: dict[str, object] = {"error": line, "error_type": kind}
    if path.startswith("/v1/"):
        missing = status == 404 and line.startswith("there is no model")
        param, code = ("model", "model_not_found") if missing else (None, None)
        content = {"error": {"message": line, "type": f"{kind}_error", "param": param, "code": code}}
    return JSONResponse(content, status, headers)


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
    if {"id", "ids"} & set(fault["loc"]) and fault["type"] != "too_short":
        return "an id is a whole number, beyond 2^53 without a fraction or an exponent, or text that is not blank"
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


_ERRORS = {
    400: "It cannot be answered as it stands.",
    401: "The token of this server is missing or another one.",
    403: "The role with which this server opened the database may not do that.",
    404: "There is no such model, index or column; or the collection of the index has been deleted.",
    409: "The database takes no changes now, or another process has changed the same rows.",
    408: "Its body came too slowly.",
    413: "It asks for too much, or has a text that is longer than the model reads and not to be truncated.",
    415: "Its body is compressed, or of another type than application/json.",
    421: "It came to another host name than those of this machine.",
    422: "Its body is not JSON, or a field is not as it should be.",
    429: "Too many requests at once; Retry-After says when to retry.",
    507: "The disk of the database is full.",
}  # fmt: skip
_OF_AN_INDEX = {"/search", "/upsert", "/delete"}
_OF_TEXTS = {"/", "/embed", "/similarity", "/v1/embeddings", "/classify"}
_HEADERS = {200: UNKNOWN, 401: "WWW-Authenticate", 415: "Accept-Encoding", 429: "Retry-After", 503: "Retry-After"}


def responses_of(path: str, post: bool, token: bool, loopback: bool) -> dict[int | str, JsonObject]:
    """The errors and the headers that a route sends, for its `responses` in the OpenAPI document.

    Args:
        path: of the route.
        post: whether it takes a body.
        token: whether it needs a token.
        loopback: whether the server is bound to loopback.

    Returns:
        The description of each by its status.
    """
    sent = {400, 413} | ({404, 408, 415, 422} if post else set()) | ({421} if loopback else set())
    sent |= {403, 409, 507} if path in _OF_AN_INDEX else set()
    sent |= ({401} if token else set()) | ({429} if path != "/health" else set()) | ({404} if "{" in path else set())
    model = OpenAIError if path.startswith("/v1/") else Error
    stopping: dict[str, object] = {
        "description": "The server is stopping.",
        "content": {"text/plain": {"schema": {"type": "string"}}},
    }
    if path in _OF_AN_INDEX:
        stopping |= {
            "model": model,
            "description": "The server is stopping, the database cannot answer now, or the index is moving to another "
            "model; Retry-After says when to retry.",
        }
    result: dict[int | str, JsonObject] = {200: {}} if path in _OF_TEXTS else {}
    for status in sorted(sent):
        result[status] = {"model": model, "description": _ERRORS[status]}
    result[503] = stopping
    for status in _HEADERS.keys() & result.keys():
        result[status]["headers"] = {_HEADERS[status]: {"schema": {"type": "string"}}}
    return result


def describe_bounds(document: JsonObject, dimension: int, vocabulary: int, prompts: list[str]) -> None:
    """Put the bounds of the models into an OpenAPI document, of dimensions, token ids and names of prompts.

    Args:
        document: the OpenAPI document, which is changed.
        dimension: the greatest of the models.
        vocabulary: the number of token ids.
        prompts: names of the recorded prompts.
    """
    schemas = document["components"]["schemas"]
    for path in document["paths"].values():  # where FastAPI says 422 of the name in a path, which may be any text
        path.get("get", {"responses": {}})["responses"].pop("422", None)
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    for name, field in (("EmbeddingRequest", "input"), ("EmbedRequest", "inputs")):
        fields = schemas[name]["properties"]
        fields["dimensions"]["anyOf"][0]["maximum"] = dimension
        _, _, ids, rows = (dict(one) for one in fields[field]["anyOf"])
        ids["items"] = {**ids["items"], "maximum": vocabulary - 1}
        fields[field]["anyOf"][2:] = [ids, {**rows, "items": ids}]
    for name in ("EmbedRequest", "TextOptions"):
        choices = [{"enum": prompts}] if prompts else []
        schemas[name]["properties"]["prompt_name"]["anyOf"] = [*choices, {"type": "null"}]
