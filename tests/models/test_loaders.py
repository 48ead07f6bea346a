"""One folder, three loaders: this package, plain transformers, plain sentence-transformers."""

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from conftest import SENTENCES
from contrastive_st import AutoModelForCL, BertForCL, SentenceEncoder
from contrastive_st.models import POOLINGS, pool


@pytest.mark.parametrize("mlp_only_train", [False, True])
@pytest.mark.parametrize("pooling", POOLINGS)
def test_every_loader_gives_the_same_embeddings(bert_config, tokenizer, tmp_path, pooling, mlp_only_train):
    sentence_transformers = pytest.importorskip("sentence_transformers")
    model = BertForCL(bert_config, pooling=pooling, mlp_only_train=mlp_only_train)
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    ours = SentenceEncoder(model, tokenizer).encode(SENTENCES)

    for opened in (BertForCL.from_pretrained(tmp_path), AutoModelForCL.from_pretrained(tmp_path)):
        np.testing.assert_allclose(SentenceEncoder(opened, tokenizer).encode(SENTENCES), ours, rtol=0, atol=1e-6)

    plain = AutoModel.from_pretrained(tmp_path).eval()
    batch = AutoTokenizer.from_pretrained(tmp_path)(SENTENCES, padding=True, return_tensors="pt")
    with torch.no_grad():
        output = plain(**batch)
    if pooling == "cls" and not mlp_only_train:
        embeddings = output.pooler_output
    else:  # plain transformers pools nothing but the first token: the rest is one call
        embeddings = pool(output.hidden_states or [output.last_hidden_state], batch["attention_mask"], pooling)
    np.testing.assert_allclose(embeddings.numpy(), ours, rtol=0, atol=1e-6)

    peer = sentence_transformers.SentenceTransformer(str(tmp_path), device="cpu")
    np.testing.assert_allclose(peer.encode(SENTENCES, show_progress_bar=False), ours, rtol=0, atol=1e-6)
    assert peer.max_seq_length == tokenizer.model_max_length
