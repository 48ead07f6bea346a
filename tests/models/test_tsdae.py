"""TSDAE: a sentence with tokens deleted becomes a vector, from which a decoder of the same weights writes the whole."""

import json
from copy import deepcopy

import numpy as np
import pytest
import torch
from refusals import refusal
from scripts import load, tiny
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.losses import DenoisingAutoEncoderLoss
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from transformers import BertForMaskedLM, CamembertConfig, DistilBertConfig, RobertaConfig

from conftest import SENTENCES, save_both
from contrastive_st import BertForCL, CamembertForCL, InputError, RobertaForCL, SentenceEncoder
from contrastive_st.data import DeletionCollator
from contrastive_st.models import DistilBertForCL
from contrastive_st.training import ContrastiveTrainer, ContrastiveTrainingArguments

TINY = ["--num_layers", "1", "--hidden_size", "16", "--per_device_train_batch_size", "4", "--max_steps", "4"]
TINY += ["--disable_tqdm", "true", "--learning_rate", "1e-3", "--logging_steps", "1", "--save_steps", "2"]


@pytest.fixture
def batch(tokenizer):
    return DeletionCollator(tokenizer)([{"input_ids": tokenizer(text)["input_ids"]} for text in SENTENCES])


def make(config, kind=BertForCL, pooling="mean"):
    config = deepcopy(config)
    config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.0
    return kind(config, pooling=pooling, loss="tsdae").double().train()


def test_a_share_of_the_tokens_is_deleted_and_the_ends_stay(tokenizer):
    rows = [{"input_ids": [2, *([7, 8, 9] * 100), 3]}, {"input_ids": [2, 11, 3]}, {"input_ids": [2, 3]}]
    batch = DeletionCollator(tokenizer)(rows)
    part, whole = batch["input_ids"][:, 0], batch["targets"]
    assert whole[0].tolist() == rows[0]["input_ids"]
    assert whole[1].tolist() == [2, 11, 3, *[-100] * 299]
    lengths = batch["attention_mask"][:, 0].sum(1).tolist()
    assert 90 < lengths[0] - 2 < 150  # 120 of 300 are left
    assert part[0, [0, lengths[0] - 1]].tolist() == [2, 3]
    assert lengths[1:] == [3, 2]  # one token stays
    places = iter(rows[0]["input_ids"])
    assert all(token in places for token in part[0, : lengths[0]].tolist())  # in their order
    assert torch.equal(DeletionCollator(tokenizer)(rows)["input_ids"], batch["input_ids"])
    nothing = DeletionCollator(tokenizer, 0.0)(rows)
    assert nothing["input_ids"][0, 0].tolist() == rows[0]["input_ids"]


def plain_states(model, ids, vector):
    """The states of a decoder, token by token without a mask; attention to the vector with its softmax."""
    hidden = model.backbone.embeddings(input_ids=ids[None])[0]
    head = model.loss_head
    for i, layer in enumerate(model.backbone.encoder.layer):
        rows = []
        for t in range(len(ids)):
            nothing = torch.zeros(1, 1, t + 1, t + 1, dtype=hidden.dtype)
            attended = layer.attention(hidden[None, : t + 1], nothing)[0][0, -1:]
            weights = (attended @ vector[:, None]).softmax(-1)  # whatever the queries and keys are: there is one key
            crossed = head.norms[i](head.outputs[i](weights @ head.values[i](vector)[None]) + attended)
            rows.append(layer.output(layer.intermediate(crossed), crossed))
        hidden = torch.cat(rows)
    return hidden


@pytest.mark.parametrize("family", ["bert", "roberta", "camembert"])
def test_loss_and_gradients_equal_a_plain_loop(family, bert_config, tokenizer, batch):
    if family == "bert":
        model = make(bert_config)
    else:
        shape = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 8}
        kind, own = {"roberta": (RobertaConfig, RobertaForCL), "camembert": (CamembertConfig, CamembertForCL)}[family]
        model = make(kind(vocab_size=len(tokenizer), max_position_embeddings=30, pad_token_id=0, **shape), own)
    loss = model(**batch).loss
    loss.backward()
    gradients = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    total, count = 0, 0
    for ids, mask, target in zip(batch["input_ids"], batch["attention_mask"], batch["targets"], strict=True):
        row, whole = ids[0][mask[0].bool()], target[target != -100]
        vector = model.backbone(row[None]).last_hidden_state[0].mean(0)
        for state, following in zip(plain_states(model, whole[:-1], vector), whole[1:], strict=True):
            total = total - model.mlm_logits(state[None])[0].log_softmax(0)[following]
            count += 1
    plain = total / count
    plain.backward()
    assert loss.item() == pytest.approx(plain.item(), abs=1e-10)
    assert set(gradients) == {name for name, p in model.named_parameters() if p.grad is not None}
    for name, p in model.named_parameters():
        if name in gradients:
            torch.testing.assert_close(gradients[name], p.grad, rtol=1e-7, atol=1e-10)


@pytest.mark.allow_warnings
def test_it_is_the_loss_of_sentence_transformers(bert_config, tokenizer, batch, tmp_path):
    """Value, and gradients of the weights that encoder and decoder share, equal those of their own class."""
    config = deepcopy(bert_config)
    config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.0
    save_both(BertForMaskedLM(config), tokenizer, tmp_path)
    theirs = SentenceTransformer(modules=[Transformer(str(tmp_path)), Pooling(16)], device="cpu")
    criterion = DenoisingAutoEncoderLoss(theirs, tie_encoder_decoder=True).double().train()
    ours = BertForCL.from_pretrained(tmp_path, pooling="mean", loss="tsdae").double().train()
    decoder = criterion.decoder
    with torch.no_grad():
        for i, layer in enumerate(decoder.bert.encoder.layer):
            cross = layer.crossattention
            ours.loss_head.values[i].load_state_dict(cross.self.value.state_dict())
            ours.loss_head.outputs[i].load_state_dict(cross.output.dense.state_dict())
            ours.loss_head.norms[i].load_state_dict(cross.output.LayerNorm.state_dict())
    whole = batch["targets"].clamp(min=0)
    part = {"input_ids": batch["input_ids"][:, 0], "attention_mask": batch["attention_mask"][:, 0]}
    wanted = criterion([part, {"input_ids": whole, "attention_mask": (whole > 0).long()}], None)
    loss = ours(**batch).loss
    assert loss.item() == pytest.approx(wanted.item(), abs=1e-9)
    wanted.backward()
    loss.backward()
    their_gradients = dict(decoder.named_parameters())
    compared = 0
    for name, p in ours.named_parameters():
        if p.grad is not None and not name.startswith("loss_head."):
            torch.testing.assert_close(p.grad, their_gradients[name].grad, rtol=1e-7, atol=1e-9)
            compared += 1
    assert compared > 30
    assert decoder.bert.encoder.layer[0].crossattention.self.query.weight.grad.abs().max() < 1e-12


@pytest.mark.parametrize("chunks", [{"chunk_size": 3}, {"chunk_tokens": 20}])
def test_chunks_change_no_loss_of_training_and_validation(bert_config, tokenizer, tmp_path, chunks):
    rows = [{"input_ids": tokenizer(text)["input_ids"]} for text in SENTENCES]
    found = []
    for given in ({}, chunks):
        torch.manual_seed(0)
        trainer = ContrastiveTrainer(
            model=make(bert_config), train_dataset=rows, eval_dataset=rows, processing_class=tokenizer,
            data_collator=DeletionCollator(tokenizer), args=ContrastiveTrainingArguments(
                str(tmp_path), max_steps=3, per_device_train_batch_size=6, learning_rate=1e-3, logging_steps=1,
                report_to="none", disable_tqdm=True, bf16=False, save_strategy="no", **given,
            ),
        )  # fmt: skip
        trainer.train()
        losses = [row["loss"] for row in trainer.state.log_history if "loss" in row]
        found.append([*losses, trainer.evaluate()["eval_loss"]])
    assert found[0] == pytest.approx(found[1], abs=1e-9)
    assert found[0][0] != found[0][-1]


def test_no_other_loss_can_be_made_of_it(bert_config, batch):
    config = deepcopy(bert_config)
    model = BertForCL(config, pooling="mean", loss="matryoshka", inner={"loss": "tsdae"}, dims=(8,))
    with pytest.raises(InputError, match="words"):
        model(**batch)


def run(text_file, output, *args):
    given = ["--train_file", str(text_file), "--output_dir", str(output), "--deletion_ratio", "0.6"]
    load("run_tsdae").main([*given, *tiny(*args, flags=TINY)])


@pytest.mark.allow_warnings  # transformers says that a finished encoder has no head over the vocabulary
def test_a_run_resumes_and_its_folder_is_an_encoder_for_every_loader(text_file, tmp_path):
    folder = tmp_path / "out"
    run(text_file, folder, "--pooling", "mean")
    vectors = SentenceEncoder(folder).encode(SENTENCES)
    log = json.loads((folder / "trainer_state.json").read_text())["log_history"]
    assert log[0]["written"] > 3
    run(text_file, folder, "--pooling", "mean", "--resume_from_checkpoint", str(folder / "checkpoint-2"))
    np.testing.assert_array_equal(SentenceEncoder(folder).encode(SENTENCES), vectors)
    names = SentenceEncoder(folder).model.state_dict()
    assert not [name for name in names if not name.startswith("bert.")]
    theirs = SentenceTransformer(str(folder), device="cpu").encode(SENTENCES)
    np.testing.assert_allclose(theirs, vectors, atol=1e-5)
    # a finished one gets a new decoder
    run(text_file, tmp_path / "on", "--model_name_or_path", str(folder), "--chunk_size", "2")
    model = SentenceEncoder(folder).model
    with pytest.raises(InputError, match="with_head"):
        model(torch.ones(2, 1, 4, dtype=torch.long), targets=torch.ones(2, 4, dtype=torch.long))


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--deletion_ratio", "1"], "below 1"),
        (["--momentum_queue", "8"], "leave out momentum_queue"),
        (["--do_mlm", "true"], "unknown argument --do_mlm"),
        (["--model_name_or_path", "static-minilm"], "is not a transformer"),
    ],
)
def test_what_does_not_go_with_it_is_one_line(args, words, text_file, tmp_path):
    with refusal("", words):
        run(text_file, tmp_path / "out", *args)


def test_other_families_and_other_rows_are_one_line(tokenizer, bert_config, batch):
    with pytest.raises(InputError, match="this is distilbert"):
        DistilBertForCL(DistilBertConfig(dim=16, n_layers=1, n_heads=2, hidden_dim=8), pooling="mean", loss="tsdae")
    with pytest.raises(InputError, match="DeletionCollator"):
        make(bert_config)(**{**batch, "targets": None})
    with pytest.raises(InputError, match="texts"):
        DeletionCollator(tokenizer)([{"input_ids": [[2, 3], [2, 3]]}])
