"""`contrastive-st serve` and `api`."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from pathlib import Path

from contrastive_st.commands import POOLING_HELP, PRECISION_HELP
from contrastive_st.errors import require
from contrastive_st.options import Count, option
from contrastive_st.search.cli import RERANK_HELP, ModelPrecision, StoreCommand

_HOST = "address to serve on; 127.0.0.1 can be reached only from this machine"


def _same_names(what: str, paths: Iterable[str]) -> Iterator[str]:
    """Yield a last name that several of these have, of which only one could be asked for."""
    for name, count in Counter(Path(one).name for one in {*paths}).items():
        if count > 1:
            yield f"{count} {what} are called {name}; rename a folder"


@dataclass
class Serve(StoreCommand):
    """serve a web page for searching

    contrastive-st serve talks papers --port 8000
    """

    index: list[str] = option(
        "collections of the store, or folders of shards; several are searched side by side",
        default=("documents",), positional=True,
    )  # fmt: skip
    model: list[str] | None = option(
        "the model that encoded an index; for several indices, one --model each, in order (default: as recorded)",
        short="-m",
        action="append",
    )
    host: str = option(_HOST, default="127.0.0.1")
    port: int = option("port to serve on; 0 picks a free one", default=7860)
    rerank: str | None = option(RERANK_HELP, metavar="MODEL")
    token: bool = option("require a token, which is generated and printed", default=False)
    token_file: str | None = option(
        "require a token that you chose and wrote to this file (default: the token in "
        "$CONTRASTIVE_ST_SERVE_TOKEN, if it is set)"
    )

    def conflicts(self) -> Iterator[str]:
        """Yield indices of one name, and models without an index."""
        yield from _same_names("indices", self.index)
        if self.model and len(self.model) != len({*self.index}):
            yield f"{len(self.model)} --model for {len({*self.index})} indices; give one for each, in order, or none"

    def run(self) -> None:
        """Serve until SIGINT or SIGTERM."""
        names = list(dict.fromkeys(self.index))
        models: Sequence[str | None] = self.model or [None] * len(names)
        require("the page", "app", "starlette", "gradio")  # which takes seconds to import: when a page is made
        from contrastive_st.search.opening import open_encoder_for, open_named
        from contrastive_st.search.reranking import CrossEncoder
        from contrastive_st.serve.gate import read_token, reserve, tell_if_open
        from contrastive_st.serve.limits import DATABASE_SECONDS
        from contrastive_st.serve.serving import check_token, serve
        from contrastive_st.serve.session import SearchSession, Source

        token = check_token(read_token(self.token_file, "CONTRASTIVE_ST_SERVE_TOKEN"))
        token = token or (secrets.token_urlsafe(24) if self.token else None)
        with ExitStack() as stack:
            listener = stack.enter_context(reserve(self.host, self.port))
            sources = []
            for name, model in zip(names, models, strict=True):
                index = stack.enter_context(closing(open_named(name, self.store, patience=DATABASE_SECONDS)))
                sources.append(Source(Path(name).name, index, open_encoder_for(index, model)))
            cross_encoder = CrossEncoder(self.rerank) if self.rerank else None
            tell_if_open(self.host, token, "read these documents; --token")
            with suppress(KeyboardInterrupt):  # the usual end
                serve(SearchSession(sources, cross_encoder), listener, token)


@dataclass
class Api(StoreCommand):
    """serve embeddings over HTTP to clients written for OpenAI or Hugging Face

    contrastive-st api static-minilm --index talks --token_file token.txt
    """

    model: list[str] = option(
        "one or several checkpoint folders or Hub names; a request selects one by the last part of its name (default: "
        "$CONTRASTIVE_ST_MODEL, or static-minilm)", default=(), positional=True,
    )  # fmt: skip
    index: list[str] | None = option(
        "also serve /search on a collection or a folder of shards; may be repeated", action="append", metavar="NAME"
    )
    classifier: list[str] | None = option(
        "also serve /classify with a classifier that `classify` saved; may be repeated", action="append",
        metavar="FOLDER",
    )  # fmt: skip
    rerank: str | None = option(f"for /search with rerank_top: {RERANK_HELP}", metavar="MODEL")
    host: str = option(_HOST, default="127.0.0.1")
    port: int = option("port to serve on; 0 picks a free one", default=8080)
    token_file: str | None = option(
        "require the token in this file (default: the token in $CONTRASTIVE_ST_API_TOKEN, if it is set)"
    )
    write_token_file: str | None = option(
        "also serve /upsert and /delete, which require the token in this file (default: the token in "
        "$CONTRASTIVE_ST_API_WRITE_TOKEN; without a token they are not served)"
    )
    allow_origin: list[str] | None = option(
        "let web pages of this origin use the API (CORS); * for all origins; may be repeated",
        action="append",
        metavar="ORIGIN",
    )
    precision: ModelPrecision = option(PRECISION_HELP.format("models"), default="auto")
    pooling: str | None = option(POOLING_HELP)
    truncate: bool = option(
        "reject texts longer than the maximum length of the model (status 413), instead of truncating them",
        default=True,
    )
    batch_tokens: Count = option(
        "maximum number of tokens taken from the waiting texts at a time; these texts are then sorted by length, and "
        "go through the model in smaller batches",
        default=65_536,
    )
    max_waiting_tokens: Count = option(
        "maximum number of tokens waiting for a model; further requests are rejected (status 429)", default=1 << 20
    )

    def conflicts(self) -> Iterator[str]:
        """Yield indices or classifiers of one name, and a pooling that no model would have."""
        yield from _same_names("indices", self.index or ())
        yield from _same_names("classifiers", self.classifier or ())
        if self.pooling and not self.model and (self.index or self.classifier):
            yield "--pooling is for models that are named before --index; an index opens its model as it was made"

    def run(self) -> None:
        """Serve until SIGINT or SIGTERM."""
        require("the API", "api", "fastapi", "uvicorn", "orjson", "prometheus_client")
        from contrastive_st.serve.api import run

        with suppress(KeyboardInterrupt):  # the usual end
            run(self)
