"""Word vocabularies, and the matrices that go with them."""

import numpy as np
import pytest
import torch
from refusals import refusal
from transformers import AutoTokenizer

from conftest import SENTENCES
from contrastive_st.data import (
    WordVectors,
    embedding_matrix,
    expand_vocabulary,
    lsa_word_vectors,
    train_word_tokenizer,
    vector_tokenizer,
    word_tokenizer,
)


def test_ids_are_the_order_of_the_words_and_others_are_unknown():
    tokenizer = word_tokenizer(["the", "cat", "."])
    assert tokenizer(["The cat.", "a CAT", "", "  "])["input_ids"] == [[2, 3, 4], [1, 3], [], []]
    assert (tokenizer.pad_token_id, tokenizer.unk_token_id, len(tokenizer)) == (0, 1, 5)
    batch = tokenizer(["cat", "the cat .", ""], padding=True, return_tensors="pt")
    assert set(batch) == {"input_ids", "attention_mask"}
    assert batch["input_ids"].tolist() == [[3, 0, 0], [2, 3, 4], [0, 0, 0]]
    assert batch["attention_mask"].tolist() == [[1, 0, 0], [1, 1, 1], [0, 0, 0]]


def test_capitals_count_where_they_are_kept():
    tokenizer = word_tokenizer(["The", "the", "N'T"], lowercase=False)
    assert tokenizer("The the THE CAN'T")["input_ids"] == [2, 3, 1, 1, 4]


@pytest.mark.parametrize(
    ("raw", "parted"),
    [
        ("I don't know; it's HIS.", "i do n't know ; it 's his ."),
        ("we can\u2019t", "we ca n't"),  # a typographic apostrophe
        ('"Well-known" -- so...', '" well - known " -- so ...'),
        ("10,000 in the U.S. (3.14)", "10,000 in the u.s. ( 3.14 )"),
        ("e\u0301te\u0301 na\u00efve", "\u00e9t\u00e9 na\u00efve"),  # decomposed accents
        ("\u732b 42nd\tend", "\u732b 42nd end"),
    ],
)
def test_raw_text_and_text_parted_as_in_the_penn_treebank_are_the_same(raw, parted):
    words = list(dict.fromkeys(parted.split()))
    tokenizer = word_tokenizer(words)
    ids = [2 + words.index(word) for word in parted.split()]
    assert tokenizer(raw)["input_ids"] == tokenizer(parted)["input_ids"] == ids


def test_reserved_names_within_text_are_text():
    ids = word_tokenizer(["pad", "["])("a [PAD] b [UNK]")["input_ids"]
    assert 0 not in ids
    assert ids == [1, 3, 2, 1, 1, 3, 1, 1]


def test_it_opens_as_saved_without_this_package(tmp_path):
    tokenizer = train_word_tokenizer(SENTENCES, max_length=4)
    tokenizer.save_pretrained(tmp_path)
    expected = tokenizer([*SENTENCES, "", "A [PAD]"], truncation=True, padding=True)
    opened = AutoTokenizer.from_pretrained(tmp_path)
    assert dict(opened([*SENTENCES, "", "A [PAD]"], truncation=True, padding=True)) == dict(expected)
    assert len(expected["input_ids"][0]) == opened.model_max_length == 4
    assert opened.padding_side == "right"


def test_frequent_words_first_and_ties_in_the_order_of_code_points():
    tokenizer = train_word_tokenizer(["d c b a", "b d", "d"], vocab_size=6)
    assert tokenizer.convert_ids_to_tokens(range(6)) == ["[PAD]", "[UNK]", "d", "b", "a", "c"]
    assert len(train_word_tokenizer(iter(["d c b a", "b d", "d"]), vocab_size=5)) == 5


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: word_tokenizer(["a", "b", "a"]), "'a' is there twice"),
        (lambda: word_tokenizer(["a", "[UNK]"]), "reserved"),
        (lambda: word_tokenizer([]), "no words"),
        (lambda: train_word_tokenizer(["", " "]), "no word"),
        (lambda: train_word_tokenizer(["a"], vocab_size=2), "vocab_size 2"),
        (lambda: vector_tokenizer(WordVectors(["New York"], np.ones((1, 2), np.float32))), "no words"),
        (
            lambda: expand_vocabulary(word_tokenizer(["a"]), torch.randn(3, 4), WordVectors(["a"], np.ones((1, 3)))),
            "common",
        ),
        (
            lambda: embedding_matrix(WordVectors(["a"], np.ones((1, 2), np.float32)), word_tokenizer(["b"])),
            "do capitals",
        ),
    ],
)
def test_bad_input_is_one_line(make, words):
    with refusal(words):
        make()


# ------------------------------------------------------------------ matrices


def table(words, dimension=5, seed=0):
    vectors = np.random.default_rng(seed).normal(size=(len(words), dimension)).astype(np.float32)
    return WordVectors(list(words), vectors)


def test_a_matrix_holds_the_vectors_of_the_words():
    vectors = table(["the", "New", "well-known", "cat", "new"])
    tokenizer = vector_tokenizer(vectors)
    assert tokenizer.convert_ids_to_tokens(range(5)) == ["[PAD]", "[UNK]", "the", "cat", "new"]
    matrix = embedding_matrix(vectors, tokenizer)
    assert matrix.dtype == torch.float32
    assert torch.equal(matrix[0], torch.zeros(5))
    np.testing.assert_allclose(matrix[1], vectors.vectors.astype(np.float64).mean(0), atol=1e-6)
    np.testing.assert_array_equal(matrix[2:], vectors.vectors[[0, 3, 4]])
    cased = vector_tokenizer(vectors, lowercase=False)
    assert cased("New new")["input_ids"] == [3, 5]
    other = embedding_matrix(vectors, word_tokenizer(["cat", "absent"]))
    np.testing.assert_array_equal(other[2], vectors.vectors[3])
    assert torch.equal(other[3], other[1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_expansion_recovers_a_known_map_and_keeps_trained_rows(dtype):
    random = np.random.default_rng(1)
    words = [f"w{i}" for i in range(400)]
    vectors = table(words, dimension=12)
    matrix, offset = random.normal(size=(12, 7)), random.normal(size=7)
    true = vectors.vectors.astype(np.float64) @ matrix + offset
    tokenizer = word_tokenizer(["alone", *words[200:300]], max_length=9)
    trained = torch.zeros(len(tokenizer), 7, dtype=torch.float64)
    trained[:3] = torch.tensor(random.normal(size=(3, 7)))
    trained[3:] = torch.from_numpy(true[200:300])
    trained = trained.to(dtype)
    larger, grown = expand_vocabulary(tokenizer, trained, vectors)
    assert torch.equal(grown[: len(tokenizer)], trained)
    assert (len(grown), grown.dtype, larger.model_max_length) == (len(larger), dtype, 9)
    assert larger("alone w250 w0 W399 v1")["input_ids"] == [2, 53, 103, 402, 1]
    new = larger.convert_tokens_to_ids(words[:200] + words[300:])
    expected = np.concatenate([true[:200], true[300:]])
    tolerance = 1e-5 if dtype == torch.float32 else 0.1
    np.testing.assert_allclose(grown[new].double(), expected, atol=tolerance)


@pytest.mark.filterwarnings("error::UserWarning")
def test_words_of_the_same_texts_have_near_vectors():
    random = np.random.default_rng(0)
    topics = [[f"{topic}{i}" for i in range(8)] for topic in "ab"]
    texts = [" ".join(random.choice(topics[n % 2], 5)) for n in range(60)]
    tokenizer = word_tokenizer([*topics[0], *topics[1], "never"])
    tokenizer.model_max_length = 4  # the texts are longer
    vectors = lsa_word_vectors(texts, tokenizer, 2)
    tokenizer.model_max_length = 100
    assert (vectors.shape, vectors.dtype) == ((len(tokenizer), 2), torch.float32)
    near = (vectors @ vectors.T)[2:18, 2:18].reshape(2, 8, 2, 8).mean((1, 3))
    assert near.diagonal().min() > 0.5 > 0.2 > abs(near[0, 1])
    assert not vectors[[0, 1, 18]].any()  # padding, unknown, and a word that no text has
    # the singular vectors of the same matrix, made densely
    counts = np.zeros((60, len(tokenizer)))
    for n, text in enumerate(texts):
        for token in tokenizer(text)["input_ids"]:
            counts[n, token] += 1
    idf = np.log(61 / (1 + (counts > 0).sum(0))) + 1
    weighted = np.where(counts > 0, 1 + np.log(np.maximum(counts, 1)), 0) * idf
    weighted /= np.linalg.norm(weighted, axis=1, keepdims=True)
    _, values, rows = np.linalg.svd(weighted, full_matrices=False)
    expected = (rows[:2].T * values[:2])[2:18]
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    assert np.allclose((vectors @ vectors.T)[2:18, 2:18], expected @ expected.T, atol=1e-4)


def test_a_width_that_the_corpus_has_not_is_filled_with_zeros():
    vectors = lsa_word_vectors(["cat dog", "dog"], word_tokenizer(["cat", "dog"]), 5)
    assert vectors.shape == (4, 5)
    assert not vectors[:, 2:].any()
    assert vectors[2:, :2].norm(dim=1) == pytest.approx(1)
