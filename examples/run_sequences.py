"""DNA and protein sequences as sentences of k-mers (ProtVec's reading frames, Asgari and Mofrad 2015, for any k).

Generated families of proteins, an ancestor and mutated copies each; 300 families are held out and looked for:

    accelerate launch examples/run_sequences.py
    accelerate launch examples/run_sequences.py --kind dna --k 6 --substitution 0.2

A FASTA file of your own; names 'family|member' tell families, whose members are the pairs and which are looked for:

    accelerate launch examples/run_sequences.py --fasta swissprot.fasta.gz --k 3

Where no families are known, two reading frames of a sequence are a pair:

    accelerate launch examples/run_sequences.py --fasta genome.fasta --kind dna --k 6 --pairs frames
"""

import sys

from contrastive_st.cli import run
from contrastive_st.jobs.sequences_job import main

if __name__ == "__main__":
    sys.exit(run(main))
