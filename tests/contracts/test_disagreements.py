"""Rows of docs/disagreements.md that no other test holds: what this package does with the input of the row."""

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers

from contrastive_st import SentenceEncoder
from contrastive_st.data.documentation import DocPair, near_copies
from contrastive_st.data.reading.content import decode
from contrastive_st.losses.functional import normalize
from contrastive_st.vectors import PAIRWISE, SIMILARITIES


def test_a_static_folder_of_model2vec_is_cut_where_its_length_says(tmp_path):
    model2vec = pytest.importorskip("model2vec")
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0, "a": 1, "b": 2}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    model2vec.StaticModel(np.eye(3, dtype=np.float32), tokenizer, normalize=False).save_pretrained(tmp_path)
    encoder = SentenceEncoder(str(tmp_path))
    assert encoder.max_length == 512
    np.testing.assert_array_equal(encoder.encode("a " * 512 + "b " * 512), [0, 1, 0])


def test_short_french_is_read_as_it_was_written():
    for text in ("Crème brûlée\nà la crème", "Ça va très bien à côté"):
        assert decode(text.encode("cp1252"), "a.txt")[0] == text


def test_a_zero_vector_has_a_cosine_and_stays_zero():
    zero, other = np.zeros((1, 2), np.float32), np.ones((1, 2), np.float32)
    assert SIMILARITIES["cosine"](zero, other) == PAIRWISE["cosine"](zero, other) == 0
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        assert not normalize(torch.zeros(1, 4, dtype=dtype)).any()


def test_a_vector_is_at_no_distance_from_itself():
    rows = np.random.default_rng(0).standard_normal((26, 384), np.float32) + 5
    assert not np.diag(SIMILARITIES["euclidean"](rows, rows)).any()


def test_texts_without_words_are_not_near_copies():
    assert not near_copies([DocPair("?", "!", "a")], [DocPair("?", "!", "b")]).any()
