#!/usr/bin/env bash
# A compiled model of OpenVINO that threads call gives them results of each other's inputs; and it keeps the input array,
# into which another request writes.
#
# Versions: openvino 2026.4.1, numpy 2.3.5, Python 3.11
# Expected: `compiled(inputs)` looks like a function; sessions of onnxruntime and modules of torch are called so from
#   several threads, and an input is only read. Here all callers share one request. Some calls that overlap raise "Infer
#   Request is busy"; others overwrite inputs and outputs of each other, with no error, and an encoder behind a thread
#   pool returns vectors of other texts. The request also holds the array of its last call, without a copy: if then a
#   request of `create_infer_request` runs, that array has the other's numbers. A lock around the call is right.
# Seen on 2026-11-30 (what this script printed):
#   an array of ones after a request for twos: [2.0, 2.0, 2.0]
#   calls with a lock: 0 of 400 results are wrong, 0 calls raise an error
#   calls: some of 400 results are wrong, some calls raise an error

set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile openvino==2026.4.1 numpy==2.3.5 || { echo "not installed"; exit 2; }
venv/bin/python -W ignore - <<'EOF'
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import openvino
from openvino import opset13 as ops

rows = ops.parameter([-1, 256], np.float32, name="rows")
result = rows
for seed in range(6):
    weights = np.random.default_rng(seed).normal(size=(256, 256)).astype(np.float32) / 16
    result = ops.tanh(ops.matmul(result, weights, False, False))
compiled = openvino.Core().compile_model(openvino.Model([result], [rows]), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})

ones, twos = np.full((3, 256), 1, np.float32), np.full((3, 256), 2, np.float32)
compiled({0: ones})
compiled.create_infer_request().infer({0: twos})
print(f"an array of ones after a request for twos: {ones[0, :3].tolist()}")

lock = threading.Lock()


def call(x):
    return np.array(compiled({0: x})[0])


def call_in_turn(x):
    with lock:
        return call(x)


inputs = [np.random.default_rng(i).normal(size=(8 + i % 5, 256)).astype(np.float32) for i in range(400)]
alone = [call(x) for x in inputs]
wrong = {}
for name, way in (("calls with a lock", call_in_turn), ("calls", call)):
    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(way, x.copy()) for x in inputs]
    errors = sum(future.exception() is not None for future in futures)
    pairs = [(a, future.result()) for a, future in zip(alone, futures, strict=True) if future.exception() is None]
    wrong[name] = sum(a.shape != b.shape or abs(a - b).max() > 1e-4 for a, b in pairs)
    few = lambda count: "some" if count else 0
    print(f"{name}: {few(wrong[name])} of 400 results are wrong, {few(errors)} calls raise an error")
if not (ones[0, 0] == 2 and wrong["calls with a lock"] == 0 < wrong["calls"]):
    sys.exit("changed: other results than stated")
EOF
