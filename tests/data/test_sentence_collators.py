"""Collators of single sentences: what they hand over, under the stock Trainer too, and what they refuse."""

import numpy as np
import pytest
import torch
import transformers
from sklearn.feature_extraction.text import TfidfVectorizer

from contrastive_st.data import ContextWindowCollator, CooccurrenceCollator, fit_idf, word_tokenizer
from contrastive_st.errors import InputError
from contrastive_st.losses.targets import overlap
from contrastive_st.models import BertForCL, QuickThoughtsConfig, QuickThoughtsGRU

SENTENCES = ["the lamp is red", "the birds sang", "birds eat worms", "the boy near the gate fed the cows", ""]


@pytest.fixture
def words():
    return word_tokenizer(sorted({word for text in SENTENCES for word in text.split()}))


@pytest.fixture
def rows(words):
    ids = words(SENTENCES)["input_ids"]
    return [{"input_ids": own, "document": 0, "position": i} for i, own in enumerate(ids)]


def test_places_and_padding(words, rows):
    batch = ContextWindowCollator(words)(rows)
    assert batch["input_ids"].shape == (5, 1, 8)
    assert batch["attention_mask"].sum(-1)[:, 0].tolist() == [4, 3, 3, 8, 0]
    assert batch["input_ids"][0, 0].tolist() == [*rows[0]["input_ids"], 0, 0, 0, 0]
    assert batch["targets"].tolist() == [[0, 0], [0, 1], [0, 2], [0, 3], [0, 4]]


def test_tfidf_similarities_are_those_of_scikit_learn(words, rows):
    idf = fit_idf([row["input_ids"] for row in rows[:4]], len(words))
    bags = CooccurrenceCollator(words, "tfidf", idf)(rows[:4])["targets"][:, 1:]
    vectors = TfidfVectorizer().fit_transform(SENTENCES[:4])
    np.testing.assert_allclose(overlap(bags, bags).numpy(), (vectors @ vectors.T).toarray(), atol=1e-6)


def test_counts_are_of_a_binary_bag_without_special_tokens(tokenizer):
    ids = tokenizer(["the cat sat", "the cat and the dog"])["input_ids"]
    targets = CooccurrenceCollator(tokenizer)([{"input_ids": own} for own in ids])["targets"]
    assert targets[:, 0].tolist() == [[-1, -1]] * len(ids)  # no documents
    bags = targets[:, 1:]
    assert tokenizer.cls_token_id in ids[0]
    assert overlap(bags, bags).tolist() == [[3, 2], [2, 4]]


@pytest.mark.parametrize(("targets", "family"), [("window", "bert"), ("counts", "towers"), ("tfidf_bin", "bert")])
def test_under_the_stock_trainer(tmp_path, bert_config, tokenizer, words, rows, targets, family):
    tokens = tokenizer if family == "bert" else words
    ids = tokens(SENTENCES[:4] * 4)["input_ids"]
    data = [{"input_ids": own, "document": 0, "position": i} for i, own in enumerate(ids)]
    if family == "bert":
        model = BertForCL(bert_config, pooling="mean", loss="targets", targets=targets)
    else:
        model = QuickThoughtsGRU(QuickThoughtsConfig(vocab_size=len(words), embedding_size=4, hidden_size=6),
                                 targets=targets)  # fmt: skip
    collate = ContextWindowCollator(tokens)
    if targets != "window":
        idf = None if targets == "counts" else fit_idf(ids, len(tokens))
        collate = CooccurrenceCollator(tokens, "counts" if idf is None else "tfidf_bin", idf)
    args = transformers.TrainingArguments(
        str(tmp_path), per_device_train_batch_size=8, max_steps=2, use_cpu=True, report_to="none", disable_tqdm=True,
        remove_unused_columns=False, save_strategy="no", logging_steps=1,
    )  # fmt: skip
    trainer = transformers.Trainer(model, args, data_collator=collate, train_dataset=data)
    trainer.train()
    losses = [row["loss"] for row in trainer.state.log_history if "loss" in row]
    assert len(losses) == 2
    assert all(np.isfinite(losses))


def test_rows_with_several_texts_are_refused(words):
    with pytest.raises(InputError, match="2 texts"):
        CooccurrenceCollator(words)([{"input_ids": [[1], [2]]}])


def test_idf_goes_with_tfidf_only(words):
    with pytest.raises(InputError, match="fit_idf"):
        CooccurrenceCollator(words, "tfidf")
    with pytest.raises(InputError, match="fit_idf"):
        CooccurrenceCollator(words, "counts", np.ones(3, np.float32))
    with pytest.raises(InputError, match="tfidf_bin"):
        CooccurrenceCollator(words, "bm25")


def test_towers_take_losses_with_targets_only():
    with pytest.raises(InputError, match="relational_distillation"):
        QuickThoughtsGRU(QuickThoughtsConfig(vocab_size=9, embedding_size=4, hidden_size=6), loss="info_nce")


def test_dropout_of_one_layer_has_an_effect(words, rows):
    batch = ContextWindowCollator(words)(rows)
    config = QuickThoughtsConfig(vocab_size=len(words), embedding_size=8, hidden_size=8, dropout=0.5)
    model = QuickThoughtsGRU(config).train()
    first, second = (model.embed(batch["input_ids"], batch["attention_mask"]) for _ in range(2))
    assert not torch.equal(first, second)
