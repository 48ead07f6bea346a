"""InferSent and the Universal Sentence Encoder: their formulas, their faults absent, and every loader."""

import itertools
import math

import numpy as np
import pytest
import torch
from plain import agree
from transformers import AutoModel

from conftest import save_both
from contrastive_st.data import word_tokenizer
from contrastive_st.models import (
    AutoModelForCL,
    InferSentBiLSTM,
    InferSentConfig,
    SentenceEncoder,
    UniversalConfig,
    UniversalSentenceEncoder,
)
from contrastive_st.tokens import name_number

WORDS = ["the", "cat", "sat", "on", "mat", "rain", "a", "dog", "ran"]
SENTENCES = ["the cat sat on the mat", "rain", "a dog ran", "unheard words here", ""]
IDS = torch.tensor([[2, 3, 4, 5, 6, 7], [7, 0, 0, 0, 0, 0], [8, 9, 10, 0, 0, 0], [0, 0, 0, 0, 0, 0]])
TASKS = {"near": {"loss": "targets", "targets": "next"}, "nli": {"loss": "softmax"}}


def infersent(**settings):
    return InferSentBiLSTM(InferSentConfig(len(WORDS) + 2, 5, 4), **settings).double()


def universal(encoder, **settings):
    config = UniversalConfig(
        len(WORDS) + 2, encoder, embedding_size=5, hidden_size=8, bigram_buckets=7, num_attention_heads=2,
        intermediate_size=12,
    )  # fmt: skip
    return UniversalSentenceEncoder(config, **settings).double()


def loop_lstm(model, words, suffix):
    lstm, state, cell, states = model.lstm, torch.zeros(4).double(), torch.zeros(4).double(), []
    get = lambda name: getattr(lstm, f"{name}_l0{suffix}")
    for word in words:
        gates = get("weight_ih") @ word + get("bias_ih") + get("weight_hh") @ state + get("bias_hh")
        i, f, g, o = gates.chunk(4)
        cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
        state = o.sigmoid() * cell.tanh()
        states.append(state)
    return states


def test_infersent_is_the_plain_loop_in_value_and_gradient():
    model = infersent()
    rows = []
    for ids in IDS:
        words = [model.word_embeddings.weight[i] for i in ids if i]
        if not words:
            rows.append(torch.zeros(8).double())
            continue
        forward, backward = loop_lstm(model, words, ""), loop_lstm(model, words[::-1], "_reverse")[::-1]
        both = [torch.cat(pair) for pair in zip(forward, backward, strict=True)]
        rows.append(torch.stack([max(state[k] for state in both) for k in range(8)]))
    loop, ours = torch.stack(rows), model(IDS, attention_mask=(IDS > 0).long()).pooler_output
    torch.testing.assert_close(ours, loop, rtol=1e-12, atol=1e-12)
    weights = torch.randn_like(ours)
    agree((ours * weights).sum(), (loop * weights).sum(), *model.lstm.parameters(), model.word_embeddings.weight)


def test_dan_is_the_plain_loop():
    model = universal("dan")
    network, rows = model.encoder, []
    for ids in IDS:
        ids = [int(i) for i in ids if i]
        found = [network.words.weight[i] for i in ids]
        for a, b in itertools.pairwise(ids):
            mixed = (a * 1_000_003 + b) * 2_654_435_761
            found.append(network.bigrams.weight[(mixed ^ (mixed >> 15)) % 7])
        mean = sum(found) / len(found) if found else torch.zeros(5).double()
        rows.append(network.layers[1](torch.relu(network.layers[0](mean))))
    loop, ours = torch.stack(rows), model(IDS, attention_mask=(IDS > 0).long()).pooler_output
    torch.testing.assert_close(ours, loop, rtol=1e-12, atol=1e-12)
    weights = torch.randn_like(ours)
    agree((ours * weights).sum(), (loop * weights).sum(), *model.parameters())
    assert not torch.equal(ours[0], model(IDS[:1].flip(1), attention_mask=torch.ones(1, 6)).pooler_output[0])


def test_the_transformer_sums_over_the_square_root_of_the_length():
    model = universal("transformer").eval()
    states = []
    hook = model.encoder.layers.register_forward_hook(lambda _, inputs, output: states.append(output))
    ours = model(IDS, attention_mask=(IDS > 0).long()).pooler_output
    hook.remove()
    for row, ids, own in zip(states[0], IDS, ours, strict=True):
        n = int((ids > 0).sum())
        loop = sum(row[:n], torch.zeros(8).double()) / math.sqrt(max(n, 1))
        torch.testing.assert_close(own, loop, rtol=1e-10, atol=1e-12)
        if n:
            alone = model(ids[None, :n], attention_mask=torch.ones(1, n)).pooler_output[0]
            torch.testing.assert_close(own, alone, rtol=1e-9, atol=1e-10)
    assert ours.isfinite().all()


@pytest.mark.parametrize("kind", ["infersent", "dan", "transformer"])
def test_a_checkpoint_has_the_heads_and_the_encoder_its_similarity(tmp_path, kind):
    model = infersent() if kind == "infersent" else universal(kind, loss="multi_task", tasks=TASKS)
    model, tokenizer = model.float(), word_tokenizer(WORDS)
    pairs, targets = IDS[:2].view(2, 1, 6).repeat(1, 2, 1), torch.tensor([0, 1])
    targets = targets if kind == "infersent" else torch.stack([torch.full((2,), name_number("nli")), targets], 1)
    model(pairs, attention_mask=(pairs > 0).long(), targets=targets).loss.backward()
    model.save_pretrained(tmp_path / "checkpoint")
    kept = AutoModelForCL.from_pretrained(tmp_path / "checkpoint")
    for name, weight in model.state_dict().items():
        assert torch.equal(kept.state_dict()[name], weight), name
    model.drop_heads()
    save_both(model, tokenizer, tmp_path / "finished")
    opened = AutoModel.from_pretrained(tmp_path / "finished")
    assert not hasattr(opened, "loss_head")
    encoder = SentenceEncoder(tmp_path / "finished")
    ours = torch.from_numpy(encoder.encode(SENTENCES[:3]))
    np.testing.assert_allclose(SentenceEncoder(model, tokenizer).encode(SENTENCES[:3]), ours, rtol=0, atol=1e-6)
    cosine = torch.nn.functional.cosine_similarity(ours[:, None], ours, dim=-1).clamp(-1, 1)
    expected = cosine if kind == "infersent" else 1 - cosine.arccos() / math.pi
    np.testing.assert_allclose(encoder.similarity(SENTENCES[:3], SENTENCES[:3]), expected, atol=1e-3)
    if kind != "infersent":
        torch.testing.assert_close(opened.similarity(ours, ours), expected, rtol=0, atol=1e-3)


def test_frozen_words_stay_frozen(tmp_path):
    model = InferSentBiLSTM(InferSentConfig(11, 5, 4, frozen_words=True))
    model.set_word_vectors(torch.ones(12, 5))
    assert not model.word_embeddings.weight.requires_grad
    assert model.word_embeddings.weight[0].abs().sum() == 0
    model.save_pretrained(tmp_path)
    again = InferSentBiLSTM.from_pretrained(tmp_path)
    assert again.config.vocab_size == 12
    assert not again.word_embeddings.weight.requires_grad
    with pytest.raises(ValueError, match="model"):
        model.set_word_vectors(torch.ones(12, 6))
