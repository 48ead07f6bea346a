#!/bin/sh
# On a machine with a GPU, in at most nine minutes, installing nothing: the tests marked `cuda`, then the tables.
#
#     sh benchmarks/gpu.sh [FOLDER]            # writes FOLDER/gpu.json, FOLDER/gpu.md and FOLDER/tests.txt (default gpu-results)
#     sh benchmarks/gpu.sh --smoke [FOLDER]    # the same on a CPU, with tiny sizes: does the script run? Its figures say nothing
#
# It needs this package, torch, transformers, sentence-transformers and pytest. Weights are random: nothing is downloaded.
set -eu
cd "$(dirname "$0")/.."
smoke= longest=210
if [ "${1:-}" = --smoke ]; then
    smoke=--smoke
    shift
    longest=900
    export CONTRASTIVE_ST_TEST_DEVICE=cpu
fi
out=${1:-gpu-results}
mkdir -p "$out"
export HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=true PYTHONPATH="$PWD/src${PYTHONPATH:+:$PYTHONPATH}"
began=$(date +%s) python=${PYTHON:-python}
status=0
timeout $longest "$python" -m pytest -m cuda tests/integration/test_cuda.py -p no:cacheprovider >"$out/tests.txt" 2>&1 || status=$?
tail -n 3 "$out/tests.txt"
"$python" benchmarks/gpu.py $smoke --out "$out" --tests "$status" --seconds $((longest + 290 - $(date +%s) + began))
exit "$status"
