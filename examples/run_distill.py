"""Relational distillation over a corpus in order (Park et al. 2019, https://arxiv.org/abs/1904.05068).

A student of TF-IDF, or of the encoder in out/demo, on the Python documentation of this machine, offline, in minutes;
once over the shuffled sentences, once over contiguous batches of a short path through the teacher's embeddings:

    accelerate launch examples/run_distill.py

A sentence encoder on sentences of your own; the teacher's embeddings are computed once and kept:

    accelerate launch examples/run_distill.py --teacher sentence-transformers/all-MiniLM-L6-v2 \\
        --train_file wiki.txt --max_train_samples 100000 --output_dir out/distill_minilm

By the softmax of its similarities instead of distances and angles:

    accelerate launch examples/run_distill.py --similarity_weight 1 --distance_weight 0 --angle_weight 0

STS and transfer figures are measured where CONTRASTIVE_ST_DATA names a folder with SentEval's files.
"""

import sys

from contrastive_st.cli import run
from contrastive_st.jobs.distill import main

if __name__ == "__main__":
    sys.exit(run(main))
