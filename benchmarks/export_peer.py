"""The OpenVINO backend of sentence-transformers for `export.py`, which runs this file with another Python.

    pip install "sentence-transformers[openvino]"     # in an environment of its own: transformers below 5.6
    python benchmarks/export.py ... --peer THAT/bin/python

The first line of stdin has the model, a csv of calibration texts in a column `sentence`, a folder and the number of
threads. Each further line has the name of a precision, a JSON file of texts and a file for their vectors; the answer is
the seconds that `encode` took.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np
import torch
from sentence_transformers import SentenceTransformer, export_static_quantized_openvino_model

QUANTIZED = "openvino/openvino_model_qint8_quantized.xml"


def main() -> None:
    """Quantize the model with the defaults of sentence-transformers, and encode what is asked for."""
    source, calibration, folder, threads = json.loads(sys.stdin.readline())
    torch.set_num_threads(threads)
    settings = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY"}
    whole = SentenceTransformer(source, device="cpu", backend="openvino", model_kwargs={"ov_config": settings})
    if not Path(folder, QUANTIZED).exists():
        whole.save_pretrained(folder)
        rows = {"dataset_name": str(Path(calibration).parent), "dataset_config_name": "default"}
        rows |= {"dataset_split": "train", "column_name": "sentence"}
        export_static_quantized_openvino_model(whole, None, folder, **rows)
    half = {"ov_config": settings, "file_name": QUANTIZED}
    encoders = {
        "fp32": whole,
        "int8": SentenceTransformer(folder, device="cpu", backend="openvino", model_kwargs=half),
    }
    print("ready", flush=True)
    clock = time.process_time if threads == 1 else time.perf_counter
    for line in sys.stdin:
        precision, texts, vectors = json.loads(line)
        sentences = json.loads(Path(texts).read_text())
        started = clock()
        encoded = encoders[precision].encode(sentences, show_progress_bar=False)
        seconds = clock() - started
        np.save(vectors, encoded)
        print(json.dumps(seconds), flush=True)


if __name__ == "__main__":
    main()
