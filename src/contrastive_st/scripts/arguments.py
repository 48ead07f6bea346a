"""Options that training scripts share, in groups: a script takes the groups that it uses."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, make_dataclass
from typing import Annotated, Literal, get_origin, get_type_hints

from annotated_types import Gt, Le

from contrastive_st.errors import InputError
from contrastive_st.files.reading import JsonObject
from contrastive_st.losses import Loss
from contrastive_st.losses.base import LOSSES, loss_class
from contrastive_st.models.poolings import WITHOUT_HEAD
from contrastive_st.options import Count, CountOrZero, NotNegative, Options, Positive, Share, option


class ScriptArguments(Options):
    """Base of the groups of options of training scripts, each checked by its type."""


@dataclass
class TextArguments(ScriptArguments):
    """The file of a script that trains on its texts alone."""

    train_file: list[str] | None = option(
        "Training texts: one or several .txt, .csv, .tsv, .json(l) or .parquet files, a folder of them, or a data set "
        "of the Hub. Without it: the documentation of the installed Python packages."
    )
    columns: list[str] | None = option("Columns to use, by name or position (from 0).")
    strict: bool = option("Stop at a row with a blank cell, instead of dropping and counting such rows.", default=False)
    max_train_samples: Count | None = option("Train only on this many rows, the first ones.")
    preprocessing_num_workers: Count | None = option("Number of processes that tokenize; by default only this one.")

    def conflicts(self) -> Iterator[str]:
        """Yield options that say how a file is read where there is none."""
        for name in ("columns", "strict"):
            if self.train_file is None and getattr(self, name):
                yield f"--{name} says how --train_file is read; give it too"


@dataclass
class DataArguments(TextArguments):
    """The file to train on, whose columns have roles (`contrastive_st.data.read_examples`)."""

    train_file: list[str] | None = option(
        "Training data: one or several .txt, .csv, .tsv, .json(l) or .parquet files, a folder of them, or a data set "
        "of the Hub, with one column of text, two (pairs), three or more (hard negatives), or pairs with a score or a "
        "label."
    )
    columns: list[str] | None = option(
        "Columns to use, by name or position (from 0), or as name=role, where the role is anchor, positive, negative, "
        "text, score or label."
    )
    score_range: list[float] | None = option("Lowest and highest value of the scores, such as 0 5; by default 0 1.")

    def conflicts(self) -> Iterator[str]:
        """Yield a scale that is not a lowest and a highest score, or that is for no file."""
        yield from super().conflicts()
        if self.score_range and (len(self.score_range) != 2 or self.score_range[0] >= self.score_range[1]):
            scale = " ".join(map(str, self.score_range))
            yield f"--score_range {scale}: give the lowest and the highest score, such as 0 5"
        if self.score_range and self.train_file is None:
            yield "--score_range says how --train_file is read; give it too"


@dataclass
class CorpusArguments(ScriptArguments):
    """Sentences in their order, in documents."""

    train_file: list[str] | None = option(
        "Sentences in order: .txt (one sentence per line, a blank line ends a document) or .parquet. Without "
        "it: the documentation of the installed Python packages."
    )
    text_column: str = option("Text column of parquet files.", default="text")
    document_column: str | None = option(
        "Document column of parquet files; the sentences of a document must be adjacent. By default doc; a "
        "file without that column is one document."
    )


@dataclass
class SuiteArguments(ScriptArguments):
    """Tasks of SentEval that a script evaluates."""

    eval_tasks: str = option(
        "Tasks of SentEval to evaluate on, if --eval_data or $CONTRASTIVE_ST_DATA says where their files are.",
        default="MR,CR,SST2,TREC",
    )
    eval_data: str | None = option("Folder of SentEval's files, or 'hub' to download them.")


@dataclass
class EncoderArguments(ScriptArguments):
    """The encoder to start from, or the size of a new one; its prompts; an adapter instead of all weights."""

    model_name_or_path: str | None = option("Encoder to start from; by default a small BERT from scratch.")
    pooling: str | None = option(
        f"Pooling: cls (with a projection head), {WITHOUT_HEAD}; by default as recorded in the initial encoder."
    )
    max_length: Count | None = option(
        "Maximum length of a text in tokens, in training and for the saved encoder; by default that of the encoder "
        "to start from, 128 from scratch."
    )
    dropout: Share | None = option("Dropout of the encoder; by default that of its config, 0.1 from scratch.")
    new_head: bool | None = option(
        "Start with a new projection head; by default only if the encoder to start from is a plain one (such as "
        "BertForMaskedLM)."
    )
    bidirectional: bool | None = option("Let a decoder attend in both directions; by default as set in its config.")
    num_layers: CountOrZero | None = option("Number of layers of an encoder from scratch; by default 2.")
    hidden_size: Count | None = option("Hidden size of an encoder from scratch; by default 256.")
    vocab_size: Count | None = option(
        "Vocabulary size of an encoder from scratch; by default 16000. The vocabulary is learned from the training "
        "text."
    )
    prompts: list[str] | None = option(
        "Prompts to put before the texts, in training and in the saved encoder, such as query='query: ' "
        "document='passage: '; by default the prompts that the initial encoder records. Of several columns, the first "
        "gets the prompt of queries and the others that of documents."
    )
    default_prompt_name: str | None = option(
        "Name of the prompt for all texts that have no prompt of their own, such as those of a single column."
    )
    include_prompt: bool | None = option(
        "Whether to pool the tokens of the prompt too; by default as recorded in the initial encoder, true for a new "
        "one."
    )
    lora_r: Count | None = option(
        "Freeze the encoder and train a LoRA adapter of this rank, such as 16 (needs peft). The saved folder holds "
        "the adapter; contrastive-st merge turns it into an ordinary checkpoint."
    )
    lora_alpha: Positive | None = option("Scale of the adapter (LoRA alpha); by default 2 * lora_r.")
    lora_dropout: Share | None = option("Dropout of the adapter's input; by default 0.")
    lora_target_modules: list[str] | None = option(
        "Linear layers to adapt, such as query value; by default all of them."
    )

    def conflicts(self) -> Iterator[str]:
        """Yield prompts without a name or with the same name, and settings of what there is not."""
        parted = [prompt.partition("=") for prompt in self.prompts or ()]
        if not all(name and equals for name, equals, _ in parted) or len({name for name, *_ in parted}) < len(parted):
            yield f"--prompts {self.prompts}: give each as NAME=TEXT, with different names, such as query='query: '"
        if self.lora and self.lora_r is None:
            yield f"--lora_{next(iter(self.lora))} is a setting of an adapter; give its rank with --lora_r"
        for name in ("new_head", "bidirectional"):
            if self.model_name_or_path is None and getattr(self, name):
                yield f"--{name} is a setting of an encoder to start from; give it with --model_name_or_path"
        if self.model_name_or_path is not None:
            yield from self.unused("with --model_name_or_path", "num_layers", "hidden_size", "vocab_size")

    @property
    def named_prompts(self) -> dict[str, str] | None:
        """The prompts by name; None if none are given.

        Example:
            >>> EncoderArguments(prompts=["query=query: ", "document=passage: "]).named_prompts
            {'query': 'query: ', 'document': 'passage: '}
        """
        if self.prompts is None:
            return None
        return {name: text for name, _, text in (prompt.partition("=") for prompt in self.prompts)}

    @property
    def lora(self) -> JsonObject:
        """The settings of the adapter that are given, without its rank."""
        settings = {name: vars(self)[f"lora_{name}"] for name in ("alpha", "dropout", "target_modules")}
        return {name: value for name, value in settings.items() if value is not None}


@dataclass
class MatryoshkaArguments(ScriptArguments):
    """Several dimensions of the embedding, each trained by the loss (Matryoshka)."""

    matryoshka_dims: list[Count] | None = option(
        "Also train embeddings cut to their first dimensions (Matryoshka), such as 256 128 64. Each number adds a "
        "term to the loss. Include the full dimension in the list."
    )
    matryoshka_weights: list[Positive] | None = option("Weight of each of --matryoshka_dims; by default 1 each.")
    truncate_dim: Count | None = option(
        "Number of dimensions that the saved encoder outputs: one of --matryoshka_dims; by default all dimensions."
    )

    def conflicts(self) -> Iterator[str]:
        """Yield weights without dimensions, and a saved dimension that would not be trained."""
        dims, truncate = self.matryoshka_dims, self.truncate_dim
        if dims is None and self.matryoshka_weights is not None:
            yield "--matryoshka_weights needs --matryoshka_dims; give it too"
        if truncate is not None and truncate not in (dims or []):
            yield f"--truncate_dim {truncate} is not one of --matryoshka_dims, so that it would not be trained"

    def over(self, loss: Mapping[str, object]) -> JsonObject:
        """The settings of a loss, or of `MatryoshkaLoss` over it if dimensions are given.

        Args:
            loss: the settings of the loss, with its name as `loss`.

        Example:
            >>> MatryoshkaArguments(matryoshka_dims=[8, 4]).over({"loss": "cosent"})
            {'loss': 'matryoshka', 'inner': {'loss': 'cosent'}, 'dims': [8, 4], 'weights': None}
        """
        if self.matryoshka_dims is None:
            return dict(loss)
        inner = {"loss": "matryoshka", "inner": dict(loss)}
        settings = inner | {"dims": self.matryoshka_dims, "weights": self.matryoshka_weights}
        return settings if self.truncate_dim is None else {**settings, "truncate_dim": self.truncate_dim}


@dataclass
class WordsLossArguments(ScriptArguments):
    """A masked-language-model loss that is added to the loss of the script."""

    do_mlm: bool = option("Add a masked-language-model loss.", default=False)
    mlm_weight: NotNegative = option("Weight of the masked-language-model loss.", default=0.1)
    mlm_probability: Share = option("Share of the tokens that are masked and predicted, with do_mlm.", default=0.15)

    def conflicts(self) -> Iterator[str]:
        """Yield settings of a loss that is not added."""
        if not self.do_mlm:
            yield from self.unused("without --do_mlm", "mlm_weight", "mlm_probability")

    @property
    def settings(self) -> JsonObject:
        """The settings of the model for it; none without it."""
        return {"do_mlm": True, "mlm_weight": self.mlm_weight} if self.do_mlm else {}

    @property
    def masking(self) -> JsonObject:
        """The settings of a collator for it."""
        return {"do_mlm": self.do_mlm, "mlm_probability": self.mlm_probability}


#: Settings of losses that are read from the data, and so are not options
_FROM_DATA = ("num_labels", "inner", "tasks", "dims", "weights")
_OPTION_TYPES = {float: float, int: int, bool: bool, str: str, tuple[str, ...]: list[str]}


def loss_arguments(names: Sequence[str]) -> type[LossArguments]:
    """A group of options with `--loss` and one option for every setting of these losses.

    So a loss that is added to the package needs no code for its options.

    Args:
        names: names of losses, of which `--loss` chooses one.

    Example:
        >>> group = loss_arguments(["info_nce", "triplet"])
        >>> group(loss="triplet", margin=0.5).settings("info_nce")
        {'loss': 'triplet', 'margin': 0.5}
        >>> group(margin=0.5).settings("info_nce")
        Traceback (most recent call last):
        ...
        contrastive_st.errors.InputError: the loss info_nce has no setting margin; leave out --margin, or give --loss
    """
    takers: dict[str, list[str]] = {}
    kinds: JsonObject = {}
    for name in names:
        hints = get_type_hints(LOSSES[name])
        for setting in LOSSES[name].setting_names():
            hint = str if get_origin(hints[setting]) is Literal else hints[setting]
            if setting not in _FROM_DATA and hint in _OPTION_TYPES:
                takers.setdefault(setting, []).append(name)
                kinds[setting] = _OPTION_TYPES[hint]
    loss_help = f"One of {', '.join(names)}; by default the first of these that fits the columns."
    options: list[tuple[str, object, object]] = [("loss", str | None, option(loss_help))]
    for setting, losses in takers.items():
        *others, last = losses
        those = f"losses {', '.join(others)} and {last}" if others else f"loss {last}"
        setting_help = _described([LOSSES[name] for name in losses], setting)
        options.append((setting, kinds[setting] | None, option(f"{setting_help} Only for the {those}.")))
    return make_dataclass("ChosenLossArguments", options, bases=(LossArguments,))


def _described(losses: Sequence[type[Loss]], setting: str) -> str:
    """What the first docstring of losses with this setting says of it, as a sentence, and the common default."""
    entry = re.compile(rf"^    {setting}: (.+(?:\n     .+)*)", re.MULTILINE)
    matches = (entry.search(inspect.getdoc(kind) or "") for loss in losses for kind in loss.__mro__)
    text = next((" ".join(match[1].split()).translate(_PLAIN).rstrip(".") for match in matches if match), setting)
    defaults = {getattr(loss, setting) for loss in losses}
    only = defaults.pop() if len(defaults) == 1 else "depends on the loss"
    default = " ".join(only) if isinstance(only, tuple) else only
    return f"{text[0].upper()}{text[1:]} (default: {default})."


_PLAIN = str.maketrans("", "", "`*")


class LossArguments(ScriptArguments):
    """Base of the groups that `loss_arguments` makes."""

    loss: str | None

    def settings(self, default: str) -> JsonObject:
        """The name of the loss and those of its settings that are given.

        Args:
            default: the name without `--loss`.

        Raises:
            InputError: an option is given that is not a setting of this loss.
        """
        kind = loss_class(self.loss or default)
        values = {name: value for name, value in vars(self).items() if name != "loss" and value is not None}
        for name in values:
            if name not in kind.setting_names():
                raise InputError(f"the loss {kind.name} has no setting {name}; leave out --{name}, or give --loss")
        return {"loss": kind.name, **values}


@dataclass
class ValidationArguments(ScriptArguments):
    """Rows to validate on: during training their loss and metric are logged, and the best checkpoint is kept."""

    validation_file: str | None = option(
        "Validation rows, read like --train_file. Their loss and metric are logged ten times per run, and the best "
        "checkpoint is kept. --early_stopping_patience stops the run when they no longer improve."
    )
    validation_split: Annotated[float, Gt(0), Le(0.5)] | None = option(
        "Instead of --validation_file, hold out this share of the training rows, such as 0.05. Rows with the same "
        "first text stay together."
    )

    def conflicts(self) -> Iterator[str]:
        """Yield two sources of validation rows."""
        if self.validation_file is not None and self.validation_split is not None:
            yield "--validation_file and --validation_split are both given; leave one out"
