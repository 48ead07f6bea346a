"""examples/run_sequences.py: generated families or a FASTA file, the pairs of it, and the baseline beside it."""

import json

import pytest
from scripts import load

from contrastive_st import InputError, SentenceEncoder
from sequence_families import make_families, write_fasta

TINY = ["--hidden_size", "16", "--max_length", "48", "--per_device_train_batch_size", "8", "--report_to", "none"]
TINY += ["--disable_tqdm", "true", "--bf16", "false"]


def train(folder, *flags):
    return load("run_sequences").main([*TINY, "--output_dir", str(folder), *flags])


@pytest.mark.parametrize("pairs", ["family", "frames", "dropout"])
@pytest.mark.parametrize("kind", ["protein", "dna"])
def test_every_kind_of_pairs_trains(pairs, kind, tmp_path, capsys):
    made = ["--families", "20", "--members", "3", "--length", "60", "--heldout", "4", "--kind", kind]
    train(tmp_path / "out", *made, "--pairs", pairs, "--max_steps", "2")
    assert SentenceEncoder.from_pretrained(tmp_path / "out").encode(["MKVLA", "ACGTA"]).shape == (2, 16)
    assert (tmp_path / "out" / "families.fasta").is_file()
    longer = "3-mers" if kind == "protein" else "6-mers"
    assert longer in capsys.readouterr().out
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert set(results["counting"]) == {"2-mers", longer}
    assert set(results["after"]) >= {"eval_mrr@10", "eval_recall@10"}
    about = json.loads((tmp_path / "out" / "training_metadata.json").read_text())
    assert about["data"]["name"] == "generated families of sequences"


def test_a_file_without_families_trains_on_reading_frames(tmp_path):
    alone = make_families("dna", families=12, members=1, length=60)
    write_fasta([record._replace(name=record.name.partition("|")[0]) for record in alone], tmp_path / "some.fa")
    flags = ["--fasta", str(tmp_path / "some.fa"), "--kind", "dna", "--k", "4"]
    assert train(tmp_path / "out", *flags, "--max_steps", "2") == {}
    with pytest.raises(InputError, match="members"):
        train(tmp_path / "two", *flags, "--pairs", "family")


def test_bad_input_is_one_clear_line(tmp_path):
    write_fasta(make_families("dna", 4, 2, 60), tmp_path / "genes.fasta")
    with pytest.raises(InputError, match="--kind"):
        train(tmp_path / "out", "--fasta", str(tmp_path / "genes.fasta"))
    with pytest.raises(InputError, match="'triples'"):
        train(tmp_path / "out", "--pairs", "triples")
