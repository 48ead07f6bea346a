"""CERT: contrastive self-supervision by back-translation (Fang et al. 2020, https://arxiv.org/abs/2005.12766).

Sentences and their back-translations are positive pairs; the negatives come from a momentum queue. Without arguments
the script runs offline in minutes, with the first line and the paragraph of a docstring in place of a sentence and its
back-translation:

    accelerate launch examples/run_cert.py

On two columns of a file, from a pretrained encoder:

    accelerate launch examples/run_cert.py --pairs_file pairs.csv --model_name_or_path bert-base-uncased \\
        --momentum_queue 6720 --momentum 0.999 --learning_rate 4e-5 --per_device_train_batch_size 32 \\
        --output_dir out/cert2

To make pairs of your sentences by two translation models, use `back_translate` and `write_pairs` of
`contrastive_st.data`, or `contrastive-st train cert --train_file sentences.txt --translate_there ... --translate_back
...`. The command also fine-tunes encoder and classifier on a labelled task, with and without CERT before.
"""

import sys
from dataclasses import dataclass, field

from contrastive_st.jobs import DocsSearch
from transformers import AutoTokenizer, BertConfig, set_seed

from contrastive_st import (
    AutoModelForCL,
    BertForCL,
    ContrastiveTrainer,
    ContrastiveTrainingArguments,
    PairCollator,
    TrainingParser,
    read_examples,
    run,
    tokenize,
    train_wordpiece,
)
from contrastive_st.evaluation import sts_evaluator
from contrastive_st.training import check_output_dir


@dataclass
class Arguments:
    """Data and model of the run."""

    pairs_file: str | None = field(default=None, metadata={"help": "Two columns of text; by default documentation."})
    model_name_or_path: str | None = field(default=None, metadata={"help": "Encoder; by default a small new BERT."})
    temperature: float = field(default=0.07, metadata={"help": "Temperature; divides the cosines."})
    max_length: int = field(default=64, metadata={"help": "Longest text, in tokens."})
    num_layers: int = field(default=2, metadata={"help": "Layers of a new BERT."})
    hidden_size: int = field(default=128, metadata={"help": "Width of a new BERT."})
    vocab_size: int = field(default=16_000, metadata={"help": "Size of the vocabulary of a new BERT."})
    overwrite_output_dir: bool = field(default=False, metadata={"help": "Overwrite another run."})


DEFAULTS = {
    "output_dir": "out/cert",
    "per_device_train_batch_size": 128,
    "learning_rate": 1e-3,
    "num_train_epochs": 2,
    "warmup_steps": 0.1,
    "momentum_queue": 1024,
    "momentum": 0.99,
    "logging_steps": 50,
    "save_strategy": "no",
    "report_to": "none",
}


def main() -> None:
    args, training = TrainingParser((Arguments, ContrastiveTrainingArguments)).parse(defaults=DEFAULTS)
    resume = check_output_dir(training, args.overwrite_output_dir)
    set_seed(training.seed)

    # data: a sentence and its back-translation
    docs = None if args.pairs_file else DocsSearch.load()
    if docs:
        pairs = docs.training_texts()
    else:
        pairs, roles = read_examples(args.pairs_file)
        print(roles)
        pairs = pairs.select_columns(roles.texts[:2])

    # tokenizer and model: the embedding is the projected first token
    settings = {"pooling": "cls", "loss": "info_nce", "temperature": args.temperature}
    if args.model_name_or_path:
        tokenizer = AutoTokenizer.from_pretrained(args.model_name_or_path, model_max_length=args.max_length)
        model = AutoModelForCL.from_pretrained(args.model_name_or_path, **settings)
    else:
        words = (text for name in pairs.column_names for text in pairs[name])
        tokenizer = train_wordpiece(words, args.vocab_size, args.max_length)
        config = BertConfig(
            vocab_size=len(tokenizer), hidden_size=args.hidden_size, num_hidden_layers=args.num_layers,
            num_attention_heads=max(args.hidden_size // 64, 1), intermediate_size=4 * args.hidden_size,
            max_position_embeddings=max(args.max_length, 128), attention_probs_dropout_prob=0.0,
        )  # fmt: skip
        model = BertForCL(config, **settings)
    with training.main_process_first():
        rows = tokenize(pairs, tokenizer, args.max_length)

    # training: `momentum_queue` of the arguments makes the trainer keep a moving average and a queue
    evaluator = docs.evaluator(tokenizer) if docs else sts_evaluator(tokenizer)
    trainer = ContrastiveTrainer(
        model=model, args=training, train_dataset=rows, data_collator=PairCollator(tokenizer),
        processing_class=tokenizer, evaluator=evaluator,
    )  # fmt: skip
    before = trainer.evaluate() if evaluator else {}
    trainer.train(resume_from_checkpoint=resume)
    after = trainer.evaluate() if evaluator else {}
    trainer.save_model()
    if trainer.is_world_process_zero():
        for name, value in after.items():
            print(f"{name.removeprefix('eval_'):20} {before[name]:.3f} before, {value:.3f} after")
        print(f"checkpoint in {training.output_dir}/")


if __name__ == "__main__":
    sys.exit(run(main))
