"""Neighbours from documents: which pairs there are, what is held out, and how batches are drawn."""

import copy
import itertools
import pickle
import random

import numpy as np
import pytest
import torch
from datasets import Dataset
from small_files import put

from contrastive_st.data import (
    CropPairCollator,
    Documents,
    NeighborPairCollator,
    NeighborPairs,
    TokenFile,
    in_documents,
    train_subword_tokenizer,
    word_tokenizer,
)
from contrastive_st.errors import InputError

WORDS = [f"w{i}" for i in range(400)]
SIZES = [3, 1, 2, 1500, 40, 700, 1, 9]


@pytest.fixture
def documents(tmp_path):
    """Documents of distinct sentences `w<i> w<j>`, larger and smaller than a block."""
    sentences = iter([f"w{i} w{j}" for i in range(400) for j in range(i % 7, i % 7 + 9)])
    return [[next(sentences) for _ in range(size)] for size in SIZES]


def written(folder, documents, kind):
    if kind == "txt":
        return put(folder, "text.txt", "\n\n".join("\n".join(own) for own in documents))
    rows = [{"text": text, "doc": f"d{i}"} for i, own in enumerate(documents) for text in own]
    return put(folder, f"text.{kind}", rows)


@pytest.mark.parametrize("kind", ["txt", "parquet", "jsonl"])
def test_each_sentence_is_paired_with_the_next_and_the_last_with_the_one_before(tmp_path, documents, kind):
    path = written(tmp_path, documents, kind)
    assert in_documents(path)
    tokenizer = word_tokenizer(WORDS)
    tokens = TokenFile.write(Documents.read([path], held_out=0), tokenizer, 8)
    pairs = NeighborPairs(tokens)
    wanted = [
        (own[i], own[i + 1] if i + 1 < len(own) else own[i - 1], number)
        for number, own in enumerate(documents) if len(own) > 1 for i in range(len(own))
    ]  # fmt: skip
    found = [(*(tokenizer.decode(ids) for ids in row["input_ids"]), row["document"]) for row in pairs]
    assert found == wanted
    order = np.random.default_rng(0).permutation(len(pairs)).tolist()
    again = pickle.loads(pickle.dumps(pairs)).__getitems__(order)  # as a worker process reads a batch
    assert [tokenizer.decode(row["input_ids"][1]) for row in again] == [wanted[i][1] for i in order]
    assert sorted(pairs.sampler(64, seed=3)) == list(range(len(pairs)))
    texts = [text.split() for own in documents if len(own) > 1 for text in own]
    place = {word: i for i, word in enumerate(tokenizer.convert_ids_to_tokens(range(len(tokenizer))))}
    for values, rows in ((tokens.counts, texts), (tokens.frequencies, [set(words) for words in texts])):
        counted = np.bincount([place[word] for words in rows for word in words], minlength=len(tokenizer))
        assert values.tolist() == counted.tolist()


def test_documents_of_several_files_are_distinct(tmp_path):
    """The last and the first document of two files are not one, and `held_out` counts over both."""
    files = []
    for name, words in (("a", "abcd"), ("b", "efgh")):
        files.append(tmp_path / f"{name}.txt")
        files[-1].write_text("\n\n".join(f"{word} one\n{word} two" for word in words))
    read = Documents.read(files, held_out=2, seed=1)
    assert len(read.sizes) == 8
    letters = "abcdefgh"
    for held in (False, True):
        blocks = list(read.sentences(held_out=held))
        numbers = [int(number) for _, some in blocks for number in some]
        assert [letters.index(text[0]) for texts, _ in blocks for text in texts] == numbers
        assert all(read.held_out[number] == held for number in numbers)
    rows = list(NeighborPairs(TokenFile.write(read, word_tokenizer([*letters, "one", "two"]), 8)))
    assert all(row["input_ids"][0][0] == row["input_ids"][1][0] for row in rows)  # the letter of the document
    assert len({row["document"] for row in rows}) == 8 - int(read.held_out.sum())


def test_what_is_held_out_is_not_trained_on(tmp_path, documents):
    repeated = [*documents[4][:20], *documents[5][:5]]  # sentences of other documents too
    path = written(tmp_path, [*documents, repeated, *([f"w{i} w{i} w{j}" for j in range(30)] for i in range(9))], "txt")
    read = Documents.read([path], held_out=100, seed=2)  # holds out the repeated sentences, not their first places
    trained, held = set(read.texts()), [text for texts, _ in read.sentences(held_out=True) for text in texts]
    assert trained.intersection(held)
    assert 0 < read.held_out.sum() < len(read.sizes) - 2
    pairs = read.neighbors()
    assert pairs
    assert not trained.intersection(text for pair in pairs for text in pair)
    assert len({second for _, second in pairs}) == len(pairs)
    followers = {(a, b) for own in [*documents, repeated] for a, b in itertools.pairwise(own)}
    assert all(pair in followers or pair[0].split()[0] == pair[1].split()[0] for pair in pairs)
    assert Documents.read([path], held_out=0).neighbors() == []


def test_too_few_documents(tmp_path):
    path = written(tmp_path, [["w1 w2", "w3 w4"], ["w5"], ["w6", "w7"]], "txt")
    with pytest.raises(InputError, match="documents"):
        Documents.read([path])


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.txt", "one\ntwo\n\n\n"), ("b.txt", "\n\none\ntwo"), ("c.jsonl", '{"text": "a"}\n'), 
     ("d.doc", "text,doc\na,1\n"), ("e.jsonl", "[1]\n"), ("f.txt", "")],
)  # fmt: skip
def test_what_is_no_text_in_documents(tmp_path, name, content):
    (tmp_path / name).write_text(content)
    assert not in_documents(tmp_path / name)


def test_files_of_documents_are_known_however_they_are_named(tmp_path):
    rows = [{"text": f"w{i} w{i % 7}", "doc": i // 3} for i in range(12)]
    files = [put(tmp_path, f"parts/{i}.jsonl", rows[6 * i : 6 * i + 6]) for i in range(2)]
    Dataset.from_list(rows).save_to_disk(tmp_path / "saved")
    for source in (files, tmp_path / "parts", str(tmp_path / "parts" / "?.jsonl"), [tmp_path / "saved"]):
        assert in_documents(source)
        assert Documents.read(source, held_out=0).sizes.tolist() == [3] * 4
    put(tmp_path, "parts/2.jsonl", [{"text": "w1"}])
    assert not in_documents(tmp_path / "parts")
    put(tmp_path, "parts/3.txt", "one\n\ntwo")
    assert not in_documents(tmp_path / "parts")


def test_documents_become_targets():
    collate = NeighborPairCollator(word_tokenizer(WORDS))
    rows = [{"input_ids": [[2, 3], [4]], "document": 4}, {"input_ids": [[5], [6]], "document": 0}]
    batch = collate(rows)
    assert batch["targets"].tolist() == [4, 0]
    assert batch["input_ids"].tolist() == [[[2, 3], [4, 0]], [[5, 0], [6, 0]]]


def test_crops_are_stretches_between_the_special_tokens(tokenizer):
    cls, sep = tokenizer.cls_token_id, tokenizer.sep_token_id
    texts = [[cls, *range(10, 30), sep], [cls, 7, sep], [cls, sep]]
    rows = [{"input_ids": ids} for ids in texts] * 20
    batch = CropPairCollator(tokenizer)(rows)
    again = CropPairCollator(tokenizer)(rows)
    assert torch.equal(batch["input_ids"], again["input_ids"])  # also in a resumed run
    lengths, starts, ends, differ = set(), set(), set(), 0
    for text, views, masks in zip(texts * 20, batch["input_ids"], batch["attention_mask"], strict=True):
        crops = [view[mask == 1].tolist() for view, mask in zip(views, masks, strict=True)]
        differ += crops[0] != crops[1]
        for crop in crops:
            inner = crop[1:-1]
            assert crop[0] == cls
            assert crop[-1] == sep
            assert not inner or text[text.index(inner[0]) :][: len(inner)] == inner
            if len(text) > 3:
                lengths.add(len(inner))
                starts.add(inner[0])
                ends.add(inner[-1])
            else:
                assert crop == text
    assert differ > 15
    assert {min(starts), max(ends)} == {10, 29}  # no token is out of reach
    assert min(lengths) >= 8
    assert max(lengths) <= 16
    assert len(lengths) > 5
    with pytest.raises(InputError, match="shares"):
        CropPairCollator(tokenizer, shares=(0.8, 1.4))


def test_a_vocabulary_of_any_script():
    letters, draw = [chr(c) for c in range(0x10D0, 0x10F0)], random.Random(0)
    words = ["".join(draw.choices(letters, k=draw.randint(2, 7))) for _ in range(60)]
    texts = [" ".join(draw.choices(words, k=8)) for _ in range(200)]
    tokenizer = train_subword_tokenizer(texts, 4000)
    assert tokenizer.tokenize(" ".join(words)) == words  # each word is one token
    assert tokenizer.unk_token_id not in tokenizer(words[0] + words[1])["input_ids"]  # and others are pieces
    with pytest.raises(InputError, match="no words"):
        train_subword_tokenizer([" "], 100)


def test_unknown_words_at_the_ends_of_a_text_are_cropped_too(tokenizer):
    cls, sep, unk = tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.unk_token_id
    row = {"input_ids": [cls, *[unk] * 4, 10, 11, *[unk] * 4, sep]}
    masks = CropPairCollator(tokenizer)([row] * 8)["attention_mask"]
    assert masks.sum(-1).max() <= 2 + 0.8 * 10
    one = copy.deepcopy(tokenizer)
    one.unk_token = one.sep_token  # as GPT-2 has one token for both
    ids = CropPairCollator(one)([{"input_ids": [cls, 10, 11, 12, sep]}])["input_ids"]
    assert (ids == sep).sum(-1).tolist() == [[1, 1]]


def test_crops_keep_the_prompt_before_the_text(tokenizer):
    row = {"input_ids": [2, 10, 11, *range(20, 30), 3], "prompt_length": 3}  # [CLS] and two tokens of a prompt
    batch = CropPairCollator(tokenizer)([row] * 8)
    crops = [ids[: mask.sum()].tolist() for ids, mask in zip(
        batch["input_ids"].flatten(0, 1), batch["attention_mask"].flatten(0, 1), strict=True)]  # fmt: skip
    assert all(crop[:3] == [2, 10, 11] and crop[-1] == 3 and 4 <= len(crop) - 4 <= 8 for crop in crops)
    assert batch["text_mask"][..., :3].sum() == 0
