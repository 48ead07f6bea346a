"""Train a search encoder for the documentation of the installed Python packages, offline, in two minutes.

    accelerate launch examples/run_demo.py

It starts from the static model of the package, trains on first lines and paragraphs of docstrings, and searches among
held-out ones, compared with the best of four lexical baselines.
"""

import json
import sys
from pathlib import Path

from contrastive_st import (
    AutoModelForCL,
    ContrastiveTrainer,
    ContrastiveTrainingArguments,
    PairCollator,
    SentenceEncoder,
    run,
    scripts,
)
from contrastive_st.data.docs_sets import positive_pairs
from contrastive_st.evaluation.docs_search import DocsSearch
from contrastive_st.models import load_tokenizer
from contrastive_st.plots import training_curve

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


def main(argv: list[str] | None = None) -> dict[str, float]:
    (training,) = scripts.start((ContrastiveTrainingArguments,), DEFAULTS, argv)

    # data: a thousand first lines and paragraphs are held out; near copies of them are not trained on
    docs = DocsSearch.load()
    tokenizer = load_tokenizer("static-minilm")
    tokenizer.model_max_length = 128

    # model: vectors of words, and InfoNCE of each text over the whole batch, in both directions
    model = AutoModelForCL.from_pretrained("static-minilm", loss="info_nce", temperature=0.05, symmetric=True)
    trainer = ContrastiveTrainer(
        model=model, args=training, processing_class=tokenizer, data_collator=PairCollator(tokenizer),
        train_dataset=scripts.tokenized(positive_pairs(docs.training), model, tokenizer, training),
        evaluator=docs.evaluator(tokenizer),
    )  # fmt: skip
    scripts.describe_data(trainer, None)
    before = trainer.evaluate()
    trainer.train(resume_from_checkpoint=training.resume_from_checkpoint)
    after = trainer.evaluate()
    trainer.save_model()

    # the table, with intervals, and what to do next
    if trainer.is_world_process_zero():
        Path(training.output_dir, "results.json").write_text(json.dumps({"before": before, "after": after}, indent=2))
        training_curve(trainer.state.log_history, Path(training.output_dir, "training_curve.png"))
        scripts.done(docs.report(before, SentenceEncoder(model, tokenizer)))
        scripts.done(f"\ncheckpoint in {training.output_dir}/; what to run next:")
        scripts.done(f"  contrastive-st index --installed_docs --model {training.output_dir}")
        scripts.done('  contrastive-st search "pad a batch of sequences to the same length"')
        scripts.done("  contrastive-st serve")
    return after


if __name__ == "__main__":
    sys.exit(run(main))
