"""The script of Sentence-BERT: the columns of a file choose the loss, as in `train`."""

import json

import pytest
from refusals import refusal
from scripts import FEW, load

from conftest import SENTENCES
from contrastive_st.models import SentenceEncoder

TINY = [*FEW, "--hidden_size", "64", "--num_layers", "1", "--vocab_size", "100"]
LABELS = ["entailment", "neutral", "contradiction"]
TABLES = {
    "scored": ("question\tanswer\tscore", lambda i: i % 5 / 4, "cosine_similarity"),
    "labelled": ("premise\thypothesis\tlabel", lambda i: LABELS[i % 3], "softmax"),
    "triplets": ("anchor\tpositive\tnegative", lambda i: "the rain", "triplet"),
    "texts": ("text\tlabel", None, "cosine_similarity"),
}


def write(kind, folder):
    header, last, _ = TABLES[kind]
    pairs = [(f"{a} {i}", b) for i in range(3) for a in SENTENCES for b in SENTENCES[:3]]
    rows = [(a, i % 2) if last is None else (a, b, last(i)) for i, (a, b) in enumerate(pairs)]
    path = folder / f"{kind}.tsv"
    path.write_text("\n".join([header, *("\t".join(map(str, row)) for row in rows)]) + "\n")
    return ["--train_file", str(path), "--output_dir", str(folder / "out"), *TINY]


@pytest.mark.parametrize(
    ("script", "kind"), [*(("run_sbert", kind) for kind in TABLES), ("train", "triplets"), ("train", "texts")]
)
def test_the_columns_choose_the_loss(kind, script, tmp_path):
    given = [*write(kind, tmp_path), "--matryoshka_dims", "64", "16", "--pooling", "mean"]
    load(script).main(given[:-2] if script == "run_sbert" else given)
    encoder = SentenceEncoder(tmp_path / "out", truncate_dim=16)
    assert encoder.encode(SENTENCES).shape == (8, 16)
    assert not any("loss_head" in name for name in encoder.model.state_dict())
    settings = json.loads((tmp_path / "out" / "config.json").read_text())["contrastive"]
    loss = "info_nce" if (script, kind) == ("train", "triplets") else TABLES[kind][2]
    assert (settings["dims"], settings["inner"]["loss"]) == ([64, 16], loss)
    assert settings["pooling"] == "mean"


@pytest.mark.parametrize("loss", ["cosent", "angle"])
def test_scores_are_ranked_if_asked_for(loss, tmp_path):
    prompts = ["--prompts", "query=the cat ", "document=town: ", "--include_prompt", "false"]
    load("run_sbert").main([*write("scored", tmp_path), "--loss", loss, "--chunk_size", "3", *prompts])
    encoder = SentenceEncoder(tmp_path / "out")
    assert (encoder.prompts, encoder.checkpoint.include_prompt) == ({"query": "the cat ", "document": "town: "}, False)
    assert json.loads((tmp_path / "out" / "config.json").read_text())["contrastive"]["loss"] == loss


@pytest.mark.parametrize(
    ("kind", "flags", "words"),
    [
        ("scored", ["--loss", "softmax"], "does not train such rows; choose cosine_similarity, cosent, angle"),
        ("scored", ["--loss", "guess"], "guess"),
        ("labelled", ["--margin", "2"], "no setting margin"),
    ],
)
def test_what_cannot_be_trained_is_one_line(kind, flags, words, tmp_path):
    with refusal(words):
        load("run_sbert").main([*write(kind, tmp_path), *flags])
