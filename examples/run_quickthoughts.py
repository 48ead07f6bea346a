"""QuickThoughts and its relatives (Logeswaran and Lee 2018, https://arxiv.org/abs/1803.02893).

An encoder that picks each sentence's neighbours, on the Python documentation of this machine, in minutes, offline:

    accelerate launch examples/run_quickthoughts.py

On a corpus of your own, sentences in order (a sentence a line, blank lines between documents; or parquet), with the
settings of the paper and GloVe vectors:

    accelerate launch examples/run_quickthoughts.py --train_file books.parquet --hidden_size 1000 \\
        --word_vectors glove.840B.300d.txt --vocab_size 400000 --context_size 1 --output_dir out/qt

Other targets: shared words, TF-IDF, or the one sentence that is most similar by TF-IDF:

    accelerate launch examples/run_quickthoughts.py --targets tfidf_bin --per_device_train_batch_size 1000 \\
        --learning_rate 1e-4

CURL's block loss over a window of three, a bidirectional LSTM, two processes on the CPU:

    accelerate launch --config_file examples/accelerate/two_cpu_processes.yaml examples/run_quickthoughts.py \\
        --row_loss block --context_size 3 --encoder bilstm --output_dir out/block

Classification accuracy is measured as it trains, and drawn beside the loss: of MR, CR, SST-2 and TREC where
CONTRASTIVE_ST_DATA names a folder with SentEval's files; on the documentation, of which package a paragraph is from.
"""

import sys

from contrastive_st.cli import run
from contrastive_st.jobs.quickthoughts_job import main

if __name__ == "__main__":
    sys.exit(run(lambda: main(docs=not any("_file" in word for word in sys.argv))))
