"""Several data sets to train on, from a YAML file: each with its own columns, loss, prompts and share of the batches.

datasets:
  - name: nli
    train_file: nli.csv                # relative to this file, or any file or data set that `train` reads
    columns: {anchor: sentence1, positive: sentence2, negative: hard}
    loss: {name: info_nce, temperature: 0.05}
    prompts: {query: "premise: ", document: "hypothesis: "}
    weight: 2
  - name: scores
    train_file: sts.tsv
    loss: cosent
    weight: 1
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Any

import datasets
from transformers import PreTrainedTokenizerBase

from contrastive_st.data import pairs_of_labels, read_examples, tokenize
from contrastive_st.data.label_pairs import check_targets
from contrastive_st.data.reading import files_of, open_table, stored
from contrastive_st.data.reading.content import path_of, reading
from contrastive_st.data.reading.memory import column_roles
from contrastive_st.data.roles import TARGETS, ColumnRoles
from contrastive_st.data.tokenization import tokenize_stream
from contrastive_st.errors import InputError
from contrastive_st.files.reading import read_yaml
from contrastive_st.losses import Loss, parse_loss, suitable
from contrastive_st.losses.base import loss_class
from contrastive_st.models.configuration import LossConfig
from contrastive_st.options import Finite, OptionError, Options, Positive, fits, from_keys, in_words
from contrastive_st.tokens import column_prompts

logger = logging.getLogger(__name__)
_BUFFER = 10_000  # rows of a stream that are mixed


_NAMES = Annotated[Any, "roles and names, such as {anchor: question}"]
_RANGE = Annotated[list[Finite], "the lowest and the highest score, such as [0, 5]"]
_PROMPTS = Annotated[dict[str, str], "texts by name, such as {query: 'query: '}"]


@dataclass
class Entry(Options):
    """An entry of the file; the docstring of this module shows it."""

    name: str
    train_file: str
    columns: _NAMES | None = None
    loss: Any = None
    weight: Positive | None = None
    score_range: _RANGE | None = None
    prompts: _PROMPTS | None = None
    streaming: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        scale = self.score_range
        if scale is not None and (len(scale) != 2 or scale[0] >= scale[1]):
            raise OptionError("score_range", scale, in_words(_RANGE))

    @property
    def named_columns(self) -> list[str] | None:
        """The columns for `column_roles`: `{anchor: a, negative: [b, c]}` is `a=anchor`, `b=negative`, `c=negative`."""
        if self.columns is None:
            return None
        pairs = self.columns.items() if isinstance(self.columns, dict) else [("", self.columns)]
        listed = [(role, name) for role, names in pairs for name in (names if isinstance(names, list) else [names])]
        if not listed or not fits([name for _, name in listed], list[str | int]):
            raise OptionError("columns", self.columns, in_words(_NAMES))
        return [f"{name}={role}" if role else str(name) for role, name in listed]


@dataclass(frozen=True)
class TrainingSet:
    """One data set of a mixture file.

    Args:
        name: its name in the file.
        source: a file, a folder or a data set of the Hub.
        roles: roles of its columns.
        rows: its texts, scores and labels; for a stream, the first rows.
        loss: the loss that trains them.
        weight: share of the batches; None for the number of rows.
        prompts: its prompts by name, instead of those of the encoder; None if it has none.
        streaming: read while training.
        seed: seed of the order of a stream.
    """

    name: str
    source: str
    roles: ColumnRoles
    rows: datasets.Dataset
    loss: Loss
    weight: float | None
    prompts: dict[str, str] | None
    streaming: bool
    seed: int

    def tokenized(self, tokenizer: PreTrainedTokenizerBase, settings: LossConfig) -> Any:
        """All rows to train on, or a stream of them; each text with its prompt, or else with that of the encoder.

        Args:
            tokenizer: texts are truncated to its `model_max_length`.
            settings: those of the model, with its prompts.
        """
        columns = [name for name in self.rows.column_names if name not in TARGETS]
        own = (settings.prompts, settings.default_prompt_name) if self.prompts is None else (self.prompts, None)
        prompts = {name: prompt for name, prompt in column_prompts(columns, *own).items() if prompt}
        if self.streaming:
            before = {name: prompts.get(name, "") for name in columns}
            return streamed(self.source, before, tokenizer, tokenizer.model_max_length, self.seed)
        return tokenize(self.rows, tokenizer, tokenizer.model_max_length, prompts=prompts)

    def texts(self) -> Iterator[str]:
        """All texts, or the first of a stream, and its own prompts; for the vocabulary of a new encoder."""
        for name in self.rows.column_names:
            if name not in TARGETS:
                yield from (text for text in self.rows[name] if text is not None)
        yield from [*(self.prompts or {}).values()] * 2  # what occurs once is left out of a vocabulary


# --- The file.


def read_mixture(path: str, seed: int = 0) -> list[TrainingSet]:
    """Read the data sets of a mixture file.

    Args:
        path: path of the file; a `train_file` is looked up relative to it, then as given.
        seed: seed of the partners of labelled texts (`pairs_of_labels`).

    Raises:
        InputError: an entry is wrong or cannot be read; names the file, the data set and the key.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = pathlib.Path(folder, "qa.csv").write_text("question,answer\\nWhy?,So.\\n")
        ...     file = pathlib.Path(folder, "mix.yaml")
        ...     _ = file.write_text("datasets: [{name: qa, train_file: qa.csv, loss: {name: info_nce, symmetric: on}}]")
        ...     [(part.name, part.roles.kind, part.loss.symmetric) for part in read_mixture(str(file))]
        [('qa', 'pairs', True)]
    """
    entries = _entries(path)
    names = [entry.name for entry in entries]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InputError(f"{path}: two data sets are named {twice!r}; rename one of them")
    parts = [_part(entry, path, seed) for entry in entries]
    weighted = [part.name for part in parts if part.weight is not None]
    if weighted and len(weighted) < len(parts):
        other = next(name for name in names if name not in weighted)
        raise InputError(f"{path}: {weighted[0]} has a weight and {other} has none; give one to each, or to none")
    if not weighted and (stream := next((part.name for part in parts if part.streaming), None)):
        raise InputError(f"{path}, {stream}: a streamed data set has no size; give a weight to each data set")
    for part in parts:
        share = "by size" if part.weight is None else f"weight {part.weight:g}"
        size = "streamed" if part.streaming else f"{len(part.rows)} rows"
        logger.info(f"{part.name}: {size}, {share}, loss {part.loss.name}\n{part.roles}")
    return parts


def _entries(path: str) -> list[Entry]:
    with reading(path):
        content = read_yaml(path_of(path))
    with _at(path):
        listed = from_keys(_File, content).datasets
    if not listed:
        raise InputError(f"{path}: no data sets; list them under datasets, each with name and train_file")
    entries = []
    for number, entry in enumerate(listed, 1):
        named = isinstance(entry, dict) and isinstance(entry.get("name"), str)
        with _at(f"{path}, {entry['name']}" if named else f"{path}, data set {number}"):
            entries.append(from_keys(Entry, entry))
    return entries


@dataclass
class _File(Options):
    datasets: Annotated[list[Any], "data sets, each with name and train_file"]


def _part(entry: Entry, path: str, seed: int) -> TrainingSet:
    beside = path_of(path).parent / entry.train_file
    source, scale = str(beside) if beside.exists() else entry.train_file, entry.score_range
    with _at(f"{path}, {entry.name}"):
        columns = entry.named_columns
        if entry.streaming:
            table = open_table(source, columns=columns, streaming=True)
            first = [cells for _, cells in islice(table, 1000)]
            roles = column_roles(first, columns, source=source)
            if roles.target is not None or roles.lists or roles.kind == "scored_candidates":
                raise InputError(f"{source} has {roles.words}; a streamed data set may have only texts, and no lists")
            rows = datasets.Dataset.from_dict(
                {name: [str(row.get(name) or "") for row in first] for name in roles.texts}
            )
        else:
            rows, roles = read_examples(source, columns, scale=None if scale is None else (scale[0], scale[1]))
            check_targets(rows, roles)
            rows = pairs_of_labels(rows, seed, source) if roles.kind == "labelled_texts" else rows
        if entry.prompts and not any(column_prompts(roles.texts, entry.prompts).values()):
            raise InputError(
                f"prompts: {', '.join(entry.prompts)} are for no column of {', '.join(roles.texts)}; of several "
                "columns the first takes query, the others document"
            )
        loss = _loss(roles.loss if entry.loss is None else entry.loss, rows, roles)
    return TrainingSet(entry.name, source, roles, rows, loss, entry.weight, entry.prompts, entry.streaming, seed)


def _loss(asked: Any, rows: datasets.Dataset, roles: ColumnRoles) -> Loss:
    """The loss of an entry, which must fit the columns."""
    settings = dict(asked) if isinstance(asked, dict) else {"name": asked}
    name, fitting = settings.pop("name", None), suitable(roles.kind)
    if name not in fitting:
        raise InputError(f"loss: {name!r} does not train {roles.words}; choose {', '.join(fitting)}")
    with _at("loss"):
        return parse_loss({**loss_class(name).settings_from(rows), **settings, "loss": name})


@contextlib.contextmanager
def _at(where: str) -> Iterator[None]:
    """Add the place in the file to an error."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{where}: {error}") from error


# --- Rows that are read while training.


def streamed(
    source: str, before: Mapping[str, str], tokenizer: PreTrainedTokenizerBase, max_length: int, seed: int
) -> datasets.IterableDataset:
    """Tokenized rows of a file or a data set of the Hub, read while training and mixed in a buffer of 10,000.

    `before` has the prompt of each column. Rows with a blank cell are dropped.
    """
    columns = list(before)
    if files_of(source) is not None:
        kwargs = {"source": source, "columns": tuple(columns)}  # a list would be treated as shards
        found = datasets.IterableDataset.from_generator(_cells, gen_kwargs=kwargs)
    else:
        found = stored(source, streaming=True).select_columns(columns)

    return tokenize_stream(found.shuffle(seed=seed, buffer_size=_BUFFER), columns, tokenizer, max_length, before)


def _cells(source: str, columns: Sequence[str]) -> Iterator[dict[str, str]]:
    for _, cells in open_table(source, columns=columns):
        yield {name: str(cells.get(name) or "") for name in columns}
