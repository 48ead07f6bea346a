"""Encode and train on a Ray cluster that is up: python ray_driver.py ADDRESS FOLDER; prints one line of JSON."""

import json
import os
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import ray
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

from contrastive_st.integrations.ray import BatchEncoder

WORDS = ["sea", "tide", "moon", "tax", "wage", "law"]
TEXTS = [f"the {WORDS[i % 6]} and the {WORDS[i % 5]} {i}" for i in range(400)]


class Told(BatchEncoder):
    """Tells on which node a batch was encoded."""

    def __call__(self, batch):
        node = ray.util.get_node_ip_address()
        return super().__call__(batch).append_column("node", pa.array([node] * len(batch)))


def train(options):
    """Train a small model, as one of several workers."""
    import torch
    from transformers import BertConfig

    from contrastive_st import (
        BertForCL,
        ContrastiveTrainer,
        ContrastiveTrainingArguments,
        DropoutPairCollator,
        tokenize,
        train_wordpiece,
    )

    torch.manual_seed(0)
    torch.set_num_threads(1)
    tokenizer = train_wordpiece(TEXTS, vocab_size=200, max_length=16)
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32
    )
    arguments = ContrastiveTrainingArguments(
        options["out"], use_cpu=True, per_device_train_batch_size=8, max_steps=8, learning_rate=1e-3, report_to=[],
        save_strategy="no", disable_tqdm=True, logging_steps=4,
    )  # fmt: skip
    rows = tokenize([{"text": text} for text in TEXTS], tokenizer, 16)
    trainer = ContrastiveTrainer(
        model=BertForCL(config, pooling="mean"), args=arguments, train_dataset=rows,
        data_collator=DropoutPairCollator(tokenizer), processing_class=tokenizer,
    )  # fmt: skip
    trainer.train()
    trainer.save_model()
    place = Path(options["out"], f"node-{os.environ['RANK']}")
    place.write_text(ray.util.get_node_ip_address())


def trained(folder, strategy):
    """The nodes on which two workers trained."""
    out = folder / strategy
    TorchTrainer(
        train, train_loop_config={"out": str(out)}, run_config=RunConfig(storage_path=str(folder / "ray")),
        scaling_config=ScalingConfig(num_workers=2, placement_strategy=strategy),
    ).fit()  # fmt: skip
    return sorted((out / f"node-{rank}").read_text() for rank in (0, 1))


def main(address, folder):
    ray.init(address, log_to_driver=False)
    rows = ray.data.from_arrow(pa.table({"id": range(len(TEXTS)), "text": TEXTS})).repartition(16)
    pool = ray.data.ActorPoolStrategy(size=2)
    options = {"batch_size": 25, "batch_format": "pyarrow", "num_cpus": 1, "scheduling_strategy": "SPREAD"}
    found = rows.map_batches(Told, compute=pool, **options).to_pandas()
    vectors = np.array(found.sort_values("id")["embedding"].tolist(), np.float32)
    np.save(folder / "vectors.npy", vectors)
    (folder / "texts.json").write_text(json.dumps(TEXTS))
    nodes = {strategy: trained(folder, strategy) for strategy in ("STRICT_SPREAD", "STRICT_PACK")}
    print(json.dumps({"encoded": sorted(found["node"].unique()), **nodes}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
