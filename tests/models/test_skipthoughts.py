"""Skip-Thoughts: the loss against a plain loop over words, who writes whom, and checkpoints without decoders."""

import numpy as np
import pytest
import torch
from plain import agree

from conftest import save_both
from contrastive_st.data import ContextWindowCollator, word_tokenizer
from contrastive_st.errors import InputError
from contrastive_st.losses.words import neighbors
from contrastive_st.models import AutoModelForCL, SentenceEncoder, SkipThoughts, SkipThoughtsConfig
from contrastive_st.training import ContrastiveTrainer, ContrastiveTrainingArguments

WORDS = ["the", "cat", "sat", "on", "mat", "rain", "a", "dog", "ran", "far"]
CORPUS = ["the cat sat", "a dog ran far", "rain", "the mat", "on the mat sat a cat", "the dog"]
PLACES = torch.tensor([[0, 0], [0, 1], [0, 2], [0, 4], [1, 5], [1, 6]])  # a gap, and another document


def model_of(**settings):
    shape = {"vocab_size": 12, "embedding_size": 4, "hidden_size": 6, "bidirectional": settings.pop("both", False)}
    return SkipThoughts(SkipThoughtsConfig(**shape), **settings).double()


def batch_of():
    ids = word_tokenizer(WORDS)(CORPUS)["input_ids"]
    rows = [{"input_ids": row, "document": d, "position": p} for row, (d, p) in zip(ids, PLACES.tolist(), strict=True)]
    return ContextWindowCollator(word_tokenizer(WORDS))(rows)


def gru_step(gru, x, h):
    """One step of a GRU as the paper has it: gates from the input (word and sentence) and the state."""
    inputs, states = gru.weight_ih_l0 @ x + gru.bias_ih_l0, gru.weight_hh_l0 @ h + gru.bias_hh_l0
    (ri, zi, ni), (rh, zh, nh) = inputs.chunk(3), states.chunk(3)
    update, new = torch.sigmoid(zi + zh), torch.tanh(ni + torch.sigmoid(ri + rh) * nh)
    return (1 - update) * new + update * h


def loop_loss(model, batch, decoders):
    """Word by word; the vectors of the sentences are the model's own."""
    ids = [
        row[mask > 0].tolist()
        for row, mask in zip(batch["input_ids"][:, 0], batch["attention_mask"][:, 0], strict=True)
    ]
    vectors, losses = model.word_embeddings.weight, []
    found = model(batch["input_ids"][:, 0], attention_mask=batch["attention_mask"][:, 0]).pooler_output
    for decoder, step in decoders:
        for i, (document, position) in enumerate(PLACES.tolist()):
            for j, (other, at) in enumerate(PLACES.tolist()):
                if other == document and at == position + step:
                    state, word = torch.zeros(6).double(), torch.zeros(vectors.shape[1]).double()
                    for wanted in [*ids[j], 0]:
                        state = gru_step(decoder, torch.cat([word, found[i]]), state)
                        losses.append(-model.loss_head.words.log_prob(state[None])[0, wanted])
                        word = vectors[wanted]
    return sum(losses) / len(losses), len(losses)


@pytest.mark.parametrize("both", [False, True])
def test_value_and_gradient_are_those_of_the_definition(both):
    model, batch = model_of(both=both), batch_of()
    ours = model(**batch).loss
    wanted, count = loop_loss(model, batch, [(model.loss_head.before, -1), (model.loss_head.after, 1)])
    assert count == sum([3 + 1, 5, 5, 2, 7, 3])  # words and ends of 1, 0 and 2, 1, and of 5 and 4; none across the gap
    agree(ours, wanted, *(weight for weight in model.parameters() if weight.numel()))


def test_probabilities_of_all_words_sum_to_one():
    words = model_of().loss_head.words
    torch.testing.assert_close(words.log_prob(torch.randn(3, 6).double()).exp().sum(1), torch.ones(3).double())


def test_who_reads_and_who_is_written():
    before, after = ([(int(i), int(j)) for i, j in zip(*pair, strict=True)] for pair in neighbors(PLACES))
    assert before == [(1, 0), (2, 1), (5, 4)]
    assert after == [(0, 1), (1, 2), (4, 5)]


def test_padding_does_not_matter():
    model, batch = model_of(), batch_of()
    wide = {name: torch.nn.functional.pad(batch[name], (0, 3)) for name in ("input_ids", "attention_mask")}
    wide["input_ids"] = wide["input_ids"] + 7 * (1 - wide["attention_mask"])  # what stands on padding is no word
    torch.testing.assert_close(model(**wide, targets=batch["targets"]).loss, model(**batch).loss)


def test_what_cannot_be_trained(bert_config):
    model, batch = model_of(), batch_of()
    with pytest.raises(InputError, match="ContextWindowCollator"):
        model(batch["input_ids"], attention_mask=batch["attention_mask"])
    alone = PLACES * torch.tensor([[1, 3]])
    with pytest.raises(InputError, match="neighbour"):
        model(**{**batch, "targets": alone})
    with pytest.raises(InputError, match="skip_thoughts"):
        model_of(loss="targets")
    model.drop_heads()
    with pytest.raises(InputError, match="decoders"):
        model(**batch)


def test_trained_it_writes_its_neighbours_and_is_saved_without_decoders(tmp_path):
    """A corpus in which one sentence says what the next is: the loss falls to nearly none."""
    tokenizer = word_tokenizer(WORDS)
    story = ["the cat sat", "a dog ran far", "rain on the mat"] * 20
    ids = tokenizer(story)["input_ids"]
    rows = [{"input_ids": row, "document": 0, "position": i} for i, row in enumerate(ids)]
    model = SkipThoughts(SkipThoughtsConfig(vocab_size=12, embedding_size=8, hidden_size=16))
    trainer = ContrastiveTrainer(
        model=model, train_dataset=rows, data_collator=ContextWindowCollator(tokenizer), processing_class=tokenizer,
        args=ContrastiveTrainingArguments(
            str(tmp_path / "run"), max_steps=60, per_device_train_batch_size=60, learning_rate=3e-2, logging_steps=10,
            report_to="none", disable_tqdm=True, bf16=False, save_strategy="no", lr_scheduler_type="constant",
        ),
    )  # fmt: skip
    trainer.train()
    losses = [row["loss"] for row in trainer.state.log_history if "loss" in row]
    assert losses[-1] < 0.2 * losses[0]
    assert trainer.state.log_history[0]["neighbors"] == pytest.approx(2 * 59 / 60, abs=1e-3)
    embeddings = SentenceEncoder(model, tokenizer).encode(story[:3])
    model.drop_heads()
    save_both(model, tokenizer, tmp_path / "saved")
    opened = AutoModelForCL.from_pretrained(tmp_path / "saved")
    assert opened.settings.with_head is False
    assert not any("loss_head" in name for name in opened.state_dict())
    np.testing.assert_array_equal(SentenceEncoder(opened, tokenizer).encode(story[:3]), embeddings)
