"""SentEval's files are read as SentEval means them, and faults are named with their place."""

import numpy as np
import pytest
from evaluation_files import write, write_all, write_sts

from contrastive_st import InputError
from contrastive_st.data.reading import MissingData
from contrastive_st.evaluation.datasets import senteval
from contrastive_st.evaluation.datasets.hub_sets import READERS
from contrastive_st.evaluation.datasets.senteval import read_lines
from contrastive_st.evaluation.scorers.probes import read_nli
from contrastive_st.text_format import reading_as

COUNTS = {"STS12": 3108, "STS13": 1500, "STS14": 3750, "STS15": 3000, "STS16": 1186}


def test_a_blank_gold_score_means_that_the_pair_is_not_scored(tmp_path):
    texts, gold = tmp_path / "texts.txt", tmp_path / "gold.txt"
    write(texts, ["a\tb", "c\td", "e\tf"])
    write(gold, ["1.5", "", "3"])
    with reading_as(decimal="comma"):  # of the tables of the user
        rows = senteval.read_sts_subset(texts, gold)
    assert rows.columns == (["a", "e"], ["b", "f"])
    assert rows.labels.tolist() == [1.5, 3.0]


def test_latin1_bom_crlf_quotes_and_odd_line_separators(tmp_path):
    path = tmp_path / "train_5500.label"
    path.write_bytes('DESC:manner Wh\xe9re is "it ?\r\nNUM:date When \x85 then ?\r\n'.encode("latin-1"))
    rows = senteval._read_trec(path)
    assert rows.columns[0] == ['Whére is "it ?', "When then ?"]  # U+0085 is white space, and no line end
    assert rows.labels.tolist() == [senteval.QUESTIONS.index("DESC"), senteval.QUESTIONS.index("NUM")]

    path.write_bytes(b'\xef\xbb\xbflabel\tq1\tq2\r\n1\t"Is it\twhy \xc3\xa9\r\n0\tx\ty"\r\n')
    rows = senteval.read_labelled(path)
    assert rows.columns == (['"Is it', "x"], ["why é", 'y"'])
    assert rows.labels.tolist() == [1, 0]
    assert read_lines(path)[0] == "label\tq1\tq2"


FAULTS = {
    "MRPC/msr_paraphrase_test.txt": (["head", "1\t2\t3\tonly"], r"test.txt, line 2: 4 columns"),
    "STS/STSBenchmark/sts-dev.csv": (["a\tb\tc\td\tlots\te\tf"], r"sts-dev.csv, line 1: 'lots' is not a number"),
    "STS/STSBenchmark/sts-test.csv": (["a\tb\tc\td\t1\te\tf", "a"], r"sts-test.csv, line 2: 1 column,"),
    "SST/binary/sentiment-dev": (["good\t1", "bad\t2"], r"sentiment-dev, line 2: '2' is none of 0, 1"),
    "STS/STS12-en-test/STS.gs.MSRpar.txt": (["1"] * 29, r"29 lines, and .* has 30"),
    "TREC/TREC_10.label": (["HUM:ind Who ?", "WHO:ind Who ?"], r"TREC_10.label, line 2: 'WHO' is none of ABBR"),
}


def read_every(root):
    for read in (senteval.read_mrpc, senteval.read_stsb, senteval.read_sst2, senteval.read_trec):
        read(root)
    senteval.read_sts(root, "STS12")


@pytest.mark.parametrize("path", FAULTS)
def test_damaged_files_are_named_with_the_line(tmp_path, path):
    read_every(write_all(tmp_path))
    lines, message = FAULTS[path]
    write(tmp_path / path, lines)
    with pytest.raises(InputError, match=message) as caught:
        read_every(tmp_path)
    assert not isinstance(caught.value, MissingData)


def test_missing_subsets_are_listed_and_missing_folders_are_missing_data(tmp_path):
    write_sts(tmp_path, "STS12", ["MSRpar", "MSRvid"])
    parts = senteval.read_sts(tmp_path, "STS12")
    assert set(parts) == {"MSRpar", "MSRvid"}
    assert parts.missing["SMTeuroparl"] == "STS.input.SMTeuroparl.txt is missing"
    with pytest.raises(MissingData, match=r"STS\.input"):
        senteval.read_sts(tmp_path, "STS13")


def test_polarity_files_come_in_sentevals_order(tmp_path):
    write(tmp_path / "p", ["three words here", "one", "two  words"])
    write(tmp_path / "n", ["uno", "dos palabras"])
    rows = senteval.read_polarity(tmp_path, "p", "n")["all"]
    assert rows.columns[0] == ["uno", "one", "dos palabras", "two words", "three words here"]
    assert rows.labels.tolist() == [0, 1, 0, 1, 1]


def test_a_premise_and_its_hypotheses_stay_on_one_side(tmp_path):
    lines = [
        f"premise {i // 3}\thypothesis {i}\t{('entailment', 'neutral', 'contradiction')[i % 3]}" for i in range(600)
    ]
    write(tmp_path / "pairs.tsv", ["premise\thypothesis\tlabel", *lines])
    parts = read_nli(tmp_path / "pairs.tsv")
    sides = [set(parts[name].columns[0]) for name in ("train", "dev", "test")]
    assert sum(map(len, parts.values())) == 600
    assert all(sides)
    assert len(set.union(*sides)) == sum(map(len, sides))


def test_hub_data_sets_give_the_same_parts(monkeypatch):
    import datasets

    def load_dataset(name, config=None, split=None, revision=None):
        if name == "sentence-transformers/stsb":
            return datasets.Dataset.from_dict({"sentence1": ["a  b"], "sentence2": ["c"], "score": [0.5]})
        if name == "SetFit/sst2":
            return datasets.Dataset.from_dict({"text": ["fine"], "label": [1]})
        if (name, config) == ("nyu-mll/glue", "sst2"):
            return datasets.Dataset.from_dict({"sentence": ["bad", "hidden"], "label": [0, -1]})
        raise ConnectionError("no route to the Hub\nand more")

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    stsb, sst2 = READERS["STSB"](), READERS["SST2"]()
    assert (stsb["dev"].columns, stsb["dev"].labels.tolist()) == ((["a b"], ["c"]), [2.5])
    assert [len(sst2[split]) for split in ("train", "dev", "test")] == [1, 1, 1]  # a hidden label is no label
    with pytest.raises(MissingData, match="cannot"):
        READERS["STS12"]()


@pytest.mark.data
def test_the_real_files_hold_what_papers_say(data_root):
    root = data_root / "senteval"
    for name in ("STS12", "STS14", "STS15"):
        parts = senteval.read_sts(root, name)
        assert sum(map(len, parts.values())) == COUNTS[name]
        assert not parts.missing
    for read, counts in (
        (senteval.read_stsb, {"train": 5749, "dev": 1500, "test": 1379}),
        (senteval.read_sick_relatedness, {"train": 4500, "dev": 500}),
        (senteval.read_mrpc, {"train": 4076, "test": 1725}),
        (senteval.read_trec, {"train": 5452, "test": 500}),
        (lambda root: senteval.read_qqp(root.parent / "qqp"), {"train": 7996, "test": 1999}),
    ):
        assert {name: len(rows) for name, rows in read(root).items()} == counts
    trec = senteval.read_trec(root)
    assert np.unique(trec["train"].labels).tolist() == [0, 1, 2, 3, 4, 5]
    assert any("ð" in text for text in trec["train"].columns[0])  # the one Latin-1 line
