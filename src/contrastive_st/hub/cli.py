"""`contrastive-st push`, `pull`, `card`, `convert`, `merge` and `export`."""

from __future__ import annotations

import argparse
import sysconfig
from pathlib import Path
from typing import Any

from contrastive_st.errors import InputError
from contrastive_st.terminal import note, say


def add_commands(commands: Any) -> None:
    """Add these commands to the subparsers of the command line."""
    push = commands.add_parser("push", help="push a checkpoint folder to the Hub, with its card")
    push.add_argument("folder", help="what training saved")
    push.add_argument("repo", help="user/name; created if it does not exist")
    push.add_argument("--private", action="store_true", default=None, help="make it a private repository")
    push.add_argument("--revision", help="branch to push to; created if it does not exist")
    push.add_argument("--create_pr", action="store_true", help="propose it as a pull request")
    push.add_argument("--dry_run", action="store_true", help="send nothing: list the files, their sizes and the card")
    push.add_argument("--message", help="title of the commit")
    _card_options(push)
    push.set_defaults(function=lambda args: _dry_run(args) if args.dry_run else _push(args))

    pull = commands.add_parser("pull", help="download a model from the Hub, into the cache or a folder")
    pull.add_argument("repo", help="user/name")
    pull.add_argument("--revision", help="branch, tag or commit")
    pull.add_argument("--to", metavar="FOLDER", help="a new folder (default: the cache)")
    pull.set_defaults(function=_pull)

    card = commands.add_parser(
        "card", help="write the model card of a checkpoint folder, from the records of its training and evaluation"
    )
    card.add_argument(
        "folder", help="folder of a trained model; evaluate's report is read from its subfolder evaluation"
    )
    card.add_argument(
        "--output", "-o", help="write card, training metadata, evaluation and plots, but no weights, to this folder"
    )
    card.add_argument("--name", help="name of the model on the card (default: the folder's name)")
    card.add_argument("--overwrite", action="store_true", help="replace a card that was edited by hand")
    _card_options(card)
    card.set_defaults(function=_card)

    convert = commands.add_parser("convert", help="write a checkpoint in another layout, with the same embeddings")
    convert.add_argument("source", help="folder or Hub name")
    convert.add_argument("destination", help="a new folder")
    convert.add_argument("--to", required=True, choices=["package", "simcse", "backbone"], help="the layout to write")
    convert.add_argument("--pooling", help="for checkpoints that record none: cls, cls_before_pooler, mean, ...")
    convert.add_argument("--revision", help="branch, tag or commit of a Hub name")
    convert.set_defaults(function=_convert)

    merge = commands.add_parser(
        "merge", help="merge a LoRA adapter into its base and write an ordinary checkpoint folder"
    )
    merge.add_argument("adapter", help="folder or Hub name")
    merge.add_argument("--output", "-o", required=True, help="a new folder")
    merge.add_argument("--revision", help="branch, tag or commit of a Hub name")
    merge.set_defaults(function=_merge)
    _add_export(commands)


def _add_export(commands: Any) -> None:
    export = commands.add_parser("export", help="write an encoder as a graph for onnxruntime or OpenVINO")
    export.add_argument("model", help="folder or Hub name")
    export.add_argument("--format", required=True, choices=["onnx", "openvino"], help="the runtime to export for")
    export.add_argument("--output", "-o", required=True, help="a new folder; every command takes it as --model")
    export.add_argument("--int8", action="store_true", help="weights and activations in 8 bits, instead of float32")
    export.add_argument("--calibration", metavar="FILE", help="for --int8: a file that `train` reads, with texts "
                        "like yours; 256 are used (default: docs of Python's standard library)")  # fmt: skip
    export.add_argument("--pooling", help="for checkpoints that record none: mean, cls_before_pooler, ...")
    export.add_argument("--revision", help="branch, tag or commit of a Hub name")
    export.add_argument("--overwrite", action="store_true", help="replace a folder that exists")
    export.set_defaults(function=_export)


def _card_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--license", help="licence of the model, for its card: apache-2.0, mit, ...")
    parser.add_argument("--language", nargs="+", default=(), help="languages of the model, for its card: en, de, ...")
    parser.add_argument(
        "--datasets", nargs="+", default=(), metavar="NAME", help="Hub names of the training data, for the card"
    )


def _data(args: argparse.Namespace) -> Any:
    from contrastive_st.hub.cards import CardData

    return CardData(args.license, args.language, args.datasets)


def _push(args: argparse.Namespace) -> None:
    from contrastive_st.hub.push import push

    done = push(
        args.folder, args.repo, private=args.private, revision=args.revision, create_pr=args.create_pr,
        message=args.message, data=_data(args),
    )  # fmt: skip
    say(done.pr_url or done.commit_url)


def _dry_run(args: argparse.Namespace) -> None:
    from contrastive_st.hub.cards import CARD
    from contrastive_st.hub.push import dry_run

    content = dry_run(args.folder, args.repo, _data(args))
    sizes = {path: len(it) if isinstance(it, bytes) else it.stat().st_size for path, it in content.items()}
    say(f"{len(sizes)} files, {sum(sizes.values()):,} bytes, would go to {args.repo}; nothing is sent:")
    for path, size in sizes.items():
        say(f"{size:>16,}  {path}")
    if CARD in content:
        card = content[CARD]
        say(f"\n{CARD}:\n\n" + (card if isinstance(card, bytes) else card.read_bytes()).decode(errors="replace"))


def _pull(args: argparse.Namespace) -> None:
    from contrastive_st.hub.push import pull

    say(pull(args.repo, args.revision, args.to))


def _card(args: argparse.Namespace) -> None:
    from contrastive_st.hub.cards import write_card

    name = args.name or (Path(args.output).resolve().name if args.output else None)
    card = write_card(args.folder, args.output, name=name, data=_data(args), overwrite=args.overwrite)
    if card is None:
        raise InputError(f"{args.output or args.folder} has a card that was edited by hand; --overwrite replaces it")
    say(card)


def _convert(args: argparse.Namespace) -> None:
    from contrastive_st.hub.convert import convert

    folder = convert(args.source, args.destination, args.to, args.pooling, args.revision)
    note(f"{args.to} layout in {folder}")


def _merge(args: argparse.Namespace) -> None:
    from contrastive_st.hub.convert import merge

    say(merge(args.adapter, args.output, args.revision))


def _export(args: argparse.Namespace) -> None:
    from contrastive_st.files.writing import check_target
    from contrastive_st.models.encoder import SentenceEncoder
    from contrastive_st.models.export import export

    if args.calibration and not args.int8:
        raise InputError("--calibration has no effect without --int8; give --int8 too")
    check_target(args.output, args.overwrite, parents=True)
    encoder = SentenceEncoder(args.model, pooling=args.pooling, revision=args.revision, device="cpu")
    texts = _calibration(args.calibration) if args.int8 else None
    say(export(encoder, args.output, args.format, texts, args.overwrite))


def _calibration(file: str | None) -> list[str]:
    """The calibration texts: those of a file, or by default some of all parts of Python's documentation."""
    if file is None:
        from contrastive_st.data import installed_docs
        from contrastive_st.models.export import CALIBRATION_TEXTS

        pairs = installed_docs(roots=[sysconfig.get_path("stdlib")])  # read in seconds; all packages take a minute
        return [pair.text for pair in pairs[:: max(1, len(pairs) // CALIBRATION_TEXTS)]]
    from contrastive_st.data import read_texts

    rows = read_texts(file)
    return list(rows[rows.column_names[0]])
