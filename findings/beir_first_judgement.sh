#!/usr/bin/env bash
# The loader of beir leaves out the first line of qrels that have no header, with its query; and its nDCG leaves out
# queries without results, which its MRR counts as 0.
#
# Versions: beir 2.2.0, torch 2.13.0, Python 3.11
# Expected: all judgements, or an error, as the first line is no header; and a mean over the same queries in each
#   metric. pytrec_eval, which gives nDCG, MAP and recall, has no rows for queries that the results do not name, and
#   beir divides by the rows.
# Seen on 2026-11-30 (what this script printed):
#   qrels with a header: queries ['x', 'y', 'z'], judged ['x', 'y', 'z']
#   without one: queries ['y', 'z'], judged ['y', 'z']
#   four queries, of which one has results, and they are right: nDCG@10 1.0, MRR@10 0.25

set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile --extra-index-url https://download.pytorch.org/whl/cpu torch==2.13.0 beir==2.2.0 \
    sentence-transformers==6.2.0 transformers==5.23.0 datasets==5.2.0 pytrec-eval-terrier==0.5.11 numpy==2.4.6 \
    || { echo "not installed"; exit 2; }
export HF_HUB_OFFLINE=1 HF_HOME="$folder/cache"
venv/bin/python -W ignore - 2> errors <<'EOF' || { code=$?; tail -n 1 errors; exit $code; }
import logging, os, sys
from beir.datasets.data_loader import GenericDataLoader
from beir.retrieval.evaluation import EvaluateRetrieval

logging.disable()
os.mkdir("qrels")
for name, rows in (("corpus", "ab"), ("queries", "xyz")):
    with open(f"{name}.jsonl", "w") as file:
        file.writelines(f'{{"_id": "{row}", "title": "", "text": "text {row}"}}\n' for row in rows)
read = []
for header in ("query-id\tcorpus-id\tscore\n", ""):
    with open("qrels/test.tsv", "w") as file:
        file.write(header + "x\ta\t1\ny\tb\t1\nz\ta\t1\n")
    _, queries, qrels = GenericDataLoader(".").load("test")
    read.append([sorted(queries), sorted(qrels)])
    print("qrels with a header:" if header else "without one:", f"queries {read[-1][0]}, judged {read[-1][1]}")
qrels, results = {name: {"a": 1} for name in "wxyz"}, {"x": {"a": 1.0}}
ndcg = EvaluateRetrieval.evaluate(qrels, results, [10])[0]["NDCG@10"]
mrr = EvaluateRetrieval.evaluate_custom(qrels, results, [10], "mrr")["MRR@10"]
print(f"four queries, of which one has results, and they are right: nDCG@10 {ndcg}, MRR@10 {mrr}")
if read != [[["x", "y", "z"]] * 2, [["y", "z"]] * 2] or (ndcg, mrr) != (1, 0.25):
    sys.exit("changed: all judgements and queries count")
EOF
