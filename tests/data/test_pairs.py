"""Readers of SNLI, MultiNLI, QQP, MRPC, STS and SICK as training data, from files laid out as those come."""

import datasets
import pytest

from contrastive_st.data import PAIR_SETS, LabelledPairCollator, read_examples, tokenize
from contrastive_st.errors import InputError

SICK = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n1\ta\tb\t4.5\tNEUTRAL\n"


KINDS = ("labelled_pairs", "scored_pairs")


def pairs_of(source, **options):
    return read_examples(source, kinds=KINDS, **options)[0]


def rows_of(source, **options):
    return [tuple(row.values()) for row in pairs_of(source, **options)]


def test_sick_has_a_label_and_a_score(tmp_path):
    path = tmp_path / "SICK_train.txt"
    path.write_text(SICK)
    assert rows_of(path) == [("a", "b", 1)]
    assert rows_of(path, columns=["sentence_A", "sentence_B", "relatedness_score"]) == [("a", "b", 0.875)]


def test_a_name_gives_the_scale_of_scores_which_they_must_need(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("sentence1,sentence2,sts_score\na,b,0\nc,d,2.5\n")
    rows, roles = read_examples(path)
    assert tuple(rows["score"]) == (0.0, 0.5)
    assert "sts_score is 0 to 5, which becomes 0 to 1" in str(roles)
    path.write_text("sentence1,sentence2,sts_score\na,b,0\nc,d,1\n")
    with pytest.raises(InputError, match="--score_range"):
        read_examples(path)
    assert tuple(read_examples(path, scale=(0, 1))[0]["score"]) == (0.0, 1.0)


NLI = ("SNLI", "MultiNLI")


@pytest.mark.parametrize("name", PAIR_SETS)
def test_names_of_the_hub(monkeypatch, name):
    asked = []

    def load(repository, config, split, revision=None):
        asked.append((repository, config, split, revision))
        first, second, gold = PAIR_SETS[name].columns
        value = {"score": 0.5, "relatedness_score": 3.0}.get(gold, 1)
        rows = [{first: "a", second: "b", gold: value, "id": 4}]
        if name in NLI:  # -1 stands for no label
            rows += [{first: "c", second: "d", gold: label, "id": 5} for label in (0, 2, -1)]
        return datasets.Dataset.from_list(rows)

    monkeypatch.setattr(datasets, "load_dataset", load)
    expected = [("a", "b", 0.5 if name in ("STSB", "SICK-R") else 1)]
    assert rows_of(name.lower(), split="dev") == expected + [("c", "d", 0), ("c", "d", 2)] * (name in NLI)
    assert asked[0][3] == PAIR_SETS[name].revision
    assert asked[0][2] == ("validation_matched" if name == "MultiNLI" else "validation")


def test_pairs_become_batches(tokenizer):
    pairs = datasets.Dataset.from_dict({"first": ["the cat", "a dog"], "second": ["rain", "he ran"], "label": [2, 0]})
    rows = tokenize(pairs, tokenizer, 16)
    batch = LabelledPairCollator(tokenizer)(list(rows))
    assert batch["targets"].tolist() == [2, 0]
    assert batch["input_ids"].shape[:2] == (2, 2)
    scores = rows.rename_column("label", "score")
    assert LabelledPairCollator(tokenizer)(list(scores))["targets"].tolist() == [2.0, 0.0]
    with pytest.raises(InputError, match="read_examples"):
        LabelledPairCollator(tokenizer)([{"input_ids": [[2], [3]]}])


@pytest.mark.data
@pytest.mark.parametrize(
    ("file", "count", "gold"),
    [
        ("nli/pairs.tsv", 74_474, {0, 1, 2}),
        ("qqp/quora_train.txt", 7_996, {0, 1}),
        ("senteval/MRPC/msr_paraphrase_train.txt", 4_076, {0, 1}),
        ("senteval/STS/STSBenchmark/sts-train.csv", 5_749, None),
        ("senteval/SICK/SICK_train.txt", 4_500, {0, 1, 2}),
    ],
)
def test_real_files(data_root, file, count, gold):
    pairs = pairs_of(data_root / file)
    assert len(pairs) == count
    if gold:
        assert set(pairs["label"]) == gold
    else:
        assert (min(pairs["score"]), max(pairs["score"])) == (0.0, 1.0)
