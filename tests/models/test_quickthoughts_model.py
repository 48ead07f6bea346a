"""The QuickThoughts encoder against plain torch: one sentence at a time, no packing, no padding."""

import pytest
import torch
from torch import nn

from contrastive_st.models.architectures.quickthoughts import (
    PackedGRU,
    PackedLSTM,
    Packing,
    QuickThoughtsConfig,
    QuickThoughtsModel,
)

KINDS = [
    {"encoder": "gru"},
    {"encoder": "gru", "bidirectional": True, "num_layers": 2},
    {"encoder": "lstm", "bidirectional": True},
    {"encoder": "transformer", "num_layers": 2},
    {"encoder": "transformer", "positions": "learned"},
    {"encoder": "mean", "embedding_size": 8},
]
KIND_NAMES = ["gru", "bigru2", "bilstm", "transformer", "learned", "mean"]
IDS = torch.tensor([[5, 6, 7, 0, 0], [0, 0, 0, 0, 0], [8, 0, 0, 0, 0], [9, 2, 3, 4, 5], [6, 5, 0, 0, 0]])


def make(**options):
    shape = {"vocab_size": 12, "embedding_size": 6, "hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 16}
    return QuickThoughtsModel(QuickThoughtsConfig(**{**shape, **options})).eval()


def gradients(model, loss):
    model.zero_grad()
    loss.backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def plain_rnn(module, rows):
    """torch's own module, sentence by sentence."""
    kind = nn.GRU if isinstance(module, nn.GRU) else nn.LSTM
    return torch.cat([kind.forward(module, row)[0] for row in rows])


# ------------------------------------------------------------------ the recurrence


@pytest.mark.parametrize("kind", [PackedGRU, PackedLSTM])
@pytest.mark.parametrize(("layers", "bidirectional"), [(1, False), (1, True), (2, False), (2, True)])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-6)])
def test_packed_is_torchs_own_in_value_and_gradient(kind, layers, bidirectional, dtype, tolerance):
    module = kind(6, 16, layers, bidirectional=bidirectional).to(dtype)
    mask = torch.tensor([[1, 1, 1, 0, 0], [0] * 5, [1, 0, 0, 0, 0], [0, 1, 1, 1, 1], [1, 1, 1, 1, 1]])
    words = torch.randn(5, 5, 6, dtype=dtype, requires_grad=True)
    weight = torch.randn(13, 32 if bidirectional else 16, dtype=dtype)
    packing = Packing(mask)
    found = packing.unpack(module(words.flatten(0, 1)[packing.source], packing))[mask > 0]
    ours = torch.autograd.grad((found * weight).sum(), [words, *module.parameters()])
    expected = plain_rnn(module, [words[i][mask[i] > 0] for i in (0, 2, 3, 4)])
    theirs = torch.autograd.grad((expected * weight).sum(), [words, *module.parameters()])
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)
    for mine, reference in zip(ours, theirs, strict=True):
        scale = reference.abs().max().item()
        torch.testing.assert_close(mine, reference, rtol=0, atol=tolerance * max(scale, 1))


# ------------------------------------------------------------------ the encoder


def plain_embedding(model, ids):
    """`[f; g]` (or f) of one sentence of ids, by torch's modules and written-out readouts."""
    config, found = model.config, []
    for which, tower in enumerate([model.f, model.g] if config.towers == 2 else [model.f]):
        width = config.embedding_size
        words = [model.frozen_embeddings(ids)] if config.word_vectors != "trained" else []
        if config.word_vectors != "frozen":
            start = 0 if config.shared_embeddings else which * width
            words.append(model.word_embeddings(ids)[:, start : start + width])
        words = torch.cat(words, 1)
        if config.word_weights:
            words = torch.stack([model.word_weights[i] * word for i, word in zip(ids, words, strict=True)])
        if config.encoder == "mean":
            states, directions = words, 1
        elif config.encoder == "transformer":
            states, directions = plain_transformer(tower.encoder, words, config), 1
        else:
            states, directions = plain_rnn(tower.encoder, [words]), 1 + config.bidirectional
        half = states.shape[1] // directions
        found.append(
            {
                "last": torch.cat([states[-1, :half], states[0, half:]]),
                "max": torch.stack([max(column) for column in states.unbind(1)]),
                "mean": sum(states) / len(states),
            }[config.readout]
        )
    return torch.cat(found)


def assert_plain(model):
    """Vectors and gradients are those of single sentences, and a row of no words adds to none; returns both."""
    embeddings = model(IDS, (IDS > 0).long()).pooler_output
    expected = torch.stack([plain_embedding(model, row[row > 0]) for row in IDS if row.any()])
    torch.testing.assert_close(embeddings[IDS.any(1)], expected)
    weight = torch.randn_like(embeddings)
    mine = gradients(model, (embeddings * weight).sum())
    torch.testing.assert_close(mine, gradients(model, (expected * weight[IDS.any(1)]).sum()))
    return embeddings, mine


def plain_transformer(encoder, words, config):
    x = encoder.norm(encoder.project(words))
    if config.positions == "learned":
        x = x + encoder.position_embeddings.weight[: len(x)]
    else:
        half = x.shape[1] // 2
        rate = [10000 ** (-i / half) for i in range(half)]
        table = [[t * r for r in rate] for t in range(len(x))]
        table = torch.tensor(table, dtype=torch.float64)
        x = x + torch.cat([table.sin(), table.cos()], 1).to(x.dtype)
    for layer in encoder.layers:
        query, key, value = layer.qkv(layer.norm(x)).chunk(3, -1)
        width = x.shape[1] // layer.heads
        heads = []
        for i in range(layer.heads):
            part = slice(i * width, (i + 1) * width)
            heads.append((query[:, part] @ key[:, part].T / width**0.5).softmax(-1) @ value[:, part])
        x = x + layer.out(torch.cat(heads, -1))
        x = x + layer.narrow(nn.functional.gelu(layer.widen(layer.inner_norm(x))))
    return encoder.last_norm(x)


@pytest.mark.parametrize("readout", ["last", "max", "mean"])
@pytest.mark.parametrize("kind", KINDS, ids=KIND_NAMES)
def test_embedding_is_the_plain_one_in_value_and_gradient(kind, readout):
    model = make(**kind, readout=readout).double()
    _, grads = assert_plain(model)
    assert grads.keys() == dict(model.named_parameters()).keys()


@pytest.mark.parametrize("encoder", ["gru", "mean"])
@pytest.mark.parametrize("shared", [False, True])
def test_one_tower_and_word_weights_are_the_plain_ones_too(encoder, shared, tmp_path):
    model = make(encoder=encoder, towers=1, shared_embeddings=shared, word_weights=True).double()
    model.set_word_vectors(torch.randn(12, 6, dtype=torch.float64))
    model.set_word_weights(torch.rand(12))
    embeddings, grads = assert_plain(model)
    assert embeddings.shape == (5, model.config.projection_dim) == (5, 8 if encoder == "gru" else 6)
    assert grads.keys() == dict(model.named_parameters()).keys()  # weights of words are not trained
    model.save_pretrained(tmp_path)
    again = QuickThoughtsModel.from_pretrained(tmp_path)
    assert torch.equal(again.word_weights, model.word_weights)
    model.resize_token_embeddings(15, mean_resizing=False)  # new words have a weight of 1
    torch.testing.assert_close(model(IDS, (IDS > 0).long()).pooler_output, embeddings)
    assert model.word_weights[12:].tolist() == [1, 1, 1]


def test_word_weights_are_of_every_word():
    with pytest.raises(ValueError, match=r"weights are \[3\]"):
        make(word_weights=True).set_word_weights(torch.ones(3))
    with pytest.raises(ValueError, match="word_weights"):
        make().set_word_weights(torch.ones(12))


@pytest.mark.parametrize(
    "words",
    [
        {"word_vectors": "frozen"},
        {"word_vectors": "multichannel"},
        {"word_vectors": "multichannel", "shared_embeddings": True},
        {"shared_embeddings": True},
    ],
    ids=str,
)
def test_word_tables(words):
    model = make(**words).double().train()
    table = torch.randn(12, 6, dtype=torch.float64)
    model.set_word_vectors(table)
    _, grads = assert_plain(model)
    table[0] = 0
    if model.config.word_vectors == "trained":
        assert torch.equal(model.word_embeddings.weight[:, :6], table)
    else:
        assert torch.equal(model.frozen_embeddings.weight, table)
        assert "frozen_embeddings.weight" not in grads
    if model.config.word_vectors != "frozen":
        assert grads["word_embeddings.weight"].abs().sum() > 0
        assert grads["word_embeddings.weight"].shape[1] == (6 if model.config.shared_embeddings else 12)


def test_separate_tables_start_apart_and_the_pad_row_stays_zero():
    model = make().train()
    assert not torch.equal(model.word_embeddings.weight[:, :6], model.word_embeddings.weight[:, 6:])
    assert 0.09 < model.word_embeddings.weight.abs().max() <= 0.1
    grads = gradients(model, model(IDS).pooler_output.square().sum())  # without a mask the pads are words
    assert not model.word_embeddings.weight[0].any()
    assert not grads["word_embeddings.weight"][0].any()


def test_word_vectors_of_another_length_or_width():
    model = make()
    model.set_word_vectors(torch.randn(20, 6))
    assert model.config.vocab_size == 20
    assert torch.equal(model.word_embeddings.weight[:, :6], model.word_embeddings.weight[:, 6:])
    model(torch.tensor([[19]]))
    with pytest.raises(ValueError, match="model"):
        model.set_word_vectors(torch.randn(20, 5))
    with pytest.raises(ValueError, match="model"):
        make(word_vectors="multichannel").set_word_vectors(torch.randn(20, 6))


@pytest.mark.parametrize("readout", ["last", "max", "mean"])
@pytest.mark.parametrize("kind", KINDS, ids=KIND_NAMES)
def test_padding_and_company_change_nothing(kind, readout):
    model = make(**kind, readout=readout)
    mask = (IDS > 0).long()
    embeddings = model(IDS, mask).pooler_output
    wide = model(nn.functional.pad(IDS, (3, 4), value=7), nn.functional.pad(mask, (3, 4))).pooler_output
    torch.testing.assert_close(wide, embeddings, rtol=0, atol=1e-6)
    alone = torch.cat([model(row[None], m[None]).pooler_output for row, m in zip(IDS, mask, strict=True)])
    torch.testing.assert_close(alone, embeddings, rtol=0, atol=1e-6)
    states = model(IDS, mask).last_hidden_state
    assert states.shape == (5, 5, 16)
    assert not states[mask == 0].any()
    assert states[mask == 1].abs().sum(-1).all()


@pytest.mark.parametrize("readout", ["last", "max", "mean"])
@pytest.mark.parametrize("kind", KINDS, ids=KIND_NAMES)
@pytest.mark.parametrize("shape", [(1, 4), (3, 0), (0, 0)], ids=str)
def test_no_words_at_all(kind, readout, shape):
    model = make(**kind, readout=readout).train()
    output = model(torch.zeros(shape, dtype=torch.long), torch.zeros(shape, dtype=torch.long))
    assert output.pooler_output.shape == (shape[0], 16)
    assert output.last_hidden_state.shape == (*shape, 16)
    assert not output.pooler_output.any()
    grads = gradients(model, output.pooler_output.sum())
    assert not any(grad.any() for grad in grads.values())


@pytest.mark.parametrize("kind", KINDS, ids=KIND_NAMES)
@pytest.mark.parametrize("readout", ["last", "max", "mean"])
def test_bf16(kind, readout):
    model = make(**kind, readout=readout)
    mask = (IDS > 0).long()
    exact = model(IDS, mask).pooler_output
    with torch.autocast("cpu", torch.bfloat16):
        near = model(IDS, mask).pooler_output
    gradients(model, near.float().square().sum())
    assert (near.float() - exact).abs().max() < 0.03
    assert all(p.grad.isfinite().all() for p in model.parameters())
    half = make(**kind, readout=readout).bfloat16()
    half.load_state_dict(model.state_dict())
    output = half(IDS, mask)
    assert output.pooler_output.dtype == torch.bfloat16
    assert (output.pooler_output.float() - exact).abs().max() < 0.05
    assert all(grad.isfinite().all() for grad in gradients(half, output.pooler_output.square().sum()).values())


@pytest.mark.parametrize("kind", KINDS, ids=KIND_NAMES)
def test_dropout_acts_with_one_layer_in_training_alone(kind):
    model = make(**{**kind, "num_layers": 1}, dropout=0.4, hidden_size=64)
    mask = (IDS > 0).long()
    assert torch.equal(model(IDS, mask).pooler_output, model(IDS, mask).pooler_output)
    model.train()
    first, second = model(IDS, mask).pooler_output, model(IDS, mask).pooler_output
    dropped = (first[IDS.any(1)] == 0).float().mean()
    assert 0.25 < dropped < 0.55  # of the readout
    kept = (first != 0) & (second != 0)
    assert not torch.allclose(first[kept], second[kept])  # the word vectors were dropped differently, too


def test_dropout_between_layers():
    model = make(num_layers=2, dropout=0.5)
    gru = model.f.encoder.train()
    words, packing = torch.randn(11, 6), Packing((IDS > 0).long())
    assert not torch.allclose(gru(words, packing), gru(words, packing))
    gru.eval()
    assert torch.equal(gru(words, packing), gru(words, packing))


def test_bad_settings():
    for bad, message in [
        ({"encoder": "rnn"}, "unknown encoder 'rnn'; choose one of gru, lstm, transformer"),
        ({"readout": "first"}, "unknown readout"),
        ({"towers": 3}, "unknown towers 3; choose one of 1, 2"),
        ({"encoder": "mean", "num_layers": 2}, "no directions and no layers"),
        ({"word_vectors": "glove"}, "unknown word_vectors"),
        ({"positions": "none"}, "unknown positions"),
        ({"hidden_size": 9, "bidirectional": True}, "hidden_size 9 cannot be split"),
        ({"encoder": "transformer", "hidden_size": 10, "num_attention_heads": 4}, "hidden_size 10 cannot be split"),
    ]:
        with pytest.raises(ValueError, match=message):
            QuickThoughtsConfig(**bad)
    model = make(encoder="transformer", positions="learned", max_position_embeddings=4)
    with pytest.raises(ValueError, match="positions"):
        model(IDS)
