#!/usr/bin/env bash
# LogisticRegression(class_weight="balanced") counts a text with its sample_weight; compute_sample_weight counts rows.
#
# Versions: scikit-learn 1.9.1, numpy 2.4.6, Python 3.11
# Expected: compute_sample_weight("balanced", y) * sample_weight are the weights of LogisticRegression's "balanced" fitted
#   with that sample_weight: its documentation says that class weights are multiplied with the sample weights, and gives
#   n_samples / (n_classes * np.bincount(y)) for them. They are those of compute_class_weight with sample_weight, which
#   compute_sample_weight does not take.
# Seen on 2026-11-30 (what this script printed: the sums of weights of the two classes, and the coefficients):
#   compute_class_weight: [10.0, 10.0]
#   compute_sample_weight: [3.0, 24.0]
#   LogisticRegression, balanced: 0.697
#   compute_class_weight: 0.697
#   compute_sample_weight: 0.684

set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile scikit-learn==1.9.1 numpy==2.4.6 || { echo "not installed"; exit 2; }
venv/bin/python -W ignore - <<'EOF'
import sys
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.utils.class_weight import compute_class_weight, compute_sample_weight

x = np.array([[0.0], [1.0], [2.0], [3.0], [1.5], [4.0]])
y, given = np.array([0, 0, 0, 0, 1, 1]), np.array([1.0, 1.0, 1.0, 1.0, 8.0, 8.0])
by_weight = compute_class_weight("balanced", classes=np.array([0, 1]), y=y, sample_weight=given)[y] * given
by_row = compute_sample_weight("balanced", y) * given
fitted = {
    "LogisticRegression, balanced": LogisticRegression(class_weight="balanced").fit(x, y, given),
    "compute_class_weight": LogisticRegression().fit(x, y, by_weight),
    "compute_sample_weight": LogisticRegression().fit(x, y, by_row),
}
values = {name: round(float(model.coef_[0, 0]), 3) for name, model in fitted.items()}
for name, weights in (("compute_class_weight", by_weight), ("compute_sample_weight", by_row)):
    print(f"{name}: {np.bincount(y, weights).round(3).tolist()}")
for name, value in values.items():
    print(f"{name}: {value}")
balanced, of_classes, of_samples = values.values()
if balanced != of_classes or balanced == of_samples:
    sys.exit("changed: balanced counts otherwise than stated")
EOF
