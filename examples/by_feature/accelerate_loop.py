"""A training loop with accelerate: collators and models work without the trainer.

    accelerate launch examples/by_feature/accelerate_loop.py --max_steps 20

A model of this package takes the tokens `[B, V, L]` of V views and returns the loss over the candidates of all
processes.
"""

import sys
from dataclasses import dataclass

import torch
from accelerate.utils import set_seed
from torch.utils.data import DataLoader
from transformers import BertConfig

from accelerate import Accelerator
from contrastive_st import BertForCL, PairCollator, TrainingParser, run, tokenize, train_wordpiece
from contrastive_st.data.docs_sets import texts_of
from contrastive_st.evaluation.docs_search import DocsSearch
from contrastive_st.options import option


@dataclass
class Arguments:
    """What the loop needs."""

    max_steps: int = option("Training steps.", default=20)
    batch_size: int = option("Batch size per process.", default=256)
    learning_rate: float = option("Learning rate of AdamW.", default=3e-3)
    output_dir: str = option("Where the encoder is saved.", default="out/loop")
    seed: int = option("Seed of weights, dropout and order of the rows.", default=42)


def main() -> None:
    (args,) = TrainingParser(Arguments).parse()
    set_seed(args.seed)
    accelerator = Accelerator()
    with accelerator.main_process_first():
        docs = DocsSearch.load()
        pairs = texts_of(docs.training)
        words = (text for name in pairs.column_names for text in pairs[name])
        tokenizer = train_wordpiece(words, vocab_size=8000, max_length=64)
        rows = tokenize(pairs, tokenizer, 64)
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=128, num_hidden_layers=1, num_attention_heads=2, intermediate_size=512,
        max_position_embeddings=128,
    )  # fmt: skip
    model = BertForCL(config, pooling="mean", loss="info_nce")
    loader = DataLoader(rows, args.batch_size, shuffle=True, drop_last=True, collate_fn=PairCollator(tokenizer))
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.learning_rate)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)

    step = 0
    while step < args.max_steps:
        for batch in loader:
            loss = model(**batch).loss
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            step += 1
            if step % 5 == 0 or step == args.max_steps:
                accelerator.print(f"step {step}: loss {loss.item():.3f}")
            if step == args.max_steps:
                break

    if accelerator.is_main_process:
        model = accelerator.unwrap_model(model)
        model.save_pretrained(args.output_dir)
        tokenizer.save_pretrained(args.output_dir)
        print(f"MRR@10 {docs.evaluator(tokenizer)(model)['mrr@10']:.3f}; checkpoint in {args.output_dir}/")


if __name__ == "__main__":
    sys.exit(run(main))
