"""Several processes: each anchor is compared with the candidates of all of them, and gradients reach all of them.

With one process, with two that have full copies of the model (DDP), or with several that share its weights (FSDP); the
loss of a batch does not depend on how it is divided:

    python examples/by_feature/ddp_and_fsdp.py --per_device_train_batch_size 512
    accelerate launch --config_file examples/accelerate/two_cpu_processes.yaml examples/by_feature/ddp_and_fsdp.py
    accelerate launch --config_file examples/accelerate/fsdp.yaml examples/by_feature/ddp_and_fsdp.py
"""

import sys

from transformers import BertConfig, set_seed

from contrastive_st import (
    BertForCL,
    ContrastiveTrainer,
    ContrastiveTrainingArguments,
    PairCollator,
    TrainingParser,
    run,
    tokenize,
    train_wordpiece,
)
from contrastive_st.data.docs_sets import texts_of
from contrastive_st.evaluation.docs_search import DocsSearch

DEFAULTS = {
    "output_dir": "out/processes",
    "per_device_train_batch_size": 256,
    "learning_rate": 3e-3,
    "max_steps": 20,
    "logging_steps": 5,
    "save_strategy": "no",
    "report_to": "none",
}


def main() -> None:
    (training,) = TrainingParser(ContrastiveTrainingArguments).parse(defaults=DEFAULTS)
    set_seed(training.seed)  # the same weights on every process
    with training.main_process_first():  # the others find what the first has cached
        pairs = texts_of(DocsSearch.load().training)
        words = (text for name in pairs.column_names for text in pairs[name])
        tokenizer = train_wordpiece(words, vocab_size=8000, max_length=64)
        rows = tokenize(pairs, tokenizer, 64)
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=128, num_hidden_layers=1, num_attention_heads=2, intermediate_size=512,
        max_position_embeddings=128,
    )  # fmt: skip
    trainer = ContrastiveTrainer(
        model=BertForCL(config, pooling="mean", loss="info_nce"), args=training, train_dataset=rows,
        data_collator=PairCollator(tokenizer), processing_class=tokenizer,
    )  # fmt: skip
    trainer.train()
    trainer.save_model()  # one folder, whatever the number of processes
    if trainer.is_world_process_zero():
        candidates = [row["candidates"] for row in trainer.state.log_history if "candidates" in row]
        print(f"{training.world_size} processes, {candidates} candidates for each anchor")


if __name__ == "__main__":
    sys.exit(run(main))
