"""DNA and protein sequences as sentences of k-mers (ProtVec's reading frames, Asgari and Mofrad 2015, for any k).

Generated families, an ancestor and mutated copies each; half of the families are held out and looked for, in minutes:

    accelerate launch examples/run_sequences.py
    accelerate launch examples/run_sequences.py --kind protein --k 2

A FASTA file of your own; names 'family|member' tell families to look for, other sequences are trained on:

    accelerate launch examples/run_sequences.py --fasta swissprot.fasta.gz --kind protein --k 3

Where families are known for some sequences, their members are better pairs than two frames of one sequence:

    accelerate launch examples/run_sequences.py --pairs family
"""

import sys

from contrastive_st.cli import run
from contrastive_st.recipes.sequences import main

if __name__ == "__main__":
    sys.exit(run(main))
