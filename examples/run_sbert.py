"""Sentence-BERT (Reimers and Gurevych 2019, https://arxiv.org/abs/1908.10084): three losses, three poolings.

Nine small encoders, side by side, on the Python documentation of this machine, in minutes, offline:

    accelerate launch examples/run_sbert.py

On real data, from a pretrained encoder, with the settings of the paper (batch 16, 2e-5, 10% warm-up):

    accelerate launch examples/run_sbert.py --model_name_or_path bert-base-uncased --nli_file SNLI --sts_file STSB \\
        --triplet_file nli.csv --warmup_steps 0.1 --output_dir out/sbert

One of them: `--losses cosine_similarity --poolings mean`. STS-B dev is measured where CONTRASTIVE_ST_DATA has it.
"""

import sys

from contrastive_st.cli import run
from contrastive_st.jobs.sbert import main

if __name__ == "__main__":
    sys.exit(run(lambda: main(docs=not any("_file" in word for word in sys.argv))))
