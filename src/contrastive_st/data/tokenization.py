"""Tokenize data sets, tables and streams: token ids of every column of text."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, cycle, islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from datasets import Dataset, IterableDataset
from datasets.fingerprint import Hasher
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase

from contrastive_st.data.corpus import cache_file
from contrastive_st.data.profile import is_blank, number_in, value_of
from contrastive_st.data.reading import in_memory, open_table
from contrastive_st.data.reading.examples import read_examples
from contrastive_st.data.reading.memory import splits_in, visible
from contrastive_st.data.reading.sources import names_in
from contrastive_st.data.roles import SCORE, TARGETS, names_in_order, table_roles
from contrastive_st.errors import InputError, choice
from contrastive_st.tokens import prompt_length, token_ids, tokenizer_state
from contrastive_st.word_cache import WordCache, flat, reads_word_by_word

logger = logging.getLogger(__name__)
_BATCH = 4096  # rows that are tokenized at a time
_LONG = 1 << 14  # characters of a text of which `token_ids` reads only the start


def tokenize(
    texts: Any,
    tokenizer: PreTrainedTokenizerBase,
    max_length: int | None = None,
    num_proc: int | None = None,
    prompts: str | Mapping[str, str] | None = None,
    columns: Sequence[str] | None = None,
) -> Any:
    """Tokenize every text column, truncated to `max_length` tokens and without padding.

    The columns have the roles that `column_roles` finds, as in a file: `positive` may come before `anchor`, an `id` is
    not a text, lists of negatives become columns, labels become numbers, and rows with a blank text or without a label
    are left out; a line of the log says how many. Rows that `read_examples` returned are taken as they are. The result
    is stored in the cache of `datasets`: the same texts with the same tokenizer, length and prompts are tokenized once.

    Args:
        texts: rows in memory, as for `contrastive_st.data.reading.in_memory`. A null among hard negatives is not a
            text, and has no ids: where a row has fewer than others.
        tokenizer: any tokenizer of transformers.
        max_length: maximum number of tokens, special tokens included; by default the tokenizer's `model_max_length`.
        num_proc: number of worker processes; useful for a hundred thousand sentences or more.
        prompts: a prompt that is put before every text, or a prompt for each column, by its name.
        columns: the columns to use, as for `column_roles`; by default their names say it.

    Returns:
        A column `input_ids`: a list of ids if there is one text column, else a list of V lists. With prompts also
        `prompt_length`, the number of tokens before each text, from which the collators make the `text_mask`. A
        dictionary of data sets and a stream stay what they are.

    Raises:
        InputError: prompts name a column that does not exist, or leave no room for a text; or as for `read_examples`.

    Example:
        >>> from contrastive_st.data import train_wordpiece
        >>> tokenizer = train_wordpiece(["a b", "a c"] * 5, vocab_size=30)
        >>> tokenize([{"text": "a b"}, {"text": "a"}], tokenizer, 8)["input_ids"][:]
        [[2, 5, 6, 3], [2, 5, 3]]
        >>> tokenize(Dataset.from_dict({"text": ["b"]}), tokenizer, 8, prompts="a ")[0]  # [CLS] a b [SEP]
        {'input_ids': [2, 5, 6, 3], 'prompt_length': 2}
    """
    if not isinstance(texts, Dataset) and (splits := splits_in(texts)) is not None:
        tokens = {name: tokenize(part, tokenizer, max_length, num_proc, prompts, columns)
                  for name, part in splits.items()}  # fmt: skip
        return type(texts)(tokens)
    if isinstance(texts, IterableDataset):
        return _tokenized_stream(texts, _Encoding(tokenizer, max_length, prompts), columns)
    if not isinstance(texts, Dataset) and (files := names_in(texts)):
        raise InputError(f"{files[0]}: tokenize takes rows in memory; read files with read_examples, and give words "
                         "as a dictionary, {'text': [...]}")  # fmt: skip
    rows = texts
    if isinstance(texts, Dataset) and len(texts.format["columns"]) < len(texts.column_names):
        rows = visible(texts)
    if columns is not None or not _is_settled(rows):
        rows, roles = read_examples(in_memory(texts), columns)
        if isinstance(prompts, Mapping) and not roles.lists:
            new = dict(zip(roles.texts, rows.column_names, strict=False))
            prompts = {new.get(name, name): prompt for name, prompt in prompts.items()}
    return _tokenized_rows(rows, _Encoding(tokenizer, max_length, prompts), num_proc)


class _Encoding:
    """How texts become ids."""

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, max_length: int | None, prompts: str | Mapping[str, str] | None
    ) -> None:
        self.tokenizer, self.prompts = tokenizer, prompts
        self.max_length = tokenizer.model_max_length if max_length is None else max_length

    def prompts_of(self, columns: Sequence[str]) -> dict[str, str]:
        """The prompt of each column."""
        prompts = dict.fromkeys(columns, self.prompts) if isinstance(self.prompts, str) else self.prompts or {}
        for name in prompts:
            choice("column of a prompt", name, columns)
        return {name: prompts.get(name, "") for name in columns}

    def lengths(self, columns: Sequence[str]) -> list[int]:
        """The number of tokens of the prompt of each column; an empty list without prompts."""
        result = [prompt_length(self.tokenizer, one, self.max_length) for one in self.prompts_of(columns).values()]
        return result if any(result) else []

    def of(self, columns: Sequence[str]) -> Callable[[pa.Table], pa.Table]:
        """A function of rows with columns of text that has their ids in place of these; a null has none."""
        before, lengths = self.prompts_of(columns), self.lengths(columns)
        length = lengths[0] if len(columns) == 1 and lengths else lengths
        read = id_reader(self.tokenizer, self.max_length)

        def encode(rows: pa.Table) -> pa.Table:
            cells = chain.from_iterable(zip(*(rows[name].to_pylist() for name in before), strict=True))
            texts = [None if cell is None else prompt + cell for cell, prompt in zip(cells, cycle(before.values()))]
            count, sizes = len(rows), np.zeros(len(texts), np.int64)
            inner, sizes[[text is not None for text in texts]] = read([text for text in texts if text is not None])
            ids = pa.ListArray.from_arrays(pa.array(np.cumsum([0, *sizes]), pa.int32()), pa.array(inner))
            if len(before) > 1:  # the views of a row
                ends = pa.array(np.arange(count + 1) * len(before), pa.int32())
                ids = pa.ListArray.from_arrays(ends, ids)
            rows = rows.drop_columns(list(columns)).append_column("input_ids", ids)
            return rows.append_column("prompt_length", pa.array([length] * count)) if lengths else rows

        return encode


def id_reader(
    tokenizer: PreTrainedTokenizerBase, max_length: int
) -> Callable[[Sequence[str]], tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """A function from texts to their token ids, one text after the other, and the number of ids of each text.

    The ids are those of `token_ids`. A tokenizer that reads word by word is asked for each different word once.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    words = WordCache(backend) if backend is not None and reads_word_by_word(backend) else None
    around = None if words is None else _around(tokenizer)
    max_length = min(max_length, 1 << 40)
    room = max_length - (len(around[0]) + len(around[1]) if around else max_length)

    def read(texts: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        if words is None or around is None or room < 1 or max(map(len, texts), default=0) > _LONG:
            ids, sizes = flat(token_ids(tokenizer, texts, max_length))
            return ids.astype(np.int64), sizes
        backend.no_truncation()  # type: ignore[union-attr]
        ids, counts = words.ids(texts)
        kept = np.minimum(counts, room)
        offset = np.arange(len(ids)) - np.repeat(np.cumsum(counts) - counts, counts)
        first, last = (np.array(part, np.int64) for part in around)
        sizes = kept + len(first) + len(last)
        starts = np.cumsum(sizes) - sizes
        result = np.empty(int(sizes.sum()), np.int64)
        result[starts[:, None] + np.arange(len(first))] = first
        result[(starts + sizes - len(last))[:, None] + np.arange(len(last))] = last
        inside = np.arange(int(kept.sum())) - np.repeat(np.cumsum(kept) - kept, kept)
        result[np.repeat(starts + len(first), kept) + inside] = ids[offset < room]
        return result, sizes

    return read


def _around(tokenizer: PreTrainedTokenizerBase) -> tuple[list[int], list[int]] | None:
    """The special tokens before and after a text; None if they depend on the text, or texts are cut at their start."""
    special = tokenizer.encode("")
    words = (word for word, number in tokenizer.get_vocab().items() if number not in special and word.isalpha())
    text = next(words, "")
    inner, full = tokenizer.encode(text, add_special_tokens=False), tokenizer.encode(text)
    split = next((i for i in range(len(special) + 1) if special[:i] + inner + special[i:] == full), None)
    if split is None or not inner or tokenizer.truncation_side != "right":
        return None
    return special[:split], special[split:]


def _is_settled(texts: object) -> bool:
    """Whether rows are as `read_examples` returns them: texts in the order of their roles, then numbers."""
    if not isinstance(texts, Dataset) or texts.format["type"] == "custom":
        return False
    schema, names = texts.features.arrow_schema, [name for name in texts.column_names if name not in TARGETS]
    if names != names_in_order(names):
        return False
    if not {schema.field(name).type for name in names} <= {pa.string(), pa.large_string()}:
        return False
    for batch in texts.with_format("arrow").iter(batch_size=1 << 16):
        for name in names[:2]:
            least = pc.min(pc.utf8_length(pc.utf8_trim_whitespace(batch[name]))).as_py()
            if batch[name].null_count or least == 0:
                return False
        for name in set(TARGETS) & set(texts.column_names):
            kind = batch[name].type
            number = pa.types.is_floating(kind) or (pa.types.is_integer(kind) and pc.min(batch[name]).as_py() >= 0)
            if batch[name].null_count or not (number or pa.types.is_list(kind) or pa.types.is_large_list(kind)):
                return False
    return True


def _tokenized_rows(rows: Dataset, encoding: _Encoding, num_proc: int | None) -> Dataset:
    """Rows with ids in place of their columns of text, from the cache of `datasets` if they are there."""
    names = [name for name in rows.column_names if name not in TARGETS]
    # the cache file is named after the inputs, because a pickle of the tokenizer changes when the tokenizer is used
    state = json.dumps(tokenizer_state(encoding.tokenizer), sort_keys=True)
    cells: Any = rows._fingerprint
    if not rows.cache_files:  # else it is of rows in memory, and random, or the same in forked processes
        parts = (rows.data,) if rows._indices is None else (rows.data, rows._indices)
        cells = [str(rows.features), *(Hasher.hash_bytes([x.serialize()]) for part in parts for x in part.to_batches())]
    inputs = [cells, state, encoding.max_length]
    name = Hasher.hash([*inputs, *encoding.prompts_of(names).items()] if encoding.lengths(names) else inputs)
    tokens = rows.with_format("arrow").map(
        encoding.of(names), batched=True, batch_size=_BATCH, num_proc=num_proc, new_fingerprint=name,
        cache_file_name=str(cache_file(f"tokens-{name}.arrow")), desc="tokenize",
    )  # fmt: skip
    return tokens.with_format(rows.format["type"], **rows.format["format_kwargs"])


def _tokenized_stream(texts: IterableDataset, encoding: _Encoding, columns: Sequence[str] | None) -> IterableDataset:
    """A stream of tokenized rows; the roles of its columns are found from its first rows."""
    texts = texts.with_format(None)
    table = open_table(texts, name="the stream")
    roles = table_roles(table, columns)
    if roles.lists or roles.kind in ("scored_candidates", "labelled_texts", "labelled_pairs"):
        raise InputError(f"the stream has {roles.words}; a stream may have texts and scores, and no classes or lists")
    scores = [value_of(row.cells.get(roles.target)) for row in islice(table, table.sampled) if roles.target]
    if any(score is not None and not 0 <= score <= 1 for score in scores):
        raise InputError(f"the stream's scores in {roles.target!r} are not in 0 to 1; scale them with `map`")
    logger.info(f"{roles}\n  rows with a blank text are left out while they are read")
    others = list(texts.column_names or table.names)
    return _mapped(texts, roles.texts, roles.target, encoding, others)


def tokenize_stream(
    texts: IterableDataset,
    names: Sequence[str],
    tokenizer: PreTrainedTokenizerBase,
    max_length: int,
    prompts: Mapping[str, str],
) -> IterableDataset:
    """Tokenize a stream of these columns of text, which are in the order of their roles; see `tokenize`.

    Example:
        >>> from contrastive_st.data import train_wordpiece
        >>> tokenizer = train_wordpiece(["a b", "a c"] * 5, vocab_size=30)
        >>> rows = Dataset.from_dict({"text": ["b", " "]}).to_iterable_dataset()
        >>> list(tokenize_stream(rows, ["text"], tokenizer, 8, {}))
        [{'input_ids': [2, 6, 3]}]
    """
    return _mapped(texts, names, None, _Encoding(tokenizer, max_length, prompts), list(names))


def _mapped(
    texts: IterableDataset, names: Sequence[str], target: str | None, encoding: _Encoding, others: list[str]
) -> IterableDataset:
    encode = encoding.of(names)

    def encoded(batch: dict[str, list[object]]) -> dict[str, list[object]]:
        if late := sorted(set(batch) - set(others)):
            raise InputError(f"the stream: column {late[0]!r} is not in its first rows; give every row all columns")
        cells = zip(*(batch[name] for name in (*names, *([target] if target else []))), strict=True)
        complete = (row for row in cells if not any(map(is_blank, row)))
        rows = [row for row in complete if all(isinstance(text, str) for text in row[: len(names)])]
        texts = {name: pa.array([row[i].strip() for row in rows], pa.string()) for i, name in enumerate(names)}
        result = encode(pa.table(texts)).to_pydict()
        return {**result, **({SCORE: [number_in(row[-1], "the stream") for row in rows]} if target else {})}

    return texts.map(encoded, batched=True, batch_size=64, remove_columns=others)
