"""Universal Sentence Encoder (Cer et al. 2018, https://arxiv.org/abs/1803.11175): one encoder, three tasks.

Neighbouring sentences, answers (a summary's paragraph) and labelled pairs of the Python documentation of this machine,
a batch of one task at a time, in minutes, offline:

    accelerate launch examples/run_use.py                          # the deep averaging network
    accelerate launch examples/run_use.py --encoder transformer

On data of your own, and two batches of neighbours for each of the others:

    accelerate launch examples/run_use.py --corpus_file wikipedia.parquet --answer_file questions.csv \\
        --nli_file snli_1.0_train.jsonl --task_weights 2 1 1 --max_steps 20000 --output_dir out/use

STS-B dev is measured where CONTRASTIVE_ST_DATA has it.
"""

import sys

from contrastive_st.cli import run
from contrastive_st.jobs.use import main

if __name__ == "__main__":
    sys.exit(run(main))
