"""Vocabularies learned from text: complete, bounded, and the same every time."""

import subprocess

import pandas as pd
import pytest
from transformers import AutoTokenizer
from warm_python import python

from conftest import SENTENCES
from contrastive_st import InputError
from contrastive_st.data import train_subword_tokenizer, train_word_tokenizer, train_wordpiece


def test_words_of_the_corpus_are_spelled_and_others_are_unknown():
    tokenizer = train_wordpiece(SENTENCES * 3, vocab_size=200)
    assert tokenizer.tokenize("The CAT sat") == ["the", "cat", "sat"]
    assert tokenizer.tokenize("tan")[0] == "t"
    assert all(piece.startswith("##") for piece in tokenizer.tokenize("tan")[1:])
    assert tokenizer.tokenize("\u732b") == ["[UNK]"]
    ids = tokenizer("the cat")["input_ids"]
    assert (ids[0], ids[-1]) == (tokenizer.cls_token_id, tokenizer.sep_token_id)
    assert tokenizer.pad_token_id == 0


def test_the_vocabulary_is_bounded_and_rare_letters_are_left_out():
    tokenizer = train_wordpiece([*SENTENCES * 3, "\u00df once"], vocab_size=70)
    assert len(tokenizer) == 70
    assert not any("\u00df" in piece for piece in tokenizer.get_vocab())


@pytest.mark.parametrize("train", [train_wordpiece, train_word_tokenizer, train_subword_tokenizer])
def test_the_texts_may_be_a_column_and_not_the_names_of_columns(train):
    wanted = train(SENTENCES, vocab_size=70).get_vocab()
    assert train(pd.DataFrame({"text": SENTENCES}), vocab_size=70).get_vocab() == wanted
    assert train(iter(SENTENCES), vocab_size=70).get_vocab() == wanted
    for given in (pd.DataFrame({"a": SENTENCES, "b": SENTENCES}), "one text"):
        with pytest.raises(InputError, match="strings"):
            train(given, vocab_size=70)


def test_it_opens_as_saved(tmp_path):
    tokenizer = train_wordpiece(SENTENCES * 3, vocab_size=120, max_length=9)
    tokenizer.save_pretrained(tmp_path)
    opened = AutoTokenizer.from_pretrained(tmp_path)
    assert opened(SENTENCES, truncation=True)["input_ids"] == tokenizer(SENTENCES, truncation=True)["input_ids"]
    assert opened.model_max_length == 9


@pytest.mark.slow
def test_every_process_learns_the_same():
    texts = [f"{a} {b}" for a in SENTENCES for b in SENTENCES]
    code = "from contrastive_st.data import train_wordpiece\n"
    code += f"print(sorted(train_wordpiece({texts!r}, 110).get_vocab().items()))"
    other = subprocess.run([python(), "-c", code], capture_output=True, text=True, check=True).stdout
    assert other == f"{sorted(train_wordpiece(texts, 110).get_vocab().items())}\n"
