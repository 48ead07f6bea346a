"""examples/run_quickthoughts.py on a corpus of a page: what it trains, what it leaves behind, what it refuses."""

import numpy as np
import pytest
import torch
from scripts import load
from transformers import AutoModel, AutoTokenizer

from contrastive_st.errors import InputError
from contrastive_st.models import SentenceEncoder

SMALL = ["--embedding_size", "4", "--hidden_size", "6", "--per_device_train_batch_size", "16", "--max_steps", "3",
         "--logging_steps", "1", "--report_to", "none", "--disable_tqdm", "true", "--save_strategy", "no",
         "--bf16", "false"]  # fmt: skip
NOUNS, VERBS = ["cat", "dog", "town", "rain", "book", "road", "lamp"], ["saw", "left", "met", "found"]


@pytest.fixture
def corpus(tmp_path):
    random = np.random.default_rng(0)
    lines = [
        f"the {random.choice(NOUNS)} {random.choice(VERBS)} the {random.choice(NOUNS)}" + "\n" * (1 + (i % 5 == 4))
        for i in range(60)
    ]
    path = tmp_path / "corpus.txt"
    path.write_text("".join(lines))
    return path


def train(corpus, folder, *flags):
    small = SMALL[2:] if {"--word_vectors", "corpus"} & {*flags} == {"--word_vectors"} else SMALL  # a file has a size
    load("run_quickthoughts").main(["--train_file", str(corpus), "--output_dir", str(folder), *small, *flags])
    return folder


@pytest.mark.parametrize(
    "flags",
    [
        "next --encoder lstm",
        "window --context_size 2 --context_weights 1 0.5 --encoder bilstm",
        "window --row_loss block --encoder transformer --hidden_size 8",
        "next --reconstruction 0.5 --chunk_size 5",
        "tfidf_bin --chunk_size 5",
        "next --scores cosine --own_document mask --run_length 2 --encoder mean --towers 1 --word_vectors corpus "
        "--word_weights sif",
    ],
)
def test_every_kind_trains_and_opens_again(corpus, tmp_path, flags):
    folder = train(corpus, tmp_path / "out", "--targets", *flags.split())
    encoder = SentenceEncoder.from_pretrained(folder)
    loss = encoder.model.settings.loss
    assert getattr(loss, "inner", loss).targets == flags.split()[0]
    vectors = encoder.encode(["the cat saw the dog", "", "unknown words only"])
    assert np.isfinite(vectors).all()
    assert not vectors[1].any()
    tokens = AutoTokenizer.from_pretrained(folder)(["the cat saw the dog"], return_tensors="pt")
    with torch.no_grad():
        opened = AutoModel.from_pretrained(folder).eval()
        theirs = opened(tokens["input_ids"], attention_mask=tokens["attention_mask"]).pooler_output
    np.testing.assert_allclose(vectors[:1], theirs.numpy(), atol=1e-6)


def test_words_from_a_file_of_vectors_frozen(corpus, tmp_path):
    words = ["the", *NOUNS, *VERBS]
    vectors = np.random.default_rng(0).normal(size=(len(words), 5)).astype(np.float32)
    file = tmp_path / "vectors.txt"
    file.write_text("".join(f"{word} {' '.join(map(str, row))}\n" for word, row in zip(words, vectors, strict=True)))
    folder = train(corpus, tmp_path / "out", "--word_vectors", str(file), "--word_vectors_use", "frozen")
    encoder = SentenceEncoder.from_pretrained(folder)
    table = encoder.model.get_input_embeddings().weight.detach().numpy()
    np.testing.assert_array_equal(table[2:], vectors)
    assert encoder.tokenizer("the lamp")["input_ids"] == [2, 9]


def test_vectors_and_weights_of_the_corpus_are_what_training_starts_from(corpus, tmp_path):
    flags = ("--word_vectors", "corpus", "--word_weights", "sif", "--word_vectors_use", "frozen")
    model = SentenceEncoder.from_pretrained(train(corpus, tmp_path / "out", *flags)).model
    table = model.get_input_embeddings().weight.detach()
    torch.testing.assert_close(table[1:].norm(dim=1)[1:], torch.ones(len(table) - 2))
    words = SentenceEncoder.from_pretrained(tmp_path / "out").tokenizer.get_vocab()
    weights = model.word_weights
    assert 0 < weights[words["the"]] < weights[words["cat"]] < 1  # two of five words are "the"
    assert weights[words["the"]].item() == pytest.approx(0.001 / (0.001 + 0.4), abs=1e-6)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--context_size", "0"), "context_size 0: give a whole number of 1 or more"),
        (("--context_size", "40"), "smaller than a window"),
        (("--word_vectors_use", "frozen"), "needs a file of vectors"),
        (("--encoder", "elman"), "gru, lstm, transformer"),
        (("--targets", "bm25"), "tfidf_bin"),
        (("--scores", "euclidean"), "dot or cosine"),
        (("--run_length", "1"), "shorter than a window"),
        (("--word_weights", "idf"), "give sif"),
    ],
)
def test_bad_input_is_one_clear_line(corpus, tmp_path, flags, words):
    with pytest.raises(ValueError, match=words):
        train(corpus, tmp_path / "out", *flags)


def test_a_corpus_of_one_sentence_documents_is_refused(tmp_path):
    path = tmp_path / "corpus.txt"
    path.write_text("".join(f"the {noun} {verb}\n\n" for noun in NOUNS for verb in VERBS))
    with pytest.raises(InputError, match="documents"):
        train(path, tmp_path / "out", "--targets", "next")
