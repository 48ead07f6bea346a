"""Embeddings over HTTP: the routes of OpenAI's API and of text-embeddings-inference, and a search over indices.

What many clients ask for at once is encoded together. The clients people have work unchanged: `openai`, LangChain's and
Haystack's OpenAI embedders on `/v1`, `huggingface_hub.InferenceClient` on the address itself.
"""

from __future__ import annotations

import argparse
import base64
import math
import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from contrastive_st.errors import InputError
from contrastive_st.models.default import open_encoder
from contrastive_st.search.index import check_k, parse_filter
from contrastive_st.search.opening import open_encoder_for, open_named
from contrastive_st.serve.batcher import COMPUTING, ApiError, Batcher, Rows, Vectors
from contrastive_st.serve.gate import (
    App,
    Gate,
    Headers,
    Message,
    Receive,
    Scope,
    Send,
    address,
    is_loopback,
    reserve,
    run_app,
)
from contrastive_st.terminal import say
from contrastive_st.tokens import QUERY, role_prompt
from contrastive_st.vectors import unit_vectors

Texts = str | list[str]
Input = str | list[str] | list[int] | list[list[int]]  # texts, or token ids of the model's own tokenizer


# --- Models and indices behind the routes.


@dataclass
class Served:
    """A model behind the API.

    Args:
        encoder: a `SentenceEncoder` or `StaticVectors`.
        refuse_long: answer 413 to texts longer than the model reads, where a request does not say `truncate`.
        batcher: by default with the limits of `Batcher`.
    """

    encoder: Any
    refuse_long: bool = False
    batcher: Batcher = field(default=None)  # type: ignore[assignment]

    def __post_init__(self) -> None:
        self.batcher = self.batcher or Batcher(self.encoder.encode_rows)

    def rows(self, given: Input, prompt: str, truncate: bool | None) -> Rows:
        """Token rows of texts, each with the prompt before it, or those that were given.

        Raises:
            ApiError: nothing was given, a text or row is too long and is not to be cut, or an id is no token's.
        """
        items: list[Any] = [given] if isinstance(given, str) or (given and isinstance(given[0], int)) else list(given)
        if not items:
            raise ApiError(400, "input is an empty list; give a text or several")
        cut = not self.refuse_long if truncate is None else truncate
        if isinstance(items[0], str):
            return self._rows_of_texts(items, prompt, cut)
        most, longest = self.encoder.vocabulary_size, self.encoder.max_length
        if any(not row or min(row) < 0 or max(row) >= most for row in items):
            raise ApiError(400, f"token ids go from 0 to {most - 1:,}, and a row holds one at least; or send texts")
        if longest is not None and not cut and max(map(len, items)) > longest:
            raise ApiError(413, f"an input has more than the {longest} tokens that the model reads")
        return [row[:longest] for row in items]

    def _rows_of_texts(self, texts: list[str], prompt: str, cut: bool) -> Rows:
        rows: Rows = self.encoder.token_rows(texts, prompt)
        longest = self.encoder.max_length
        if not cut and longest is not None:
            full = [text for text, row in zip(texts, rows, strict=True) if len(row) >= longest]
            if max(map(len, self.encoder.token_rows(full, prompt, longest + 1)), default=0) > longest:
                raise ApiError(413, f"a text has more than the {longest} tokens that the model reads; shorten it, "
                               "or send truncate: true to /embed")  # fmt: skip
        return rows

    async def vectors(
        self,
        given: Input,
        *,
        prompt: str | None = None,
        truncate: bool | None = None,
        dimensions: int | None = None,
        normalize: bool = True,
    ) -> tuple[Vectors, int]:
        """The vectors `[n, d]` of an input, and how many tokens it has; by default with the checkpoint's own prompt."""
        prompt = self.encoder.prompt_text() if prompt is None else prompt
        rows = await run_in_threadpool(self.rows, given, prompt, truncate)
        pooled = getattr(getattr(self.encoder, "recorded", None), "include_prompt", True)
        vectors = await self.batcher.submit(rows, "" if pooled else prompt)
        if dimensions is not None and not 1 <= dimensions <= vectors.shape[1]:
            raise ApiError(400, f"dimensions {dimensions}: the model has {vectors.shape[1]}")
        vectors = vectors[:, :dimensions]
        return unit_vectors(vectors) if normalize else vectors, sum(map(len, rows))


class IndexServed(NamedTuple):
    """An index behind `/search`, and the model for its queries."""

    index: Any
    model: Served


# --- Requests and answers.


class EmbeddingRequest(BaseModel):
    """`POST /v1/embeddings`, as OpenAI's."""

    input: Input
    model: str | None = None
    dimensions: int | None = None
    encoding_format: Literal["float", "base64"] = "float"
    user: str | None = None


class EmbedRequest(BaseModel):
    """`POST /embed`, as that of text-embeddings-inference."""

    inputs: Input
    model: str | None = None
    normalize: bool = True
    truncate: bool | None = None
    prompt_name: str | None = None
    dimensions: int | None = None


class Comparison(BaseModel):
    """A sentence, and those it is compared with."""

    source_sentence: str
    sentences: list[str] = Field(min_length=1)


class SimilarityRequest(BaseModel):
    """`POST /similarity`, as that of text-embeddings-inference."""

    inputs: Comparison
    model: str | None = None


class SearchRequest(BaseModel):
    """`POST /search`: the documents of an index that are nearest to a query."""

    model_config = ConfigDict(extra="forbid")

    query: str
    index: str | None = None
    k: int = 10
    filter: list[str] = []
    hybrid: bool = False


class Metrics:
    """What `/metrics` tells, for Prometheus."""

    def __init__(self, models: Mapping[str, Served]) -> None:
        self.registry = CollectorRegistry()
        own: dict[str, Any] = {"registry": self.registry, "namespace": "contrastive_st"}
        self.requests = Counter("requests", "answered, by route and status", ["route", "status"], **own)
        self.seconds = Histogram("request_seconds", "from request to answer", ["route"], **own)
        self.tokens = Counter("tokens", "encoded", ["model"], **own)
        rows = Histogram("pass_rows", "texts encoded together", ["model"], buckets=[4**i for i in range(8)], **own)
        waiting = Gauge("waiting_tokens", "waiting or under way", ["model"], **own)
        for name, model in models.items():
            model.batcher.passes = rows.labels(name).observe
            waiting.labels(name).set_function(lambda batcher=model.batcher: batcher.waiting)  # type: ignore[misc]


class _Routes:
    """What the routes answer."""

    def __init__(self, models: Mapping[str, Served], indices: Mapping[str, IndexServed], metrics: Metrics) -> None:
        self.models, self.indices, self.metrics = models, indices, metrics

    async def v1_embeddings(self, asked: EmbeddingRequest) -> Response:
        name, vectors, tokens = await self._vectors(asked.model, asked.input, dimensions=asked.dimensions)
        if asked.encoding_format == "base64":
            values: list[Any] = [base64.b64encode(row.astype("<f4").tobytes()).decode() for row in vectors]
        else:
            values = vectors.tolist()
        data = [{"object": "embedding", "index": i, "embedding": value} for i, value in enumerate(values)]
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return JSONResponse({"object": "list", "data": data, "model": name, "usage": usage})

    async def v1_models(self) -> Any:
        models = [{"id": name, "object": "model", "owned_by": ""} for name in self.models]
        return {"object": "list", "data": models}

    async def embed(self, asked: EmbedRequest) -> Response:
        options = asked.model_dump(include={"normalize", "truncate", "dimensions"})
        prompt = self._model(asked.model)[1].encoder.prompt_text(asked.prompt_name)
        _, vectors, _ = await self._vectors(asked.model, asked.inputs, prompt=prompt, **options)
        return JSONResponse(vectors.tolist())

    async def similarity(self, asked: SimilarityRequest) -> Response:
        inputs = asked.inputs
        _, vectors, _ = await self._vectors(asked.model, [inputs.source_sentence, *inputs.sentences])
        return JSONResponse((vectors[1:] @ vectors[0]).tolist())

    async def either(self, asked: EmbedRequest | SimilarityRequest) -> Response:
        """What `huggingface_hub.InferenceClient` sends to the address itself."""
        return await (self.embed(asked) if isinstance(asked, EmbedRequest) else self.similarity(asked))

    async def search(self, asked: SearchRequest) -> Any:
        if not self.indices:
            raise ApiError(404, "no index is served; start the server with --index")
        name = next(iter(self.indices)) if asked.index is None else asked.index
        if name not in self.indices:
            raise ApiError(404, f"there is no index {name!r}; there is {', '.join(self.indices)}")
        index, model = self.indices[name]
        k, conditions = check_k(asked.k), parse_filter(asked.filter)
        vectors, _ = await model.vectors(asked.query, prompt=role_prompt(model.encoder.prompts, QUERY))
        words = asked.query if asked.hybrid else None
        hits = await run_in_threadpool(lambda: index.search(vectors[0], k, filter=conditions, text=words)[0])
        return {"index": name, "hits": [
            {"id": hit.id, "score": None if math.isnan(hit.score) else hit.score, "text": hit.text,
             "metadata": hit.metadata} for hit in hits
        ]}  # fmt: skip

    async def health(self) -> Any:
        return {"status": "ok", "models": list(self.models), "indices": list(self.indices)}

    async def show_metrics(self) -> Response:
        return PlainTextResponse(generate_latest(self.metrics.registry))

    def _model(self, name: str | None) -> tuple[str, Served]:
        name = next(iter(self.models)) if name is None else name
        if name not in self.models:
            raise ApiError(404, f"there is no model {name!r}; there is {', '.join(self.models)}")
        return name, self.models[name]

    async def _vectors(self, name: str | None, given: Input, **options: Any) -> tuple[str, Vectors, int]:
        name, model = self._model(name)
        vectors, tokens = await model.vectors(given, **options)
        self.metrics.tokens.labels(name).inc(tokens)
        return name, vectors, tokens


def make_api(
    models: Mapping[str, Served],
    indices: Mapping[str, IndexServed] | None = None,
    host: str = "127.0.0.1",
    token: str | None = None,
) -> App:
    """The API as an ASGI application.

    Args:
        models: by the name that requests call them; the first is taken where they name none.
        indices: by name, for `/search`.
        host: what it will be bound to; on loopback, requests for other host names are refused.
        token: asked of every request but `/health` as `Authorization: Bearer ...`; None asks for none.
    """
    app, metrics = FastAPI(title="contrastive-st", description="Sentence embeddings.", redoc_url=None), Metrics(models)
    for kind in (ApiError, InputError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, _refusal)
    routes = _Routes(models, indices or {}, metrics)
    posts: list[tuple[str, Callable[..., Any]]] = [
        ("/v1/embeddings", routes.v1_embeddings), ("/embed", routes.embed), ("/similarity", routes.similarity),
        ("/search", routes.search), ("/", routes.either),
    ]  # fmt: skip
    gets: list[tuple[str, Callable[..., Any]]] = [
        ("/v1/models", routes.v1_models), ("/health", routes.health), ("/metrics", routes.show_metrics)
    ]  # fmt: skip
    for path, answer in posts:
        app.post(path)(answer)
    for path, answer in gets:
        app.get(path)(answer)
    paths = {route.path for route in app.routes if hasattr(route, "path")}
    return _Counted(ApiGate(app, host, token), metrics, paths)


class _Counted:
    """Counts requests by route and status, and how long they take."""

    def __init__(self, app: App, metrics: Metrics, routes: set[str]) -> None:
        self.app, self.metrics, self.routes = app, metrics, routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = time.perf_counter()
        route = scope["path"] if scope["path"] in self.routes else "other"

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self.metrics.requests.labels(route, message["status"]).inc()
                self.metrics.seconds.labels(route).observe(time.perf_counter() - started)
            await send(message)

        await self.app(scope, receive, counted)


class ApiGate(Gate):
    """The gate of the API, with the token as `Authorization: Bearer ...`; `/health` needs none."""

    most_bytes = 32 << 20
    without_token = frozenset({"/health"})
    token_help = "send the token of this server as Authorization: Bearer TOKEN"

    def tokens(self, scope: Scope, headers: Headers) -> list[str]:
        """The bearer's."""
        kind, _, token = headers.get(b"authorization", "").partition(" ")
        return [token.strip()] if kind.lower() == "bearer" else []

    def refuse(self, status: int, words: str, scope: Scope) -> App:
        """The error as the API that was asked words it."""
        asks = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
        return _error(scope["path"], status, words, asks)


async def _refusal(request: Request, error: Exception) -> Response:
    """The answer to a request that raised an error."""
    status, words, headers = 400, str(error), dict(getattr(error, "headers", None) or {})
    if isinstance(error, ApiError):
        status = error.status
    elif isinstance(error, HTTPException):
        status, words = error.status_code, str(error.detail)
    elif isinstance(error, RequestValidationError):
        status, words = 422, _what_is_wrong(error)
    return _error(request.url.path, status, words, headers)


def _error(path: str, status: int, words: str, headers: Mapping[str, str]) -> Response:
    """An error in the form of the API that was asked: OpenAI's, or text-embeddings-inference's."""
    kind = {401: "authentication", 413: "too_large", 429: "overloaded"}.get(status, "invalid_request")
    content: Any = {"error": words, "error_type": kind}
    if path.startswith("/v1/"):
        content = {"error": {"message": words, "type": f"{kind}_error", "param": None, "code": None}}
    return JSONResponse(content, status, headers)


def _what_is_wrong(error: RequestValidationError) -> str:
    """The first fault of a body, with the field that has it."""
    fault = error.errors()[0]
    if fault["type"] == "json_invalid":
        return f"the body is no JSON: {fault.get('ctx', {}).get('error', fault['msg'])}"
    name = next((str(part) for part in fault["loc"][1:] if isinstance(part, str)), "the body")
    if name in ("input", "inputs"):
        return f"{name}: give a text, a list of texts, or token ids"
    return f"{name}: {fault['msg']}"


# --- The command.


def run(args: argparse.Namespace) -> None:
    """Serve until SIGINT or SIGTERM, with the flags of `contrastive-st api`; what was taken is answered first."""
    if min(args.batch_tokens, args.max_waiting_tokens) < 1:
        raise InputError("--batch_tokens and --max_waiting_tokens: give 1 or more")
    token = _token(args.token_file)
    with ExitStack() as stack:
        listener = stack.enter_context(reserve(args.host, args.port))
        models, indices = COMPUTING.submit(_opened, args, stack).result()
        if token is None and not is_loopback(args.host):
            say(f"{args.host}: whoever reaches this machine can use this server; --token_file asks for a token",
                file=sys.stderr)  # fmt: skip
        app = make_api(models, indices, args.host, token)
        say(address(listener))
        run_app(app, listener)


def _opened(args: argparse.Namespace, stack: ExitStack) -> tuple[dict[str, Served], dict[str, IndexServed]]:
    """The models and indices that are asked for; an index's own model is served too."""
    models: dict[str, Served] = {}
    indices: dict[str, IndexServed] = {}

    def serve(encoder: Any) -> Served:
        if encoder.name in models:
            raise InputError(f"two models are called {encoder.name}; rename a folder")
        batcher = Batcher(encoder.encode_rows, args.batch_tokens, args.max_waiting_tokens)
        models[encoder.name] = Served(encoder, args.long == "refuse", batcher)
        return models[encoder.name]

    for model in args.model or ([] if args.index else [None]):
        serve(open_encoder(model, precision=args.precision, pooling=args.pooling))
    for name in dict.fromkeys(args.index):
        index = stack.enter_context(closing(open_named(name, args.store)))
        same = (own for own in models.values() if own.encoder.fingerprint == index.fingerprint)
        model = next(same, None) or serve(open_encoder_for(index, precision=args.precision))
        indices[Path(name).name] = IndexServed(index, model)
    return models, indices


def _token(file: str | None) -> str | None:
    """The token of a file, or of the environment."""
    if file is None:
        return os.environ.get("CONTRASTIVE_ST_API_TOKEN") or None
    try:
        token = Path(file).expanduser().read_text(encoding="utf-8").partition("\n")[0].strip()
    except (OSError, ValueError) as error:
        raise InputError(f"--token_file {file}: it cannot be read: {error}") from None
    if not token:
        raise InputError(f"--token_file {file}: its first line is empty")
    return token
