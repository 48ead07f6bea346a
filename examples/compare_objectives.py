"""The same encoder trained with each objective, and the published figures beside the measured ones.

Seconds a method, on the documentation of this machine, to see it run:

    python examples/compare_objectives.py --scale tiny

On two cores, with novels.parquet, wikipedia.parquet and SentEval's files below $CONTRASTIVE_ST_DATA:

    python examples/compare_objectives.py --scale small

The settings of the published tables, on a GPU, with a corpus and vectors of your own:

    python examples/compare_objectives.py --scale full --train_file books.parquet --word_vectors glove.840B.300d.txt

Any flag of run_quickthoughts.py may follow and holds for every method. What was trained before with the same flags is
not trained again, so that an interrupted comparison goes on where it was.
"""

import sys

from contrastive_st.cli import run
from contrastive_st.recipes.compare import main

if __name__ == "__main__":
    sys.exit(run(main))
