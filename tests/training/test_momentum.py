"""The momentum queue: its loss, its ring and its training against plain loops."""

import collections
import copy

import numpy as np
import pytest
import torch
from datasets import Dataset
from plain import agree, cosine
from torch import nn

from conftest import SENTENCES
from contrastive_st import (
    BertForCL,
    ContrastiveTrainer,
    ContrastiveTrainingArguments,
    GuidedRows,
    InputError,
    NLITripletCollator,
    PairCollator,
    tokenize,
)
from contrastive_st.losses import GuidedInfoNCE, InfoNCE, MatryoshkaLoss, functional as blocks
from contrastive_st.losses.info_nce import Queue
from contrastive_st.training.momentum import TOKEN_KEYS, MomentumQueue

pytestmark = pytest.mark.slow


def loop_moco(views, keys, past, temperature, weight=0.0):
    """InfoNCE against the batch's keys and a list of past (vector, anchor's text, own text), one score at a time."""
    total = 0.0
    for i in range(len(views)):
        anchor, positive = keys[i, 0], keys[i, 1]
        own = cosine(views[i, 0], views[i, 1]) / temperature
        terms = [own]
        for j in range(len(views)):
            for v in range(1, views.shape[1]):
                same = keys[j, v] in (anchor, positive) or (v == 1 and keys[j, 0] == anchor)
                if not same and (i, 1) != (j, v):
                    extra = weight if (v > 1 and i == j) else 0.0
                    terms.append(cosine(views[i, 0], views[j, v]) / temperature + extra)
        for vector, old_anchor, old_text in past:
            if old_text not in (anchor, positive) and old_anchor != anchor:
                terms.append(cosine(views[i, 0], vector) / temperature)
        total = total - own + torch.stack(terms).exp().sum().log()
    return total / len(views)


@pytest.mark.parametrize("num_views", [2, 3])
@pytest.mark.parametrize("block", [None, 17])
def test_the_loss_with_past_keys_is_that_of_a_plain_loop(num_views, block, monkeypatch):
    if block:
        monkeypatch.setattr(blocks, "BLOCK", block)  # a row or so at a time
    views = torch.randn(5, num_views, 6, dtype=torch.float64, requires_grad=True)
    keys = torch.randint(0, 6, (5, num_views))
    vectors = nn.functional.normalize(torch.randn(7, 6, dtype=torch.float64), dim=-1)
    texts = torch.randint(0, 6, (7, 2))
    ours = InfoNCE(0.2, 0.5)(views, text_hashes=keys, queue=Queue(vectors, texts))
    agree(ours, loop_moco(views, keys, list(zip(vectors, *texts.T, strict=True)), 0.2, 0.5), views)
    scores, _ = InfoNCE(0.2, 0.5).scores(views, text_hashes=keys, queue=Queue(vectors, texts))
    assert scores.shape == (5, 5 * (num_views - 1) + 7)


def test_a_batch_of_one_learns_from_the_past():
    views = torch.randn(1, 2, 4)
    with pytest.raises(InputError):
        InfoNCE()(views)
    past = Queue(nn.functional.normalize(torch.randn(3, 4), dim=-1), torch.zeros(3, 2, dtype=torch.long))
    assert InfoNCE()(views, text_hashes=torch.tensor([[1, 2]]), queue=past) > 0


@pytest.mark.parametrize("size", [1, 5, 7])
def test_the_queue_holds_the_last_keys_whatever_the_batches(size):
    queue, reference = MomentumQueue(nn.Linear(2, 2), size), collections.deque(maxlen=size)
    assert queue.entries() is None
    number = 0
    for count in (3, 4, 0, 9, 2, 1, 6):
        rows = torch.arange(number, number + count)
        number += count
        before = queue.entries()
        held = None if before is None else before.embeddings.clone()
        queue.add(rows[:, None].expand(-1, 2) * 1.0, rows[:, None].expand(-1, 2))
        reference.extend(rows.tolist())
        assert sorted(queue.entries().text_hashes[:, 0].tolist()) == list(reference)
        assert torch.equal(queue.entries().embeddings.long(), queue.entries().text_hashes)
        assert held is None or torch.equal(before.embeddings, held)  # what was handed out stays


def rows(tokenizer, num_texts, prompt=""):
    columns = {f"text{i}": SENTENCES[i:] + SENTENCES[:i] for i in range(num_texts)}
    return tokenize(Dataset.from_dict(columns), tokenizer, 16, prompts=prompt)


def trainer_for(tokenizer, config, folder, num_texts=2, optimizer=None, prompt="", **changes):
    config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.0
    torch.manual_seed(1)
    model = BertForCL(config, **changes.pop("settings", {"temperature": 0.2})).double()
    args = ContrastiveTrainingArguments(
        str(folder), per_device_train_batch_size=3, max_steps=5, bf16=False, disable_tqdm=True, logging_steps=1,
        max_grad_norm=0, lr_scheduler_type="constant", save_steps=2, **changes,
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    collator = (PairCollator if num_texts == 2 else NLITripletCollator)(tokenizer)
    return ContrastiveTrainer(
        model, args, train_dataset=rows(tokenizer, num_texts, prompt), data_collator=collator,
        optimizers=(optimizer, None),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("num_texts", "changes", "prompt"),
    [(2, {}, ""), (3, {}, "the cat "), (3, {"chunk_size": 2}, ""), (2, {"chunk_tokens": 20}, "the cat ")],
    ids=["plain", "plain without its prompt", "cached", "tokens without their prompt"],
)
def test_training_is_that_of_a_plain_moco_loop(tokenizer, bert_config, tmp_path, num_texts, changes, prompt):
    settings = {"temperature": 0.2, **({"pooling": "mean", "include_prompt": False} if prompt else {})}
    trainer = trainer_for(
        tokenizer, bert_config, tmp_path, num_texts, prompt=prompt, settings=settings, momentum_queue=7, momentum=0.7,
        save_strategy="no", **changes,
    )  # fmt: skip
    model = copy.deepcopy(trainer.model)
    average = copy.deepcopy(model)
    past, losses = collections.deque(maxlen=7), []
    loader = trainer.get_train_dataloader()
    batches = [batch for epoch in range(3) for _ in [loader.set_epoch(epoch)] for batch in loader][:5]
    for batch in batches:
        own = [{name: batch[name][:, v] for name in TOKEN_KEYS if name in batch} for v in range(num_texts)]
        assert all(("text_mask" in view) == bool(prompt) for view in own)
        keys = [average(**view).pooler_output.detach() for view in own[1:]]
        views = torch.stack([model(**own[0]).pooler_output, *keys], 1)
        kept = batch["input_ids"] * batch.get("text_mask", batch["attention_mask"])
        texts = torch.tensor([[hash(tuple(ids[ids != 0].tolist())) for ids in row] for row in kept])
        loss = loop_moco(views, texts, past, 0.2)
        losses.append(loss.item())
        model.zero_grad()
        loss.backward()
        past.extend((keys[0][i], texts[i, 0], texts[i, 1]) for i in range(len(texts)))
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.grad is not None:
                    parameter -= 0.05 * parameter.grad
            for old, new in zip(average.parameters(), model.parameters(), strict=True):
                old.mul_(0.7).add_(0.3 * new)
    trainer.train()
    logged = [row for row in trainer.state.log_history if "loss" in row]
    torch.testing.assert_close(torch.tensor([row["loss"] for row in logged]), torch.tensor(losses), rtol=1e-4, atol=0)
    for ours, reference in ((trainer.model, model), (trainer.queue.encoder, average)):
        for (name, a), b in zip(ours.named_parameters(), reference.parameters(), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-12, msg=name)
    assert logged[-1]["candidates"] == 3 * (num_texts - 1) + 7


def test_keys_are_encoded_with_dropout(tokenizer, bert_config, tmp_path):
    """As in MoCo, the moving average is in training mode: a key whose text is its anchor's is another view of it."""
    trainer = trainer_for(tokenizer, bert_config, tmp_path, momentum_queue=7)
    trainer.keys.on_train_begin()
    batch = next(iter(trainer.get_train_dataloader()))
    without = trainer.keys.embeddings(batch)
    for module in trainer.queue.encoder.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.5
    trainer.queue.encoder.eval()  # as an evaluation leaves it
    first, second = trainer.keys.embeddings(batch), trainer.keys.embeddings(batch)
    assert not torch.allclose(first, second)
    assert not torch.allclose(first, without)


def test_a_queue_that_is_not_full_yet_gives_what_it_has(tokenizer, bert_config, tmp_path):
    trainer = trainer_for(tokenizer, bert_config, tmp_path, momentum_queue=100, save_strategy="no")
    trainer.train()
    assert [row["candidates"] for row in trainer.state.log_history if "loss" in row] == [3, 6, 9, 12, 15]


def test_checkpoints_hold_the_queue(tokenizer, bert_config, tmp_path):
    whole = trainer_for(tokenizer, bert_config, tmp_path, momentum_queue=7)
    whole.train()
    again = trainer_for(tokenizer, bert_config, tmp_path, momentum_queue=7)
    again.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
    assert whole.queue.state.keys() == again.queue.state.keys()
    for name, tensor in whole.queue.state.items():
        assert torch.equal(tensor, again.queue.state[name]), name
    for a, b in zip(whole.queue.encoder.parameters(), again.queue.encoder.parameters(), strict=True):
        assert torch.equal(a, b)
    other = trainer_for(tokenizer, bert_config, tmp_path, momentum_queue=8)
    with pytest.raises(InputError, match="momentum_queue"):
        other.train(resume_from_checkpoint=str(tmp_path / "checkpoint-4"))
    (tmp_path / "checkpoint-2" / "momentum_queue.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match="momentum_queue"):
        again.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))


def guide_of(texts):
    """A guide that counts letters."""
    return np.array([[text.count(letter) + 0.1 for letter in "aeot"] for text in texts])


def test_a_guided_loss_of_several_dimensions_takes_the_queue(tokenizer, bert_config, tmp_path):
    """Plain and cached alike; a checkpoint holds the guide's embeddings of the queue."""
    loss_fn = MatryoshkaLoss(GuidedInfoNCE(0.2, margin=0.02), (16, 4))
    texts = Dataset.from_dict({f"text{i}": SENTENCES[i:] + SENTENCES[:i] for i in range(3)})
    trained = []
    for changes in ({}, {"chunk_size": 2}):
        trainer = trainer_for(
            tokenizer, bert_config, tmp_path / str(len(trained)), 3, momentum_queue=7, momentum=0.7,
            settings={"loss": loss_fn}, **changes,
        )  # fmt: skip
        trainer.train_dataset = GuidedRows(trainer.train_dataset, texts, guide_of)
        trainer.train()
        trained.append(trainer)
    one, two = trained
    for (name, a), b in zip(one.model.named_parameters(), two.model.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-12, msg=name)
    logged = [row for row in one.state.log_history if "loss" in row]
    assert logged[-1]["candidates_4"] == 3 * 2 + 7
    assert 0 < logged[-1]["masked_16"] < 1
    assert one.queue.entries().guide.shape == (7, 4)
    again = MomentumQueue(one.model, 7)
    again.load(tmp_path / "0" / "checkpoint-4")
    torch.testing.assert_close(again.entries().guide.norm(dim=-1), torch.ones(7))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"momentum_queue": 5, "settings": {"symmetric": True}}, "loss info_nce"),
        ({"momentum_queue": 5, "settings": {"loss": MatryoshkaLoss({"loss": "cosent"}, (4,))}}, "loss info_nce"),
        ({"momentum_queue": -1}, "momentum_queue -1: give a whole number of 0 or more"),
        ({"momentum_queue": 5, "momentum": 1.0}, "momentum 1.0: give a number of 0 or more and below 1"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(tokenizer, bert_config, tmp_path, changes, message):
    with pytest.raises(InputError, match=message):
        trainer_for(tokenizer, bert_config, tmp_path, **changes).train()
