"""Every method trained on the same budget, and the published figures beside the measured ones.

Seconds a method, on the documentation of this machine, to see it run:

    python examples/compare_objectives.py --scale tiny

On two cores, with the novels, Wikipedia, NLI and SentEval's files below $CONTRASTIVE_ST_DATA; out/mlm is what
examples/run_mlm.py makes, and the teacher any sentence encoder:

    python examples/compare_objectives.py --encoder out/mlm --teacher sentence-transformers/all-MiniLM-L6-v2

The settings of the published tables, on a GPU, with a corpus and vectors of your own:

    python examples/compare_objectives.py --scale full --only next counts tfidf tfidf_bin window_1 window_2 window_3 \
        window_4 --train_file books.parquet --word_vectors glove.840B.300d.txt

Any flag of transformers.TrainingArguments may follow and holds for every method; any flag of a method's own job too,
where --only names methods of one job. What was trained before with the same flags is not trained again, so that an
interrupted comparison goes on where it was.
"""

import sys

from contrastive_st.cli import run
from contrastive_st.jobs.compare import main

if __name__ == "__main__":
    sys.exit(run(main))
