"""Word by word, the ids are those of the tokenizer."""

import json

import numpy as np
import pytest
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers

from contrastive_st import word_cache
from contrastive_st.data import train_subword_tokenizer
from contrastive_st.files.folders import SHIPPED
from contrastive_st.word_cache import WordCache, reads_word_by_word

PIECES = ["the ", "cats", "  ", "\t", "\n", "\x1c", "\u00a0", "\u2009", "\u3000", "\u200b", "\x00", "\u0301", " \u0338",
          "É", "ß", "Σς", "İ", "ﬁ", "東京", "🙂", "가", "-", "_", "'", "don't", "1,000.5", "[MASK]", " [UNK] ",
          "[unused1]", "[PAD]", "[", "##s", "x" * 120, "\ufeff", "\u202e", "ا", "ก็"]  # fmt: skip


def shipped():
    return Tokenizer.from_file(str(SHIPPED / "tokenizer.json"))


def word_level():
    own = Tokenizer(models.WordLevel({"the": 0, "cats": 1, "?": 2, "e": 3}, unk_token="?"))
    own.normalizer = normalizers.Sequence([normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase()])
    own.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Digits(True)])
    own.add_special_tokens([AddedToken("[MASK]", lstrip=True, rstrip=True), AddedToken("don't", single_word=True)])
    return own


def texts(count=3000):
    rng = np.random.default_rng(0)
    return ["".join(rng.choice(PIECES, rng.integers(0, 12))) for _ in range(count)]


def unmarked():
    """No special token stands for itself alone."""
    own = shipped()
    state = json.loads(own.to_str())
    state["added_tokens"] = [token for token in state["added_tokens"] if token["content"] == "[UNK]"]
    return Tokenizer.from_str(json.dumps(state))


def pieces():
    """The byte-pair encoding of raw text; "[PAD]" in a text is text."""
    return train_subword_tokenizer(texts(), 300).backend_tokenizer


@pytest.mark.parametrize("tokenizer", [shipped, word_level, unmarked, pieces])
@pytest.mark.parametrize("most", [1 << 17, 50])  # with 50, it forgets at each call
def test_the_ids_are_those_of_the_tokenizer(tokenizer, most, monkeypatch):
    monkeypatch.setattr(word_cache, "_MOST_WORDS", most)
    own, given = tokenizer(), texts()
    assert reads_word_by_word(own)
    cache = WordCache(own)
    for start in range(0, len(given), 500):
        part = given[start : start + 500]
        ids, lengths = cache.ids(part)
        wanted = [row.ids for row in own.encode_batch_fast(part, add_special_tokens=False)]
        found = np.split(ids, np.cumsum(lengths)[:-1])
        assert [row.tolist() for row in found] == wanted
    assert len(cache._numbers) > 50
    assert cache.ids([])[1].shape == (0,)


def test_tokenizers_to_which_spaces_matter_are_left_alone():
    own = shipped()
    assert reads_word_by_word(own)
    own.add_tokens(["New York"])
    assert not reads_word_by_word(own)
    for change in (
        {"pre_tokenizer": pre_tokenizers.Metaspace()},
        {"pre_tokenizer": pre_tokenizers.ByteLevel()},
        {"pre_tokenizer": pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.ByteLevel()])},
        {"pre_tokenizer": pre_tokenizers.Punctuation()},
        {"normalizer": normalizers.Replace(" ", "")},
        {"normalizer": normalizers.Sequence([normalizers.Lowercase(), normalizers.Prepend("_")])},
        {"model": models.BPE(dropout=0.1)},
        {"model": models.Unigram()},
        {"pre_tokenizer": pre_tokenizers.Split(" ?\\w+", "removed", invert=True)},
    ):
        own = shipped()
        for name, part in change.items():
            setattr(own, name, part)
        assert not reads_word_by_word(own), change


def test_a_failure_leaves_nothing_half_known():
    own = shipped()
    cache = WordCache(own)
    cache.ids(["one two"])

    class Broken:
        def __getattr__(self, name):
            return getattr(own, name)

        def encode_batch_fast(self, *args, **options):
            raise RuntimeError("no memory")

    cache.tokenizer = Broken()
    with pytest.raises(RuntimeError, match="no memory"):
        cache.ids(["one three"])
    cache.tokenizer = own
    wanted = own.encode("one three two", add_special_tokens=False).ids
    assert cache.ids(["one three two"])[0].tolist() == wanted
