"""Ordered and streamed corpora: documents, positions, blocks, and one line for bad input."""

import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from refusals import refusal
from small_files import put
from torch.utils.data import BatchSampler, DataLoader

from conftest import SENTENCES
from contrastive_st import InputError
from contrastive_st.data.corpus import BLOCK, BlockSampler, SentenceCorpus
from contrastive_st.data.reading.content import numbered_lines


def write(path, texts, documents, row_group_size=None, **columns):
    pq.write_table(pa.table({"text": texts, "doc": documents, **columns}), path, row_group_size=row_group_size)
    return path


def many(count, seed=0):
    """Sentences that differ, and documents of 1 to 9 of them."""
    random = np.random.default_rng(seed)
    words = " ".join(SENTENCES).split()
    texts = [" ".join(random.choice(words, random.integers(1, 6))) for _ in range(count)]
    documents = np.repeat(np.arange(count), random.integers(1, 10, count))[:count]
    return texts, documents


@pytest.mark.parametrize("row_group_size", [None, 700, 5])
def test_rows_are_those_of_a_plain_loop(tokenizer, tmp_path, row_group_size):
    count = 2 * BLOCK + 300 if row_group_size != 5 else 300
    texts, documents = many(count)
    for blank in (0, 3, 4, count - 1):
        texts[blank] = "  "
    texts[5] = None
    wanted, position = [], 0
    for i, (text, document) in enumerate(zip(texts, documents, strict=True)):
        position = position + 1 if i and documents[i - 1] == document else 0
        if text and text.strip():
            ids = tokenizer(text, truncation=True, max_length=6)["input_ids"]
            wanted.append({"input_ids": ids, "document": int(document), "position": position})
    corpus = SentenceCorpus(write(tmp_path / "a.parquet", texts, documents, row_group_size), tokenizer, 6)
    assert len(corpus) == len(wanted)
    assert corpus[len(corpus) - 1]["document"] + 1 == documents[-1] + 1
    order = np.random.default_rng(1).permutation(len(wanted)).tolist()
    assert corpus.__getitems__(order) == [wanted[i] for i in order]
    assert corpus[len(wanted) - 1] == wanted[-1]
    with pytest.raises(IndexError):
        corpus[len(wanted)]


def test_documents_of_several_files_stay_apart(tokenizer, tmp_path):
    one = write(tmp_path / "a.parquet", ["a cat", "a dog"], ["x", "x"])
    two = tmp_path / "b.txt"
    two.write_text("\n\nthe town\n   \n\nthe rain\nthe mat\n")
    three = write(tmp_path / "c.parquet", ["rain", "book"], ["x", "y"])
    corpus = SentenceCorpus([one, two, three], tokenizer, 8)
    places = [(row["document"], row["position"]) for row in corpus]
    assert places == [(0, 0), (0, 1), (1, 0), (2, 0), (2, 1), (3, 0), (4, 0)]
    assert tokenizer.decode(corpus[4]["input_ids"], skip_special_tokens=True) == "the mat"
    whole = SentenceCorpus(three, tokenizer, 8, document_column="")
    assert [(row["document"], row["position"]) for row in whole] == [(0, 0), (0, 1)]
    four = tmp_path / "d.parquet"
    pq.write_table(pa.table({"text": ["rain", "book"]}), four)
    assert [(row["document"], row["position"]) for row in SentenceCorpus(four, tokenizer, 8)] == [(0, 0), (0, 1)]


def test_a_file_is_converted_once_and_anew_when_it_changes(tokenizer, tmp_path, monkeypatch):
    path = write(tmp_path / "a.parquet", ["rain", "book"], [0, 0])
    SentenceCorpus(path, tokenizer, 8)
    with monkeypatch.context() as patch:
        patch.setattr("contrastive_st.data.corpus._write", None)
        SentenceCorpus(path, tokenizer, 8)
    write(path, ["rain", "book", "mat"], [0, 0, 1])
    assert len(SentenceCorpus(path, tokenizer, 8)) == 3


def test_one_file_read_with_and_without_its_documents(tokenizer, tmp_path):
    """A converted file is kept for each way to read it."""
    path = write(tmp_path / "a.parquet", ["rain", "book"], [0, 1])
    for column, count in (("", 1), (None, 2), ("doc", 2), ("", 1)):
        corpus = SentenceCorpus(path, tokenizer, 8, document_column=column)
        assert corpus[len(corpus) - 1]["document"] + 1 == count


@pytest.mark.parametrize("workers", [0, 2])
def test_the_sampler_makes_contiguous_batches_for_workers_too(tokenizer, tmp_path, workers):
    texts, documents = many(BLOCK + 70)
    corpus = SentenceCorpus(write(tmp_path / "a.parquet", texts, documents), tokenizer, 8)
    sampler = corpus.sampler(32, seed=3)
    loader = DataLoader(
        corpus, batch_size=32, sampler=sampler, drop_last=True, num_workers=workers, collate_fn=lambda rows: rows
    )
    every = corpus.__getitems__(range(len(corpus)))
    expected = [[every[i] for i in batch] for batch in BatchSampler(sampler, 32, drop_last=True)]
    assert list(loader) == expected


@pytest.mark.parametrize("batch", [6, 7])
def test_runs_come_from_everywhere_and_are_consecutive(tokenizer, tmp_path, batch):
    path = tmp_path / "text.txt"
    path.write_text("\n".join(f"word{i}" for i in range(60)))
    corpus = SentenceCorpus(path, tokenizer, 8, run_length=3)
    sampler = corpus.sampler(batch, seed=1)
    order = list(sampler)
    assert sorted(order) == list(range(60))
    runs = np.array(order).reshape(20, 3)  # the batch may cut them
    assert (np.diff(runs, axis=1) == 1).all()
    assert not (np.diff(runs[:, 0]) == 3).all()
    assert order == list(corpus.sampler(batch, seed=1)) != list(corpus.sampler(batch, seed=2))
    assert len(list(SentenceCorpus(path, tokenizer, 8).sampler(batch, seed=1))) == 60


@pytest.mark.parametrize("options", [{"run_length": 0}, {"run_length": 4, "shuffle_buffer": 100}])
def test_runs_are_not_empty_and_not_shuffled(tokenizer, tmp_path, options):
    path = tmp_path / "text.txt"
    path.write_text("a\nb")
    with pytest.raises(InputError, match="run_length"):
        SentenceCorpus(path, tokenizer, 8, **options)


def test_a_pickled_corpus_reads_the_same(tokenizer, tmp_path):
    texts, documents = many(100)
    corpus = SentenceCorpus(write(tmp_path / "a.parquet", texts, documents), tokenizer, 8, shuffle_buffer=50)
    again = pickle.loads(pickle.dumps(corpus))
    assert again[99] == corpus[99]
    assert list(again.sampler(4, 1)) == list(corpus.sampler(4, 1))


# ------------------------------------------------------------------ the order


@pytest.mark.parametrize(("rows", "block", "pool"), [(103, 10, 0), (100, 10, 0), (7, 10, 0), (1000, 16, 5)])
def test_every_row_comes_once_in_an_order_of_seed_and_epoch(rows, block, pool):
    orders = {}
    for seed in (0, 1):
        for epoch in (0, 1):
            sampler = BlockSampler(rows, block, seed, pool)
            sampler.set_epoch(epoch)
            orders[seed, epoch] = list(sampler)
            assert list(sampler) == orders[seed, epoch]
            assert sorted(orders[seed, epoch]) == list(range(rows))
            assert len(sampler) == rows
    if rows >= 100:
        assert len({tuple(order) for order in orders.values()}) == 4


def test_blocks_stay_whole_and_what_is_left_over_comes_last():
    order = list(BlockSampler(103, 10, seed=5))
    for first in range(0, 100, 10):
        assert order[first : first + 10] == list(range(order[first], order[first] + 10))
    assert sorted(order[first] % 10 for first in range(0, 100, 10)) == [order[0] % 10] * 10


def test_what_is_left_over_differs_from_epoch_to_epoch():
    sampler, last = BlockSampler(103, 10, seed=5), set()
    for epoch in range(20):
        sampler.set_epoch(epoch)
        last.update(list(sampler)[100:])
    assert last == {0, 1, 2, 100, 101, 102}


def test_a_pool_mixes_its_rows_and_no_others():
    order = np.array(list(BlockSampler(160, 10, seed=5, pool=4)))
    for first in range(0, 160, 40):
        pool = order[first : first + 40]
        assert len(set(pool // 10)) == 4
        assert not np.array_equal(pool, np.sort(pool))
        assert len(set(pool[:10] // 10)) > 1


@pytest.mark.parametrize(("rows", "pool"), [(99, 1), (99, 4), (130, 1), (250, 4)])
def test_no_row_of_a_pool_stays_beside_its_neighbours(rows, pool):
    order = np.array(list(BlockSampler(rows, 100, seed=5, pool=pool)))
    assert sorted(order) == list(range(rows))
    assert (np.diff(order) == 1).mean() < 0.05


# ------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        ("a.parquet", {"words": ["a"], "doc": [0]}, {}, "unknown column 'text'; choose one of words, doc"),
        ("a.parquet", {"text": ["a"]}, {"document_column": "story"}, "unknown column 'story'; choose one of text"),
        ("a.parquet", {"text": ["a"], "doc": [0]}, {"text_column": "doc"}, "'doc' is 0, not a text"),
        (
            "a.parquet",
            {"text": list("abcd"), "doc": [0, 0, 1, 0]},
            {},
            "row 4: document '0' continues after another one; sort the rows by 'doc'",
        ),
        ("a.parquet", {"text": list("ab"), "doc": [0, None]}, {}, "row 2: column 'doc' is empty; name the document"),
        ("a.parquet", {"text": ["", " "], "doc": [0, 1]}, {}, "at least one sentence"),
        ("a.parquet", {"text": pa.array([], pa.string()), "doc": pa.array([], pa.int64())}, {}, "every line is blank"),
        ("a.parquet", b"", {}, "the file is empty"),
        ("a.txt", b"", {}, "the file is empty"),
        ("a.txt", b"\n \n", {}, "every line is blank"),
        ("a.csv", b"text\n", {}, "every line is blank"),
        ("a.jsonl", b'{"text": "a", "doc": 1}\n7\n', {}, "line 2 is not an object"),
    ],
)
def test_a_bad_file_is_one_line(tokenizer, tmp_path, name, content, options, message):
    path = put(tmp_path, name, pa.table(content) if isinstance(content, dict) else content)
    with refusal(message, str(path)):
        SentenceCorpus(path, tokenizer, 8, **options)


def test_a_conversion_that_fails_leaves_nothing_behind(tokenizer, tmp_path, monkeypatch):
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    path = write(tmp_path / "a.parquet", ["a"] * 3, [0, 1, 0])
    with pytest.raises(InputError):
        SentenceCorpus(path, tokenizer, 8)
    assert [p.name for p in (tmp_path / "cache" / "contrastive_st").iterdir() if p.suffix != ".lock"] == []
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", path / "cache")
    with pytest.raises(InputError, match=r"a\.parquet/cache/.* cannot be written: .*; HF_HOME"):
        SentenceCorpus(path, tokenizer, 8)


def test_raw_text_in_another_encoding_is_read_with_a_line(tmp_path, caplog):
    (tmp_path / "a.txt").write_bytes(
        "Crème brûlée et café\r\n\r\nUne tarte à la crème très légère, déjà prête\r\n".encode("cp1252")
    )
    lines = list(numbered_lines(tmp_path / "a.txt"))
    assert lines == [(1, "Crème brûlée et café"), (2, ""), (3, "Une tarte à la crème très légère, déjà prête")]
    assert "not UTF-8: read as cp1252" in caplog.text


def test_the_splits_of_a_folder_that_are_not_read_are_logged_once(tokenizer, tmp_path, caplog):
    folder = put(tmp_path, "files", {"train.txt": "a cat\na dog\n", "validation.txt": "a mat\n"})
    assert [len(SentenceCorpus(str(folder), tokenizer, 8)) for _ in range(2)] == [2, 2]
    assert caplog.text.count("files: only split train is read, not validation") == 1
