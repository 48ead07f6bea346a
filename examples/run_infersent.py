"""InferSent (Conneau et al. 2017, https://arxiv.org/abs/1705.02364): a max-pooled BiLSTM trained to tell NLI labels.

On summaries and paragraphs of the Python documentation of this machine, in minutes, offline:

    accelerate launch examples/run_infersent.py

On NLI, with the settings of the paper (SGD at 0.1, halted by its decay rules) and GloVe vectors:

    accelerate launch examples/run_infersent.py --train_file snli_1.0_train.jsonl --hidden_size 2048 \\
        --word_vectors glove.840B.300d.txt --vocab_size 400000 --num_train_epochs 20 --output_dir out/infersent

Dev and test accuracy are of a tenth of the premises each; STS-B dev is measured where CONTRASTIVE_ST_DATA has it.
"""

import sys

from contrastive_st.cli import run
from contrastive_st.jobs.infersent_job import main

if __name__ == "__main__":
    sys.exit(run(lambda: main(docs=not any("_file" in word for word in sys.argv))))
