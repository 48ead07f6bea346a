"""`contrastive-st distill`: students of teachers of several kinds and dimensions."""

import json
import logging
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from small_checkpoints import tokenizer_of_words
from transformers import BertConfig, RobertaConfig

from conftest import save_both
from contrastive_st.cli import _parser
from contrastive_st.errors import InputError
from contrastive_st.models import AutoModelForCL, SentenceEncoder
from contrastive_st.models.base import text_hashes
from contrastive_st.models.static_encoder import StaticEncoder
from contrastive_st.models.students import student_of
from contrastive_st.scripts.distill import (
    StudentCollator,
    StudentTrainer,
    Training,
    by_count,
    endless_batches,
    layer_student,
    read_pairs_of,
    reader_of,
    step_loss,
    train,
    train_used_rows,
)
from contrastive_st.static_vectors import StaticVectors
from contrastive_st.terminal import set_verbosity
from contrastive_st.training.arguments import ContrastiveTrainingArguments
from contrastive_st.vectors import unit_vectors

pytestmark = pytest.mark.slow

WORDS = ["<pad>", "<unk>", "<s>", "</s>", *"abcdefghijklmnop", *(f"word{i}" for i in range(40))]


def main(argv):
    args = _parser()[0].parse_args(["distill", *argv])
    args.function(args)


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A tiny RoBERTa, texts and pairs."""
    folder = tmp_path_factory.mktemp("distill")
    torch.manual_seed(0)
    config = RobertaConfig(
        vocab_size=len(WORDS), hidden_size=12, num_hidden_layers=3, num_attention_heads=2, intermediate_size=16,
        max_position_embeddings=40, pad_token_id=0, bos_token_id=2, eos_token_id=3, initializer_range=0.5,
    )  # fmt: skip
    model = AutoModelForCL.from_config(config, pooling="mean")
    save_both(model, tokenizer_of_words(WORDS, "<s> $A </s>", *WORDS[:2], model_max_length=32), folder / "teacher")
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(WORDS[20:], size=rng.integers(2, 7))) for _ in range(300)]
    (folder / "texts.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    rows = [{"anchor": a, "positive": b} for a, b in zip(texts[:40], texts[40:80], strict=True)]
    rows += [{"anchor": a, "positive": b, "negative": "word3"} for a, b in zip(texts[:9], texts[9:18], strict=True)]
    (folder / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return folder


def arguments(work, output, *others):
    return [str(work / "teacher"), "--train_file", str(work / "texts.txt"), "--output", str(output),
            "--batch_size", "32", "--cache", str(work / "vectors"), *others]  # fmt: skip


def nearness(work, encoder):
    texts = (work / "texts.txt").read_text(encoding="utf-8").split("\n")[:100]
    teacher = SentenceEncoder(work / "teacher").encode(texts, normalize_embeddings=True)
    student = unit_vectors(encoder.encode(texts))
    grams = [(x - x.mean(0)) @ (x - x.mean(0)).T for x in (teacher, student)]
    return np.corrcoef(grams[0].ravel(), grams[1].ravel())[0, 1]


def distance(work, encoder):
    texts = (work / "texts.txt").read_text(encoding="utf-8").split("\n")[:100]
    vectors = [own.encode(texts, normalize_embeddings=True) for own in (SentenceEncoder(work / "teacher"), encoder)]
    return np.square(vectors[0] - vectors[1]).sum(1).mean()


def test_a_static_student_of_a_roberta(work, tmp_path, capsys):
    pairs = ["--pairs", str(work / "pairs.jsonl"), "--pair_batch_size", "16"]
    main(arguments(work, tmp_path / "s", "--dim", "8", "--storage", "int8", "--steps", "60", *pairs))
    encoder = StaticVectors.from_pretrained(tmp_path / "s")
    assert encoder.dimension == 8
    assert nearness(work, encoder) > 0.15  # of a random transformer, whose vectors are no sums of words
    assert "sentences/s" in capsys.readouterr().out
    record = json.loads((tmp_path / "s" / "training_metadata.json").read_text())
    assert record["data"] == {"name": "texts.txt, pairs.jsonl", "rows": 300}
    assert record["run"]["steps"] == record["hyper_parameters"]["steps"] == 60
    card = (tmp_path / "s" / "README.md").read_text()
    assert "Distillation of embeddings" in card
    assert "`teacher`" in card
    assert (tmp_path / "s" / "model.safetensors").stat().st_mode & 0o044  # others may read it, as the umask says


def test_a_layer_student_learns_the_directions_in_all_dimensions_of_a_teacher(work, tmp_path, capsys):
    teacher = SentenceEncoder(work / "teacher", truncate_dim=5, similarity_fn_name="dot")
    teacher.save_pretrained(tmp_path / "short")
    options = arguments(work, tmp_path / "s", "--student", "layers=2", "--steps", "1", "--cache", str(tmp_path / "v"))
    main([str(tmp_path / "short"), *options[1:], "--quiet"])
    set_verbosity(logging.INFO)
    assert capsys.readouterr().out == ""
    student = SentenceEncoder(tmp_path / "s")
    assert (student.dimension, student.similarity_fn_name) == (12, "cosine")


def test_a_layer_student_of_a_roberta_learns(work, tmp_path):
    main(arguments(work, tmp_path / "one", "--student", "layers=2", "--steps", "1"))
    main(arguments(work, tmp_path / "many", "--student", "layers=2", "--steps", "40", "--learning_rate", "0.003"))
    one, many = (SentenceEncoder(tmp_path / name, device="cpu") for name in ("one", "many"))
    assert many.model.config.num_hidden_layers == 1
    assert many.model.dtype == torch.float32
    assert distance(work, many) < distance(work, one)


def test_both_copies_of_a_head_have_the_type_of_the_storage(work, tmp_path):
    student_of(work / "teacher", pooling="cls").save_pretrained(tmp_path / "t")
    main([str(tmp_path / "t"), *arguments(work, tmp_path / "s", "--student", "layers=0", "--steps", "1")[1:]])
    model, head = (load_file(tmp_path / "s" / name) for name in ("model.safetensors", "2_Dense/model.safetensors"))
    for name, weight in head.items():
        assert weight.dtype == torch.float16
        assert torch.equal(weight, model[name.replace("linear", "roberta.pooler.dense")])


def test_a_table_is_trained_as_if_all_its_rows_were(work):
    """To the bit: rows that no text has get no gradient, and AdamW without weight decay leaves them."""
    rng = np.random.default_rng(0)
    rows = [rng.choice([3, 9, 11, 40, 41], rng.integers(1, 6)).tolist() for _ in range(50)]
    pairs = [[[9], [11, 9]], [[40], [7]], [[3], [9, 3]], [[9], [11], [55, 40]], [[3], [41], [40]]]
    options = Training(16, 4, 0.1, steps=30, pair_weight=0.5, temperature=0.1, seed=0, minutes=0)
    targets = rng.normal(size=(50, 16)).astype(np.float32)
    models = [StaticEncoder.from_table(np.random.default_rng(1).normal(size=(60, 16)), loss="embedding_distillation")
              for _ in range(2)]  # fmt: skip
    start = models[0].table().detach().clone()
    runs = [
        way(model, rows, targets, pairs, options) for way, model in zip((train, train_used_rows), models, strict=True)
    ]
    whole, used = (model.table().detach() for model in models)
    assert torch.equal(used, whole)
    changed = (whole != start).any(1).nonzero().ravel().tolist()
    assert changed == [3, 7, 9, 11, 40, 41, 55]
    assert runs[0]["steps"] == runs[1]["steps"] == 30


def test_few_texts_are_passed_a_hundred_times():
    rows, targets = [[3, 4], [5], [6, 7]], np.eye(3, 4, dtype=np.float32)
    model = StaticEncoder.from_table(np.random.default_rng(0).normal(size=(9, 4)), loss="embedding_distillation")
    options = Training(2, 1, 1e-3, steps=None, pair_weight=0.0, temperature=0.1, seed=0, minutes=0)
    assert train(model, rows, targets, [], options)["steps"] == 100
    pairs = [[[3], [4]]] * 3
    assert train(model, rows, targets, pairs, replace(options, pair_weight=0.1))["steps"] == 300


def test_the_loss_of_a_step_is_that_of_each_text_encoded_alone(work):
    encoder = student_of(work / "teacher", [0, 2], loss="embedding_distillation")
    encoder.model.train()
    rows = encoder.tokenizer(["a b", "word1 word2 word3", "c"])["input_ids"]
    pairs = read_pairs_of(str(work / "pairs.jsonl"), reader_of(encoder))
    groups = by_count([pairs[i] for i in (0, 5, 17, 40, 44)])
    targets = np.random.default_rng(0).normal(size=(3, 12))
    targets /= np.linalg.norm(targets, axis=1, keepdims=True)
    options = Training(3, 5, 1e-3, steps=1, pair_weight=0.3, temperature=0.1, seed=0, minutes=0)

    def alone(text):
        ids = torch.tensor([text])
        return torch.nn.functional.normalize(encoder.model(ids).pooler_output, dim=1)[0]

    wanted = sum((alone(row) - torch.tensor(target, dtype=torch.float32)).square().sum()
                 for row, target in zip(rows, targets, strict=True)) / 3  # fmt: skip
    for group in groups:
        views = [[alone(text) for text in row] for row in group]
        candidates = [v[k] for k in range(1, len(views[0])) for v in views]
        for i, (anchor, positive, *_) in enumerate(views):
            same = [group[i][1] == text for k in range(1, len(group[0])) for text in (row[k] for row in group)]
            scores = torch.stack([anchor @ c for j, c in enumerate(candidates) if j == i or not same[j]]) / 0.1
            wanted = wanted - 0.3 / 5 * (anchor @ positive / 0.1 - scores.logsumexp(0))
    wanted.backward()
    gradients = {name: p.grad.clone() for name, p in encoder.model.named_parameters() if p.grad is not None}
    encoder.model.zero_grad()
    collate = StudentCollator(0, pairs, iter([np.array([0, 5, 17, 40, 44])]), encoder.tokenizer)
    batch = collate([{"input_ids": row, "teacher": own} for row, own in zip(rows, targets, strict=True)])
    ids, mask = batch["input_ids"][:, 0], batch["attention_mask"][:, 0]
    hashes = text_hashes(ids, mask)
    embeddings = encoder.model.embed(ids, attention_mask=mask)
    loss = step_loss(embeddings, hashes, batch["targets"], batch["groups"], options)
    loss.backward()
    assert [len(group[0]) for group in groups] == [2, 3]
    torch.testing.assert_close(loss, wanted)
    for name, parameter in encoder.model.named_parameters():
        if name in gradients:
            torch.testing.assert_close(parameter.grad, gradients[name], atol=1e-5, rtol=1e-4)


def test_a_layer_student_trains_with_the_types_that_it_has_in_use(tmp_path):
    """With a tokenizer that gives types to special tokens, as that of XLNet does."""
    names = ["input_ids", "token_type_ids", "attention_mask"]
    tokenizer = tokenizer_of_words(WORDS, "<s>:1 $A:0 </s>:1", *WORDS[:2], model_input_names=names)
    config = BertConfig(
        vocab_size=len(WORDS), hidden_size=12, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
        initializer_range=1.0,
    )  # fmt: skip
    torch.manual_seed(0)
    encoder = SentenceEncoder(AutoModelForCL.from_config(config, pooling="mean"), tokenizer)
    texts, targets = ["a", "word1"], np.eye(2, 12, dtype=np.float32)
    wanted = ((unit_vectors(encoder.encode(texts)) - targets) ** 2).sum(1).mean()
    collate = StudentCollator(0, [], tokenizer=tokenizer)
    rows = zip(encoder.token_rows(texts), targets, strict=True)
    batch = collate([{"input_ids": row, "teacher": own} for row, own in rows])
    args = ContrastiveTrainingArguments(tmp_path, report_to="none", use_cpu=True, bf16=False)
    options = Training(2, 1, 1e-3, steps=1, pair_weight=0.0, temperature=0.1, seed=0, minutes=0)
    trainer = StudentTrainer(model=encoder.model, options=options, args=args, train_dataset=[], data_collator=collate)
    loss = trainer.compute_loss(encoder.model.eval(), batch)
    assert loss.item() == pytest.approx(float(wanted), rel=1e-5)


def test_bad_input_is_one_line(work, tmp_path):
    with pytest.raises(InputError, match="give static"):
        layer_student("teacher", "layer=1")
    with pytest.raises(InputError, match="static"):
        main(arguments(work, tmp_path / "x", "--student", "layers=0", "--storage", "int8"))
    with pytest.raises(InputError, match="dimensions"):
        main(arguments(work, tmp_path / "x", "--dim", "99"))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("")
    with pytest.raises(InputError, match="exists already"):
        main(arguments(work, tmp_path / "full"))
    (tmp_path / "pairs.jsonl").write_text('{"only": "one"}\n')
    with pytest.raises(InputError, match="1 texts"):
        read_pairs_of(str(tmp_path / "pairs.jsonl"), list)


@pytest.mark.parametrize("by_length", [True, False])
def test_every_text_is_passed_where_the_last_batch_is_not_full(by_length):
    batches = endless_batches(range(10), 4, seed=0, by_length=by_length)
    assert set(np.concatenate([next(batches) for _ in range(40)])) == set(range(10))
