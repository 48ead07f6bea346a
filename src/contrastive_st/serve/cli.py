"""`contrastive-st serve` and `api`."""

from __future__ import annotations

import argparse
import importlib.util
import secrets
import sys
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

from contrastive_st.commands import POOLING_HELP
from contrastive_st.errors import InputError, install
from contrastive_st.precision import MODEL_PRECISIONS
from contrastive_st.search.cli import add_store, closes_the_store
from contrastive_st.terminal import say


def add_commands(commands: Any) -> None:
    """Add the commands to the subparsers of the command line."""
    _add_serve(commands)
    _add_api(commands)


def _add_serve(commands: Any) -> None:
    serve = commands.add_parser("serve", help="serve a search page for the browser")
    serve.add_argument("index", nargs="*", help="collections of the store, or folders of encoded shards; several are "
                       "searched side by side (default: documents)")  # fmt: skip
    add_store(serve)
    serve.add_argument("--model", "-m", action="append", default=[],
                       help="the model of each index, in the same order (default: as recorded)")  # fmt: skip
    serve.add_argument("--host", default="127.0.0.1", help="address to serve on (default: this machine alone)")
    serve.add_argument("--port", type=int, default=7860, help="0 takes a free one")
    serve.add_argument("--token", nargs="?", const="", help="require a token, which the command makes and prints")
    serve.add_argument("--token_file", help="require the token in this file (default: $CONTRASTIVE_ST_SERVE_TOKEN)")
    serve.set_defaults(function=_serve)


def _add_api(commands: Any) -> None:
    api = commands.add_parser("api", help="serve embeddings over HTTP, for the clients of OpenAI and Hugging Face")
    api.add_argument("model", nargs="*", help="folders or Hub names; requests call them by the last part of the name "
                     "(default: $CONTRASTIVE_ST_MODEL, or static-minilm)")  # fmt: skip
    api.add_argument("--index", action="append", default=[], metavar="NAME",
                     help="also serve /search on a collection or a folder of shards; may be repeated")  # fmt: skip
    add_store(api)
    api.add_argument("--host", default="127.0.0.1", help="address to serve on (default: this machine alone)")
    api.add_argument("--port", type=int, default=8080, help="0 takes a free one (default: 8080)")
    api.add_argument("--token_file", help="file with the token of clients (default: $CONTRASTIVE_ST_API_TOKEN)")
    api.add_argument("--allow_origin", action="append", default=[], metavar="ORIGIN",
                     help="web pages of this origin may use it; may be repeated, * for all")  # fmt: skip
    api.add_argument("--precision", default="auto", choices=MODEL_PRECISIONS, help="of the models")
    api.add_argument("--pooling", help=POOLING_HELP)
    api.add_argument("--no_truncate", dest="truncate", action="store_false",
                     help="answer 413 to texts longer than the model reads (default: truncate them)")  # fmt: skip
    api.add_argument("--batch_tokens", type=int, default=65_536,
                     help="waiting tokens that are sorted into batches together (default: 65536)")  # fmt: skip
    api.add_argument("--max_waiting_tokens", type=int, default=1 << 20,
                     help="most tokens waiting for a model, else 429 (default: 1048576)")  # fmt: skip
    api.set_defaults(function=_api)


# --- serve


@closes_the_store
def _serve(args: argparse.Namespace) -> None:
    if args.token:
        raise InputError("--token: every account could read it in the list of processes; give a --token_file, or "
                         "--token alone, for which the command makes one")  # fmt: skip
    names = list(dict.fromkeys(args.index or ["documents"]))
    if args.model and len(args.model) != len(names):
        raise InputError(
            f"{len(args.model)} --model for {len(names)} indices; give one for each, in the same order, or none"
        )
    from contrastive_st.serve.page import import_gradio

    import_gradio()  # brings starlette, which the next modules import
    from contrastive_st.search.opening import open_encoder_for, open_named
    from contrastive_st.serve.gate import is_loopback, read_token, reserve
    from contrastive_st.serve.serving import check_token, serve
    from contrastive_st.serve.session import SearchSession, Source

    token = check_token(read_token(args.token_file, "CONTRASTIVE_ST_SERVE_TOKEN"))
    token = token or (None if args.token is None else secrets.token_urlsafe(24))
    with ExitStack() as stack:
        listener = stack.enter_context(reserve(args.host, args.port))
        sources = []
        for i, name in enumerate(names):
            index = stack.enter_context(closing(open_named(name, args.store)))
            encoder = open_encoder_for(index, args.model[i] if args.model else None)
            sources.append(Source(Path(name).name, index, encoder))
        if token is None and not is_loopback(args.host):
            say(f"{args.host}: everyone who reaches this machine can read these documents; --token requires a token",
                file=sys.stderr)  # fmt: skip
        with suppress(KeyboardInterrupt):  # the usual end
            serve(SearchSession(sources), listener, token)


# --- api


@closes_the_store
def _api(args: argparse.Namespace) -> None:
    missing = [
        name for name in ("fastapi", "uvicorn", "orjson", "prometheus_client") if importlib.util.find_spec(name) is None
    ]
    if missing:
        raise InputError(f"the API needs {', '.join(missing)}; {install('api')}")
    from contrastive_st.serve.api import run

    with suppress(KeyboardInterrupt):  # the usual end
        run(args)
