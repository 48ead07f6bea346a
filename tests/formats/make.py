"""Makes the folders and the store in `made/` by the version of the package that runs it.

They were made once, at version 0.1.0 of 24 November 2026, and are not made again: `test_formats.py` opens them with the
code of today, which must give the same vectors, fingerprints and hits.

    bert/           BertForCL, mean pooling, a dense layer, Normalize, prompts, truncate_dim
    bert-onnx/      bert/ as `contrastive-st export --format onnx` writes it (made later, of the folder)
    lora/           an adapter of bert/ (its base is named relatively: "bert")
    quickthoughts/  QuickThoughtsGRU, two towers
    static/         StaticEncoder, stored in int8
    store.sql       a collection of eight documents in PostgreSQL, as pg_dump writes it (made later, in version 7)
    expected.json   vectors of the sentences (rounded), fingerprints, and the hits of a query
"""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from transformers import BertConfig

from contrastive_st import (
    AutoModelForCL,
    BertForCL,
    QuickThoughtsConfig,
    QuickThoughtsGRU,
    SentenceEncoder,
    StaticConfig,
    StaticEncoder,
    open_index,
    train_word_tokenizer,
    train_wordpiece,
)
from contrastive_st.cli import main
from contrastive_st.models import add_lora
from contrastive_st.search.postgres.server import EmbeddedServer, _binaries

sys.path.insert(0, str(Path(__file__).parents[1]))
from conftest import SENTENCES

MADE = Path(__file__).parent / "made"


def models():
    torch.manual_seed(0)
    words = train_wordpiece(SENTENCES * 4, 120, 24)
    config = BertConfig(
        vocab_size=len(words),
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=32,
    )
    dense = [{"out_features": 6, "bias": True, "activation": "Tanh"}]
    bert = BertForCL(
        config,
        pooling="mean",
        dense=dense,
        normalize=True,
        truncate_dim=5,
        prompts={"query": "the cat ", "document": "town: "},
    )
    yield "bert", bert, words
    tokens = train_word_tokenizer(SENTENCES * 4, 60, 24)
    yield (
        "quickthoughts",
        QuickThoughtsGRU(QuickThoughtsConfig(vocab_size=len(tokens), embedding_size=6, hidden_size=5)),
        tokens,
    )
    yield "static", StaticEncoder(StaticConfig(vocab_size=len(words), hidden_size=8)), words


def make():
    MADE.mkdir(exist_ok=True)
    expected = {"sentences": SENTENCES, "folders": {}}
    for name, model, tokenizer in models():
        options = {"storage": "int8"} if name == "static" else {}
        model.eval().save_pretrained(MADE / name, **options)
        tokenizer.save_pretrained(MADE / name)
    adapter = add_lora(AutoModelForCL.from_pretrained(MADE / "bert"), 2)
    with torch.no_grad():
        for key, weight in adapter.named_parameters():
            if "lora_B" in key:
                weight.add_(0.5)
    adapter.eval().save_pretrained(MADE / "lora")
    path = MADE / "lora" / "adapter_config.json"
    about = json.loads(path.read_text()) | {"base_model_name_or_path": "bert"}
    for name in ("bert", "quickthoughts", "static"):
        encoder = SentenceEncoder(MADE / name)
        expected["folders"][name] = {
            "fingerprint": encoder.fingerprint,
            "vectors": encoder.encode(SENTENCES).astype(float).round(6).tolist(),
        }
    vectors = SentenceEncoder(MADE / "lora").encode(SENTENCES)
    expected["folders"]["lora"] = {"vectors": vectors.astype(float).round(6).tolist()}
    path.write_text(json.dumps(about, indent=2))
    for left in MADE.rglob("README.md"):
        left.unlink()
    corpus, place = MADE / "docs.csv", Path(tempfile.mkdtemp())
    place.chmod(0o755)
    corpus.write_text("text,year\n" + "\n".join(f"{text},{1990 + i}" for i, text in enumerate(SENTENCES)) + "\n")
    options = [str(corpus), "--model", str(MADE / "static")]
    assert main(["index", *options, "--store", str(place / "store"), "--collection", "docs"]) == 0
    assert main(["index", *options, "--output", str(MADE / "shards")]) == 0
    query = SentenceEncoder(MADE / "static").encode("a cat and a dog")
    with open_index(place / "store", "docs") as index:
        hits = index.search(query[None], k=3)[0]
        expected["hits"] = [[hit.id, hit.text, hit.metadata, round(float(hit.score), 3)] for hit in hits]
    with EmbeddedServer(place / "store") as server:
        dump = [str(_binaries() / "pg_dump"), "--no-owner", "--no-acl", server.dsn]
        lines = subprocess.run(dump, check=True, capture_output=True, text=True).stdout.split("\n")
    left_out = ("\\restrict", "\\unrestrict", "--", "SET ", "SELECT pg_catalog.set_config")
    kept = "\n".join(line for line in lines if line and not line.startswith(left_out)) + "\n"
    (MADE / "store.sql").write_text(kept.replace(str(MADE), "made"))
    record = MADE / "shards" / "encoding.json"
    record.write_text(record.read_text().replace(str(MADE), "made"))
    shutil.rmtree(place)
    (MADE / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    make()
