"""Train on DNA, RNA or protein sequences as sentences of k-mers (reading frames as in Asgari and Mofrad 2015).

That paper (https://doi.org/10.1371/journal.pone.0141287, ProtVec) trains vectors of 3-mers with skip-gram, so it has no
settings for this loss; the defaults are ours. On your own FASTA file, with names 'family|member':

    accelerate launch examples/run_sequences.py --fasta swissprot.fasta.gz --k 3 --output_dir out/swissprot

Without a file it generates families of proteins, each an ancestor and its mutated copies, in minutes:

    accelerate launch examples/run_sequences.py
    accelerate launch examples/run_sequences.py --kind dna --k 6 --pairs frames --output_dir out/dna

At the end, the first member of each held-out family is the query for the others, by the encoder and by k-mer counts,
which need no training.
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from contrastive_st import (
    BertForCL,
    ContrastiveTrainer,
    ContrastiveTrainingArguments,
    DropoutPairCollator,
    InputError,
    SentenceEncoder,
    run,
    scripts,
)
from contrastive_st.models import load_tokenizer
from contrastive_st.options import Count, CountOrZero, Positive, Share, option
from contrastive_st.scripts.arguments import ScriptArguments
from contrastive_st.tokens import token_ids
from sequence_families import (
    by_family,
    find_families,
    kmer_counting,
    make_families,
    mean_over_frames,
    read_families,
    split_families,
    write_fasta,
)
from sequences import FramePairCollator, kmer_tokenizer, tokenize_frames

DEFAULTS = {
    "output_dir": "out/sequences",
    "per_device_train_batch_size": 256,
    "learning_rate": 1e-2,
    "num_train_epochs": 25,
    "warmup_steps": 0.1,
    "logging_steps": 20,
    "save_strategy": "no",
}
PAIRS = ("family", "frames", "dropout")


@dataclass
class SequenceArguments(ScriptArguments):
    """Data and model."""

    fasta: str | None = option(
        "FASTA file, plain, .gz or .xz, whose sequences may have names 'family|member'. By default families are "
        "generated; the members of a family are mutated copies of one ancestor."
    )
    kind: str = option("Type of the sequences: dna, rna or protein.", default="protein")
    k: Count = option("Number of letters of a word (k-mer).", default=2)
    pairs: str | None = option(
        "Positive pairs: family (two members of a family, in different reading frames), frames (two reading frames of "
        "a sequence), or dropout (a sequence with itself). By default family if the names contain families, else "
        "frames."
    )
    heldout: CountOrZero = option(
        "Number of families to hold out for the evaluation, at most half of them.", default=300
    )
    vocab_size: Count = option(
        "Maximum vocabulary size if k is 4 or more; otherwise the vocabulary has every k-mer.", default=20_000
    )
    max_length: Count = option("Maximum length of a sequence, in words.", default=128)
    num_layers: CountOrZero = option(
        "Number of transformer layers; 0: the embedding is the mean of the vectors of k-mers and positions.", default=0
    )
    hidden_size: Count = option("Hidden size.", default=256)
    temperature: Positive = option("Temperature of InfoNCE; divides the cosines.", default=0.05)
    families: Count = option("Generated data: number of families.", default=4000)
    members: Count = option("Generated data: number of members of each family.", default=4)
    length: Count = option("Generated data: number of letters of an ancestor.", default=240)
    substitution: float = option("Generated data: share of the letters that are changed in a member.", default=0.6)
    conservative: float = option(
        "Generated data: share of the changes that replace a letter by one of the same class.", default=0.9
    )
    indel: Share = option("Generated data: insertions per letter; deletions are equally frequent.", default=0.02)

    def conflicts(self) -> Iterator[str]:
        """Yield unknown pairs, and settings of generated data with a file."""
        if self.pairs not in (None, *PAIRS):
            yield f"unknown pairs {self.pairs!r}; choose one of {', '.join(PAIRS)}"
        if self.fasta:
            names = "families", "members", "length", "substitution", "conservative", "indel"
            yield from self.unused("with --fasta", *names)


def main(argv: list[str] | None = None) -> dict[str, float]:
    own, training = scripts.start((SequenceArguments, ContrastiveTrainingArguments), DEFAULTS, argv)
    folder = Path(training.output_dir)

    # data: sequences by family; generated ones are written into the output folder; held-out ones are not trained on
    if own.fasta:
        families = read_families(own.fasta, own.kind)
    else:
        made = make_families(
            own.kind, own.families, own.members, own.length, own.substitution, own.conservative, own.indel
        )  # a separate seed for the data
        families = by_family(made)
        with training.main_process_first(desc="write"):
            folder.mkdir(parents=True, exist_ok=True)
            if training.process_index == 0:
                write_fasta(made, folder / "families.fasta")
    seen, heldout = split_families(families, own.heldout)
    letters = [sequence for members in seen.values() for sequence in members]
    several = [members for members in seen.values() if len(members) > 1]

    # tokenizer: words of k letters
    resume = training.resume_from_checkpoint
    tokenizer = load_tokenizer(resume) if resume else kmer_tokenizer(
        own.k, own.kind, sequences=letters if own.k > 3 else None, vocab_size=own.vocab_size, max_length=own.max_length
    )  # fmt: skip

    # pairs: two members of a family (a row has every frame of every member), two frames of a sequence, or it twice
    pairs = own.pairs or ("family" if several else "frames")
    collator = (DropoutPairCollator if pairs == "dropout" else FramePairCollator)(tokenizer)
    if pairs == "dropout":
        rows = [{"input_ids": ids} for ids in token_ids(tokenizer, letters)]
    elif pairs == "frames":
        rows = tokenize_frames(letters, tokenizer, own.k)
    elif several:
        framed = [tokenize_frames(members, tokenizer, own.k) for members in several]
        rows = [{"input_ids": [ids for row in family for ids in row["input_ids"]]} for family in framed]
    else:
        raise InputError(
            "no family has two members to pair; name the sequences 'family|member', or give --pairs frames"
        )

    # model: symmetric InfoNCE over a BERT or the mean of k-mer vectors
    config = scripts.small_bert(len(tokenizer), own.hidden_size, own.num_layers, own.max_length)
    model = BertForCL(config, pooling="mean", loss="info_nce", temperature=own.temperature, symmetric=True)

    # training; the evaluation finds each held-out family by its first member
    def find(model):
        encoder = SentenceEncoder(model, tokenizer)
        return find_families(lambda sequences: mean_over_frames(encoder, sequences, own.k), heldout)

    trainer = ContrastiveTrainer(
        model=model, args=training, train_dataset=rows, data_collator=collator, processing_class=tokenizer,
        evaluator=find if heldout else None,
    )  # fmt: skip
    scripts.describe_data(trainer, own.fasta, own)
    if own.fasta is None:
        trainer.metadata["data"] |= {"name": "generated families of sequences", "from": "the script itself"}
    figures = scripts.finish(trainer)

    # the baseline: counting k-mers and longer ones, on the same families
    if heldout and trainer.is_world_process_zero() and not trainer.sigterm.stopped:
        counted = {}
        for k in (own.k, own.k + 1 if own.kind == "protein" else 6):
            counted[f"{k}-mers"] = find_families(kmer_counting(letters, k), heldout)
        scripts.done(
            f"counting, for {len(heldout)} families of {sum(map(len, heldout.values())):,} sequences, not trained on:"
        )
        for name, scores in counted.items():
            scripts.done(f"{name:24} " + ", ".join(f"{key} {value:.3f}" for key, value in scores.items()))
        results = json.loads((folder / "results.json").read_text(encoding="utf-8"))
        text = json.dumps({**results, "counting": counted}, indent=2)
        (folder / "results.json").write_text(text + "\n", encoding="utf-8")
    return figures


if __name__ == "__main__":
    sys.exit(run(main))
