"""CERT: contrastive self-supervision by back-translation (Fang et al. 2020, https://arxiv.org/abs/2005.12766).

Sentences are contrasted with their back-translations against a momentum queue; then encoder and classifier learn a
labelled task, once from the start and once from the contrasted encoder:

    accelerate launch examples/run_cert.py --pairs_file pairs.csv --model_name_or_path bert-base-uncased --task TREC \\
        --momentum_queue 6720 --momentum 0.999 --learning_rate 4e-5 --per_device_train_batch_size 32

Without pairs at hand, by two translation models:

    accelerate launch examples/run_cert.py --train_file sentences.txt \\
        --translate_there Helsinki-NLP/opus-mt-en-de --translate_back Helsinki-NLP/opus-mt-de-en

Without arguments, offline, in minutes: the first line and the paragraph of a docstring stand in for a sentence and its
back-translation (they say the same in other words), and the task is to tell which package a paragraph is from:

    accelerate launch examples/run_cert.py
"""

import sys

from contrastive_st.cli import run
from contrastive_st.jobs.cert import main

if __name__ == "__main__":
    sys.exit(run(main))
