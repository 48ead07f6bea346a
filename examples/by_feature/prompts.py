"""Prompts: a text before each query and another before each document, in training and in use.

They show the encoder which of the two it reads. The prompts are saved with the encoder; `encode_query` and
`encode_document`, `contrastive-st index` and `search`, and sentence-transformers add them to the texts:

    python examples/by_feature/prompts.py
    python examples/by_feature/prompts.py --include_prompt false    # read, but not pooled
    python examples/by_feature/prompts.py --query "" --document ""  # none, for comparison

From the command line:
`contrastive-st train --train_file pairs.csv --prompts query='query: ' document='passage: '`.
"""

import sys
from dataclasses import dataclass

from transformers import BertConfig, set_seed

from contrastive_st import (
    BertForCL,
    ContrastiveTrainer,
    ContrastiveTrainingArguments,
    PairCollator,
    SentenceEncoder,
    TrainingParser,
    run,
    tokenize,
    train_wordpiece,
)
from contrastive_st.data.docs_sets import texts_of
from contrastive_st.evaluation.docs_search import DocsSearch
from contrastive_st.options import option


@dataclass
class Arguments:
    """The prompts."""

    query: str = option("Prompt before the first line of a docstring.", default="query: ")
    document: str = option("Prompt before its paragraph.", default="passage: ")
    include_prompt: bool = option("Pool the tokens of the prompt too.", default=True)


DEFAULTS = {
    "output_dir": "out/prompts",
    "per_device_train_batch_size": 256,
    "learning_rate": 3e-3,
    "max_steps": 100,
    "logging_steps": 20,
    "save_strategy": "no",
    "report_to": "none",
}


def main() -> None:
    args, training = TrainingParser((Arguments, ContrastiveTrainingArguments)).parse(defaults=DEFAULTS)
    set_seed(training.seed)
    docs = DocsSearch.load()
    pairs = texts_of(docs.training)  # the columns title and text: first line and paragraph of docstrings
    words = [text for name in pairs.column_names for text in pairs[name]]
    tokenizer = train_wordpiece([*words, *[args.query, args.document] * 2], vocab_size=8000, max_length=64)
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=128, num_hidden_layers=1, num_attention_heads=2, intermediate_size=512,
        max_position_embeddings=128,
    )  # fmt: skip
    model = BertForCL(
        config, pooling="mean", include_prompt=args.include_prompt,
        prompts={"query": args.query, "document": args.document},  # saved with the model, for use
    )  # fmt: skip
    rows = tokenize(pairs, tokenizer, 64, prompts={"title": args.query, "text": args.document})  # by column, to train
    trainer = ContrastiveTrainer(
        model=model, args=training, processing_class=tokenizer, train_dataset=rows,
        data_collator=PairCollator(tokenizer), evaluator=docs.evaluator(tokenizer),
    )  # fmt: skip
    trainer.train()
    trainer.save_model()
    if trainer.is_world_process_zero():
        encoder = SentenceEncoder(training.output_dir)
        texts = ["read a csv file", "Read a comma-separated values file into a table."]
        roles = encoder.encode_query(texts[0]), encoder.encode_document(texts[1])
        print(f"cosine as query and document {encoder.similarity(*roles)[0, 0]:.3f}, "
              f"without prompts {encoder.similarity(*texts)[0, 0]:.3f}")  # fmt: skip
        print(f"MRR@10 {trainer.evaluate()['eval_mrr@10']:.3f}")


if __name__ == "__main__":
    sys.exit(run(main))
