#!/usr/bin/env bash
# fastText's get_sentence_vector is not the mean of get_word_vector, and is another formula for each kind of model.
#
# Versions: fasttext 0.9.3 (which pip compiles), numpy 2.4.6, Python 3.11
# Expected: the vector of a sentence is the mean of the vectors of its words. A model that was trained without labels
#   divides the vector of each word by its length first, so that rare words, whose vectors are short, weigh as much as
#   frequent ones. A classifier does not, and counts the end of the line </s> as one more word. So a mean of the vectors
#   of a .vec or .bin file in another library agrees with neither.
# Seen on 2026-11-30 (what this script printed; which means agree to 1e-4 of the greatest number):
#   without labels: ['words of length 1']
#   classifier: ['words and </s>']

set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile fasttext==0.9.3 numpy==2.4.6 || { echo "not installed"; exit 2; }
venv/bin/python -W ignore - 2>errors.txt <<'EOF' || { tail -3 errors.txt; exit 1; }
import sys
import fasttext
import numpy


def agreeing(model):
    ended = numpy.stack([model.get_word_vector(word) for word in ("the", "cat", "</s>")])
    words = ended[:2]
    means = {
        "words": words.mean(0),
        "words and </s>": ended.mean(0),
        "words of length 1": (words / numpy.linalg.norm(words, axis=1, keepdims=True)).mean(0),
        "words and </s> of length 1": (ended / numpy.linalg.norm(ended, axis=1, keepdims=True)).mean(0),
    }
    vector = model.get_sentence_vector("the cat")
    return [name for name, mean in means.items() if numpy.allclose(vector, mean, atol=1e-4 * abs(vector).max())]


with open("texts.txt", "w") as file:
    file.write("the cat sat on the mat\nthe dog ran\n" * 50)
with open("labels.txt", "w") as file:
    file.write("__label__cat the cat sat on the mat\n__label__dog the dog ran\n" * 50)
options = {"dim": 8, "minCount": 1, "epoch": 2, "lr": 0.05, "thread": 1, "verbose": 0}
unlabelled, classifier = agreeing(fasttext.train_unsupervised("texts.txt", **options)), None
while classifier is None:
    try:
        classifier = agreeing(fasttext.train_supervised("labels.txt", **options))
    except RuntimeError:  # its training of so few texts sometimes ends in NaN
        pass
print("without labels:", unlabelled)
print("classifier:", classifier)
if unlabelled != ["words of length 1"] or classifier != ["words and </s>"]:
    sys.exit("changed: other means than stated")
EOF
