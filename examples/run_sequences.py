"""DNA and protein sequences as sentences of k-mers (ProtVec's reading frames, Asgari and Mofrad 2015, for any k).

On generated protein families, each an ancestor and its mutated copies; 300 families are held out for evaluation:

    accelerate launch examples/run_sequences.py
    accelerate launch examples/run_sequences.py --kind dna --k 6 --output_dir out/dna

On your own FASTA file, with names 'family|member':

    accelerate launch examples/run_sequences.py --fasta swissprot.fasta.gz --k 3 --output_dir out/swissprot

`contrastive-st train sequences` has other positive pairs (two reading frames, dropout) and a baseline that counts
k-mers.
"""

import sys
from collections import defaultdict
from dataclasses import dataclass, field

from contrastive_st.jobs import find_families, make_families, mean_over_frames
from transformers import BertConfig, set_seed

from contrastive_st import (
    BertForCL,
    ContrastiveTrainer,
    ContrastiveTrainingArguments,
    InputError,
    SentenceEncoder,
    TrainingParser,
    run,
)
from contrastive_st.data import FramePairCollator, kmer_tokenizer, read_fasta, tokenize_frames
from contrastive_st.training import check_output_dir


@dataclass
class Arguments:
    """Data and model of the run."""

    fasta: str | None = field(default=None, metadata={"help": "FASTA file; by default generated families."})
    kind: str = field(default="protein", metadata={"help": "dna, rna or protein."})
    k: int = field(default=2, metadata={"help": "Letters per word."})
    families: int = field(default=4000, metadata={"help": "Generated: families of four members."})
    heldout: int = field(default=300, metadata={"help": "Families held out for evaluation."})
    max_length: int = field(default=128, metadata={"help": "Longest sequence, in words."})
    num_layers: int = field(default=0, metadata={"help": "Transformer layers; 0 averages vectors of k-mers."})
    hidden_size: int = field(default=256, metadata={"help": "Dimension of the embedding."})
    temperature: float = field(default=0.05, metadata={"help": "Temperature; divides the cosines."})
    overwrite_output_dir: bool = field(default=False, metadata={"help": "Overwrite another run."})


DEFAULTS = {
    "output_dir": "out/sequences",
    "per_device_train_batch_size": 256,
    "learning_rate": 1e-2,
    "num_train_epochs": 25,
    "warmup_steps": 0.1,
    "logging_steps": 20,
    "save_strategy": "no",
    "report_to": "none",
}


def main() -> None:
    args, training = TrainingParser((Arguments, ContrastiveTrainingArguments)).parse(defaults=DEFAULTS)
    resume = check_output_dir(training, args.overwrite_output_dir)
    set_seed(training.seed)

    # data: families of two members or more; those held out are not trained on
    members = defaultdict(list)
    records = read_fasta(args.fasta, args.kind) if args.fasta else make_families(args.kind, args.families)
    for record in records:
        members[record.name.rpartition("|")[0]].append(record.letters)
    families = {name: letters for name, letters in members.items() if len(letters) > 1}
    if len(families) <= 2 * args.heldout:
        raise InputError(f"{len(families)} families of several members; hold out less than half of them (--heldout)")
    names = list(families)[1::2][: args.heldout]
    heldout = {name: families.pop(name) for name in names}

    # tokenizer: words of k letters; a row holds every reading frame of every member of a family
    letters = [sequence for family in families.values() for sequence in family]
    tokenizer = kmer_tokenizer(args.k, args.kind, sequences=letters if args.k > 3 else None, max_length=args.max_length)
    framed = [tokenize_frames(family, tokenizer, args.k) for family in families.values()]
    rows = [{"input_ids": [ids for row in family for ids in row["input_ids"]]} for family in framed]

    # model: symmetric InfoNCE over a BERT or the mean of k-mer vectors
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=args.hidden_size, num_hidden_layers=args.num_layers,
        num_attention_heads=max(args.hidden_size // 64, 1), intermediate_size=4 * args.hidden_size,
        max_position_embeddings=max(args.max_length, 128), attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    model = BertForCL(config, pooling="mean", loss="info_nce", temperature=args.temperature, symmetric=True)

    # evaluation: the first member of each held-out family is the query for the other members
    def find(model):
        encoder = SentenceEncoder(model, tokenizer)
        return find_families(lambda sequences: mean_over_frames(encoder, sequences, args.k), heldout)

    trainer = ContrastiveTrainer(
        model=model, args=training, train_dataset=rows, data_collator=FramePairCollator(tokenizer),
        processing_class=tokenizer, evaluator=find,
    )  # fmt: skip
    before = trainer.evaluate()
    trainer.train(resume_from_checkpoint=resume)
    after = trainer.evaluate()
    trainer.save_model()
    if trainer.is_world_process_zero():
        for name, value in after.items():
            print(f"{name.removeprefix('eval_'):20} {before[name]:.3f} before, {value:.3f} after")
        print(f"checkpoint in {training.output_dir}/")


if __name__ == "__main__":
    sys.exit(run(main))
