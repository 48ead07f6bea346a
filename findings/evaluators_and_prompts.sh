#!/usr/bin/env bash
# Of the evaluators of sentence-transformers, those of triplets, retrieval and reranking put the model's prompts for
# queries and documents before the texts; those of pairs and of paraphrases put none.
#
# Versions: sentence-transformers 6.2.0, transformers 5.23.0, torch 2.13.0, Python 3.11
# Expected: evaluators encode a model that has prompts "query" and "document", and no default, alike. A run that keeps
#   the best checkpoint by a SequentialEvaluator of triplets and scored pairs measures two encoders: one with prompts, one
#   without. For models that were trained with prompts on all texts (E5), the scores of pairs are those of no prompt.
# Seen on 2026-11-30 (what this script printed: the texts that reached the model):
#   TripletEvaluator: ['doc: cats', 'doc: dog', 'query: cat']
#   InformationRetrievalEvaluator: ['doc: cats', 'doc: dog', 'query: cat']
#   RerankingEvaluator: ['doc: cats', 'doc: dog', 'query: cat']
#   EmbeddingSimilarityEvaluator: ['cat', 'cats', 'dog']
#   BinaryClassificationEvaluator: ['cat', 'cats', 'dog']
#   ParaphraseMiningEvaluator: ['cat', 'cats', 'dog']

set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile --extra-index-url https://download.pytorch.org/whl/cpu torch==2.13.0 \
    sentence-transformers==6.2.0 transformers==5.23.0 scikit-learn==1.9.0 numpy==2.4.6 \
    || { echo "not installed"; exit 2; }
export HF_HUB_OFFLINE=1 HF_HOME="$folder/cache" CUDA_VISIBLE_DEVICES=
venv/bin/python -W ignore - 2>errors.txt <<'EOF' || { tail -3 errors.txt; exit 1; }
import sys
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import evaluation
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

seen = set()


class Noted(StaticEmbedding):
    def preprocess(self, inputs, *args, **options):
        seen.update((options.get("prompt") or "") + text for text in inputs)
        return super().preprocess(inputs, *args, **options)


words = ["[PAD]", "[UNK]", "query", "doc", ":", "cat", "dog", "cats"]
tokenizer = Tokenizer(WordLevel({word: number for number, word in enumerate(words)}, unk_token="[UNK]"))
tokenizer.pre_tokenizer = Whitespace()
prompts = {"query": "query: ", "document": "doc: "}
model = SentenceTransformer(modules=[Noted(tokenizer, embedding_dim=8)], prompts=prompts, device="cpu")
evaluators = (
    evaluation.TripletEvaluator(["cat"], ["cats"], ["dog"]),
    evaluation.InformationRetrievalEvaluator(
        {"q": "cat"}, {"1": "cats", "2": "dog"}, {"q": {"1"}}, accuracy_at_k=[1], precision_recall_at_k=[1], map_at_k=[1],
        mrr_at_k=[1], ndcg_at_k=[1]),
    evaluation.RerankingEvaluator([{"query": "cat", "positive": ["cats"], "negative": ["dog"]}]),
    evaluation.EmbeddingSimilarityEvaluator(["cat", "cat"], ["cats", "dog"], [1.0, 0.0]),
    evaluation.BinaryClassificationEvaluator(["cat", "cat"], ["cats", "dog"], [1, 0]),
    evaluation.ParaphraseMiningEvaluator({"1": "cat", "2": "cats", "3": "dog"}, [("1", "2")]),
)
texts = {}
for evaluator in evaluators:
    seen.clear()
    evaluator(model)
    texts[type(evaluator).__name__] = sorted(seen)
    print(f"{type(evaluator).__name__}: {sorted(seen)}")
with_prompts = {name for name, of in texts.items() if of == ["doc: cats", "doc: dog", "query: cat"]}
without = {name for name, of in texts.items() if of == ["cat", "cats", "dog"]}
if with_prompts != {"TripletEvaluator", "InformationRetrievalEvaluator", "RerankingEvaluator"} or len(without) != 3:
    sys.exit("changed: other texts than stated")
EOF
