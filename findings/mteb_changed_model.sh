#!/usr/bin/env bash
# mteb gives a model of a local folder the scores that another one had: both have one name in its cache.
#
# Versions: mteb 2.26.24, sentence-transformers 6.2.0, torch 2.13.0, Python 3.11
# Expected: each model is run, or the cache knows it by its weights or its path. mteb.evaluate looks in ~/.cache/mteb by
#   default ("only-missing"), where models without a name of the Hub are all no_model_name/available, so that a model
#   after training, or another one in a later process, has the first one's scores. overwrite_strategy="always" runs it.
# Seen on 2026-11-30 (what this script printed):
#   the folder model1: no_model_name/available -0.233
#   the folder model2, in another process: no_model_name/available -0.233
#   model2 with overwrite_strategy="always": no_model_name/available 0.337

set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile --extra-index-url https://download.pytorch.org/whl/cpu torch==2.13.0 sentence-transformers==6.2.0 \
    transformers==5.23.0 mteb==2.26.24 datasets==5.2.0 numpy==2.4.6 \
    || { echo "not installed"; exit 2; }
export HF_HUB_OFFLINE=1 HF_HOME="$folder/cache" MTEB_CACHE="$folder/mteb"
cat > run.py <<'EOF'
import logging, sys
import datasets, mteb, tokenizers, torch
from mteb.abstasks.sts import AbsTaskSTS
from mteb.abstasks.task_metadata import TaskMetadata
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding

logging.disable()
words = [f"w{number}" for number in range(40)]
none = dict.fromkeys("reference date domains task_subtypes license annotations_creators dialect sample_creation".split())


class Pairs(AbsTaskSTS):
    metadata = TaskMetadata(name="Pairs", dataset={"path": "none/none", "revision": "1"}, description="none", type="STS", category="t2t",
                            eval_splits=["test"], eval_langs=["eng-Latn"], main_score="cosine_spearman", bibtex_citation="",
                            modalities=["text"], **none)
    min_score, max_score = 0, 5

    def load_data(self, **_):
        rows = {"sentence1": words[:20], "sentence2": words[20:], "score": [float(n * 7 % 5) for n in range(20)]}
        self.dataset, self.data_loaded = datasets.DatasetDict(test=datasets.Dataset.from_dict(rows)), True


torch.manual_seed(int(sys.argv[1]))
tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel({word: n for n, word in enumerate(words)}, unk_token="w0"))
SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_dim=8)], device="cpu").save_pretrained("model" + sys.argv[1])
model = SentenceTransformer("model" + sys.argv[1], device="cpu")
strategy = {"overwrite_strategy": sys.argv[2]} if sys.argv[2:] else {}
result = mteb.evaluate(model, [Pairs()], show_progress_bar=False, **strategy)
print(f"{result.model_name} {result.task_results[0].get_score():.3f}")
EOF
first=$(venv/bin/python -W ignore run.py 1 2> errors | tail -n 1)
second=$(venv/bin/python -W ignore run.py 2 2>> errors | tail -n 1)
again=$(venv/bin/python -W ignore run.py 2 always 2>> errors | tail -n 1)
printf '%s\n' "the folder model1: $first" "the folder model2, in another process: $second" "model2 with overwrite_strategy=\"always\": $again"
[ -n "$first" ] || { tail -n 3 errors; exit 1; }
[ "$first" = "$second" ] && [ "$second" != "$again" ] || { echo "changed: the second model has its own score"; exit 1; }
