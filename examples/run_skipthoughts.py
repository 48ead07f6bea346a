"""Skip-Thoughts beside QuickThoughts (Kiros et al. 2015, https://arxiv.org/abs/1506.06726): neighbours of both.

One encoder learns by writing the sentences around, the other by picking them; same words, same width, same batches, on
the Python documentation of this machine, in minutes, offline:

    accelerate launch examples/run_skipthoughts.py

On a corpus of your own, sentences in order (a sentence a line, blank lines between documents; or parquet):

    accelerate launch examples/run_skipthoughts.py --train_file books.parquet --hidden_size 2400 \\
        --embedding_size 620 --per_device_train_batch_size 64 --queries "she looked out of the window"

The decoders are dropped before saving. The neighbours of any two checkpoints: contrastive-st neighbors A B ...
"""

import sys

from contrastive_st.cli import run
from contrastive_st.jobs.skipthoughts_job import main

if __name__ == "__main__":
    sys.exit(run(main))
