"""Runs in each of W gloo processes: plain and cached steps of a sharded model (`fully_shard`), saved by rank 0.

python fsdp_worker.py RANK WORLD PORT OUT
"""

import contextlib
import itertools
import sys
import tempfile

import torch
import torch.distributed as dist
from distributed_worker import ROWS, batches
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from transformers import BertConfig

from contrastive_st.data import train_wordpiece
from contrastive_st.evaluation import EmbeddingSimilarityEvaluator
from contrastive_st.models import BertForCL, add_lora
from contrastive_st.models.base import text_hashes
from contrastive_st.training.evaluator import Evaluation
from contrastive_st.training.gradcache import gradcache_step


@contextlib.contextmanager
def no_sync(model):
    model.set_requires_gradient_sync(False)
    yield
    model.set_requires_gradient_sync(True)


def whole(tensor):
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def shard(model):
    for layer in model.bert.encoder.layer:
        fully_shard(layer)
    fully_shard(model)


def evaluated(world, distributed):
    """What a trainer's evaluator says of a model; with `distributed`, an evaluator that divides its texts."""
    texts = [f"the {'big ' * (i % 5)}cat sat {'down ' * (i % 3)}{i}" for i in range(20)]
    tokenizer = train_wordpiece(texts, vocab_size=60, max_length=16)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32
    )
    model = BertForCL(config, pooling="mean")
    if world > 1:
        shard(model)
    evaluator = EmbeddingSimilarityEvaluator(texts[:10], texts[10:], range(10), name="own", tokenizer=tokenizer)
    evaluator.distributed = distributed
    found = Evaluation(evaluator, tokenizer).metrics(model, sharded=world > 1)
    return {f"eval_{name}": torch.tensor(x) for name, x in found.items()}


def train(cached, rank, world, steps=2, lora=False, out=None):
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=60, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    model = BertForCL(config).double().train()
    if lora:
        with tempfile.TemporaryDirectory() as folder:
            base = [folder]
            if world > 1:
                dist.broadcast_object_list(base)
            model.save_pretrained(base[0])  # which the first process does
            if world > 1:
                dist.barrier()
            model.name_or_path = base[0]
            add_lora(model, r=2)
            if world > 1:
                dist.barrier()
        for name, weight in model.named_parameters():
            if "lora_B" in name:
                torch.nn.init.normal_(weight, std=0.1)
    model.length_bucketing = False
    if world > 1:
        shard(model)
    optimizer = torch.optim.SGD([weight for weight in model.parameters() if weight.requires_grad], lr=0.1)
    for batch in itertools.islice(batches(2, "info_nce"), steps):
        own = slice(ROWS // world * rank, ROWS // world * (rank + 1))  # as many rows on each
        batch = {name: batch[name][own] for name in ("input_ids", "attention_mask")}
        optimizer.zero_grad()
        if cached:
            hashes = text_hashes(batch["input_ids"], batch["attention_mask"])
            gradcache_step(
                batch,
                lambda **rows: model(**rows).pooler_output,
                lambda views, hashes=hashes: model.compute_loss(views, None, hashes),
                lambda scalar: scalar.backward(),
                (lambda: no_sync(model)) if world > 1 else contextlib.nullcontext,
                chunk_size=3,
                even=True,
            )
        else:
            model(**batch).loss.backward()
        optimizer.step()
    if out is not None:
        gathered = {name: whole(tensor) for name, tensor in model.state_dict().items()}
        model.save_pretrained(out, state_dict=gathered, is_main_process=rank == 0)
    return {name: whole(parameter).detach() for name, parameter in model.named_parameters()}


def main(rank, world, port, out):
    torch.set_num_threads(1)
    if world > 1:
        dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=world)
    results = {
        (cached, lora): train(cached, rank, world, lora=lora, out=f"{out}.adapter" if lora else None)
        for cached, lora in itertools.product((False, True), repeat=2)
    }
    results["evaluators"] = {shared: evaluated(world, shared) for shared in (False, True)}
    if rank == 0:
        torch.save(results, out)
    if world > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4])
