"""The static encoder: its mean, its storages, its loaders, its closed form."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from refusals import error_of
from small_checkpoints import tokenizer_of_words
from transformers import AutoModel, AutoTokenizer

from contrastive_st import AutoModelForCL, ContrastiveTrainer, ContrastiveTrainingArguments, PairCollator, cli
from contrastive_st.errors import InputError
from contrastive_st.files.folders import SHIPPED
from contrastive_st.models import SentenceEncoder, static_encoder
from contrastive_st.models.architectures.static import StaticConfig
from contrastive_st.models.static_encoder import (
    StaticEncoder,
    StaticFit,
    count_rows,
    fit_static,
    int8_rows,
    silent_ids,
    static_tokenizer,
    token_prior,
)
from contrastive_st.scripts.arguments import EncoderArguments
from contrastive_st.scripts.encoder import open_encoder
from contrastive_st.static_vectors import StaticVectors

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "cat", "dog", "sat", "ran", "red", "blue", "a", "##s", "."]
TEXTS = ["the cat sat .", "", "a red dog ran", "zebra cats", "the the the cat", "zebra", "a " * 900 + "cat"]


@pytest.fixture
def folder(tmp_path, request):
    storage = getattr(request, "param", "float32")
    if storage == "shipped":
        return SHIPPED
    own = static_tokenizer(tokenizer_of_words(WORDS))
    table = np.random.default_rng(0).normal(size=(len(WORDS), 8))
    table[silent_ids(own)] = 0
    model = StaticEncoder.from_table(table)
    model.save_pretrained(tmp_path / "model", storage=storage)
    own.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def plain_means(folder):
    """The definition, word by word, in float64."""
    encoder = StaticVectors.from_pretrained(folder)
    table = encoder.embeddings.astype(np.float64)
    if encoder.weights is not None:
        table *= encoder.weights.astype(np.float64)[:, None]
    rows = []
    for text in TEXTS:
        total = np.zeros(table.shape[1])
        for number in encoder.tokenizer.encode(text, add_special_tokens=False).ids:
            total += table[number]
        rows.append(total / np.linalg.norm(total) if total.any() else total)
    return np.array(rows)


@pytest.mark.parametrize("folder", ["float32", "float16", "int8", "shipped"], indirect=True)
def test_every_loader_gives_the_same_vectors(folder):
    sentence_transformers = pytest.importorskip("sentence_transformers")
    model2vec = pytest.importorskip("model2vec")
    wanted = plain_means(folder)
    tolerance = 2e-3 if json.loads((folder / "config.json").read_text())["storage"] == "float16" else 1e-5
    close = lambda found, most=1e-5: np.testing.assert_allclose(found, wanted, atol=most)
    vectors = StaticVectors.from_pretrained(folder)
    close(vectors.encode(TEXTS))
    close(vectors.encode(TEXTS * 300)[-len(TEXTS) :])
    assert vectors.encode(["\ud800 cat"]).shape == (1, vectors.dimension)
    close(SentenceEncoder.from_pretrained(folder, device="cpu").encode(TEXTS))
    close(sentence_transformers.SentenceTransformer(str(folder), device="cpu").encode(TEXTS), tolerance)
    close(model2vec.StaticModel.from_pretrained(folder).encode(TEXTS, max_length=None), tolerance)
    batch = AutoTokenizer.from_pretrained(folder)(TEXTS, padding=True, return_tensors="pt", truncation=False)
    model = AutoModel.from_pretrained(folder)
    close(model(batch["input_ids"], attention_mask=batch["attention_mask"]).pooler_output.detach().numpy())


@pytest.mark.parametrize("layout", ["flat", "0_StaticEmbedding", "of another name", "in bfloat16"])
def test_vectors_of_sentence_transformers_are_copied_whole(layout, tmp_path):
    library = pytest.importorskip("sentence_transformers")
    model2vec = pytest.importorskip("model2vec")
    from sentence_transformers.sentence_transformer.modules import Normalize, StaticEmbedding

    table = np.random.default_rng(0).normal(size=(len(WORDS), 8)).astype(np.float32)
    modules = [StaticEmbedding(tokenizer_of_words(WORDS).backend_tokenizer, embedding_weights=table), Normalize()]
    peer = library.SentenceTransformer(modules=modules, device="cpu")
    (peer.bfloat16() if layout == "in bfloat16" else peer).save_pretrained(str(tmp_path / "peer"))
    place = {"flat": "", "in bfloat16": "", "0_StaticEmbedding": "0_StaticEmbedding"}.get(layout, "table")
    if place:
        (tmp_path / "peer" / place).mkdir()
        for name in ("model.safetensors", "tokenizer.json"):
            (tmp_path / "peer" / name).rename(tmp_path / "peer" / place / name)
        path = tmp_path / "peer" / "modules.json"
        path.write_text(path.read_text().replace('"path": ""', f'"path": "{place}"', 1))
    vectors, texts = StaticVectors.from_pretrained(tmp_path / "peer"), ["the cat sat .", "a red dog ran"]
    (tmp_path / "copy" / "0_StaticEmbedding").mkdir(parents=True)  # of another model, saved there before
    vectors.save_pretrained(tmp_path / "copy")
    opened = [StaticVectors.from_pretrained(tmp_path / "copy"), SentenceEncoder(tmp_path / "copy"),
              library.SentenceTransformer(str(tmp_path / "copy"), device="cpu")]  # fmt: skip
    if layout in ("flat", "0_StaticEmbedding"):
        opened.append(model2vec.StaticModel.from_pretrained(tmp_path / "copy"))
    SentenceEncoder(tmp_path / "peer").save_pretrained(tmp_path / "own")
    opened.append(SentenceEncoder(tmp_path / "own"))
    assert opened[-1].fingerprint == opened[0].fingerprint == vectors.fingerprint
    for encoder in opened:  # of which one adds up in bfloat16
        rounds = layout == "in bfloat16" and isinstance(encoder, library.SentenceTransformer)
        np.testing.assert_allclose(encoder.encode(texts), vectors.encode(texts), atol=5e-3 if rounds else 1e-6)


def test_a_copy_with_fewer_dimensions_by_model2vec_opens_everywhere(folder, tmp_path):
    model2vec = pytest.importorskip("model2vec")
    peer = model2vec.StaticModel.from_pretrained(folder, dimensionality=4)
    peer.save_pretrained(tmp_path / "small")
    encoder, wanted = SentenceEncoder(tmp_path / "small"), peer.encode(TEXTS[:4])
    np.testing.assert_allclose(encoder.encode(TEXTS[:4]), wanted, atol=1e-6)
    assert encoder.encode(TEXTS[0], output_value="token_embeddings").shape == (4, 4)
    np.testing.assert_allclose(encoder.encode(TEXTS[:4]), wanted, atol=1e-6)  # by torch
    model = AutoModelForCL.from_pretrained(tmp_path / "small")
    assert model.embedding_dim == 4
    encoder.save_pretrained(tmp_path / "again")
    np.testing.assert_allclose(SentenceEncoder(tmp_path / "again").encode(TEXTS[:4]), wanted, atol=1e-6)


def test_int8_is_near_float32():
    table = torch.randn(100, 64, generator=torch.Generator().manual_seed(0))
    values, scales = int8_rows(table)
    assert values.dtype == torch.int8
    assert torch.nn.functional.cosine_similarity(values * scales[:, None], table).min() > 0.999


@pytest.mark.parametrize("most", [10, 10**9])
def test_closed_form_is_the_ridge_regression(most, monkeypatch):
    """Against the normal equations written out, with every column centred, and the prior for words never met."""
    monkeypatch.setattr(static_encoder, "_MOST_ENTRIES", most)
    rng = np.random.default_rng(1)
    rows = [rng.integers(0, 9, size=rng.integers(1, 6)).tolist() for _ in range(200)]  # id 9 never occurs
    vectors = rng.normal(size=(200, 5))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    prior = rng.normal(size=(10, 5)) * 0.1
    x = np.zeros((200, 10))
    for number, row in enumerate(rows):
        for token in row:
            x[number, token] += 1 / np.sqrt(len(row))
    centred = vectors - vectors.mean(0)
    wanted = prior + np.linalg.solve(x.T @ x + 0.1 * np.eye(10), x.T @ (centred - x @ prior))
    fit = StaticFit(10, 5)
    fit.add(rows[:77], vectors[:77])  # in two parts: the sums are those of all
    fit.add(rows[77:], vectors[77:])
    found = fit.solve(prior, np.eye(5), 0.1, 60)
    np.testing.assert_allclose(found, wanted, atol=2e-4)
    np.testing.assert_allclose(found[9], prior[9], atol=1e-6)
    np.testing.assert_allclose(count_rows(rows, 10).toarray(), x, atol=1e-6)


def test_projection_holds_the_principal_directions():
    rng = np.random.default_rng(2)
    vectors = rng.normal(size=(500, 6)) * [5, 4, 3, 1, 1, 1] + 1
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    fit = StaticFit(3, 6)
    fit.add([[0]] * 500, vectors)
    _, wanted = np.linalg.eigh(np.cov(unit.T))
    cosines = np.abs(np.sum(fit.projection(3) * wanted[:, ::-1][:, :3], axis=0))
    np.testing.assert_allclose(cosines, 1, atol=1e-3)


def test_fit_copies_a_teacher_that_is_a_mean_of_words():
    rng = np.random.default_rng(3)
    own = static_tokenizer(tokenizer_of_words(WORDS))
    secret = rng.normal(size=(len(WORDS), 4))
    secret[silent_ids(own)] = 0
    texts = [" ".join(rng.choice(WORDS[4:12], size=rng.integers(1, 7))) for _ in range(3000)]

    def teacher(batch):
        ids = [own(text)["input_ids"] for text in batch]
        return np.array([secret[row].mean(0) if row else np.zeros(4) for row in ids])

    model, fitted = fit_static(teacher, iter(texts), tokenizer_of_words(WORDS), dim=4, batch_size=1000)
    found = SentenceEncoder(model, fitted).encode(texts[:200])
    gram, wanted = found @ found.T, teacher(texts[:200])
    wanted = (wanted / np.linalg.norm(wanted, axis=1, keepdims=True)) @ (
        wanted / np.linalg.norm(wanted, axis=1, keepdims=True)
    ).T
    assert np.corrcoef(gram.ravel(), wanted.ravel())[0, 1] > 0.75
    assert token_prior(teacher, own).shape == (len(WORDS), 4)


def test_the_prior_weighs_tokens_by_their_share_of_the_text():
    """SIF's weight `a / (a + p)` with p by Zipf's law, a share: the p of all tokens sum to one."""
    own = static_tokenizer(tokenizer_of_words(WORDS))
    vectors = np.random.default_rng(5).normal(size=(len(own), 6))
    found = token_prior(lambda batch: vectors, own)
    harmonic = sum(1 / rank for rank in range(1, len(own) + 1))
    units = [row / np.sqrt((row * row).sum()) for row in vectors]
    middle = sum(units) / len(units)
    for rank, (row, unit) in enumerate(zip(found, units, strict=True), 1):
        weight = 1e-4 / (1e-4 + 1 / rank / harmonic)
        np.testing.assert_allclose(row, weight * (unit - middle), rtol=1e-4, atol=1e-9)


@pytest.mark.parametrize(
    ("texts", "dim", "vectors", "message"),
    [([], 2, np.eye(2), "no texts"), (["cat"], 9, np.eye(1, 3), "dim.* 9"), (["cat"], 1, np.eye(1) * np.nan, "NaN")],
)
def test_bad_input_is_one_line(texts, dim, vectors, message):
    with pytest.raises(InputError, match=message):
        fit_static(lambda batch: vectors, texts, tokenizer_of_words(WORDS), dim=dim)


def test_what_is_no_static_model_is_told_in_a_line(tmp_path, folder):
    with pytest.raises(InputError, match="is missing"):
        StaticVectors.from_pretrained(tmp_path)
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(Exception, match="Model missing"):  # as tokenizers says it
        StaticVectors.from_pretrained(folder)
    with pytest.raises(InputError, match="unknown storage"):
        StaticEncoder(StaticConfig(vocab_size=4, hidden_size=2)).save_pretrained(tmp_path, storage="int4")


@pytest.mark.parametrize("folder", ["int8"], indirect=True)
def test_a_script_encodes_hashes_and_copies_without_torch(folder, tmp_path):
    """By the public name, to the bit what commands and indices compute."""
    code = (
        "import sys; from contrastive_st import SentenceEncoder, cli\n"
        "encoder = SentenceEncoder(sys.argv[1], truncate_dim=6)\n"
        "print(encoder.similarity('the cat', ['the cat sat', 'a dog']).tolist()[0])\n"
        "print(encoder.encode(['the cat', 'a dog']).tolist())\n"
        "plain, prompted = SentenceEncoder(sys.argv[1]), SentenceEncoder(sys.argv[1])\n"
        "prompted.prompts = {'query': 'the '}\n"
        "assert (prompted.encode_query(['cat']) == plain.encode(['the cat'])).all()\n"
        "assert prompted.fingerprint != plain.fingerprint\n"
        "plain.save_pretrained(sys.argv[2])\n"
        "assert SentenceEncoder(sys.argv[2]).fingerprint == plain.fingerprint\n"
        "from contrastive_st.device import peak_resident\n"
        "assert cli.main(['similarity', 'a cat sat', 'a feline rested']) == 0\n"
        "assert peak_resident() < 200 * 2**20\n"
        "too_much = {'torch', 'transformers', 'scipy', 'huggingface_hub', 'sklearn'} & set(sys.modules)\n"
        "assert not too_much, too_much\n"
    )
    command = [sys.executable, "-c", code, str(folder), str(tmp_path / "copy")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    similarities, vectors, printed = map(json.loads, done.stdout.splitlines())
    assert 0.2 < printed < 1
    wanted = StaticVectors.from_pretrained(folder).encode(["the cat", "a dog", "the cat sat"])[:, :6]
    assert np.array_equal(np.array(vectors, np.float32), wanted[:2])
    units = wanted / np.linalg.norm(wanted, axis=1, keepdims=True)
    np.testing.assert_allclose(similarities, units[0] @ units[[2, 1]].T, atol=1e-6)


@pytest.mark.parametrize("folder", ["float32", "float16", "int8"], indirect=True)
def test_the_vectors_are_the_same_bits_whoever_encodes(folder):
    """numpy encodes a table on a CPU: that of a folder, and that of its torch model."""
    light, encoder = StaticVectors.from_pretrained(folder), SentenceEncoder(folder)
    for texts in (TEXTS, TEXTS * 300):
        encoder, wanted = SentenceEncoder(folder), light.encode(texts)
        rows = encoder.token_rows(texts)
        found = [encoder.encode(texts), encoder.encode_rows(rows), *encoder.encode_buckets([(rows, "")])]
        assert isinstance(encoder._running, StaticVectors)
        assert isinstance(encoder.model, StaticEncoder)
        assert not isinstance(encoder._running, StaticVectors)
        found += [encoder.encode(texts), SentenceEncoder(encoder.model, encoder.tokenizer).encode(texts)]
        assert all(np.array_equal(vectors, wanted) for vectors in found)


def test_the_torch_model_of_a_folder_may_be_trained(folder):
    encoder = SentenceEncoder(folder)
    shared, before = SentenceEncoder(encoder, max_length=2), encoder.encode(TEXTS)
    encoder.model.embeddings.data *= torch.arange(8)
    assert np.abs(encoder.encode(TEXTS) - before).max() > 0.1
    np.testing.assert_array_equal(shared.encode(TEXTS[0]), encoder.encode("the cat"))
    encoder.model = StaticEncoder.from_table(np.eye(len(WORDS), 8))
    assert encoder.encode("[CLS]").shape == (8,)
    np.testing.assert_array_equal(shared.encode("the"), SentenceEncoder(shared).encode("the"))
    assert np.abs(shared.encode("the") - encoder.encode("the")).max() > 0.1
    marks = {shared.fingerprint, encoder.fingerprint}
    encoder.model.config.normalize = False
    assert len(marks | {encoder.fingerprint}) == 3


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("loss", ["info_nce", "cosent", "cosine_similarity"])
def test_a_text_without_a_known_token_takes_nothing_from_the_others(loss, normalize):
    table = torch.randn(8, 4, generator=torch.Generator().manual_seed(1))
    table[0] = 0  # the unknown token
    model = StaticEncoder.from_table(table, normalize, loss=loss)
    ids = torch.tensor([[[1, 2], [3, 4]], [[0, 0], [5, 6]], [[2, 3], [1, 6]]])
    targets = torch.tensor([1.0, 0.5, 0.0]) if loss.startswith("cos") else None
    model(ids, attention_mask=torch.ones_like(ids), targets=targets).loss.backward()
    largest = model.embeddings.grad.abs().amax(1)
    assert largest[0] == 0
    assert (largest[1:5] > 1e-4).all()  # tokens 5 and 6 are beside it
    assert largest.max() < 100  # by torch's normalize 1e12


@pytest.mark.parametrize("precision", ["fp32", "bf16", "auto"])
def test_no_precision_rounds_the_table(folder, precision):
    encoder = SentenceEncoder(folder, device="cpu", precision=precision)
    assert encoder.precision == "fp32"
    np.testing.assert_allclose(encoder.encode(TEXTS), plain_means(folder), atol=1e-5)


@pytest.mark.parametrize("length", [3, None])
def test_the_maximum_length_is_saved_for_every_loader(folder, tmp_path, length):
    sentence_transformers = pytest.importorskip("sentence_transformers")
    model2vec = pytest.importorskip("model2vec")
    encoder = SentenceEncoder(folder, max_length=3)
    encoder.encode(TEXTS)
    encoder.max_seq_length = length
    encoder.save_pretrained(tmp_path / "saved")
    assert (encoder.max_seq_length, SentenceEncoder(tmp_path / "saved").fingerprint) == (length, encoder.fingerprint)
    args = EncoderArguments(model_name_or_path=str(tmp_path / "saved"), max_length=length and 5)
    to_train, ids = open_encoder(args, [])
    assert SentenceEncoder(to_train, ids).max_seq_length == (length and 5)
    args_of_run = ContrastiveTrainingArguments(str(tmp_path / "trained"), report_to="none")
    ContrastiveTrainer(to_train, args_of_run, PairCollator(ids)).save_model()
    for name, wanted in (("saved", encoder), ("trained", SentenceEncoder(to_train, ids))):
        again = SentenceEncoder(tmp_path / name)
        assert again.max_seq_length == wanted.max_seq_length
        for other in (again, sentence_transformers.SentenceTransformer(str(tmp_path / name), device="cpu")):
            np.testing.assert_allclose(other.encode(TEXTS), wanted.encode(TEXTS), atol=1e-5)
        # it cuts characters too
        assert model2vec.StaticModel.from_pretrained(tmp_path / name).max_length == wanted.max_seq_length


def test_vectors_in_memory_are_an_encoder(folder, tmp_path):
    """With prompts, streams and a torch model, and the fingerprint of the vectors until those are trained."""
    vectors = StaticVectors.from_pretrained(folder)
    made = StaticVectors(vectors.embeddings, vectors.tokenizer, vectors.weights)
    encoder, wanted = SentenceEncoder(made), vectors.encode(TEXTS)
    np.testing.assert_array_equal(encoder.encode(TEXTS), wanted)
    [(_, streamed)] = encoder.encode_stream([TEXTS])
    np.testing.assert_allclose(streamed[:1], wanted[:1], atol=1e-6)
    before = encoder.fingerprint
    encoder.save_pretrained(tmp_path / "saved")  # opens the torch model
    np.testing.assert_allclose(SentenceEncoder(tmp_path / "saved").encode(TEXTS), wanted, atol=1e-6)
    assert encoder.fingerprint == before == vectors.fingerprint
    encoder.model.embeddings.data *= 2
    assert encoder.fingerprint != before


def test_the_device_of_the_command_line_holds_for_a_static_model_too(capsys, tmp_path, monkeypatch):
    """numpy encodes on the CPU; another device is torch's, and one that is not there is an error."""
    asked = ["similarity", "a cat", "a dog"]
    for device in ("nonsense", "cuda:77"):
        assert error_of(capsys, *asked, "--device", device).startswith(f"error: device {device}")
    assert cli.main([*asked, "--device", "cpu"]) == 0
    assert SentenceEncoder().device == torch.device("cpu")
    monkeypatch.setenv("CONTRASTIVE_ST_DEVICE", "nonsense")
    assert error_of(capsys, *asked).startswith("error: device nonsense")
    assert cli.main([*asked, "--device", "cpu"]) == 0
