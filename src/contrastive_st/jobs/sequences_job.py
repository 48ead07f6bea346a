"""Train an encoder of DNA or protein sequences, and evaluate it by finding the family of a sequence."""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import TfidfVectorizer
from transformers import set_seed

from contrastive_st.data.collators import DropoutPairCollator
from contrastive_st.data.sequences import (
    ALPHABETS,
    FramePairCollator,
    SequenceRecord,
    check_kind,
    kmer_tokenizer,
    read_fasta,
    reading_frames,
    tokenize_frames,
)
from contrastive_st.distributed import is_first_process
from contrastive_st.errors import InputError
from contrastive_st.evaluation.scorers.retrieval import ranking_metrics, relevant_rows
from contrastive_st.jobs.job import (
    JobArguments,
    fit_batch,
    job_metadata,
    parse_job,
    say_what_happens,
    small_bert,
)
from contrastive_st.models import BertForCL, SentenceEncoder
from contrastive_st.tokens import token_ids
from contrastive_st.training import ContrastiveTrainer, check_output_dir

# --- Generated families of sequences with known homology: an ancestor each, and mutated copies of it.

SEPARATOR = "|"  # separates family and member in a name
#: Classes of letters that evolution exchanges most often: purines and pyrimidines, and the six classes
#: of amino acids of Dayhoff, Schwartz and Orcutt (Atlas of Protein Sequence and Structure 5, 1978)
CLASSES = {
    "dna": ("AG", "CT"), "rna": ("AG", "CU"), "protein": ("AGPST", "C", "DENQ", "FWY", "HKR", "ILMV"),
}  # fmt: skip


def make_families(
    kind: str = "protein",
    families: int = 4000,
    members: int = 4,
    length: int = 240,
    substitution: float = 0.6,
    conservative: float = 0.9,
    indel: float = 0.02,
    seed: int = 0,
) -> list[SequenceRecord]:
    """Generate families of sequences, named `family|member`.

    An ancestor is uniformly random. Each member is an independent copy of it with random changes. A letter is
    substituted at the rate `substitution`, by a letter of its class (`CLASSES`) with probability `conservative`. Before
    each letter, random letters are inserted or letters deleted, each at the rate `indel` (two letters on average).

    Args:
        kind: `dna`, `rna` or `protein`.
        families: number of ancestors.
        members: members of each family.
        length: letters of an ancestor.
        substitution: share of letters changed, from ancestor to member.
        conservative: share of changes within the class; a letter alone in its class becomes any other.
        indel: insertions, and as many deletions, per letter.
        seed: the same seed gives the same families.

    Example:
        >>> two = make_families("dna", families=1, members=2, length=12, substitution=0.1, indel=0.0)
        >>> [(member.name, member.letters) for member in two]
        [('0|0', ...), ('0|1', ...)]
    """
    rates = (substitution, conservative)
    if not all(0 <= rate <= 1 for rate in rates) or not 0 <= indel < 0.5 or min(families, members, length) < 1:
        raise InputError(
            "families need substitution rates of 0 to 1, an indel rate below 0.5, and one of each at least"
        )
    random, letters = np.random.default_rng(seed), np.array(list(ALPHABETS[check_kind(kind)]))
    becomes = exchanges(kind, conservative).cumsum(1)
    found = []
    for family in range(families):
        ancestor = random.integers(len(letters), size=length)
        for member in range(members):
            copy = _mutated(ancestor, becomes, substitution, indel, random)
            found.append(SequenceRecord(f"{family}{SEPARATOR}{member}", "", "".join(letters[copy])))
    return found


def exchanges(kind: str, conservative: float) -> np.ndarray:
    """Probabilities `[letters, letters]` that a changed letter becomes another one; zero for itself.

    Example:
        >>> exchanges("dna", 0.9).round(2)  # of A, C, G, T
        array([[0.  , 0.03, 0.93, 0.03],
               [0.03, 0.  , 0.03, 0.93],
               [0.93, 0.03, 0.  , 0.03],
               [0.03, 0.93, 0.03, 0.  ]])
    """
    letters = ALPHABETS[check_kind(kind)]
    others = 1.0 - np.eye(len(letters))
    own = np.array([[any(a in c and b in c for c in CLASSES[kind]) for b in letters] for a in letters]) * others
    own = np.where(own.any(1, keepdims=True), own, others)
    mixed: NDArray[np.floating] = sum(
        share * matrix / matrix.sum(1, keepdims=True)
        for share, matrix in ((conservative, own), (1 - conservative, others))
    )
    return mixed


def _mutated(
    ancestor: np.ndarray, becomes: np.ndarray, substitution: float, indel: float, random: np.random.Generator
) -> np.ndarray:
    changed, letters = random.random(len(ancestor)) < substitution, len(becomes)
    other = (random.random(len(ancestor))[:, None] >= becomes[ancestor, :-1]).sum(1)
    copy = np.where(changed, other, ancestor)
    parts, at = [], 0
    for place in np.flatnonzero(random.random(len(copy)) < 2 * indel):
        if place < at:
            continue  # removed with those before it
        size = int(random.geometric(0.5))
        parts.append(copy[at:place])
        if random.random() < 0.5:
            parts.append(random.integers(letters, size=size))
            at = int(place)
        else:
            at = int(place) + size
    return np.concatenate([*parts, copy[at:]])


def write_fasta(sequences: list[SequenceRecord], path: str | Path, width: int = 70) -> None:
    """Write sequences, `width` letters per line."""
    with open(path, "w", encoding="ascii") as file:
        for sequence in sequences:
            file.write(f">{sequence.name} {sequence.description}".rstrip() + "\n")
            file.writelines(f"{sequence.letters[i : i + width]}\n" for i in range(0, len(sequence.letters), width))


PAIRS, HELD_OUT = ("family", "frames", "dropout"), 300
Families = dict[str, list[str]]
GENERATED = {"data": {"name": "generated families of sequences", "from": "the job itself"}}


@dataclass
class SequenceArguments(JobArguments):
    """Data and model of the job."""

    fasta: str | None = field(
        default=None,
        metadata={
            "help": "FASTA file, plain, .gz or .xz; a name 'family|member' tells the family. Without it: generated "
            "families, an ancestor and mutated copies each."
        },
    )
    kind: str = field(default="protein", metadata={"help": "dna, rna or protein."})
    k: int = field(default=2, metadata={"help": "Letters of a word."})
    pairs: str | None = field(
        default=None,
        metadata={
            "help": "Positive pairs: family (two members, each in a frame of its own), frames (two reading frames of a "
            "sequence), or dropout (a sequence twice); by default family where the names tell families, else frames."
        },
    )
    vocab_size: int = field(
        default=20_000, metadata={"help": "Size of the vocabulary, if it does not have every k-mer."}
    )
    max_length: int = field(default=128, metadata={"help": "Longest sequence, in words."})
    num_layers: int = field(
        default=0, metadata={"help": "Transformer layers; without, the mean of k-mer vectors and their places."}
    )
    hidden_size: int = field(default=256, metadata={"help": "Width."})
    temperature: float = field(default=0.05, metadata={"help": "Temperature; divides the cosines."})
    families: int = field(default=4000, metadata={"help": "Generated: families."})
    members: int = field(default=4, metadata={"help": "Generated: members of each family."})
    length: int = field(default=240, metadata={"help": "Generated: letters of an ancestor."})
    substitution: float = field(default=0.6, metadata={"help": "Generated: share of letters changed in a member."})
    conservative: float = field(
        default=0.9, metadata={"help": "Generated: share of the changes within the letter's class."}
    )
    indel: float = field(default=0.02, metadata={"help": "Generated: insertions, and as many deletions, per letter."})


DEFAULTS: dict[str, Any] = {
    "output_dir": "out/sequences", "per_device_train_batch_size": 256, "learning_rate": 1e-2, "num_train_epochs": 25,
    "warmup_steps": 0.1, "logging_steps": 20, "save_strategy": "no", "report_to": "none",
}  # fmt: skip


def main(argv: Sequence[str] | None = None) -> dict[str, float]:
    """Run the whole job; returns the final figures."""
    args, training = parse_job(SequenceArguments, argv, "Train an encoder of DNA or protein sequences.", DEFAULTS)
    say_what_happens()
    resume = check_output_dir(training, args.overwrite_output_dir)
    set_seed(training.seed)
    families = read_families(args, Path(training.output_dir))  # type: ignore[arg-type]
    seen, held_out = split_families(families)
    letters = [sequence for members in seen.values() for sequence in members]
    tokenizer = kmer_tokenizer(
        args.k, args.kind, sequences=letters if args.k > 3 else None, vocab_size=args.vocab_size,
        max_length=args.max_length,
    )  # fmt: skip
    config = small_bert(args, len(tokenizer))
    model = BertForCL(config, pooling="mean", temperature=args.temperature, symmetric=True)
    rows, collator = training_rows(args, seen, tokenizer)
    fit_batch(training, len(rows))
    encoder = SentenceEncoder(model, tokenizer)
    embed = lambda sequences: mean_over_frames(encoder, sequences, args.k)
    before = find_families(embed, held_out) if held_out else {}
    trainer = ContrastiveTrainer(
        model=model, args=training, train_dataset=rows, data_collator=collator, processing_class=tokenizer
    )
    trainer.metadata = job_metadata(args, len(rows), args.fasta) if args.fasta else GENERATED
    trainer.train(resume_from_checkpoint=resume)
    trainer.save_model()
    after = find_families(embed, held_out) if held_out else {}
    if held_out and is_first_process():
        longer = args.k + 1 if args.kind == "protein" else 6
        baselines = {f"{k}-mers": kmer_counting(letters, k) for k in (args.k, longer)}
        table = {name: find_families(count, held_out) for name, count in baselines.items()}
        table |= {"untrained": before, "trained": after}
        report(table, held_out, Path(training.output_dir))  # type: ignore[arg-type]
    return {f"trained_{name}": value for name, value in after.items()}


def read_families(args: SequenceArguments, folder: Path) -> Families:
    """Families by name, from a FASTA file or generated; generated ones are written beside the checkpoint too."""
    if args.pairs not in (None, *PAIRS):
        raise InputError(f"unknown pairs {args.pairs!r}; choose one of {', '.join(PAIRS)}")
    if args.fasta is None:
        made = make_families(
            args.kind, args.families, args.members, args.length, args.substitution, args.conservative, args.indel
        )  # a separate seed for the data
        if is_first_process():
            folder.mkdir(parents=True, exist_ok=True)
            write_fasta(made, folder / "families.fasta")
    else:
        made = list(read_fasta(args.fasta, args.kind))
        if args.kind == "protein" and not set().union(*(sequence.letters for sequence in made)) - set("ACGTUN"):
            raise InputError(f"{args.fasta} has no letters but those of nucleotides; give --kind dna, or rna")
    families: Families = defaultdict(list)
    for sequence in made:
        families[sequence.name.rpartition(SEPARATOR)[0] or sequence.name].append(sequence.letters)
    return dict(families)


def split_families(families: Families) -> tuple[Families, Families]:
    """Families to train on, and held-out ones: every other family with several members, at most 300."""
    several = [name for name, members in families.items() if len(members) > 1]
    held_out = {name: families[name] for name in several[1::2][:HELD_OUT]}
    return {name: members for name, members in families.items() if name not in held_out}, held_out


def training_rows(args: SequenceArguments, families: Families, tokenizer: Any) -> tuple[list[dict[str, Any]], Any]:
    """The training rows, and the collator that makes pairs of them."""
    letters = [sequence for members in families.values() for sequence in members]
    several = [members for members in families.values() if len(members) > 1]
    pairs = args.pairs or ("family" if several else "frames")
    if pairs == "dropout":
        return [{"input_ids": row} for row in token_ids(tokenizer, letters)], DropoutPairCollator(tokenizer)
    if pairs == "frames":
        return tokenize_frames(letters, tokenizer, args.k), FramePairCollator(tokenizer)
    if not several:
        raise InputError(
            "no family has two members to pair; name the sequences 'family|member', or choose --pairs frames"
        )
    read = [tokenize_frames(members, tokenizer, args.k) for members in several]
    return [{"input_ids": [ids for row in rows for ids in row["input_ids"]]} for rows in read], FramePairCollator(
        tokenizer
    )


def mean_over_frames(encoder: SentenceEncoder, sequences: Sequence[str], k: int) -> NDArray[np.floating]:
    """The mean of the unit embeddings of the k reading frames, `[N, d]`."""
    frames = [reading_frames(sequence, k) for sequence in sequences]
    mean: NDArray[np.floating] = np.mean(
        [encoder.encode(list(texts), normalize_embeddings=True) for texts in zip(*frames, strict=True)], axis=0
    )
    return mean


def kmer_counting(sequences: Sequence[str], k: int) -> Callable[[Sequence[str]], NDArray[np.floating]]:
    """The baseline: TF-IDF of overlapping k-mers, fitted on the same sequences."""
    vectorizer = TfidfVectorizer(analyzer="char", ngram_range=(k, k), lowercase=False, max_features=20_000)
    vectorizer.fit(sequences)
    return lambda given: vectorizer.transform(given).toarray().astype(np.float32)


def find_families(embed: Callable[[Sequence[str]], NDArray[np.floating]], families: Families) -> dict[str, float]:
    """Metrics of finding the rest of each family among all held-out sequences, with its first member as the query."""
    queries = [members[0] for members in families.values()]
    documents = [sequence for members in families.values() for sequence in members[1:]]
    sizes = np.cumsum([0, *(len(members) - 1 for members in families.values())])
    judged = relevant_rows(range(start, end) for start, end in itertools.pairwise(sizes))
    return ranking_metrics(embed(queries), embed(documents), judged)


def report(table: dict[str, dict[str, float]], held_out: Families, folder: Path) -> None:
    """Print the figures, and write them beside the checkpoint."""
    count = sum(len(members) - 1 for members in held_out.values())
    print(f"The family of {len(held_out)} sequences, searched among {count:,} others; none of them was trained on")
    names = list(next(iter(table.values())))
    print(f"{'':14}" + "".join(f"{name:>12}" for name in names))
    for method, figures in table.items():
        print(f"{method:14}" + "".join(f"{figures[name]:>12.3f}" for name in names))
    (folder / "results.json").write_text(json.dumps(table, indent=2) + "\n", encoding="utf-8")
