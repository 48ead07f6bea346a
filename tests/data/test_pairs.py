"""Readers of SNLI, MultiNLI, QQP, MRPC, STS and SICK as training data, from files laid out as those come."""

import datasets
import pytest

from contrastive_st.data import (
    PAIR_SETS,
    LabelledPairCollator,
    read_examples,
    tokenize,
)
from contrastive_st.errors import InputError

SNLI = "gold_label\tsentence1_parse\tsentence1\tsentence2\tpairID\n"
FILES = {
    "snli_1.0_train.txt": (
        SNLI + "neutral\t(A)\tA cat sat.\tIt slept.\t1\n-\t(A)\tA cat.\tA dog.\t2\ncontradiction\t(B)\tB\tC\t3\n",
        [("A cat sat.", "It slept.", 1), ("B", "C", 2)],
    ),
    "multinli_1.0_train.jsonl": (
        '{"gold_label": "entailment", "sentence1": "You\\u0020know", "sentence2": "Known", "genre": "x"}\n'
        '{"sentence2": "b", "sentence1": "a", "gold_label": "-"}\n',
        [("You know", "Known", 0)],
    ),
    "quora_train.txt": (
        'is_duplicate\tquestion1\tquestion2\r\n1\tHow, "so"?\tHow?\r\n0\tWhy?\tWho?\r\n',
        [('How, "so"?', "How?", 1), ("Why?", "Who?", 0)],
    ),
    "msr_paraphrase_train.txt": (
        '\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t7\t8\tHe said "no\n\tx'.replace("\n\tx", "\tShe said\n"),
        [('He said "no', "She said", 1)],
    ),
    "pairs.csv": ('first,second,score\n"Well, a",b,0.25\n', [("Well, a", "b", 0.25)]),
}
SICK = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n1\ta\tb\t4.5\tNEUTRAL\n"


KINDS = ("labelled_pairs", "scored_pairs")


def pairs_of(source, **options):
    return read_examples(source, kinds=KINDS, **options)[0]


def rows_of(source, **options):
    return [tuple(row.values()) for row in pairs_of(source, **options)]


@pytest.mark.parametrize("name", FILES)
def test_files_as_they_come(tmp_path, name):
    text, rows = FILES[name]
    (tmp_path / name).write_bytes(text.encode())
    assert rows_of(tmp_path / name) == rows


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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "premise\thypothesis\tlabel\na\tb\tneutral\na\tb\tmaybe\nc\td\tentailment\n",
            "row 3: 'maybe' in column 'label' is none of entailment",
        ),
        ("premise\thypothesis\tlabel\na\tb\n", "row 2: 2 cells where the header has 3"),
        ("premise\thypothesis\n", "at least one row"),
        ("premise\thypothesis\na\tb\n", "holds anchors and positives, not pairs with a class or pairs with a score"),
        ("premise\thypothesis\tlabel\na\tb\t-\n", "no row has a label"),
        ("sentence1\tsentence2\tscore\na\tb\t4.2\n", "row 2: '4.2' in column 'score' .* give the scale"),
        ("sentence1\tsentence2\tlabel\na\tb\t-7\n", "row 2: '-7' in column 'label' is not a class"),
        ("sentence1\tsentence2\tlabel\na\tb\t1\nc\td\tinf\n", "row 3: 'inf' in column 'label' is not a class"),
    ],
)
def test_what_cannot_be_read_says_where(tmp_path, text, message):
    path = tmp_path / "pairs.tsv"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        pairs_of(path)
    with pytest.raises(InputError, match="no such file"):
        pairs_of(tmp_path / "none.tsv")


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
