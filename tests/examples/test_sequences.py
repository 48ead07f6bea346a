"""Sequences: FASTA as it comes, k-mers in every reading frame, families with known homology, training on them."""

import doctest
import gzip
import itertools
import lzma

import numpy as np
import pytest
import torch
from small_checkpoints import tiny_bert
from transformers import AutoTokenizer

import sequence_families
import sequences
from contrastive_st.data import ContextWindowCollator, CooccurrenceCollator, DropoutPairCollator, PairCollator
from contrastive_st.errors import InputError
from contrastive_st.models import BertForCL
from sequence_families import CLASSES, exchanges, find_families, kmer_counting, make_families, write_fasta
from sequences import (
    ALPHABETS,
    FramePairCollator,
    kmer_tokenizer,
    overlapping,
    read_fasta,
    reading_frames,
    tokenize_frames,
)

DNA = "ACGTTGCAACGGTTAC"


@pytest.mark.parametrize("module", [sequences, sequence_families])
def test_examples_in_docstrings(module):
    found = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    assert found.attempted > 3
    assert found.failed == 0


# ------------------------------------------------------------------ FASTA


@pytest.mark.parametrize("packed", ["plain.fa", "packed.fa.gz", "packed.fa.xz"])
def test_fasta_as_it_comes(packed, tmp_path):
    text = "; an old comment\n>seq1 the first\r\nACGT acgt\r\n\r\nNNRY\n>seq2\nTTTT"
    opened = {".gz": gzip.open, ".xz": lzma.open}.get((path := tmp_path / packed).suffix, open)
    with opened(path, "wt", newline="") as file:
        file.write(text)
    found = list(read_fasta(path, "dna"))
    assert found == [("seq1", "the first", "ACGTACGTNNRY"), ("seq2", "", "TTTT")]


def test_proteins_may_end_in_a_stop(tmp_path):
    path = tmp_path / "protein.fa"
    path.write_text(">p\nMKV\nLW*\n>q\nMXB\n")
    assert [found.letters for found in read_fasta(path, "protein")] == ["MKVLW", "MXB"]
    path.write_text(">p\nMK*VL\n")
    with pytest.raises(InputError, match=r"line 2: '\*'|stop '\*' before its end"):
        list(read_fasta(path, "protein"))


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("ACGT\n", "dna", "line 1: not FASTA"),
        (">a\nACGT\n>b\n>c\nA\n", "dna", r"line 3: 'b' has no letters"),
        (">a\nAC-GT\n", "dna", "line 2: '-' is a gap"),
        (">a\nACGU\n", "dna", r"line 2: 'U' is not a letter of dna; is it rna or protein\?"),
        (">a\nACGT\nAC1T\n", "dna", "line 3: '1' is not a letter of dna; fix the file"),
        ("", "dna", "has no sequence"),
        (">a\nACGT\n", "genes", "choose one of dna, rna, protein"),
        (">a\nACÄ\n", "dna", "not ASCII text"),
    ],
)
def test_what_is_no_fasta(text, kind, words, tmp_path):
    path = tmp_path / "bad.fa"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(InputError, match=words):
        list(read_fasta(path, kind))


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        list(read_fasta(tmp_path / "none.fa", "dna"))
    broken = tmp_path / "broken.fa.gz"
    broken.write_bytes(gzip.compress(b">a\nACGT\n" * 99)[:-9])
    with pytest.raises(InputError, match="download"):
        list(read_fasta(broken, "dna"))


# ------------------------------------------------------------------ k-mers


@pytest.mark.parametrize("k", [1, 2, 3, 4, 6])
def test_every_frame_of_every_k(k):
    """ProtVec's code knows three frames, whatever k is."""
    tokenizer = kmer_tokenizer(k)
    assert len(tokenizer) == 5 + 4**k
    for frame in range(k):
        wanted = [DNA[i : i + k] for i in range(frame, len(DNA) - k + 1, k)]
        assert kmer_tokenizer(k, frame=frame).tokenize(DNA) == wanted
        assert tokenizer.tokenize(reading_frames(DNA, k)[frame]) == wanted
    every = [DNA[i : i + k] for i in range(len(DNA) - k + 1)]
    assert tokenizer.tokenize(overlapping(DNA, k)) == every
    together = itertools.chain(*(tokenizer.tokenize(text) for text in reading_frames(DNA, k)))
    assert sorted(together) == sorted(every)


@pytest.mark.parametrize("frame", [0, 2])
def test_auto_tokenizer_opens_it(frame, tmp_path):
    tokenizer = kmer_tokenizer(3, "protein", frame=frame, max_length=6)
    tokenizer.save_pretrained(tmp_path)
    again = AutoTokenizer.from_pretrained(tmp_path)
    texts = ["MKVLWAALLVTFLAGCQA", "mkvxwaa", "M", ""]
    ours = tokenizer(texts, truncation=True)["input_ids"]
    assert again(texts, truncation=True)["input_ids"] == ours
    assert [len(row) for row in ours] == [6, 4 if frame == 0 else 3, 2, 2]
    assert ours[0][0] == tokenizer.cls_token_id
    assert (tokenizer.unk_token_id in ours[1]) == (frame == 0 or "XWA" in "VXWAA")


def test_vocabulary_of_frequent_words():
    tokenizer = kmer_tokenizer(4, "protein", sequences=["MKVLMKVL", "MKVLX"], vocab_size=8)
    assert tokenizer.convert_ids_to_tokens(range(5, 8)) == ["MKVL", "KVLM", "LMKV"]
    assert tokenizer("MKVLXMKV")["input_ids"] == [2, 5, 1, 3]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"k": 3, "frame": 3}, "a frame from 0 to k - 1"),
        ({"k": 0}, "give a k of 1 or more"),
        ({"k": 5, "kind": "protein"}, "give sequences to learn"),
        ({"k": 3, "sequences": ["NN", "AC"]}, "no word of 3 letters"),
        ({"k": 3, "kind": "xna"}, "choose one of"),
    ],
)
def test_tokenizers_that_cannot_be(arguments, words):
    with pytest.raises(InputError, match=words):
        kmer_tokenizer(**arguments)


def test_two_frames_are_a_pair():
    tokenizer = kmer_tokenizer(3)
    letters = [s.letters for s in make_families("dna", families=8, members=2, length=30)]
    rows = tokenize_frames(letters, tokenizer, 3)
    frames = [[tuple(ids) for ids in row["input_ids"]] for row in rows]
    collator, drawn = FramePairCollator(tokenizer), set()
    for start in range(0, 16, 4):
        batch = collator(rows[start : start + 4])
        again = collator(rows[start : start + 4])
        assert torch.equal(batch["input_ids"], again["input_ids"])  # as a resumed run has it
        assert batch["input_ids"].shape[:2] == (4, 2)
        for i in range(4):
            both = zip(batch["input_ids"][i], batch["attention_mask"][i], strict=True)
            real = [tuple(ids[mask > 0].tolist()) for ids, mask in both]
            pair = tuple(frames[start + i].index(ids) for ids in real)
            assert pair[0] != pair[1]
            drawn.add(pair)
    assert len(drawn) > 3
    with pytest.raises(InputError, match="letters"):
        tokenize_frames(["ACGT"], tokenizer, 3)


# ------------------------------------------------------------------ every loss trains on them


@pytest.mark.parametrize("kind", ["dna", "protein"])
@pytest.mark.parametrize(
    ("settings", "collator"),
    [
        ({}, DropoutPairCollator),
        ({"symmetric": True}, FramePairCollator),
        ({}, PairCollator),
        ({"loss": "targets", "targets": "window"}, ContextWindowCollator),
        ({"loss": "targets", "targets": "counts"}, CooccurrenceCollator),
    ],
)
def test_every_loss_trains_on_sequences(kind, settings, collator, tmp_path):
    """From a FASTA file; contexts are neighbours in it, and the words shared are k-mers."""
    write_fasta(make_families(kind, families=4, members=3, length=40), tmp_path / "some.fa")
    letters = [sequence.letters for sequence in read_fasta(tmp_path / "some.fa", kind)]
    tokenizer = kmer_tokenizer(2, kind, max_length=24)
    frames = tokenize_frames(letters, tokenizer, 2)
    rows = (
        frames if collator in (FramePairCollator, PairCollator) else [{"input_ids": f["input_ids"][0]} for f in frames]
    )
    rows = [{**row, "document": i // 3, "position": i % 3} for i, row in enumerate(rows)]
    config = tiny_bert(tokenizer, intermediate_size=16, max_position_embeddings=24)
    model = BertForCL(config, **settings, pooling="mean").train()
    optimizer, batch = torch.optim.AdamW(model.parameters(), lr=3e-3), collator(tokenizer)(rows)
    losses = []
    for _ in range(20):
        losses.append(loss := model(**batch).loss)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert losses[-1] < 0.9 * losses[0]


# ------------------------------------------------------------------ families


def test_families_are_as_far_apart_as_asked():
    asked = {"families": 30, "members": 4, "length": 300, "substitution": 0.3, "conservative": 0.0, "indel": 0.0}
    made = make_families("dna", **asked)
    letters = np.array([list(sequence.letters) for sequence in made]).reshape(30, 4, 300)
    same = (letters[:, 0] == letters[:, 1]).mean()
    assert same == pytest.approx(0.7**2 + 3 * 0.1**2, abs=0.02)  # both kept, or both changed to the same
    assert (letters[0] == letters[1]).mean() == pytest.approx(0.25, abs=0.06)
    assert made == make_families("dna", **asked)
    assert made != make_families("dna", **asked, seed=1)


@pytest.mark.parametrize("kind", list(CLASSES))
def test_conservative_changes_stay_in_the_class_of_a_letter(kind):
    assert sorted("".join(CLASSES[kind])) == sorted(ALPHABETS[kind])
    made = make_families(kind, 40, 2, 300, substitution=1.0, conservative=1.0, indel=0.0)
    class_of = {letter: i for i, letters in enumerate(CLASSES[kind]) for letter in letters}
    pairs = [
        pair for a, b in zip(made[::2], made[1::2], strict=True) for pair in zip(a.letters, b.letters, strict=True)
    ]
    alone = {letter for letters in CLASSES[kind] if len(letters) == 1 for letter in letters}
    same = [class_of[a] == class_of[b] for a, b in pairs if not {a, b} & alone]
    assert np.mean(same) > (0.9 if alone else 0.9999)  # what was alone in its class is anything now
    rates = exchanges(kind, 0.8)
    assert rates.sum(1) == pytest.approx(1)
    assert not rates.diagonal().any()


def test_insertions_and_deletions_keep_the_length_on_average():
    made = make_families(families=60, members=4, length=200, substitution=0.0, indel=0.05)
    lengths = [len(sequence.letters) for sequence in made]
    assert np.mean(lengths) == pytest.approx(200, abs=3)
    assert np.std(lengths) > 4
    with pytest.raises(InputError, match="indel rate below"):
        make_families(indel=0.6)


def test_counting_finds_near_families_and_not_far_ones():
    near, far = (
        find_families(
            kmer_counting([s.letters for s in made], 4),
            {str(i): [s.letters for s in made[4 * i : 4 * i + 4]] for i in range(40)},
        )
        for made in (make_families("dna", 40, 4, 150, rate, 0.0) for rate in (0.05, 0.75))
    )
    assert near["mrr@10"] > 0.99
    assert far["mrr@10"] < 0.3  # at 0.75 nothing of the ancestor is left
