"""Token ids of long texts: those of the whole text, without reading all of it."""

import copy

import pytest
import torch
from tokenizers.processors import TemplateProcessing

from conftest import SENTENCES
from contrastive_st.data import word_tokenizer
from contrastive_st.data.tokenization import id_reader
from contrastive_st.errors import InputError
from contrastive_st.tokens import beginnings, token_ids, token_types
from sequences import kmer_tokenizer


class Watched:
    """A tokenizer that notes how many characters it was given at most."""

    def __init__(self, tokenizer):
        self.tokenizer, self.longest, self.model_max_length = tokenizer, 0, tokenizer.model_max_length

    def __call__(self, texts, **options):
        self.longest = max(self.longest, *map(len, texts))
        return self.tokenizer(texts, **options)


TEXTS = [
    "",
    "the cat sat",
    "the cat sat on the mat " * 10_000,
    "the cat" + " " * 100_000 + "sat on the old town",
    "rain" * 20_000,
    " " * 50_000,
    "a " * 15 + " " * 4060 + "information " * 9,
    "猫" * 20_000,
]


@pytest.mark.parametrize("length", [3, 128])
def test_the_same_ids_as_of_the_whole_text(tokenizer, length):
    expected = [tokenizer(text, truncation=True, max_length=length)["input_ids"] for text in TEXTS]
    assert token_ids(tokenizer, TEXTS, length) == expected


def test_a_long_line_is_cut_before_it_is_tokenized(tokenizer):
    watched = Watched(tokenizer)
    token_ids(watched, ["the cat sat on the mat " * 200_000, "rain"], 128)
    assert watched.longest <= 128 * 64


def test_what_is_read_of_a_text_gives_the_tokens_wanted(tokenizer):
    first = ["the cat sat on the mat " * 20_000, "rain", " " * 50_000 + "the cat"]
    second = ["a dog", "the dog ran " * 10_000, "far away"]
    read = [beginnings(tokenizer, texts, 32) for texts in (first, second)]
    assert max(map(len, [*read[0][:2], *read[1]])) <= 64 * 64
    whole = tokenizer(first, second, truncation=True, max_length=32)["input_ids"]
    assert tokenizer(*read, truncation=True, max_length=32)["input_ids"] == whole


def test_no_text_no_limit_and_half_characters(tokenizer):
    unbounded = copy.deepcopy(tokenizer)
    unbounded.model_max_length = int(1e30)
    assert token_ids(unbounded, []) == []
    assert len(token_ids(unbounded, ["cat " * 10_000])[0]) == 10_002
    assert token_ids(tokenizer, ["cat \ud83d"]) == token_ids(tokenizer, ["cat ?"])
    assert token_ids(word_tokenizer(["cat"]), ["", "cat"]) == [[], [2]]
    with pytest.raises(InputError, match="max_length 1: the tokenizer adds more tokens"):
        token_ids(tokenizer, ["rain"], 1)
    assert token_ids(kmer_tokenizer(3), ["ACG" * 50_000], 8)[0] == kmer_tokenizer(3)("ACGACGACGACGACGACG")["input_ids"]


@pytest.mark.parametrize("length", [3, 8, 64, int(1e30)])
def test_word_by_word_is_what_the_tokenizer_gives(tokenizer, length):
    texts = [*SENTENCES, "", " ", "[SEP] a [MASK]b", "a\tcat\nsat", "cat " * 200, "x" * 500, "日本語 テスト",
             "don't [PAD]stop", "cat " * 20_000]  # fmt: skip
    for one in (tokenizer, word_tokenizer(["a", "cat"]), kmer_tokenizer(3)):
        for some in (texts, texts[:-1]):
            ids, sizes = id_reader(one, length)(some)
            rows = token_ids(one, some, length)
            assert (ids.tolist(), sizes.tolist()) == ([number for row in rows for number in row], list(map(len, rows)))


@pytest.mark.parametrize("side", ["right", "left"])
def test_types_are_the_same_after_padding_to_a_length(tokenizer, side):
    typed = copy.deepcopy(tokenizer)
    special = [("[CLS]", 2), ("[SEP]", 3)]
    typed.backend_tokenizer.post_processor = TemplateProcessing("[CLS]:1 $A:0 [SEP]:1", special_tokens=special)
    typed.padding_side = side
    typed(["a cat"], padding="max_length", max_length=8)
    assert token_types(typed, torch.ones(1, 5, dtype=torch.long)).tolist() == [[1, 0, 0, 0, 1]]


def test_a_tokenizer_that_does_more_than_its_backend_is_asked_itself(tokenizer):
    class More(type(tokenizer)):
        def __call__(self, *args, **options):
            found = super().__call__(*args, **options)
            found["input_ids"] = [[*row, 7] for row in found["input_ids"]]
            return found

    more = copy.deepcopy(tokenizer)
    more.__class__ = More
    assert token_ids(more, ["a cat", "a dog"]) == [[*row, 7] for row in token_ids(tokenizer, ["a cat", "a dog"])]
