"""`contrastive-st push`, `pull`, `card`, `convert`, `merge`, `soup` and `export`."""

from __future__ import annotations

import sysconfig
from collections.abc import Iterator
from dataclasses import MISSING, dataclass
from typing import TYPE_CHECKING, Literal

from contrastive_st.commands import POOLING_HELP
from contrastive_st.errors import InputError
from contrastive_st.options import NotNegative, Options, option
from contrastive_st.terminal import note, say

if TYPE_CHECKING:
    from contrastive_st.hub.cards import CardData

_REVISION = "branch, tag or commit of a Hub name"


@dataclass
class _CardOptions(Options):
    """What a card says that the records of training and evaluation do not."""

    license: str | None = option("licence of the model: apache-2.0, mit, ...", group="model card")
    language: list[str] | None = option("languages of the model: en, de, ...", group="model card")
    datasets: list[str] | None = option("Hub names of the training data", metavar="NAME", group="model card")

    @property
    def data(self) -> CardData:
        """The same as the writer of cards takes it."""
        from contrastive_st.hub.cards import CardData

        return CardData(self.license, self.language or (), self.datasets or ())


@dataclass
class Push(_CardOptions):
    """push a checkpoint folder to the Hub, with its model card

    contrastive-st push out/model user/model --license mit --dry_run
    """

    folder: str = option("checkpoint folder", positional=True)
    repo: str = option("user/name; created if it does not exist", positional=True)
    private: bool | None = option("create a private repository")
    revision: str | None = option("branch to push to; created if it does not exist")
    create_pr: bool = option("open a pull request instead of committing", default=False)
    dry_run: bool = option("send nothing; list the files with their sizes, and print the card", default=False)
    message: str | None = option("title of the commit")

    def __call__(self) -> None:
        """Run the command."""
        from contrastive_st.hub.push import push

        if self.dry_run:
            return self._list()
        done = push(
            self.folder, self.repo, private=self.private, revision=self.revision, create_pr=self.create_pr,
            message=self.message, data=self.data,
        )  # fmt: skip
        return say(done.pr_url or done.commit_url)

    def _list(self) -> None:
        from contrastive_st.hub.cards import CARD
        from contrastive_st.hub.push import dry_run

        content = dry_run(self.folder, self.repo, self.data, self.revision)
        sizes = {path: len(it) if isinstance(it, bytes) else it.stat().st_size for path, it in content.items()}
        say(f"{len(sizes)} files, {sum(sizes.values()):,} bytes, would go to {self.repo}; nothing is sent:")
        for path, size in sizes.items():
            say(f"{size:>16,}  {path}")
        if CARD in content:
            card = content[CARD]
            say(f"\n{CARD}:\n\n" + (card if isinstance(card, bytes) else card.read_bytes()).decode(errors="replace"))


@dataclass
class Pull(Options):
    """download a model from the Hub into the cache or a folder

    contrastive-st pull sentence-transformers/all-MiniLM-L6-v2 --to minilm
    """

    repo: str = option("user/name", positional=True)
    revision: str | None = option("branch, tag or commit")
    to: str | None = option("a new folder (default: the Hub cache)", metavar="FOLDER")

    def __call__(self) -> None:
        """Run the command."""
        from contrastive_st.hub.push import pull

        say(pull(self.repo, self.revision, self.to))


@dataclass
class Card(_CardOptions):
    """write the model card of a checkpoint folder, from the records of its training and evaluation

    contrastive-st card out/model --license mit
    """

    folder: str = option(
        "checkpoint folder; a report of `evaluate` is read from its subfolder evaluation", positional=True
    )
    output: str | None = option(
        "write the card, training metadata, evaluation and curve, but no weights, to this folder (default: write the "
        "card into the checkpoint folder)",
        short="-o",
    )
    name: str | None = option("name of the model on the card (default: the name of the checkpoint folder)")
    overwrite: bool = option("replace a card that was edited by hand", default=False)

    def __call__(self) -> None:
        """Run the command."""
        from contrastive_st.hub.cards import write_card

        card = write_card(self.folder, self.output, name=self.name, data=self.data, overwrite=self.overwrite)
        if card is None:
            written = self.output or self.folder
            raise InputError(f"{written} has a card that was edited by hand; --overwrite replaces it")
        say(card)


@dataclass
class Convert(Options):
    """write a checkpoint in another layout, with the same embeddings

    contrastive-st convert out/model out/simcse --to simcse
    """

    source: str = option("checkpoint folder or Hub name", positional=True)
    destination: str = option("a new folder", positional=True)
    to: Literal["package", "simcse", "backbone"] = option(
        "layout to write; package: that of this package; simcse: that of SimCSE's training code; backbone: a plain "
        "BERT, as SimCSE's models are published",
        default=MISSING,
    )
    pooling: str | None = option(POOLING_HELP)
    revision: str | None = option(_REVISION)

    def __call__(self) -> None:
        """Run the command."""
        from contrastive_st.hub.convert import convert

        folder = convert(self.source, self.destination, self.to, self.pooling, self.revision)
        note(f"{self.to} layout in {folder}")


@dataclass
class Merge(Options):
    """merge a LoRA adapter into its base model, and write an ordinary checkpoint folder

    contrastive-st merge out/adapter --output out/merged
    """

    adapter: str = option("adapter: folder or Hub name", positional=True)
    output: str = option("a new folder", default=MISSING, short="-o")
    revision: str | None = option(_REVISION)

    def __call__(self) -> None:
        """Run the command."""
        from contrastive_st.hub.convert import merge

        say(merge(self.adapter, self.output, self.revision))


@dataclass
class Soup(Options):
    """average the weights of checkpoints (model soup)

    contrastive-st soup out/seed1 out/seed2 --output out/soup
    """

    checkpoints: list[str] = option("folders or Hub names of models with the same architecture", positional=True)
    output: str = option("a new folder", default=MISSING, short="-o")
    weights: list[NotNegative] | None = option("weight of each checkpoint (default: equal weights)")
    pooling: str | None = option(POOLING_HELP)

    def __call__(self) -> None:
        """Run the command."""
        from contrastive_st.hub.soup import model_soup

        for one in model_soup(self.checkpoints, self.output, weights=self.weights, pooling=self.pooling):
            note(f"{one.weight:.3f}  {one.name}")
        say(self.output)


@dataclass
class Export(Options):
    """export an encoder to ONNX or OpenVINO

    contrastive-st export out/model --format onnx --int8 --output out/onnx
    """

    model: str = option("checkpoint folder or Hub name", positional=True)
    format: Literal["onnx", "openvino"] = option("format to export to", default=MISSING)
    output: str = option("a new folder, which every command accepts as --model", default=MISSING, short="-o")
    int8: bool = option("quantize weights and activations to 8 bits (default: float32)", default=False)
    calibration: str | None = option(
        "with --int8: texts like those you will encode, of which 256 are used; any file that `train` reads (default: "
        "the documentation of Python's standard library)", metavar="FILE",
    )  # fmt: skip
    pooling: str | None = option(POOLING_HELP)
    revision: str | None = option(_REVISION)
    overwrite: bool = option("replace an existing folder", default=False)

    def conflicts(self) -> Iterator[str]:
        """Yield an option without effect."""
        if not self.int8:
            yield from self.unused("without --int8", "calibration")

    def __call__(self) -> None:
        """Run the command."""
        from contrastive_st.files.writing import check_target
        from contrastive_st.models.encoder import SentenceEncoder
        from contrastive_st.models.export import export

        check_target(self.output, self.overwrite, parents=True)
        encoder = SentenceEncoder(self.model, pooling=self.pooling, revision=self.revision, device="cpu")
        texts = _calibration(self.calibration) if self.int8 else None
        say(export(encoder, self.output, self.format, texts, self.overwrite))


def _calibration(file: str | None) -> list[str]:
    """The calibration texts: those of a file, or by default some of all parts of Python's documentation."""
    if file is None:
        from contrastive_st.data import installed_docs
        from contrastive_st.models.export import CALIBRATION_TEXTS

        pairs = installed_docs(roots=[sysconfig.get_path("stdlib")])  # read in seconds; all packages take a minute
        return [pair.text for pair in pairs[:: max(1, len(pairs) // CALIBRATION_TEXTS)]]
    from contrastive_st.data.reading.texts import corpus_texts

    return corpus_texts(file)
