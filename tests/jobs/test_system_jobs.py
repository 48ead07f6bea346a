"""The jobs of InferSent, Sentence-BERT and the Universal Sentence Encoder, from files to checkpoints that open."""

import json

import pytest
from contrastive_st.jobs import infersent_job as infersent
from contrastive_st.jobs import sbert
from contrastive_st.jobs import use as universal
from contrastive_st.jobs.docs_search import labelled_docs, triplets_of
from contrastive_st.jobs.job import split_by_first
from transformers import AutoModel

from conftest import SENTENCES
from contrastive_st.cli import main
from contrastive_st.data import DocPair
from contrastive_st.models import SentenceEncoder

COMMON = ["--max_steps", "3", "--per_device_train_batch_size", "4", "--report_to", "none", "--disable_tqdm", "true"]
COMMON += ["--logging_steps", "1", "--bf16", "false"]
LABELS = ["entailment", "neutral", "contradiction"]


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.delenv("CONTRASTIVE_ST_DATA", raising=False)
    pairs = [(f"{a} {i}", b) for i in range(3) for a in SENTENCES for b in SENTENCES[:3]]
    nli = ["premise\thypothesis\tlabel", *(f"{a}\t{b}\t{LABELS[i % 3]}" for i, (a, b) in enumerate(pairs))]
    sts = ["sentence1\tsentence2\tscore", *(f"{a}\t{b}\t{i % 5 / 4}" for i, (a, b) in enumerate(pairs))]
    triplets = ["anchor\tpositive\tnegative", *(f"{a}\t{b}\tthe rain" for a, b in pairs)]
    text = [*SENTENCES, "", *SENTENCES, "", *SENTENCES]
    for name, lines in {"nli.tsv": nli, "sts.tsv": sts, "triplets.tsv": triplets, "corpus.txt": text}.items():
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    return tmp_path


def test_infersent(files):
    figures = infersent.main(
        ["--train_file", str(files / "nli.tsv"), "--output_dir", str(files / "out"), "--hidden_size", "4",
         "--embedding_size", "5", "--head_hidden", "6", *COMMON]
    )  # fmt: skip
    assert {"eval_dev_accuracy", "eval_test_accuracy"} <= set(figures)
    assert not hasattr(AutoModel.from_pretrained(files / "out"), "loss_head")
    assert SentenceEncoder.from_pretrained(files / "out").encode(SENTENCES).shape == (8, 8)
    assert json.loads((files / "out" / "results.json").read_text())["after"] == figures


def test_sbert(files, capsys):
    named = [value for name in ("nli", "sts", "triplet") for value in (f"--{name}_file", str(files / f"{name}.tsv"))]
    named[-1] = str(files / "triplets.tsv")
    sbert.main(
        ["--output_dir", str(files / "out"), "--hidden_size", "64", "--vocab_size", "100", "--poolings", "mean", "max",
         *named, *COMMON]
    )  # fmt: skip
    assert len(list((files / "out").glob("*-m*"))) == 6
    for folder in (files / "out").glob("*-m*"):
        assert SentenceEncoder.from_pretrained(folder).encode(SENTENCES).shape == (8, 64)


@pytest.mark.parametrize("encoder", ["dan", "transformer"])
def test_universal_sentence_encoder(files, encoder):
    figures = universal.main(
        ["--corpus_file", str(files / "corpus.txt"), "--answer_file", str(files / "triplets.tsv"), "--nli_file",
         str(files / "nli.tsv"), "--output_dir", str(files / "out"), "--encoder", encoder, "--hidden_size", "8",
         "--task_weights", "1", "1", "1", *COMMON]
    )  # fmt: skip
    assert 0 <= figures["eval_nli_accuracy"] <= 1
    encoder = SentenceEncoder.from_pretrained(files / "out")
    assert encoder.encode(SENTENCES).shape == (8, 8)
    assert encoder.model.config.similarity == "angular"


def test_documentation_becomes_labelled_pairs():
    pairs = [DocPair(f"title {p} {i}", f"text {p} {i}", f"{p}.module{i // 3}.f{i}") for p in "ab" for i in range(7)]
    rows = labelled_docs(pairs)
    for first, second, label, score in zip(*(rows[name] for name in rows.column_names), strict=True):
        (_, p, i), (_, q, j) = first.split(), second.split()
        assert score == 1 - label / 2
        if label == 0:
            assert (p, i) == (q, j)
        elif label == 1:
            assert (p, int(i) // 3) == (q, int(j) // 3)
            assert i != j
        else:
            assert p != q
    assert rows["label"][:].count(1) == 12  # the seventh of each package is alone in its module
    triplets = triplets_of(rows)
    assert len(triplets) == 14
    assert all(
        a.split()[1:] == p.split()[1:] != n.split()[1:] for a, p, n in zip(*triplets.to_dict().values(), strict=True)
    )
    parts = split_by_first(rows)
    assert sum(map(len, parts)) == len(rows)
    assert not set(parts[0]["first"]) & set(parts[1]["first"]) | set(parts[0]["first"]) & set(parts[2]["first"])


TABLES = {
    "scored": ("question,answer,score", "cosine_similarity"),
    "labelled": ("premise,hypothesis,label", "softmax"),
    "triplets": ("anchor,positive,negative", "triplet"),
    "texts": ("text,label", "cosine_similarity"),
}


@pytest.mark.parametrize("kind", TABLES)
def test_train_takes_scores_and_labels_for_what_they_are(kind, tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("CONTRASTIVE_ST_DATA", raising=False)
    header, objective = TABLES[kind]
    last = {"scored": lambda i: i % 5 / 4, "labelled": lambda i: LABELS[i % 3], "triplets": lambda i: "the rain"}
    pairs = [(a, f"{b} {i}") for i in range(2) for a in SENTENCES for b in SENTENCES[:3]]
    rows = [(a, i % 2) if kind == "texts" else (a, b, last[kind](i)) for i, (a, b) in enumerate(pairs)]
    path = tmp_path / f"{kind}.csv"
    path.write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n")
    job = ["sbert"] if kind == "triplets" else []
    small = ["--hidden_size", "64", "--vocab_size", "100", *COMMON, "--output_dir", str(tmp_path / "out")]
    assert main(["train", *job, "--train_file", str(path), *small]) == 0
    encoder = SentenceEncoder.from_pretrained(tmp_path / "out")
    assert encoder.encode(SENTENCES).shape == (8, 64)
    recipe = json.loads((tmp_path / "out" / "training_metadata.json").read_text())
    assert objective in json.dumps(recipe)
    if not job:
        assert "contrastive-st train sbert" in capsys.readouterr().err


def test_simcse_does_not_train_scores_as_texts(tmp_path, capsys):
    (tmp_path / "t.csv").write_text("question,answer,score\nwhy,so,0.5\nwho,me,0.1\n")
    assert main(["train", "simcse", "--train_file", str(tmp_path / "t.csv"), "--output_dir", str(tmp_path / "o")]) == 2
    assert "--columns question answer" in capsys.readouterr().err
    assert main(["train", "--max_length", "8"]) == 2
    assert "give a job, --train_file" in capsys.readouterr().err


def test_scored_pairs_are_ranked_by_the_losses_asked_for(files, capsys):
    flags = ["--hidden_size", "64", "--vocab_size", "100", *COMMON, "--chunk_size", "3"]
    data = ["--train_file", str(files / "sts.tsv")]
    sbert.main([*data, "--losses", "cosent", "angle", "--matryoshka_dims", "64", "16", *flags, "--output_dir",
                str(files / "both")])  # fmt: skip
    for loss in ("cosent", "angle"):
        folder = files / "both" / f"{loss}-mean"
        contrastive = json.loads((folder / "config.json").read_text())["contrastive"]
        assert (contrastive["dims"], contrastive["inner"]) == ([64, 16], {"loss": loss, "temperature": 0.05})
        assert SentenceEncoder(folder, truncate_dim=16).encode(SENTENCES).shape == (8, 16)
    prompts = ["--prompts", "query=the cat ", "document=town: ", "--include_prompt", "false"]
    sbert.main([*data, "--losses", "cosent", *prompts, *flags, "--output_dir", str(files / "one")])
    encoder = SentenceEncoder(files / "one")
    assert encoder.encode_query(SENTENCES).shape == (8, 64)
    assert (encoder.prompts, encoder.recorded.include_prompt) == ({"query": "the cat ", "document": "town: "}, False)
    nli = ["--nli_file", str(files / "nli.tsv"), "--losses", "softmax", "--poolings", "mean"]
    sbert.main([*nli, "--matryoshka_dims", "64", "16", *flags, "--output_dir", str(files / "nli")])
    assert not any("loss_head" in name for name in SentenceEncoder(files / "nli" / "softmax-mean").model.state_dict())
    wrong = {"softmax": "does not train them, but cosine_similarity, cosent, angle", "guess": "choose from"}
    for losses, words in wrong.items():
        assert main(["train", "sbert", *data, "--losses", losses, *flags, "--output_dir", str(files / "bad")]) == 2
        assert words in capsys.readouterr().err
