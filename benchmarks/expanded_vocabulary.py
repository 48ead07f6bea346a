"""Vocabulary expansion (Kiros et al. 2015, section 2.2): does it help an encoder with few words?

    CONTRASTIVE_ST_DATA=DATA python benchmarks/expanded_vocabulary.py --output expanded.jsonl

DATA has `wikipedia.parquet` and `senteval/`. For each seed, QuickThoughts over mean word vectors is trained on 240,000
sentences with the 2,000 commonest words, and with 20,000. `expand_vocabulary` then adds the other 18,000 to the smaller
encoder, from vectors of latent semantic analysis of the same sentences. For each of the three it prints Spearman over
all pairs x100 of STS12, 14, 15 and STS-B, their mean, and STS-B dev.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

from contrastive_st import SentenceEncoder, expand_vocabulary, read_texts
from contrastive_st.data import WordVectors, lsa_word_vectors, train_word_tokenizer

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
sys.path.insert(0, str(Path(__file__).parent))
import run_quickthoughts
from ideas import SENTENCES, first_sentences, judged, table

SMALL, LARGE, DIMENSION = 2_000, 20_000, 300
FLAGS = (
    f"--encoder mean --readout mean --hidden_size {DIMENSION} --embedding_size {DIMENSION} --max_length 50 "
    "--targets next --scores cosine --own_document mask --run_length 8 --per_device_train_batch_size 2000 "
    "--learning_rate 1e-2 --eval_strategy no --save_strategy no --report_to none --disable_tqdm true"
)


def trained(sentences: str, size: int, seed: int, folder: Path, use_cpu: bool) -> Path:
    """A folder with the encoder of so many words."""
    output = folder / f"{size}-{seed}"
    flags = ["--train_file", sentences, "--output_dir", str(output), "--vocab_size", str(size), "--seed", str(seed)]
    run_quickthoughts.main([*flags, *FLAGS.split(), *(["--use_cpu", "true"] if use_cpu else [])])
    return output


def expanded(folder: Path, vectors: WordVectors) -> SentenceEncoder:
    """The encoder with the words of the vectors."""
    encoder = SentenceEncoder(str(folder))
    model: Any = encoder.model
    tokenizer, weights = expand_vocabulary(encoder.tokenizer, model.get_input_embeddings().weight, vectors)
    model.resize_token_embeddings(len(tokenizer))
    with torch.no_grad():
        model.get_input_embeddings().weight.copy_(weights)
    return SentenceEncoder(model, tokenizer)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--sentences", type=int, default=SENTENCES)
    parser.add_argument("--use_cpu", action="store_true")
    parser.add_argument("--output", type=Path, default=Path("expanded.jsonl"))
    args = parser.parse_args()
    rows: list[dict[str, Any]] = []
    os.environ.pop("CONTRASTIVE_ST_DATA", None)  # the script evaluates nothing itself
    with tempfile.TemporaryDirectory() as temporary:
        sentences = str(first_sentences(Path(temporary, "sentences.parquet"), args.sentences))
        texts = list(read_texts(sentences)["text"])
        tokenizer = train_word_tokenizer(texts, LARGE)
        words = list(tokenizer.get_vocab())
        ids = torch.tensor([tokenizer.get_vocab()[word] for word in words])
        lsa = lsa_word_vectors(texts, tokenizer, DIMENSION)[ids].numpy()
        for seed in args.seeds:
            small = trained(sentences, SMALL, seed, Path(temporary), args.use_cpu)
            large = trained(sentences, LARGE, seed, Path(temporary), args.use_cpu)
            for name, model in (
                (f"{SMALL:,} words", str(small)),
                (f"expanded from {SMALL:,} to {LARGE:,} words", expanded(small, WordVectors(words, lsa))),
                (f"{LARGE:,} words", str(large)),
            ):
                row = {"name": name, "seed": seed, **judged(model)}
                rows.append(row)
                with open(args.output, "a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
    print(table(rows))


if __name__ == "__main__":
    main()
