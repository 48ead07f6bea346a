"""Tokenize data sets, and make tokenizers: WordPiece, word-level, and with a template around each text."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, Any, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from annotated_types import Ge, Gt, Le
from datasets import Dataset, DatasetDict, IterableDataset, config
from datasets.fingerprint import Hasher
from numpy.typing import NDArray
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import BertTokenizer, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from contrastive_st.data.reading import open_table
from contrastive_st.data.reading.examples import read_examples
from contrastive_st.data.reading.table import in_memory
from contrastive_st.data.roles import ANCHOR, NEGATIVE, POSITIVE, SCORE, TARGETS, TEXT, column_roles, role_of
from contrastive_st.errors import InputError, choice
from contrastive_st.options import checked
from contrastive_st.tokens import prompt_length, token_ids
from contrastive_st.word_cache import WORD_SPLIT, WordCache, reads_word_by_word

logger = logging.getLogger(__name__)
_BATCH = 4096  # rows that are tokenized at a time
_LONG = 1 << 14  # characters of a text of which `token_ids` reads only the start

# --- A WordPiece vocabulary learned from the user's own text, for encoders trained from scratch.

SPECIAL_TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
_INSIDE = 0xF0000  # private code points for letters inside a word, which differ from letters at its start
_MARK = {code: code + _INSIDE for code in range(0x10000)}
_UNMARK = {marked: code for code, marked in _MARK.items()}


def train_wordpiece(
    texts: Iterable[str], vocab_size: int = 16_000, max_length: int = 128, min_frequency: int = 2
) -> BertTokenizer:
    """Learn a lower-cased WordPiece vocabulary and return a BERT tokenizer with it.

    The same texts always give the same vocabulary. `tokenizers.trainers.WordPieceTrainer` does not guarantee this: it
    numbers the `##` letters in the order of a hash table, and ties between merges follow those numbers. Here letters
    inside words are replaced by private characters, byte-pair merges are learned from words in sorted order, and the
    private characters are turned into `##` pieces.

    Args:
        texts: the corpus; read once, in any order.
        vocab_size: upper bound on the number of word pieces, special tokens included.
        max_length: the tokenizer's `model_max_length`, in tokens.
        min_frequency: merges and letters that are less frequent are left out.

    Raises:
        InputError: `vocab_size` or `max_length` leaves no room for a word piece besides the special tokens.

    Example:
        >>> tokenizer = train_wordpiece(["the cat sat", "the cat ran"] * 10, vocab_size=60)
        >>> tokenizer.tokenize("The cat")
        ['the', 'cat']
    """
    check_max_length(max_length, max_length)
    checked("vocab_size", vocab_size, Annotated[int, Gt(len(SPECIAL_TOKENS))])
    words = _count_words(texts)
    letters: Counter[str] = Counter()
    for word, count in words.items():
        letters.update(dict.fromkeys(word, count))
    rare = {letter for letter, count in letters.items() if count < min_frequency or ord(letter) >= 0x10000}
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size - len(SPECIAL_TOKENS), min_frequency=min_frequency, show_progress=False
    )
    tokenizer.train_from_iterator(_marked_lines(words, rare), trainer)
    pieces = sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().__getitem__)
    vocabulary = {token: i for i, token in enumerate([*SPECIAL_TOKENS, *map(_as_wordpiece, pieces)])}
    return BertTokenizer(vocab=vocabulary, model_max_length=max_length)


def _count_words(texts: Iterable[str]) -> Counter[str]:
    normalize = normalizers.BertNormalizer(lowercase=True).normalize_str
    split = pre_tokenizers.BertPreTokenizer().pre_tokenize_str
    words: Counter[str] = Counter()
    for text in texts:
        words.update(word for word, _ in split(normalize(text)))
    return words


def _marked_lines(words: Counter[str], rare: set[str]) -> Iterator[str]:
    for word in sorted(words):
        if not rare.intersection(word):
            marked = word[0] + word[1:].translate(_MARK)
            yield " ".join([marked] * words[word])


def _as_wordpiece(piece: str) -> str:
    plain = piece.translate(_UNMARK)
    return f"##{plain}" if ord(piece[0]) >= _INSIDE else plain


# --- Word-level vocabularies: one id per word, for encoders with word embeddings of their own.

PAD, UNK = "[PAD]", "[UNK]"
PAD_ID, UNK_ID = 0, 1
_APOSTROPHES = "\u2019"  # the typographic one; vector tables know the ASCII one


def word_tokenizer(words: Iterable[str], max_length: int = 128, lowercase: bool = True) -> PreTrainedTokenizerFast:
    """A tokenizer with one id per word: id 0 is padding, id 1 any unknown word, and `words` follow in their order.

    Text is normalized to NFC, converted to lower case if `lowercase`, and split into words, numbers and punctuation
    marks. No special tokens are added; a text without words gives an empty list. `[PAD]` and `[UNK]` inside a text are
    ordinary text.

    Args:
        words: distinct words.
        max_length: the tokenizer's `model_max_length`, in words.
        lowercase: False for a vocabulary with capitals.

    Raises:
        InputError: there are no words, or one is repeated or reserved (`[PAD]`, `[UNK]`).

    Example:
        >>> tokenizer = word_tokenizer(["the", "cat", "sat"])
        >>> tokenizer(["The cat sat", "a cat", ""])["input_ids"]
        [[2, 3, 4], [1, 3], []]
    """
    ids = {PAD: PAD_ID, UNK: UNK_ID}
    _add_words(ids, words)
    return _fast(_backend(models.WordLevel(vocab=ids, unk_token=UNK), lowercase), max_length)


def _add_words(ids: dict[str, int], words: Iterable[str]) -> None:
    for word in words:
        if ids.setdefault(word, len(ids)) != len(ids) - 1:
            what = "a reserved name" if word in (PAD, UNK) else f"there twice (first with id {ids[word]})"
            raise InputError(f"the vocabulary's word {word!r} is {what}; remove it")


def train_word_tokenizer(
    texts: Iterable[str], vocab_size: int = 30_000, max_length: int = 128, lowercase: bool = True
) -> PreTrainedTokenizerFast:
    """A word tokenizer whose vocabulary is the most frequent words of a corpus.

    Equally frequent words come in the order of their code points, so the same texts give the same vocabulary, in
    whatever order they are.

    Args:
        texts: the corpus; read once.
        vocab_size: upper bound on the number of ids, the two reserved ones included.
        max_length: as for `word_tokenizer`.
        lowercase: as for `word_tokenizer`.

    Raises:
        InputError: `vocab_size` leaves no room for a word, or the texts have no words.

    Example:
        >>> tokenizer = train_word_tokenizer(["the cat sat", "the dog sat"], vocab_size=5)
        >>> tokenizer.convert_ids_to_tokens(range(5))
        ['[PAD]', '[UNK]', 'sat', 'the', 'cat']
    """
    checked("vocab_size", vocab_size, Annotated[int, Gt(2)])
    backend = _backend(models.WordLevel(unk_token=UNK), lowercase)
    trainer = trainers.WordLevelTrainer(
        vocab_size=vocab_size, min_frequency=0, special_tokens=[PAD, UNK], show_progress=False
    )
    return _learned(backend, texts, trainer, max_length)


def _learned(backend: Tokenizer, texts: Iterable[str], trainer: Any, max_length: int) -> PreTrainedTokenizerFast:
    backend.train_from_iterator(texts, trainer)
    return _fast(backend, max_length)


def train_subword_tokenizer(
    texts: Iterable[str], vocab_size: int = 80_000, max_length: int = 128, lowercase: bool = True
) -> PreTrainedTokenizerFast:
    """A tokenizer of text in any script: frequent words are one token, others the pieces of a byte-pair encoding.

    In scripts that write no spaces between words, frequent runs of characters are the tokens. Characters that are in
    no text of the corpus become the unknown token.

    Args:
        texts: the corpus; read once.
        vocab_size: upper bound on the number of ids, the two reserved ones included.
        max_length: the tokenizer's `model_max_length`, in tokens.
        lowercase: False to tell capitals.

    Raises:
        InputError: the texts have no words.

    Example:
        >>> tokenizer = train_subword_tokenizer(["the cat sat", "cats sat", "\u732b\u304c\u3044\u308b", "the cats"], 60)
        >>> tokenizer.tokenize("The cats sat; that cat"), len(tokenizer.tokenize("\u732b\u304c"))
        (['the', 'cats', 'sat', '[UNK]', 't', 'h', 'at', 'cat'], 2)
    """
    backend = _backend(models.BPE(unk_token=UNK), lowercase)
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size, min_frequency=2, special_tokens=[PAD, UNK], limit_alphabet=max(vocab_size // 2, 1),
        max_token_length=_LONGEST, show_progress=False,
    )  # fmt: skip
    return _learned(backend, texts, trainer, max_length)


_LONGEST = 30  # characters of a token


def words_of(tokenizer: PreTrainedTokenizerFast) -> list[str]:
    """The tokens of a tokenizer in the order of their ids, reserved ones included.

    Example:
        >>> words_of(word_tokenizer(["cat"]))
        ['[PAD]', '[UNK]', 'cat']
    """
    return cast("list[str]", tokenizer.convert_ids_to_tokens(list(range(len(tokenizer)))))


def reachable(words: Iterable[str], tokenizer: PreTrainedTokenizerFast) -> list[str]:
    """The words that the tokenizer can produce, because its rules neither change nor split them.

    Example:
        >>> reachable(["cat", "Cat", "well-known", "[PAD]"], word_tokenizer(["dog"]))
        ['cat']
    """
    backend = tokenizer.backend_tokenizer
    normalize, cut = backend.normalizer.normalize_str, backend.pre_tokenizer.pre_tokenize_str
    return [word for word in words if normalize(word) == word and [part for part, _ in cut(word)] == [word]]


def with_more_words(tokenizer: PreTrainedTokenizerFast, words: Iterable[str]) -> PreTrainedTokenizerFast:
    """The same tokenizer with further words; existing ids stay the same.

    Raises:
        InputError: the tokenizer has one of the words already.

    Example:
        >>> with_more_words(word_tokenizer(["cat"]), ["dog"])("a dog, a cat")["input_ids"]
        [1, 3, 1, 1, 2]
    """
    state = json.loads(tokenizer.backend_tokenizer.to_str())
    _add_words(state["model"]["vocab"], words)
    return _fast(Tokenizer.from_str(json.dumps(state)), tokenizer.model_max_length)


def _backend(model: models.Model, lowercase: bool) -> Tokenizer:
    backend = Tokenizer(model)
    steps = [normalizers.NFC(), normalizers.Replace(_APOSTROPHES, "'")]
    backend.normalizer = normalizers.Sequence([*steps, normalizers.Lowercase()] if lowercase else steps)
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(WORD_SPLIT["pattern"]["Regex"]), "removed", invert=True)
    return backend


def _fast(backend: Tokenizer, max_length: int) -> PreTrainedTokenizerFast:
    if backend.get_vocab_size() == 2:
        raise InputError("the vocabulary has no words; give other texts, or at least one word")
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token=PAD,
        unk_token=UNK,
        padding_side="right",
        model_max_length=max_length,
        model_input_names=["input_ids", "attention_mask"],
        split_special_tokens=True,  # otherwise "[PAD]" inside a text would be padding
    )


# --- Templates: words around each text, with a [MASK] at which the embedding is taken (PromptBERT).


class Template(NamedTuple):
    """Token ids of a template around a sentence, including [CLS] and [SEP].

    Attributes:
        before: token ids before the sentence.
        after: token ids after the sentence.
        behind: how many tokens of `after` come after [MASK].
    """

    before: list[int]
    after: list[int]
    behind: int

    @property
    def shape(self) -> list[int]:
        """The `template` of `ContrastiveConfig`."""
        return [len(self.before), len(self.after), self.behind]


def read_template(text: str, tokenizer: Any) -> Template:
    """Tokenize a template such as `This sentence of "[X]" means [MASK].`, where [X] is replaced by the sentence.

    Args:
        text: the template, with one [X] and, after it, one [MASK] (for any tokenizer, whatever its mask token is).
        tokenizer: a fast tokenizer with a start token, an end token and a mask token.

    Raises:
        InputError: the text is not a template, or the tokenizer lacks one of these tokens.

    Example:
        >>> tokenizer = train_wordpiece(["a b c", "a b c"], vocab_size=20)
        >>> tokenizer.convert_ids_to_tokens(range(8))
        ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]', 'a', 'b', 'c']
        >>> read_template("a [X] b [MASK] c", tokenizer)
        Template(before=[2, 5], after=[6, 4, 7, 3], behind=2)
    """
    first, found, rest = text.partition("[X]")
    if not found or "[X]" in rest or "[MASK]" in first or rest.count("[MASK]") != 1:
        raise InputError(f"the template {text!r} needs one [X] for the sentence and, after it, one [MASK]")
    special = [getattr(tokenizer, f"{name}_token_id") for name in ("cls", "sep", "mask")]
    if None in special or not tokenizer.is_fast:
        raise InputError("a template needs a fast tokenizer with [CLS], [SEP] and [MASK]; use another base encoder")
    cls, sep, mask = special
    ids = [tokenizer.encode(part, add_special_tokens=False) for part in (first.rstrip(), *rest.split("[MASK]"))]
    return Template([cls, *ids[0]], [*ids[1], mask, *ids[2], sep], len(ids[2]) + 1)


def with_template(tokenizer: Any, template: Template, max_length: int) -> PreTrainedTokenizerFast:
    """The same tokenizer, which now puts the template around every text, also after it was saved and loaded.

    Args:
        tokenizer: a fast tokenizer.
        template: the result of `read_template`.
        max_length: the new tokenizer's `model_max_length`; texts are truncated so that the template fits in.

    Raises:
        InputError: `max_length` leaves no room for a text.

    Example:
        >>> tokenizer = train_wordpiece(["a b c", "a b c"], vocab_size=20)
        >>> tokenizer = with_template(tokenizer, read_template("a [X] b [MASK]", tokenizer), max_length=8)
        >>> tokenizer.decode(tokenizer("c c c c c c", truncation=True)["input_ids"])
        '[CLS] a c c c b [MASK] [SEP]'
    """
    around_text = sum(template.shape[:2])
    checked(f"max_length with a template of {around_text} tokens", max_length, Annotated[int, Gt(around_text)])
    backend = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    around = [{"id": f"<{name}>", "ids": ids, "tokens": tokenizer.convert_ids_to_tokens(ids)}
              for name, ids in (("before", template.before), ("after", template.after))]  # fmt: skip
    backend.post_processor = processors.TemplateProcessing("<before> $A <after>", "$A $B", around)
    backend.no_truncation()
    backend.no_padding()
    # not the class of the given tokenizer, which would only add [CLS] and [SEP] when it is loaded again
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, model_max_length=max_length, model_input_names=tokenizer.model_input_names,
        padding_side="right", **tokenizer.special_tokens_map,
    )  # fmt: skip


def check_max_length(max_length: int, limit: int) -> int:
    """Check that a maximum length leaves room for a word between two special tokens.

    Args:
        max_length: number of tokens.
        limit: number of positions of the model.

    Returns:
        `max_length`.

    Raises:
        OptionError: it is below 3 or above the limit.
    """
    return checked("max_length", max_length, Annotated[int, Ge(3), Le(limit)])


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
    are left out; a line says so. Rows that `read_texts` or `read_examples` returned are taken as they are. The result
    is stored in the cache of `datasets`: the same texts, tokenizer, length and prompts are tokenized once.

    Args:
        texts: a `Dataset`, a `DatasetDict`, a stream (`IterableDataset`), a DataFrame or a list of dictionaries. A null
            among hard negatives is no text, and has no ids: where a row has fewer than others.
        tokenizer: any tokenizer of transformers.
        max_length: maximum number of tokens, special tokens included; by default the tokenizer's `model_max_length`.
        num_proc: number of worker processes; useful from some hundred thousand sentences on.
        prompts: a prompt that is put before every text, or a prompt for each column, by its name.
        columns: the columns to use, as for `column_roles`; by default their names say it.

    Returns:
        A column `input_ids`: a list of ids if there is one text column, else a list of V lists. With prompts also
        `prompt_length`, the number of tokens before each text, from which the collators make the `text_mask`. A
        `DatasetDict` and a stream stay what they are.

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
    if isinstance(texts, DatasetDict):
        return type(texts)({name: tokenize(own, tokenizer, max_length, num_proc, prompts, columns)
                            for name, own in texts.items()})  # fmt: skip
    if isinstance(texts, IterableDataset):
        return _tokenized_stream(texts, _Encoding(tokenizer, max_length, prompts), columns)
    if in_memory(texts, "the data") is None:
        kinds = "a Dataset, a DatasetDict, an IterableDataset, a DataFrame or a list of dictionaries"
        raise InputError(f"tokenize takes {kinds}, not {type(texts).__name__}; read files with read_examples")
    rows: Dataset = texts if columns is None and _is_settled(texts) else read_examples(texts, columns)[0]
    encoding = _Encoding(tokenizer, max_length, prompts)
    names = [name for name in rows.column_names if name not in TARGETS]
    encode = encoding.of(names)
    # the cache file is named after the inputs, because a pickle of the tokenizer changes when the tokenizer is used
    words = sorted(tokenizer.get_vocab().items())
    given = [
        rows._fingerprint,
        words,
        repr(tokenizer),
        tokenizer.encode(""),
        encoding.max_length,
    ]  # what is around a text
    name = Hasher.hash([*given, *encoding.prompts_of(names).items()] if encoding.lengths(names) else given)
    folder = Path(config.HF_DATASETS_CACHE, "contrastive_st")
    folder.mkdir(parents=True, exist_ok=True)
    tokens = rows.with_format("arrow").map(
        encode, batched=True, batch_size=_BATCH, num_proc=num_proc, new_fingerprint=name,
        cache_file_name=str(folder / f"tokens-{name}.arrow"), desc="tokenize",
    )  # fmt: skip
    return tokens.with_format(rows.format["type"], **rows.format["format_kwargs"])


class _Encoding:
    """How texts become ids."""

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, max_length: int | None, prompts: str | Mapping[str, str] | None
    ) -> None:
        self.tokenizer, self.prompts = tokenizer, prompts
        self.max_length = tokenizer.model_max_length if max_length is None else max_length

    def prompts_of(self, columns: Sequence[str]) -> dict[str, str]:
        """The prompt of each column."""
        if isinstance(self.prompts, str):
            return dict.fromkeys(columns, self.prompts)
        for name in self.prompts or ():
            choice("column of a prompt", name, columns)
        return {name: (self.prompts or {}).get(name, "") for name in columns}

    def lengths(self, columns: Sequence[str]) -> list[int]:
        """The number of tokens of the prompt of each column; an empty list without prompts."""
        found = [prompt_length(self.tokenizer, one, self.max_length) for one in self.prompts_of(columns).values()]
        return found if any(found) else []

    def of(self, columns: Sequence[str]) -> Callable[[pa.Table], pa.Table]:
        """A function of rows with columns of text that has their ids in place of these; a null has none."""
        before, lengths = self.prompts_of(columns), self.lengths(columns)
        length: Any = lengths[0] if len(columns) == 1 and lengths else lengths
        read = id_reader(self.tokenizer, self.max_length)

        def lists(texts: pa.ChunkedArray, prompt: str) -> pa.ListArray:
            ids, sizes = read([prompt + (text or "") for text in texts.to_pylist()])
            found = pa.ListArray.from_arrays(pa.array(np.cumsum([0, *sizes]), pa.int32()), pa.array(ids))
            return pc.if_else(texts.is_valid(), found, pa.scalar([], found.type)) if texts.null_count else found

        def encode(rows: pa.Table) -> pa.Table:
            views = [pa.chunked_array(lists(rows[name], prompt)).combine_chunks() for name, prompt in before.items()]
            ids, count = views[0], len(rows)
            if len(views) > 1:  # the views of a row, one after the other
                places = np.arange(count)[:, None] + np.arange(len(views)) * count
                ends = pa.array(np.arange(count + 1) * len(views), pa.int32())
                ids = pa.ListArray.from_arrays(ends, pa.concat_arrays(views).take(pa.array(places.ravel())))
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
            rows = token_ids(tokenizer, texts, max_length)
            sizes = np.fromiter(map(len, rows), np.int64, len(rows))
            return np.fromiter(chain.from_iterable(rows), np.int64, int(sizes.sum())), sizes
        backend.no_truncation()  # type: ignore[union-attr]
        ids, whole = words.ids(texts)
        kept = np.minimum(whole, room)
        place = np.arange(len(ids)) - np.repeat(np.cumsum(whole) - whole, whole)
        first, last = (np.array(part, np.int64) for part in around)
        sizes = kept + len(first) + len(last)
        starts = np.cumsum(sizes) - sizes
        found = np.empty(int(sizes.sum()), np.int64)
        found[starts[:, None] + np.arange(len(first))] = first
        found[(starts + sizes - len(last))[:, None] + np.arange(len(last))] = last
        inside = np.arange(int(kept.sum())) - np.repeat(np.cumsum(kept) - kept, kept)
        found[np.repeat(starts + len(first), kept) + inside] = ids[place < room]
        return found, sizes

    return read


def _around(tokenizer: PreTrainedTokenizerBase) -> tuple[list[int], list[int]] | None:
    """The special tokens before and after a text; None if they depend on the text, or texts are cut at their start."""
    special = tokenizer.encode("")
    text = next(
        (word for word, number in tokenizer.get_vocab().items() if number not in special and word.isalpha()), ""
    )
    inner, whole = tokenizer.encode(text, add_special_tokens=False), tokenizer.encode(text)
    split = next((i for i in range(len(special) + 1) if special[:i] + inner + special[i:] == whole), None)
    if split is None or not inner or tokenizer.truncation_side != "right":
        return None
    return special[:split], special[split:]


_RANK = {ANCHOR: 0, TEXT: 0, POSITIVE: 1, NEGATIVE: 2}


def _is_settled(texts: Any) -> bool:
    """Whether rows are as `read_examples` returns them: texts in the order of their roles, then numbers."""
    if not isinstance(texts, Dataset):
        return False
    schema, names = texts.features.arrow_schema, [name for name in texts.column_names if name not in TARGETS]
    roles = [role_of(name, names) for name in names]
    if any(role is not None and _RANK.get(role, -1) != min(place, 2) for place, role in enumerate(roles)):
        return False
    if not all(
        pa.types.is_string(schema.field(name).type) or pa.types.is_large_string(schema.field(name).type)
        for name in names
    ):
        return False
    for batch in texts.with_format("arrow").iter(batch_size=1 << 16):
        for name, role in zip(names, roles, strict=True):
            least = pc.min(pc.utf8_length(pc.utf8_trim_whitespace(batch[name]))).as_py()
            if role != NEGATIVE and name in names[:2] and (batch[name].null_count or least == 0):
                return False
        for name in set(TARGETS) & set(texts.column_names):
            kind = batch[name].type
            number = pa.types.is_floating(kind) or (pa.types.is_integer(kind) and pc.min(batch[name]).as_py() >= 0)
            if batch[name].null_count or not (number or pa.types.is_list(kind) or pa.types.is_large_list(kind)):
                return False
    return True


def _tokenized_stream(texts: IterableDataset, encoding: _Encoding, columns: Sequence[str] | None) -> IterableDataset:
    """A stream of tokenized rows; the roles of its columns are found from its first rows."""
    table = open_table(texts, name="the stream")
    roles = column_roles(table.profile, columns, source="the stream")
    if roles.lists or roles.kind in ("scored_candidates", "labelled_texts", "labelled_pairs"):
        raise InputError(f"the stream has {roles.words}; a stream may have texts and scores, and no classes or lists")
    roles = roles.with_example(row.cells for row in islice(table, 100))
    if roles.gold and not 0 <= table.profile[roles.gold].low <= table.profile[roles.gold].high <= 1:
        raise InputError(f"the stream's scores in {roles.gold!r} are not in 0 to 1; scale them with `map`")
    logger.info(f"{roles}\n  rows with a blank text are left out while they are read")
    others = list(texts.column_names or table.profile)
    return _mapped(texts, roles.texts, roles.gold, encoding, others)


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
    texts: IterableDataset, names: Sequence[str], gold: str | None, encoding: _Encoding, others: list[str]
) -> IterableDataset:
    encode = encoding.of(names)

    def encoded(batch: dict[str, list[Any]]) -> dict[str, list[Any]]:
        if late := sorted(set(batch) - set(others)):
            raise InputError(f"the stream: column {late[0]!r} is not in its first rows; give every row all columns")
        cells = zip(*(batch[name] for name in (*names, *([gold] if gold else []))), strict=True)
        rows = [row for row in cells if all(isinstance(text, str) and text.strip() for text in row[: len(names)])]
        texts = pa.table(
            {name: pa.array([row[i].strip() for row in rows], pa.string()) for i, name in enumerate(names)}
        )
        found = encode(texts).to_pydict()
        return {**found, **({SCORE: [float(row[-1]) for row in rows]} if gold else {})}

    return texts.map(encoded, batched=True, batch_size=64, remove_columns=others)
