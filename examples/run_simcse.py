"""SimCSE, unsupervised and supervised (Gao, Yao and Chen 2021, https://arxiv.org/abs/2104.08821).

A search encoder for the Python documentation on this machine, from scratch, in minutes, offline:

    accelerate launch examples/run_simcse.py

Unsupervised SimCSE: one sentence a line, the same sentence twice with two dropout masks:

    accelerate launch examples/run_simcse.py --train_file wiki.txt --model_name_or_path bert-base-uncased \\
        --mlp_only_train true --learning_rate 3e-5 --per_device_train_batch_size 64

Supervised SimCSE: a csv with anchor, positive and hard negative in its columns:

    accelerate launch examples/run_simcse.py --train_file nli.csv --model_name_or_path bert-base-uncased \\
        --num_train_epochs 3 --learning_rate 5e-5 --per_device_train_batch_size 512 --hard_negative_weight 0

Two processes on the CPU; the candidates come from both:

    accelerate launch --config_file examples/accelerate/two_cpu_processes.yaml examples/run_simcse.py --max_steps 20

(`accelerate launch --cpu --num_processes 2` runs too, but in one process: on CPUs accelerate starts more only if given
an MPI host file.)

STS-B dev is measured before and after where CONTRASTIVE_ST_DATA names a folder with SentEval's files below senteval/.
"""

import sys

from contrastive_st.cli import run
from contrastive_st.jobs.simcse import main

if __name__ == "__main__":
    sys.exit(run(lambda: main(docs=not any("_file" in word for word in sys.argv))))
