"""Token ids are kept between runs; a tokenizer that reads in another way does not get those of the one before it."""

import copy

import datasets
import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast, ProphetNetTokenizer

from contrastive_st import SentenceEncoder, read_examples, tokenize
from contrastive_st.models.running import model_hash

TEXT = "Cat-Sat on THE mat."
ROWS = datasets.Dataset.from_dict({"text": [TEXT, "a cat"]})
PARTS = ["[UNK]", "[CLS]", *"catsonhem.- CSTHE", "at", "Cat"]


def fast(merges=(("a", "t"),), normalizer=None, splitter=None, **options):
    vocabulary = {part: number for number, part in enumerate(PARTS)}
    backend = Tokenizer(models.BPE(vocabulary, list(merges), unk_token="[UNK]"))
    backend.normalizer, backend.pre_tokenizer = normalizer, splitter
    return PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="[UNK]", cls_token="[CLS]", **options)


def starting():
    tokenizer = fast()
    first = processors.TemplateProcessing("[CLS] $A", special_tokens=[("[CLS]", 1)])
    tokenizer.backend_tokenizer.post_processor = first
    return tokenizer


OTHERS = {
    "normalizer": fast(normalizer=normalizers.Lowercase()),
    "pre-tokenizer": fast(splitter=pre_tokenizers.CharDelimiterSplit("-")),
    "merges": fast(merges=[]),
    "first token": starting(),
    "side that is cut": fast(truncation_side="left"),
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_another_tokenizer_with_the_same_vocabulary_reads_for_itself(other):
    before = tokenize(ROWS, fast(), 8)["input_ids"][:]
    after = tokenize(ROWS, other, 8)["input_ids"][:]
    assert after == [other(text, truncation=True, max_length=8)["input_ids"] for text in ROWS["text"]] != before
    assert model_hash({}, other) != model_hash({}, fast())


def test_a_tokenizer_written_in_python_is_known_by_its_settings(tmp_path):
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text(
        "\n".join(["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]", "[X_SEP]", "cat", "Cat", "-", "sat"])
    )
    one, other = (ProphetNetTokenizer(vocabulary, do_lower_case=lower) for lower in (True, False))
    assert tokenize(ROWS, one, 8)["input_ids"][0] != tokenize(ROWS, other, 8)["input_ids"][0]
    assert model_hash({}, one) != model_hash({}, other)
    assert model_hash({}, one) == model_hash({}, copy.deepcopy(one))


def test_a_tokenizer_that_was_used_is_the_same(caplog):
    tokenizer = SentenceEncoder().tokenizer
    first = tokenize(ROWS, tokenizer, 8)
    tokenizer(TEXT, truncation=True, max_length=3, padding="max_length")
    assert tokenize(ROWS, tokenizer, 8)._fingerprint == first._fingerprint


FILES = {
    "rows.jsonl": '{"anchor": "Cat", "positive": "a cat"}\n',
    "scores.csv": "sentence1,sentence2,score\nCat,a cat,0.5\n",
    "rows.txt": "Cat\n",
    "lists.jsonl": '{"query": "Cat", "pos": ["a"], "neg": ["mat", "Sat"], "pos_scores": [2], "neg_scores": [1, 0]}\n',
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_was_read_before_is_tokenized_once(name, tmp_path):
    first, other = tmp_path / name, tmp_path / f"other_{name}"
    first.write_text(FILES[name])
    other.write_text(FILES[name].replace("Cat", "On"))
    read = [tokenize(read_examples(path)[0], fast(), 8) for path in (first, first, other)]
    one, again, another = (rows.cache_files[0]["filename"] for rows in read)
    assert one == again != another
    assert read[0][0] == read[1][0] != read[2][0]
