"""SimCSE, unsupervised and supervised (Gao, Yao and Chen 2021, https://arxiv.org/abs/2104.08821).

Train a search encoder for the Python documentation on this machine, from the static model of the package, in two
minutes, offline:

    accelerate launch examples/run_simcse.py

Train on your own file. One column has sentences, each a pair with itself under two dropout masks; two columns are
pairs; further columns are hard negatives:

    accelerate launch examples/run_simcse.py --train_file wiki.txt --model_name_or_path bert-base-uncased \\
        --pooling cls --symmetric false --learning_rate 3e-5 --per_device_train_batch_size 64 --num_train_epochs 1 \\
        --output_dir out/simcse

Train with two processes on the CPU; the candidates come from both:

    accelerate launch --config_file examples/accelerate/two_cpu_processes.yaml examples/run_simcse.py --max_steps 20

`contrastive-st train simcse --help` has more: cutoff, an auxiliary MLM loss, data larger than memory.
"""

import sys
from dataclasses import dataclass, field

from transformers import BertConfig, set_seed

import contrastive_st.data
from contrastive_st import (
    AutoModelForCL,
    BertForCL,
    ContrastiveTrainer,
    ContrastiveTrainingArguments,
    SentenceEncoder,
    TrainingParser,
    read_examples,
    run,
    tokenize,
    train_wordpiece,
)
from contrastive_st.evaluation import sts_evaluator
from contrastive_st.jobs import DocsSearch
from contrastive_st.models import load_tokenizer
from contrastive_st.training import check_output_dir


@dataclass
class Arguments:
    """Data and model of the run."""

    train_file: str | None = field(default=None, metadata={"help": "Texts; by default the installed documentation."})
    model_name_or_path: str | None = field(
        default=None, metadata={"help": "Encoder; by default static-minilm for the documentation, else a new BERT."}
    )
    pooling: str | None = field(
        default=None, metadata={"help": "cls, mean, max, ...; by default that of the checkpoint."}
    )
    temperature: float = field(default=0.05, metadata={"help": "Temperature; divides the cosines."})
    symmetric: bool = field(default=True, metadata={"help": "Add the loss in which positives pick their anchors."})
    max_length: int = field(default=128, metadata={"help": "Longest text, in tokens."})
    num_layers: int = field(default=1, metadata={"help": "Layers of a new BERT."})
    hidden_size: int = field(default=256, metadata={"help": "Width of a new BERT."})
    vocab_size: int = field(default=16_000, metadata={"help": "Size of the vocabulary of a new BERT."})
    overwrite_output_dir: bool = field(default=False, metadata={"help": "Overwrite another run."})


DEFAULTS = {
    "output_dir": "out/demo",
    "per_device_train_batch_size": 2048,
    "learning_rate": 1e-2,
    "max_steps": 100,
    "warmup_steps": 0.1,
    "logging_steps": 5,
    "eval_strategy": "steps",
    "eval_steps": 20,
    "save_strategy": "steps",
    "save_steps": 20,
    "save_total_limit": 1,
    "metric_for_best_model": "mrr@10",
}


def main() -> None:
    args, training = TrainingParser((Arguments, ContrastiveTrainingArguments)).parse(defaults=DEFAULTS)
    resume = check_output_dir(training, args.overwrite_output_dir)
    set_seed(training.seed)

    # data: one column (sentences), two (pairs) or more (hard negatives)
    docs = None if args.train_file else DocsSearch.load()
    if docs:
        texts, collator = docs.training_pairs(), "PairCollator"
    else:
        texts, roles = read_examples(args.train_file)
        print(roles)
        texts, collator = texts.select_columns(roles.texts), roles.collator

    # tokenizer and model; the loss belongs to the model: InfoNCE of each anchor over the whole batch
    settings = {"loss": "info_nce", "temperature": args.temperature, "symmetric": args.symmetric}
    if args.pooling:
        settings["pooling"] = args.pooling
    start = args.model_name_or_path or ("static-minilm" if docs else None)
    if start:
        tokenizer = load_tokenizer(start)
        model = AutoModelForCL.from_pretrained(start, **settings)
    else:
        words = (text for name in texts.column_names for text in texts[name])
        tokenizer = load_tokenizer(resume) if resume else train_wordpiece(words, args.vocab_size, args.max_length)
        config = BertConfig(
            vocab_size=len(tokenizer), hidden_size=args.hidden_size, num_hidden_layers=args.num_layers,
            num_attention_heads=max(args.hidden_size // 64, 1), intermediate_size=4 * args.hidden_size,
            max_position_embeddings=max(args.max_length, 128), attention_probs_dropout_prob=0.0,
        )  # fmt: skip
        model = BertForCL(config, **{"pooling": "mean", **settings})
    with training.main_process_first():
        rows = tokenize(texts, tokenizer, args.max_length)

    # training; the evaluation is search in held-out documentation, or STS-B dev if it is available
    evaluator = docs.evaluator(tokenizer) if docs else sts_evaluator(tokenizer)
    if evaluator is None:
        training.eval_strategy = "no"
    trainer = ContrastiveTrainer(
        model=model, args=training, train_dataset=rows, processing_class=tokenizer, evaluator=evaluator,
        data_collator=getattr(contrastive_st.data, collator)(tokenizer),
    )  # fmt: skip
    before = trainer.evaluate() if evaluator else {}
    trainer.train(resume_from_checkpoint=resume)
    after = trainer.evaluate() if evaluator else {}

    # saving: a folder that this package, transformers and sentence-transformers open
    trainer.save_model()
    if trainer.is_world_process_zero():
        print(docs.report(before, SentenceEncoder(model, tokenizer)) if docs else {**before, **after})
        print(f"\ncheckpoint in {training.output_dir}/; what to run next:")
        print(f"  contrastive-st index --installed_docs --model {training.output_dir}")
        print('  contrastive-st search "pad a batch of sequences to the same length"')
        print("  contrastive-st serve")


if __name__ == "__main__":
    sys.exit(run(main))
