"""Semantic search in Python: encode documents and find the nearest ones to a query.

    python examples/by_feature/search.py --model out/demo/tuned --corpus corpus.txt "how to pad a batch"

The vectors are in memory here. For a larger corpus, `contrastive-st index CORPUS` stores the vectors in PostgreSQL, and
`open_index()` returns an index with the same `search`.
"""

import argparse
import sys

import numpy as np

from contrastive_st import SentenceEncoder, read_texts, run
from contrastive_st.terminal import say


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("query", nargs="+", help="what to look for")
    parser.add_argument("--model", default="out/demo/tuned", help="checkpoint folder or Hub name")
    parser.add_argument("--corpus", required=True, help="a text file with one document per line, or any table")
    parser.add_argument("-k", type=int, default=3, help="how many to find")
    args = parser.parse_args()

    encoder = SentenceEncoder.from_pretrained(args.model)
    rows = read_texts(args.corpus)
    documents = rows[rows.column_names[0]][:]
    vectors = encoder.encode(documents, normalize_embeddings=True)
    for query in args.query:
        scores = vectors @ encoder.encode([query], normalize_embeddings=True)[0]
        say(query)
        for i in np.argsort(-scores)[: args.k]:
            say(f"  {scores[i]:.3f}  {documents[i]}")


if __name__ == "__main__":
    sys.exit(run(main))
