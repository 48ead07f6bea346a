"""Embeddings over HTTP: the routes of OpenAI's API and of text-embeddings-inference, and a search over indices.

What many clients ask for at once is encoded together. The clients people have work unchanged: `openai`, LangChain's and
Haystack's OpenAI embedders on `/v1`, `huggingface_hub.InferenceClient` on the address itself.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import orjson
from fastapi import FastAPI, Request, Security
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from numpy.typing import NDArray
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect

from contrastive_st import __version__
from contrastive_st.errors import InputError
from contrastive_st.files.folders import default_model
from contrastive_st.models.protocol import open_encoder
from contrastive_st.search.filters import as_filter
from contrastive_st.search.index import Moved, VectorIndex, at_least, check_model, unmet
from contrastive_st.search.opening import MOVING_SECONDS, Follower, open_encoder_for, open_named, writable
from contrastive_st.search.reranking import CrossEncoder, rerank, unscored
from contrastive_st.search.values import json_id
from contrastive_st.serve import gate, limits, schemas
from contrastive_st.serve.answers import answered, embedding_parts, json_parts
from contrastive_st.serve.batcher import COMPUTING, Batcher
from contrastive_st.serve.limits import ApiError, Budget
from contrastive_st.serve.served import UNKNOWN, Encoded, IndexServed, Served, in_reading, parsed
from contrastive_st.serve.server import serve as serve_app
from contrastive_st.tokens import DOCUMENT, QUERY, role_prompt

if TYPE_CHECKING:
    from contrastive_st.classification import SentenceClassifier
    from contrastive_st.models import SentenceEncoder

_SMALL = 16 << 10  # bytes that are parsed sooner than a thread wakes
_Result = TypeVar("_Result")
_Named = TypeVar("_Named")
_OfIndex = TypeVar("_OfIndex", schemas.SearchRequest, schemas.UpsertRequest, schemas.DeleteRequest)
WRITES = frozenset({"/upsert", "/delete"})  # the paths that need the token of writers


class ClassifierServed(NamedTuple):
    """A classifier behind `/classify`, and the model of its encoder."""

    classifier: SentenceClassifier
    model: Served


# --- Routes.


class Metrics:
    """The metrics of `/metrics`, for Prometheus."""

    def __init__(self, models: Mapping[str, Served]) -> None:
        self.registry = CollectorRegistry()
        options: dict[str, Any] = {"registry": self.registry, "namespace": "contrastive_st"}
        self.requests = Counter("requests", "answered, by route and status", ["route", "status"], **options)
        self.seconds = Histogram("request_seconds", "from request to answer", ["route"], **options)
        self.tokens = Counter("tokens", "encoded", ["model"], **options)
        buckets = [4**i for i in range(8)]
        self.rows = Histogram("batch_rows", "texts encoded together", ["model"], buckets=buckets, **options)
        self.waiting = Gauge("waiting_tokens", "waiting or under way", ["model"], **options)
        for name, model in models.items():
            self.add(name, model)

    def add(self, name: str, model: Served) -> None:
        """Count what a model encodes."""
        of_rows, of_tokens = self.rows.labels(name), self.tokens.labels(name)

        def count(rows: int, tokens: int) -> None:
            of_rows.observe(rows)
            of_tokens.inc(tokens)

        model.batcher.count = count
        self.waiting.labels(name).set_function(lambda: model.batcher.waiting)


class _Body(Request):
    """A request whose body is parsed in a thread if it is large."""

    def check_type(self) -> None:
        """Raises `ApiError` (415): the body is compressed, or of another type than JSON."""
        if self.headers.get("content-encoding", "identity").lower() != "identity":
            raise ApiError(415, "the body is compressed; send it uncompressed", **{"Accept-Encoding": "identity"})
        kind = self.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise ApiError(415, f"a body of type {kind[:60]} is not supported; send Content-Type: application/json")

    async def body(self) -> bytes:
        """The whole body.

        Raises:
            ApiError: 429, too many bodies are under way.
        """
        if not hasattr(self, "_body"):
            parts = []
            async for part in self.stream():
                self.scope["held"].enter_context(self.app.state.bytes.held(len(part)))
                parts.append(part)
            self._body = b"".join(parts)
        return self._body

    async def json(self) -> object:
        """The parsed body."""
        body = await self.body()
        return parsed(body) if len(body) <= _SMALL else await in_reading(parsed, body)


class _Route(APIRoute):
    """Routes whose requests are read as `_Body`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[None, None, Response]]:
        answer = super().get_route_handler()

        async def read(request: Request) -> Response:
            body = _Body(request.scope, request.receive)
            if request.method == "POST":
                body.check_type()
            return await answer(body)

        return read


def _follows(
    route: Callable[[_Routes, _OfIndex, Request], Awaitable[_Result]],
) -> Callable[[_Routes, _OfIndex, Request], Awaitable[_Result]]:
    """A route of an index; called again, after `Moved`, with the model that the index has then."""

    @wraps(route)
    async def called(self: _Routes, asked: _OfIndex, request: Request) -> _Result:
        until = 0.0
        while True:
            try:
                return await route(self, asked, request)
            except Moved:
                request.scope["vectors"].close()  # which are of the former model
                name, served = named("index", self.indices, asked.index)
                until = until or time.monotonic() + MOVING_SECONDS
                await run_in_threadpool(self.follow.wait, name, served.index, until)

    return called


class _Routes:
    """What the routes answer."""

    def __init__(
        self,
        models: Mapping[str, Served],
        indices: Mapping[str, IndexServed],
        classifiers: Mapping[str, ClassifierServed],
        metrics: Metrics,
        cross_encoder: CrossEncoder | None = None,
    ) -> None:
        self.cross_encoder = cross_encoder
        self.models, self.indices, self.classifiers, self.metrics = dict(models), dict(indices), classifiers, metrics
        self.floats, self.started = Budget(limits.ALL_FLOATS), int(time.time())
        self.taking = threading.Lock()  # so that two indexes which move to one model share it
        self.follow = Follower(self.take)

    async def v1_embeddings(self, asked: schemas.EmbeddingRequest, request: Request) -> Response:
        name, model = named("model", self.models, asked.model)
        encoded = await self._vectors(request, model, asked.input, dimensions=asked.dimensions)
        parts = embedding_parts(encoded.vectors, asked.encoding_format or "float", name, encoded.tokens)
        return answered(parts, encoded.vectors.size, encoded.headers)

    async def v1_models(self) -> schemas.Models:
        return schemas.Models(data=[schemas.Model(id=name, created=self.started) for name in self.models])

    async def v1_model(self, model: str) -> schemas.Model:
        return schemas.Model(id=named("model", self.models, model)[0], created=self.started)

    async def info(self) -> schemas.Info:
        name, model = named("model", self.models, None)
        encoder = model.encoder
        return schemas.Info(
            model_id=name, model_dtype=getattr(encoder, "precision", "fp32"), dimension=model.dimension,
            model_type={"embedding": {"pooling": encoder.pooling}}, max_input_length=encoder.max_length,
            max_batch_tokens=model.batcher.batch_tokens, max_client_batch_size=limits.MOST_INPUTS,
            max_concurrent_requests=limits.MOST_UNDER_WAY, auto_truncate=model.truncate, version=__version__,
        )  # fmt: skip

    async def embed(self, asked: schemas.EmbedRequest, request: Request) -> Response:
        options = asked.model_dump(include={"normalize", "truncate", "prompt_name", "dimensions"})
        model = named("model", self.models, asked.model)[1]
        encoded = await self._vectors(request, model, asked.inputs, **options)
        return answered(json_parts(encoded.vectors), encoded.vectors.size, encoded.headers)

    async def similarity(self, asked: schemas.SimilarityRequest, request: Request) -> Response:
        inputs, options = asked.inputs, asked.parameters.model_dump(include={"truncate", "prompt_name"})
        model = named("model", self.models, asked.model)[1]
        encoded = await self._vectors(request, model, [inputs.source_sentence, *inputs.sentences], **options)
        first, *_ = encoded.vectors
        return answered(json_parts(encoded.vectors[1:] @ first), len(encoded.vectors), encoded.headers)

    async def either(self, asked: schemas.EmbedRequest | schemas.SimilarityRequest, request: Request) -> Response:
        """What `huggingface_hub.InferenceClient` sends to the address itself."""
        return await (self.embed if isinstance(asked, schemas.EmbedRequest) else self.similarity)(asked, request)  # type: ignore[arg-type]

    @_follows
    async def search(self, asked: schemas.SearchRequest, request: Request) -> Response:
        name, served = named("index", self.indices, asked.index)
        index, model = served.index, served.model
        if asked.rerank_top and self.cross_encoder is None:
            raise ApiError(404, "rerank_top: no cross-encoder is served; start the server with --rerank")
        conditions = as_filter(asked.model_dump(by_alias=True, exclude_unset=True).get("filter"))
        if not (await in_reading(model.encoder.knows, [asked.query]))[0]:
            notes = ["the model knows no token of the query", *await run_in_threadpool(unmet, index, conditions)]
            return JSONResponse({"index": name, "hits": [], "notes": notes})
        prompt = role_prompt(model.encoder.prompts, QUERY)
        encoded = await self._vectors(request, model, asked.query, prompt=prompt)
        message = asked.query if asked.hybrid else None

        def result() -> bytes:
            self.follow(name, index)
            k = max(asked.k, asked.rerank_top)
            nearest = index.search(encoded.vectors[0], k, filter=conditions, text=message)[0]
            hits, notes = at_least(nearest, asked.min_score) if nearest else ([], unmet(index, conditions))
            if asked.rerank_top:
                hits = rerank(asked.query, hits, self, asked.rerank_top)[: asked.k]
                notes = [*notes, *unscored(hits)]
            rows = _exact([
                {"id": hit.own_id, "score": hit.score, "text": hit.text, "metadata": hit.metadata, **hit.place}
                for hit in hits
            ])  # fmt: skip
            return orjson.dumps({"index": name, "hits": rows, "notes": notes})

        return Response(await run_in_threadpool(result), media_type="application/json")

    def predict(self, pairs: Sequence[tuple[str, str]], show_progress_bar: bool) -> NDArray[np.float32]:
        """The scores of the cross-encoder, computed between batches of the encoders."""
        assert self.cross_encoder is not None
        return COMPUTING.submit(self.cross_encoder.predict, pairs, show_progress_bar).result()

    def take(self, name: str, index: VectorIndex) -> None:
        """Go on with another model of an index: a served one, or a new one that has the options of the former."""
        former = self.indices[name].model
        with self.taking:
            model = _served(self.models, index.fingerprint)
            if model is None:
                encoder = open_encoder_for(index, precision=former.precision)
                allowed = former.batcher.batch_tokens, former.batcher.most_waiting
                batcher = Batcher(encoder.encode_buckets, encoder.bucket_limits, *allowed)
                model, called = Served(encoder, former.truncate, batcher, former.precision), encoder.name
                while called in self.models:  # a folder of the same name, whose model is still asked for by it
                    called += " (new)"
                self.metrics.add(called, model)
                self.models = {**self.models, called: model}  # another request may go through the former ones
        self.indices[name] = IndexServed(index, model)

    @_follows
    async def upsert(self, asked: schemas.UpsertRequest, request: Request) -> schemas.Upserted:
        """Add or replace documents."""
        name, served = named("index", self.indices, asked.index)
        index, model = writable(served.index, name), served.model
        check_model(index, model.encoder.fingerprint, f"index {name!r}")  # queries may be of another, which is mapped
        texts = [document.text for document in asked.documents]
        known = await run_in_threadpool(model.encoder.knows, texts)
        if not known.all():
            raise ApiError(422, f"the model knows no token of document {asked.documents[int(known.argmin())].id!r}")
        encoded = await self._vectors(request, model, texts, prompt=role_prompt(model.encoder.prompts, DOCUMENT))
        ids, metadata = ([getattr(document, field) for document in asked.documents] for field in ("id", "metadata"))
        states = await run_in_threadpool(index.upsert, ids, texts, encoded.vectors, metadata)
        return schemas.Upserted(index=name, **states)

    @_follows
    async def delete(self, asked: schemas.DeleteRequest, request: Request) -> schemas.Deleted:
        """Delete documents by their ids or by a filter."""
        name, served = named("index", self.indices, asked.index)
        index = writable(served.index, name)
        conditions = as_filter(asked.model_dump(by_alias=True, exclude_unset=True).get("filter"))
        if (asked.ids is None) == (not conditions):
            raise ApiError(422, "give ids or a filter, one of them")
        if asked.ids is None:
            return schemas.Deleted(index=name, deleted=await run_in_threadpool(index.delete_matching, conditions))
        return schemas.Deleted(index=name, deleted=await run_in_threadpool(index.delete, asked.ids))

    async def classify(
        self, asked: schemas.ClassifyRequest, request: Request, response: Response
    ) -> schemas.Classified:
        """The labels of texts, and what the classifier gives each class."""
        name, (classifier, model) = named("classifier", self.classifiers, asked.classifier)
        encoded = await self._vectors(request, model, asked.inputs)
        response.headers.update(encoded.headers)
        head, classes = classifier.head_, list(map(str, classifier.classes_))
        logits = await run_in_threadpool(classifier.logits_of, encoded.vectors, asked.inputs)
        scores = logits if classifier.head == "means" else head.probabilities(logits)
        predictions = []
        for chosen, row in zip(head.chosen(logits), scores.tolist(), strict=True):
            labels, by_class = [classes[k] for k in chosen.nonzero()[0]], dict(zip(classes, row, strict=True))
            predictions.append(schemas.Prediction(labels=labels, scores=by_class))
        return schemas.Classified(classifier=name, predictions=predictions)

    async def health(self) -> schemas.Health:
        return schemas.Health(models=list(self.models), indices=list(self.indices), classifiers=list(self.classifiers))

    async def metrics_text(self) -> Response:
        return PlainTextResponse(generate_latest(self.metrics.registry))

    async def _vectors(self, request: Request, model: Served, value: object, **options: Any) -> Encoded:
        """As `Served.vectors`, unless the client goes; they are a part of what all requests may hold."""
        inputs = len(value) if isinstance(value, list) and value and not isinstance(value[0], int) else 1
        if inputs <= limits.MOST_INPUTS:
            request.scope["vectors"].enter_context(self.floats.held(inputs * model.dimension))
        return await _unless_gone(request, model.vectors(value, **options))


def named(what: str, served: Mapping[str, _Named], name: str | None) -> tuple[str, _Named]:
    """The one of a name, or the first.

    Args:
        what: what it is the name of, for the message.
        served: the known ones.
        name: a name; None takes the first.

    Returns:
        The name, and what has it.

    Raises:
        ApiError: 404, there is none.
    """
    if not served:
        raise ApiError(404, f"no {what} is served; start the server with --{what}")
    name = next(iter(served)) if name is None else name
    if name not in served:
        raise ApiError(404, f"there is no {what} {name!r}; there is {', '.join(served)}")
    return name, served[name]


def _served(models: Mapping[str, Served], fingerprint: str) -> Served | None:
    """The model of a fingerprint, if it is one of these."""
    return next((model for model in models.values() if model.encoder.fingerprint == fingerprint), None)


def _exact(value: object) -> object:
    """A JSON value with the numbers beyond the 53 bits of JavaScript's as strings."""
    if isinstance(value, dict):
        return {key: _exact(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_exact(item) for item in value]
    return json_id(value) if isinstance(value, int) else value


async def _unless_gone(request: Request, work: Awaitable[_Result]) -> _Result:
    """The result, which nobody waits for any more when the client has gone.

    Raises:
        ClientDisconnect: the client has gone.
    """
    result, gone = asyncio.ensure_future(work), asyncio.ensure_future(request.receive())
    try:
        await asyncio.wait((result, gone), return_when=asyncio.FIRST_COMPLETED)
        if not result.done():
            raise ClientDisconnect
        return result.result()
    finally:
        result.cancel()
        gone.cancel()


def make_api(
    models: Mapping[str, Served],
    indices: Mapping[str, IndexServed] | None = None,
    host: str = "127.0.0.1",
    token: str | None = None,
    origins: Sequence[str] = (),
    classifiers: Mapping[str, ClassifierServed] | None = None,
    writer: str | None = None,
    cross_encoder: CrossEncoder | None = None,
) -> gate.App:
    """The API as an ASGI application.

    Args:
        models: by the name that requests call them; the first is taken where they name none.
        indices: by name, for `/search`.
        host: what it will be bound to; on loopback, requests for other host names are refused.
        token: asked of every request but `/health` as `Authorization: Bearer ...`; None asks for none.
        origins: web pages of these origins may use it from a browser; `*` stands for all.
        classifiers: by name, for `/classify`.
        writer: the token for `/upsert` and `/delete`; without it, these routes do not exist.
        cross_encoder: reorders the first hits of a `/search` that asks for it (`search.reranking.CrossEncoder`).

    Returns:
        The application.
    """
    metrics = Metrics(models)
    routes = _Routes(models, indices or {}, classifiers or {}, metrics, cross_encoder)
    app = FastAPI(
        title="contrastive-st", description="Sentence embeddings.", version=__version__, redoc_url=None,
        strict_content_type=False,  # a body without a type is JSON
    )  # fmt: skip
    door = ApiGate(app, host, token, writer)
    app.router.route_class, app.state.bytes = _Route, Budget(limits.ALL_BYTES)
    for kind in (InputError, RequestValidationError, HTTPException, ClientDisconnect, Exception):
        app.add_exception_handler(kind, schemas.refusal)
    routed: list[tuple[str, str, Callable[..., object], Any]] = [
        ("POST", "/v1/embeddings", routes.v1_embeddings, schemas.Embeddings),
        ("GET", "/v1/models", routes.v1_models, schemas.Models), ("GET", "/info", routes.info, schemas.Info),
        ("GET", "/v1/models/{model}", routes.v1_model, schemas.Model), ("POST", "/search", routes.search, schemas.Hits),
        ("POST", "/embed", routes.embed, list[list[float]]), ("POST", "/similarity", routes.similarity, list[float]),
        ("POST", "/", routes.either, list[list[float]] | list[float]), ("GET", "/metrics", routes.metrics_text, str),
        ("GET", "/health", routes.health, schemas.Health), ("POST", "/classify", routes.classify, schemas.Classified),
        ("POST", "/upsert", routes.upsert, schemas.Upserted), ("POST", "/delete", routes.delete, schemas.Deleted),
    ]  # fmt: skip
    for method, path, answer, model in routed if writer else routed[:-2]:
        asks = door.token_for(path) is not None
        app.add_api_route(
            path, answer, methods=[method], response_model=model,
            responses=schemas.responses_of(path, method == "POST", asks, gate.is_loopback(host)),
            response_class=PlainTextResponse if path == "/metrics" else JSONResponse,
            dependencies=[Security(HTTPBearer(auto_error=False))] if asks else None,  # in the document alone
        )  # fmt: skip
        if method == "GET":
            app.add_api_route(path, answer, methods=["HEAD"], include_in_schema=False)
    schemas.describe_bounds(
        app.openapi(), max(model.dimension for model in models.values()),
        max(model.encoder.vocabulary_size for model in models.values()),
        sorted({name for model in models.values() for name in model.encoder.prompts}),
    )  # fmt: skip
    paths = {route.path for route in app.routes if hasattr(route, "path")}
    gated: gate.App = door
    if origins:  # before the gate: a browser asks without a token whether it may send one
        # its origin and its token decide, not its other headers, of which OpenAI's client sends some of its own
        read = ["Retry-After", UNKNOWN]
        gated = CORSMiddleware(gated, origins, ["GET", "POST"], allow_headers=["*"], expose_headers=read)
    return _Counted(gated, metrics, paths)


class _Counted:
    """Counts requests by route and status, and how long they take; lets go what they held when they are answered."""

    def __init__(self, app: gate.App, metrics: Metrics, routes: set[str]) -> None:
        self.app, self.metrics, self.routes = app, metrics, routes
        self.under_way = Budget(limits.MOST_UNDER_WAY)

    async def __call__(self, scope: gate.Scope, receive: gate.Receive, send: gate.Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = time.perf_counter()
        route = scope["path"] if scope["path"] in self.routes else "other"

        async def counted(message: gate.Message) -> None:
            if message["type"] == "http.response.start":
                self.metrics.requests.labels(route, message["status"]).inc()
                self.metrics.seconds.labels(route).observe(time.perf_counter() - started)
            await send(message)

        with ExitStack() as scope["held"], ExitStack() as scope["vectors"]:
            try:
                if route not in ApiGate.without_token:
                    scope["held"].enter_context(self.under_way.held(1))
            except ApiError as error:
                headers = {**(error.headers or {}), "connection": "close"}
                await schemas.error_answer(route, error.status_code, error.detail, headers)(scope, receive, counted)
                return
            await self.app(scope, receive, counted)


class ApiGate(gate.Gate):
    """The gate of the API, with the token as `Authorization: Bearer ...`; `/health` needs none.

    Args:
        app, host, token: as for `Gate`.
        writer: the token of the routes that change an index, instead of the other one.
    """

    most_bytes = limits.MOST_BYTES
    without_token = frozenset({"/health"})
    token_help = "send the token of this server as Authorization: Bearer TOKEN"

    def __init__(self, app: gate.App, host: str, token: str | None, writer: str | None = None) -> None:
        super().__init__(app, host, token)
        self.writer = writer

    def token_for(self, path: str) -> str | None:
        """That of writers for what writes."""
        return self.writer if path in WRITES and self.writer else super().token_for(path)

    def tokens(self, scope: gate.Scope, headers: gate.Headers) -> list[str]:
        """The bearer's."""
        kind, _, token = headers.get(b"authorization", "").partition(" ")
        return [token.strip()] if kind.lower() == "bearer" else []

    def refuse(self, status: int, message: str, scope: gate.Scope) -> gate.App:
        """The error in the form of the API that was called."""
        asks = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
        return schemas.error_answer(scope["path"], status, message, asks)


# --- The command.


def run(args: Any) -> None:
    """Serve until SIGINT or SIGTERM, with the flags of `contrastive-st api`; what was taken is answered first."""
    token = gate.read_token(args.token_file, "CONTRASTIVE_ST_API_TOKEN")
    writer = gate.read_token(args.write_token_file, "CONTRASTIVE_ST_API_WRITE_TOKEN", "write_token_file")
    with ExitStack() as stack:
        listener = stack.enter_context(gate.reserve(args.host, args.port))
        models, indices, classifiers = COMPUTING.submit(_opened, args, stack).result()
        for name, served in indices.items() if writer else ():
            writable(served.index, name)
        gate.tell_if_open(args.host, token, "use this server; --token_file")
        cross_encoder = COMPUTING.submit(CrossEncoder, args.rerank).result() if args.rerank else None
        app = make_api(models, indices, args.host, token, args.allow_origin or (), classifiers, writer, cross_encoder)
        serve_app(app, listener, gate.address(listener))


def _opened(
    args: Any, stack: ExitStack
) -> tuple[dict[str, Served], dict[str, IndexServed], dict[str, ClassifierServed]]:
    """The models, indices and classifiers that are asked for; the models of the latter are served too."""
    models: dict[str, Served] = {}
    indices: dict[str, IndexServed] = {}

    def serve(encoder: SentenceEncoder) -> Served:
        if encoder.name in models:
            raise InputError(f"two models are called {encoder.name}; rename a folder")
        limits = args.batch_tokens, args.max_waiting_tokens
        batcher = Batcher(encoder.encode_buckets, encoder.bucket_limits, *limits)
        models[encoder.name] = Served(encoder, args.truncate, batcher, args.precision)
        return models[encoder.name]

    for model in args.model or ([] if args.index or args.classifier else [default_model()]):
        serve(open_encoder(model, precision=args.precision, pooling=args.pooling))
    for name in dict.fromkeys(args.index or ()):
        index = stack.enter_context(closing(open_named(name, args.store, patience=limits.DATABASE_SECONDS)))
        model = _served(models, index.fingerprint) or serve(open_encoder_for(index, precision=args.precision))
        indices[Path(name).name] = IndexServed(index, model)
    classifiers = {}
    if args.classifier:
        from contrastive_st.classification import SentenceClassifier
    for name in dict.fromkeys(args.classifier or ()):
        classifier = SentenceClassifier.from_pretrained(name, precision=args.precision)
        model = _served(models, classifier.encoder_.fingerprint) or serve(classifier.encoder_)
        classifiers[Path(name).name] = ClassifierServed(classifier, model)
    return models, indices, classifiers
